"""The secret of a job in memory that its processes find: as tuttirun hands it on (src/os/handed_memory.hpp)."""

import errno
import fcntl
import os
import secrets

_NOEXEC_SEAL = 8  # MFD_NOEXEC_SEAL: where vm.memfd_noexec is 2 a memfd needs it; kernels before 6.3 do not know it


def _memory() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        made = os.memfd_create("tutti-secret", flags | _NOEXEC_SEAL)
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise
        made = os.memfd_create("tutti-secret", flags)
    try:
        return fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)  # 0, 1 and 2 may be closed here
    finally:
        os.close(made)


class HandedSecret:
    """A new secret, which lives as long as this object or a process that has opened it. No other user can open it."""

    def __init__(self) -> None:
        self.bytes = secrets.token_bytes(32)
        self._fd = _memory()
        os.write(self._fd, self.bytes)
        os.fchmod(self._fd, 0o400)
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS,
                    fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        # The value of TUTTI_SECRET_FD.
        self.variable = f"{self._fd}:{os.fstat(self._fd).st_ino}:{os.getpid()}"

    def close(self) -> None:
        """Processes that have not read it yet cannot any more."""
        os.close(self._fd)
