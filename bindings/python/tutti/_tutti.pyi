"""The C++ face as it is: low-level, ranks are the group's own, nothing is global.

Arrays (`Array` below) are used in place, without a copy, whatever their strides: NumPy (also the
dtypes of ml_dtypes), torch tensors, objects with `__dlpack__` or `__cuda_array_interface__`, and buffers (bytearray,
memoryview, array.array), in the memory of the CPU or of NVIDIA GPUs. An array that is only read may be read-only and may be a conjugate or negative view.
An array that is written must be writable. TypeError: no array, read-only, another device, unknown elements.

Every call that blocks lets go of the GIL, and Ctrl-C ends it. Timeouts are seconds or a timedelta;
None is the group's (or the store's) own. Wrong arguments raise InvalidArgument (a ValueError) before
anything is sent. `async_op=True`: the call returns a Work, else it has ended well when it returns.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, TypeAlias, overload

from tutti._settings import Config as Config
from tutti._settings import LogLevel as LogLevel
from tutti._settings import ReduceOp as ReduceOp
from tutti._stores import FileStore as FileStore
from tutti._stores import HashStore as HashStore
from tutti._stores import PrefixStore as PrefixStore
from tutti._stores import Store as Store
from tutti._stores import TCPStore as TCPStore
from tutti._times import Timeout
from tutti.errors import Error

Array: TypeAlias = Any  # NumPy array, torch tensor, object with __dlpack__, or buffer
Factor: TypeAlias = float | Array | None
Combine: TypeAlias = Callable[[memoryview, memoryview], None]

__version__: str

ADDRESS_VARIABLES: tuple[str, ...]
ANY_SOURCE: int
"""As the sender of a recv: any rank, the one whose message comes first. None means the same."""
NO_RANK: int
"""As the other end of a message: nobody. Nothing is sent, and nothing comes."""

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

def know_op(name: str, block: int) -> None:
    """Errors of this process tell such an op by its name from now on, whichever rank uses it."""

def set_log_sink(sink: Callable[[LogLevel, str], object] | None, least: LogLevel = LogLevel.WARNING) -> None:
    """Where the library's remarks go. The sink is called soon after, on a thread of its own. None, as at the
    start: warnings and errors to standard error; with OFF nothing."""

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
    def tag(self) -> int:
        """Of a recv that is done: the tag of its message. Else -1."""

    def cancel(self) -> bool:
        """Cancel a recv that no message has matched: True, and `wait` raises InvalidArgument. False: it is too late, or
        this is no recv that runs."""

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

class CartGroup:
    """The ranks of a group as the places of a grid."""

    @property
    def dims(self) -> list[int]:
        """Ranks along each dimension."""

    def coords(self, rank: int) -> list[int]:
        """The coordinates of a rank of the group."""

    def rank(self, coords: Sequence[int]) -> int:
        """The rank of the group at these coordinates; NO_RANK beyond an open border."""

    def shift(self, dimension: int, displacement: int = 1) -> tuple[int, int]:
        """The ranks so many places before and after this one along a dimension, or NO_RANK."""


def first_done(works: Sequence[Work], timeout: Timeout = None) -> list[int]:
    """The places of those that are done and were not waited for; waits until there is one."""


class Message:
    """A message that a probe has found: no other recv or probe gets it. One that is dropped goes back to its place."""

    @property
    def source(self) -> int:
        """The rank of the group that sent it."""
    @property
    def tag(self) -> int:
        """The tag that it was sent with."""
    @property
    def dtype(self) -> str:
        """"float32", ..."""
    @property
    def numel(self) -> int:
        """How many elements it has."""

    def recv(self, array: Array, *, timeout: Timeout = None) -> None:
        """Receive it into an array of its dtype and number of elements."""

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
        """Of operations that this rank starts from now on and that say none. InvalidArgument unless positive."""
    @property
    def store(self) -> Store | None:
        """A part of the world's store for the program's own keys. None where the ranks met without a store."""
    @property
    def authenticated(self) -> bool:
        """Every rank has proved that it belongs to the job."""
    def check_objects(self, operation: str) -> None:
        """InvalidArgument where it is not authenticated, unless TUTTI_INSECURE is "pickle" on all ranks."""
    def derive_secret(self, text: str) -> bytes:
        """A secret that only ranks of the world can compute from `text`; empty if not authenticated."""
    def alloc(self, bytes: int) -> memoryview:
        """Zeroed memory that the other ranks of this host can read: an input there of some operations is copied once
        and not twice. It may outlive the group. BackendError if there is no memory."""
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

    # Made from the headers by tools/made.py --write.

    @overload
    def all_reduce(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None, timeout: Timeout = None,
                   async_op: Literal[False] = False) -> None:
        """Combines the arrays of all ranks, element by element, into each of them. `factor`: with PREMUL_SUM, a number,
        or an array of one element or of as many as the input has."""
    @overload
    def all_reduce(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None, timeout: Timeout = None,
                   async_op: Literal[True]) -> Work: ...
    @overload
    def all_reduce(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None, timeout: Timeout = None,
                   async_op: bool = False) -> Work | None: ...

    @overload
    def broadcast(self, array: Array, root: int = 0, *, timeout: Timeout = None,
                  async_op: Literal[False] = False) -> None:
        """Copies the root's array to every other rank's. The root's may be read-only."""
    @overload
    def broadcast(self, array: Array, root: int = 0, *, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def broadcast(self, array: Array, root: int = 0, *, timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def reduce(self, array: Array, root: int = 0, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
               timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """Combines the arrays of all ranks into the root's; the others' stay as they are. The others' may be
        read-only."""
    @overload
    def reduce(self, array: Array, root: int = 0, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
               timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def reduce(self, array: Array, root: int = 0, op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
               timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def scan(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, exclusive: bool = False, factor: Factor = None,
             timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """Combines on rank r the arrays of the ranks 0 to r; with `exclusive`, of the ranks 0 to r - 1: then rank 0's
        array stays as it is. AVG divides by the number of ranks that are combined."""
    @overload
    def scan(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, exclusive: bool = False, factor: Factor = None,
             timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def scan(self, array: Array, op: ReduceOp = ReduceOp.SUM, *, exclusive: bool = False, factor: Factor = None,
             timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def all_gather(self, output: Array, input: Array, *, counts: Sequence[int] | None = None, timeout: Timeout = None,
                   async_op: Literal[False] = False) -> None:
        """Puts the inputs of all ranks, in the order of the ranks, into everybody's output. `counts`: the elements of
        each rank's block where they differ, the same numbers on every rank."""
    @overload
    def all_gather(self, output: Array, input: Array, *, counts: Sequence[int] | None = None, timeout: Timeout = None,
                   async_op: Literal[True]) -> Work: ...
    @overload
    def all_gather(self, output: Array, input: Array, *, counts: Sequence[int] | None = None, timeout: Timeout = None,
                   async_op: bool = False) -> Work | None: ...

    @overload
    def all_gather_list(self, outputs: Sequence[Array], input: Array, *, timeout: Timeout = None,
                        async_op: Literal[False] = False) -> None:
        """The same into a list of arrays, one for each rank, of any sizes (the same on every rank). The list itself is
        read during the call only."""
    @overload
    def all_gather_list(self, outputs: Sequence[Array], input: Array, *, timeout: Timeout = None,
                        async_op: Literal[True]) -> Work: ...
    @overload
    def all_gather_list(self, outputs: Sequence[Array], input: Array, *, timeout: Timeout = None,
                        async_op: bool = False) -> Work | None: ...

    @overload
    def gather(self, output: Array | None, input: Array, root: int = 0, *, counts: Sequence[int] | None = None,
               timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """Puts the inputs of all ranks, in the order of the ranks, into the root's output. The others' output is not
        looked at. `counts`: the elements of each rank's block where they may differ; another rank than the root may
        give its own alone. If one rank gives them all must."""
    @overload
    def gather(self, output: Array | None, input: Array, root: int = 0, *, counts: Sequence[int] | None = None,
               timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def gather(self, output: Array | None, input: Array, root: int = 0, *, counts: Sequence[int] | None = None,
               timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def gather_list(self, outputs: Sequence[Array] | None, input: Array, root: int = 0, *,
                    counts: Sequence[int] | None = None, timeout: Timeout = None,
                    async_op: Literal[False] = False) -> None:
        """The same into a list of arrays, one for each rank; empty but on the root."""
    @overload
    def gather_list(self, outputs: Sequence[Array] | None, input: Array, root: int = 0, *,
                    counts: Sequence[int] | None = None, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def gather_list(self, outputs: Sequence[Array] | None, input: Array, root: int = 0, *,
                    counts: Sequence[int] | None = None, timeout: Timeout = None,
                    async_op: bool = False) -> Work | None: ...

    @overload
    def scatter(self, output: Array, input: Array | None, root: int = 0, *, counts: Sequence[int] | None = None,
                timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """Hands out the root's input: block r goes to rank r's output. The others' input is not looked at."""
    @overload
    def scatter(self, output: Array, input: Array | None, root: int = 0, *, counts: Sequence[int] | None = None,
                timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def scatter(self, output: Array, input: Array | None, root: int = 0, *, counts: Sequence[int] | None = None,
                timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def scatter_list(self, output: Array, inputs: Sequence[Array] | None, root: int = 0, *,
                     counts: Sequence[int] | None = None, timeout: Timeout = None,
                     async_op: Literal[False] = False) -> None:
        """The same from a list of arrays, one for each rank; empty but on the root."""
    @overload
    def scatter_list(self, output: Array, inputs: Sequence[Array] | None, root: int = 0, *,
                     counts: Sequence[int] | None = None, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def scatter_list(self, output: Array, inputs: Sequence[Array] | None, root: int = 0, *,
                     counts: Sequence[int] | None = None, timeout: Timeout = None,
                     async_op: bool = False) -> Work | None: ...

    @overload
    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp = ReduceOp.SUM, *,
                       counts: Sequence[int] | None = None, factor: Factor = None, timeout: Timeout = None,
                       async_op: Literal[False] = False) -> None:
        """Combines the inputs of all ranks, element by element, and gives block r of the result to rank r."""
    @overload
    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp = ReduceOp.SUM, *,
                       counts: Sequence[int] | None = None, factor: Factor = None, timeout: Timeout = None,
                       async_op: Literal[True]) -> Work: ...
    @overload
    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp = ReduceOp.SUM, *,
                       counts: Sequence[int] | None = None, factor: Factor = None, timeout: Timeout = None,
                       async_op: bool = False) -> Work | None: ...

    @overload
    def reduce_scatter_list(self, output: Array, inputs: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *,
                            factor: Factor = None, timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """The same from a list of arrays, one for each rank, of any sizes (the same on every rank)."""
    @overload
    def reduce_scatter_list(self, output: Array, inputs: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *,
                            factor: Factor = None, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def reduce_scatter_list(self, output: Array, inputs: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *,
                            factor: Factor = None, timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def all_to_all(self, output: Array, input: Array, *, output_splits: Sequence[int] | None = None,
                   input_splits: Sequence[int] | None = None, timeout: Timeout = None,
                   async_op: Literal[False] = False) -> None:
        """Sends block r of the input to rank r, and gets the block from rank r as block r of the output. The splits
        count elements; both or none, and if one rank gives them all must."""
    @overload
    def all_to_all(self, output: Array, input: Array, *, output_splits: Sequence[int] | None = None,
                   input_splits: Sequence[int] | None = None, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def all_to_all(self, output: Array, input: Array, *, output_splits: Sequence[int] | None = None,
                   input_splits: Sequence[int] | None = None, timeout: Timeout = None,
                   async_op: bool = False) -> Work | None: ...

    @overload
    def all_to_all_list(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                        async_op: Literal[False] = False) -> None:
        """The same with lists of arrays of any sizes, one for each rank."""
    @overload
    def all_to_all_list(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                        async_op: Literal[True]) -> Work: ...
    @overload
    def all_to_all_list(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                        async_op: bool = False) -> Work | None: ...

    @overload
    def all_reduce_coalesced(self, arrays: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
                             timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """all_reduce of several arrays of one dtype in one operation: many small ones in the time of one. The same
        number, of the same sizes, on every rank."""
    @overload
    def all_reduce_coalesced(self, arrays: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
                             timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def all_reduce_coalesced(self, arrays: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *, factor: Factor = None,
                             timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    @overload
    def broadcast_coalesced(self, arrays: Sequence[Array], root: int = 0, *, timeout: Timeout = None,
                            async_op: Literal[False] = False) -> None:
        """broadcast of several arrays in one operation."""
    @overload
    def broadcast_coalesced(self, arrays: Sequence[Array], root: int = 0, *, timeout: Timeout = None,
                            async_op: Literal[True]) -> Work: ...
    @overload
    def broadcast_coalesced(self, arrays: Sequence[Array], root: int = 0, *, timeout: Timeout = None,
                            async_op: bool = False) -> Work | None: ...

    @overload
    def all_gather_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                             async_op: Literal[False] = False) -> None:
        """all_gather of several arrays in one operation: outputs[t] has size times the elements of inputs[t]. Or
        outputs[r * n + t] is where inputs[t] of rank r goes, with n inputs."""
    @overload
    def all_gather_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                             async_op: Literal[True]) -> Work: ...
    @overload
    def all_gather_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                             async_op: bool = False) -> Work | None: ...

    @overload
    def reduce_scatter_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], op: ReduceOp = ReduceOp.SUM,
                                 *, factor: Factor = None, timeout: Timeout = None,
                                 async_op: Literal[False] = False) -> None:
        """reduce_scatter of several arrays in one operation: inputs[t] has size times the elements of outputs[t]."""
    @overload
    def reduce_scatter_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], op: ReduceOp = ReduceOp.SUM,
                                 *, factor: Factor = None, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def reduce_scatter_coalesced(self, outputs: Sequence[Array], inputs: Sequence[Array], op: ReduceOp = ReduceOp.SUM,
                                 *, factor: Factor = None, timeout: Timeout = None,
                                 async_op: bool = False) -> Work | None: ...

    @overload
    def barrier(self, *, timeout: Timeout = None, async_op: Literal[False] = False) -> None:
        """Done when every rank has called it."""
    @overload
    def barrier(self, *, timeout: Timeout = None, async_op: Literal[True]) -> Work: ...
    @overload
    def barrier(self, *, timeout: Timeout = None, async_op: bool = False) -> Work | None: ...

    # The end of what is made.

    # tutti.distributed's functions of these names.
    def _all_reduce_multigpu(self, arrays: Sequence[Array], op: ReduceOp = ReduceOp.SUM, *, timeout: Timeout = None,
                             async_op: bool = False) -> Work | None: ...
    def _broadcast_multigpu(self, arrays: Sequence[Array], root: int = 0, root_array: int = 0, *,
                            timeout: Timeout = None, async_op: bool = False) -> Work | None: ...
    def _reduce_multigpu(self, arrays: Sequence[Array], root: int = 0, op: ReduceOp = ReduceOp.SUM,
                         root_array: int = 0, *, timeout: Timeout = None, async_op: bool = False) -> Work | None: ...
    def _all_gather_multigpu(self, outputs: Sequence[Array], inputs: Sequence[Array], *, timeout: Timeout = None,
                             async_op: bool = False) -> Work | None: ...

    def _all_reduce_by(self, array: Array, *, name: str, block: int, combine: Combine, executor: Executor | None = None,
                       timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """all_reduce by `combine(result, next)`, which is called with the bytes of both and writes the first: in the
        executor, else on a thread that waits for the Work or looks at it, else on the thread of callbacks."""

    def _reduce_by(self, array: Array, root: int, *, name: str, block: int, combine: Combine,
                   executor: Executor | None = None, timeout: Timeout = None, async_op: bool = False) -> Work | None:
        """reduce, as _all_reduce_by."""

    def _reduce_scatter_by(self, output: Array, input: Array | Sequence[Array], *, name: str, block: int,
                           combine: Combine, executor: Executor | None = None, timeout: Timeout = None,
                           async_op: bool = False) -> Work | None:
        """reduce_scatter, as _all_reduce_by; `input` is an array, or a list of one for each rank."""

    def monitored_barrier(self, *, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names the ranks that have not come; the group is then broken (docs/reference/semantics.md). Slower."""

    def send(self, array: Array, dst: int, *, tag: int = 0, timeout: Timeout = None) -> None:
        """Send to one rank; return when the array may be used again."""

    def recv(self, array: Array, src: int | None = None, *, tag: int | None = 0, timeout: Timeout = None) -> int:
        """Receive from one rank, or from any, with a tag or (None) with any; returns the rank that sent."""

    def isend(self, array: Array, dst: int, *, tag: int = 0, timeout: Timeout = None) -> Work:
        """As send, without waiting. `dst` may be this rank."""

    def irecv(self, array: Array, src: int | None = None, *, tag: int | None = 0, timeout: Timeout = None) -> Work:
        """As recv, without waiting; Work.source_rank and Work.tag tell the message."""

    def batch_isend_irecv(self, operations: Sequence[tuple[Literal["send", "recv"], Array, int | None, int | None]], *,
                          timeout: Timeout = None) -> list[Work]:
        """Start all: (kind, array, peer, tag). Where one is wrong none is started. A Work each."""

    def cart(self, dims: Sequence[int], periodic: Sequence[bool] = ...) -> CartGroup:
        """Lay a grid over the group, with one place for each rank; a 0 in `dims` is chosen. Sends nothing."""

    def probe(self, src: int | None = None, *, tag: int | None = 0, timeout: Timeout = None) -> Message:
        """Wait for a message from one rank, or from any, with a tag or (None) with any, and take it without its bytes: a Message."""

    def try_probe(self, src: int | None = None, *, tag: int | None = 0, timeout: Timeout = None) -> Message | None:
        """As probe, without waiting: None if no such message has come. The timeout has no meaning."""

    @staticmethod
    def _refuse_shared(output: Array, input: Array) -> None: ...
    def _learn_counts(self, kind: str, array: Array, sent: Sequence[int], root: int,
                      timeout: Timeout) -> tuple[list[int], float]: ...
    def _exchange_drops(self, live: int, drops: bytes, how: list[Any] = ..., *, name: str = "", timeout: Timeout = None) -> Any: ...
    @property
    def _is_shared(self) -> bool: ...
    def _new_group_among(self, ranks: Sequence[int], tag: str, *, name: str = "") -> ProcessGroup: ...
    def new_group(self, ranks: Sequence[int], *, name: str = "", timeout: Timeout = None) -> ProcessGroup | None:
        """Make a group of these ranks, in this order; None for others. Every rank of ours calls it with the same list."""

    def split(self, color: int | None, key: int = 0, *, name: str = "", timeout: Timeout = None) -> ProcessGroup | None:
        """Divide: ranks of one colour make a group, ordered by key, then by rank."""

    def new_subgroups(self, group_size: int, *, name: str = "", timeout: Timeout = None) -> ProcessGroup:
        """Divide into groups of ranks that follow each other; the one that this rank is in."""

    def health(self) -> Error | None:
        """None, or the error that broke the group."""

    def abort(self, reason: str) -> None:
        """Break the group here and on every other member."""

    def close(self) -> None:
        """Let go of the group, as dropping the last reference does, and end the blocking calls in which other threads wait.
        Later calls raise InvalidArgument. Never waits."""

    @property
    def closed(self) -> bool:
        """close() was called."""

    def __enter__(self) -> ProcessGroup: ...
    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None,
                 trace: TracebackType | None) -> None:
        """close(); where an exception leaves the block, abort first, so that the others hear why."""

def init_process_group(
        init_method: str | None = None, *, store: Store | None = None, rank: int | None = None,
        world_size: int | None = None, master_addr: str | None = None, master_port: int | None = None,
        timeout: Timeout = None, config: Config | None = None, name: str = "world", job_name: str = "",
        exchange: Callable[[str, bytes], Sequence[bytes]] | None = None, exchange_is_private: bool = True,
        backend: str | None = None, backend_options: Any = None, secret: bytes | None = None,
        or_alone: bool = False) -> ProcessGroup:
    """Make the group of all processes of the job; what is None stands in the environment, which is read now. Blocks
    until all have joined. rank=0 and world_size=1, where no address is told, make a world of this process alone, and so
    does `or_alone` where no launcher has started the program. Only ranks that give the same `job_name` find each other:
    survivors of a failure, with new ranks, take a name that was not used before. `exchange` is for who has a store
    of his own: it gives each rank everybody's bytes, in the order of ranks; `exchange_is_private` False where others can
    read or write them: the user's key is then asked for. `backend` goes before Config.backend; `backend_options` are for
    one that was registered. `secret`: the job's, 32 to 4096 bytes, the same on all ranks; None: job_secret()."""

def job_secret() -> bytes:
    """The job's secret, else the user's own key; empty where TUTTI_INSECURE says so. InvalidArgument: it cannot be used."""
