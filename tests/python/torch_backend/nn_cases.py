"""Each collective with a gradient, as functions of one tensor, for nn_test.py and gpu_program.py."""

import torch

import tutti.torch.nn as nn


def splits_of(rank, size):
    """How many rows the rank receives from each and sends to each: with 0 among them."""
    return [(2 * other + rank) % 3 for other in range(size)], [(2 * rank + other) % 3 for other in range(size)]


def exchanged(x, rank, size):
    receives, sends = splits_of(rank, size)
    return nn.all_to_all_single(x[:sum(sends)], receives, sends)


def exchanged_list(x, rank, size):
    """Tensors of a shape for each pair."""
    rows, columns, row = 1 + rank % 2, [1 + other % 3 for other in range(size)], x.shape[1:]
    parts = [x[:rows * count].reshape(rows, count, *row) * (other + 1) for other, count in enumerate(columns)]
    return nn.all_to_all(parts, output_shapes=[(1 + other % 2, columns[rank], *row) for other in range(size)])


def cases(rank, size):
    """Functions of the input of this rank, and the shape of that input, which may have more dimensions behind these."""
    last = size - 1
    return {
        "all_reduce": (nn.all_reduce, (2,)),
        "all_reduce avg": (lambda x: nn.all_reduce(x, "avg"), (2,)),
        "reduce": (lambda x: nn.reduce(x, last), (2,)),
        "reduce avg": (lambda x: nn.reduce(x, 0, "avg"), (2,)),
        "broadcast": (lambda x: nn.broadcast(x, last), (2,)),
        "gather": (lambda x: nn.gather(x, last), (2,)),
        "scatter": (lambda x: nn.scatter(list(x), last), (size, 2)),
        "all_gather": (nn.all_gather, ()),
        "all_gather_single": (nn.all_gather_single, (1, 2)),
        "reduce_scatter": (lambda x: nn.reduce_scatter(list(x)), (size,)),
        "reduce_scatter_single": (lambda x: nn.reduce_scatter_single(x, "avg"), (size * 2,)),
        "all_to_all": (lambda x: exchanged_list(x, rank, size), (6,)),
        "all_to_all_single": (nn.all_to_all_single, (size, 1)),
        "splits": (lambda x: exchanged(x, rank, size), (2 * size,)),
    }


def flat(output):
    return torch.cat([one.reshape(-1) for one in output]) if isinstance(output, tuple) else output.reshape(-1)
