"""The site of the documentation. `./dev docs` gathers its pages in build/docs/source and builds it from there."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools" / "dev"))

project = "tutti"
author = "the authors of tutti"
copyright = f"{author}; BSD-3-Clause"
version = release = re.search(r"^  VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
# Sites that lie beside this one: a name and the way to its first page. There is no older one yet.
html_context = {"versions": [(release, "")]}

extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton", "autoapi.extension", "breathe", "site_links", "site_docstrings"]
root_doc = "index"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autoapi_dirs = [str(ROOT / "build" / "docs" / "python")]
autoapi_file_patterns = ["*.pyi", "*.py"]
autoapi_generate_api_docs = False  # site_pages writes a page for each module
autoapi_add_toctree_entry = False
autoapi_options = []
python_maximum_signature_line_length = 88
cpp_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

breathe_projects = {"tutti": str(ROOT / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "tutti"
breathe_show_include = False
breathe_domain_by_extension = {"h": "c"}

# A namespace stands in many headers, a struct of C beside its typedef.
suppress_warnings = ["duplicate_declaration.cpp", "duplicate_declaration.c"]

html_theme = "furo"
html_title = f"tutti {release}"
templates_path = [str(ROOT / "docs" / "_templates")]
html_static_path = [str(ROOT / "docs" / "_static")]
html_css_files = ["site.css"]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
                        "versions.html", "sidebar/scroll-end.html"]}
highlight_language = "text"  # a block without a language may be what a program prints
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
