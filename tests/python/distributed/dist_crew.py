"""Helpers that the cases of tutti.distributed share."""

import tutti.distributed as dist
from tutti.distributed import process_group
from tutti.distributed.backend import BackendConfig


def adopt(low):
    """Makes the crew's world the one of tutti.distributed: the same as init_process_group would."""
    if process_group.world.default is None:
        pg = process_group.ProcessGroup(low, list(range(low.size)), "gloo", BackendConfig("gloo"),
                                        process_group.world.next_name(), "default_pg")
        process_group.world.default = process_group.world.add(pg)
    return dist.get_rank(), dist.get_world_size()


def raises(kind, part, call):
    try:
        call()
    except kind as problem:
        assert part in str(problem), problem
        return problem
    raise AssertionError(f"no {kind.__name__} was raised")
