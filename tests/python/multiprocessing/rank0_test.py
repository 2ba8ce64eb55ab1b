"""Helpers of rank 0, and the library's remarks in `logging`."""

import logging
import sys
import time

import pytest

import ranks
import stacks
import tutti
import tutti.distributed as dist
from tutti import log, rank0

LIMIT = 30.0


def talk():
    rank0.print("hello from", dist.get_rank())
    return rank0.rank(), rank0.world_size(), rank0.is_rank0(), rank0.only(lambda: "done")()


def first(path):
    with rank0.first() as ours:
        if ours:
            time.sleep(0.1)
            with open(path, "x", encoding="utf-8") as file:
                file.write("data")
        with open(path, encoding="utf-8") as file:
            return ours, file.read()


def bars():
    bar = rank0.progress(range(3), file=open("/dev/null", "w", encoding="utf-8"))
    hidden = bar.disable  # it says so only until the end
    return list(bar), hidden


def records():
    heard, handler = [], logging.Handler()
    handler.emit = lambda record: heard.append((record.rank, record.world_size, record.getMessage()))
    logger = rank0.logger("job")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.info("started")
    logger.error("wrong")
    assert rank0.logger("job").filters == logger.filters  # asked twice, filtered once
    return heard


def test_rank_0_alone_prints_and_calls(capfd):
    results = dist.run(talk, 2, start_method="fork")
    assert results == [(0, 2, True, "done"), (1, 2, False, None)]
    assert capfd.readouterr().out.splitlines() == ["hello from 0"]


def test_rank_0_goes_first(tmp_path):
    assert dist.run(first, 3, args=(str(tmp_path / "data"),), start_method="fork") == [(True, "data")] + [(False, "data")] * 2


def test_bars_are_shown_once():
    pytest.importorskip("tqdm", reason="tqdm, an extra, is not installed")
    assert dist.run(bars, 2, start_method="fork") == [([0, 1, 2], False), ([0, 1, 2], True)]


def test_without_tqdm_it_is_the_plain_loop(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert list(rank0.progress([1, 2])) == [1, 2]
    with pytest.raises(ImportError, match="pip install tqdm"):
        rank0.progress()


def test_records_know_their_rank_and_others_are_quiet():
    assert dist.run(records, 2, start_method="fork") == [[(0, 2, "started"), (0, 2, "wrong")], [(1, 2, "wrong")]]


def test_without_a_world_the_environment_counts(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert (rank0.rank(), rank0.world_size(), rank0.is_rank0()) == (3, 4, False)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert (rank0.rank(), rank0.world_size(), rank0.is_rank0()) == (0, 1, True)
    with rank0.first() as ours:
        assert ours


def test_a_world_installs_it_once():
    source = """
from tutti import log
import tutti.distributed as dist
assert not log._installed
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
assert log._installed
"""
    stacks.said("-c", source)


def test_a_world_leaves_the_level_alone(monkeypatch):
    monkeypatch.delenv("TUTTI_LOG_LEVEL", raising=False)
    source = """
import logging, queue, subprocess, sys
import tutti
from tutti import log
heard = queue.Queue()
logger = logging.Logger("mine", logging.INFO)
handler = logging.Handler()
handler.emit = heard.put
logger.addHandler(handler)
log.install(logger, tutti.LogLevel.INFO)
with tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1):
    pass
store = tutti.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
source = f"import os, tutti; s = tutti.TCPStore('127.0.0.1', {store.port}); os.kill(os.getpid(), 9)"
subprocess.run([sys.executable, "-c", source], check=False)
while "has lost user" not in (record := heard.get(timeout=20)).getMessage():  # behind the lines of the job and its group
    pass
assert record.levelno == logging.INFO
"""
    stacks.said("-c", source)


WARNS = """
import sys
from datetime import timedelta
import tutti, tutti.distributed as dist
from tutti import log
if sys.argv[1] == "removed":
    log.remove()
for _ in range(2):
    if sys.argv[1] == "dist":
        dist.init_process_group(timeout=timedelta(seconds=20))
        dist.destroy_process_group()
    else:
        tutti.init_process_group(timeout=20).close()
"""


@pytest.mark.parametrize("way, times", [("core", 1), ("dist", 1), ("removed", 0), ("error", 0), ("secret", 0), ("key", 0)])
def test_a_job_without_a_secret_warns_once(way, times, tmp_path, monkeypatch):
    for name in ("MASTER_ADDR", "TUTTI_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)  # rank 0 then serves on all addresses
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_PORT", str(ranks.free_port()))):
        monkeypatch.setenv(name, value)
    if way != "key":
        monkeypatch.setenv("TUTTI_INSECURE", "1")
    if way == "error":
        monkeypatch.setenv("TUTTI_LOG_LEVEL", "error")
    if way == "secret":
        monkeypatch.setenv("TUTTI_SECRET_FILE", str(ranks.secret_in(tmp_path)))
    done = stacks.run([sys.executable, "-c", WARNS, way], LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("anybody who reaches this port can join, read and change data") == times, done.stderr
    assert done.stderr.count("\n") == times, done.stderr


def test_levels_are_loggings():
    assert set(log._LEVELS) == set(tutti.LogLevel) - {tutti.LogLevel.OFF}
    assert [log._LEVELS[level] for level in sorted(log._LEVELS)] == [10, 20, 30, 40]
