"""Operations under way: waiting, asking, dropping; the GIL."""

import ranks


def test_several_at_once_complete_in_any_order_of_waiting(tmp_path):
    ranks.run("""
        arrays = [np.full(1000, i, np.float32) for i in range(20)]
        works = [world.all_reduce(x, async_op=True) for x in arrays]
        for i in reversed(range(20)):
            assert works[i].wait() is True
            assert works[i].is_completed() and works[i].exception() is None
            assert works[i].wait(timeout=0) is True
            assert (arrays[i] == 4 * i).all()
    """, 4, tmp_path)


def test_waiting_too_short_cancels_nothing(tmp_path):
    ranks.run("""
        from datetime import timedelta
        x = np.ones(10)
        if RANK == 0:
            work = world.all_reduce(x, async_op=True)
            for limit in (0, 0.02, timedelta(milliseconds=20)):
                assert isinstance(raises(TimeoutError, "", lambda: work.wait(limit)), tutti.TimeoutError)
            assert not work.is_completed() and work.exception() is None
            assert world.health() is None
            tell("waited")
            work.wait()
        else:
            await_told("waited")
            world.all_reduce(x)
        assert (x == 2).all()
    """, 2, tmp_path)


def test_completes_although_nobody_waits(tmp_path):
    ranks.run("""
        x = np.ones(100_000)
        work = world.all_reduce(x, async_op=True)
        while x[-1] != 2:  # asks nothing that would drive it
            time.sleep(0.001)
        work.wait()
        assert (x == 2).all()
    """, 2, tmp_path)


def test_dropped_work_keeps_its_array_until_done(tmp_path):
    ranks.run("""
        class Watched(np.ndarray):
            pass
        def start(n):
            x = np.ones(n).view(Watched)
            world.all_reduce(x, async_op=True)
            return weakref.ref(x)
        if RANK == 0:
            watched = [start(10), start(100_000)]
            assert all(ref() is not None for ref in watched)
            tell("started")
        else:
            await_told("started")
            for n in (10, 100_000):
                world.all_reduce(np.zeros(n))
            watched = []
        idle = world.barrier(async_op=True)
        # Any call drops what is done; the progress thread may be a moment behind.
        while any(ref() is not None for ref in watched):
            idle.is_completed()
            time.sleep(0.001)
        world.barrier()
    """, 2, tmp_path)


def test_dropped_work_still_gives_its_result(tmp_path):
    ranks.run("""
        x = np.full(100_000, RANK + 1.0)
        for _ in range(50):
            world.all_reduce(x, tutti.ReduceOp.MAX, async_op=True)
        world.barrier()
        assert (x == 2).all()
    """, 2, tmp_path)


def test_groups_and_works_may_be_dropped_in_any_order(tmp_path):
    ranks.run("""
        work = world.all_reduce(np.ones(10), async_op=True)
        part = world.new_group([0, 1])
        other = part.all_reduce(np.ones(10), async_op=True)
        del part, world
        work.wait()
        other.wait()
        del work, other
        world = tutti.init_process_group(timeout=20)
        world.all_reduce(np.ones(10), async_op=True)
        world.barrier()
    """, 2, tmp_path)


def test_others_run_while_one_thread_waits(tmp_path):
    ranks.run("""
        inside = threading.Event()
        def work():
            inside.wait()
            for _ in range(20):  # each sleep gives the GIL up, and wants it back
                time.sleep(0.01)
            tell("ran")
        x = np.ones(10)
        if RANK == 0:
            thread = threading.Thread(target=work)
            thread.start()
            inside.set()
            world.all_reduce(x)
            thread.join()
        else:
            await_told("ran")
            world.all_reduce(x)
        assert (x == 2).all()
    """, 2, tmp_path)
