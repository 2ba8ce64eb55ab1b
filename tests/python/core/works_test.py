"""A Work: waiting, asking, dropping, the GIL; from several threads, with callbacks, and in asyncio."""

import ranks


def test_callbacks_are_called_once_and_may_start_operations(tmp_path):
    ranks.run("""
        called = []
        done = threading.Event()
        def after(work):
            called.append((threading.get_ident(), work.is_success(), work.result[0] is x))
            world_too.all_reduce(y)  # an operation inside, waited for
            done.set()
        world_too = world.new_group([0, 1])
        x, y = np.ones(100_000), np.ones(3)
        if RANK == 0:
            work = world.all_reduce(x, async_op=True)
            work.add_done_callback(after)
            tell("registered")
        else:
            await_told("registered")
            work = world.all_reduce(x, async_op=True)
            work.add_done_callback(after)
        assert done.wait(20)
        assert (y == 2).all() and (x == 2).all()
        work.wait()
        late = []
        work.add_done_callback(late.append)  # it is done: at once
        assert late == [work] and len(called) == 1 and called[0][1:] == (True, True)
        if RANK == 0:
            assert called[0][0] != threading.get_ident()
    """, 2, tmp_path)


def test_a_callback_keeps_its_work_and_hears_of_failures(tmp_path):
    ranks.run("""
        done = threading.Event()
        seen = []
        def after(work):
            seen.append(work.exception())
            done.set()
        if RANK == 0:
            world.all_reduce(np.ones(3), async_op=True).add_done_callback(after)
            gc.collect()
            tell("waiting")
            assert done.wait(20)
            assert isinstance(seen[0], tutti.NetworkError) and seen[0].culprit == 1, seen
        else:
            await_told("waiting")
            os._exit(0)
    """, 2, tmp_path)


def test_what_a_callback_raises_is_told_and_stops_nobody(tmp_path):
    ranks.run("""
        told = []
        sys.unraisablehook = told.append
        done = threading.Event()
        def bad(work):
            raise KeyError("my mistake")
        x = np.ones(100_000)
        if RANK == 0:
            work = world.all_reduce(x, async_op=True)
            work.add_done_callback(bad)
            work.add_done_callback(lambda _: done.set())
            tell("registered")
            assert done.wait(20)
            assert len(told) == 1 and isinstance(told[0].exc_value, KeyError)
            raises(TypeError, "", lambda: work.add_done_callback(3))
        else:
            await_told("registered")
            world.all_reduce(x)
        world.barrier()
        told.clear()  # they hold the callback
    """, 2, tmp_path)


def test_many_threads_wait_for_one_work(tmp_path):
    ranks.run("""
        x = np.ones(10)
        if RANK == 0:
            work = world.all_reduce(x, async_op=True)
            seen = []
            def waits():
                work.wait()
                seen.append(float(x[0]))
            def asks():
                while not work.is_completed():
                    time.sleep(0.001)
                seen.append(float(x[0]))
            threads = [threading.Thread(target=waits) for _ in range(4)]
            threads += [threading.Thread(target=asks) for _ in range(2)]
            for thread in threads:
                thread.start()
            tell("waiting")
            for thread in threads:
                thread.join(20)
            assert seen == [2.0] * 6, seen
        else:
            await_told("waiting")
            world.all_reduce(x)
    """, 2, tmp_path)


def test_await_and_as_completed(tmp_path):
    ranks.run("""
        import asyncio
        async def main():
            x = np.ones(100_000)
            ticks = 0
            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0)
                    ticks += 1
            ticking = asyncio.create_task(tick())
            if RANK == 0:
                for _ in range(10):
                    await asyncio.sleep(0.002)
            result = await world.all_reduce(x, async_op=True)
            assert result[0] is x and (x == 2).all()
            works = [world.all_reduce(np.full(2, i), async_op=True) for i in range(5)]
            seen = set()
            async for work in tutti.as_completed(works):
                assert work.is_success()
                seen.add(works.index(work))
            assert seen == set(range(5))
            assert await world.barrier(async_op=True) == []
            assert ticks > 0
            ticking.cancel()
        asyncio.run(main())
        # An abort breaks what still runs elsewhere: the other's barrier, too.
        if RANK == 0:
            tell("through")
        async def broken():
            if RANK == 1:
                await_told("through")
                world.abort("enough")
            try:
                await world.all_reduce(np.ones(2), async_op=True)
            except tutti.BackendError as problem:
                assert "enough" in str(problem)
            else:
                raise AssertionError("the group is not broken")
        asyncio.run(broken())
    """, 2, tmp_path)


