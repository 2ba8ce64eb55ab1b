"""torchmetrics as it is: what a metric computes over the ranks is what one process computes of all their data."""

import warnings

import pytest
import torch
import torch.distributed as dist

import tutti.torch
from forked import run

torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed (./dev deps clients)")

from torchmetrics import classification, regression  # noqa: E402

CLASSES = 4
STEPS = 3


def data_of(rank, step):
    """Scores, classes and weights; no two ranks have as many rows."""
    drawn = torch.Generator().manual_seed(100 * rank + step)
    count = 5 + 3 * rank + step
    return (torch.rand(count, CLASSES, generator=drawn).softmax(1), torch.randint(CLASSES, (count,), generator=drawn),
            torch.rand(count, generator=drawn))


def metrics():
    """Metrics by kind: sums, means, extremes and lists of what was seen (cat), which grow unevenly."""
    return {
        "accuracy": classification.MulticlassAccuracy(CLASSES),
        "confusion": classification.MulticlassConfusionMatrix(CLASSES),
        "area": classification.MulticlassAUROC(CLASSES),  # a list, since there are no thresholds
        "binned": classification.MulticlassAUROC(CLASSES, thresholds=20),
        "curve": classification.BinaryPrecisionRecallCurve(),
        "mean": torchmetrics.MeanMetric(),
        "largest": torchmetrics.MaxMetric(),
        "smallest": torchmetrics.MinMetric(),
        "all": torchmetrics.CatMetric(),
        "order": regression.SpearmanCorrCoef(),
        "fit": regression.PearsonCorrCoef(),
        "variance": regression.R2Score(),
    }


def update(found, scores, classes, weights):
    for name in ("accuracy", "confusion", "area", "binned"):
        found[name].update(scores, classes)
    found["curve"].update(scores[:, 0], (classes == 0).int())
    found["mean"].update(scores[:, 1], weights)
    for name in ("largest", "smallest", "all"):
        found[name].update(weights)
    for name in ("order", "fit", "variance"):
        found[name].update(scores[:, 2], weights)


def check_same(ours, wanted, name):
    for one, other in zip(*((both,) if isinstance(both, torch.Tensor) else both for both in (ours, wanted))):
        # An order of rows differs between one process and several.
        a, b = (one.sort().values, other.sort().values) if name == "all" else (one, other)
        torch.testing.assert_close(a, b, msg=lambda text: f"{name}: {text}")  # noqa: B023


def alone(members, steps):
    """What one process computes of the data of all members."""
    assert not dist.is_initialized()
    found = metrics()
    for step in range(steps):
        for rank in members:
            update(found, *data_of(rank, step))
    return {name: metric.compute() for name, metric in found.items()}


def body(size):
    warnings.simplefilter("ignore")
    wanted = [alone(range(size), steps) for steps in range(1, STEPS + 1)]
    of_pair = alone([0, 1], 1)
    dist.init_process_group("tutti")
    rank = dist.get_rank()
    assert isinstance(dist.group.WORLD._get_backend(torch.device("cpu")), tutti.torch.ProcessGroupTutti)
    found = metrics()
    for step in range(STEPS):
        update(found, *data_of(rank, step))
        for name, metric in found.items():  # and on, as if nothing had been asked
            check_same(metric.compute(), wanted[step][name], name)

    # A metric of some of the ranks, one that all ranks compute at each step, and several in one.
    pair = dist.new_group([0, 1])
    if rank < 2:
        part = classification.MulticlassAUROC(CLASSES, process_group=pair)
        part.update(*data_of(rank, 0)[:2])
        check_same(part.compute(), of_pair["area"], "pair")
    each = classification.MulticlassAccuracy(CLASSES, dist_sync_on_step=True)
    check_same(each(*data_of(rank, 0)[:2]), wanted[0]["accuracy"], "each step")
    both = torchmetrics.MetricCollection([classification.MulticlassAccuracy(CLASSES),
                                          classification.MulticlassConfusionMatrix(CLASSES)])
    both.update(*data_of(rank, 0)[:2])
    check_same(both.compute()["MulticlassConfusionMatrix"], wanted[0]["confusion"], "collection")

    # The own tensor keeps its graph.
    own = torch.full((), rank + 1.0, requires_grad=True)
    torch.stack(torchmetrics.utilities.distributed.gather_all_tensors(own)).sum().backward()
    assert own.grad == 1
    dist.destroy_process_group()


@pytest.mark.parametrize("size", [2, 3])
def test_metrics_over_ranks(size):
    run(body, size, size, limit=120)
