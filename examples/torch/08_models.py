"""A small residual network and a small transformer, trained with DistributedDataParallel. All begin with weights that
follow a rule, so cpp/models.cpp, which trains the same in C++, comes to the same losses. Each step prints its loss; at
the end all replicas must be equal to the last bit.

    torchrun --nproc-per-node 2 08_models.py
"""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch  # registers the backend

STEPS = 10
BATCH = 4  # on each rank
CLASSES = 5
WORDS, LENGTH, WIDTH, HEADS = 11, 7, 16, 2


def waves(shape, seed):
    """Numbers between -1 and 1 that a seed decides."""
    return (torch.arange(math.prod(shape), dtype=torch.float64) * 1.7 + seed).sin().view(shape)


def begin(net):
    """The rule of the weights. Vectors are those of norms, and biases."""
    net.double()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            seed = 0.0
            for letter in name.encode():
                seed = seed * 1.1 + letter
            if weight.dim() > 1:
                weight.copy_(waves(weight.shape, seed) * math.sqrt(3 * weight.shape[0] / weight.numel()))
            else:
                weight.fill_(1 if name.endswith("weight") else 0)
    return net


def conv(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = conv(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.around = conv(inputs, outputs, 1, stride)

    def forward(self, x):
        inner = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        return (inner + self.around(x)).relu()


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = conv(3, 8, 3, 1), nn.BatchNorm2d(8)
        self.block1, self.block2 = Block(8, 8, 1), Block(8, 16, 2)
        self.last = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.last(self.block2(self.block1(self.norm(self.first(x)).relu())).mean((2, 3)))


class Layer(nn.Module):
    """Attention to what came before, and two linear layers, each with a way around it."""

    def __init__(self):
        super().__init__()
        self.norm1, self.mix, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        queries, keys, values = (part.view(len(x), LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
                                 for part in self.mix(self.norm1(x)).chunk(3, -1))
        scores = queries @ keys.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, -math.inf).softmax(-1) @ values
        y = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return y + self.down(nn.functional.gelu(self.up(self.norm2(y))))


class Transformer(nn.Module):
    """The scores of the next word at each place."""

    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer1, self.layer2 = Layer(), Layer()
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.word(words) + self.place(torch.arange(LENGTH))
        return self.last(self.norm(self.layer2(self.layer1(x)))).flatten(0, 1)


def pictures(number):
    rows = torch.arange(BATCH) + number * BATCH
    brightness = rows.remainder(CLASSES).view(-1, 1, 1, 1)
    return waves((BATCH, 3, 10, 10), float(number)) + brightness, rows.remainder(CLASSES)


def sentences(number):
    begins = (torch.arange(BATCH) + number * BATCH).view(-1, 1)
    words = (begins + torch.arange(LENGTH + 1) * (begins % 3 + 1)).remainder(WORDS)
    return words[:, :-1], words[:, 1:].flatten()


def train(name, net, batch_of, rate):
    model = DistributedDataParallel(begin(net), bucket_cap_mb=0.016)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for step in range(STEPS):
        inputs, classes = batch_of(step * size + rank)
        loss = nn.functional.cross_entropy(model(inputs), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"{name} {step} {mean.item():.12f}")
    for parameter in net.parameters():  # the smallest and the largest of all ranks are the same
        least, most = parameter.detach().clone(), parameter.detach().clone()
        dist.all_reduce(least, op=dist.ReduceOp.MIN)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        assert torch.equal(least, most), f"{name}: replicas differ"


dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
if rank == 0:
    print(f"{size} ranks, {STEPS} steps")
train("residual", ResidualNet(), pictures, 0.05)
train("transformer", Transformer(), sentences, 0.02)
dist.destroy_process_group()
