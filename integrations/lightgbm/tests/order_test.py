"""Sums have the bits that LightGBM's own sockets give them."""

import pathlib

import pytest

import ranks

SETUP = f"""
import sys
sys.path[:0] = [{str(pathlib.Path(__file__).parent)!r}]
from model import *
import tutti.lightgbm
"""


def without_info(said):
    """Without the lines of LightGBM, which has no parameter yet when its network begins. Its threads may write the ends
    of two lines together."""
    return ["\n".join(line for line in text.splitlines() if line and not line.startswith("[LightGBM]")) for text in said]


def on_tutti(size, folder, *trains):
    """The ranks' lines about models, one for each. Each of `trains` has the parameters `given`."""
    body = "with tutti.lightgbm.network(world) as given:" + "".join(f"\n    say(said({train}))" for train in trains)
    return without_info(ranks.run(SETUP + body, size, folder))


def on_sockets(size, folder, *trains):
    """The same on LightGBM's own sockets."""
    body = ""
    for train in trains:
        ports = [ranks.free_port() for _ in range(size)]
        body += f"""
given = {{"num_machines": {size}, "machines": "{','.join(f'127.0.0.1:{port}' for port in ports)}",
         "local_listen_port": {ports}[RANK], "time_out": 1, "tree_learner": "data"}}
model = {train}
say(said(model))
model.free_network()
"""
    return without_info(ranks.run(SETUP + body, size, folder, init=False))


def predictions(said):
    """The digests of each rank."""
    return [[line.split()[0] for line in text.splitlines()] for text in said]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
def test_models_equal_those_of_sockets(size, tmp_path):
    trains = [f"train({{**given, **MODES[{mode!r}]}}, dataset(RANK))" for mode in ("data", "quantized", "voting")]
    ours, theirs = on_tutti(size, tmp_path, *trains), on_sockets(size, tmp_path, *trains)
    assert predictions(ours) == predictions(ours)[:1] * size
    assert predictions(ours) == predictions(theirs)
    for one, other in zip(ours, theirs, strict=True):  # the trees, but for voting: each rank's differ there, on sockets too
        assert one.splitlines()[:2] == other.splitlines()[:2]


# Without this the tests above could pass in any order. With 2 ranks there is but one.
@pytest.mark.parametrize("order", [[1, 2, 0], [0, 2, 1, 3]])
def test_another_order_gives_other_bits(order, tmp_path):
    size = len(order)
    usual = on_sockets(size, tmp_path, "train(given, dataset(RANK))")
    other = on_tutti(size, tmp_path, f"train(given, dataset({order}[RANK]))")
    assert predictions(usual) != predictions(other)


# 3 ranks add in a ring there, 4 do not.
@pytest.mark.parametrize("size", [3, 4])
def test_histograms_above_10_mib_are_added_in_the_order_of_sockets(size, tmp_path):
    train = "train({**given, 'num_leaves': 5}, dataset(RANK, WIDE), rounds=2)"
    ours, theirs = on_tutti(size, tmp_path, train), on_sockets(size, tmp_path, train)
    assert predictions(ours) == predictions(ours)[:1] * size
    assert ours == theirs
