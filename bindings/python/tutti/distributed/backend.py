"""Names of engines. Which of them there are, one list says: that of tutti.available_backends()."""

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tutti import _tutti
from tutti.distributed import plugins

_OURS = ("gloo", "native", "tutti")  # all of them mean the engine of this library
_ELSEWHERE = {"cuda": "nccl", "xpu": "xccl", "mps": "gloo"}  # torch's names for other devices, which need not be here
_THEIRS = {"mpi": "MPI", "nccl": "NCCL", "ucc": "UCC", "xccl": "XCCL"}  # of torch.distributed's own
_SERVED = {**dict.fromkeys(_OURS, ("cpu", "cuda")), "mpi": ("cpu",), "nccl": ("cuda",)}  # devices of their tensors


class BackendNameError(AssertionError, ValueError):
    """A name that nobody has registered."""


class Backend(str):
    """The name of an engine, in lower case: `Backend("GLOO")` is "gloo".

    "gloo", "native" and "tutti" all mean this library's own engine for the CPU: shared memory and TCP.
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    NATIVE = "native"
    TUTTI = "tutti"

    backend_list: ClassVar[list[str]] = ["undefined", *_OURS, "mpi"]
    backend_capability: ClassVar[dict[str, list[str]]] = {name: ["cpu"] for name in (*_OURS, "mpi")}
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": "gloo"}
    _plugins: ClassVar[dict[str, plugins.Plugin]] = {}  # the function of each name; tutti itself has the list of names

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(Backend, name.upper(), Backend.UNDEFINED)
        if not isinstance(value, str) or value == Backend.UNDEFINED:
            value = name.lower()
        return str(value)

    @classmethod
    def register_backend(cls, name: str, func: Callable[..., Any], extended_api: bool = False,
                         devices: str | Sequence[str] | None = None) -> None:
        """Make `name` known to init_process_group, to new_group and the other calls that make groups, and to
        all else that chooses an engine (TUTTI_BACKEND, tutti.init_process_group). A name may be registered again: the last one counts.

        `func(store, rank, world_size, timeout)` makes the group on each member; with `extended_api`
        it is `func(options, pg_options)`, where options has store, group_rank, group_size, group_id,
        global_ranks_in_group and timeout. It returns a tutti.ProcessGroup with that rank and size.
        `store` is a part of the world's for this group alone. Before it is called the members have
        compared which engine they mean; what it raises, the call raises (the other members are in theirs
        and hear nothing of it). It may run on another thread than the caller's.

        Errors: ValueError for a name that is no text, TypeError for what cannot be called, RuntimeError
        for the name of an engine that is here anyway, or one of torch.distributed's own.
        """
        if not isinstance(name, str) or not name:
            raise ValueError("Backend constructor parameter must be string-ish")
        if not callable(func):
            raise TypeError(f"register_backend({name!r}): func must be callable, not {type(func)}")
        lower = name.lower()
        if lower not in Backend._plugins:
            if lower in _THEIRS or _tutti.is_available(lower):
                raise RuntimeError(f"register_backend: {lower!r} is the name of an engine that exists; choose another")
            _tutti.register_backend(lower, functools.partial(plugins.make, Backend._plugins, lower))
        setattr(Backend, name.upper(), lower)
        if lower not in Backend.backend_list:
            Backend.backend_list.append(lower)
        if devices is None:
            warnings.warn(f"Device capability of {name} unspecified, assuming `cpu`. Please specify it via the "
                          f"`devices` argument of `register_backend`.", stacklevel=2)
            devices = "cpu"
        Backend.backend_capability[lower] = [devices] if isinstance(devices, str) else list(devices)
        Backend._plugins[lower] = (func, extended_api)


class BackendConfig:
    """A backend string, parsed: which engine serves tensors of which device."""

    def __init__(self, backend: str) -> None:
        if not isinstance(backend, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        text = backend.lower()
        self.device_backend_map: dict[str, str] = {}
        self._agreed = text in (Backend.UNDEFINED, "auto")  # each group agrees where its tensors on GPUs go
        if self._agreed:
            self.device_backend_map = dict(Backend.default_device_backend_map)
        elif ":" in text:
            for pair in text.split(","):
                parts = pair.split(":")
                if len(parts) != 2 or not all(parts):
                    raise ValueError(f"The custom backend string argument is invalid: {backend}.\nCustom backend "
                                     f"string must be in the format: \"<device_type1>:<backend1>,"
                                     f"<device_type2>:<backend2>...\". e.g. 'cpu:gloo'")
                device, name = parts
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device} in backend string: {name}. The custom backend "
                                     f"string argument is invalid: {backend}.\nCustom backend string must be in the "
                                     f"format: \"<device_type1>:<backend1>,<device_type2>:<backend2>...\". "
                                     f"e.g. 'cpu:gloo'")
                self.device_backend_map[device] = str(Backend(name))
        else:
            devices = Backend.backend_capability.get(text) or list(_SERVED.get(text, ("cpu",))[:1])
            self.device_backend_map = {device: text for device in devices}

    def get_device_backend_map(self) -> dict[str, str]:
        """The engine's name for each device."""
        return self.device_backend_map

    def engine(self) -> str:
        """The one that makes the group, as tutti.available_backends() calls it; "cpu:native,cuda:nccl" if tensors of
        the CPU and of GPUs have each their own; "auto" if none is named. RuntimeError for any other engines that
        differ: a world would leave one of them out."""
        if self._agreed:
            return "auto"
        names = {device: _tutti.engine_name(name) for device, name in self.device_backend_map.items()}
        if names == {"cpu": "native", "cuda": "nccl"}:
            return "cpu:native,cuda:nccl"
        if len(set(names.values())) > 1:
            raise RuntimeError(f"backend '{self}': no world has these engines together; name one engine, or "
                               f"\"cpu:gloo,cuda:nccl\"")
        return next(iter(names.values()))

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


