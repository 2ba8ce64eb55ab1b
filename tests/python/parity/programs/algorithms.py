"""What well-known kinds of programs do with torch.distributed, written anew: tutorials, metrics, data-parallel training."""

from arrays import torch
from inputs import whole


def ring_all_reduce(at, step):
    """A sum that goes round a ring: each rank hands on what came from its left, as a tutorial writes it."""
    left, right = (at.rank - 1) % at.size, (at.rank + 1) % at.size
    mine = whole(at.rank, 2, 3)
    total, sending, coming = mine.clone(), mine.clone(), torch.zeros_like(mine)

    def one_round(number):
        if at.size == 1:
            return None
        request = at.dist.isend(sending if number % 2 == 0 else coming, right)
        target = coming if number % 2 == 0 else sending
        at.dist.recv(target, left)
        total.add_(target)
        request.wait()
        return target

    for number in range(3):
        step(f"round_{number}", lambda: one_round(number) if number < at.size - 1 else None, total)
    step("sum", lambda: at.dist.all_reduce(again := mine.clone()) or torch.equal(again, total))


def reduce_scatter_ring(at, step):
    """The ring of chunks, in place: n - 1 rounds that add, n - 1 that copy."""
    data = whole(at.rank, at.size * 2)
    chunks = list(data.chunk(at.size))

    def shift(number, adding):
        if at.size == 1:
            return None
        out = (at.rank - number + (0 if adding else 1)) % at.size
        into = (out - 1) % at.size
        room = torch.empty_like(chunks[into])
        ops = [at.dist.P2POp(at.dist.isend, chunks[out], (at.rank + 1) % at.size),
               at.dist.P2POp(at.dist.irecv, room, (at.rank - 1) % at.size)]
        for work in at.dist.batch_isend_irecv(ops):
            work.wait()
        chunks[into].copy_(chunks[into] + room if adding else room)
        return room

    for adding in (True, False):
        for number in range(3):
            step(f"{'add' if adding else 'copy'}_{number}",
                 lambda: shift(number, adding) if number < at.size - 1 else None, data)


def uneven_gather(at, step, d):
    """A metric's tensors, of another size on each rank: sizes first, then padded, then cut."""
    result = whole(at.rank, 2 + at.rank, 3 + (at.rank + 1) % 2)
    step("barrier", lambda: d.barrier())
    sizes = step("sizes", lambda: d.all_gather(
        out := [torch.zeros(2, dtype=torch.long) for _ in range(at.size)], torch.tensor(result.shape)) or out)
    largest = step("largest", lambda: torch.stack(sizes).max(dim=0).values.tolist())
    padding = [extent for dim in (1, 0) for extent in (0, largest[dim] - result.size(dim))]
    padded = step("padded", lambda: torch.nn.functional.pad(result, padding))
    every = step("gathered", lambda: d.all_gather(out := [torch.zeros_like(padded) for _ in range(at.size)], padded) or out)
    step("cut", lambda: [tensor[tuple(slice(int(extent)) for extent in size)] for tensor, size in zip(every, sizes)])
    step("even", lambda: d.all_gather(out := [torch.zeros(2) for _ in range(at.size)], result[0, :2].clone()) or out)
    step("scalar", lambda: torch.stack(d.all_gather(
        out := [torch.zeros(()) for _ in range(at.size)], torch.tensor(float(at.rank))) or out).mean())
    step("list_state", lambda: d.all_gather_object(out := [None] * at.size, [result[:1], at.rank]) or out)


