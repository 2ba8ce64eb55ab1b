"""<tutti/c.h> is frozen: declarations and constants are those of declarations.txt, the library shows them and no more,
and the programs beside this file call each function.

    frozen_test.py --library libtutti_c.so --nm nm [--write]

A function may be added, and a member at the end of a struct with a struct_size: --write adds it to the list. None may
change or go, since programs were compiled with it.
"""

import argparse
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parents[2] / "include/tutti/c.h"
LIST = HERE / "declarations.txt"


def declarations():
    """What the header declares, a line each, without comments and names of macros."""
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r'^#.*$|extern "C" \{|^\}$|TUTTI_C_API', " ", text, flags=re.MULTILINE)
    lines = []
    for enum in re.finditer(r"enum (\w*) ?\{(.*?)\};", text, flags=re.DOTALL):
        lines += [" ".join(each.split()) for each in enum[2].split(",")]
    structs = r"typedef struct (\w+) ?\{(.*?)\} \w+;"
    for struct in re.finditer(structs, text, flags=re.DOTALL):
        members = [" ".join(each.split()) for each in struct[2].split(";") if each.strip()]
        lines += [f"{struct[1]}[{place}]: {member}" for place, member in enumerate(members)]
    text = re.sub(r"enum \w* ?\{.*?\};|" + structs, " ", text, flags=re.DOTALL)
    return lines + [" ".join(each.split()) + ";" for each in text.split(";") if each.strip()]


def functions(lines):
    return {found[1] for line in lines if (found := re.search(r"(\w+)\(", line))}


def shown(library, nm):
    """The names that the library shows."""
    done = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True, timeout=60)
    fields = [line.split() for line in done.stdout.splitlines()]
    return {name.split("@")[0] for *_, kind, name in fields if kind != "A"}  # A: the version of the names


def called():
    """The functions that the programs beside this file call."""
    programs = "".join(each.read_text(encoding="utf-8") for each in HERE.glob("*.c"))
    return set(re.findall(r"\b(tutti_\w+)\(", programs))


class InitOptions(ctypes.Structure):
    """tutti_init_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_char_p), ("config", ctypes.c_void_p),
                ("store", ctypes.c_void_p), ("job_name", ctypes.c_char_p), ("secret", ctypes.c_void_p),
                ("secret_size", ctypes.c_size_t), ("or_alone", ctypes.c_int)]


def check_another_language(path):
    """Python, by ctypes: a world of one rank, by a file and without a launcher."""
    library = ctypes.CDLL(path)
    library.tutti_error_text.restype = ctypes.c_char_p
    library.tutti_init.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_double, ctypes.c_void_p]
    library.tutti_all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                         ctypes.c_void_p]
    library.tutti_free.argtypes = [ctypes.c_void_p]
    world, values = ctypes.c_void_p(), (ctypes.c_float * 3)(1, 2, 3)
    with tempfile.TemporaryDirectory() as folder:
        result = library.tutti_init(f"file://{folder}/rendezvous".encode(), 0, 1, 60, ctypes.byref(world))
        assert result == 0, library.tutti_error_text()
        assert library.tutti_all_reduce(world, values, 3, 11, 0, None) == 0, library.tutti_error_text()
        assert list(values) == [1, 2, 3]
        assert library.tutti_all_reduce(world, values, 3, 99, 0, None) == 1
        assert b"dtype 99" in library.tutti_error_text()
        library.tutti_free(world)
    library.tutti_init_with.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_double, ctypes.c_void_p,
                                        ctypes.c_void_p]
    options = InitOptions(struct_size=ctypes.sizeof(InitOptions))
    assert library.tutti_init_with(None, -1, -1, 60, ctypes.byref(options), ctypes.byref(world)) == 1
    options.or_alone = 1
    result = library.tutti_init_with(None, -1, -1, 60, ctypes.byref(options), ctypes.byref(world))
    assert result == 0, library.tutti_error_text()
    library.tutti_size.argtypes = [ctypes.c_void_p]
    assert library.tutti_size(world) == 1
    library.tutti_free(world)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    now, before = declarations(), LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    gone = [line for line in before if line not in now]
    if gone:
        print("changed or gone from <tutti/c.h>, which is frozen:", *gone, sep="\n  ")
        return 1
    if args.write:
        LIST.write_text("\n".join(now) + "\n", encoding="utf-8")
    elif now != before:
        print("new in <tutti/c.h>: frozen_test.py --write", *[line for line in now if line not in before], sep="\n  ")
        return 1
    names = shown(args.library, args.nm)
    if names != functions(now):
        print("shown and not declared, or declared and not shown:", *sorted(names ^ functions(now)), sep="\n  ")
        return 1
    if names != called():
        print("declared and not called by a program of this folder, or called and not declared:", *sorted(names ^ called()),
              sep="\n  ")
        return 1
    check_another_language(args.library)
    print(f"{len(now)} declarations, {len(names)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
