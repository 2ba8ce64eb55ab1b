"""The exceptions that tutti raises."""

import builtins
import re
import sys

# Quoted words are the caller's own, as names of groups are.
_TENSOR = re.compile(r"""(?<!\w)'[^']*'|"[^"]*"|`[^`]*`|\b(?P<article>[Aa] )?(?<!torch )(?P<word>[Tt]ensor)(?=s?\b)""")


def _array(found: re.Match[str]) -> str:
    if found["word"] is None:
        return found[0]
    article = found["article"]
    return (f"{article[0]}n " if article else "") + ("Array" if found["word"][0] == "T" else "array")


class Error(RuntimeError):
    """Base of everything tutti raises.

    The text speaks of tensors where the caller has given torch tensors, of arrays where the caller has given others. Where an
    error is of no call with arrays, it speaks of arrays in a program that has not imported torch.

    `code` is the kind of failure as C++ names it ("peer_lost"); `culprit` the rank to blame, or None.
    """

    code = ""
    culprit: int | None = None
    of_tensors: bool | None = None  # None: it is of no call with arrays

    def __str__(self) -> str:
        text = super().__str__()
        of_tensors = "torch" in sys.modules if self.of_tensors is None else self.of_tensors
        return text if of_tensors else _TENSOR.sub(_array, text)


class InvalidArgument(Error, ValueError):
    """The caller's mistake: nothing was sent, the group is usable."""


class DisagreementError(Error):
    """Ranks called different things at the same place in their order."""


class TimeoutError(Error, builtins.TimeoutError):  # the name that C++ has too
    """A deadline passed."""


class NetworkError(Error, ConnectionError):
    """A peer died, left, or its connection broke or was refused."""


class StoreError(Error):
    """The store failed."""


class BackendError(Error):
    """Anything else that could not be done."""


# Finer classes, each of which is what torch.distributed raises there as well: `except` for either works.


class StoreTimeoutError(TimeoutError, StoreError):
    """A store: nobody has set the key, or come, in time. torch's DistStoreError."""


class UnreachableError(TimeoutError, NetworkError):
    """Nobody serves the store there, or its host is unknown. torch's DistNetworkError."""


class RendezvousTimeoutError(StoreTimeoutError, UnreachableError):
    """init_process_group: the store, or some ranks, did not come in time."""


class ServeError(StoreError, NetworkError):
    """The store cannot be served: its port is in use ("EADDRINUSE"), for one. torch's DistNetworkError."""


class QueueEmptyError(StoreError, IndexError):
    """A queue of a store has no value."""


class InvalidStoreArgument(InvalidArgument, StoreError):
    """A wrong argument of a store's method, for which torch raises DistStoreError."""


class WrongLengthError(InvalidArgument, IndexError):
    """A list of objects is too short."""


class UnusableArrayError(TypeError, NotImplementedError):
    """An array that cannot be used in place: a sparse, nested or quantised tensor, an unknown dtype, another device."""


class NoGroupError(TypeError, ValueError):
    """Something else was given as a group."""


class WrongTypeError(InvalidArgument, TypeError):
    """An argument of a wrong kind, or a number that does not fit in its type; torch.distributed raises TypeError there."""
