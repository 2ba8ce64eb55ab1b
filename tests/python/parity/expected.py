"""The values that cells must give, computed from the inputs of all ranks without any communication."""

import functools
import operator

import numpy
from arrays import torch
from cells import MOVED, OPS, Place, splits_of, strided

BITS = {"BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor}


def is_integer(dtype):
    return dtype == "bool" or "int" in dtype


def has_meaning(dtype, op):
    if dtype.startswith("complex"):
        return op in ("SUM", "PRODUCT", "AVG")
    return not (op in BITS and not is_integer(dtype) or op == "AVG" and dtype == "bool")


def total(size, dtype, op, shape):
    """The reduction of all ranks' inputs: computed wide, rounded once."""
    wide = torch.int64 if is_integer(dtype) else torch.complex128 if dtype.startswith("complex") else torch.float64
    inputs = [Place(None, rank, size).inputs(dtype, op, shape).to(wide) for rank in range(size)]
    if op in BITS:
        result = functools.reduce(BITS[op], inputs)
    elif op == "PRODUCT":
        result = functools.reduce(operator.mul, inputs)
    elif op in ("MIN", "MAX"):
        result = functools.reduce(torch.minimum if op == "MIN" else torch.maximum, inputs)
    else:
        result = functools.reduce(operator.add, inputs)
        if op == "AVG" and is_integer(dtype):
            result = torch.div(result, size, rounding_mode="trunc")
        elif op == "AVG" and wide is torch.complex128:
            result = torch.complex(result.real / size, result.imag / size)
        elif op == "AVG":
            result = result / size
    return result.to(getattr(torch, dtype))


def reduction(family, dtype, op, rank, size):
    if family == "reduce_scatter":
        return total(size, dtype, op, (3,))
    if family == "reduce_scatter_single":
        return total(size, dtype, op, (2 * size, 2))[2 * rank:2 * rank + 2]
    if family == "reduce" and rank != (len(dtype) + len(op)) % size:
        return None
    return total(size, dtype, op, (5,))


def received_rows(dtype, rank, size, splits):
    """all_to_all_single: what each rank has sent to this one, one below the other."""
    pieces = []
    for source in range(size):
        sent = splits(source)
        first = sum(sent[:rank])
        rows = Place(None, source, size).values(dtype, (sum(sent), 2))
        pieces.append(rows[first:first + sent[rank]])
    return torch.cat(pieces)


def moves(dtype, rank, size):
    """By family: what a rank then has."""
    at = Place(None, rank, size)
    every = range(size)
    last = size > 1 and rank == size - 1
    return {
        "broadcast": at.values(dtype, of=len(dtype) % size),
        "all_gather": [at.values(dtype, of=r) for r in every],
        "all_gather_single_cat": torch.cat([at.values(dtype, (2, 3), of=r) for r in every]),
        "all_gather_single_stack": torch.stack([at.values(dtype, (2, 3), of=r) for r in every]),
        "gather": [at.values(dtype, of=r) for r in every] if rank == (len(dtype) + 1) % size else None,
        "scatter": at.values(dtype, of=(len(dtype) + 2) % size, seed=rank),
        "all_to_all_single": received_rows(dtype, rank, size, lambda source: [2] * size),
        "all_to_all_single_splits": received_rows(dtype, rank, size, lambda source: splits_of(Place(None, source, size))),
        "all_to_all_even": [at.values(dtype, (2,), of=r, seed=rank) for r in every],
        "all_to_all": [at.values(dtype, (rank + r + 1,), of=r, seed=rank) for r in every],
        "send_recv": (at.values(dtype, of=0 if last else rank), 0 if last else None),
        "ring": (at.values(dtype), at.values(dtype, of=(rank - 1) % size) if size > 1 else at.empty(dtype)),
        "batch": [at.values(dtype, of=r, seed=rank) if r != rank else at.empty(dtype) for r in every],
    }


REDUCTIONS = ["all_reduce", "reduce", "reduce_scatter", "reduce_scatter_single"]


def views(rank, size):
    """Cells of tensors that are views."""
    every = [Place(None, r, size) for r in range(size)]
    yield "form/strided_all_reduce", sum(map(strided, every))
    yield "form/strided_broadcast", strided(every[-1])
    yield "form/conjugate", sum(at.values("complex64").conj() for at in every).resolve_conj()
    yield "form/negative", torch.full((3,), -1.0)


def equal(expected, ours):
    """Of two frozen values. Strides and flags are the program's, and complex zeros have no sign that counts."""
    if isinstance(expected, list):
        return isinstance(ours, list) and len(expected) == len(ours) and all(map(equal, expected, ours))
    if not isinstance(expected, tuple) or not isinstance(ours, tuple):
        return expected == ours
    if not expected[1].startswith("torch.complex"):
        return expected[:4] == ours[:4]
    dtype = expected[1].removeprefix("torch.")
    return expected[:3] == ours[:3] and numpy.array_equal(numpy.frombuffer(expected[3], dtype),
                                                          numpy.frombuffer(ours[3], dtype))


def all_expected(rank, size):
    """(cell, value, warnings) of all cells that this file knows."""
    for dtype in MOVED:
        for family in REDUCTIONS:
            for op in OPS:
                if has_meaning(dtype, op):
                    yield f"{family}/{dtype}/{op}", reduction(family, dtype, op, rank, size), []
        for family, value in moves(dtype, rank, size).items():
            yield f"{family}/{dtype}", value, []
    for cell, value in views(rank, size):
        yield cell, value, []
    yield "call/all_gather/uneven", (None, [torch.ones(1 + r) for r in range(size)]), []
    yield "call/split_group/works", None, []
    yield "call/batch/empty", [], []
    yield "wrong/complex/PRODUCT", None, []
    said = f"UserWarning: Running send on global rank {rank} which does not belong to the given group."
    yield "stranger/send", None, [said] if rank > 0 else []
