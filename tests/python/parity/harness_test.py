"""The harness itself: each kind of difference that is planted is found."""

import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import comparison  # noqa: E402
import stored  # noqa: E402

TENSOR = ("tensor", "torch.float32", (2, 2), bytes(16), (2, 1), ("Tensor", False, True, False, False))
ERROR = ["ValueError", "Exception", "BaseException", "object"]


def wrong(theirs, ours, known=(), cell="program/step", differing=()):
    """What is said of an outcome on one rank."""
    results = [(None, {cell: ours} if ours else {}, (0, 0), set(known), list(differing))]
    return comparison.compared(1, results, [{cell: stored.kept(theirs)} if theirs else {}], {})[2]


def changed(place, value):
    return ("value", (*TENSOR[:place], value, *TENSOR[place + 1:]), [])


def test_equal_outcomes_are_right():
    assert wrong(("value", TENSOR, []), ("value", TENSOR, [])) == []
    assert wrong(("error", ["ValueError"], "so", []), ("error", ["InvalidArgument", *ERROR], "so it is", [])) == []
    assert wrong(("value", None, ["UserWarning: torch.distributed."]), ("value", None, ["UserWarning: tutti.distributed."])) == []


@pytest.mark.parametrize("planted", [
    changed(1, "torch.int32"), changed(2, (4,)), changed(3, bytes(15) + b"\1"), changed(4, (1, 2)),
    changed(5, ("Tensor", True, True, False, False)), changed(5, ("Parameter", False, True, False, False)),
    ("value", [TENSOR], []), ("value", None, []), ("value", TENSOR, ["UserWarning: of something"]),
    ("error", ERROR, "no", []), None,
], ids=["dtype", "shape", "bytes", "strides", "requires_grad", "class", "list", "nothing", "warning", "error", "not run"])
def test_another_value_is_found(planted):
    assert len(wrong(("value", TENSOR, []), planted)) == 1


@pytest.mark.parametrize("planted", [
    ("error", ["TypeError", *ERROR[1:]], "so it is", []), ("error", ERROR, "it is", []), ("value", 3, []),
    ("error", ERROR, "so it is", ["UserWarning: of something"]), None,
], ids=["class", "text", "value", "warning", "not run"])
def test_another_error_is_found(planted):
    assert len(wrong(("error", ["ValueError"], "so", []), planted)) == 1


def test_a_step_that_torch_does_not_have_is_found():
    assert len(wrong(None, ("value", 3, []))) == 1


def test_a_listed_difference_must_be_what_is_listed():
    cell, theirs = "stores/wrong/multi_set", ("value", None, [])
    right = ("error", ["InvalidStoreArgument", *ERROR], "multi_set: 1 keys, but 2 values", [])
    assert wrong(theirs, right, cell=cell) == []
    assert len(wrong(theirs, (*right[:2], "multi_set: other words", []), cell=cell)) == 1
    assert len(wrong(theirs, ("error", ["TypeError", *ERROR[1:]], right[2], []), cell=cell)) == 1


def test_a_value_that_is_listed_must_be_known():
    cell, theirs = "layouts/outputs/broadcast/transposed", ("value", TENSOR, [])
    assert wrong(theirs, changed(3, bytes(15) + b"\1"), cell=cell, known=[cell]) == []
    assert len(wrong(theirs, changed(3, bytes(15) + b"\1"), cell=cell)) == 1
    assert len(wrong(theirs, theirs, cell=cell, known=[cell], differing=[(cell, TENSOR, theirs)])) == 1


def test_an_older_name_warns_in_torch_only():
    old = "FutureWarning: `torch.distributed.all_gather_into_tensor` is deprecated."
    assert wrong(("value", 3, [old]), ("value", 3, [])) == []
    assert len(wrong(("value", 3, [old]), ("value", 4, []))) == 1
