"""`python -m tutti.jax program.py ...` or `python -m tutti.jax -m module ...`: runs a program of JAX on tutti."""

import pathlib
import runpy
import sys
import types

USAGE = "usage: python -m tutti.jax program.py [arguments]\n       python -m tutti.jax -m module [arguments]"


def _run_file(program: str) -> None:
    path = pathlib.Path(program)
    try:
        source = path.read_bytes()
    except OSError as problem:
        sys.exit(f"tutti.jax: cannot read {program}: {problem.strerror}")
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(path.resolve().parent)  # as Python does; -m has put the current folder there
    # A module of its own that stays: functions of the program may run while the process exits.
    main = types.ModuleType("__main__")
    main.__file__ = program
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(compile(source, program, "exec"), main.__dict__)


def _main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["-m"] and len(arguments) > 1:
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments and not arguments[0].startswith("-"):
        sys.argv = arguments
        _run_file(arguments[0])
    else:
        sys.exit(USAGE)


_main()
