"""Failures of the world become exceptions that name the rank."""

import signal

import pytest

import ranks


def test_disagreement_leaves_the_array_alone(tmp_path):
    ranks.run("""
        x = np.arange(4.0 + RANK)
        try:
            world.all_reduce(x)
        except tutti.DisagreementError as problem:
            assert problem.code == "disagreement" and "rank" in str(problem)
        else:
            raise AssertionError("4 and 5 elements were added")
        assert (x == np.arange(4.0 + RANK)).all()
        assert isinstance(world.health(), tutti.DisagreementError)
    """, 2, tmp_path)


def test_timeout_names_who_did_not_come(tmp_path):
    ranks.run("""
        if RANK == 1:
            await_told("timed out")
        else:
            try:
                world.barrier(timeout=0.2)
            except tutti.TimeoutError as problem:
                assert isinstance(problem, TimeoutError) and problem.culprit == 1, problem
            else:
                raise AssertionError("rank 1 has not come")
            tell("timed out")
    """, 2, tmp_path)


def test_monitored_barrier_names_who_did_not_come(tmp_path):
    ranks.run("""
        if RANK in (1, 2):
            await_told("timed out")
        else:
            try:
                world.monitored_barrier(timeout=0.3, wait_all_ranks=True)
            except tutti.TimeoutError as problem:
                assert "1" in str(problem) and "2" in str(problem), problem
                assert problem.culprit == 1
            else:
                raise AssertionError("ranks 1 and 2 have not come")
            if RANK == 0:
                tell("timed out")
    """, 4, tmp_path)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_death_names_who_died(asynchronous, tmp_path):
    with ranks.Job(f"""
        world.barrier()
        if RANK == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        x = np.ones(1000)
        try:
            if {asynchronous}:
                work = world.all_reduce(x, async_op=True)
                while not work.is_completed():
                    time.sleep(0.001)
                assert isinstance(work.exception(), tutti.NetworkError)
                work.wait()
            else:
                world.all_reduce(x)
        except tutti.NetworkError as problem:
            assert isinstance(problem, ConnectionError)
            assert problem.culprit == 2 and "rank 2" in str(problem), problem
        else:
            raise AssertionError("rank 2 is dead")
    """, 4, tmp_path) as job:
        job.finish({2: -signal.SIGKILL})


def test_abort_tells_the_others_why(tmp_path):
    ranks.run("""
        if RANK == 0:
            world.abort("the cat sat on the keyboard")
        try:
            world.barrier()
        except tutti.BackendError as problem:
            assert problem.code == "aborted" and "the cat" in str(problem), problem
        else:
            raise AssertionError("the group is not broken")
    """, 2, tmp_path)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_long_reason_is_cut_between_characters(tmp_path, hosts):
    ranks.run(f"""
        os.environ["TUTTI_HOST_ID"] = str(RANK % {hosts})
        world = tutti.init_process_group(timeout=20)
        reason = "x" + "\u00e4\u65e5\U0001f600" * 1000
        if RANK == 0:
            world.abort(reason)
        try:
            world.barrier()
        except tutti.BackendError as problem:
            text = str(problem)
            assert problem.code == "aborted", problem
            told = text[text.index("x\u00e4"):]
            assert len(told) > 100 and reason.startswith(told), text
        else:
            raise AssertionError("the group is not broken")
    """, 2, tmp_path, init=False)


def test_a_forked_child_is_told_and_disturbs_nobody(tmp_path):
    ranks.run("""
        early = world.all_reduce(np.ones(100_000), async_op=True) if RANK == 0 else None
        child = os.fork()
        if child == 0:
            status = 1
            try:
                world.barrier()
            except tutti.BackendError as problem:
                status = 0 if "fork" in str(problem) and problem.code == "unsupported" else 2
            if early is not None:
                try:
                    early.wait()
                    status = 3
                except tutti.BackendError:
                    pass
                del early
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        if RANK == 1:
            early = world.all_reduce(np.ones(100_000), async_op=True)
        early.wait()
        world.barrier()
    """, 2, tmp_path)
