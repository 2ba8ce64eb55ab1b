"""Errors speak of arrays where no torch is, and of tensors where a program has imported it."""

import pytest

import stacks

PROGRAM = """
import sys, types
{torch}
import numpy
import tutti.distributed as dist
from tutti import errors
dist.init_process_group(rank=0, world_size=1, init_method="file://" + sys.argv[1])
print(errors.NetworkError("group 'my tensor': a tensor, Tensor's dim, tensors, `tensor`, input_tensor; a torch tensor"))
try:
    dist.all_to_all_single(numpy.zeros(2), numpy.zeros(2), [1, 1], [1, 1])
except ValueError as error:
    print(error)
"""


GIVEN = """
import sys, types
import numpy
import tutti
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.Tensor = type("Tensor", (numpy.ndarray,), {})
world = tutti.init_process_group(rank=0, world_size=1, init_method="file://" + sys.argv[1])
for kind in (numpy.ndarray, torch.Tensor):
    arrays = [numpy.zeros(2, numpy.float32).view(kind), numpy.zeros(2, numpy.int32).view(kind)]
    for call in (world.all_reduce_coalesced, lambda arrays: world.all_reduce_coalesced(arrays, async_op=True)):
        try:
            call(arrays)
        except ValueError as error:
            print(error)
"""


def test_with_torch_the_arrays_of_the_call_decide(tmp_path):
    said = stacks.said("-c", GIVEN, tmp_path / "store").splitlines()
    assert len(said) == 4 and said[0] == said[1] and said[2] == said[3], said
    assert "array 1 is int32, but array 0 is float32" in said[0]
    assert "tensor 1 is int32, but tensor 0 is float32" in said[2]


NO_ARRAY = """
import tutti.distributed as dist
for call, given in ((dist.all_reduce, (1,)), (dist.all_gather, ([1], 1))):
    try:
        call(*given)
    except TypeError as error:
        print(str(error).splitlines()[0])
"""


def test_without_torch_a_call_asks_for_arrays():
    assert stacks.said("-c", NO_ARRAY).splitlines() == [
        "Invalid function argument. Expected parameter `tensor` of type array (NumPy, DLPack or a buffer)",
        "Invalid function argument. Expected parameter `tensor_list` of type list of arrays"]


@pytest.mark.parametrize("imported", [False, True])
def test_the_noun_is_the_callers(tmp_path, imported):
    torch = "sys.modules['torch'] = types.ModuleType('torch')" if imported else ""
    first, *_, last = stacks.said("-c", PROGRAM.format(torch=torch), tmp_path / "store").splitlines()
    if imported:
        assert first == "group 'my tensor': a tensor, Tensor's dim, tensors, `tensor`, input_tensor; a torch tensor"
        assert last.startswith("Number of tensor splits not equal to group size")
    else:
        assert first == "group 'my tensor': an array, Array's dim, arrays, `tensor`, input_tensor; a torch tensor"
        assert last.startswith("Number of array splits not equal to group size")
