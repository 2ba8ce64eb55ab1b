"""Every operation, on every kind of memory."""

import pytest

import ranks

SIZES = ranks.sizes(2, others=(3, 4, 5))


@pytest.mark.parametrize("size", SIZES)
def test_all_reduce_combines_in_place(size, tmp_path):
    ranks.run("""
        n = world.size
        assert world.rank == RANK and n == int(os.environ["WORLD_SIZE"])
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            for shape in ((), (1,), (5, 7), (100_000,)):
                x = np.full(shape, RANK + 1, dtype)
                assert world.all_reduce(x) is None
                assert (x == n * (n + 1) // 2).all()
                x[...] = RANK * 3
                world.all_reduce(x, tutti.ReduceOp.MAX)
                assert (x == 3 * (n - 1)).all()
    """, size, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_strided_views_leave_what_lies_between(size, tmp_path):
    ranks.run("""
        whole = np.arange(60, dtype=np.float32).reshape(6, 10)
        before = whole.copy()
        view = whole[1::2, 9:2:-3]
        world.all_reduce(view)
        assert (view == before[1::2, 9:2:-3] * world.size).all()
        view[...] = before[1::2, 9:2:-3]
        assert (whole == before).all()
        fortran = np.asfortranarray(before * RANK)
        world.broadcast(fortran, root=1)
        assert (fortran == before).all()
    """, size, tmp_path)


def test_zero_elements(tmp_path):
    ranks.run("""
        world.all_reduce(np.zeros(0))
        world.broadcast(np.zeros((3, 0), np.int32), 1)
    """, 2, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_from_every_root(size, tmp_path):
    ranks.run("""
        for root in range(world.size):
            x = np.full(1000, RANK, np.int64)
            world.broadcast(x, root)
            assert (x == root).all()
    """, size, tmp_path)


def test_buffers_and_dlpack_are_used_in_place(tmp_path):
    ranks.run("""
        import array
        class OnlyDlpack:
            def __init__(self, values):
                self.values = values
            def __dlpack__(self, **options):
                return self.values.__dlpack__(**options)
            def __dlpack_device__(self):
                return self.values.__dlpack_device__()
        letters = bytearray(b"ab" if RANK else b"xy")
        world.broadcast(letters, 1)
        assert letters == b"ab"
        numbers = array.array("d", [1.0, RANK])
        world.all_reduce(numbers)
        assert list(numbers) == [2.0, 1.0]
        world.all_reduce(memoryview(numbers)[1:])
        assert list(numbers) == [2.0, 2.0]
        inside = np.ones(3, np.int32)
        world.all_reduce(OnlyDlpack(inside))
        assert (inside == 2).all()
    """, 2, tmp_path)


def test_what_cannot_be_used_is_refused_and_the_group_goes_on(tmp_path):
    ranks.run("""
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        for wrong, why in ((frozen, "read-only"), (b"abc", "read-only"), (3, "no array"),
                           ([1.0], "no array"), (np.array([None]), "Python objects")):
            # The root only reads, so there a read-only array would do.
            for call in (world.all_reduce, lambda x: world.broadcast(x, 1 - RANK)):
                try:
                    call(wrong)
                except TypeError as problem:
                    assert why in str(problem), problem
                else:
                    raise AssertionError(f"{wrong!r} was taken")
        assert (frozen == 0).all()
        try:
            world.broadcast(np.zeros(3), root=2)
        except tutti.InvalidArgument as problem:
            assert isinstance(problem, ValueError) and isinstance(problem, tutti.Error)
            assert problem.code == "invalid_argument" and "root" in str(problem)
        else:
            raise AssertionError("root 2 of 2 ranks was taken")
        for wrong in (-1, 0, float("nan"), "soon"):
            try:
                world.barrier(timeout=wrong)
            except (ValueError, TypeError):
                continue
            raise AssertionError(f"timeout {wrong!r} was taken")
        world.barrier()
    """, 2, tmp_path)


def test_new_group_has_its_own_ranks(tmp_path):
    ranks.run("""
        half = world.new_group([3, 1], name="odd")
        if RANK in (1, 3):
            assert (half.size, half.rank, half.name) == (2, 0 if RANK == 3 else 1, "odd")
            x = np.full(4, RANK, np.float32)
            half.all_reduce(x)
            assert (x == 4).all()
            half.broadcast(x[:1], 0)
        else:
            assert half is None
        x = np.ones(1)
        world.all_reduce(x)
        assert x[0] == 4
        try:
            world.new_group([0, 0])
        except ValueError:
            pass
        else:
            raise AssertionError("a rank was taken twice")
    """, 4, tmp_path)


def test_several_groups_after_each_other(tmp_path):
    ranks.run("""
        for _ in range(3):
            world = tutti.init_process_group(timeout=20)
            x = np.ones(2)
            world.all_reduce(x)
            assert (x == 2).all()
            del world
    """, 2, tmp_path, init=False)
