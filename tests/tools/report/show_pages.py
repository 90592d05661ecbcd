#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages in one headless browser, as people do: what they show is the figures; they ask nobody for
anything and complain of nothing; wide and narrow, light and dark, by keys.

    show_pages.py FOLDER PICTURES BROWSER [SPEEDSCOPE]

FOLDER has pages of dao report, NAME.html, with their figures, NAME.json; profiles, NAME.flame, and traces,
NAME.trace, each with what Speedscope has to show of it, NAME.words: a line for what it calls the whole, and
lines of its table. SPEEDSCOPE is the folder of its release. Pictures of all go to PICTURES."""
import base64
import json
import pathlib
import sys

from browser import Browser
from check_report import check_shown, expect

WIDE, NARROW, HEIGHT = 1400, 420, 1000
LEAST_FONT_PX = 11
PAGE_BYTES = 5_000_000  # docs/report.md: also with a million events

# What is cut off, too wide or too small, in words.
FAULTS = """(() => {
  const faults = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth) faults.push(`the page is ${root.scrollWidth} wide`);
  for (const each of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(each), text = each.textContent.slice(0, 40);
    const hasText = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
    if (!hasText || each.getClientRects().length === 0 || each.tagName === "SCRIPT") continue;
    if (parseFloat(style.fontSize) < %d) faults.push(`small: ${text}`);
    if (style.display === "inline" || each.title !== "") continue;
    if (each.scrollWidth > each.clientWidth + 1) faults.push(`cut off: ${text}`);
  }
  return faults.slice(0, 8);
})()""" % LEAST_FONT_PX

# The ground of the page, and of its first canvas, as red, green, blue.
GROUNDS = """(() => {
  const page = getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number);
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(document.querySelector("canvas"), 0, 0);
  return [page, [...copy.getImageData(2, 2, 1, 1).data].slice(0, 3)];
})()"""

ROWS = """[...document.querySelectorAll("tr")].map((row) => [...row.cells]
  .map((cell) => cell.innerText.trim()))"""


def picture(page, path):
    """One that is blank is packed to a few kilobytes."""
    page.drawn()
    page.picture(path)
    expect(path.stat().st_size > 10000, f"{path}: {path.stat().st_size} bytes, as if it were blank")


def check_looks(page, name, pictures):
    for width in (NARROW, WIDE):
        page.resize(width, HEIGHT)
        page.drawn()
        faults = page.value(FAULTS)
        expect(not faults, f"{name}, {width} pixels wide: {faults}")
        if width == NARROW:
            picture(page, pictures / f"report_{name}_narrow.png")
    light, canvas = page.value(GROUNDS)
    expect(light == canvas and min(light) > 200, f"{name}: light is {light}, {canvas}")
    page.colours(is_dark=True)
    page.drawn()
    dark, canvas = page.value(GROUNDS)
    expect(dark == canvas and max(dark) < 60, f"{name}: dark is {dark}, {canvas}")
    picture(page, pictures / f"report_{name}_dark.png")


def check_keys(page, name):
    """The picture of memory over time by keys alone."""
    for _ in range(20):
        page.key("Tab")
        if page.value("document.activeElement.tagName") == "CANVAS":
            break
    expect(page.value("document.activeElement.getAttribute('aria-label')") == "memory over time",
           f"{name}: Tab does not come to the picture")
    drawing = "document.activeElement.toDataURL()"
    cursor = "document.querySelector('article h3[aria-live]').textContent"
    begin, at_peak = page.value(drawing), page.value(cursor)
    expect(at_peak.startswith("At the peak: "), f"{name}: {at_peak}")
    page.key("ArrowLeft")
    page.key("ArrowLeft")
    expect(page.value(cursor).startswith("At the cursor: "), f"{name}: the cursor stays at the peak")
    page.key("p")
    expect(page.value(cursor) == at_peak and page.value(drawing) == begin, f"{name}: P is not the peak")
    page.key("+")
    expect(page.value(drawing) != begin, f"{name}: + does not zoom")
    page.key("0")
    expect(page.value(drawing) == begin, f"{name}: 0 does not show all again")


def check_page(browser, path, pictures):
    figures = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    expect(path.stat().st_size < PAGE_BYTES, f"{path.stem}: {path.stat().st_size} bytes")
    with browser.open(path.as_uri(), WIDE, HEIGHT) as page:
        page.wait("document.body && document.body.dataset.state")
        check_shown(page.value("document.documentElement.outerHTML"), figures)
        shown_ms = page.value("performance.getEntriesByName('shown')[0].startTime")
        picture(page, pictures / f"report_{path.stem}.png")
        check_keys(page, path.stem)
        check_looks(page, path.stem, pictures)
        expect(page.requests() == [path.as_uri()], f"{path.stem} asks for {page.requests()}")
        expect(not page.complaints(), f"{path.stem}: {page.complaints()}")
    print(f"{path.stem}: {path.stat().st_size} bytes, shown after {shown_ms:.0f} ms")


def check_scope(browser, path, release, pictures):
    """Speedscope opens a file as its own command has it do, and lists what is in it."""
    loader = path.with_suffix(".js")
    text = base64.b64encode(path.read_bytes()).decode()
    loader.write_text(f'speedscope.loadFileFromBase64("{path.name}", "{text}")', encoding="utf-8")
    url = (release / "index.html").as_uri() + "#localProfilePath=" + loader.as_posix()
    whole, *words = path.with_suffix(".words").read_text(encoding="utf-8").splitlines()
    with browser.open(url, WIDE, HEIGHT) as page:
        page.wait(f"document.body && document.body.innerText.includes({json.dumps(whole)})")
        picture(page, pictures / f"{path.stem}_speedscope.png")
        page.key("3")  # the table of all frames
        page.wait("document.querySelector('td') !== null")
        rows = [row for row in page.value(ROWS) if "%" in row[0]]
        text = "\n".join(" | ".join(row) for row in rows)
        for word in words:
            expect(any(word in row for row in rows), f"{path.name}: {word!r} is not listed:\n{text}")
        if path.suffix == ".trace":  # nothing is called by a kernel
            for total, own, name in rows:
                expect(total == own, f"Speedscope draws others inside of {name}: {own} of {total}")
        errors = [each for each in page.complaints() if "exceptionDetails" in each
                  or "error" in (each.get("type"), each.get("entry", {}).get("level"))]
        expect(rows and not errors, f"{path.name}: {errors}")
    print(f"{path.name}: Speedscope shows {whole!r} and {len(rows)} rows")


def main(folder, pictures, program, speedscope=None):
    folder, pictures = pathlib.Path(folder).resolve(), pathlib.Path(pictures)
    pages = sorted(folder.glob("*.html"))
    expect(pages, "there is no page")
    with Browser(program) as browser:
        for path in pages:
            check_page(browser, path, pictures)
        scopes = sorted([*folder.glob("*.flame"), *folder.glob("*.trace")]) if speedscope else []
        for path in scopes:
            check_scope(browser, path, pathlib.Path(speedscope).resolve(), pictures)


if __name__ == "__main__":
    main(*sys.argv[1:])
