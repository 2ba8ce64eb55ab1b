"""Shapes and splits: functions of a Crew, found through dist_cases.py."""

import numpy as np

import tutti.distributed as dist
from dist_crew import raises
from tutti.errors import InvalidArgument


def shapes(r, n):
    """A wrong shape with the right number of elements is an error at the call, of every operation on blocks."""
    pg = dist.group.WORLD
    ones, zeros = np.ones, np.zeros

    def rows(*shape):
        return [zeros(shape) for _ in range(n)]

    def refused(part, call):
        raises(InvalidArgument, f"invalid array size at index {part}", call)

    for shape, shown in (((3, 2), "(3, 2)"), ((6,), "(6)"), ((1, 2, 3), "(1, 2, 3)")):
        said = f"0 (expected (2, 3), got {shown})"
        refused(said, lambda: dist.all_gather(rows(*shape), ones((2, 3))))
        refused(said, lambda: pg.allgather([rows(*shape)], [ones((2, 3))]))
        refused(said, lambda: dist.all_gather_coalesced([[each] for each in rows(*shape)], [ones((2, 3))]))
        refused(said, lambda: dist.reduce_scatter(zeros((2, 3)), rows(*shape)))
        refused(said, lambda: pg.reduce_scatter([zeros((2, 3))], [rows(*shape)]))
        refused(f"{n} (expected (2, 3)", lambda: dist.all_to_all(rows(*shape), rows(2, 3)))
        refused(f"{n} (expected (2, 3)", lambda: pg.alltoall(rows(*shape), rows(2, 3)))
        if r == 0:
            refused(said, lambda: dist.gather(ones((2, 3)), rows(*shape), dst=0))
            refused(said, lambda: dist.scatter(ones((2, 3)), rows(*shape), src=0))
    refused(f"{n - 1} (expected (2, 3), got (6))", lambda: dist.all_gather([*rows(2, 3)[1:], zeros(6)], ones((2, 3))))
    for shape in ((2, 3 * n), (6 * n,), (3, n, 2)):
        if n == 1 and shape == (2, 3):
            continue
        refused("0 (expected (2, 3) of each", lambda: dist.all_gather_into_tensor(zeros(shape), ones((2, 3))))
        refused("0 (expected (2, 3) of each", lambda: dist.reduce_scatter_tensor(zeros((2, 3)), ones(shape)))
        refused("0 (expected (2, 3) of each",
                lambda: dist.all_gather_into_tensor_coalesced([zeros(shape)], [ones((2, 3))]))
        refused("0 (expected (2, 3) of each",
                lambda: dist.reduce_scatter_tensor_coalesced([zeros((2, 3))], [ones(shape)]))
        refused("0 (expected (2, 3) of each", lambda: pg._allgather_base(zeros(shape), ones((2, 3))))
        refused("0 (expected (2, 3) of each", lambda: pg._reduce_scatter_base(zeros((2, 3)), ones(shape)))
        if r == 0:
            refused("0 (expected (2, 3) of each", lambda: dist.gather_single(zeros(shape), ones((2, 3))))
            refused("0 (expected (2, 3) of each", lambda: dist.scatter_single(ones((2, 3)), zeros(shape)))
    for shape in ((2 * n, 3), (n, 2, 3)):  # one after the other, and stacked
        dist.all_gather_into_tensor(whole := zeros(shape), np.full((2, 3), float(r)))
        assert (whole.reshape(n, 6) == np.arange(n)[:, None]).all()
        dist.reduce_scatter_tensor(part := zeros((2, 3)), ones(shape))
        assert (part == n).all()
    dist.all_gather_into_tensor(whole := zeros(n), np.array(float(r)))  # of no dimensions
    assert whole.tolist() == list(range(n))
    dist.all_gather_into_tensor(whole := bytearray(2 * n), np.full((1, 2), r, np.uint8))
    assert list(whole) == [k for k in range(n) for _ in range(2)]  # a buffer has no shape of its own
    dist.all_gather(every := [zeros((2 + k, 2)) for k in range(n)], np.full((2 + r, 2), float(r)))  # uneven
    assert [each.max() for each in every] == list(range(n))


def splits_of_any_kind(r, n):
    """all_to_all_single takes splits as torch does: lists, tuples, arrays, torch tensors."""
    for kind in (list, tuple, np.array):
        for single in (dist.all_to_all_single, lambda *a: dist.group.WORLD.alltoall_base(*a).wait()):
            sent, got = kind([(r + k) % 3 for k in range(n)]), kind([(r + k) % 3 for k in range(n)])
            out = np.zeros((int(sum(got)), 2))
            single(out, np.full((int(sum(sent)), 2), float(r)), got, sent)
            assert out[:, 0].tolist() == [k for k in range(n) for _ in range((r + k) % 3)]
        whole = np.zeros(n)
        dist.all_to_all_single(whole, np.full(n, float(r)), kind([]), kind([]))
        assert whole.tolist() == list(range(n))
