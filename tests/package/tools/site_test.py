"""A site with a fault: what site_check.py says of it; and what Doxygen and Sphinx get of comments."""

import sys
import unittest

from planted import ROOT, FolderTest, run

import site_docstrings
import site_headers

SITE = {"index.html": '<link rel="stylesheet" href="a.css"><a href="b.html#there">b</a><a href="https://example.org/">out</a>',
        "b.html": '<h1 id="there">b</h1><img src="data:image/png;base64,AA==">', "a.css": "p { background: url('b.html') }\n"}
FAULTS = {
    "a page that is not there": ({"index.html": '<a href="c.html">c</a>'}, "index.html: c.html leads nowhere"),
    "a place that is not there": ({"index.html": '<a href="b.html#here">b</a>'}, "index.html: b.html#here: no such place on that page"),
    "a page above the site": ({"index.html": '<a href="../c.html">c</a>'}, "index.html: ../c.html leads nowhere"),
    "a picture of the network": ({"b.html": '<h1 id="there"></h1><img src="https://example.org/a.png">'}, "b.html: loads https://example.org/a.png"),
    "a script of the network": ({"b.html": '<h1 id="there"></h1><script src="//example.org/a.js"></script>'}, "b.html: loads //example.org/a.js"),
    "styles of the network": ({"b.html": '<h1 id="there"></h1><link rel="stylesheet" href="http://example.org/a.css">'}, "loads http://example.org/a.css"),
    "a style with a font": ({"a.css": "@import url(https://example.org/font.css);"}, "a.css: loads https://example.org/font.css"),
    "a style in a page": ({"b.html": '<h1 id="there" style="background: url(http://example.org/a.png)"></h1>'}, "b.html: loads http://example.org/a.png"),
    "a script that loads": ({"a.js": 'import("https://example.org/b.js")'}, "a.js: loads https://example.org/b.js"),
    "no pages": ({"index.html": None, "b.html": None}, "has no pages"),
}


class Check(FolderTest):
    def check(self, changes):
        for name, text in (SITE | changes).items():
            if text is not None:
                self.plant(name, text)
        return run(sys.executable, ROOT / "tools/dev/site_check.py", self.root)

    def test_a_site_without_faults(self):
        done = self.check({})
        self.assertEqual((done.returncode, done.stdout), (0, "2 pages, 0 faults\n"))

    def test_faults(self):
        for name, (changes, said) in FAULTS.items():
            with self.subTest(name):
                self.setUp()
                done = self.check(changes)
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stdout)


class Comments(unittest.TestCase):
    def test_a_docstring_means_itself(self):
        self.assertEqual(site_docstrings.restructured("Of *all*, `a_b`s, x_.\n\n    f(1)\n\nReturns: None,\n    or not."),
                         "Of \\*all\\*, ``a_b``\\ s, x\\_.\n\n.. code-block:: python\n\n    f(1)\n\n**Returns:** None,\nor not.\n")

    def test_comments_of_headers(self):
        self.assertEqual(site_headers.cpp("/// Adds.\n/// Order:    any\n  TUTTI_REFUSE(A, (b),\n    c())\nint d();\n"),
                         "/// Adds.\n/// - **Order:** any\n\n\nint d();\n")
        self.assertEqual(site_headers.c("/* All.\n * Work: none. */\n/* ---- A */\n/* b */\nint b; /* c */\n"),
                         "/** @file\n * All.\n * - **Work:** none. */\n\n/** b */\nint b; /**< c */\n")


if __name__ == "__main__":
    unittest.main()
