"""Public names: docs/reference/torch-names.md names every one of torch.distributed, and tells the truth about them. And those that
programs reach into: distributed_c10d's own, `record`."""

import json
import pathlib
import re
import sys
import types

import pytest

import tutti.distributed as dist
from init_programs import run
from tutti.distributed.elastic.multiprocessing.errors import record

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/reference/torch-names.md").read_text(encoding="utf-8")


def first_columns(text):
    for row in re.findall(r"^\| (`.*?`[^|]*)\|", text, re.MULTILINE):
        yield from re.findall(r"`(\w+)`", row)


HERE = list(first_columns(PAGE[:PAGE.index("## Not here")]))
NOT_HERE = list(first_columns(PAGE[PAGE.index("## Not here"):PAGE.index("## Beside")]))


def test_what_is_here_is_here():
    assert len(HERE) > 90 and len(set(HERE)) == len(HERE)
    assert [name for name in HERE if not hasattr(dist, name)] == []
    assert [name for name in NOT_HERE if hasattr(dist, name)] == []


def test_all_is_all():
    """The list that `import *` and type checkers read is written out: it must hold every public name."""
    public = {name for name, value in vars(dist).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    assert sorted(public) == dist.__all__


@pytest.mark.torch
def test_nothing_of_torch_is_forgotten():
    import torch.distributed as torch
    public = {name for name in dir(torch) if not name.startswith("_") and not isinstance(getattr(torch, name), types.ModuleType)}
    assert public - set(HERE) - set(NOT_HERE) == set()
    assert [name for name in HERE if not hasattr(torch, name)] == []


def test_a_group_beside_the_world(tmp_path):
    """As trainers make one with their inference engines: all that come to a store, under a name."""
    run("""
        from tutti.distributed.distributed_c10d import (_get_default_group, _new_process_group_helper, _world,
                                                        default_pg_timeout)
        from tutti.distributed.rendezvous import rendezvous
        if RANK < 2:  # rank 2 is in no world
            dist.init_process_group("gloo", f"file://{FOLDER}/world", rank=RANK, world_size=2)
        url = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
        store, rank, size = next(rendezvous(url, RANK, SIZE, timeout=limit))
        store = dist.PrefixStore("weights", store)
        pg, part = _new_process_group_helper(size, rank, [], "gloo", store, group_name="weights",
                                             backend_options=None, timeout=limit)
        _world.pg_group_ranks[pg] = {i: i for i in range(size)}
        x = np.full(3, RANK)
        if RANK < 2:
            dist.broadcast(x, 0)  # in the world
            assert x[0] == 0 and dist.get_world_size() == 2 and _get_default_group() is dist.group.WORLD
            assert dist.get_process_group_ranks(pg) == [0, 1, 2] and pg.group_name == "weights"
            x[:] = RANK
            dist.all_reduce(x, group=pg)
            assert x[0] == 3 and dist.get_world_size(pg) == 3
            assert _world.pg_group_ranks[pg] == {0: 0, 1: 1, 2: 2} and dist.get_backend_config(pg) == "cpu:gloo"
            raises(ValueError, "each once", lambda: _world.pg_group_ranks.__setitem__(pg, {0: 0, 1: 0}))
            raises(KeyError, "", lambda: _world.pg_group_ranks[3])
        else:
            assert not dist.is_initialized()
            pg.allreduce([x]).wait()
            assert x[0] == 3
        part.set(f"key{RANK}", "here")
        assert part.get("key2") == b"here"
        pg.barrier().wait()
        if RANK < 2:
            dist.destroy_process_group(pg)
            raises(ValueError, "destroyed", lambda: dist.all_reduce(x, group=pg))
            dist.barrier()
        else:
            pg.shutdown()
    """, 3, tmp_path)


def test_record(tmp_path, monkeypatch):
    told = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(told))

    @record
    def main(number):
        if number == 0:
            raise KeyError("gone")
        sys.exit(number - 1)

    with pytest.raises(KeyError):
        main(0)
    message = json.loads(told.read_text())["message"]
    assert message["message"] == "KeyError: 'gone'" and "in main" in message["extraInfo"]["py_callstack"]
    with pytest.raises(KeyError):  # the first one stays
        main(0)
    assert main(1) is None and main.__name__ == "main"
    with pytest.raises(SystemExit):
        main(2)

    seen = []
    handler = types.SimpleNamespace(initialize=lambda: seen.append("begin"),
                                    record_exception=lambda error: seen.append(type(error)))
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0, handler)()
    assert seen == ["begin", ZeroDivisionError]
