"""How the ranks of a group meet. Ray tells a group its size, its rank and its name, and no address.

Rank 0 serves a store of tutti and writes its address into Ray's key-value store, where the others find it. There is no
secret in Ray's store: the ranks prove to each other that they know the user's key (docs/reference/security.md).
"""

import logging
import secrets
import time

import ray
import tutti
from ray.experimental import internal_kv
from ray.util import get_node_ip_address
from tutti.errors import RendezvousTimeoutError

_NAMESPACE = "tutti"  # of Ray's key-value store, which all jobs of a cluster share
_POLL = (0.01, 0.5)  # seconds between two looks for rank 0's address: at first, and at most
_FIRST_TRY = 1.0  # seconds to reach the store of an address that may be out of date

_ADVICE = "see whether its actor lives and has called init_collective_group, or its first operation on the group"

_log = logging.getLogger("tutti")


def meet(name: str, rank: int, size: int) -> tutti.ProcessGroup:
    """The group of these ranks; blocks until all have come, at most TUTTI_TIMEOUT (30 minutes).

    tutti.TimeoutError names the ranks that have not come. A name may be used again as soon as this has returned.
    """
    config = tutti.Config.from_environment()
    # Groups of one name in two namespaces of a cluster are two groups, as Ray's named actors are.
    key = f"{ray.get_runtime_context().namespace}/{name}"
    if rank > 0:
        store = _find_store(key, name, rank, config)
        group = _join(store, name, rank, size, config)
    else:
        job = secrets.token_hex(16)  # a rank that comes with an old address finds another job there, or nobody
        host = get_node_ip_address()
        store = tutti.TCPStore(host, 0, size, is_master=True, wait_for_workers=False, encrypt=config.tls, job=job)
        entry = f"{job} {store.port} {host}".encode()
        internal_kv._internal_kv_put(key, entry, overwrite=True, namespace=_NAMESPACE)
        try:
            group = _join(store, name, rank, size, config)
        finally:
            # Before the barrier below: a rank that has passed it may use the name again, and must not find this address.
            if internal_kv._internal_kv_get(key, namespace=_NAMESPACE) == entry:
                internal_kv._internal_kv_del(key, namespace=_NAMESPACE)
    group.barrier()
    return group


def _join(store: tutti.Store, name: str, rank: int, size: int, config: tutti.Config) -> tutti.ProcessGroup:
    try:
        return tutti.init_process_group(store=store, rank=rank, world_size=size, config=config, name=name)
    except RendezvousTimeoutError as problem:
        # Its advice is about addresses, of which a program of Ray has none.
        raise tutti.TimeoutError(f"tutti.ray: group '{name}' was not made within TUTTI_TIMEOUT: {str(problem).partition(';')[0]}; "
                                 f"{_ADVICE}") from problem


def _find_store(key: str, name: str, rank: int, config: tutti.Config) -> tutti.TCPStore:
    """The store of rank 0. An address may be that of a rank 0 that was killed: then look again for a new one."""
    began = time.monotonic()
    deadline = began + config.timeout.total_seconds()
    warning = began + (config.stall_warning.total_seconds() or float("inf"))  # 0: no warnings
    pause, one_try = _POLL[0], _FIRST_TRY
    why = "it has not made the group"
    while (left := deadline - time.monotonic()) > 0:
        entry = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
        if entry is not None:
            job, port, host = entry.decode().split(" ")
            try:
                return tutti.TCPStore(host, int(port), None, timeout=min(one_try, left), encrypt=config.tls, job=job)
            except tutti.NetworkError as problem:
                # Refused: another job has the port of a killed rank 0, or the ranks have different keys, which is final.
                refused = not isinstance(problem, tutti.TimeoutError)
                if refused and internal_kv._internal_kv_get(key, namespace=_NAMESPACE) == entry:
                    raise
                why, one_try = str(problem), min(2 * one_try, 60.0)
        if time.monotonic() > warning:
            warning = float("inf")
            _log.warning("rank %d of group '%s' has waited %.0f s for rank 0: %s", rank, name, time.monotonic() - began, why)
        time.sleep(min(pause, max(left, 0.0)))
        pause = min(2 * pause, _POLL[1])
    raise tutti.TimeoutError(f"tutti.ray: rank 0 of group '{name}' did not come within {config.timeout.total_seconds():g} s "
                             f"(TUTTI_TIMEOUT): {why}; {_ADVICE}")
