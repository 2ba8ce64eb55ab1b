"""docs/torch-names.md names every public name of torch.distributed, and tells the truth about them."""

import pathlib
import re
import types

import pytest

import tutti.distributed as dist

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "torch-names.md").read_text(encoding="utf-8")


def first_columns(text):
    for row in re.findall(r"^\| (`.*?`[^|]*)\|", text, re.MULTILINE):
        yield from re.findall(r"`(\w+)`", row)


HERE = list(first_columns(PAGE[:PAGE.index("## Not here")]))
NOT_HERE = list(first_columns(PAGE[PAGE.index("## Not here"):PAGE.index("## Beside")]))


def test_what_is_here_is_here():
    assert len(HERE) > 90 and len(set(HERE)) == len(HERE)
    assert [name for name in HERE if not hasattr(dist, name)] == []
    assert [name for name in NOT_HERE if hasattr(dist, name)] == []


def test_all_is_all():
    """The list that `import *` and type checkers read is written out: it must hold every public name."""
    public = {name for name, value in vars(dist).items()
              if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    assert sorted(public) == dist.__all__


@pytest.mark.torch
def test_nothing_of_torch_is_forgotten():
    import torch.distributed as torch
    public = {name for name in dir(torch) if not name.startswith("_")
              and not isinstance(getattr(torch, name), types.ModuleType)}
    assert public - set(HERE) - set(NOT_HERE) == set()
    invented = {name for name in HERE if not hasattr(torch, name)}
    assert invented == set()
