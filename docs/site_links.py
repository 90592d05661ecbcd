#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mends the links of the site that Doxygen makes of the docs, and fails if one is left that leads nowhere.

A link to a file of the tree leads to its page; to a part of a page, x.md#part, to the heading that GitHub
gives this name; where the site has no page of a file, its words stay without a link.

Usage: docs/site_links.py SITE ; in the root of the tree, after doxygen."""
import html
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

LINK = re.compile(r'<a (?:class="el" )?href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
HEADING = re.compile(r'<h[1-6][^>]*><a class="anchor" id="([^"]+)"></a>\s*(.*?)</h[1-6]>', re.DOTALL)


def markdown_files():
    """Those of the tree; a folder of packages or of builds has others."""
    if os.path.exists(".git"):
        listed = subprocess.run(["git", "ls-files", "-z", "*.md"], check=True, stdout=subprocess.PIPE)
        return [pathlib.Path(name) for name in os.fsdecode(listed.stdout).split("\0") if name]
    found = []
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if name not in ("build", "node_modules")]
        found += [pathlib.Path(folder, name) for name in names if name.endswith(".md")]
    return found


def pages_of(site):
    """The page of each file of the tree that has one: docs by their names, headers by Doxygen's."""
    pages = {}
    for path in markdown_files():
        page = "md_" + path.as_posix()[:-3].replace("_", "__").replace("/", "_") + ".html"
        if (site / page).exists():
            pages[path.as_posix()] = page
    for path in pathlib.Path("include").rglob("*.h*"):
        page = path.name.replace("_", "__").replace(".", "_8") + ".html"
        if (site / page).exists():
            pages[path.as_posix()] = page
    return {**pages, "README.md": "index.html"}


def slug(words):
    """What GitHub calls a heading of these words."""
    words = re.sub("<[^>]*>", "", html.unescape(words)).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def headings_of(path):
    """The anchor of each heading's name; of equal ones GitHub calls the second NAME-1, the third NAME-2."""
    found = {}
    for name, words in HEADING.findall(path.read_text(encoding="utf-8")):
        plain = unique = slug(words)
        number = 0
        while unique in found:
            number += 1
            unique = f"{plain}-{number}"
        found[unique] = name
    return found


def mend(site, source, page, pages):
    """Leads the links of one page, made of `source`, to where they are in the site."""
    def lead(match):
        href, more, words = match.groups()
        url = urllib.parse.urlsplit(html.unescape(href))
        if url.scheme or url.netloc or not url.path or (site / url.path).exists():
            return match.group()
        target = os.path.normpath(os.path.join(os.path.dirname(source), url.path))
        if target in pages:
            part = headings_of(site / pages[target]).get(url.fragment, url.fragment)
            return f'<a class="el" href="{pages[target]}{"#" + part if part else ""}"{more}>{words}</a>'
        return words if os.path.exists(target) else match.group()

    text = (site / page).read_text(encoding="utf-8")
    text = text.replace("&lt;tt&gt;", "<code>").replace("&lt;/tt&gt;", "</code>")  # of headings
    (site / page).write_text(LINK.sub(lead, text), encoding="utf-8")


class Names(html.parser.HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("id", "name"):
                self.names.add(value)
            if key in ("href", "src") and value:
                self.links.append(value)


def dead_links(site):
    """Returns `PAGE: LINK` of each that leads nowhere, and how many there are in all."""
    pages = {path.name: Names(path) for path in sorted(site.glob("*.html"))}
    dead, count = [], 0
    for name, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = urllib.parse.unquote(url.path) or name
            part = urllib.parse.unquote(url.fragment)
            if not (site / target).exists() or (part and target in pages and part not in pages[target].names):
                dead.append(f"{name}: {link}")
    return dead, count


def main(site):
    site = pathlib.Path(site)
    pages = pages_of(site)
    for source, page in pages.items():
        if source.endswith(".md"):
            mend(site, source, page, pages)
    dead, count = dead_links(site)
    for each in dead:
        print(f"a link that leads nowhere: {each}", file=sys.stderr)
    print(f"{count} links within the site, {len(dead)} of them lead nowhere")
    return 1 if dead or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
