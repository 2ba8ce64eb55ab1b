"""Looks at a site that was built: links lead somewhere, and a reader needs no network.

    site_check.py FOLDER
"""

import pathlib
import re
import sys
import urllib.parse
from html.parser import HTMLParser

# Attributes whose target a browser loads by itself, by tag.
LOADED = {"audio": ["src"], "embed": ["src"], "iframe": ["src"], "image": ["href", "xlink:href"], "img": ["src", "srcset"], "input": ["src"],
          "link": ["href"], "object": ["data"], "script": ["src"], "source": ["src", "srcset"], "track": ["src"], "use": ["href", "xlink:href"],
          "video": ["poster", "src"]}
# Of `link` only these are loaded; `next`, `search` and the like are for programs.
LOADED_LINKS = {"icon", "manifest", "modulepreload", "prefetch", "preload", "shortcut", "stylesheet", "apple-touch-icon"}
ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:@import\s*(?:url\()?|url\()\s*[\"']?\s*((?:https?:)?//[^\"')\s]*)", re.IGNORECASE)
IN_SCRIPTS = re.compile(r"(?:\bimport\s*\(|\bfetch\s*\(|importScripts\s*\(|\.src\s*=|\bfrom)\s*[\"'`]\s*((?:https?:)?//[^\"'`]*)", re.IGNORECASE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded, self.styles = set(), [], [], []
        self.within = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        self.within = tag if tag in ("style", "script") else None
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "style" in values:
            self.styles.append(values["style"])
        if tag == "link" and not LOADED_LINKS & set(values.get("rel", "").lower().split()):
            return
        for name in LOADED.get(tag, []):
            if values.get(name):
                self.loaded += [part.split()[0] for part in values[name].split(",") if part.split()] if name == "srcset" else [values[name]]

    def handle_endtag(self, tag):
        self.within = None

    def handle_data(self, data):
        if self.within:
            self.styles.append(data)


def loads_elsewhere(text, kind):
    pattern = IN_STYLES if kind == "css" else IN_SCRIPTS
    return [found[1] for found in pattern.finditer(text)]


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}

    def target_fault(self, path, link):
        """None, or what is wrong with a link within the site."""
        way, _, anchor = link.partition("#")
        target = (path.parent / urllib.parse.unquote(way.partition("?")[0])).resolve() if way else path
        if not target.is_relative_to(self.folder) or not target.is_file():
            return f"{link} leads nowhere"
        if anchor and target in self.pages and urllib.parse.unquote(anchor) not in self.pages[target].anchors:
            return f"{link}: no such place on that page"
        return None

    def faults(self):
        for path, page in self.pages.items():
            where = path.relative_to(self.folder)
            for link in page.loaded:
                if ELSEWHERE.match(link):
                    yield f"{where}: loads {link}"
                elif not SCHEME.match(link) and (fault := self.target_fault(path, link)):
                    yield f"{where}: {fault}"
            for text in page.styles:
                yield from (f"{where}: loads {link}" for kind in ("css", "js") for link in loads_elsewhere(text, kind))
            for link in page.links:
                if not SCHEME.match(link) and not link.startswith("//") and (fault := self.target_fault(path, link)):
                    yield f"{where}: {fault}"
        for path in sorted(self.folder.rglob("*")):
            if path.suffix in (".css", ".js"):
                for link in loads_elsewhere(path.read_text(encoding="utf-8"), path.suffix[1:]):
                    yield f"{path.relative_to(self.folder)}: loads {link}"


def main(folder):
    site = Site(pathlib.Path(folder).resolve())
    faults = sorted(set(site.faults())) if site.pages else [f"{folder} has no pages"]
    print("\n".join([*faults, f"{len(site.pages)} pages, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
