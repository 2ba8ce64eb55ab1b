"""An extension of Sphinx: docstrings are plain text; this makes reStructuredText of them."""

import inspect
import re

# `Returns:` and the like begin a paragraph of their own; the lines behind it are indented.
LABEL = re.compile(r"^([A-Z]\w+): (?=\S)")
INLINE = re.compile(r"`([^`]+)`")
PAGE = re.compile(r"\b(docs/[\w/-]+|README|CONTRIBUTING)\.md\b")
SPECIAL = re.compile(r"([\\*|]|_(?=\W|$))")


def inline(text):
    """Prose: what stands in backticks is code, everything else means itself."""
    parts = INLINE.split(text)
    result = ""
    for place, part in enumerate(parts):
        if place % 2 == 0:
            result += PAGE.sub(r":doc:`/\1`", SPECIAL.sub(r"\\\1", part))
            continue
        # Letters beside the code would keep it from being code.
        before = "\\ " if re.search(r"\w$", parts[place - 1]) else ""
        behind = "\\ " if re.match(r"\w", parts[place + 1]) else ""
        result += f"{before}``{part}``{behind}"
    return result


def paragraphs(text):
    """Blocks of lines: prose, or code, which is indented and stands behind an empty line."""
    block, code, after_empty = [], False, True
    for line in [*text.splitlines(), None]:
        if line is None or not line.strip():
            if code and line is not None:
                block.append("")
            elif block:
                yield code, block
                block = []
            after_empty = True
            continue
        indented = line.startswith("    ")
        begins = (after_empty and indented != code) or (code and not indented) or (not code and LABEL.match(line) and block)
        if begins and block:
            yield code, block
            block = []
        if not block:
            code = after_empty and indented
        block.append(line)
        after_empty = False
    if block:
        yield code, block


def restructured(text):
    result = []
    for code, lines in paragraphs(inspect.cleandoc(text)):
        if code:
            result += [".. code-block:: python", "", "\n".join(lines).rstrip(), ""]
            continue
        # The lines of an item of a list stay below its text.
        prose = inline("\n".join(lines if lines[0].startswith(("- ", "* ")) else map(str.strip, lines)))
        result += [*LABEL.sub(r"**\1:** ", prose).splitlines(), ""]
    return "\n".join(result)


def prepare(_app, _what, _name, obj, _skip, _options):
    if obj.docstring and not getattr(obj, "site_prepared", False):
        obj.docstring = restructured(obj.docstring)
        obj.site_prepared = True


def setup(app):
    app.connect("autoapi-skip-member", prepare)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
