"""The enums and settings of _tutti.pyi."""

import enum
from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

class ReduceOp(enum.Enum):
    """How values of different ranks are combined."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

class LogLevel(enum.IntEnum):
    """How much a remark of the library matters."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3
    OFF = 4

class Config:
    """Every setting that an environment variable can give; see docs/reference/configuration.md."""

    timeout: timedelta
    link_timeout: timedelta
    stall_warning: timedelta
    flight_recorder: bool
    cuda_ipc: bool
    backend: str
    agree: Literal["normal", "strict", "off"]
    transport: Literal["auto", "shm", "tcp"]
    algorithms: str
    tls: bool
    cpus: int | None
    host_id: str
    interfaces: str
    advertise: str
    port: int | None
    log_level: LogLevel

    def __init__(self) -> None: ...
    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Config:
        """Read from os.environ, or from a mapping."""
