"""How ranks meet: by torch's store, with the user's key or a secret of rank 0."""

import os
import socket
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401
from forked import begin, on_ranks, run

HANDED_OUT = "rank 0 hands out one where they meet"


def add_up():
    x = torch.ones(2)
    dist.all_reduce(x)
    assert (x == dist.get_world_size()).all()


@pytest.mark.parametrize("name", ["tutti", "TUTTI", "cpu:tutti", "cpu:tutti,cuda:gloo", "cuda:gloo,cpu:tutti"])
@on_ranks(2)
def test_takes_the_names_that_torch_has(name):
    begin(name)
    add_up()
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group()


@on_ranks(1)
def test_the_log_is_that_of_the_package():
    """Where both use its library. In a build folder each holds a static one."""
    lines = []
    tutti.set_log_sink(lambda level, text: lines.append(text), tutti.LogLevel.INFO)
    begin("tutti")
    dist.destroy_process_group()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "/libtutti.so" in line}
    until = time.monotonic() + 10
    while files and not lines and time.monotonic() < until:
        time.sleep(0.01)  # the sink is called by another thread
    assert len(files) <= 1 and bool(lines) == bool(files)


def own_home(path):
    os.environ["HOME"] = f"{path}/{os.environ['RANK']}"
    os.makedirs(os.environ["HOME"])


def meet(path):
    os.environ["TUTTI_LOG_LEVEL"] = "info"
    dist.init_process_group("tutti", init_method=f"file://{path}/store", world_size=2, rank=int(os.environ["RANK"]))


class Attack:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@on_ranks(2)
def test_given_secrets_that_differ_are_refused(tmp_path):
    rank = int(os.environ["RANK"])
    secret = f"{tmp_path}/secret{rank}"
    with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write(str(rank) * 40)
    os.environ["TUTTI_SECRET_FILE"] = secret
    with pytest.raises(ValueError, match="rank 0 was given a secret .*, and rank 1 has another one or none"):
        dist.init_process_group("tutti", init_method=f"file://{tmp_path}/store", world_size=2, rank=rank)


@on_ranks(1)
def test_a_missing_rank_is_named(tmp_path):
    store = dist.FileStore(f"{tmp_path}/store", 2)
    with pytest.raises(dist.DistBackendError, match=r"rank 1 did not come to the group within 400 ms; see whether"):
        dist.init_process_group("tutti", store=store, world_size=2, rank=0, timeout=timedelta(milliseconds=400))


@on_ranks(2)
def test_a_store_serves_one_world_after_the_other(tmp_path):
    store = dist.FileStore(f"{tmp_path}/store", 2)
    for _ in range(3):
        dist.init_process_group("tutti", store=store, world_size=2, rank=int(os.environ["RANK"]))
        add_up()
        dist.destroy_process_group()


def test_is_registered_for_cpu_and_cuda_and_not_their_default():
    assert dist.Backend("tutti") == "tutti" == dist.Backend.TUTTI
    assert dist.is_backend_available("tutti")
    assert dist.Backend.backend_capability["tutti"] == ["cpu", "cuda"]
    assert dist.get_default_backend_for_device("cpu") == "gloo"


def body_key(path):
    meet(path)
    add_up()


def test_ranks_of_one_user_use_the_users_key(tmp_path):
    for text in run(body_key, 2, tmp_path):
        assert HANDED_OUT not in text, text


@on_ranks(2)
def test_keys_that_differ_are_an_error_that_names_both_hosts_and_files(tmp_path):
    own_home(tmp_path)
    with pytest.raises(ValueError) as refused:
        meet(tmp_path)
    host = socket.gethostname()
    for text in ("rank 0 and rank 1 do not have the same secret", f"on host {host} it is {tmp_path}/0/.config/tutti/key",
                 f"on host {host} it is {tmp_path}/1/.config/tutti/key", "copy the file", "TUTTI_SECRET_FILE",
                 "TUTTI_INSECURE=pickle"):
        assert text in str(refused.value)
    assert not dist.is_initialized()


@pytest.mark.parametrize("words", [("1", "1"), ("1", "pickle"), ("pickle", "1")])
@on_ranks(2)
def test_a_world_without_a_secret_is_refused(words, tmp_path):
    os.environ["TUTTI_INSECURE"] = words[int(os.environ["RANK"])]
    with pytest.raises(ValueError) as refused:
        meet(tmp_path)
    for text in ("torch's object operations in group", "TUTTI_SECRET_FILE", "TUTTI_INSECURE=pickle"):
        assert text in str(refused.value)
    assert not dist.is_initialized()


def body_pickle(path):
    os.environ["TUTTI_INSECURE"] = "pickle"
    own_home(path)
    meet(path)
    add_up()
    for group in (None, dist.new_group([0, 1])):
        objects = [Attack(f"{path}/ran")] if dist.get_rank() == 0 else [None]
        dist.broadcast_object_list(objects, 0, group)
        dist.barrier(group)
        if dist.get_rank() == 1:
            os.remove(f"{path}/ran")


def test_in_a_closed_network_objects_may_travel_without_a_secret(tmp_path):
    first, second = run(body_pickle, 2, tmp_path)
    assert HANDED_OUT in first and HANDED_OUT not in second
