"""README's way to register in all processes, without a change of the actors."""

import subprocess
import sys

PROGRAM = """
import ray
import tutti.ray
from ray.util import collective

@ray.remote(num_cpus=0)
class Worker:
    def sum(self, rank):
        import numpy
        collective.init_collective_group(2, rank, "TUTTI", "hook")
        x = numpy.ones(1)
        collective.allreduce(x, "hook")
        return float(x[0])

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
         runtime_env={"worker_process_setup_hook": tutti.ray.register})
assert ray.get([Worker.remote().sum.remote(rank) for rank in range(2)], timeout=100) == [2.0, 2.0]
"""


def test_setup_hook():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], text=True, capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
