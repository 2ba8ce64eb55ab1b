"""Tensor-parallel inference on CPUs: a small transformer decoder with random weights writes tokens, and its ranks add up
their parts of each layer with tutti.torch.all_reduce_, or with Gloo's all_reduce. Both take turns in one job.

    tuttirun --nproc-per-node 2 09_decoder.py
    tuttirun --nproc-per-node 2 09_decoder.py --hidden 2048 --batch 1

The ranks share every layer. Its first weights are split by rows of outputs, so each rank has the same input and some of
the heads (column-parallel); the last ones by inputs, so each rank has a part of the sum (row-parallel). One all_reduce
completes it: two in each layer, for each token.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F

import tutti.torch

Reduce = Callable[[torch.Tensor], object]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tokens per second of a tensor-parallel decoder, ours beside Gloo.")
    for name, default, meaning in [
        ("layers", 8, "transformer layers"), ("hidden", 1024, "width of the model"), ("heads", 16, "heads of attention"),
        ("vocabulary", 8192, "different tokens"), ("batch", 4, "texts at a time"), ("prompt", 16, "tokens of each prompt"),
        ("tokens", 32, "tokens to write in each turn"), ("turns", 5, "turns of each backend"),
        ("threads", 0, "threads of a rank; 0: its part of the CPUs")]:
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{meaning} [%(default)s]")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32", "float64"])
    return parser.parse_args(arguments)


class Weights:
    """The weights of one rank. Each is drawn whole from one seed, so any number of ranks has the same model."""

    def __init__(self, rank: int, size: int, dtype: torch.dtype) -> None:
        self._rank, self._size, self._dtype = rank, size, dtype
        self._random = torch.Generator().manual_seed(7)

    def whole(self, outputs: int, inputs: int) -> torch.Tensor:
        drawn = torch.randn(outputs, inputs, generator=self._random) / inputs**0.5
        return drawn.to(self._dtype)

    def column_parallel(self, outputs: int, inputs: int) -> torch.Tensor:
        return self.whole(outputs, inputs).chunk(self._size)[self._rank].clone()

    def row_parallel(self, outputs: int, inputs: int) -> torch.Tensor:
        return self.whole(outputs, inputs).chunk(self._size, dim=1)[self._rank].clone()


class Layer:
    """This rank's part of a layer, and the keys and values of the tokens so far."""

    def __init__(self, weights: Weights, options: argparse.Namespace, size: int) -> None:
        hidden = options.hidden
        self.heads = options.heads // size
        self.query, self.key, self.value = (weights.column_parallel(hidden, hidden) for _ in range(3))
        self.output = weights.row_parallel(hidden, hidden)
        self.gate, self.up = (weights.column_parallel(4 * hidden, hidden) for _ in range(2))
        self.down = weights.row_parallel(hidden, 4 * hidden)
        most = options.prompt + options.tokens
        self.keys, self.values = (
            torch.zeros(options.batch, self.heads, most, hidden // options.heads, dtype=self.query.dtype) for _ in range(2))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, begin: int, reduce: Reduce) -> torch.Tensor:
        y = F.rms_norm(x, x.shape[-1:])
        end = begin + x.shape[1]
        self.keys[:, :, begin:end] = self.split(F.linear(y, self.key))
        self.values[:, :, begin:end] = self.split(F.linear(y, self.value))
        seen = F.scaled_dot_product_attention(self.split(F.linear(y, self.query)), self.keys[:, :, :end],
                                              self.values[:, :, :end], is_causal=begin == 0)
        part = F.linear(seen.transpose(1, 2).flatten(2), self.output)
        reduce(part)
        x = x + part
        y = F.rms_norm(x, x.shape[-1:])
        part = F.linear(F.silu(F.linear(y, self.gate)) * F.linear(y, self.up), self.down)
        reduce(part)
        return x + part


class Decoder:
    """This rank's part of the model."""

    def __init__(self, options: argparse.Namespace, rank: int, size: int) -> None:
        weights = Weights(rank, size, getattr(torch, options.dtype))
        self._options, self._size = options, size
        self._embedding = weights.whole(options.vocabulary, options.hidden)
        self._positions = weights.whole(options.prompt + options.tokens, options.hidden)
        self._layers = [Layer(weights, options, size) for _ in range(options.layers)]
        self._to_logits = weights.column_parallel(options.vocabulary, options.hidden)

    def next_token(self, tokens: torch.Tensor, begin: int, reduce: Reduce, group: dist.ProcessGroup) -> torch.Tensor:
        """The token that follows the last of `tokens`, the first of which is token `begin` of its text."""
        x = F.embedding(tokens, self._embedding) + self._positions[begin:begin + tokens.shape[1]]
        for layer in self._layers:
            x = layer.forward(x, begin, reduce)
        part = F.linear(F.rms_norm(x[:, -1], x.shape[-1:]), self._to_logits)
        parts = [torch.empty_like(part) for _ in range(self._size)]
        dist.all_gather(parts, part, group=group)
        return torch.cat(parts, dim=1).argmax(dim=1, keepdim=True)

    def write(self, prompt: torch.Tensor, reduce: Reduce, group: dist.ProcessGroup) -> tuple[torch.Tensor, float]:
        """The tokens that follow the prompt, and the seconds that one step took once the prompt was read."""
        token = self.next_token(prompt, 0, reduce, group)
        written = [token]
        started = time.perf_counter()
        for position in range(prompt.shape[1], prompt.shape[1] + self._options.tokens - 1):
            token = self.next_token(token, position, reduce, group)
            written.append(token)
        steps = self._options.tokens - 1
        return torch.cat(written, dim=1), (time.perf_counter() - started) / steps


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    dist.init_process_group("tutti")
    rank, size = dist.get_rank(), dist.get_world_size()
    if options.heads % size or options.vocabulary % size or options.hidden % options.heads:
        raise SystemExit(f"the {options.heads} heads and the {options.vocabulary} tokens must divide among {size} ranks, "
                         f"and the width {options.hidden} among the heads")
    if options.tokens < 2 or min(options.layers, options.batch, options.prompt, options.turns) < 1:
        raise SystemExit("--tokens is at least 2; --layers, --batch, --prompt and --turns are at least 1")
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) // size))

    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    backends: dict[str, tuple[Reduce, dist.ProcessGroup]] = {
        "tutti": (lambda part: tutti.torch.all_reduce_(part, group=ours.group_name), ours),
        "gloo": (lambda part: dist.all_reduce(part, group=gloo), gloo)}

    model = Decoder(options, rank, size)
    prompt = torch.randint(options.vocabulary, (options.batch, options.prompt),
                           generator=torch.Generator().manual_seed(11))
    seconds: dict[str, list[float]] = {name: [] for name in backends}
    texts = {}
    with torch.inference_mode():
        for turn in range(options.turns + 1):
            for name in list(backends)[::1 if turn % 2 else -1]:
                reduce, group = backends[name]
                dist.barrier(group)
                texts[name], took = model.write(prompt, reduce, group)
                if turn > 0:  # the first one warms up
                    seconds[name].append(took)

    if rank == 0:
        print(f"ranks: {size}; {options.layers} layers of width {options.hidden}, {options.dtype}: {2 * options.layers} "
              f"all_reduces of {options.batch * options.hidden} elements in a step")
        for name, times in seconds.items():
            step = statistics.median(times)
            print(f"{name:6} {options.batch / step:8.1f} tokens/s   {1e3 * step:8.2f} ms a step   "
                  f"the first text: {texts[name][0, :8].tolist()}")
        ratio = statistics.median(b / a for a, b in zip(seconds["tutti"], seconds["gloo"], strict=True))
        print(f"tokens/s, tutti / gloo: {ratio:.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
