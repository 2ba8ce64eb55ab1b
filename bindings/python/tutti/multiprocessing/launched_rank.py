"""A rank that a launcher has started for `run`: python -m tutti.multiprocessing.launched_rank FOLDER."""

import multiprocessing.spawn
import os
import pickle
import sys
import time
import traceback

from tutti.multiprocessing import child, rank_stacks, shipping
from tutti.multiprocessing.launched import RANK_VARIABLES


def main(folder: str) -> int:
    """Calls the function that lies in the folder, and leaves its result or its exception there."""
    rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0")
    try:
        with open(os.path.join(folder, "call"), "rb") as file:
            prepared, call, init, parent = pickle.load(file)
        _die_with(parent)
        child.print_whole_lines()
        multiprocessing.spawn.prepare(prepared)
        with rank_stacks.told_to(os.path.join(folder, f"stack.{rank}")):
            child.write(os.path.join(folder, f"pid.{rank}"), os.getpid())
            fn, args, kwargs = call.open()
            value = child.call_in_world(fn, args, kwargs, init)
            child.write(os.path.join(folder, f"result.{rank}"), shipping.dumps_by_value(value))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001: `run` raises it
        failure = child.Failure(time.monotonic(), child.is_consequence(error), traceback.format_exc(), os.getpid())
        child.write(os.path.join(folder, f"error.{rank}"), failure)
        return 1
    return 0


def _die_with(parent: int) -> None:
    """The process that has called `run` is not this one's parent: the launcher is."""
    try:
        ends = [os.pidfd_open(parent)]
    except ProcessLookupError:
        sys.exit("run: the process that started this rank has ended")
    except (AttributeError, OSError):  # an old kernel: then only the launcher can end us
        return
    child.die_after(ends)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
