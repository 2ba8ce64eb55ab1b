"""What a group's object has besides operations."""

import pytest

from init_programs import run


def test_a_timeout_holds_from_then_on_and_here_alone(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=limit)
        g, h = dist.new_group(), dist.new_group()
        work = dist.irecv(np.zeros(1), 1 - RANK, g)
        if RANK == 0:
            g.set_timeout(datetime.timedelta(seconds=0.3))
            assert g.timeout == datetime.timedelta(seconds=0.3)
            assert h.timeout == dist.default_pg_timeout
            begin = time.monotonic()
            raises(TimeoutError, "0.3", lambda: dist.all_reduce(np.ones(2), group=g))
            assert 0.2 < time.monotonic() - begin < 10
        else:
            assert g.timeout == dist.default_pg_timeout
        for wrong in (datetime.timedelta(0), datetime.timedelta(seconds=-1)):
            raises(ValueError, "the timeout must be positive", lambda: h.set_timeout(wrong))
        for wrong in (True, None, "3"):
            raises(TypeError, "timedelta", lambda: h.set_timeout(wrong))
        dist.barrier(h)
    """, 2, tmp_path)


@pytest.mark.parametrize("way", ["env", "tcp", "file", "store"])
def test_every_world_has_a_store(way, tmp_path):
    run(f"""
        port = os.environ["MASTER_PORT"]
        how = dict(tcp=dict(init_method=f"tcp://127.0.0.1:{{port}}"), file=dict(init_method=f"file://{{FOLDER}}/rendezvous"),
                   env={{}}, store={{}})[{way!r}]
        if {way!r} == "store":
            how = dict(store=dist.TCPStore("127.0.0.1", int(port), SIZE, RANK == 0, limit))
        for world in range(1 if {way!r} == "tcp" else 2):
            dist.init_process_group("gloo", rank=RANK, world_size=SIZE, timeout=limit, **how)
            g = dist.new_group(group_desc="all")
            shared = g.get_group_store()
            assert not shared.check(["key"])  # not what an earlier world has left
            dist.barrier()
            shared.set(f"key{{RANK}}", f"of {{RANK}}")
            assert [shared.get(f"key{{r}}") for r in range(SIZE)] == [f"of {{r}}".encode() for r in range(SIZE)]
            assert not dist.group.WORLD.get_group_store().check(["key0"])
            shared.set("key", "")
            raises(TimeoutError, "nothing", lambda: shared.wait(["nothing"], 0.05))
            dist.barrier()
            dist.destroy_process_group()
            raises(ValueError, "not been initialized", g.get_group_store)
    """, 3, tmp_path)


def test_parts_of_a_group(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=limit)
        g = dist.new_group([3, 1, 0], sort_ranks=False)
        if RANK == 2:
            assert g == dist.GroupMember.NON_GROUP_MEMBER
        else:
            mine = g.split_group([2, 0] if RANK != 1 else [1], group_desc="some")
            assert mine.ranks == ([1] if RANK == 1 else [3, 0]), mine.ranks
            assert mine.group_desc == "some" and dist.get_backend(mine) == "gloo"
            check(mine, 1 if RANK == 1 else 2)
            assert g.split_group([1]).group_name == f"{g.group_name}:split:[1]_1" if RANK == 1 else not g.split_group([1])
            # Members that give different lists; ranks that are in none go on.
            begin = time.monotonic()
            if RANK == 1:
                assert g.split_group([0]) is None
            else:
                raises(tutti.DisagreementError, "have given lists that begin with 0",
                       lambda: g.split_group([0, 2] if RANK == 3 else [0, 1, 2]))
                assert time.monotonic() - begin < 10
            for wrong, text in (([], "cannot be empty"), ([0, 0], "duplicates"), ([3], "0 to 2"), ([-1], "0 to 2")):
                raises(ValueError, text, lambda: g.split_group(wrong))
                raises(RuntimeError, text, lambda: g.split_group(wrong))
        dist.barrier()
    """, 4, tmp_path)


