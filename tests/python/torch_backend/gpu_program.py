"""Every operation on tensors of GPUs, DistributedDataParallel and FSDP2, on several ranks; results are compared with those
of the CPU. It runs with torch's CUDA, and in gpu_test.py with GPUs whose memory is the host's.

    python tests/python/torch_backend/gpu_program.py 2                # ranks; they share the GPUs that there are
    TUTTI_CUDA_IPC=on python tests/python/torch_backend/gpu_program.py 2
"""

import functools
import gc
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

sys.path.append(str(pathlib.Path(__file__).parents[1]))
import gpus  # noqa: E402
import nn_cases  # noqa: E402
import tutti.torch  # noqa: E402, F401
from forked import begin, run  # noqa: E402

DTYPES = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the ranks are forked, which CUDA allows before its first call only
IN_HOST_MEMORY = "TUTTI_TEST_GPU_TENSORS" in os.environ
FROM_GPU_TO_GPU = os.environ.get("TUTTI_CUDA_IPC") == "on"


def own_gpu():
    count = 2 if IN_HOST_MEMORY else torch.cuda.device_count()
    return torch.device("cuda", int(os.environ["RANK"]) % count)


def both(name, call, *tensors):
    """Calls it with these tensors on the CPU, and with copies on a GPU: all must end up equal."""
    there = [one.to(own_gpu()) if isinstance(one, torch.Tensor) else [part.to(own_gpu()) for part in one] for one in tensors]
    for given in (tensors, there):
        work = call(*given)
        if work is not None:
            work.wait()
    for on_cpu, on_gpu in zip(tensors, there, strict=True):
        pairs = zip(on_cpu, on_gpu, strict=True) if isinstance(on_cpu, list) else [(on_cpu, on_gpu)]
        for a, b in pairs:
            assert b.is_cuda and torch.equal(a, b.cpu()), (name, a, b.cpu())


