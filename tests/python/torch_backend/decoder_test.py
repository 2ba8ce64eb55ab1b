"""The tensor-parallel decoder writes the same tokens on any number of ranks."""

import importlib.util
import pathlib
import re

import pytest
import torch
import torch.distributed as dist

import tutti.torch
from forked import begin, on_ranks, run, run_each

DECODER = pathlib.Path(__file__).parents[3] / "examples/torch/09_decoder.py"
SMALL = ["--layers=4", "--hidden=64", "--heads=4", "--vocabulary=128", "--batch=2", "--prompt=5", "--tokens=24",
         "--turns=1", "--threads=1"]
LINE = re.compile(r"^(\w+) +[\d.]+ tokens/s +[\d.]+ ms a step +the first text: (.*)$", re.MULTILINE)


def loaded():
    spec = importlib.util.spec_from_file_location("decoder", DECODER)
    decoder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(decoder)
    return decoder


def decode(*options):
    loaded().main([*SMALL, *options])


def test_the_decoder_writes_the_same_on_1_2_and_4_ranks():
    written = set()
    for size in (1, 2, 4):
        said, *others = run(decode, size, "--dtype=float64")  # so exact that no other order of additions shows
        assert re.search(r"^tokens/s, tutti / gloo: [\d.]+$", said, re.MULTILINE), said
        texts = dict(LINE.findall(said))
        assert list(texts) == ["tutti", "gloo"], said
        assert others == [""] * (size - 1)
        written |= set(texts.values())
    assert len(written) == 1 and len(set(written.pop().split())) > 2, written


@on_ranks(2)
def test_the_decoder_keeps_what_it_has_seen():
    """A token follows from the kept keys and values as it does from the whole text."""
    decoder = loaded()
    model = decoder.Decoder(decoder.parsed([*SMALL, "--dtype=float64"]), *begin())
    prompt = torch.arange(10).reshape(2, 5)
    with torch.inference_mode():
        written, _ = model.write(prompt, tutti.torch.all_reduce_, dist.group.WORLD)
        before = torch.cat([prompt, written[:, :-1]], dim=1)
        assert torch.equal(model.next_token(before, 0, tutti.torch.all_reduce_, dist.group.WORLD), written[:, -1:])


@pytest.mark.parametrize(("options", "text"), [
    (["--heads=3", "--hidden=66"], "must divide among 2 ranks"), (["--tokens=1"], "--tokens is at least 2")])
def test_the_decoder_refuses_what_cannot_be(options, text):
    for one in run_each(decode, 2, *options):
        assert one.status == 1 and text in one.text
