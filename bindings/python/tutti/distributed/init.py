"""Joining the job, and leaving it."""

import os
import sys
from typing import Any

from tutti import _tutti
from tutti._numbers import without_blanks
from tutti._times import Timeout
from tutti.distributed import plugins
from tutti.distributed.backend import communicator_handle, engine_of
from tutti.distributed.constants import timeout_or_default
from tutti.distributed.process_group import AnyGroup, ProcessGroup, default_group, is_non_member
from tutti.distributed.rendezvous import (check_place, handlers, no_handler, no_variable, parsed, port_of, query_of,
                                          rendezvous, rendezvous_error, with_rank)
from tutti.distributed.world import DESTROYED, UNINITIALISED, world

# DDP, FSDP and DistributedSampler ask torch's own process groups, in the same words as ours.
_OF_TORCHS_WORLD = """\
tutti: the world of tutti.distributed is there, but torch asked for a process group of its own, and has none.
tutti: For DDP, FSDP and the like `import tutti.torch` and call torch.distributed.init_process_group("tutti") instead.
tutti: DistributedSampler needs only `num_replicas=dist.get_world_size(), rank=dist.get_rank()`.
"""
_OTHER_LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def is_initialized() -> bool:
    """init_process_group was called, and destroy_process_group was not."""
    return world.is_there()


def check_device_id(device_id: Any) -> None:
    """No engine here is bound to an accelerator."""
    if device_id is None:
        return
    if isinstance(device_id, int):
        raise ValueError("device_id is an int, but no accelerator support is found from the current compilation. "
                         "Please use a different compiled version that supports your accelerator.")
    raise ValueError("init_process_group device_id parameter must be an accelerator with an index")


def _check_environment(rank: int, size: int) -> None:
    """The texts that programs know, for variables that are missing; a launcher of MPI's or Slurm's gives
    some of them in its own way."""
    if any(name in os.environ for name in _OTHER_LAUNCHERS):
        return
    if (rank, size) == (0, 1) and not any(name in os.environ for name in _tutti.ADDRESS_VARIABLES):
        return  # a world of one, which meets nobody
    for given, name in ((rank, "RANK"), (size, "WORLD_SIZE")):
        if given == -1 and name not in os.environ:
            raise no_variable(name)
    text = without_blanks(os.environ.get("RANK", ""))
    mine = rank if rank != -1 else int(text) if text.isdigit() else -1
    if "MASTER_ADDR" not in os.environ and mine != 0:
        raise no_variable("MASTER_ADDR")
    if "MASTER_PORT" not in os.environ and "TUTTI_STORE_PORT" not in os.environ:
        raise no_variable("MASTER_PORT")


def _check_url(url: str, rank: int, size: int) -> None:
    parts, query = parsed(url), query_of(url)
    scheme = parts.scheme
    with_rank(url, rank, size)
    if scheme == "file" and not parts.path:
        raise rendezvous_error("file", "path missing")
    if scheme == "tcp" and port_of(parts) is None:
        raise rendezvous_error("tcp", "port number missing")
    if any(name in os.environ for name in _OTHER_LAUNCHERS):
        return
    for given, name in ((rank, "rank"), (size, "world_size")):
        if given == -1 and name not in query and name.upper() not in os.environ:
            raise rendezvous_error(scheme, f"{name.replace('_', ' ')} parameter missing")


