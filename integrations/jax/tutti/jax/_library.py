"""Loads the library that jaxlib takes for an MPI."""

import contextlib
import ctypes
import importlib.metadata
import os
import pathlib
import sys
from collections.abc import Iterator

from tutti import _tutti

NEWEST = "0.10.2"
TRIED = f"0.10.0 and {NEWEST}"
_SERIES = "0.10"  # modules of JAX that are used here are private, and may change with the next one
_PREFIX = "MPITRAMPOLINE_"
_library: ctypes.CDLL | None = None


def load() -> None:
    """Loads it into this process, and imports jax, which looks for it only then. ImportError says what is wrong."""
    global _library
    if _library is not None:
        return
    _check_versions()
    if "jax" in sys.modules or "jaxlib._jax" in sys.modules:
        raise ImportError("jax has been imported already, and looks for its collectives only then: import tutti.jax before "
                          "jax and all that imports it, or start the program by `python -m tutti.jax program.py`")
    path = pathlib.Path(_tutti.__file__).parent / "lib" / "libtutti_jax.so"
    if not path.exists():
        raise ImportError(f"tutti.jax: there is no {path}; install tutti's wheel")
    # Loaded here first: jaxlib would end the process if it cannot be loaded, and would give it symbols of its own.
    library = ctypes.CDLL(str(path))
    with _environment({_PREFIX + "LIB": str(path)}):
        import jax  # noqa: PLC0415: it reads the variable while it is imported
    jax.config.update("jax_cpu_collectives_implementation", "mpi")
    _library = library


def loaded() -> ctypes.CDLL:
    """The library, after `load`."""
    assert _library is not None
    return _library


def _check_versions() -> None:
    for name in ("jax", "jaxlib"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise ImportError(f"tutti.jax needs {name}: pip install jax=={NEWEST}") from None
        if not version.startswith(_SERIES + "."):
            raise ImportError(f"tutti.jax does not know {name} {version}: it was tried with {TRIED} and takes "
                              f"{_SERIES}.*; pip install jax=={NEWEST}")


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """The variables of jaxlib's loader, only inside: children must not find them."""
    before = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)