def engine_of(backend: str | None) -> tuple[str, BackendConfig]:
    """The name that get_backend answers with, and the configuration. None: what TUTTI_BACKEND says now. Raises
    for what cannot be had: an unknown name, an engine that is not here, one for a device that it does not serve,
    engines that no world has together."""
    if backend is None:
        backend = _tutti.Config.from_environment().backend
        if _tutti.engine_name(backend) in ("auto", "native"):
            return Backend.UNDEFINED, BackendConfig("auto" if backend.lower() == "auto" else Backend.GLOO)
    name = Backend(backend)
    config = BackendConfig(backend)
    for device, engine in config.device_backend_map.items():
        served = _SERVED.get(engine)
        if served is not None and device not in served:
            raise RuntimeError(f"backend {backend!r}: {engine!r} serves tensors on {' and '.join(served)}, not on {device!r}; "
                               f"use \"{served[0]}:{engine}\"")
        if not is_backend_available(engine):
            if engine in _THEIRS:
                raise RuntimeError(f"Distributed package doesn't have {_THEIRS[engine]} built in: "
                                   f"{_tutti.why_unavailable(engine)}")
            raise BackendNameError(f"Unknown backend type {engine}; known are "
                                   f"{', '.join(name for name in Backend.backend_list if name != 'undefined')}")
    config.engine()  # raises for engines that no world has together
    return name, config


def communicator_handle(communicator: Any) -> int | None:
    """The handle of mpi4py's communicator, or a handle itself, for the engine "mpi"; None: MPI_COMM_WORLD."""
    if communicator is None or isinstance(communicator, int):
        return communicator
    handle = getattr(communicator, "handle", None)  # mpi4py 4
    if not isinstance(handle, int):
        raise TypeError(f"init_process_group: pg_options of backend \"mpi\" is a communicator (mpi4py 4 or later) or its "
                        f"handle, not {communicator!r}")
    return handle


def is_available() -> bool:
    """The package can be used: True."""
    return True


def is_gloo_available() -> bool:
    """backend="gloo" is to be had: it is this library's own engine for the CPU."""
    return True


def is_mpi_available() -> bool:
    """backend="mpi" is to be had: the plug-in is here, and an MPI library that it can load. MPI is not begun."""
    return is_backend_available("mpi")


def is_nccl_available() -> bool:
    """backend="nccl" is to be had: the plug-in, a GPU, its driver and NCCL are here. None of them is begun."""
    return is_backend_available("nccl")


def is_ucc_available() -> bool:
    """backend="ucc" is to be had: not in this build."""
    return is_backend_available("ucc")


def is_xccl_available() -> bool:
    """backend="xccl" is to be had: not in this build."""
    return is_backend_available("xccl")


def is_backend_available(backend: str) -> bool:
    """True if init_process_group takes that name."""
    return _tutti.is_available(str(backend))


def is_torchelastic_launched() -> bool:
    """A launcher that restarts workers has started this process (TORCHELASTIC_RUN_ID is set)."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device: Any) -> str:
    """The engine for "cpu" and other devices."""
    name = getattr(device, "type", device)
    name = str(name).split(":")[0]
    known = {**_ELSEWHERE, **Backend.default_device_backend_map}
    if name not in known:
        raise RuntimeError(f"Default backend not registered for device : {device}")
    return known[name]
