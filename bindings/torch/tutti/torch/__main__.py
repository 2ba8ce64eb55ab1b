"""Runs a program of torch.distributed on tutti, as it is:

    python -m tutti.torch train.py --epochs 3          # or: -m package.train --epochs 3
    torchrun --nproc-per-node 4 -m tutti.torch train.py --epochs 3

Where the program names Gloo, or no backend for CPU tensors, it gets tutti. Where it names MPI, it gets tutti on MPI, and is
started by mpirun. Other backends that it names (NCCL for GPUs) stay.
"""

import os
import runpy
import sys

from ._replace import replace_backends


def main(arguments: list[str]) -> int:
    """Runs the program that the command line names; returns the exit status."""
    by_name = arguments[:1] == ["-m"]
    if by_name:
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr if arguments != ["--help"] else sys.stdout)
        return 0 if arguments == ["--help"] else 2
    program = arguments[0]
    if not by_name and not os.path.exists(program):
        print(f"python -m tutti.torch: there is no file {program!r}; a module is given as -m NAME", file=sys.stderr)
        return 2
    replace_backends()
    sys.argv = arguments
    if by_name:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program))  # where Python looks first for a script
        runpy.run_path(program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
