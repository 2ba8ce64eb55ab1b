"""The same over TCP, between two hosts."""

import re
import sys

import pytest

import stacks
import two_hosts
from order_test import SETUP

BEGIN = f"""
import os, time
import tutti
{SETUP}
RANK = int(os.environ["RANK"])
world = tutti.init_process_group(timeout=20)

def say(text):
    os.write(1, f"\\nrank {{RANK}}: {{text}}\\n".encode())
"""


def on_two_hosts(body, size):
    """The lines that ranks say, by rank."""
    command = two_hosts.command(size, sys.executable, "-c", BEGIN + body)
    if command is None:
        pytest.skip(two_hosts.REASON)
    said = stacks.output(command, 60, env=two_hosts.environment(OPENBLAS_NUM_THREADS="1"))
    return [re.findall(rf"^rank {rank}: (.*)$", said, re.MULTILINE) for rank in range(size)]


@pytest.mark.parametrize("size", [2, 3])
def test_models_equal_those_of_sockets_between_hosts(size):
    said = on_two_hosts(f"""
with tutti.lightgbm.network(world) as given:
    for mode in MODES.values():
        say("ours " + said(train({{**given, **mode}}, dataset(RANK))).split()[0])
for number, mode in enumerate(MODES.values()):
    machines = ",".join(f"10.78.0.{{rank % 2 + 1}}:{{12400 + 10 * number + rank}}" for rank in range({size}))
    model = train({{"machines": machines, "local_listen_port": 12400 + 10 * number + RANK, "num_machines": {size}, "time_out": 1,
                   **mode}}, dataset(RANK))
    say("theirs " + said(model).split()[0])
    model.free_network()
""", size)
    assert said == said[:1] * size
    ours, theirs = ([line.split()[1] for line in said[0] if line.startswith(which)] for which in ("ours", "theirs"))
    assert len(set(ours)) == 3 and ours == theirs


def test_a_rank_that_dies_on_the_other_host_is_named_within_a_second(tmp_path):
    said = on_two_hosts(f"""
def die(env):
    if RANK == 1 and env.iteration == 3:
        open("{tmp_path}/time", "w").write(str(time.monotonic()))
        os._exit(0)     # without a word to the others; two_hosts expects the status
die.before_iteration = True
with tutti.lightgbm.network(world) as given:
    data = dataset(RANK).construct()
    try:
        train(given, data, callbacks=[die])
    except LightGBMError as problem:
        took = time.monotonic() - float(open("{tmp_path}/time").read())
        say(f"{{took < 1}} {{problem}}")
""", 2)
    assert said[0][0].startswith("True ") and "rank 1" in said[0][0] and said[1] == []
