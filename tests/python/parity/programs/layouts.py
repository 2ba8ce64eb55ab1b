"""Tensors of every layout, as inputs and as outputs of every operation."""

from arrays import torch
from inputs import DENSE, LAYOUTS


def outputs(at, step, d):
    """Whatever the strides of what is written, its elements are right; gloo writes as if there were none."""
    for name, make in LAYOUTS.items():
        known = {} if name in DENSE else None

        def expect(value, known=known):
            return {"known": value} if known is None else {}

        def in_place(call, make=make):
            tensor = make(at.rank)
            call(tensor)
            return tensor

        total = sum(make(r) for r in range(at.size))
        last = make(at.size - 1)
        step(f"all_reduce/{name}", lambda: in_place(d.all_reduce), **expect(total))
        step(f"all_reduce_max/{name}", lambda: in_place(lambda x: d.all_reduce(x, d.ReduceOp.MAX)), **expect(last))
        step(f"broadcast/{name}", lambda: in_place(lambda x: d.broadcast(x, at.size - 1)), **expect(last))
        step(f"reduce/{name}", lambda: in_place(lambda x: d.reduce(x, 0)) if at.rank == 0 else in_place(
            lambda x: d.reduce(x, 0)) is None, **expect(total if at.rank == 0 else False))
        step(f"async/{name}", lambda: in_place(lambda x: d.all_reduce(x, async_op=True).wait()), **expect(total))
        step(f"scatter/{name}", lambda: in_place(lambda x: d.scatter(
            x, [make(r + 3).contiguous() for r in range(at.size)] if at.rank == 0 else None)), **expect(make(at.rank + 3)))


def inputs(at, step):
    """What is read, into outputs without gaps."""
    d, every = at.dist, range(at.size)
    for name, make in LAYOUTS.items():
        known = name in DENSE

        def expect(value, known=known):
            return {} if known else {"known": value}

        def plain(make=make):
            return torch.full(make(0).shape, -1.0)

        own = make(at.rank)
        all_of = [make(r) for r in every]
        step(f"all_gather/{name}", lambda: d.all_gather(out := [plain() for _ in every], own) or out, **expect(all_of))
        step(f"gather/{name}", lambda: d.gather(own, out := [plain() for _ in every] if at.rank == 0 else None) or out,
             **expect(all_of if at.rank == 0 else None))
        step(f"reduce_scatter/{name}", lambda: d.reduce_scatter(out := plain(), [make(at.rank) for _ in every]) or out,
             **expect(sum(all_of)))
        step(f"all_to_all/{name}", lambda: d.all_to_all(
            out := [plain() for _ in every], [make(at.rank) for _ in every]) or out, **expect(all_of))


def of_one_tensor(at, step, d, n):
    """all_gather_into_tensor, reduce_scatter_tensor and all_to_all_single of tensors whose rows are anything."""
    for name, row in {"row": (3,), "rows": (2, 3), "nothing": (0,), "no_columns": (2, 0), "one": (1,),
                      "deep": (1, 2, 1, 2)}.items():
        own = (torch.arange(torch.Size(row).numel()) + 10.0 * at.rank).reshape(row)
        step(f"all_gather_into_tensor/{name}",
             lambda: d.all_gather_into_tensor(out := torch.zeros(n * row[0], *row[1:]), own) or out)
        step(f"all_gather_base/{name}", lambda: d._all_gather_base(out := torch.zeros(n * row[0], *row[1:]), own) or out)
        step(f"reduce_scatter_tensor/{name}",
             lambda: d.reduce_scatter_tensor(out := torch.zeros(row), own.repeat(n, *[1] * (len(row) - 1))) or out)
        step(f"all_to_all_single/{name}", lambda: d.all_to_all_single(
            out := torch.zeros(n * row[0], *row[1:]), own.repeat(n, *[1] * (len(row) - 1))) or out)
        splits = [(at.rank + r) % 3 for r in range(n)]
        step(f"all_to_all_single_splits/{name}", lambda: d.all_to_all_single(
            out := torch.zeros(sum(splits), *row), torch.full((sum(splits), *row), float(at.rank)), splits, splits) or out)


def graphs(at, step, d):
    """Tensors that are leaves of autograd's graphs, or inside of one."""
    step("leaf", lambda: d.all_reduce(x := torch.ones(3, requires_grad=True)) or x)
    step("parameter", lambda: d.all_reduce(x := torch.nn.Parameter(torch.ones(3))) or x)
    step("parameter_broadcast", lambda: d.broadcast(x := torch.nn.Parameter(torch.ones(3) * at.rank), 0) or x)
    step("data", lambda: d.all_reduce((x := torch.nn.Parameter(torch.ones(3))).data) or x)
    step("detached", lambda: d.all_reduce((x := torch.nn.Parameter(torch.ones(3))).detach()) or x)
    step("gathered_parameter", lambda: d.all_gather(
        out := [torch.zeros(3) for _ in range(at.size)], torch.nn.Parameter(torch.ones(3) * at.rank)) or out)
    step("gradient", lambda: gradient(at))
    with torch.no_grad():
        step("no_grad", lambda: d.all_reduce(x := torch.nn.Parameter(torch.ones(3))) or x)
    with torch.inference_mode():
        step("inference", lambda: d.all_reduce(x := torch.ones(3)) or x.is_inference())


def gradient(at):
    weight = torch.nn.Parameter(torch.arange(4.0))
    (weight * (at.rank + 1)).sum().backward()
    at.dist.all_reduce(weight.grad)
    return weight.grad


PROGRAMS = [outputs, inputs, of_one_tensor, graphs]
