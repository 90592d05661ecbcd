#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The links of the site: where those to equal headings lead, and that a dead one is told.

    test_site_links.py DOCS     DOCS is the folder of site_links.py"""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest


def heading(anchor, words):
    return f'<h2><a class="anchor" id="{anchor}"></a>\n{words}</h2>\n'


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        for path in ("docs/a.md", "docs/b.md"):
            pathlib.Path(path).parent.mkdir(exist_ok=True)
            pathlib.Path(path).write_text("", encoding="utf-8")
        self.site = pathlib.Path("site")
        self.site.mkdir()
        (self.site / "index.html").write_text("", encoding="utf-8")
        (self.site / "md_docs_b.html").write_text(
            heading("m1", "To run") + heading("m2", "A part") + heading("m3", "To run") +
            heading("m4", "To run 1") + heading("m5", "To run"), encoding="utf-8")

    def mend(self, *links):
        """Returns what becomes of these links of a.md, and the answer of the program."""
        page = self.site / "md_docs_a.html"
        page.write_text("".join(f'<a href="{link}">x</a>' for link in links), encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            answer = site_links.main(self.site)
        return site_links.Names(page).links, answer

    def test_equal_headings_are_numbered_as_github_does(self):
        parts = ("to-run", "a-part", "to-run-1", "to-run-1-1", "to-run-2")
        links, answer = self.mend(*(f"b.md#{part}" for part in parts))
        self.assertEqual(links, [f"md_docs_b.html#{name}" for name in ("m1", "m2", "m3", "m4", "m5")])
        self.assertEqual(answer, 0)

    def test_a_part_that_is_not_there_is_told(self):
        self.assertEqual(self.mend("b.md#to-run-3")[1], 1)
        self.assertEqual(self.mend("nowhere.md")[1], 1)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv.pop(1))
    import site_links
    unittest.main()
