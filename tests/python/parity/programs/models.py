"""Programs that divide a model or its data: pipelines, experts, contrastive losses, logs of a detector."""

import pickle

from arrays import torch
from inputs import whole


def pipeline_1f1b(at, step):
    """One forward, one backward: stages hand activations down and gradients up, each with its shape told first."""
    d, stage, last = at.dist, at.rank, at.size - 1
    micro_batches, warm_up = 4, min(at.size - 1 - at.rank, 4)
    weight = torch.tensor(stage + 2.0)
    held, losses, gradients = [], [], []

    def activations(number):
        if stage == 0:
            x = whole(number, 2, 3)
        else:
            d.recv(shape := torch.zeros(2, dtype=torch.int64), stage - 1)
            d.recv(x := torch.zeros(*shape.tolist()), stage - 1)
        held.append(x)
        return x * weight

    def forward(number):
        y = activations(number)
        if stage < last:
            d.send(torch.tensor(y.shape), stage + 1)
            d.send(y, stage + 1)
        else:
            losses.append(y.sum())
        return y

    def backward(number):
        if stage == last:
            up = torch.ones(2, 3)
        else:
            d.recv(up := torch.zeros(2, 3), stage + 1)
        gradients.append((held.pop(0) * up).sum())
        if stage > 0:
            d.send(up * weight, stage - 1)
        return gradients[-1]

    def both(number):
        """The steady state: sends forward and receives backward at once, so that neighbours never wait for each other."""
        y, up = activations(number), torch.ones(2, 3)
        if stage < last:
            works = [d.isend(torch.tensor(y.shape), stage + 1), d.isend(y, stage + 1), d.irecv(up, stage + 1)]
            for work in works:
                work.wait()
        else:
            losses.append(y.sum())
        gradients.append((held.pop(0) * up).sum())
        if stage > 0:
            d.send(up * weight, stage - 1)
        return y, up

    for number in range(3):
        step(f"warm_up_{number}", lambda: forward(number) if number < warm_up else None)
    for number in range(4):
        step(f"steady_{number}", lambda: both(warm_up + number) if number < micro_batches - warm_up else None)
    for number in range(3):
        step(f"cool_down_{number}", lambda: backward(number) if number < warm_up else None)
    step("losses", lambda: d.broadcast(x := torch.stack(losses) if losses else torch.zeros(micro_batches), last) or x)
    step("gradients", lambda: d.all_gather(out := [torch.zeros(()) for _ in range(at.size)], sum(gradients)) or out)


def mixture_of_experts(at, step, d, n):
    """Tokens go to the rank of their expert, and come back: splits from counts, some of them zero."""
    tokens = whole(at.rank, 6, 4)
    expert = (torch.arange(6) * (at.rank + 1) + at.rank) % n
    order = torch.argsort(expert, stable=True)
    send = torch.bincount(expert, minlength=n)
    receive = step("counts", lambda: d.all_to_all_single(out := torch.zeros_like(send), send) or out)
    came = step("dispatch", lambda: d.all_to_all_single(
        out := torch.zeros(int(receive.sum()), 4), tokens[order], receive.tolist(), send.tolist()) or out)
    done = came * (at.rank + 2)
    back = step("combine", lambda: d.all_to_all_single(
        out := torch.zeros(6, 4), done, output_split_sizes=send.tolist(), input_split_sizes=receive.tolist()) or out)
    step("in_order", lambda: torch.empty_like(back).index_copy_(0, order, back))
    step("async", lambda: (work := d.all_to_all_single(
        out := torch.zeros_like(came), tokens[order], receive.tolist(), send.tolist(), async_op=True)).wait() and out)
    step("lists", lambda: d.all_to_all(
        out := [torch.zeros(int(c), 4) for c in receive], list(tokens[order].split(send.tolist()))) or out,
         known=list(came.split(receive.tolist())))
    step("load", lambda: d.all_reduce(total := send.clone()) or total)
    step("capacity", lambda: d.all_reduce(most := send.max(), d.ReduceOp.MAX) or most)
    step("nobody", lambda: d.all_to_all_single(out := torch.zeros(0, 4), torch.zeros(0, 4), [0] * n, [0] * n) or out)
    first = [3 if r == 0 else 0 for r in range(n)]
    step("all_to_one", lambda: d.all_to_all_single(
        out := torch.zeros(3 * n if at.rank == 0 else 0, 2), whole(at.rank, 3, 2),
        [3 if at.rank == 0 else 0] * n, first) or out)


