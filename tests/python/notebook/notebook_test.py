"""examples/collectives.ipynb runs from top to bottom, and shows what its stored outputs show."""

import copy
import pathlib

import pytest

import ranks

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
