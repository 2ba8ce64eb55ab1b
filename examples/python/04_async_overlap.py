"""An operation starts when it is called. With async_op=True it returns a Work at once; whoever does not
wait yet can compute meanwhile. The arrays stay untouched until the Work is done.

    tuttirun --nproc-per-node 2 04_async_overlap.py
"""

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
size = dist.get_world_size()

# Layers of a model, the last one ready first: its sum travels while the next is computed.
gradients: dict[int, np.ndarray] = {}
works = []
for layer in (3, 2, 1, 0):
    gradients[layer] = np.floor(100 * np.sin(np.arange(100_000) + layer)).astype(np.float32)
    works.append(dist.all_reduce(gradients[layer], async_op=True))
early = works[-1].is_completed()  # asks, and never waits
for work in works:
    work.wait()

if dist.get_rank() == 0:
    print(f"the last sum was{'' if early else ' not'} done when it was asked about; {len(works)} sums are now")
assert gradients[3][7] == size * np.floor(100 * np.sin(7.0 + 3.0))
dist.destroy_process_group()
