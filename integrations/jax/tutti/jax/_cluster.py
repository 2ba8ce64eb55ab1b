"""Lets `jax.distributed.initialize()` find the other processes without arguments if tuttirun has started this one."""

import os
import socket
from datetime import timedelta

from jax._src import clusters

_SET_BY_TUTTIRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TUTTI_STORE_PORT")
_held: list[socket.socket] = []  # keeps the coordinator's port from other programs
_jobs = 0


class Tuttirun(clusters.ClusterEnv):  # type: ignore[misc]
    """The answers to JAX about the job."""

    name = "tuttirun"

    @classmethod
    def is_env_present(cls) -> bool:
        """True if tuttirun has started this process."""
        return os.environ.get("TUTTI_AGENT_STORE") == "1" and all(name in os.environ for name in _SET_BY_TUTTIRUN)

    @classmethod
    def get_coordinator_address(cls, timeout_secs: int | None, override_coordinator_port: str | None) -> str:
        """The host of process 0, with a port that it takes and tells in tuttirun's store. The program's own MASTER_PORT is
        left to torch."""
        global _jobs
        _jobs += 1
        port = override_coordinator_port or _agreed_port(300 if timeout_secs is None else timeout_secs)
        host = os.environ["MASTER_ADDR"]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @classmethod
    def get_process_count(cls) -> int:
        """How many processes the job has."""
        return int(os.environ["WORLD_SIZE"])

    @classmethod
    def get_process_id(cls) -> int:
        """The number of this one."""
        return int(os.environ["RANK"])

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """Its number on this host."""
        return int(os.environ["LOCAL_RANK"])


def register() -> None:
    """Makes it the first place where JAX looks: a job of Slurm may start tuttirun."""
    known = clusters.ClusterEnv._cluster_types
    known.remove(Tuttirun)
    known.insert(0, Tuttirun)


def _agreed_port(seconds: int) -> str:
    from tutti.distributed.rendezvous import rendezvous  # noqa: PLC0415: only here

    store, rank, _ = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
    key = f"tutti.jax/coordinator/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{_jobs}"
    if rank != 0:
        return store.get(key).decode()
    # Bound and not listening: the coordinator can listen there, and nobody gets the port by chance.
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    _held.append(held)
    port = str(held.getsockname()[1])
    store.set(key, port)
    return port