def test_groups_of_different_worlds_become_one(tmp_path):
    run("""
        # Two worlds of two ranks, which have nothing in common but a file.
        side, own = divmod(RANK, 2)
        dist.init_process_group("gloo", f"file://{FOLDER}/world{side}", rank=own, world_size=2, timeout=limit)
        store = dist.FileStore(os.path.join(FOLDER, "shared"))
        for turn in range(2):
            both = dist.group.WORLD.merge_remote_group(dist.PrefixStore(f"turn {turn}", store), 4, limit)
            assert both.size() == 4 and both.rank() % 2 == own  # side by side, each in its order
            check(both)
            told = [None] * 4
            dist.all_gather_object(told, (side, own), both)
            assert told in ([(0, 0), (0, 1), (1, 0), (1, 1)], [(1, 0), (1, 1), (0, 0), (0, 1)])
            dist.broadcast(y := np.full(1, both.rank()), 3, group=both)
            assert y[0] == 3
            dist.destroy_process_group(both)
        raises(ValueError, "have come to",
               lambda: dist.group.WORLD.merge_remote_group(dist.PrefixStore("turn 0", store), 4, limit))
        raises(ValueError, "this group has 2", lambda: dist.group.WORLD.merge_remote_group(store, 1))
        raises(TypeError, "store is a Store", lambda: dist.group.WORLD.merge_remote_group("here", 4))
        raises(TypeError, "timedelta", lambda: dist.group.WORLD.merge_remote_group(store, 4, "5"))
        dist.barrier()
    """, 4, tmp_path)


def test_ranks_are_whole_numbers(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=limit)
        pg = dist.group.WORLD
        makers = (dist.new_group, lambda ranks: dist.new_subgroups_by_enumeration([ranks]), pg.split_group,
                  lambda ranks: dist.split_group(split_ranks=[ranks]))
        for make in makers:
            for wrong, text in (("01", "as a list, not as '01'"), (1, "as a list, not as 1"), ([0.5], "0.5 is no rank"),
                                (["0"], "'0' is no rank"), ([None], "None is no rank"), ([[0, 1]], "[0, 1] is no rank"),
                                ([0, True], "True is no rank")):
                raises(TypeError, text, lambda: make(wrong))
        for wrong in (3, "01"):
            raises(TypeError, "split_ranks is a list of lists of ranks", lambda: dist.split_group(split_ranks=wrong))
            raises(TypeError, "is a list of lists of ranks", lambda: dist.new_subgroups_by_enumeration(wrong))
        raises(TypeError, "group_size is 1.0; it is a whole number", lambda: dist.new_subgroups(1.0))
        for right in (np.arange(2), range(2), (rank for rank in range(2)), (np.int64(0), 1)):
            assert dist.new_group(right).ranks == [0, 1]
        _, both = dist.new_subgroups_by_enumeration([np.array([1]), iter([0])])
        assert len(both) == 2
        # The module that programs reach into needs no import of its own.
        assert dist.distributed_c10d._get_default_group() is pg
        raises(AttributeError, "has no attribute 'distributed_c11d'", lambda: dist.distributed_c11d)
    """, 2, tmp_path)


def test_what_is_no_number_is_refused_at_the_call(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=limit)
        x = np.ones(2)
        for wrong, kind, text in ((2, TypeError, "mesh_shape is 2"), ((2.0,), TypeError, "2.0, which is no whole number"),
                                  ((-1,), ValueError, "mesh_shape has -1"), ((-2, -1), ValueError, "mesh_shape has -2"),
                                  ((0,), ValueError, "mesh_shape has 0")):
            raises(kind, text, lambda: dist.init_device_mesh("cpu", wrong))
        for splits in ([1.0, 1.0], "11"):
            raises(TypeError, "it must be a whole number", lambda: dist.all_to_all_single(x.copy(), x, splits, splits))
        for wrong in ("a", [1, 2], None, True):
            raises(TypeError, "a number or an array", lambda: dist.premul_sum(wrong))
        raises(TypeError, "made by init_process_group and new_group", lambda: dist.ProcessGroup(dist.HashStore(), 0, 1))
        # Rows that overlap: small ones came out right.
        rows = np.lib.stride_tricks.as_strided(np.ones(100_001), (2, 100_000), (8, 8))
        raises(ValueError, "several elements share memory", lambda: dist.all_reduce(rows))
        dist.broadcast(x, group_src=np.int64(0))
        for factor in (2, 0.5, np.float64(2), np.ones(2)):
            dist.all_reduce(x, dist.premul_sum(factor))
    """, 2, tmp_path)