def pad_and_gather(at, step, d):
    """pad_across_processes, gather and gather_for_metrics of a nest of tensors."""
    tensor = whole(at.rank, 1 + at.rank % 2, 4)

    def gathered(value):
        if isinstance(value, torch.Tensor):
            value = value[None] if value.dim() == 0 else value
            out = torch.empty(at.size * value.shape[0], *value.shape[1:], dtype=value.dtype)
            d.all_gather_into_tensor(out, value.contiguous())
            return out
        return {key: gathered(each) for key, each in value.items()} if isinstance(value, dict) else [
            gathered(each) for each in value]

    def padded(value, at_end):
        sizes = gathered(torch.tensor(value.shape)[None])
        longest = int(sizes[:, 0].max())
        made = value.new_zeros(longest, *value.shape[1:])
        made[(slice(0, len(value)) if at_end else slice(longest - len(value), None))] = value
        return made

    for end in (True, False):
        step(f"padded/{end}", lambda: padded(tensor, end))
        step(f"gathered/{end}", lambda: gathered(padded(tensor, end)))
    step("nest", lambda: gathered({"a": torch.tensor(at.rank), "b": [torch.ones(2), torch.arange(3) + at.rank]}))
    step("objects", lambda: sum((d.all_gather_object(out := [None] * at.size, ["text", at.rank]) or out), []))
    step("reduce_mean", lambda: d.all_reduce(x := whole(at.rank, 4)) or x / at.size)
    step("broadcast_objects", lambda: d.broadcast_object_list(
        objects := [{"config": 3}, at.rank] if at.rank == 0 else [None, None], src=0) or objects)
    step("one_main_first", lambda: [d.barrier() for _ in range(2)])
    step("stop", lambda: d.all_reduce(flag := torch.tensor(int(at.rank == at.size - 1))) or bool(flag.item()))


def data_parallel_step(at, step, d):
    """Gradients in buckets, averaged while others are still computed; parameters and buffers from rank 0."""
    torch.manual_seed(at.rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    for number, parameter in enumerate(model.parameters()):
        parameter.data.copy_(whole(at.rank + number, *parameter.shape) / 8)
    step("shapes", lambda: d.all_gather_object(out := [None] * at.size, [p.shape for p in model.parameters()]) or out)
    step("parameters", lambda: [d.broadcast(p.data, 0) or p for p in model.parameters()])
    step("buffers", lambda: [d.broadcast(b, 0) or b for b in model.buffers()])
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = whole(at.rank * 3 + number, *parameter.shape)
    gradients = [p.grad for p in model.parameters()]
    buckets = [gradients[:2], gradients[2:]]
    flats = [torch.cat([g.reshape(-1) for g in bucket]) for bucket in buckets]
    works = step("begin", lambda: [d.all_reduce(flat.div_(4), async_op=True) for flat in flats])
    step("end", lambda: [work.wait() for work in works], *flats)
    step("unflattened", lambda: [part.view_as(g) for flat, bucket in zip(flats, buckets) for part, g in
                                 zip(flat.split([g.numel() for g in bucket]), bucket)])
    futures = step("futures", lambda: [d.all_reduce(flat, async_op=True).get_future().then(
        lambda done: done.value()[0].div(at.size)) for flat in flats])
    step("averaged", lambda: [future.wait() for future in futures])
    step("norm", lambda: d.all_reduce(total := torch.stack([f.square().sum() for f in flats]).sum().double()) or total)
    step("finite", lambda: d.all_reduce(found := torch.tensor(0.0), d.ReduceOp.MAX) or found)
    step("sync_batch_norm", lambda: d.all_gather_into_tensor(
        out := torch.zeros(at.size * 9), torch.cat([torch.ones(4), whole(at.rank, 5)])) or out.view(at.size, 9).sum(0))


def zero_1_step(at, step):
    """Each rank keeps the optimizer's state of its part: gradients scattered, parameters gathered."""
    d, count = at.dist, 12
    parameter = whole(0, count)
    momentum = torch.zeros(count // at.size if count % at.size == 0 else count)
    for number in range(2):
        gradient = whole(at.rank + number, count)
        part = step(f"gradients_{number}", lambda: d.reduce_scatter_tensor(out := torch.zeros_like(momentum), gradient)
                    or out / at.size)
        momentum.mul_(0.5).add_(part)
        own = parameter[at.rank * len(momentum):(at.rank + 1) * len(momentum)]
        own.sub_(momentum, alpha=0.25)
        step(f"parameters_{number}", lambda: d.all_gather_into_tensor(parameter, own.clone()), parameter)
        step(f"in_place_{number}", lambda: d.all_gather_into_tensor(parameter, own), parameter)
    owners = [index % at.size for index in range(5)]
    tensors = [whole(owner if owner == at.rank else at.rank + 5, 1 + index) for index, owner in enumerate(owners)]
    step("owners", lambda: [d.broadcast(t, owner, async_op=True).wait() for t, owner in zip(tensors, owners)], *tensors)
    step("consolidated", lambda: d.gather_object(
        {"momentum": momentum}, out := [None] * at.size if at.rank == 0 else None, dst=0) or out)


PROGRAMS = [ring_all_reduce, reduce_scatter_ring, uneven_gather, pad_and_gather, data_parallel_step, zero_1_step]
