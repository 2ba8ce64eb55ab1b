"""The programs in examples/torch run, and say that all is well with their exit status. TUTTI_ROTATION chooses which
third of them, and on how many ranks; all of it runs with TUTTI_ROTATION=all."""

import pathlib
import runpy

import pytest
import torch._dynamo  # noqa: F401  here, so that it is imported once and not in every process

import tutti.torch.nn  # noqa: F401
from forked import run
from ranks import one_by_rotation

FOLDER = pathlib.Path(__file__).parents[3] / "examples" / "torch"
PROGRAMS = sorted(set(FOLDER.glob("*.py")) - {FOLDER / "09_decoder.py"})  # decoder_test.py runs that


def test_there_are_programs():
    assert len(PROGRAMS) >= 7


@pytest.mark.parametrize("size", one_by_rotation([2, 3, 4], slower=3))
@pytest.mark.parametrize("program", one_by_rotation(PROGRAMS, 3), ids=lambda program: program.stem)
def test_program(program, size):
    said = run(runpy.run_path, size, str(program), limit=60)
    assert said[0].startswith(f"{size} ranks") and not any(said[1:]), said  # rank 0 alone prints
