"""Found by pytest: with it the tests of every folder can `import ranks`. It also says which tests `./dev test` leaves to
`./dev test full`, chooses the order of files, and prints what tests record as the property `summary`."""

import pathlib
import shutil
import textwrap

import pytest

import surroundings  # noqa: F401
import ranks

# pytest-xdist gives whole files to its workers, in this order: one that is begun late and takes long would keep
# a single worker busy at the end.
LONGEST_FIRST = ["parity_test.py", "notebook_test.py", "examples_test.py", "operations_test.py",
                 "dist_init_test.py", "run_test.py", "plugin_test.py", "spawn_test.py", "gpu_arrays_test.py",
                 "dist_operations_test.py", "leaks_test.py", "exit_test.py", "types_test.py"]


def pytest_configure(config):
    config.addinivalue_line("markers", "full: left to `./dev test full`")
    config.addinivalue_line("markers", "torch: needs torch, so it is left to `./dev test full`")
    if not ranks.plugin_is_installed():  # in a build folder nothing tells pytest of it
        from tutti import pytest_plugin
        config.pluginmanager.register(pytest_plugin)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(pathlib.Path(item.path).name, len(order)))
    for item in items:
        if item.get_closest_marker("torch"):
            item.add_marker("full")
            if not ranks.has_torch():
                item.add_marker(pytest.mark.skip(reason=ranks.NO_TORCH))


@pytest.fixture
def script(tmp_path):
    """Writes a program of Python, and returns its path."""
    def write(source, name="script.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path
    return write


@pytest.fixture
def open_mpi(monkeypatch):
    """The mpirun of Open MPI, whose library tutti takes then."""
    import tutti.distributed
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun is None or not tutti.distributed.is_mpi_available():
        pytest.skip("there is no mpirun of Open MPI here")
    monkeypatch.setenv("TUTTI_MPI_LIBRARY", "libmpi.so.40")
    return mpirun


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(text)
