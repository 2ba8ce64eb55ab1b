"""Hugging Face accelerate as it is: it trains on the ranks what one process trains, and its collectives are right."""

import functools
import pathlib

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import tutti.torch
import tutti.torch.__main__ as program
from forked import run

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed (./dev deps clients)")

from accelerate.utils import (DistributedDataParallelKwargs, broadcast, broadcast_object_list, gather_object,  # noqa: E402
                              pad_across_processes, set_seed)

PROGRAM = pathlib.Path(__file__).with_name("accelerate_program.py")
ROWS = 24  # as many for each of 2 or 3 ranks
BATCH = 4
EPOCHS = 2
LEFT = 23  # rows to evaluate, which no number of ranks divides


def made_model():
    set_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


@functools.cache
def rows(count):
    drawn = torch.Generator().manual_seed(count)
    x = torch.randn(count, 6, generator=drawn)
    return TensorDataset(x, torch.stack([x.sum(1), x.prod(1)], 1))


def alone(size, accumulated):
    """The model that one process gets with the batches of all ranks."""
    model = made_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        for step, (x, y) in enumerate(DataLoader(rows(ROWS), BATCH * size), 1):
            loss = torch.nn.functional.mse_loss(model(x), y)
            (loss / accumulated).backward()
            if step % accumulated == 0 or step * BATCH * size == ROWS:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    return model


def check_training(accelerator, accumulated, folder):
    size = accelerator.num_processes
    model = made_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    training = DataLoader(rows(ROWS), BATCH, num_workers=2)  # processes that this one forks
    evaluation = DataLoader(rows(LEFT), BATCH)
    model, optimizer, training, evaluation = accelerator.prepare(model, optimizer, training, evaluation)
    assert isinstance(model, torch.nn.parallel.DistributedDataParallel)
    for _ in range(EPOCHS):
        for x, y in training:
            with accelerator.accumulate(model):
                accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    wanted = alone(size, accumulated)
    for ours, theirs in zip(model.parameters(), wanted.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        every = accelerator.gather(ours.detach().reshape(1, -1))
        assert all(torch.equal(every[0], other) for other in every)

    # The rows that fill the last batch are not counted twice.
    outputs, numbers = [], []
    with torch.no_grad():
        for x, y in evaluation:
            output, target = accelerator.gather_for_metrics((model(x), y))
            outputs.append(output)
            numbers.append(target)
    assert torch.equal(torch.cat(numbers), rows(LEFT).tensors[1])
    torch.testing.assert_close(torch.cat(outputs), wanted(rows(LEFT).tensors[0]), rtol=1e-4, atol=1e-5)

    accelerator.save_state(folder)
    saved = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.wait_for_everyone()
    accelerator.load_state(folder)
    assert all(map(torch.equal, model.parameters(), saved))


def check_collectives(accelerator):
    rank, size = accelerator.process_index, accelerator.num_processes
    mine = torch.full((2, 3), rank + 1.0)
    total = size * (size + 1) / 2
    assert (accelerator.reduce(mine.clone(), "sum") == total).all()
    assert (accelerator.reduce({"nested": [mine.clone()]}, "mean")["nested"][0] == total / size).all()
    assert accelerator.gather(mine)[:, 0].tolist() == [r + 1 for r in range(size) for _ in range(2)]
    uneven = pad_across_processes(torch.full((rank + 1,), 7), pad_index=-1)
    assert uneven.tolist() == [7] * (rank + 1) + [-1] * (size - rank - 1)
    assert gather_object([("from", rank)]) == [("from", r) for r in range(size)]
    assert accelerator.gather_for_metrics([f"text {rank}"], use_gather_object=True) == [f"text {r}"
                                                                                      for r in range(size)]
    assert broadcast(mine.clone(), from_process=size - 1).tolist() == [[size] * 3] * 2
    assert broadcast_object_list([rank, "x"], from_process=1) == [1, "x"]
    with accelerator.split_between_processes(list(range(size * 2))) as part:
        assert part == [2 * rank, 2 * rank + 1]
    if rank == size - 1:
        accelerator.set_trigger()
    assert accelerator.check_trigger()
    with accelerator.main_process_first():
        pass


def body(folder, accumulated):
    dist.init_process_group("tutti")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulated,
                                         kwargs_handlers=[DistributedDataParallelKwargs(bucket_cap_mb=1)])
    assert isinstance(dist.group.WORLD._get_backend(torch.device("cpu")), tutti.torch.ProcessGroupTutti)
    check_training(accelerator, accumulated, folder)
    check_collectives(accelerator)
    accelerator.end_training()


@pytest.mark.parametrize(("size", "accumulated"), [(2, 1), (2, 2), (3, 1)])
def test_a_training_loop(size, accumulated, tmp_path):
    run(body, size, str(tmp_path), accumulated, limit=120, OMP_NUM_THREADS="1")


def test_a_program_as_it_is():
    """It has never heard of tutti."""
    assert "tutti" not in PROGRAM.read_text()
    for text in run(program.main, 2, [str(PROGRAM)], limit=120, OMP_NUM_THREADS="1"):
        assert "ProcessGroupTutti: 12 of 12" in text
