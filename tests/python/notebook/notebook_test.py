"""examples/collectives.ipynb runs from top to bottom, and shows what its stored outputs show."""

import copy
import os
import pathlib
import sys
import textwrap

import pytest

import ranks

pytestmark = pytest.mark.full
FOLDER = pathlib.Path(__file__).resolve().parents[3] / "examples"
NOTEBOOK = FOLDER / "collectives.ipynb"
LIMIT = 60  # seconds for one cell; all of them run in half of that


@pytest.fixture(scope="module")
def stored():
    import nbformat  # not with this file, which every worker collects
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def executed(stored):
    from nbclient import NotebookClient
    notebook = copy.deepcopy(stored)
    # The notebook takes a port that the system hands out, so another test might get it between two worlds.
    handed_out, own = '("127.0.0.1", 0)', f'("127.0.0.1", {ranks.free_port()})'
    assert sum(handed_out in cell.source for cell in notebook.cells) == 1
    for cell in notebook.cells:
        cell.source = cell.source.replace(handed_out, own)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(notebook, timeout=LIMIT, kernel_name="python3",
                            resources={"metadata": {"path": str(FOLDER)}})
    return client.execute()


def shown(cell):
    """What a reader sees below a cell: texts and pictures."""
    text = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    data = [output.data for output in cell.outputs if output.output_type in ("execute_result", "display_data")]
    return text, [one.get("image/svg+xml", one.get("text/plain")) for one in data]


def test_it_is_valid(stored):
    import nbformat
    nbformat.validate(stored)


def test_every_cell_shows_what_is_stored(stored, executed):
    for before, after in zip(stored.cells, executed.cells, strict=True):
        if before.cell_type == "code":
            assert shown(after) == shown(before), before.source


def test_it_shows_a_picture_and_both_forms_of_each_operation(executed):
    outputs = [shown(cell) for cell in executed.cells if cell.cell_type == "code"]
    pictures = [one for _, data in outputs for one in data if one.startswith("<svg")]
    assert len(pictures) == 8
    forms = [text for text, _ in outputs if "row form" in text]
    assert len(forms) == 11 and all("column form" in text for text in forms)


@pytest.mark.usefixtures("open_mpi")
def test_a_cell_runs_its_function_on_ranks_of_mpi():
    """They are no children of the kernel: mpirun starts them."""
    import nbformat
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook
    cells = [new_code_cell(textwrap.dedent(text)) for text in (f"""
        import sys
        sys.path[:0] = {sys.path!r}
        import numpy as np
        import tutti.distributed as dist

        def add(factor):
            x = np.full(2, factor * (dist.get_rank() + 1.0))
            dist.all_reduce(x)
            print("rank", dist.get_rank(), dist.get_backend())
            return dist.get_rank(), x.tolist()
    """, """
        dist.run(add, 3, args=(2,), backend="mpi", timeout=50)
    """)]
    notebook = new_notebook(cells=cells)
    # Under pytest the kernel would leave the output of other processes where it goes.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    NotebookClient(notebook, timeout=LIMIT, kernel_name="python3").execute(env=environment)
    nbformat.validate(notebook)
    text, data = shown(notebook.cells[1])
    assert data == ["[(0, [12.0, 12.0]), (1, [12.0, 12.0]), (2, [12.0, 12.0])]"]
    for rank in range(3):
        assert f"rank {rank} mpi" in text
