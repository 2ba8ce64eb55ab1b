"""How much a job looks after itself, and stopping in one rank of it."""

import enum
import os
import sys
import types
from typing import Any

from tutti._numbers import whole_number


class DebugLevel(enum.IntEnum):
    """As TORCH_DISTRIBUTED_DEBUG says it. The engine compares the calls of all ranks at every level."""

    OFF = 0
    INFO = 1
    DETAIL = 2

    def __str__(self) -> str:
        return f"DebugLevel.{self.name}"


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level that was set, or that of TORCH_DISTRIBUTED_DEBUG."""
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set it for this process."""
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Read TORCH_DISTRIBUTED_DEBUG: OFF, INFO or DETAIL."""
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() or "OFF"
    if text not in DebugLevel.__members__:
        raise ValueError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL. It is {text!r}")
    set_debug_level(DebugLevel[text])


# Of tuttirun and torchrun; Open MPI; MPICH and Intel MPI.
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank among those of this host: LOCAL_RANK, or mpirun's variable for it, or the fallback."""
    for name in _LOCAL_RANKS:
        if name in os.environ:
            return whole_number(os.environ[name], name)
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
                       "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
                       "want the code to run locally instead.")


def _has_no_input() -> bool:
    """Whether input() would find the end of a file at once. Notebooks have an input() of their own."""
    if not isinstance(input, types.BuiltinFunctionType):
        return False
    try:
        return os.path.samestat(os.fstat(0), os.stat(os.devnull))
    except OSError:  # closed
        return True


def _why_not(rank: int) -> str | None:
    """Why this rank, which is to stop, cannot be talked to; None: it can."""
    reader = os.environ.get("TUTTI_STDIN", str(rank))
    if reader != str(rank):
        other = "no rank" if reader == "none" else f"rank {reader}"
        return f"the terminal is read by {other}; start the job with tuttirun --stdin {rank}"
    if _has_no_input():
        return (f"rank {rank} has no standard input; start the job from a terminal, with tuttirun "
                f"--stdin {rank}")
    return None


_passed: dict[int, int] = {}


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float = 3600) -> None:
    """Stop in the debugger on one rank; the others wait for it. `skip`: pass so often before stopping. The rank needs a
    standard input, under tuttirun on a terminal that of `--stdin`, else rank 0: ValueError on all ranks."""
    from tutti.distributed.collectives import barrier
    from tutti.distributed.objects import broadcast_object_list, check_objects
    from tutti.distributed.process_group import default_group
    from tutti.distributed.queries import get_rank
    check_objects(default_group(), "breakpoint")
    if skip > 0:
        frame: Any = sys._getframe(1)
        place = hash((frame.f_code.co_filename, frame.f_lineno))
        _passed[place] = _passed.get(place, 0) + 1
        if _passed[place] <= skip:
            return
    # Only that rank knows; the others would wait for it.
    why_not = [_why_not(rank) if get_rank() == rank else None]
    broadcast_object_list(why_not, src=rank)
    if why_not[0] is not None:
        raise ValueError(f"breakpoint(rank={rank}): {why_not[0]}")
    if get_rank() == rank:
        import pdb
        print(f"\n!!! ATTENTION !!!\n\nType 'up' to get to the frame that called tutti.distributed.breakpoint("
              f"rank={rank})\n")
        pdb.Pdb().set_trace()
    barrier(timeout=timeout_s)
