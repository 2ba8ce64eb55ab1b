"""`python -m tutti.distributed.launch`: tuttirun with the defaults of torch's first launcher.

    python -m tutti.distributed.launch --nproc_per_node=4 train.py --epochs 3

Each process gets its local rank as its first argument, `--local_rank=K` if an option on the line is spelled
with an underscore, else `--local-rank=K`. `--use-env` (`--use_env`) leaves that out. Everything else is
tuttirun's: docs/reference/launcher.md.
"""

import sys
from collections.abc import Sequence

from tutti import _programs


def main(args: Sequence[str] | None = None) -> None:
    """Runs tuttirun with these arguments; raises subprocess.CalledProcessError if the job fails. Without
    any, with those of the command line, and does not come back: the process becomes tuttirun."""
    if args is None:
        _programs.start("tuttirun", ["--pass-local-rank", *sys.argv[1:]])
    _programs.run("tuttirun", ["--pass-local-rank", *args])


if __name__ == "__main__":
    main()
