"""Ctrl-C in whatever blocks."""

import pytest

import ranks

@pytest.mark.parametrize("size", ranks.sizes(3, others=(2, 4)))
@pytest.mark.parametrize("blocking", ["world.all_reduce(np.ones(4))",
                                      "world.all_reduce(np.ones(100_000), async_op=True).wait()",
                                      "world.barrier()"])
def test_ends_the_call_and_breaks_the_group_by_name(blocking, size, tmp_path):
    last = size - 1
    with ranks.Job(f"""
        def blocking():
            {blocking}
        world.barrier()
        if RANK == {last}:
            interrupted(blocking)
            assert world.health().code == "interrupted"
        else:
            if RANK == 0:
                await_told("interrupted")
            say("blocking")
            try:
                # Rank 0 may still be served by what the others had published when they were interrupted.
                for _ in range(2 if RANK == 0 else 1):
                    blocking()
            except tutti.BackendError as problem:
                assert problem.code == "interrupted" and problem.culprit == {last}, problem
                assert "interrupted on rank {last}" in str(problem), problem
                say("was told")
            else:
                raise AssertionError("the group is not broken")
    """, size, tmp_path) as job:
        for rank in range(1, size):
            job.await_said(rank, "blocking")
            job.await_asleep(rank)
        soon = job.interrupt(last)
        job.await_said(last, "interrupted at")
        for rank in range(1, last):  # these are told while they wait
            job.await_said(rank, "was told")
        (tmp_path / "interrupted").touch()
        said = job.finish()
        assert ranks.interrupted_at(said[last]) < soon
        assert all("was told" in text for text in said[:last])


def test_ends_init(tmp_path):
    with ranks.Job("""
        if RANK == 1:
            interrupted(lambda: tutti.init_process_group(timeout=20))
            os._exit(0)  # its init goes on alone until its timeout
    """, 2, tmp_path, init=False) as job:
        soon = job.interrupt_asleep(1)
        assert ranks.interrupted_at(job.finish()[1]) < soon


def test_ends_new_group(tmp_path):
    with ranks.Job("""
        world.barrier()
        if RANK == 1:
            interrupted(lambda: world.new_group([0, 1]))
        else:
            await_told("interrupted")
            try:
                for _ in range(2):  # all that the first needs from rank 1 may be there
                    world.new_group([0, 1])
            except tutti.BackendError as problem:
                assert "interrupted on rank 1" in str(problem), problem
            else:
                raise AssertionError("the group is not broken")
    """, 2, tmp_path) as job:
        soon = job.interrupt_asleep(1)
        job.await_said(1, "interrupted at")
        (tmp_path / "interrupted").touch()
        assert ranks.interrupted_at(job.finish()[1]) < soon


def test_a_handler_that_returns_interrupts_nothing(tmp_path):
    with ranks.Job("""
        heard = []
        signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        x = np.ones(4)
        if RANK == 1:
            say("blocking")
            world.all_reduce(x)
            assert heard
        else:
            await_told("signalled")
            world.all_reduce(x)
        assert (x == 2).all()
    """, 2, tmp_path) as job:
        job.interrupt_asleep(1)
        (tmp_path / "signalled").touch()
        job.finish()


def test_ends_the_wait_for_an_executor_that_runs_nothing(tmp_path):
    with ranks.Job("""
        class Idle:
            def submit(self, run):
                kept.append(run)
                say("submitted")

        kept, executor = [], Idle()
        if RANK == 0:
            interrupted(lambda: world._all_reduce_by(np.ones(4), name="op", block=1, combine=print, executor=executor))
            assert world.health().code == "interrupted"
            kept.clear()
            # The progress thread tells of the operation's end; the next call drops what it kept.
            seen = weakref.ref(executor)
            del executor
            while seen() is not None:
                time.sleep(0.001)
                try:
                    world.barrier()
                except tutti.BackendError:
                    pass
        else:
            world._all_reduce_by(np.ones(4), name="op", block=1, combine=lambda a, b: None)
    """, 2, tmp_path) as job:
        soon = job.interrupt_asleep(0, "submitted")
        assert ranks.interrupted_at(job.finish()[0]) < soon
