"""The module that programs reach into: the same names, and some that torch.distributed keeps to itself."""

from typing import Any

from tutti.distributed import *  # noqa: F403
from tutti.distributed.coalesced import _coalescing_manager
from tutti.distributed.process_group import ProcessGroup, _rank_not_in_group, default_group, world

__all__ = ["_coalescing_manager", "_get_default_group", "_get_default_store", "_get_process_group_name",
           "_rank_not_in_group"]


def _get_default_group() -> ProcessGroup:
    """The world; ValueError before init_process_group."""
    return default_group()


def _get_default_store() -> Any:
    """The store that init_process_group was given; None where it met otherwise."""
    default_group()
    return world.store


def _get_process_group_name(pg: ProcessGroup) -> str:
    return pg.group_name
