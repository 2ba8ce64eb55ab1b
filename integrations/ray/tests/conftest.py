"""One Ray for all tests, and the actors that are the ranks."""

import os
import sys

import cases
import pytest
import ray
import tutti.ray
from ray import cloudpickle

LIMIT = 150.0  # seconds for the answers of all actors to one call, and for their start on a busy machine

cloudpickle.register_pickle_by_value(cases)  # this folder is not on the path of the workers


@ray.remote(num_cpus=0, max_concurrency=4)
class Member:
    """An actor that calls what a test gives it."""

    def __init__(self, registers=True):
        if registers:
            tutti.ray.register()

    def call(self, function, *arguments):
        return function(*arguments)

    def pid(self):
        return os.getpid()


class Crew:
    """Actors as the ranks 0, 1, ... of groups."""

    def __init__(self, size, **options):
        self.members = [Member.remote() if not options else Member.options(**options).remote() for _ in range(size)]
        self.pids = ray.get([member.pid.remote() for member in self.members], timeout=LIMIT)

    def start(self, function, *arguments, ranks=None):
        """function(rank, *arguments) on these ranks, without waiting."""
        ranks = range(len(self.members)) if ranks is None else ranks
        return [self.members[rank].call.remote(function, rank, *arguments) for rank in ranks]

    def run(self, function, *arguments, ranks=None):
        """The results of the ranks; the first error is raised."""
        return ray.get(self.start(function, *arguments, ranks=ranks), timeout=LIMIT)

    def init(self, name, size=None):
        size = size or len(self.members)
        self.run(cases.init, size, name, ranks=range(size))

    def destroy(self, name, ranks=None):
        self.run(cases.destroy, name, ranks=ranks)

    def end(self):
        for member in self.members:
            ray.kill(member)


@pytest.fixture(scope="session")
def cluster():
    tutti.ray.register()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"TUTTI_TIMEOUT": "120"}})
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def crew(cluster):
    """Four actors that live for all tests. A test leaves no group in them."""
    made = Crew(4)
    yield made
    made.end()


@pytest.fixture
def new_crew(cluster):
    """Actors of one test: new_crew(size)."""
    made = []

    def make(size, **options):
        made.append(Crew(size, **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture(autouse=True)
def no_keys_left(request):
    """Every test leaves Ray's key-value store as it was."""
    yield
    if "cluster" in request.fixturenames:
        from ray.experimental import internal_kv
        assert internal_kv._internal_kv_list("", namespace="tutti") == []
