"""Data parallelism in its smallest form: fits y = w x + b to points of y = 3 x + 2 + noise. Every rank has points
of its own and the whole model; in each step the gradients are averaged over all ranks, so all models make the
same step and stay equal to the last bit.

    tuttirun --nproc-per-node 4 14_linear_regression.py
"""

import numpy as np

import tutti.distributed as dist

POINTS = 500  # on each rank
STEPS = 300
RATE = 0.2

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()

random = np.random.default_rng(rank)
x = random.uniform(-1, 1, POINTS)
y = 3 * x + 2 + random.normal(0, 0.1, POINTS)

model = np.array([-1.0, 1.0]) if rank == 0 else np.zeros(2)  # w and b
dist.broadcast(model, src=0)  # all start at the same place

mean = np.zeros(3)
for _ in range(STEPS):
    error = model[0] * x + model[1] - y
    mean = np.array([(2 * error * x).mean(), (2 * error).mean(), (error * error).mean()])  # gradient, and loss
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    model -= RATE * mean[:2]

# Equal to the last bit: smallest and largest are the same.
least, most = model.copy(), model.copy()
dist.all_reduce(least, op=dist.ReduceOp.MIN)
dist.all_reduce(most, op=dist.ReduceOp.MAX)
assert (least == most).all()
assert abs(model[0] - 3) < 0.05 and abs(model[1] - 2) < 0.05, model
if rank == 0:
    print(f"{size} ranks x {POINTS} points: y = {model[0]:.3f} x + {model[1]:.3f}, loss {mean[2]:.4f}")
dist.destroy_process_group()
