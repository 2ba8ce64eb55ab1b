"""How processes find each other by a URL."""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from tutti._numbers import whole_number, without_blanks
from tutti._times import duration
from tutti.distributed.constants import default_store_timeout
from tutti.distributed.stores import FileStore, PrefixStore, Store, TCPStore

Found = tuple[Store, int, int]
_OURS = ("env", "tcp", "file")
handlers: dict[str, Callable[..., Iterator[Found]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Found]]) -> None:
    """Make URLs of that scheme known. `handler(url, timeout=...)` yields (store, rank, world_size)."""
    if scheme in handlers or scheme in _OURS:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    handlers[scheme] = handler


def rendezvous_error(scheme: str, what: str) -> ValueError:
    """A URL that lacks something, in the words that programs know."""
    return ValueError(f"Error initializing tutti.distributed using {scheme}:// rendezvous: {what}")


def no_variable(name: str) -> ValueError:
    """The error of a variable that is not set: torch's words, and what to do."""
    return rendezvous_error("env", f"environment variable {name} expected, but not set; tuttirun sets it for the processes that it "
                        f"starts, or give init_method, rank and world_size")


def no_handler(url: str, scheme: str) -> RuntimeError:
    """A URL of a scheme that nobody serves."""
    known = ", ".join(f"{name}://" for name in (*_OURS, *handlers))
    return RuntimeError(f"No rendezvous handler for {scheme}:// in {url!r}; there are {known}")


def check_place(rank: int, world_size: int) -> None:
    """The number; RuntimeError if the text is none."""
    for value, name in ((rank, "rank"), (world_size, "world_size")):
        if not hasattr(value, "__index__"):
            raise RuntimeError(f"`{name}` must be an integer. {value}")


def parsed(url: str) -> Any:
    """The parts of a URL, as urllib.parse has them."""
    from urllib.parse import urlparse  # large
    return urlparse(url)


def query_of(url: str) -> dict[str, str]:
    """The options behind the question mark."""
    from urllib.parse import parse_qs  # large, and mostly not needed
    return {name: values[-1] for name, values in parse_qs(parsed(url).query).items()}


def _number(text: str, name: str) -> int:
    return whole_number(text, f"rendezvous: {name}")


def port_of(parts: Any) -> int | None:
    """The port of a parsed URL. ValueError if it is none."""
    text = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
    if text != without_blanks(text):  # urllib refuses these
        return _number(text, "the port")
    port: int | None = parts.port
    return port


def with_rank(url: str, rank: int, world_size: int) -> str:
    """The URL with the arguments that were given beside it."""
    if (rank, world_size) != (-1, -1) and {"rank", "world_size"} & query_of(url).keys():
        raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
    more = [f"{name}={value}" for name, value in (("rank", rank), ("world_size", world_size)) if value != -1]
    if not more:
        return url
    return url + ("&" if "?" in url else "?") + "&".join(more)


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **options: Any) -> Iterator[Found]:
    """Yields (store, rank, world_size) for a URL: env://, tcp://host:port?rank=&world_size=,
    file:///path?rank=&world_size=, or a registered scheme. A store over TCP has the job's secret, and is
    encrypted where TUTTI_TLS says so, as that of init_process_group."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    check_place(rank, world_size)
    url = url.decode() if isinstance(url, bytes) else url
    scheme = parsed(url).scheme
    if scheme in handlers:
        return handlers[scheme](with_rank(url, rank, world_size), **options)
    if scheme not in _OURS:
        raise no_handler(url, scheme)
    return _ours(scheme, with_rank(url, rank, world_size), duration(options.get("timeout", default_store_timeout)))


def _store_port(master_port: int) -> int:
    """Where the launcher's store is, if not there."""
    text = os.environ.get("TUTTI_STORE_PORT")
    return master_port if text is None else _number(text, "TUTTI_STORE_PORT")


def _jobs_store(host: str, port: int, size: int | None, serve: bool, timeout: timedelta) -> TCPStore:
    """A store that is as closed as that of init_process_group: with the job's secret, name and encryption."""
    from tutti import _tutti  # noqa: PLC0415: only here

    return TCPStore(host, port, size, serve, timeout,
                    encrypt=_tutti.Config.from_environment().tls, job=os.environ.get("TUTTI_JOB", ""))


def _ours(scheme: str, url: str, timeout: timedelta) -> Iterator[Found]:
    parts, query = parsed(url), query_of(url)

    def wanted(name: str) -> int:
        if name in query:
            return _number(query[name], name)
        if scheme == "env":
            text = os.environ.get(name.upper())
            if text is None:
                raise no_variable(name.upper())
            return _number(text, name.upper())
        raise rendezvous_error(scheme, f"{name.replace('_', ' ')} parameter missing")

    if scheme == "file":
        path = parts.path if not parts.netloc else parts.netloc + parts.path
        if not path:
            raise rendezvous_error("file", "path missing")
        rank, size = wanted("rank"), wanted("world_size")
        yield FileStore(path, size), rank, size
        raise RuntimeError("Unable to perform rerendezvous using file:// method")
    rank, size = wanted("rank"), wanted("world_size")
    if scheme == "env":
        host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
        if host is None:
            if rank != 0:
                raise no_variable("MASTER_ADDR")
            host = "0.0.0.0"  # rank 0 may leave it out: it serves on every address
        if port is None:
            raise no_variable("MASTER_PORT")
        number = _number(port, "MASTER_PORT")
    else:
        found = port_of(parts)
        if found is None:
            raise rendezvous_error("tcp", "port number missing")
        host, number = parts.hostname or "127.0.0.1", found
    if scheme == "env" and without_blanks(os.environ.get("TUTTI_AGENT_STORE", "")) == "1":
        store = _jobs_store(host, _store_port(number), None, False, timeout)
    else:
        store = _jobs_store(host, number, size, rank == 0, timeout)
    yield PrefixStore("rendezvous", store) if scheme == "env" else store, rank, size
    raise RuntimeError(f"Unable to perform re-rendezvous using {scheme}:// method")
