"""Every block of code of every page is tested, or says here why not: C and C++ compile, programs of Python run on 2 ranks,
pieces of Python compile and name what is there, commands have the options that they are shown with.

The table of all blocks and of how each is tested: build/docs/blocks.txt.
"""

import ast
import functools
import importlib.util
import os
import re
import subprocess
import sys

import pytest

import blocks
from reasons import NOT_TESTED, PACKAGES

ROOT = blocks.ROOT
INCLUDES = [f"-I{folder}" for folder in (ROOT / "include", ROOT / "build" / "dev" / "include")]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused", "-Wno-missing-field-initializers", "-Werror"]
# Declarations that pieces of C++ take as given.
AROUND = ROOT / "tests" / "package" / "consumer" / "project" / "guide.cpp"
# Names that pieces of Python use for modules.
MODULES = {"dist": "tutti.distributed", "mp": "tutti.multiprocessing", "tutti": "tutti"}
# A block of text with this is code without a language.
CODE = re.compile(r"\btutti::\w|\bdist\.\w+\(|\binit_process_group\(|^ *#include|^(?:import|from) \w+", re.MULTILINE)
LIMIT = 60

BLOCKS = blocks.all_blocks()


def reason(block):
    """Why a block is not tested, or None."""
    return next((why for words, why in NOT_TESTED.items() if words in block.text), None)


def missing_package(block):
    """Why a program of Python is only compiled, or None: it imports what this environment need not have."""
    names = re.findall(r"^(?:import|from) +(.+)", block.text, re.MULTILINE)
    return next((why for name, why in PACKAGES.items() if any(re.search(rf"\b{re.escape(name)}\b", line) for line in names)), None)


def is_program(block):
    if block.kind == "python":
        return not missing_package(block) and bool(re.search(r"^(?:import|from) ", block.text, re.MULTILINE))
    return "int main(" in block.text


def to_test(*kinds):
    return [block for block in BLOCKS if block.kind in kinds and not reason(block)]


GUIDE = [block for block in to_test("cpp") if block.page == "docs/learn/guide.md" and not is_program(block)]


def by_page(found):
    pages = {}
    for block in found:
        pages.setdefault(block.page, []).append(block)
    return pages


def blocks_given(found):
    return pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in found])


def pages_given(found):
    return pytest.mark.parametrize("page", [pytest.param(each, id=name) for name, each in by_page(found).items()])


