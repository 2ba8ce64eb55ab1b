"""Failures of the world become exceptions that name the rank."""

import signal

import pytest

import ranks


def test_disagreement_leaves_the_array_alone(tmp_path):
    ranks.run("""
        x = np.arange(4.0 + RANK)
        assert raises(tutti.DisagreementError, "rank", lambda: world.all_reduce(x)).code == "disagreement"
        assert (x == np.arange(4.0 + RANK)).all()
        assert isinstance(world.health(), tutti.DisagreementError)
    """, 2, tmp_path)


def test_timeout_names_who_did_not_come(tmp_path):
    ranks.run("""
        if RANK == 1:
            await_told("timed out")
        else:
            problem = raises(tutti.TimeoutError, "", lambda: world.barrier(timeout=0.2))
            assert isinstance(problem, TimeoutError) and problem.culprit == 1, problem
            tell("timed out")
    """, 2, tmp_path)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_death_names_who_died(asynchronous, tmp_path):
    with ranks.Job(f"""
        world.barrier()
        tell(f"through {{RANK}}")
        if RANK == 2:
            for rank in range(4):  # one that is still inside would be told there
                await_told(f"through {{rank}}")
            os.kill(os.getpid(), signal.SIGKILL)
        x = np.ones(1000)
        def call():
            work = world.all_reduce(x, async_op={asynchronous})
            if work is not None:
                while not work.is_completed():
                    time.sleep(0.001)
                assert isinstance(work.exception(), tutti.NetworkError)
                work.wait()
        problem = raises(tutti.NetworkError, "rank 2", call)
        assert isinstance(problem, ConnectionError) and problem.culprit == 2, problem
    """, 4, tmp_path) as job:
        job.finish({2: -signal.SIGKILL})


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_long_reason_is_cut_between_characters(tmp_path, hosts):
    ranks.run(f"""
        os.environ["TUTTI_HOST_ID"] = str(RANK % {hosts})
        world = tutti.init_process_group(timeout=20)
        reason = "x" + "\u00e4\u65e5\U0001f600" * 1000
        if RANK == 0:
            world.abort(reason)
        problem = raises(tutti.BackendError, "x\u00e4", world.barrier)
        told = str(problem)[str(problem).index("x\u00e4"):]
        assert problem.code == "aborted" and len(told) > 100 and reason.startswith(told), problem
    """, 2, tmp_path, init=False)


# The lines that come through `logging` from then on, with their levels.
REMARKS = """
        import logging, queue

        def remarks():
            heard, handler = queue.Queue(), logging.Handler()
            handler.emit = lambda record: heard.put(f"{record.levelname} {record.getMessage()}")
            logging.getLogger("tutti").addHandler(handler)
            tutti.log.install()
            return heard
"""


def test_a_stall_is_told_through_logging_by_one_rank(tmp_path):
    ranks.run(REMARKS + """
        heard = remarks()
        config = tutti.Config.from_environment()
        config.stall_warning = 0.2
        world = tutti.init_process_group(timeout=50, config=config)
        if RANK == 1:
            await_told("told")
        work = world.barrier(async_op=True)
        if RANK == 0:
            text = heard.get(timeout=40)
            tell("told")
            assert text.startswith("WARNING ") and "barrier() has waited for" in text and ": rank 1 on " in text, text
        work.wait()
        assert RANK == 0 or heard.empty(), heard.get()
    """, 3, tmp_path, init=False)


def test_a_job_is_told_once_and_so_is_each_group(tmp_path):
    ranks.run(REMARKS + """
        os.environ["TUTTI_LOG_LEVEL"] = "info"
        heard = remarks()
        world = tutti.init_process_group(timeout=50)
        group = world.new_group([1, 2])
        world.barrier()

        wanted = [("INFO tutti " + tutti.__version__ + ": 3 ranks on 1 host (",
                   "INFO group 'world' of 3 ranks (0-2) by shared memory, timeout 50 s"),
                  ("INFO group 'world[1,2]' of 2 ranks (1-2) by shared memory, timeout 50 s",), ()][RANK]
        for begin in wanted:
            assert (line := heard.get(timeout=40)).startswith(begin), line
        assert heard.empty(), heard.get()
    """, 3, tmp_path, init=False)


def test_an_environment_that_asks_for_more_is_heard_without_a_handler(tmp_path):
    ranks.run("""
        import io
        os.environ["TUTTI_LOG_LEVEL"] = "info"
        sys.stderr, written = io.StringIO(), sys.stderr
        import tutti.distributed as dist
        dist.init_process_group()
        end = time.monotonic() + 40
        while "group 'world'" not in sys.stderr.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
        sys.stderr, written = written, sys.stderr.getvalue()
        dist.destroy_process_group()
        import re, socket
        begin = "tutti: [0-9-]+ [0-9:,]+ " + re.escape(socket.gethostname()) + " rank 0: INFO: "
        assert re.match(begin + "tutti ", written), written
        assert re.search("\\n" + begin + "group 'world' of 1 rank \\(0\\), timeout ", written), written
    """, 1, tmp_path, init=False)
