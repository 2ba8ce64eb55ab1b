"""Sample sort: numbers that lie on all ranks are put in order over all ranks. Samples of all give the limits between
the ranks; then each number goes to its rank. A rank knows what it sends, not what it gets: all_to_all_v learns that.

    tuttirun --nproc-per-node 4 19_sample_sort.py
"""

import numpy as np

import tutti.distributed as dist

SAMPLES = 16  # of each rank


def numbers_of(rank: int) -> np.ndarray:
    """The numbers of a rank, sorted; some ranks have more than others."""
    return np.sort(np.random.default_rng(rank).integers(0, 2**32, 1000 + 500 * (rank % 3)))


dist.init_process_group(or_alone=True)
rank, size = dist.get_rank(), dist.get_world_size()
mine = numbers_of(rank)

samples = np.empty(SAMPLES * size, mine.dtype)
dist.all_gather_into_tensor(samples, mine[np.arange(SAMPLES) * mine.size // SAMPLES])
samples.sort()

# Numbers below the next rank's first sample stay here.
ends = [0, *np.searchsorted(mine, samples[SAMPLES::SAMPLES]), mine.size]
arrived, counts = dist.all_to_all_v(mine, np.diff(ends).tolist())
arrived.sort()

everything, sizes = dist.gather_v(arrived, 0)
if rank == 0:
    assert (everything == np.sort(np.concatenate([numbers_of(each) for each in range(size)]))).all()
    print(f"numbers of each rank: {sizes}; rank 0 got {counts}")
dist.destroy_process_group()
