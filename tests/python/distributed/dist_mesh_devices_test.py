"""Which GPU is torch's current one after a mesh of GPUs was made."""

import os
import sys

import pytest

import stacks

PROGRAM = """
import sys, types
chosen = []
cuda = types.SimpleNamespace(is_available=lambda: {gpus} > 0, is_initialized=lambda: {used}, device_count=lambda: {gpus},
                             set_device=chosen.append)
if {imported}:
    torch = sys.modules["torch"] = types.ModuleType("torch")
    torch.cuda = cuda
import tutti.distributed as dist
dist.init_process_group(rank=0, world_size=1, init_method="file://" + sys.argv[1])
mesh = dist.init_device_mesh({kind!r}, (1,)) if {by_shape} else dist.DeviceMesh({kind!r}, [0])
assert mesh.device_type == {kind!r} and mesh.get_group().size() == 1
print(chosen)
"""


def chosen(folder, kind="cuda", gpus=4, used=False, imported=True, by_shape=True, local_rank="2"):
    """The GPUs that became the current one."""
    program = PROGRAM.format(kind=kind, gpus=gpus, used=used, imported=imported, by_shape=by_shape)
    environment = {} if local_rank is None else {"LOCAL_RANK": local_rank}
    inherited = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    return stacks.output([sys.executable, "-c", program, folder / "store"], 60, env={**inherited, **environment}).strip()


@pytest.mark.parametrize("by_shape", [True, False])
def test_the_local_rank_chooses(tmp_path, by_shape):
    assert chosen(tmp_path, by_shape=by_shape) == "[2]"


@pytest.mark.parametrize("given, gpu", [
    (dict(gpus=1), "[0]"), (dict(kind="CUDA"), "[2]"),  # one GPU for each process; any case, as torch takes it
    (dict(used=True), "[]"), (dict(gpus=0), "[]"), (dict(imported=False), "[]"), (dict(kind="cpu"), "[]"),
    (dict(local_rank=None), "[]"),
])
def test_a_choice_of_the_program_stays(tmp_path, given, gpu):
    assert chosen(tmp_path, **given) == gpu
