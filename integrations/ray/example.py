"""Actors of Ray that fit a line together: each has its own points, and tutti averages their gradients.

    python integrations/ray/example.py        # Ray starts the actors
"""

import numpy as np
import ray
import tutti.ray
from ray.util import collective

ACTORS = 2


@ray.remote(num_cpus=0)
class Worker:
    """One rank."""

    def __init__(self, rank: int) -> None:
        tutti.ray.register()
        collective.init_collective_group(ACTORS, rank, "TUTTI", "gradients")
        self.x = np.random.default_rng(rank).uniform(-1, 1, 1000)
        self.y = 3 * self.x - 1

    def train(self, steps: int) -> list[float]:
        """The line that all ranks have found: slope and intercept."""
        line = np.zeros(2)
        for _ in range(steps):
            error = line[0] * self.x + line[1] - self.y
            gradient = np.array([np.mean(error * self.x), np.mean(error)])
            collective.allreduce(gradient, "gradients")  # in place: the sum of all ranks
            line -= gradient / ACTORS
        return line.tolist()


ray.init(num_cpus=ACTORS, include_dashboard=False)
lines = ray.get([worker.train.remote(100) for worker in [Worker.remote(rank) for rank in range(ACTORS)]])
print("slope and intercept on each actor:", lines)
assert lines[0] == lines[1], "the actors differ"
assert np.allclose(lines[0], [3, -1], atol=1e-3)
