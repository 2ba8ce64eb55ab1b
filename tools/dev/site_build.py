"""./dev docs: checks the pages, then builds the site of them."""

import shutil
import sys

import site_pages
from console import BUILD, ROOT, Failed, need, run, say

SITE = BUILD / "docs"
HTML = SITE / "html"
DOXYGEN = f"""
INPUT = "{ROOT}/include/tutti"
FILE_PATTERNS = *.hpp *.h
RECURSIVE = YES
STRIP_FROM_PATH = "{ROOT}/include"
OUTPUT_DIRECTORY = "{SITE}/doxygen"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
INPUT_FILTER = "{sys.executable} {ROOT}/tools/dev/site_headers.py"
ENABLE_PREPROCESSING = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = TUTTI_EXPORT= TUTTI_C_API=
EXCLUDE_SYMBOLS = *detail* *::detail::* *::Shared *::Impl
AUTOLINK_SUPPORT = NO
EXTRACT_ALL = YES
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""


def build():
    """True if the site is there, without a warning."""
    need("docs")
    say("gathering the pages")
    site_pages.gather()
    (SITE / "doxygen").mkdir(parents=True, exist_ok=True)
    (SITE / "doxygen" / "Doxyfile").write_text(DOXYGEN, encoding="utf-8")
    if not run("doxygen", SITE / "doxygen" / "Doxyfile", log=SITE / "doxygen.log"):
        return False
    shutil.rmtree(HTML, ignore_errors=True)  # pages that have moved would stay
    say("sphinx-build")
    if not run(BUILD / "venv" / "bin" / "sphinx-build", "-q", "-j", "auto", "-W", "--keep-going", "-b", "html", "-c", ROOT / "docs",
               "-d", SITE / "doctrees", site_pages.SOURCE, HTML):
        return False
    say("links of the site, and what it loads")
    return run(sys.executable, ROOT / "tools" / "dev" / "site_check.py", HTML)


def command():
    if not run(sys.executable, ROOT / "tools" / "check_docs.py"):
        return False
    if not build():
        raise Failed("the site was not built, or has faults")
    print(f"the site: {HTML / 'index.html'}")
    return True
