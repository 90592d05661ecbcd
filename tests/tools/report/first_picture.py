#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a page takes to its first picture: from the navigation until all canvases are drawn and the
browser has made a frame of them. Prints the least and the most of several openings, and the least time of CPU
that the page's thread took, which no load changes much.

    first_picture.py PAGE [BROWSER [COUNT]]       (default: chromium-headless-shell 8)"""
import pathlib
import sys

from browser import Browser


def open_once(browser, url):
    """Returns milliseconds from the navigation to the frame, and milliseconds of CPU."""
    with browser.open(url) as page:
        page.call("Performance.enable", timeDomain="threadTicks")
        page.wait("document.body && document.body.dataset.state === 'shown'")
        page.drawn()
        framed_ms = page.value("performance.now()")
        cpu = {each["name"]: each["value"] for each in page.call("Performance.getMetrics")["metrics"]}
        return framed_ms, cpu["TaskDuration"] * 1000


def main(path, program="chromium-headless-shell", count=8):
    url = pathlib.Path(path).resolve().as_uri()
    with Browser(program) as browser:
        times = [open_once(browser, url) for _ in range(int(count))]
    framed, cpu = zip(*times)
    print(f"first picture after {min(framed):.0f} to {max(framed):.0f} ms, {min(cpu):.0f} ms of CPU at least")


if __name__ == "__main__":
    main(*sys.argv[1:])