def compiles(compiler, text, folder, name):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([*compiler, *INCLUDES, *WARNINGS, "-fsyntax-only", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@blocks_given([block for block in to_test("cpp") if is_program(block)])
def test_a_program_of_cpp_compiles(block, tmp_path):
    compiles([os.environ.get("CXX", "c++"), "-std=c++20"], f'#line {block.line + 1} "{block.page}"\n{block.text}', tmp_path, "program.cpp")


@pages_given([block for block in to_test("cpp") if not is_program(block)])
def test_the_pieces_of_cpp_of_a_page_compile(page, tmp_path):
    """Specialisations of templates stand outside of functions, other pieces in a scope within that of the piece before. The
    pieces of the guide come before those of other pages."""
    outside, inside = "", ""
    for block in (GUIDE if page[0].page != GUIDE[0].page else []) + page:
        text = f'#line {block.line + 1} "{block.page}"\n{block.text}'
        if block.text.startswith("template"):
            outside += text
        else:
            inside += "{\n" + text
    (tmp_path / "guide_specialisations.hpp").write_text(outside, encoding="utf-8")
    (tmp_path / "guide_pieces.hpp").write_text(inside + "return 0;\n" + "}" * inside.count("{\n#line"), encoding="utf-8")
    compiles([os.environ.get("CXX", "c++"), "-std=c++20", f"-I{tmp_path}"], AROUND.read_text(encoding="utf-8"), tmp_path, "pieces.cpp")


@pages_given(to_test("c"))
def test_the_pieces_of_c_of_a_page_compile(page, tmp_path):
    pieces = "".join(f'#line {block.line + 1} "{block.page}"\n{block.text}' for block in page)
    text = f"#include <stdio.h>\n#include <stdlib.h>\n#include <tutti/c.h>\nint pieces(void *stream, float *gradients, size_t count) {{\n{pieces}return 0;\n}}\n"
    compiles([os.environ.get("CC", "cc"), "-std=c11"], text, tmp_path, "pieces.c")


@blocks_given([block for block in to_test("python") if is_program(block)])
def test_a_program_of_python_runs(block, tmp_path):
    """On 2 ranks; a program that starts ranks itself is run as it is."""
    path = tmp_path / "program.py"
    path.write_text(block.text, encoding="utf-8")
    by_itself = re.search(r"\bmp\.run\(|\bmultiprocessing\.run\(|\bdist\.run\(|\bspawn\(", block.text)
    launcher = [] if by_itself else ["tuttirun", "--nproc-per-node", "2"]
    done = subprocess.run([*launcher, sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=LIMIT, cwd=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@blocks_given([block for block in to_test("python") if not is_program(block)])
def test_a_piece_of_python_names_what_is_there(block):
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
            module = MODULES[node.value.id]
            if node.attr in PACKAGES or re.search(r"^import torch", block.text, re.MULTILINE):
                continue  # of another package
            assert hasattr(importlib.import_module(module), node.attr), f"{module} has no {node.attr}"


@functools.cache
def help_of(*command):
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False, timeout=LIMIT, cwd=ROOT)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", done.stdout))


def own_words(words):
    """The words of a command of ours up to the program that it starts."""
    for place, word in enumerate(words):
        if place and (word in ("python", "python3", "tutti") or re.search(r"\.py$|^\./|^\S*/bin/", word)):
            return words[:place]
    return words


def faults_of(words):
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        words.pop(0)
    if not words or words == ["..."]:  # a program of the reader's
        return []
    program = words[0]
    name = program.rpartition("/")[2] if program.startswith("build/") else program
    if program in ("python", "python3") and words[1:2] == ["-m"] and words[2].startswith("tutti"):
        return [] if importlib.util.find_spec(words[2]) or words[2] == "tutti.torch" else [f"no module {words[2]}"]
    if name not in blocks.OWN:
        scripts = [word for word in words if re.match(r"(?:apps|bindings|examples|integrations|tests|tools)/", word)]
        return [f"{script}: no such file" for script in scripts if not (ROOT / script).exists()]
    options = [word.partition("=")[0] for word in own_words(words) if word.startswith("--") and word != "--"]
    faults = [f"{script}: no such file" for script in words if re.match(r"examples/|tests/", script) and not (ROOT / script).exists()]
    if name == "tuttirun":
        known = help_of("tuttirun")
    elif name == "tutti":
        known = help_of("tutti", *[word for word in words[1:2] if not word.startswith("-")])
    else:
        usage = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("dev", "tools/dev/main.py"))
        if f"./dev {words[1]}" not in usage:
            faults.append(f"./dev has no command {words[1]}")
        known = set(re.findall(r"--[\w-]+", usage))
        if words[1] == "bench":
            known |= help_of("tutti", "bench")
    return faults + [f"{name} has no option {option}" for option in options if option not in known]


@pages_given(to_test("sh"))
def test_the_commands_of_a_page_are_there(page):
    faults = []
    for block in page:
        commands = list(blocks.commands_of(block.text))
        if not commands:
            faults.append(f"{block.place}: no program that blocks.py knows")
        for words in commands:
            faults += [f"{block.place}: {fault}" for fault in faults_of(words)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("command, said", [
    ("tuttirun --nproc-per-nod 2 ./a", "tuttirun has no option --nproc-per-nod"), ("A=1 tutti bench --ranks 2 --x", "tutti has no option --x"),
    ("./dev nothing", "./dev has no command nothing"), ("python examples/no.py", "examples/no.py: no such file"),
    ("cd a && python -m tutti.nothing", "no module tutti.nothing"), ("tuttirun --nproc-per-node 2 ./a --x  # --y", "")])
def test_a_wrong_command_is_found(command, said):
    assert said in " ".join(fault for words in blocks.commands_of(command) for fault in faults_of(words)) or not said
    assert said or not any(faults_of(words) for words in blocks.commands_of(command))


def test_blocks_are_found():
    page = "a\n\n    tuttirun ./a\n\n- b\n\n    no block\n\n```c++\nint main() {}\n```\n\n    tutti::f();\n\n```\ntext\n```\n"
    assert [(block.line, block.kind) for block in blocks.blocks_of("p", page)] == [(3, "sh"), (9, "cpp"), (13, "cpp"), (15, "text")]


def test_every_block_is_of_a_kind_that_is_tested():
    unknown = [f"{block.place}: {block.kind}" for block in BLOCKS if block.kind not in blocks.KINDS and not reason(block)]
    hidden = [f"{block.place}: is code, and must say in which language" for block in to_test("text") if CODE.search(block.text)]
    assert not unknown + hidden, "\n".join(unknown + hidden)


def test_every_reason_is_needed():
    unneeded = [words for words in NOT_TESTED if not any(words in block.text for block in BLOCKS)]
    assert not unneeded, f"no such block: {unneeded}"


def way(block):
    if why := reason(block):
        return f"not tested: {why}"
    if block.kind == "python" and (why := missing_package(block)):
        return f"compiled; not run: {why}"
    return {"cpp": "compiled", "c": "compiled", "python": "run on 2 ranks" if is_program(block) else "compiled, names looked up",
            "sh": "programs and options looked up", "text": "no code"}.get(block.kind, "part of the site")


def test_the_list_of_blocks():
    """Each block has one line, and there are some of each kind."""
    lines = [f"{block.place}\t{block.kind}\t{way(block)}" for block in BLOCKS]
    path = ROOT / "build" / "docs" / "blocks.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(set(lines)) == len(BLOCKS) and {"c", "cpp", "python", "sh"} <= {block.kind for block in BLOCKS}
