"""Arrays of CuPy and tensors of torch on a real GPU, without the plug-in for torch; on several ranks, which share the GPUs
that there are. Results are compared with those of NumPy's arrays.

    python tests/python/core/gpu_program.py 2          # ranks; what is not installed is told
"""

import importlib.util
import os
import sys
import time

import numpy as np
import tutti
import tutti.distributed as dist

DTYPES = ["uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]
LARGE = 9_000_001  # several parts of 32 MiB, and no round number


class OfCupy:
    """Makes CuPy's arrays."""

    name = "cupy"

    def __init__(self):
        import cupy
        self.cupy = cupy
        gpu = int(os.environ["RANK"]) % cupy.cuda.runtime.getDeviceCount()
        cupy.cuda.Device(gpu).use()

    def put(self, array):
        return self.cupy.asarray(array)

    def get(self, array):
        return self.cupy.asnumpy(array)

    def on_a_stream(self):
        return self.cupy.cuda.Stream(non_blocking=True)

    def slow(self):
        """Keeps the current stream busy for a while."""
        x = self.cupy.ones((4096, 4096), "float32")
        for _ in range(20):
            x = x @ x * 0
        return x


class OfTorch:
    """Makes torch's tensors."""

    name = "torch"

    def __init__(self):
        import torch
        self.torch = torch
        torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())

    def put(self, array):
        return self.torch.as_tensor(array).cuda()

    def get(self, tensor):
        return tensor.cpu().numpy()

    def on_a_stream(self):
        return self.torch.cuda.stream(self.torch.cuda.Stream())

    def slow(self):
        x = self.torch.ones((4096, 4096), device="cuda")
        for _ in range(20):
            x = x @ x * 0
        return x


def both(library, name, call, *arrays):
    """Calls it with NumPy's arrays, and with copies on the GPU: all must end up equal, to the bit."""
    there = [[library.put(part) for part in one] if isinstance(one, list) else library.put(one) for one in arrays]
    for given in (arrays, there):
        works = call(*given)
        for work in works if isinstance(works, list) else [works]:
            if work is not None:
                work.wait()
    for on_cpu, on_gpu in zip(arrays, there, strict=True):
        pairs = zip(on_cpu, on_gpu, strict=True) if isinstance(on_cpu, list) else [(on_cpu, on_gpu)]
        for a, b in pairs:
            assert a.tobytes() == library.get(b).tobytes(), (name, a.dtype, a, library.get(b))


def messages(mine, theirs, others):
    """To both neighbours, and from both."""
    rank, size = dist.get_rank(), dist.get_world_size()
    next_rank, last_rank = (rank + 1) % size, (rank - 1) % size
    return [dist.isend(mine, next_rank, tag=1), dist.isend(mine, last_rank, tag=2),
            dist.irecv(others, next_rank, tag=2), dist.irecv(theirs, last_rank, tag=1)]


def operations(library):
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for count in (7, 4096):
            x = ((np.arange(count * size) * (rank + 3)) % 5).astype(dtype)
            rows = [row.copy() for row in x.reshape(size, count)]
            part = np.zeros(count, dtype)
            parts = [np.zeros(count, dtype) for _ in range(size)]
            both(library, "all_reduce", dist.all_reduce, x.copy())
            both(library, "all_reduce, PRODUCT", lambda t: dist.all_reduce(t, dist.ReduceOp.PRODUCT), x.copy())
            both(library, "broadcast", lambda t: dist.broadcast(t, size - 1), x.copy())
            both(library, "reduce", lambda t: dist.reduce(t, 0), x.copy())
            both(library, "all_gather", dist.all_gather, parts, rows[0])
            both(library, "all_gather_into_tensor", dist.all_gather_into_tensor, np.zeros_like(x), rows[0])
            both(library, "reduce_scatter", dist.reduce_scatter, part.copy(), rows)
            both(library, "reduce_scatter_tensor", dist.reduce_scatter_tensor, part.copy(), x)
            both(library, "all_to_all", dist.all_to_all, parts, rows)
            both(library, "all_to_all_single", dist.all_to_all_single, np.zeros_like(x), x)
            both(library, "gather", lambda t, to: dist.gather(t, to if rank == 0 else None), rows[0],
                 parts if rank == 0 else [])
            both(library, "scatter", lambda t, of: dist.scatter(t, of if rank == 0 else None), part.copy(),
                 rows if rank == 0 else [])
            both(library, "isend, irecv", messages, rows[0], part.copy(), part.copy())
    for dtype in ("float32", "float64"):
        x = np.random.default_rng(rank).standard_normal(LARGE).astype(dtype)
        both(library, "large all_reduce", dist.all_reduce, x)
        both(library, "large all_gather_into_tensor", dist.all_gather_into_tensor, np.zeros(LARGE * size, dtype), x)
        for count in (20_000, LARGE):  # which may go from GPU to GPU, those of 64 KiB or less do not
            both(library, "large isend, irecv", messages, x[:count], np.zeros(count, dtype), np.zeros(count, dtype))
    wide = np.zeros((300, 6), "float32")
    wide[:, ::2] = rank + 1
    there = library.put(wide)
    dist.all_reduce(there[:, ::2])
    dist.all_reduce(wide[:, ::2])
    assert (library.get(there) == wide).all()


def streams(library):
    """The input is what the stream makes before the call; what the stream does after `wait` sees the result."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for asynchronous in (False, True):
        for count in (64, LARGE):
            with library.on_a_stream():
                late = library.slow()[:1, :1].ravel()
                x = library.put(np.full(count, rank + 1, "float32"))
                x += late
                work = dist.all_reduce(x, async_op=asynchronous)
                if work is not None:
                    work.wait()
                x *= 2
                assert (library.get(x) == size * (size + 1)).all()


def lists(library):
    """Several tensors of a process: all of them are summed."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = [library.put(np.full(5, 2 * rank + one + 1.0)) for one in range(2)]
    dist.all_reduce_multigpu(mine)
    total = size * (2 * size + 1.0)
    assert all((library.get(one) == total).all() for one in mine)


def mean_time(library):
    """Microseconds of a call, on rank 0: for the log."""
    rank = dist.get_rank()
    for count, turns in ((2048, 200), (16 << 20, 10)):
        x = library.put(np.ones(count, "float32"))
        for turn in range(turns + 3):
            if turn == 3:
                dist.barrier()
                begin = time.perf_counter()
            dist.all_reduce(x)
            library.get(x[:1])
        if rank == 0:
            print(f"  {library.name}, all_reduce of {count * 4} bytes, with a copy of 4 bytes to the host: "
                  f"{(time.perf_counter() - begin) / turns * 1e6:.1f} us", flush=True)


def work_of_a_rank(name, bodies):
    library = {"cupy": OfCupy, "torch": OfTorch}[name]()
    dist.init_process_group(timeout=100)
    for body in bodies:
        body(library)
        if dist.get_rank() == 0:
            print(f"ok {name} {body.__name__}", flush=True)
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    for name in ("cupy", "torch"):
        if importlib.util.find_spec(name) is None:
            print(f"not run: {name} is not installed")
            continue
        tutti.multiprocessing.run(work_of_a_rank, ranks, args=(name, [operations, streams, lists, mean_time]), init=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
