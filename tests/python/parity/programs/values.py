"""Awkward values: moved bit by bit, and reduced."""

import functools

from arrays import torch
from inputs import FLOATS, INTEGERS, TAKEN, bits, extremes, mixed, with_one_nan


def moved_bits(at, step):
    every, d = range(at.size), at.dist
    for name in TAKEN:
        own = bits(name, 12, at.rank)
        step(f"broadcast/{name}", lambda: d.broadcast(x := own.clone(), at.size - 1) or x)
        step(f"all_gather/{name}", lambda: d.all_gather(out := [torch.empty_like(own) for _ in every], own) or out)
        step(f"all_gather_into_tensor/{name}",
             lambda: d.all_gather_single(out := own.new_empty(12 * at.size), own) or out)
        step(f"gather/{name}", lambda: d.gather(
            own, out := [torch.empty_like(own) for _ in every] if at.rank == 0 else None) or out)
        step(f"scatter/{name}", lambda: d.scatter(
            out := torch.empty_like(own), [bits(name, 12, 7 + r) for r in every] if at.rank == 0 else None) or out)
        step(f"all_to_all/{name}", lambda: d.all_to_all(
            out := [torch.empty_like(own) for _ in every], [bits(name, 12, at.rank + 5 * r) for r in every]) or out)
        step(f"all_to_all_single/{name}",
             lambda: d.all_to_all_single(out := own.new_empty(4 * at.size), bits(name, 4 * at.size, at.rank)) or out)
        step(f"ring/{name}", lambda: exchanged(at, own))


def exchanged(at, tensor):
    """What the rank before this one has."""
    if at.size == 1:
        return None
    out = torch.empty_like(tensor)
    works = [at.dist.isend(tensor, (at.rank + 1) % at.size), at.dist.irecv(out, (at.rank - 1) % at.size)]
    return [work.wait() for work in works], out


def reduced(at, tensor, op):
    """By all operations that reduce: all of them must give the same."""
    d = at.dist
    d.all_reduce(whole := tensor.clone(), at.op(op))
    d.reduce(rooted := tensor.clone(), at.size - 1, at.op(op))
    d.reduce_scatter(part := torch.empty_like(tensor), [tensor] * at.size, at.op(op))
    d.reduce_scatter_single(single := torch.empty_like(tensor), tensor.repeat(at.size), at.op(op))
    return [whole, rooted if at.rank == at.size - 1 else None, part, single]


def reduced_floats(at, step):
    for name in FLOATS:
        for op in ("SUM", "PRODUCT", "AVG"):
            for kind, tensor in (("mixed", mixed(name, at.rank)), ("extremes", extremes(name))):
                if op == "AVG" and kind == "extremes":
                    continue  # whether the sum or the parts are divided shows in what is too large
                step(f"{op}/{kind}/{name}", lambda: [each if each is None else with_one_nan(each)
                                                    for each in reduced(at, tensor, op)])


def reduced_integers(at, step):
    for name in INTEGERS:
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            step(f"{op}/extremes/{name}", lambda: reduced(at, extremes(name), op))
            step(f"{op}/bits/{name}", lambda: reduced(at, bits(name, 9, at.rank), op))
    for op in ("PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        step(f"{op}/bool", lambda: reduced(at, bits("bool", 9, at.rank), op))


def order_of_zeros(op, tensors):
    """MIN or MAX as it is here: NaN if there is one, and -0 is less than 0."""
    def pair(a, b):
        least = torch.where((a < b) | ((a == b) & torch.signbit(a)), a, b)
        most = torch.where((a > b) | ((a == b) & ~torch.signbit(a)), a, b)
        chosen = least if op == "MIN" else most
        return torch.where(torch.isnan(a) | torch.isnan(b), torch.full_like(a, float("nan")), chosen)
    return functools.reduce(pair, tensors)


def least_and_most(at, step):
    """In these both differ, and what ours must be is known."""
    for name in FLOATS:
        for op in ("MIN", "MAX"):
            right = order_of_zeros(op, [mixed(name, r) for r in range(at.size)])
            step(f"{op}/mixed/{name}", lambda: reduced(at, mixed(name, at.rank), op),
                 known=[right, right if at.rank == at.size - 1 else None, right, right])
            step(f"{op}/extremes/{name}", lambda: reduced(at, extremes(name), op))


def coalesced_values(at, step):
    for name in ("float32", "int64", "float16"):
        tensors = [bits("int64", 3, at.rank).to(torch.int64) % 40, torch.arange(5) + at.rank, torch.tensor([7])]
        tensors = [each.to(getattr(torch, name)) for each in tensors]
        for op in ("SUM", "MAX", "MIN"):
            step(f"all_reduce/{op}/{name}", lambda: at.dist.all_reduce_coalesced(
                xs := [each.clone() for each in tensors], at.op(op)) or xs)
        step(f"all_gather/{name}", lambda: at.dist.all_gather_coalesced(
            outs := [[torch.empty_like(each) for each in tensors] for _ in range(at.size)], tensors) or outs)


PROGRAMS = [moved_bits, reduced_floats, reduced_integers, least_and_most, coalesced_values]
