"""Helpers that the cases of tutti.distributed share."""

import tutti.distributed as dist
from raising import raises  # noqa: F401
from tutti.distributed import process_group
from tutti.distributed.backend import BackendConfig


def adopt(low):
    """Makes the crew's world the one of tutti.distributed, the same as init_process_group would: its rank, and how many
    there are. ranks.Crew calls it, and gives that to each case."""
    if process_group.world.default is None:
        pg = process_group.ProcessGroup(low, list(range(low.size)), "gloo", BackendConfig("gloo"),
                                        process_group.world.next_name(), "default_pg")
        process_group.world.default = process_group.world.add(pg)
    return dist.get_rank(), dist.get_world_size()
