"""Messages of unknown size: probe and what it finds."""

import pathlib
import signal

import pytest

import ranks

crew = ranks.crew_of(pathlib.Path(__file__).with_name("probe_cases"))


@pytest.mark.parametrize("case", ["sizes", "dtypes", "wrong_buffers", "order", "wrong_calls"])
def test_case(crew, case):
    crew.run(case)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_sender_that_is_killed_is_named(transport, tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_TRANSPORT", transport)
    with ranks.Job("""
        if RANK == 1:
            world.recv(np.ones(1), 0)
            os.kill(os.getpid(), signal.SIGKILL)
        world.send(np.ones(1), 1)
        assert raises(tutti.NetworkError, "rank 1", lambda: world.probe(1)).culprit == 1
    """, 2, tmp_path) as job:
        job.finish({1: -signal.SIGKILL})


def test_ctrl_c_ends_it(tmp_path):
    with ranks.Job("""
        if RANK == 1:
            await_told("interrupted")
            sys.exit()
        say("probing")
        raises(KeyboardInterrupt, "", lambda: world.probe(1))
        assert world.health().code == "interrupted"
        tell("interrupted")
    """, 2, tmp_path) as job:
        job.interrupt_asleep(0, "probing")
        job.finish()


def test_a_message_that_outlives_its_group_and_the_program(tmp_path):
    ranks.run("""
        world.send(np.ones(2), 0)
        message = world.probe(0)
        world.close()
        message.recv(got := np.zeros(2))
        assert (got == 1).all()
    """, 1, tmp_path)
    ranks.run("""
        world.send(np.ones(2), 0)
        message = world.probe(0)
        world.close()
        del world
    """, 1, tmp_path, leaks=True)


def test_arrays_without_numpy(tmp_path):
    ranks.run("""
        import array
        import tutti.distributed as dist

        def found(values):
            dist.isend(values, 0).wait()
            return dist.probe(0)

        def made(message):  # as if there were no NumPy
            numpy, sys.modules["numpy"] = sys.modules["numpy"], None
            try:
                return message.recv()
            finally:
                sys.modules["numpy"] = numpy

        dist.init_process_group("gloo")
        for code, name in (("f", "float32"), ("B", "uint8"), ("q", "int64")):
            message = found(array.array(code, [1, 2, 3]))
            assert message.dtype == name and made(message) == array.array(code, [1, 2, 3])
        message = found(np.ones(2, np.complex64))
        raises(TypeError, "complex64", lambda: made(message))
        assert (message.recv() == 1).all()
        dist.destroy_process_group()
    """, 1, tmp_path, init=False)
