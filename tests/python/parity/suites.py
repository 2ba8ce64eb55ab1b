"""What runs in one world: the cells, or the programs; and programs that join one themselves."""

import importlib
import itertools
import pathlib
import re

# In this order: those that make wrong calls come last, since gloo's ranks may go on out of step afterwards.
MODULES = sorted(path.stem for path in (pathlib.Path(__file__).parent / "programs").glob("*.py")
                 if path.stem not in ("wide", "lives"))


def run_cells(steps):
    import attributes
    import cells
    import errors
    import group_cells
    every = itertools.chain(
        errors.questions(), cells.reductions(), cells.moves(), cells.forms(), cells.coalesced(), cells.objects(),
        group_cells.groups(), cells.works(), errors.calls(), errors.strangers(), errors.meshes(), attributes.attributes(),
        errors.lives())
    for name, cell in every:
        steps.cell(name, lambda: cell(steps.place))


def run_modules(steps, modules):
    for module in modules:
        for program in importlib.import_module(f"programs.{module}").PROGRAMS:
            steps.run(program)
    steps.place.dist.barrier()  # as long as rank 0 serves the store
    steps.place.dist.destroy_process_group()


def run_programs(steps):
    run_modules(steps, sorted(MODULES, key=lambda name: (name.startswith("wrong"), name)))


def run_wide(steps):
    run_modules(steps, ["wide"])


def run_life(steps, name):
    steps.run(getattr(importlib.import_module("programs.lives"), name))


def lives():
    """Names of programs that need new processes; torch need not be imported for them."""
    text = (pathlib.Path(__file__).parent / "programs" / "lives.py").read_text(encoding="utf-8")
    return re.search(r"^PROGRAMS = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)[1].replace(",", " ").split()


SUITES = {"cells": run_cells, "programs": run_programs, "wide": run_wide}
