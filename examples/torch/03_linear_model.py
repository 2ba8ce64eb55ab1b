"""Fits a linear model to points that are spread over the ranks. The gradients of all parameters travel as one
tensor. All ranks have the same number of points, so their average is the gradient of one process with all points.

    torchrun --nproc-per-node 4 03_linear_model.py
"""

import torch
import torch.distributed as dist

import tutti.torch  # registers the backend

POINTS = 60  # on each rank
STEPS = 40
WEIGHTS = torch.tensor([[2.0, -1.0, 0.5]])


def points_of(which):
    """Points of a plane, with some noise."""
    draw = torch.Generator().manual_seed(which)
    x = torch.rand(POINTS, 3, generator=draw) * 2 - 1
    return x, x @ WEIGHTS.T + 3 + 0.01 * torch.randn(POINTS, 1, generator=draw)


def fit(x, y, average):
    """Plain gradient descent; `average` does what the ranks do together."""
    model = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    parameters = list(model.parameters())
    for _ in range(STEPS):
        loss = (model(x) - y).square().mean()
        gradients = torch.autograd.grad(loss, parameters)
        flat = average(torch.cat([gradient.flatten() for gradient in gradients]))
        torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(parameters).detach() - 0.5 * flat,
                                            parameters)
    return model, loss.item()


def average_over_ranks(flat):
    """In place."""
    dist.all_reduce(flat, op=dist.ReduceOp.AVG)
    return flat


dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
model, loss = fit(*points_of(rank), average_over_ranks)

shares = [points_of(which) for which in range(size)]
alone, _ = fit(torch.cat([x for x, _ in shares]), torch.cat([y for _, y in shares]), lambda flat: flat)
torch.testing.assert_close(list(model.parameters()), list(alone.parameters()), rtol=1e-4, atol=1e-5)
assert (model.weight - WEIGHTS).abs().max() < 0.02 and abs(model.bias.item() - 3) < 0.02
if rank == 0:
    weights = ", ".join(f"{weight:.3f}" for weight in model.weight.flatten().tolist())
    print(f"{size} ranks x {POINTS} points: weights {weights}, bias {model.bias.item():.3f}, loss {loss:.6f}")
dist.destroy_process_group()