def init_process_group(backend: str | None = None, init_method: str | None = None,
                       timeout: Timeout = None, world_size: int = -1, rank: int = -1,
                       store: Any = None, group_name: str = "", pg_options: Any = None,
                       device_id: Any = None, *, or_alone: bool = False) -> None:
    """Make the group of all processes of the job; blocks until all have joined.

    `backend`: "gloo" (also "native", "tutti", "cpu:gloo", "cuda:gloo"): this library's engine, for all tensors; "mpi",
    where rank and size come from MPI's own launcher and pg_options may be the communicator whose ranks are meant
    (mpi4py's, or its handle; default: MPI_COMM_WORLD); "nccl" or "cpu:gloo,cuda:nccl"; or a name that was registered;
    None: what TUTTI_BACKEND says, which is ours. `init_method`: "env://" (the default: RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT, read now; rank 0 may leave MASTER_ADDR out), "tcp://host:port", "file:///path"; or a `store` with rank
    and world_size. Arguments beat the environment: rank=0 and world_size=1, where no address is told, make a world of
    this process alone, and so does `or_alone` where no launcher has started the program. `timeout`: of init and of
    operations that say none; unless given that in TUTTI_TIMEOUT, or 30 minutes. `group_name`: only ranks that give the
    same one find each other. Survivors of a failure, which have new ranks, take a name that was not used before.
    """
    if world.is_there():
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    limit = timeout_or_default(timeout)
    if not isinstance(group_name, str):
        raise TypeError(f"init_process_group: group_name is text, not {group_name!r}")
    check_place(rank, world_size)
    check_device_id(device_id)
    name, config = engine_of(backend)
    options: dict[str, Any] = {"rank": None if rank == -1 else rank,
                               "world_size": None if world_size == -1 else world_size,
                               "timeout": limit, "job_name": group_name,
                               "backend": config.engine(), "backend_options": plugins.Wanted("0", None, pg_options),
                               "or_alone": or_alone}
    by_mpi = options["backend"] == "mpi" and store is None and init_method in (None, "env://")
    if options["backend"] == "mpi":
        options["backend_options"] = communicator_handle(pg_options)
        if by_mpi:  # as torch.distributed's: MPI tells them
            options.update(rank=None, world_size=None)
    if store is None and not by_mpi:
        url = init_method or "env://"
        if not isinstance(url, str):
            raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
        scheme = "env" if url == "env://" else parsed(url).scheme
        if scheme in handlers:
            store, rank, world_size = next(rendezvous(url, rank, world_size, timeout=limit))
            options.update(rank=rank, world_size=world_size)
        elif scheme == "env":
            if not or_alone or any(name in os.environ for name in ("RANK", "WORLD_SIZE", *_tutti.ADDRESS_VARIABLES)):
                _check_environment(rank, world_size)
        elif scheme in ("tcp", "file"):
            _check_url(url, rank, world_size)
        else:
            raise no_handler(url, scheme)
        if store is None and init_method is not None:
            options["init_method"] = url
    from tutti import log  # noqa: PLC0415: `import tutti.distributed` does without logging

    log.install_once()
    if store is not None:
        options["store"] = store
    low = _tutti.init_process_group(**options)
    with world.lock:
        world.clear()
        world.default = world.add(
            ProcessGroup(low, list(range(low.size)), name, config, world.next_name(), "default_pg"))
    _mark_tracebacks(low.rank)


def _mark_tracebacks(rank: int) -> None:
    """Uncaught errors name their rank, since ranks may share a terminal. torchrun is told of them, too."""
    if world.excepthook is not None:
        return
    before = sys.excepthook

    def hook(kind: Any, problem: BaseException, trace: Any) -> None:
        if isinstance(problem, Exception) and "TORCHELASTIC_ERROR_FILE" in os.environ:
            from tutti.distributed.elastic.multiprocessing.errors import write_error
            write_error(problem)
        if before is not sys.__excepthook__ or world.default is None:
            before(kind, problem, trace)
            return
        import traceback
        text = "".join(traceback.format_exception(kind, problem, trace))
        if isinstance(problem, ValueError) and str(problem) == UNINITIALISED:
            text += _OF_TORCHS_WORLD  # ours is there, so it is torch that misses its own
        sys.stderr.write("".join(f"[rank{rank}]: {line}\n" for line in text.rstrip("\n").split("\n")))

    sys.excepthook = hook
    world.excepthook = (hook, before)


def destroy_process_group(group: AnyGroup = None) -> None:
    """Let go of a group; of all groups for None and for the world. Local, waits for nobody. Calls in which other threads
    wait for the group end with an error."""
    if is_non_member(group):
        return
    if group is None and world.default is None:
        raise AssertionError("Process group cannot be None: there is no world, or it was destroyed already")
    pg = default_group() if group is None else group
    if not isinstance(pg, ProcessGroup):
        raise ValueError(DESTROYED)
    world.destroy(pg)
