"""Public names: docs/reference/torch-names.md names every one of torch.distributed, and tells the truth about them. And those that
programs reach into: distributed_c10d's own, functional collectives, `record`."""

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
            assert x[0] == 0 and dist.get_world_size() == 2 and _world.default_pg is dist.group.WORLD
            assert dist.get_process_group_ranks(pg) == [0, 1, 2] and _world.pg_names[pg] == "weights"
            x[:] = RANK
            dist.all_reduce(x, group=pg)
            assert x[0] == 3 and dist.get_world_size(pg) == 3
            assert _get_default_group() is _world.default_pg and _world.group_count == 1
            assert _world.pg_backend_config[pg] == "cpu:gloo" and _world.pg_map[pg][0] == "gloo"
        else:
            assert _world.default_pg is None and not dist.is_initialized()
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


def test_the_record_of_groups(tmp_path):
    run("""
        from tutti.distributed import distributed_c10d as c10d
        dist.init_process_group("gloo")
        g = dist.new_group([1, 0], group_desc="both")
        assert c10d._world.pg_group_ranks[g] == {0: 0, 1: 1} and set(c10d._world.pg_names.values()) == {"0", "1"}
        assert c10d._find_pg_by_ranks_and_tag("", [0, 1]) is dist.group.WORLD
        assert c10d._find_pg_by_ranks_and_tag(c10d._get_group_tag(g), [1, 0]) is g
        assert c10d._find_pg_by_ranks_and_tag("other", [0]) is None
        assert [info["pg_desc"] for info in c10d._world.pg_config_info] == ["default_pg", "both"]
        raises(KeyError, "", lambda: c10d._world.pg_group_ranks[3])
        raises(ValueError, "each once", lambda: c10d._world.pg_group_ranks.__setitem__(g, {0: 0, 1: 0}))
        c10d._update_default_pg(g)
        assert dist.group.WORLD is g and c10d._world.default_pg is g
        c10d._world.default_pg = c10d._resolve_process_group("0")
        assert dist.get_backend() == "gloo" and dist.group.WORLD.group_name == "0"
        assert str(c10d._get_pg_default_device(g)) == "cpu" == c10d._get_object_coll_device(g)
        store = c10d._get_default_store()
        store.set_timeout(limit)
        c10d._store_based_barrier(RANK, store, "x", SIZE, limit)
        if RANK == 0:
            raises(dist.DistStoreError, "last_worker", lambda: c10d._store_based_barrier(
                RANK, store, "y", SIZE, datetime.timedelta(seconds=0.1)))
        raises(TypeError, "timedelta", lambda: c10d._check_valid_timeout("3"))
        c10d._unregister_process_group(g.group_name)
        raises(ValueError, "destroyed", lambda: dist.barrier(g))
        raises(RuntimeError, "Could not resolve", lambda: c10d._resolve_process_group(g.group_name))
        assert c10d.default_pg_nccl_timeout == datetime.timedelta(minutes=10)
        with c10d._coalescing_manager() as manager:
            assert isinstance(manager, c10d._CoalescingManager)
        assert c10d._all_gather_base is dist._all_gather_base
    """, 2, tmp_path)


@pytest.mark.torch
def test_functional_collectives(tmp_path):
    run("""
        import torch
        import tutti.distributed._functional_collectives as funcol
        from tutti.distributed.distributed_c10d import _object_to_tensor, _tensor_to_object
        dist.init_process_group("gloo")
        world, mesh = dist.group.WORLD, dist.init_device_mesh("cpu", (SIZE,), mesh_dim_names=("x",))
        mine = torch.arange(4.).reshape(2, 2) + 10 * RANK
        every = [torch.arange(4.).reshape(2, 2) + 10 * r for r in range(SIZE)]
        before = mine.clone()
        for group in (world, mesh, (mesh, 0), list(range(SIZE)), [list(range(SIZE))], world.group_name):
            assert torch.equal(funcol.wait_tensor(funcol.all_reduce(mine, "sum", group)), sum(every))
        assert torch.equal(funcol.all_reduce(mine.t(), "max", world), every[-1].t())
        assert torch.equal(funcol.broadcast(mine, 1, world), every[1])
        for dim in (0, 1):
            assert torch.equal(funcol.all_gather_tensor(mine, dim, world), torch.cat(every, dim))
            part = funcol.reduce_scatter_tensor(mine, "sum", dim, world)
            assert torch.equal(part, sum(every).chunk(SIZE, dim)[RANK])
        assert [x.tolist() for x in funcol.all_reduce_coalesced([mine, mine[0]], "sum", world)] == [
            sum(every).tolist(), sum(every)[0].tolist()]
        assert torch.equal(funcol.all_gather_into_tensor_coalesced([mine], world)[0], torch.cat(every))
        assert torch.equal(funcol.reduce_scatter_tensor_coalesced([mine], "sum", [0], world)[0], sum(every)[RANK:RANK + 1])
        assert torch.equal(funcol.all_to_all_single(mine, None, None, world), torch.stack([e[RANK] for e in every]))
        assert torch.equal(funcol.all_to_all_single(mine, [1, 1], [1, 1], world), torch.stack([e[RANK] for e in every]))
        assert torch.equal(funcol.permute_tensor(mine, [1, 0], world), every[1 - RANK])
        assert torch.equal(mine, before) and not isinstance(mine, funcol.AsyncCollectiveTensor)
        raises(ValueError, "no group of the ranks", lambda: funcol.all_reduce(mine, "sum", [0]))
        raises(ValueError, "no reduce operation", lambda: funcol.all_reduce(mine, "mode", world))
        raises(ValueError, "Invalid type for group", lambda: funcol.all_reduce(mine, "sum", 3))
        raises(ValueError, "must be a multiple", lambda: funcol.reduce_scatter_tensor(mine[:1], "sum", 0, world))
        raises(ValueError, "each rank of the group once", lambda: funcol.permute_tensor(mine, [0, 0], world))
        data, size = _object_to_tensor({"rank": RANK}, "cpu", None)
        dist.broadcast(size, 0)
        dist.broadcast(data, 0)
        assert _tensor_to_object(data, size, None) == {"rank": 0}
        assert dist._functional_collectives is funcol and dist.rendezvous.__name__ == "rendezvous"
    """, 2, tmp_path)


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