def messages(mine):
    """In rings of all ranks: of their tensor, and of one that may go from GPU to GPU, which those of 64 KiB or less do not."""
    rank, size = dist.get_rank(), dist.get_world_size()
    next_rank, last_rank = (rank + 1) % size, (rank - 1) % size

    def both_directions(mine, theirs, others):
        works = [dist.isend(mine, next_rank, tag=1), dist.isend(mine, last_rank, tag=3),
                 dist.irecv(others, next_rank, tag=3), dist.irecv(theirs, last_rank, tag=1)]
        for work in works:
            work.wait()

    def batch(mine, theirs):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, next_rank),
                                            dist.P2POp(dist.irecv, theirs, last_rank)]):
            work.wait()

    def from_any(mine, theirs):
        work = dist.isend(mine, next_rank, tag=2)
        dist.recv(theirs, tag=2)
        work.wait()

    for mine in (mine, mine.repeat(70_000 // mine.numel())):
        both("isend, irecv", both_directions, mine, torch.empty_like(mine), torch.empty_like(mine))
        both("batch_isend_irecv", batch, mine, torch.empty_like(mine))
        if size > 1:
            both("recv from any", from_any, mine, torch.empty_like(mine))


def operations():
    rank, size = begin()
    for dtype in DTYPES:
        x = (torch.arange(6 * size) % 3 + rank).to(dtype)
        rows = x.reshape(size, 6)
        parts = [row.clone() for row in rows]
        part = torch.empty(6, dtype=dtype)

        def results(dtype=dtype):
            return [torch.empty(6, dtype=dtype) for _ in range(size)]

        for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.PRODUCT):
            both("all_reduce", lambda t, op=op: dist.all_reduce(t, op), x.clone())
        both("all_reduce, strided", dist.all_reduce, x.clone().reshape(2, -1).t())
        both("broadcast", lambda t: dist.broadcast(t, size - 1), x.clone())
        both("reduce", lambda t: dist.reduce(t, 0), x.clone())
        both("all_gather", dist.all_gather, results(), parts[0])
        both("all_gather_into_tensor", dist.all_gather_into_tensor, torch.empty(6 * size, dtype=dtype), parts[0])
        both("gather", lambda to, t: dist.gather(t, to if rank == 0 else None), results() if rank == 0 else [], parts[0])
        both("scatter", lambda t, of: dist.scatter(t, of if rank == 0 else None), part.clone(), parts if rank == 0 else [])
        both("reduce_scatter", dist.reduce_scatter, part.clone(), parts)
        both("reduce_scatter_tensor", dist.reduce_scatter_tensor, part.clone(), x)
        both("all_to_all", dist.all_to_all, results(), parts)
        both("all_to_all_single", dist.all_to_all_single, torch.empty_like(x), x)
        both("all_to_all_single, splits", lambda to, t: dist.all_to_all_single(to, t, [6] * size, [6] * size),
             torch.empty_like(x), x)
        with_list = [x.clone(), x.flip(0).clone()]
        both("all_reduce_coalesced", lambda t: dist.all_reduce_coalesced(t), with_list)
        messages(parts[0])
    bits = torch.tensor([5 + rank, 3])
    both("all_reduce, BAND", lambda t: dist.all_reduce(t, ReduceOp.BAND), bits)
    both("all_reduce, asynchronous", lambda t: dist.all_reduce(t, async_op=True), x.clone())
    both("tutti.torch.all_reduce_", lambda t: tutti.torch.all_reduce_(t) and None, torch.full((1,), rank + 1.0))
    objects = [None] * size
    dist.all_gather_object(objects, rank)
    assert objects == list(range(size))
    dist.barrier(device_ids=[own_gpu().index])
    if IN_HOST_MEMORY:  # one for collectives, and two for messages to and from each neighbour
        assert gpus.shared_memories() == (1 + 2 * min(size - 1, 2) if FROM_GPU_TO_GPU else 0)

    x = torch.ones(4, device=own_gpu())
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert future.wait().tolist() == [2.0 * size] * 4

    part = dist.new_group(list(range((size + 1) // 2)))
    if rank < (size + 1) // 2:
        x = torch.ones(2, device=own_gpu())
        dist.all_reduce(x, group=part)
        assert x.tolist() == [(size + 1) // 2] * 2
    dist.destroy_process_group()


def groups():
    gpu = own_gpu()
    rank, size = begin("cpu:tutti,cuda:tutti", device_id=gpu)
    assert dist.get_backend_config() == "cpu:tutti,cuda:tutti"
    dist.barrier()  # waits for the current stream of that GPU
    if IN_HOST_MEMORY and dist.get_debug_level() != dist.DebugLevel.DETAIL:  # its wrapper does not hand the GPU on
        assert gpus.take_log() == ["synchronize stream 0"]
    first = list(range((size + 1) // 2))
    lists = [first, [one for one in range(size) if one not in first]] if size > 1 else [first]
    mine = lists[0] if rank in first else lists[1]
    part, piece = dist.new_group(first), dist.split_group(split_ranks=lists)
    for group in (part, piece):
        if group is part and rank not in first:
            continue
        for device in (torch.device("cpu"), gpu):
            x = torch.ones(2, device=device)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [len(mine)] * 2
    dist.destroy_process_group()


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def gradients_of_all(inputs):
    """Those of one process that has the inputs of all ranks."""
    model = network()
    model(inputs).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


def train(gpu, mine, wanted):
    """DistributedDataParallel computes these gradients."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    for hook, options in ((None, {"output_device": gpu.index}), (default_hooks.allreduce_hook, {})):
        model = torch.nn.parallel.DistributedDataParallel(network().to(gpu), device_ids=[gpu.index], **options)
        if hook is not None:
            model.register_comm_hook(None, hook)
        model(mine).square().mean().backward()
        for parameter, grad in zip(model.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter.grad.cpu(), grad)


def training():
    gpu = own_gpu()
    rank, size = begin()
    torch.manual_seed(2)
    inputs = torch.randn(3 * size, 4)
    train(gpu, inputs[3 * rank:3 * rank + 3].to(gpu), gradients_of_all(inputs))
    x = torch.ones(3, device=gpu, requires_grad=True)
    tutti.torch.nn.all_reduce(x * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [size * (rank + 1.0)] * 3
    # The models go before their group. The last one to hold a group would end it with the GIL, and with DETAIL the thread
    # of Gloo that is waited for may need the GIL itself: torch's own deadlock (bindings/torch/README.md).
    gc.collect()
    dist.destroy_process_group()


def gradients():
    """Each collective with a gradient, on small and large tensors: its result and its gradient."""
    rank, size = begin()
    nn = tutti.torch.nn
    functions = {**nn_cases.cases(rank, size),
                 **{f"all_gather_single, {backward}": (functools.partial(nn.all_gather_single, backward=backward), (2,))
                    for backward in ("avg", "own")}}
    for row in ((), (20_000,)):
        for name, (function, shape) in functions.items():
            torch.manual_seed(rank)
            values = torch.randn((*shape, *row))
            found = []
            for device in (torch.device("cpu"), own_gpu()):
                x = values.to(device, copy=True).requires_grad_()
                output = nn_cases.flat(function(x))
                (output * (torch.arange(output.numel(), device=device) % 7)).sum().backward()
                assert output.device == x.grad.device == device
                found.append((output.detach().cpu(), x.grad.cpu()))
            assert torch.equal(found[0][0], found[1][0]), name
            torch.testing.assert_close(found[1][1], found[0][1], msg=name)  # torch itself divides those of averages
    dist.destroy_process_group()


def sharding():
    from torch.distributed.fsdp import fully_shard
    gpu = own_gpu()
    os.environ["LOCAL_RANK"] = str(gpu.index)  # which the mesh takes for the GPU
    rank, size = begin()
    torch.manual_seed(2)
    inputs = torch.randn(3 * size, 4)
    model = network().to(gpu)
    fully_shard(model, mesh=dist.init_device_mesh("cuda", (size,)))
    model(inputs[3 * rank:3 * rank + 3].to(gpu)).square().mean().backward()
    for parameter, grad in zip(model.parameters(), gradients_of_all(inputs), strict=True):
        torch.testing.assert_close(parameter.grad.full_tensor().cpu(), grad)
    dist.destroy_process_group()


def main():
    if IN_HOST_MEMORY:
        gpus.load()
    elif torch.version.cuda is None or not torch.cuda.is_available():
        print(f"not run: torch {torch.__version__} finds no GPU")
        return 0
    from torch import _dynamo  # noqa: F401  once, and not in every rank at its first backward
    # FSDP2 calls torch.cuda, which only a torch with CUDA has.
    names = sys.argv[2:] or ["operations", "groups", "gradients", "training", *([] if IN_HOST_MEMORY else ["sharding"])]
    for name in names:
        texts = run(globals()[name], int(sys.argv[1]), limit=200)
        if not IN_HOST_MEMORY:  # a driver may not share memory; without GPUs, a library without kernels says so, too
            print("".join(f"{line}\n" for text in texts for line in text.splitlines() if "though TUTTI_CUDA_IPC=on" in line),
                  end="")
        print(f"ok {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
