"""Three layers that autograd sees, written by hand on all_gather and all_reduce. tutti.torch.nn has them and more; here
is what they do. Each is compared with one process that has the rows of all ranks.

    torchrun --nproc-per-node 4 07_autograd_layers.py
"""

import torch
import torch.distributed as dist

import tutti.torch  # registers the backend
import tutti.torch.nn as tnn

ROWS = 3  # on each rank


def gathered(x):
    """The rows of all ranks, without a graph."""
    rows = x.new_empty(dist.get_world_size() * len(x), *x.shape[1:])
    dist.all_gather_into_tensor(rows, x.contiguous())
    return rows


def own_rows(x):
    """This rank's part of such rows."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


class GatherForSameLoss(torch.autograd.Function):
    """For a loss that all ranks compute alike: each knows the whole gradient and takes its own rows of it."""

    @staticmethod
    def forward(ctx, x):
        return gathered(x)

    @staticmethod
    def backward(ctx, gradient):
        return own_rows(gradient).clone()


class GatherForOwnLoss(GatherForSameLoss):
    """For losses that differ: a row counts in the losses of all ranks, whose gradients are added up."""

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return GatherForSameLoss.backward(ctx, total)


class MeanOverRanks(torch.autograd.Function):
    """An average that all ranks use. The gradients of all come back to all, divided alike."""

    @staticmethod
    def forward(ctx, x):
        mean = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        return mean

    @staticmethod
    def backward(ctx, gradient):
        return MeanOverRanks.apply(gradient)  # so that it can be differentiated again


def standardised(x, mean_of):
    """Columns with mean 0 and variance 1 over the rows of all ranks, as synchronised batch normalisation has them."""
    mean = mean_of(x.mean(0))
    return (x - mean) / mean_of((x - mean).square().mean(0)).add(1e-5).sqrt()


def similarity(rows, others):
    return (rows @ others.T).sigmoid().square().sum()


dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(6)
everything = torch.randn(size * ROWS, 4, dtype=torch.float64, requires_grad=True)
x = own_rows(everything).detach().clone().requires_grad_()


def check(ours, whole, name):
    """The gradient of this rank's rows is that of one process."""
    found, = torch.autograd.grad(ours, x)
    wanted, = torch.autograd.grad(whole, everything)
    torch.testing.assert_close(found, own_rows(wanted), msg=lambda text: f"{name}: {text}")


rows = GatherForSameLoss.apply(x)
check(similarity(rows, rows), similarity(everything, everything), "one loss")

check(similarity(x, GatherForOwnLoss.apply(x)), similarity(everything, everything), "a loss on each rank")
check(similarity(x, tnn.all_gather_single(x)), similarity(everything, everything), "the same by tutti.torch.nn")

output = standardised(x, MeanOverRanks.apply)
whole = standardised(everything, lambda mean: mean)
torch.testing.assert_close(output, own_rows(whole))
check(output.pow(3).sum(), whole.pow(3).sum(), "normalised")

if rank == 0:
    print(f"{size} ranks: two ways to gather and a mean, with gradients of one process")
dist.destroy_process_group()
