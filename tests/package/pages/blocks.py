"""The blocks of code of all pages: where each stands, what it is, and so how blocks_test.py tests it."""

import dataclasses
import pathlib
import re
import shlex
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import tree  # noqa: E402

FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*(.*)$")
LANGUAGES = {"c++": "cpp", "bash": "sh", "shell": "sh", "console": "sh", "py": "python", "": "text", "yaml": "text", "toml": "text",
             "ini": "text", "json": "text"}
KINDS = {"cpp", "c", "python", "sh", "text", "directive"}
# Commands that a page shows. Of the first three the options are checked.
OWN = {"tuttirun", "tutti", "./dev"}
PROGRAMS = OWN | {"apptainer", "apt", "apt-get", "bash", "build/release/bin/tutti", "build/release/bin/tuttirun", "c++", "cat", "cd", "chmod", "cmake",
                  "ctest", "curl", "docker", "export", "g++", "git", "head", "install", "integrations/check.sh", "ip", "kill", "kubectl", "ls", "mkdir",
                  "module", "mpicc", "mpicxx", "mpiexec", "mpirun", "ninja", "openssl", "pip", "podman", "pytest", "python", "python3",
                  "rustc", "salloc", "sbatch", "scp", "sh", "srun", "ssh", "sudo", "taskset", "torchrun", "ulimit", "vllm"}
ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=\S*\s+")


@dataclasses.dataclass
class Block:
    """A block: its page, the line on which it begins, what it is (cpp, python, sh, text, ...), and its text."""

    page: str
    line: int
    kind: str
    text: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def first_word(line):
    line = line.strip().removeprefix("$ ")
    while ASSIGNMENT.match(line):
        line = ASSIGNMENT.sub("", line)
    return line.split()[0] if line.split() else ""


def is_commands(text):
    """True if the first line that is no comment calls a program. Output of the programs may stand behind it."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    return bool(lines) and first_word(lines[0]) in PROGRAMS


def commands_of(text):
    """The commands of a block, each as a list of words without comments; lines that call no program are output."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if first_word(line.lstrip("( ")) not in PROGRAMS:
            continue
        reader = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        words = []
        for word in [*reader, ";"]:
            if word and set(word) <= set("();&|<>"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def indented_kind(text):
    if is_commands(text):
        return "sh"
    return "cpp" if re.search(r"\btutti::\w.*;(?: *//.*)?$", text, re.MULTILINE) else "text"


def fenced_kind(language, text):
    if language.startswith("{"):
        return "directive"
    kind = LANGUAGES.get(language, language)
    return "sh" if kind == "text" and is_commands(text) else kind


def blocks_of(page, text):
    """Fenced blocks, and those that four spaces behind an empty line make."""
    lines = text.splitlines()
    at, after_empty, in_list = 0, True, False
    while at < len(lines):
        line = lines[at]
        if fence := FENCE.match(line):
            end = next((other for other in range(at + 1, len(lines)) if lines[other].strip().startswith(fence[2]) and
                        not lines[other].strip().strip(fence[2][0])), len(lines))
            body = textwrap.dedent("\n".join(lines[at + 1:end]) + "\n")
            language = fence[3].split()[0].lower() if fence[3] else ""
            yield Block(page, at + 1, fenced_kind(language, body), body)
            at, after_empty, in_list = end + 1, True, in_list and bool(fence[1])
            continue
        if after_empty and line.startswith("    ") and not in_list:
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            body = textwrap.dedent("\n".join(lines[at:end]).rstrip() + "\n")
            yield Block(page, at + 1, indented_kind(body), body)
            at, after_empty = end, True
            continue
        if line.strip():  # what is indented behind an item of a list belongs to the item
            in_list = bool(re.match(r" *([-*+]|\d+[.)]) ", line)) or (in_list and line.startswith(" "))
        after_empty = not line.strip()
        at += 1


def all_blocks():
    return [block for name in tree.files(ROOT) if name.endswith(".md")
            for block in blocks_of(name, (ROOT / name).read_text(encoding="utf-8"))]
