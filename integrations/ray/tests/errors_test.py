"""Groups of Ray on tutti: what goes wrong is told in Ray's own exceptions."""

import os
import signal
import subprocess
import sys
import time

import cases
import pytest
import ray
import tutti
import tutti.ray


def check_lost(crew, waiting, survivors, lost, text):
    """Kills an actor while others wait: each of them gets an error that names it, within a second."""
    time.sleep(0.5)
    killed = time.monotonic()
    os.kill(crew.pids[lost], signal.SIGKILL)
    for each in waiting:
        with pytest.raises(ray.exceptions.RayTaskError, match=text) as raised:
            ray.get(each, timeout=30)
        assert isinstance(raised.value, tutti.NetworkError) and raised.value.cause.culprit == lost
        assert str(crew.pids[lost]) in str(raised.value)
    for failed in crew.run(cases.failed_at, ranks=survivors):
        assert 0 < failed - killed < 1.0


@pytest.mark.parametrize("size", [2, 4])
def test_a_killed_actor_is_named(new_crew, size):
    crew = new_crew(size)
    crew.init("killed")
    assert crew.run(cases.sum_of, "killed") == [size * (size + 1) / 2] * size
    left = range(size - 1)
    waiting = crew.start(cases.failing, cases.sum_of, "killed", ranks=left)
    check_lost(crew, waiting, left, size - 1, f"lost rank {size - 1} ")


def test_a_new_actor_takes_the_place_of_the_killed_one(new_crew):
    crew = new_crew(3)
    crew.init("place")
    waiting = crew.start(cases.failing, cases.sum_of, "place", ranks=(0, 2))
    check_lost(crew, waiting, (0, 2), 1, "lost rank 1 ")
    crew.destroy("place", ranks=(0, 2))
    crew.members[1] = new_crew(1).members[0]
    crew.init("place")
    assert crew.run(cases.sum_of, "place") == [6.0] * 3
    crew.destroy("place")


def test_an_actor_that_dies_while_the_group_is_made(new_crew):
    crew = new_crew(2)
    waiting = crew.start(cases.failing, cases.init, 3, "incomplete")  # the third never comes
    time.sleep(1.0)
    check_lost(crew, waiting[:1], (0,), 1, "rank 1 of 3 .* was lost")


@pytest.mark.parametrize("absent", [0, 1])
def test_an_actor_that_does_not_come_is_named(new_crew, absent):
    crew = new_crew(2, runtime_env={"env_vars": {"TUTTI_TIMEOUT": "2"}})
    with pytest.raises(ray.exceptions.RayTaskError, match=f"rank {absent}|ranks? .*{absent}") as raised:
        crew.run(cases.init, 2, "absent", ranks=(1 - absent,))
    assert isinstance(raised.value, tutti.TimeoutError)
    assert "see whether its actor lives" in str(raised.value) and "MASTER_ADDR" not in str(raised.value).splitlines()[-1]
    # The name is usable then.
    crew.init("absent")
    assert crew.run(cases.sum_of, "absent") == [3.0] * 2


def test_after_the_end(crew):
    crew.run(cases.after_the_end, 2, "ended", ranks=range(2))


def test_a_name_that_is_in_use(crew):
    crew.init("twice", 2)
    with pytest.raises(RuntimeError, match="second time"):
        crew.init("twice", 2)
    assert crew.run(cases.sum_of, "twice", ranks=range(2)) == [3.0] * 2
    crew.destroy("twice", ranks=range(2))


def test_wrong_calls_are_refused_before_anything_is_sent(crew):
    crew.init("misuse", 2)
    for said in crew.run(cases.refused, "misuse", ranks=range(2)):
        assert "not 'SUM'" in said[0] and "not []" in said[1]
        assert "one tensor of each rank in a call, not 2" in said[6] and "n_elements" in said[7]
    crew.destroy("misuse", ranks=range(2))


def test_calls_that_differ(new_crew):
    crew = new_crew(2)
    crew.init("differ")
    for each in crew.start(cases.differs, "differ"):
        with pytest.raises(tutti.DisagreementError, match="allreduce|all_reduce"):
            ray.get(each, timeout=30)


@pytest.mark.parametrize("places, text", [(((0, 2), (1, 3)), "disagree on the number of processes"),
                                          (((0, 3), (1, 3), (1, 3)), "rank 1 of 3 was given to two processes")])
def test_ranks_that_do_not_fit(crew, places, text):
    waiting = [member.call.remote(cases.init, *place, "unfit") for member, place in zip(crew.members, places)]
    for each in waiting:
        with pytest.raises(tutti.DisagreementError, match=text):
            ray.get(each, timeout=30)


def test_register_again(crew):
    crew.run(cases.register_twice)


def python(program, *, path=None):
    environment = dict(os.environ, PYTHONPATH=str(path or ""))
    return subprocess.run([sys.executable, "-c", program], env=environment, timeout=120, text=True, capture_output=True)


def test_import_does_not_import_ray():
    ended = python("import sys, tutti.ray; assert not {'ray', 'numpy', 'torch'} & set(sys.modules)")
    assert ended.returncode == 0, ended.stderr


def test_a_ray_without_such_backends(tmp_path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("__version__ = '2.55.0'\n")
    ended = python("import tutti.ray; tutti.ray.register()", path=tmp_path)
    assert "ImportError: tutti.ray does not work with Ray 2.55.0; it was tested with Ray 2.56.0 to" in ended.stderr


def test_no_ray():
    ended = python("import sys; sys.modules['ray'] = None; import tutti.ray; tutti.ray.register()")
    assert "ImportError: tutti.ray needs Ray 2.56.0 to" in ended.stderr


def test_a_ray_with_more_operations():
    ended = python("""
import abc
from ray.util.collective.collective_group.base_collective_group import BaseGroup
BaseGroup.alltoall = abc.abstractmethod(lambda self: None)
BaseGroup.__abstractmethods__ |= {"alltoall"}
import tutti.ray
tutti.ray.register()
""")
    assert "whose groups also have alltoall; it was tested with" in ended.stderr


def test_the_name_of_another_backend():
    ended = python("""
from ray.util.collective.backend_registry import register_collective_backend
from ray.util.collective.collective_group.base_collective_group import BaseGroup
register_collective_backend("tutti", type("Mine", (BaseGroup,), {}))
import tutti.ray
tutti.ray.register()
""")
    assert "ValueError: tutti.ray: the backend TUTTI of Ray is registered already, for the class Mine" in ended.stderr
