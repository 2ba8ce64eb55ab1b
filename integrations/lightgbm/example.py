"""Trains one model of LightGBM on the rows of all ranks.

    tuttirun --nproc-per-node 2 example.py
"""

import lightgbm
import numpy as np
import tutti.distributed as dist
import tutti.lightgbm

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()

# Rows of this rank alone; a program would read its part of the data here.
random = np.random.default_rng(rank)
features = random.normal(size=(5_000, 10))
labels = features[:, 0] * features[:, 1] + features[:, 2] > 0

with tutti.lightgbm.network() as distributed:
    params = {"objective": "binary", "num_leaves": 31, "num_threads": 1, "verbosity": -1, **distributed}
    model = lightgbm.train(params, lightgbm.Dataset(features, labels), num_boost_round=50)

right = np.mean((model.predict(features) > 0.5) == labels)
print(f"rank {rank} of {size}: {model.num_trees()} trees, {right:.1%} of its rows right")

everybodys = [None] * size
dist.all_gather_object(everybodys, model.predict(np.full((1, 10), 0.1)).tobytes())
assert everybodys == everybodys[:1] * size, "the models differ"
assert right > 0.9
dist.destroy_process_group()
