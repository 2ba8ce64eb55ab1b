"""What all tests of the backend of torch.distributed have in common."""

import os

import pytest

import ranks

collect_ignore_glob = [] if ranks.has_torch() else ["*"]

# There tuttirun puts tags before lines.
os.environ.pop("CI", None)


@pytest.fixture(autouse=True, scope="session")
def own_home(tmp_path_factory):
    """The key that the first job makes is not the developer's."""
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    yield
    if before is not None:
        os.environ["HOME"] = before
