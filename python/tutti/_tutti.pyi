"""The C++ face as it is: low-level, ranks are the group's own, nothing is global.

Arrays (`Array` below) are used in place, without a copy, whatever their strides: NumPy (also the
dtypes of ml_dtypes), torch tensors on the CPU, objects with `__dlpack__`, and buffers (bytearray,
memoryview, array.array). An array that is only read may be read-only and may be a conjugate or negative view.
An array that is written must be writable. TypeError: no array, read-only, another device, unknown elements.

Every call that blocks lets go of the GIL, and Ctrl-C ends it. Timeouts are seconds or a timedelta;
None is the group's (or the store's) own. Wrong arguments raise InvalidArgument (a ValueError) before
anything is sent. `async_op=True`: the call returns a Work, else it has ended well when it returns.
"""

import enum
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, TypeAlias

from tutti.errors import Error

Array: TypeAlias = Any  # NumPy array, torch tensor, object with __dlpack__, or buffer
Timeout: TypeAlias = float | timedelta | None
Factor: TypeAlias = float | Array | None
Key: TypeAlias = str | bytes
Value: TypeAlias = str | bytes | bytearray | memoryview

__version__: str

ANY_SOURCE: int
"""As the sender of a recv: any rank, the one whose message comes first. None means the same."""

def is_available(backend: str) -> bool:
    """True if a world can be made on that engine here; case does not matter, "gloo" and "tutti" mean "native"."""

def why_unavailable(backend: str) -> str:
    """The reason why no world can be made on that engine here, and what to do; empty: one can."""

def launch_command(backend: str, ranks: int) -> tuple[list[str], list[str]] | None:
    """The command that starts so many ranks on that engine, and "NAME=value" beside the environment; None: any launcher
    can. InvalidArgument if no world can be made on it here, BackendError if its own launcher is missing."""

def engine_name(name: str) -> str:
    """The engine that a name means: "native" for "gloo" and "tutti", in any case."""

def register_backend(
        name: str,
        make: Callable[[Store | None, int, int, str, timedelta, Any], ProcessGroup]) -> None:
    """Make an engine known, for the rest of the process: what C++'s register_backend does.
    `make(store, rank, world_size, name, timeout, options)` gives the ProcessGroup of a world that was asked
    for on it, with that rank and size; `store` is for it alone (None where the ranks met without one),
    `options` what init_process_group was given as backend_options. Its exceptions come out of init. On the main
    thread's behalf it runs on another one. InvalidArgument: the name is taken."""

def available_backends() -> list[str]:
    """Names of the engines that a world can be made on here, the default first."""

def is_initialized() -> bool:
    """A world of this process lives."""

def dtype_name(array: Array) -> str:
    """The name of an array's dtype: "float32". TypeError if it cannot be used as an input."""

def count(array: Array) -> int:
    """Number of elements that tutti sees."""

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

def set_log_sink(sink: Callable[[LogLevel, str], object] | None,
                 least: LogLevel = LogLevel.WARNING) -> None:
    """Where the library's remarks go. The sink is called soon after, on a thread of its own. None, as at the
    start: warnings and errors to standard error; with OFF nothing."""

class Config:
    """Every setting that an environment variable can give; see docs/configuration.md."""

    timeout: timedelta
    link_timeout: timedelta
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

class Work:
    """An operation under way. Dropping it cancels nothing and waits for nothing: what it needs is
    kept until it is done. Any thread may use it."""

    def wait(self, timeout: Timeout = None) -> bool:
        """True when the local buffers are usable, or raise what went wrong. TimeoutError after
        `timeout`: the operation goes on, and can be waited for again."""

    def is_completed(self) -> bool:
        """Done, well or badly? Never blocks."""

    def is_success(self) -> bool:
        """Done, and well? Never blocks."""

    def exception(self) -> Error | None:
        """The operation's error, or None (also while not done). Never blocks."""

    @property
    def source_rank(self) -> int:
        """Of a recv that is done: the rank of the group that sent. Else -1."""

    @property
    def result(self) -> list[Array]:
        """The arrays that are written, as the caller gave them. Empty for send and barrier."""

    @property
    def group(self) -> ProcessGroup:
        """The group whose operation it is."""

    def add_done_callback(self, callback: Callable[[Work], object]) -> None:
        """Call back once when done, well or badly: at once if it is done already, else on one thread
        that all callbacks of the process share, with the GIL. Other operations may be started and
        waited for there. An exception of the callback goes to sys.unraisablehook."""

    def __await__(self) -> Generator[Any, None, list[Array]]:
        """`await work` in asyncio: gives the result, or raises the error."""

