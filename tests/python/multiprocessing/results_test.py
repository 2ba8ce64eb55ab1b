"""What dist.run's functions return comes whole, though their processes have ended."""

import sys
from multiprocessing.reduction import ForkingPickler

import pytest

import stacks
import tutti.distributed as dist

LIMIT = 90.0  # importing torch takes its time on a busy machine


def reach(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Lent:
    """multiprocessing sends it as what only lives as long as the sender; pickle by its value."""


ForkingPickler.register(Lent, lambda _: (reach, ("/nowhere/at/all",)))


class Unreadable:
    def __reduce__(self):
        return reach, ("/nowhere/at/all",)


def lend():
    return Lent()


def unreadable():
    return Unreadable()


def test_results_outlive_their_process():
    results = dist.run(lend, 2, start_method="fork", init=False)
    assert [type(each) for each in results] == [Lent] * 2


def test_a_result_that_cannot_be_read_is_told():
    with pytest.raises(RuntimeError, match="result of rank 0 cannot be read: .*nowhere"):
        dist.run(unreadable, 1, start_method="fork", init=False)


@pytest.mark.torch
def test_torch_tensors_as_results():
    source = """
import torch
import tutti.distributed as dist
def work():
    return {"weights": torch.full((3, 100_000), float(dist.get_rank())), "rank": dist.get_rank()}
for rank, result in enumerate(dist.run(work, 2, start_method="fork")):
    assert result["rank"] == rank and result["weights"].shape == (3, 100_000) and (result["weights"] == rank).all()
print("tensors came")
"""
    assert stacks.output([sys.executable, "-c", source], LIMIT) == "tensors came\n"
