"""LightGBM's distributed training on the ranks of a group, in place of its sockets and their list of machines.

    import lightgbm
    import tutti
    import tutti.lightgbm

    world = tutti.init_process_group()
    with tutti.lightgbm.network(world) as distributed:      # {"num_machines": 2, "tree_learner": "data"}
        params = {"objective": "binary", **distributed}
        model = lightgbm.train(params, lightgbm.Dataset(features, labels))      # each rank has its own rows

LightGBM is imported when `network` is first called.
"""

import contextlib
import threading
from typing import Any, Iterator

from . import _calls

__all__ = ["network"]


@contextlib.contextmanager
def network(group: Any = None) -> Iterator[dict[str, Any]]:
    """Let LightGBM's calls in this block train one model on all ranks of `group`.

    Every rank enters the block, constructs its Dataset from rows of its own, trains, and has the same model. The group is
    that of `tutti.init_process_group` or of `tutti.distributed` (None: its world), or a sub-group.

    Gives LightGBM's parameters for these ranks: `num_machines`, and `tree_learner` "data", which may be changed to
    "voting". Without them, or with parameters that do not go with them (`machines`, `linear_tree`), LightGBM's call raises
    a LightGBMError that says so.

    Order:   collective, as is each construction and training in the block: all ranks call them in the same order. Where
             an exception leaves the block, the others' calls fail.
    Threads: LightGBM keeps its network by thread. The block is for the thread that enters it, others may have blocks with
             groups of their own. Elsewhere, and behind the block, a call with these parameters raises a LightGBMError.
    Errors:  LightGBM's calls raise a LightGBMError with tutti's text, which names the rank: it died, did not call in the
             group's timeout, or called something else. Later calls in the block fail, too. Ctrl-C ends a call that
             waits. Entering raises ImportError for a version of LightGBM with which this has not run, RuntimeError
             where this thread is in such a block already, and what making a group raises.
    Values:  predictions have the same bits on all ranks, and as with LightGBM's own sockets on as many ranks.
    """
    group = _group_of(group)
    calls = _calls.prepared()
    calls.refuse_second()
    size = group.size
    with group.new_group(list(range(size)), name=f"lightgbm in {group.name}") as own:  # aborted where an exception leaves
        ours = calls.open(own)
        opener = threading.get_ident()
        try:
            yield {"num_machines": size, "tree_learner": "data"}
        finally:
            ours.callbacks.close()
            if threading.get_ident() != opener:
                raise RuntimeError("tutti.lightgbm.network: the block was left in another thread than it was entered in")
            calls.close()


def _group_of(group: Any) -> Any:
    """Of the C++ face, whichever face the caller's has."""
    import tutti
    if group is None:
        import tutti.distributed as dist
        group = dist.group.WORLD
        if group is None:
            raise ValueError("tutti.lightgbm.network: pass the group of tutti.init_process_group, or call "
                             "tutti.distributed.init_process_group before")
    group = getattr(group, "_low", group)
    if not isinstance(group, tutti.ProcessGroup):
        raise TypeError(f"tutti.lightgbm.network: {type(group).__name__} is no group of tutti that this rank is in")
    return group
