"""`python -m tutti.distributed.run`: the same as the command `tuttirun`.

    python -m tutti.distributed.run --nproc-per-node 4 train.py

`tutti.distributed.run` without -m is a function: a world in new processes (tutti.multiprocessing.run).
"""

import sys
import types
from collections.abc import Sequence
from typing import Any

from tutti import _programs
from tutti.multiprocessing.run import run


def main(args: Sequence[str] | None = None) -> None:
    """Runs tuttirun with these arguments; raises subprocess.CalledProcessError if the job fails. Without
    any, with those of the command line, and does not come back: the process becomes tuttirun."""
    if args is None:
        _programs.start("tuttirun", sys.argv[1:])
    _programs.run("tuttirun", list(args))


class _Callable(types.ModuleType):
    """`import tutti.distributed.run` puts this module where the function was; so it can be called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return run(*args, **options)


if __name__ == "__main__":
    main()
sys.modules[__name__].__class__ = _Callable
