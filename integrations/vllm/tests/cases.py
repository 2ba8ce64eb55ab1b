"""The work of one rank in the tests: cases.py NAME [ARGUMENT...]. tuttirun starts it, or a test itself."""

import importlib
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import tutti_vllm


def communicator_class():
    """The class that vLLM would make."""
    tutti_vllm.register()
    tutti_vllm.register()  # vLLM may call it again
    from vllm.platforms.cpu import CpuPlatform
    assert CpuPlatform.dist_backend == "tutti"
    module, _, name = CpuPlatform.get_device_communicator_cls().rpartition(".")
    return getattr(importlib.import_module(module), name)


def communicator():
    """Of all ranks, as vLLM makes it."""
    made = communicator_class()
    dist.init_process_group("tutti")
    ranks = list(range(dist.get_world_size()))
    return made(cpu_group=dist.new_group(ranks, backend="gloo"), device_group=dist.new_group(ranks, backend="tutti"),
                device=torch.device("cpu"), unique_name="tp:0")


def raises(kind, call, text):
    try:
        call()
    except kind as problem:
        assert text in str(problem), problem
    else:
        raise AssertionError(f"no {kind.__name__}")


def check_operations(comm):
    """Of a communicator of the plug-in, or of the group of vLLM that has one."""
    rank, size = comm.rank_in_group, comm.world_size
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for shape in ((1, 8), (7, 64), (33, 1, 2)):
            x = torch.full(shape, rank + 1.0, dtype=dtype)
            y = comm.all_reduce(x)
            assert y.dtype == dtype and (y == size * (size + 1) / 2).all(), (dtype, shape, y)
    compiled = torch.compile(lambda x: comm.all_reduce(x * 2) + 1, backend="eager", fullgraph=True)
    assert (compiled(torch.ones(2, 4)) == 2 * size + 1).all()

    sizes = [2 * r % 3 for r in range(size)]  # 0, 2, 1, 0: some ranks have none
    x = torch.full((sizes[rank], 4), float(rank))
    expected = torch.cat([torch.full((n, 4), float(r)) for r, n in enumerate(sizes)])
    assert torch.equal(comm.all_gatherv(x, 0, sizes), expected)
    both = comm.all_gatherv([x, x.to(torch.int64)], sizes=sizes)
    assert torch.equal(both[0], expected) and torch.equal(both[1], expected.to(torch.int64))
    x = torch.full((2, 3), float(rank)).t()  # strided
    assert torch.equal(comm.all_gatherv(x), torch.cat([torch.full((3, 2), float(r)) for r in range(size)]))

    rows = torch.arange(sum(sizes) * 4, dtype=torch.float32).view(-1, 4)
    begin = sum(sizes[:rank])
    expected = rows[begin:begin + sizes[rank]] * (size * (size + 1) // 2)
    assert torch.equal(comm.reduce_scatterv(rows * (rank + 1), 0, sizes), expected)
    columns = torch.arange(3 * 2 * size, dtype=torch.float32).view(3, -1)
    for dim in (1, -1):
        assert torch.equal(comm.reduce_scatterv(columns, dim), columns[:, 2 * rank:2 * rank + 2] * size)
    output = torch.empty(2, 1)
    if hasattr(comm, "reduce_scatterv_into_output"):
        comm.reduce_scatterv_into_output(torch.ones(2 * size, 1), output, 0)
        assert (output == size).all()

    if size > 1:
        given = {"hidden": torch.full((5, 8), float(rank), dtype=torch.bfloat16), "residual": torch.arange(6).view(2, 3).t(),
                 "empty": torch.empty(0, 4), "text": "a", "number": rank}
        right, left = (rank + 1) % size, (rank - 1) % size
        if rank == 0:
            comm.send_tensor_dict(given, right)
        got = comm.recv_tensor_dict(left)
        if rank != 0:
            comm.send_tensor_dict(given, right)
        assert list(got) == list(given) and got["text"] == "a" and got["number"] == left
        assert torch.equal(got["hidden"], torch.full((5, 8), float(left), dtype=torch.bfloat16))
        assert torch.equal(got["residual"], given["residual"]) and got["empty"].shape == (0, 4)

    done = []
    thread = threading.Thread(target=lambda: done.append(comm.all_reduce(torch.ones(3)).tolist()))
    thread.start()
    thread.join()
    assert done == [[size] * 3]


def operations():
    comm = communicator()
    assert comm.dist_module is dist and comm.supports_tensor_dict
    check_operations(comm)
    # A name twice: groups of one name of vLLM follow each other.
    again = type(comm)(cpu_group=comm.cpu_group, device_group=comm.device_group, unique_name="tp:0")
    assert (again.all_reduce(torch.ones(1)) == comm.world_size).all()


def misuse():
    comm = communicator()
    x = torch.ones(3, 2)
    raises(NotImplementedError, lambda: comm.all_gatherv(x, 1), "dimension 1")
    raises(ValueError, lambda: comm.all_gatherv(x, 0, [3]), "do not fit rank")
    raises(ValueError, lambda: comm.all_gatherv(x, 0, [2, 2]), "do not fit rank")
    raises(ValueError, lambda: comm.reduce_scatterv(x, 0), "cannot be divided among 2")
    raises(ValueError, lambda: comm.reduce_scatterv(x, 0, [1, 1]), "do not divide 3 rows among 2")
    raises(TypeError, lambda: comm.all_reduce([1.0]), "torch.Tensor")
    assert (comm.all_reduce(torch.ones(1)) == 2).all()  # nothing was sent
    dist.destroy_process_group()
    raises(ValueError, lambda: comm.all_reduce(torch.ones(1)), "no group")


def killed(path):
    """The last rank dies while the others wait for it. The file tells them when."""
    comm = communicator()
    comm.all_reduce(torch.ones(1))
    last = comm.world_size - 1
    if comm.rank_in_group == last:
        time.sleep(0.5)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{time.monotonic()} {os.getpid()}")
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(torch.ones(1))
    except dist.DistNetworkError as problem:
        ended = time.monotonic()
        with open(path, encoding="utf-8") as file:
            began, pid = file.read().split()
        print(f"heard after {ended - float(began):.3f} s of pid {pid}: {problem}", flush=True)
        os._exit(0)
    raise AssertionError("no rank was lost")


def coordinator():
    """In a real vLLM."""
    from vllm.plugins import load_general_plugins
    load_general_plugins()
    import vllm.distributed.parallel_state as state
    from vllm.platforms import current_platform
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    state.init_distributed_environment(size, rank, "env://", rank, current_platform.dist_backend)
    for _ in range(2):  # a name twice
        group = state.init_model_parallel_group([list(range(size))], rank, current_platform.dist_backend, group_name="tp")
        assert type(group.device_communicator).__module__ == "tutti_vllm.communicator" and group.use_cpu_custom_send_recv
        check_operations(group)
        x = torch.full((2, 3), float(rank))
        assert torch.equal(group.all_gather(x, dim=0), torch.cat([torch.full((2, 3), float(r)) for r in range(size)]))
        assert torch.equal(group.all_gather(x, dim=1), torch.cat([torch.full((2, 3), float(r)) for r in range(size)], 1))
        assert torch.equal(group.reduce_scatter(torch.ones(size, 2), 0), torch.full((1, 2), float(size)))
        gathered = group.gather(x, dst=1, dim=0)
        assert (gathered is None) == (rank != 1) and (rank != 1 or gathered.shape == (2 * size, 3))
        assert torch.equal(group.broadcast(x.clone(), src=1), torch.ones(2, 3))
        if rank == 0:
            group.send(torch.arange(5), 1)
        elif rank == 1:
            assert group.recv(torch.Size([5]), torch.int64, 0).tolist() == list(range(5))
        group.destroy()


def sglang():
    """In SGLang's group, with the hook of the page."""
    import tutti_hook
    calls = []
    replaced = tutti_hook.all_reduce
    tutti_hook.all_reduce = lambda *arguments: calls.append(1) or replaced(*arguments)
    tutti_hook.register()
    from sglang.srt.plugins.hook_registry import HookRegistry
    HookRegistry.apply_hooks()
    import sglang.srt.distributed.parallel_state as state
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    state.init_distributed_environment(world_size=size, rank=rank, local_rank=rank, distributed_init_method="env://",
                                       backend="tutti")
    group = state.init_model_parallel_group([list(range(size))], rank, "tutti", group_name="tp")
    assert dist.get_backend(group.device_group) == "tutti"
    for dtype in (torch.bfloat16, torch.float32):
        x = group.all_reduce(torch.full((4, 8), rank + 1.0, dtype=dtype))
        assert x.dtype == dtype and (x == size * (size + 1) / 2).all()
    assert len(calls) == 2
    assert torch.equal(group.all_gather(torch.full((2,), float(rank))), torch.arange(float(size)).repeat_interleave(2))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    if dist.is_initialized():
        dist.destroy_process_group()
