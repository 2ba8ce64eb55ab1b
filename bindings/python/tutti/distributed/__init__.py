"""torch.distributed's own words, without torch.

    import tutti.distributed as dist

    dist.init_process_group("gloo")         # RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    gradient = numpy.ones(1000, numpy.float32)
    dist.all_reduce(gradient)               # in place
    work = dist.all_reduce(gradient, op=dist.ReduceOp.MAX, async_op=True)
    work.wait()

Tensors are NumPy arrays, torch tensors in CPU memory, anything with DLPack, and buffers; they are used in
place. The differences from torch.distributed stand in docs/reference/semantics.md, every name in docs/reference/torch-names.md.

These hold for every operation, unless it says otherwise:

Returns: None when it has ended well; with `async_op=True` a Work at once, whose tensors must not be touched until
    it is done. A process that is not in `group` gets a warning and None.
Errors: at the call, before anything is sent: ValueError (InvalidArgument) and TypeError for what is wrong with
    it; the group stays usable. From the operation, or its Work: DisagreementError (ranks call different things),
    TimeoutError (`timeout`, or the group's, has passed), NetworkError (a rank has died or left); all are
    DistBackendError and RuntimeError, name the rank to blame, and leave the group broken.
Threads: any, but all ranks must start a group's operations in one order; different groups are independent. Waiting
    lets go of the GIL, and Ctrl-C ends it.
"""

import typing as _typing
from typing import Any as _Any

from tutti.distributed.backend import (Backend, BackendConfig, get_default_backend_for_device, is_available,
                                       is_backend_available, is_gloo_available, is_mpi_available, is_nccl_available,
                                       is_torchelastic_launched, is_ucc_available, is_xccl_available)
from tutti.distributed.arrays import empty
from tutti.distributed import coalesced as _coalesced, collectives as _collectives, multigpu as _multigpu
from tutti.distributed.coalesced import _coalescing_manager
from tutti.distributed.cart import CartGroup, cart
from tutti.distributed.collectives import monitored_barrier
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.debug import (DebugLevel, breakpoint, get_debug_level, get_node_local_rank, set_debug_level,
                                     set_debug_level_from_env)
from tutti.distributed.device_mesh import DeviceMesh, init_device_mesh
from tutti.distributed.exceptions import (DistBackendError, DistError, DistNetworkError, DistQueueEmptyError,
                                          DistStoreError, QueueEmptyError)
from tutti.distributed.process_group import GroupMember, ProcessGroup, group
from tutti.distributed.queries import (get_backend, get_backend_config, get_global_rank, get_group_rank, get_pg_count,
                                       get_process_group_ranks, get_rank, get_world_size, mpi_communicator)
from tutti.distributed.groups import (new_group, new_subgroups, new_subgroups_by_enumeration, shrink_group,
                                      split_group)
from tutti.distributed.init import destroy_process_group, init_process_group, is_initialized
from tutti.distributed.learned import all_gather_v, all_to_all_v, gather_v
from tutti.distributed.objects import (all_gather_object, all_to_all_object, broadcast_object_list, gather_object,
                                       recv_object_list, scatter_object_list, send_object_list)
from tutti.distributed.options import (AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions,
                                       BarrierOptions, BroadcastOptions, GatherOptions, ReduceOptions,
                                       ReduceScatterOptions, ScatterOptions)
from tutti.distributed.p2p import P2POp, batch_isend_irecv, recv, send, sendrecv
from tutti.distributed.probes import Message, iprobe, probe
from tutti.distributed.operators import ReduceOp, premul_sum, reduce_op, supports_complex
from tutti.distributed.rendezvous import register_rendezvous_handler, rendezvous
from tutti.distributed.stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from tutti.distributed.user_ops import UserOp
from tutti.distributed.futures import Future
from tutti.distributed.work import Work, WorkResult, as_completed, wait_any, wait_some
from tutti._tutti import NO_RANK

if _typing.TYPE_CHECKING:  # with async_op=True a Work, else None
    from tutti.distributed._overloads import *  # noqa: F403
    from tutti.distributed._overloads import _all_gather_base, _reduce_scatter_base
    distributed_c10d: _Any
    elastic: _Any
else:
    from tutti.distributed.coalesced import *
    from tutti.distributed.collectives import *
    from tutti.distributed.collectives import _all_gather_base, _reduce_scatter_base
    from tutti.distributed.multigpu import *
    from tutti.distributed.p2p import irecv, isend

    def __getattr__(name: str) -> _Any:
        # Programs reach into it without importing it; most do not.
        if name in ("distributed_c10d", "elastic"):
            from importlib import import_module
            return import_module(f"tutti.distributed.{name}")
        raise AttributeError(f"module 'tutti.distributed' has no attribute {name!r}")


def run(*arguments: _Any, **options: _Any) -> list[_Any]:
    """Call a function on several new processes, from a notebook for one: see tutti.multiprocessing.run."""
    from tutti.multiprocessing import run as start
    return start(*arguments, **options)


__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend",
    "BackendConfig", "BarrierOptions", "BroadcastOptions", "CartGroup", "DebugLevel", "DeviceMesh", "DistBackendError",
    "DistError", "DistNetworkError", "DistQueueEmptyError", "DistStoreError", "FileStore", "Future",
    "GatherOptions", "GroupMember", "HashStore", "Message", "NO_RANK", "P2POp", "PrefixStore", "ProcessGroup",
    "QueueEmptyError", "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "Store", "TCPStore",
    "UserOp", "Work", "WorkResult", "all_gather_object", "all_gather_v", "all_to_all_object", "all_to_all_v",
    "as_completed", "batch_isend_irecv", "breakpoint", "broadcast_object_list", "cart", "default_pg_timeout",
    "destroy_process_group", "empty", "gather_object", "gather_v", "get_backend",
    "get_backend_config", "get_debug_level", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_device_mesh", "init_process_group", "iprobe", "irecv", "is_available", "is_backend_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "isend", "mpi_communicator", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "premul_sum", "probe", "recv", "recv_object_list", "reduce_op",
    "register_rendezvous_handler", "rendezvous", "run", "scatter_object_list", "send", "send_object_list",
    "sendrecv", "set_debug_level", "set_debug_level_from_env", "shrink_group", "split_group", "supports_complex",
    "wait_any", "wait_some"]
__all__ += _collectives.__all__ + _coalesced.__all__ + _multigpu.__all__
__all__.sort()