def test_a_cancelled_await_leaves_the_operation(tmp_path):
    ranks.run("""
        import asyncio
        async def main():
            x = np.ones(3)
            if RANK == 0:
                work = world.all_reduce(x, async_op=True)
                started = asyncio.Event()
                async def waits():
                    started.set()
                    await work
                task = asyncio.create_task(waits())
                await started.wait()  # it goes on only when the task waits
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    pass
                tell("cancelled")
                await work
            else:
                while not os.path.exists(os.path.join(FOLDER, "cancelled")):
                    await asyncio.sleep(0.001)
                await world.all_reduce(x, async_op=True)
            assert (x == 2).all()
        asyncio.run(main())
    """, 2, tmp_path)


def test_leaving_with_callbacks_outstanding(tmp_path):
    """The process ends although an operation, its callback and a log sink are left."""
    ranks.run("""
        tutti.set_log_sink(lambda level, text: None, tutti.LogLevel.DEBUG)
        if RANK == 0:
            world.irecv(np.ones(3), 1).add_done_callback(lambda _: None)
        world.barrier()
    """, 2, tmp_path)


def test_callbacks_of_what_is_done_are_called_before_the_end(tmp_path):
    said = ranks.run("""
        work = world.irecv(np.zeros(3), 1 - RANK)
        work.add_done_callback(lambda work: say(f"called {work.is_success()}"))
        world.send(np.ones(3), 1 - RANK)
        work.wait()
    """, 2, tmp_path)
    assert said == ["called True\n"] * 2


def test_a_with_block_closes_and_tells_the_others_of_exceptions(tmp_path):
    ranks.run("""
        try:
            with world:
                world.barrier()
                if RANK == 1:
                    raise KeyError("oh")
                world.recv(np.zeros(1), 1)
        except KeyError:
            assert RANK == 1
        except tutti.BackendError as problem:
            assert RANK == 0 and "KeyError('oh')" in str(problem), problem
        assert world.closed
        raises(tutti.InvalidArgument, "closed", world.barrier)
    """, 2, tmp_path)


def test_closing_a_group_ends_the_waits_of_other_threads(tmp_path):
    ranks.run("""
        import threading
        calls = [lambda group: group.recv(np.zeros(3), 1), lambda group: group.all_reduce(np.zeros(3)),
                 lambda group: group.irecv(np.zeros(3), 1).wait()]
        names = ["recv", "all_reduce", "Work.wait"]
        groups = [world.new_group([0, 1], name=name) for name in names]
        if RANK == 0:
            ended = []
            def wait(call, group):
                ended.append(raises(tutti.BackendError, "", lambda: call(group)))
            threads = [threading.Thread(target=wait, args=both) for both in zip(calls, groups)]
            for thread, group in zip(threads, groups):
                thread.start()
                time.sleep(0.2)  # it is inside
                group.close()
                thread.join(20)
                assert not thread.is_alive()
                problem = ended.pop()
                assert (problem.code, problem.culprit) == ("aborted", 0)
                assert str(problem).startswith(names.pop(0) + " in group '"), problem
                assert "': another thread of this process destroyed the group during the wait; end" in str(problem)
            tell("closed")
        else:
            await_told("closed")
            # The others are told that it has left, but not where a Work is under way.
            raises(tutti.NetworkError, "destroyed the group", lambda: groups[0].recv(np.zeros(3), 0))
            groups[2].send(np.ones(3), 0)
        world.barrier()
    """, 2, tmp_path)


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
            assert work.wait() is True and work.wait(timeout=0) is True
        else:
            await_told("waited")
            world.all_reduce(x)
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