class ProcessGroup:
    """A group of ranks that call the same operations in the same order."""

    @property
    def rank(self) -> int:
        """Ours, 0 to size - 1."""
    @property
    def size(self) -> int:
        """How many ranks there are."""
    @property
    def name(self) -> str:
        """For messages."""
    @property
    def timeout(self) -> timedelta:
        """Of operations that say none."""
    def set_timeout(self, timeout: float | timedelta) -> None:
        """Of operations that this rank starts from now on and that say none. InvalidArgument unless it
        is positive."""
    @property
    def store(self) -> Store | None:
        """The store in which the ranks of the world met: a part of it for the program's own keys, which
        all groups of the world share. None where they met without one."""
    @property
    def authenticated(self) -> bool:
        """Every rank has proved that it belongs to the job."""
    @property
    def backend(self) -> str:
        """ "native"."""
    @property
    def communicator(self) -> int | None:
        """The handle of the group's communicator, on "mpi"; None elsewhere. It belongs to the group."""
    @property
    def ranks(self) -> list[int]:
        """The ranks of the world, in the order of the group's ranks."""

    def global_rank(self, rank: int) -> int:
        """Rank of the world for a rank of this group. InvalidArgument if it is out of range."""
    def group_rank(self, global_rank: int) -> int | None:
        """Rank of this group for a rank of the world; None for a non-member."""

    # Each collective: `async_op` False blocks and returns None, True returns a Work. Those of several arrays
    # take lists or tuples: the same number of arrays, of one dtype and the same sizes, on every rank.

    # Made from the bindings by tools/stubs.py --write.

    def all_reduce(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
                   timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """Combine the arrays of all ranks, element by element, into each of them, in place.
        `factor`: with PREMUL_SUM, a number, or an array of one element or as many as `array`."""

    def broadcast(self, array: Array, root: int = 0, *, timeout: Timeout = None,
                  async_op: bool = False) -> Work | None:
        """Copy the root's array into every other rank's. The root's may be read-only."""

    def reduce(self, array: Array, root: int = 0, op: ReduceOp = ReduceOp.SUM, *,
               factor: Factor = None, timeout: Timeout = None,
               async_op: bool = False) -> Work | None:
        """Combine the arrays of all ranks into the root's. The others' may be read-only."""

    def scan(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, exclusive: bool = False,
             factor: Factor = None, timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """Combine on rank r the arrays of the ranks 0 to r, in place; `exclusive`: of the ranks 0
        to r - 1, and rank 0's array stays as it is. AVG divides by the number of these ranks."""

    def all_gather(self, output: Array, input: Array, *, counts: Sequence[int] | None = None,
                   timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """Put the inputs of all ranks, one after the other, into everybody's output. `counts`: the
        elements of each rank's block where they differ, the same numbers on every rank."""

    def all_gather_list(self, outputs: Sequence[Array], input: Array, *, timeout: Timeout = None,
                        async_op: bool = False) -> Work | None:
        """The same into one array for each rank, of any sizes."""

    def gather(self, output: Array | None, input: Array, root: int = 0, *, timeout: Timeout = None,
               async_op: bool = False) -> Work | None:
        """Put the inputs of all ranks into the root's output; the others' is not looked at."""

    def gather_list(self, outputs: Sequence[Array] | None, input: Array, root: int = 0, *,
                    timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """The same into one array for each rank; not looked at but on the root."""

    def scatter(self, output: Array, input: Array | None, root: int = 0, *, timeout: Timeout = None,
                async_op: bool = False) -> Work | None:
        """Hand out the root's input: block r goes to rank r; the others' is not looked at."""

    def scatter_list(self, output: Array, inputs: Sequence[Array] | None, root: int = 0, *,
                     timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """The same from one array for each rank."""

    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp = ReduceOp.SUM, *,
                       counts: Sequence[int] | None = None, factor: Factor = None,
                       timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """Combine the inputs of all ranks and give block r of the result to rank r."""

    def reduce_scatter_list(self, output: Array, inputs: Sequence[Array],
                            op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
                            timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """The same from one array for each rank, of any sizes."""

    def all_to_all(self, output: Array, input: Array, *, output_splits: Sequence[int] | None = None,
                   input_splits: Sequence[int] | None = None, timeout: Timeout = None,
                   async_op: bool = False) -> Work | None:
        """Send block r of the input to rank r, get block r of the output from it. The splits count
        elements; both or none, and if one rank gives them all must."""

    def all_to_all_list(self, outputs: Sequence[Array], inputs: Sequence[Array], *,
                        timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """The same with one array for each rank, of any sizes."""

    def barrier(self, *, timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """Done when every rank has called it."""

    def all_reduce_coalesced(self, arrays: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *,
                             factor: Factor = None, timeout: Timeout = None,
                             async_op: bool = False) -> Work | None:
        """all_reduce of several arrays of one dtype in one operation: many small ones in the time
        of one. The same number, of the same sizes, on every rank."""

    def broadcast_coalesced(self, arrays: Sequence[Array], root: int = 0, *,
                            timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """broadcast of several arrays in one operation."""

    def all_gather_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], *,
                             timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """all_gather of several arrays in one operation: outputs[t] has size times the elements of
        inputs[t], or outputs[r * len(inputs) + t] is where inputs[t] of rank r goes."""

    def reduce_scatter_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array],
                                 op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
                                 timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """reduce_scatter of several arrays in one operation: inputs[t] has size times the elements
        of outputs[t]."""

    # The end of what is made.

    def monitored_barrier(self, *, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names the ranks that have not come: rank 0 waits so long for the others, and names the
        first (or all) in its TimeoutError; the group is then broken. Slower than barrier."""

    def send(self, array: Array, dst: int, *, tag: int = 0, timeout: Timeout = None) -> None:
        """Send to one rank; return when the array may be used again."""

    def recv(self, array: Array, src: int | None = None, *, tag: int = 0,
             timeout: Timeout = None) -> int:
        """Receive from one rank, or from any; returns the rank that sent."""

    def isend(self, array: Array, dst: int, *, tag: int = 0, timeout: Timeout = None) -> Work:
        """As send, without waiting. `dst` may be this rank."""

    def irecv(self, array: Array, src: int | None = None, *, tag: int = 0,
              timeout: Timeout = None) -> Work:
        """As recv, without waiting; Work.source_rank tells the sender."""

    def batch_isend_irecv(
            self, operations: Sequence[tuple[Literal["send", "recv"], Array, int | None, int]], *,
            timeout: Timeout = None) -> list[Work]:
        """Start all: (kind, array, peer, tag). Where one is wrong none is started. A Work each."""

    def new_group(self, ranks: Sequence[int], *, name: str = "",
                  timeout: Timeout = None) -> ProcessGroup | None:
        """Make a group of some of our ranks, in this order. Every rank of this group calls it with
        the same list; None for ranks that are not in it."""

    def split(self, color: int | None, key: int = 0, *, name: str = "",
              timeout: Timeout = None) -> ProcessGroup | None:
        """Divide: ranks of one colour make a group, ordered by key, then by rank."""

    def new_subgroups(self, group_size: int, *, name: str = "",
                      timeout: Timeout = None) -> ProcessGroup:
        """Divide into groups of ranks that follow each other; the one that this rank is in."""

    def health(self) -> Error | None:
        """None, or the error that broke the group."""

    def abort(self, reason: str) -> None:
        """Break the group here and on every other member."""

    def close(self) -> None:
        """Let go of the group, as dropping the last reference does. Later calls raise
        InvalidArgument. Local, waits for nobody; Works that run go on."""

    @property
    def closed(self) -> bool:
        """close() was called."""

    def __enter__(self) -> ProcessGroup: ...
    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None,
                 trace: TracebackType | None) -> None:
        """close(); where an exception leaves the block, abort first, so that the others hear why."""

def init_process_group(
        init_method: str | None = None, *, store: Store | None = None, rank: int | None = None,
        world_size: int | None = None, master_addr: str | None = None,
        master_port: int | None = None, timeout: Timeout = None, config: Config | None = None,
        name: str = "world", job_name: str = "",
        exchange: Callable[[str, bytes], Sequence[bytes]] | None = None,
        exchange_is_private: bool = True, backend: str | None = None, backend_options: Any = None,
        secret: bytes | None = None) -> ProcessGroup:
    """Make the group of all processes of the job; what is None stands in the environment, which is
    read now. Blocks until all have joined. Only ranks that give the same `job_name` find each other: survivors of a
    failure, with new ranks, take a name that was not used before. `exchange` is for who has a store
    of his own: it gives each rank everybody's bytes, in the order of ranks; `exchange_is_private` False
    where others can read or write them: the user's key is then asked for. `backend` goes before
    Config.backend; `backend_options` are for one that was registered. `secret`: the job's, 32 to 4096
    bytes, the same on all ranks; None: job_secret()."""

def job_secret() -> bytes:
    """The job's secret, from TUTTI_SECRET_FD or TUTTI_SECRET_FILE; empty if neither is set.
    InvalidArgument: it is too short, another user's, open to others, or not there."""

class Store:
    """A small table that the ranks of a job share: keys and values are bytes (str: UTF-8).

    Derive from it in Python for a store of your own: define set, get, add, check, wait, compare_set,
    delete_key and list_keys; the others have a correct, slower form built on these. C++ calls them
    with these parameters by position and without timeouts, but for `wait(keys, timeout)`, which
    must raise TimeoutError; values are given as bytes, keys as str.

    TimeoutError when the time is over, StoreError when the store is gone, InvalidArgument for a key
    or value that is too long.
    """

    def __init__(self) -> None: ...
    def set(self, key: Key, value: Value, *, timeout: Timeout = None) -> None:
        """Replace the value, and wake the callers that wait for the key."""
    def get(self, key: Key, *, timeout: Timeout = None) -> bytes:
        """Waits until the key is there."""
    def add(self, key: Key, amount: int, *, timeout: Timeout = None) -> int:
        """Add to a number (absent: 0); the sum. The value is decimal text."""
    def check(self, keys: Sequence[Key], *, timeout: Timeout = None) -> bool:
        """True if all keys are there."""
    def wait(self, keys: Sequence[Key], timeout: Timeout = None) -> None:
        """Until all keys are there."""
    def compare_set(self, key: Key, expected: Value, desired: Value, *,
                    timeout: Timeout = None) -> bytes:
        """Set to `desired` if the value is `expected`, or absent and `expected` empty. The value
        that stands afterwards; `expected` if the key is absent and stays so."""
    def delete_key(self, key: Key, *, timeout: Timeout = None) -> bool:
        """False if it was not there."""
    def num_keys(self, *, timeout: Timeout = None) -> int:
        """How many keys there are; of a PrefixStore those of its part."""
    def list_keys(self, *, timeout: Timeout = None) -> list[str]:
        """All keys, in no order."""
    def append(self, key: Key, value: Value, *, timeout: Timeout = None) -> None:
        """Append to the value that is there."""
    def multi_get(self, keys: Sequence[Key], *, timeout: Timeout = None) -> list[bytes]:
        """The values of all keys; waits until they are there."""
    def multi_set(self, keys: Sequence[Key], values: Sequence[Value], *,
                  timeout: Timeout = None) -> None:
        """Set each key to its value."""
    def queue_push(self, queue: Key, value: Value, *, timeout: Timeout = None) -> None:
        """Put the value at the end of a queue."""
    def queue_pop(self, queue: Key, block: bool = True, *, timeout: Timeout = None) -> bytes:
        """The first value. Waits for one; with block=False an empty queue raises IndexError."""
    def queue_len(self, queue: Key, *, timeout: Timeout = None) -> int:
        """How many values the queue has."""
    def set_will(self, key: Key, value: Value, *, timeout: Timeout = None) -> bool:
        """Set by the store when this process's connection ends unexpectedly. False: cannot."""
    def drop_will(self, key: Key, *, timeout: Timeout = None) -> None:
        """Take a will back."""
    @property
    def timeout(self) -> timedelta:
        """Of calls that say none."""
    def set_timeout(self, timeout: float | timedelta) -> None:
        """Of calls from now on that say none."""

class HashStore(Store):
    """Inside this process, for threads and tests."""

    def __init__(self) -> None: ...

class FileStore(Store):
    """In a file, for processes that share a file system. `world_size`: how many will use it; the last
    of them removes the file. None: it stays."""

    def __init__(self, file_name: str, world_size: int | None = None, *, timeout: Timeout = None,
                 linger: float | timedelta = 1.0, fresh: bool = False,
                 own_only: bool = False) -> None: ...
    @property
    def path(self) -> str:
        """Where the file is."""

class TCPStore(Store):
    """Served by one process, reached by the others over TCP."""

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None,
                 is_master: bool = False, timeout: Timeout = None,
                 wait_for_workers: bool = True, *, secret: bytes = b"", encrypt: bool = False, job: str = "",
                 generation: int = 0, linger: float | timedelta = 1.0) -> None:
        """`wait_for_workers`: the master returns when all `world_size` have connected."""
    @property
    def host(self) -> str:
        """As it was given."""
    @property
    def port(self) -> int:
        """The one that is served, also where 0 was given."""

class PrefixStore(Store):
    """A part of another store: every key k is `<prefix>/k` there."""

    def __init__(self, prefix: str, store: Store) -> None: ...
    @property
    def prefix(self) -> str:
        """The text before our keys there, without the slash."""
    @property
    def underlying_store(self) -> Store:
        """The store that this is a part of."""
