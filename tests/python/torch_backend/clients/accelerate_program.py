"""A program for accelerate on CPUs; accelerate_test.py starts it with `python -m`."""

import accelerate
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

accelerator = accelerate.Accelerator(cpu=True)
model, loader = accelerator.prepare(torch.nn.Linear(1, 1), DataLoader(torch.arange(12.0).reshape(12, 1), 4))
optimizer = torch.optim.SGD(model.parameters(), 0.001)
seen = 0
for x in loader:
    optimizer.zero_grad()
    accelerator.backward((model(x) - 2 * x).square().mean())
    optimizer.step()
    seen += len(accelerator.gather_for_metrics(x))
backend = type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__
print(f"{backend}: {seen} of 12", flush=True)
accelerator.end_training()
