"""A filter of Doxygen: comments of the public headers as it wants them, and without what a reader does not call.

    site_headers.py FILE
"""

import pathlib
import re
import sys

# `Shapes:   equal dtype`: what a comment says about one thing. Doxygen gets an item of a list.
LABEL = re.compile(r"^( *///) ([A-Z]\w+(?:, \w+)*(?: and \w+)?:) +(?=\S)")


def cpp(text):
    # The inline namespace keeps versions apart; a program never writes it.
    text = text.replace("inline namespace TUTTI_EXPORT v0 {\n", "\n").replace("}  // namespace v0\n", "\n")
    # Overloads that only say why a call is refused.
    text = re.sub(r"^  TUTTI_REFUSE\w*\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)\n", lambda found: "\n" * found[0].count("\n"),
                  text, flags=re.MULTILINE)
    return "\n".join(LABEL.sub(r"\1 - **\2** ", line) for line in text.splitlines()) + "\n"


def c(text):
    # The first comment is about the file, and its labels are items.
    text = re.sub(r"^/\* ", "/** @file\n * ", text)
    head, end, rest = text.partition("*/")
    head = re.sub(r"^ \* ([A-Z]\w*:) +(?=\S)", r" * - **\1** ", head, flags=re.MULTILINE)
    rest = re.sub(r"^/\* ----.*\*/$", "", rest, flags=re.MULTILINE)
    rest = re.sub(r"^#if defined\(__GNUC__\).*?^#endif\n", "", rest, count=1, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^( *)/\* ", r"\1/** ", rest, flags=re.MULTILINE)
    return head + end + re.sub(r"(?<=[;,\d]) +/\* ", " /**< ", rest)


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    content = path.read_text(encoding="utf-8")
    sys.stdout.write(c(content) if path.suffix == ".h" else cpp(content))
