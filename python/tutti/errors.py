"""The exceptions that tutti raises."""

import builtins


class Error(RuntimeError):
    """Base of everything tutti raises.

    `code` is the kind of failure as C++ names it ("peer_lost"); `culprit` the rank to blame, or None.
    """

    code = ""
    culprit = None


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
