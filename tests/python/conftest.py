"""Found by pytest: with it the tests of every folder can `import ranks`. It also chooses the order of files, and
prints what tests record as the property `summary`."""

import atexit
import os
import pathlib
import shutil
import tempfile

# The first job of a user makes a key in its home: not in the developer's. Before anything is imported that asks.
os.environ["HOME"] = tempfile.mkdtemp(prefix="tutti-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

# Launchers put tags before lines where this is set.
os.environ.pop("CI", None)

# pytest-xdist gives whole files to its workers, in this order: one that is begun late and takes long would keep
# a single worker busy at the end.
LONGEST_FIRST = ["parity_test.py", "notebook_test.py", "dist_pickle_fuzz_test.py", "operations_test.py", "dist_init_test.py",
                 "dist_engines_test.py", "examples_test.py", "plugin_test.py", "dist_operations_test.py",
                 "leaks_test.py", "exit_test.py", "run_test.py", "types_test.py"]


def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(pathlib.Path(item.path).name, len(order)))


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(text)
