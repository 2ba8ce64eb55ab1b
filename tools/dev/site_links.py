"""An extension of Sphinx: links to files of the tree that are no pages lead to a page with the text of the file, links
to folders to a list of their files."""

import html
import pathlib
import posixpath
import sys

from docutils import nodes
from sphinx import addnodes

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import tree  # noqa: E402

LANGUAGES = {".c": "c", ".cmake": "cmake", ".cpp": "cpp", ".h": "c", ".hpp": "cpp", ".json": "json", ".py": "python",
             ".pyi": "python", ".rs": "rust", ".sbatch": "bash", ".sh": "bash", ".toml": "toml", ".yaml": "yaml"}
FOLDER = "files"


class Tree:
    """The files and the folders of the tree."""

    def __init__(self, names):
        self.names = set(names)
        self.folders = {parent.as_posix() for name in names for parent in pathlib.PurePosixPath(name).parents}

    def children(self, folder):
        return sorted(name for name in self.names if posixpath.dirname(name) == folder)

    def subfolders(self, folder):
        return sorted(name for name in self.folders if posixpath.dirname(name) == folder and name != ".")


def resolve(app, document):
    """Links of a page that was just read. Links to other pages are left to MyST, which checks them."""
    env, page = app.env, app.env.docname
    linked = env.site_linked[page] = set()
    for node in list(document.findall(addnodes.pending_xref)):
        if node.get("reftype") != "myst":
            continue
        way, _, _ = node["reftarget"].partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), way))
        if target.endswith(".ipynb"):
            uri = app.builder.get_relative_uri(page, target.removesuffix(".ipynb"))
        elif target in app.site_tree.names or target in app.site_tree.folders:
            linked.add(target)
            uri = app.builder.get_relative_uri(page, f"{FOLDER}/{target}")
        else:
            continue
        # The text of the link stays.
        link = nodes.reference("", "", internal=True, refuri=uri)
        link += node.children
        node.replace_self(link)


def listing(app, name):
    path = ROOT / name
    language = LANGUAGES.get(path.suffix, "text")
    return f"<h1>{html.escape(name)}</h1>" + app.builder.highlighter.highlight_block(
        path.read_text(encoding="utf-8", errors="replace"), language, force=True)


def folder_list(app, name):
    entries = []
    for child in app.site_tree.children(name):
        page = child.removesuffix(".md") if child.endswith(".md") else f"{FOLDER}/{child}"
        way = app.builder.get_relative_uri(f"{FOLDER}/{name}", page)
        entries.append(f'<li><a href="{html.escape(way)}">{html.escape(posixpath.basename(child))}</a></li>')
    entries += [f"<li>{html.escape(posixpath.basename(child))}/</li>" for child in app.site_tree.subfolders(name)]
    return f"<h1>{html.escape(name)}/</h1><ul>{''.join(entries)}</ul>"


def pages(app):
    linked = set().union(*app.env.site_linked.values())
    folders = linked & app.site_tree.folders
    files = (linked - folders) | {child for folder in folders for child in app.site_tree.children(folder) if not child.endswith(".md")}
    for name in sorted(folders):
        yield f"{FOLDER}/{name}", {"title": f"{name}/", "body": folder_list(app, name)}, "page.html"
    for name in sorted(files):
        yield f"{FOLDER}/{name}", {"title": name, "body": listing(app, name)}, "page.html"


def begin(app):
    app.site_tree = Tree(tree.files(ROOT))
    if not hasattr(app.env, "site_linked"):
        app.env.site_linked = {}


def purge(app, env, page):
    if hasattr(env, "site_linked"):
        env.site_linked.pop(page, None)


def merge(app, env, pages, other):
    """Adds the findings of a process that has read some of the pages."""
    env.site_linked.update({page: other.site_linked[page] for page in pages if page in other.site_linked})


def setup(app):
    app.connect("builder-inited", begin)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("doctree-read", resolve)
    app.connect("html-collect-pages", pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