class Gathered(torch.autograd.Function):
    """Features of all ranks; the gradient of ours is what all ranks' losses say of it."""

    @staticmethod
    def forward(ctx, at, tensor):
        ctx.at = at
        out = [torch.zeros_like(tensor) for _ in range(at.size)]
        at.dist.all_gather(out, tensor)
        return tuple(out)

    @staticmethod
    def backward(ctx, *gradients):
        every = torch.stack(gradients)
        ctx.at.dist.all_reduce(every)
        return None, every[ctx.at.rank]


def contrastive_loss(at, step):
    """A gather layer with gradients, as CLIP's losses have it, and the one that keeps only the own part's."""
    images = whole(at.rank, 2, 3).div(64).requires_grad_()
    texts = whole(at.rank + 1, 2, 3).div(64).requires_grad_()
    every = step("gathered", lambda: torch.cat(Gathered.apply(at, images)))
    logits = step("logits", lambda: every @ texts.t())
    step("backward", lambda: logits.sum().backward(), images.grad, texts.grad)
    step("gradients", lambda: (images.grad, texts.grad))

    def own_part():
        out = [torch.zeros_like(images) for _ in range(at.size)]
        at.dist.all_gather(out, images)
        out[at.rank] = images
        return torch.cat(out)

    step("own_part", own_part)
    step("own_gradient", lambda: torch.autograd.grad(own_part().sum(), images))
    step("labels", lambda: torch.arange(2) + 2 * at.rank)


def reduced_dicts(at, step, d):
    """Losses as a dict: the names are sorted, the values stacked; rank 0 divides."""
    losses = {"loss_b": torch.tensor(1.5 * at.rank), "loss_a": torch.tensor(2.0), "loss_c": torch.tensor(at.rank + 0.25)}
    names = sorted(losses)

    def reduced(average):
        values = torch.stack([losses[name] for name in names])
        d.reduce(values, dst=0)
        if at.rank != 0:
            return None
        return dict(zip(names, values / at.size if average else values))

    step("sum", lambda: reduced(False))
    step("mean", lambda: reduced(True))
    step("all_gather", lambda: d.all_gather_object(out := [None] * at.size, {k: v.item() for k, v in losses.items()}) or out)
    step("gather", lambda: d.gather_object(
        losses, out := [None] * at.size if at.rank == 0 else None) or out)
    seed = step("shared_seed", lambda: d.broadcast_object_list(x := [1234 + at.rank], 0) or x[0])
    step("same_seed", lambda: d.all_gather_object(out := [None] * at.size, seed) or len(set(out)))

    def as_octets():
        """How it was done before there were operations on objects."""
        octets = torch.frombuffer(bytearray(pickle.dumps({"rank": at.rank, "more": "x" * (3 * at.rank)})), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(at.size)]
        d.all_gather(sizes, torch.tensor([octets.numel()]))
        longest = max(int(size) for size in sizes)
        d.all_gather(out := [torch.zeros(longest, dtype=torch.uint8) for _ in range(at.size)],
                     torch.nn.functional.pad(octets, (0, longest - octets.numel())))
        return [pickle.loads(bytes(tensor[:int(size)].tolist())) for tensor, size in zip(out, sizes)]

    step("octets", as_octets)


def tensor_parallel(at, step, d):
    """A layer in columns and one in rows, with a sum between ranks; then a softmax whose classes are divided."""
    x = whole(0, 2, 4)
    columns, rows = whole(at.rank, 3, 4), whole(at.rank, 2, 3)
    hidden = step("columns", lambda: x @ columns.t())
    step("rows", lambda: d.all_reduce(y := hidden @ rows.t()) or y)
    logits = whole(at.rank + 1, 2, 3)
    top = step("max", lambda: d.all_reduce(m := logits.max(dim=1).values, d.ReduceOp.MAX) or m)
    step("sum_of_exponents", lambda: d.all_reduce(s := (logits - top[:, None]).ge(0).float().sum(1)) or s)
    step("sequence_parallel", lambda: d.reduce_scatter_tensor(out := torch.zeros(2, 2), (hidden @ rows.t()).repeat(at.size, 1))
         or out)
    step("gathered_columns", lambda: d.all_gather(out := [torch.zeros_like(hidden) for _ in range(at.size)], hidden)
         or torch.cat(out, dim=1))
    step("vocabulary", lambda: d.all_reduce(y := torch.where(torch.arange(6) // 2 % at.size == at.rank,
                                                           whole(at.rank, 6), torch.zeros(6))) or y)


PROGRAMS = [pipeline_1f1b, mixture_of_experts, contrastive_loss, reduced_dicts, tensor_parallel]
