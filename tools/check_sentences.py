#!/usr/bin/env python3
"""Checks the sentences of the pages: short ones are read once.

    check_sentences.py [--root folder] [--count]

The median length of a page's sentences is at most 18 words, none has more than 35, and none begins with a relative
clause (Who, Whose, What, Whatever, ...) unless it is a question. Code, tables and the targets of links do not count,
and a list of names in code is one word. tools/unchecked-sentences.txt lists the pages that are not mended yet; a page
that has become good must leave the list. Of CHANGELOG.md only the newest version is looked at. --count prints the figures of
each page.
"""

import argparse
import pathlib
import re
import statistics
import sys

import tree

MOST_WORDS = 35
MEDIAN = 18
FEW = 5  # sentences: fewer have no median that says anything
PAGES = re.compile(r"(?:docs/.*|README|CONTRIBUTING|ARCHITECTURE|CHANGELOG|(?:integrations|bindings|examples|apps|packaging|tests)(?:/.*)?/README)\.md")
UNCHECKED = "tools/unchecked-sentences.txt"
RELATIVE = re.compile(r"(?:Who|Whose|Whom|Whoever|Whomever|What|Whatever|Which|Whichever)\b")
# An item of a list, a quotation or a heading begins a paragraph of its own.
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+|>\s?|#+\s+")
FENCE = re.compile(r"\s*(```+|~~~+|:::+)")
# "CODE", "CODE, CODE and CODE" and the like count as one word: they are read as one thing.
CODE = re.compile(r"`+[^`]+`+")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
NAMES = re.compile(r"\bCODE\b(?:(?:,| and| or|, and|, or|/|:)\s*CODE\b)+")
# A sentence ends at its stop and white space, but not at the dots of "a, b, ...": the next one may begin with a small name.
END = re.compile(r"(?<=[.!?])(?<!\.\.)[)\"*_']*\s+")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|No|Fig)\.\s")


def paragraphs(text):
    """The running text: (number of the first line, text, is a heading)."""
    first, lines, fence, comment = 0, [], None, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        mark, begins = FENCE.match(line), ITEM.match(line)
        if fence or comment:
            fence = None if mark and mark.group(1) == fence else fence
            comment = comment and "-->" not in line
            continue
        code = not lines and re.match(r" {4}|\t", line)  # indented code follows an empty line; running text goes on
        nothing = not line.strip() or mark or code or line.lstrip().startswith(("|", "<"))
        if (nothing or begins) and lines:
            yield first, " ".join(lines), False
            lines = []
        if line.startswith("#"):
            yield number, line[begins.end():] if begins else line, True
        elif not nothing:
            first = first if lines else number
            lines.append(line[begins.end():] if begins else line.strip())
        fence = mark.group(1) if mark else None
        comment = line.lstrip().startswith("<!--") and "-->" not in line


def plain(text):
    """The text as it is read: links without targets, code as one word."""
    text = ABBREVIATIONS.sub(r"\1 ", LINK.sub(r"\1", text))
    return NAMES.sub("CODE", CODE.sub("CODE", text).replace("**", "").replace("__", ""))


def sentences(text):
    """(line of the paragraph, sentence, is a heading) of a page."""
    for number, paragraph, heading in paragraphs(text):
        for sentence in END.split(plain(paragraph)):
            if re.search(r"\w", sentence):
                yield number, sentence.strip(), heading


def words(sentence):
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def begins_relative(sentence):
    return bool(RELATIVE.match(sentence.lstrip("\"'(*_["))) and "?" not in sentence


def faults_of(name, text):
    lengths = []
    for number, sentence, heading in sentences(text):
        if begins_relative(sentence):
            yield f"{name}:{number}: begins with a relative clause: name the subject: {sentence[:60]}"
        if heading:
            continue
        lengths.append(words(sentence))
        if lengths[-1] > MOST_WORDS:
            yield f"{name}:{number}: {lengths[-1]} words in a sentence, at most {MOST_WORDS}: {sentence[:60]}"
    if len(lengths) >= FEW and statistics.median(lengths) > MEDIAN:
        yield f"{name}: the median sentence has {statistics.median(lengths):g} words, at most {MEDIAN}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", action="store_true")
    args = parser.parse_args()
    unchecked = args.root / UNCHECKED
    listed = [line for line in unchecked.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"] if unchecked.exists() else []
    faults, good = [], set()
    for name in filter(PAGES.fullmatch, tree.files(args.root)):
        if name.endswith(".zh-CN.md"):
            continue  # Chinese has no spaces between words
        text = (args.root / name).read_text(encoding="utf-8")
        if name == "CHANGELOG.md":
            text = "\n## ".join(text.split("\n## ")[:2])
        found = list(faults_of(name, text))
        if args.count:
            lengths = [words(sentence) for _, sentence, heading in sentences(text) if not heading] or [0]
            print(f"{len(found):4} faults, {len(lengths):4} sentences, median {statistics.median(lengths):g}, longest {max(lengths)}: {name}")
        if not found:
            good.add(name)
        elif name not in listed:
            faults += found
    faults += [f"{UNCHECKED}: {name} is good now, or gone: remove it" for name in listed if name in good or not (args.root / name).exists()]
    print("\n".join(faults + [f"{len(faults)} faults in sentences; {len(listed)} pages are not checked"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
