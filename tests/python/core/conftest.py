"""What tests of the module itself have in common."""

import pytest
import tutti


@pytest.fixture(scope="module")
def world():
    """Of one rank, in this process."""
    with tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1) as group:
        yield group
