"""Engines by name: those that are not here, and those of one's own."""

import pytest

from init_programs import run


def test_engines_that_are_not_here(tmp_path):
    run("""
        os.environ["TUTTI_MPI_LIBRARY"] = "/nowhere/libmpi.so"
        assert not dist.is_mpi_available() and "mpi" not in tutti.available_backends()
        for text in ("MPI built in", "TUTTI_MPI_LIBRARY=/nowhere/libmpi.so cannot be used"):
            raises(RuntimeError, text, lambda: dist.init_process_group("mpi"))
        if not dist.is_nccl_available():
            for name in ("NCCL", "cpu:tutti,cuda:nccl"):
                raises(RuntimeError, "NCCL built in", lambda: dist.init_process_group(name))
        from tutti.distributed.backend import BackendConfig
        for name in ("cpu:tutti,cuda:nccl", "cuda:nccl,cpu:gloo"):
            assert BackendConfig(name).engine() == "cpu:native,cuda:nccl"
        assert BackendConfig("cuda:nccl").engine() == "nccl"
        assert "no device 'tpu'" in tutti._tutti.why_unavailable("cpu:native,tpu:nccl")
        raises(ValueError, "Unknown backend type foo", lambda: dist.init_process_group("foo"))
        raises(AssertionError, "Unknown backend type foo", lambda: dist.init_process_group("cpu:foo"))
        raises(ValueError, "invalid", lambda: dist.init_process_group("cpu:gloo:x"))
        for url, rank, text in (("tpc://127.0.0.1:1", 0, "in 'tpc://127.0.0.1:1'; there are env://, tcp://, file://"),
                                ("127.0.0.1:1", 0, "in '127.0.0.1:1'; there are"),
                                ("tcp://127.0.0.1:1", "0", "`rank` must be an integer. 0")):
            raises(RuntimeError, text, lambda: dist.init_process_group("gloo", url, rank=rank, world_size=1))
        raises(RuntimeError, "serves tensors on cpu and cuda, not on 'xpu'", lambda: dist.init_process_group("xpu:gloo"))
        raises(RuntimeError, "serves tensors on cpu, not on 'cuda'", lambda: dist.init_process_group("cuda:mpi"))
        assert not dist.is_initialized()
        for name in ("native", "tutti", "cpu:gloo", "cuda:gloo", "cpu:gloo,cuda:tutti", None):
            dist.init_process_group(name)
            assert dist.get_backend() == (name or "undefined")
            dist.destroy_process_group()
    """, 1, tmp_path)


def test_maps_that_no_world_keeps(tmp_path):
    run("""
        from tutti.distributed import backend
        dist.Backend.register_backend("tapir", lambda *_: 1 / 0, devices=["cpu", "cuda"])
        for name, engine in {"nccl": "nccl", "NCCL": "nccl", "mpi": "mpi", "cpu:mpi": "mpi", "gloo": "native",
                             "cuda:gloo": "native", "cpu:tutti,cuda:gloo": "native", "auto": "auto", "cpu:auto": "auto",
                             "tapir": "tapir", "cuda:tapir": "tapir", "xpu:tapir,cpu:tapir": "tapir"}.items():
            assert backend.BackendConfig(name).engine() == engine, name
        # A device that the engine does not serve is told where the engine is missing, too.
        for name in ("cpu:nccl", "cpu:nccl,cuda:gloo", "cpu:nccl,cuda:nccl"):
            raises(RuntimeError, f"backend {name!r}: 'nccl' serves tensors on cuda, not on 'cpu'; use \\"cuda:nccl\\"",
                   lambda: dist.init_process_group(name))
        raises(RuntimeError, "'mpi' serves tensors on cpu, not on 'cuda'; use \\"cpu:mpi\\"",
               lambda: dist.init_process_group("cpu:gloo,cuda:mpi"))
        backend.is_backend_available = lambda name: True  # on any machine
        for name in ("cpu:mpi,cuda:nccl", "cpu:auto,cuda:nccl", "cpu:gloo,cuda:tapir", "cuda:nccl,cpu:tapir",
                     "cpu:gloo,cuda:nccl,xpu:tapir", "cpu:mpi,cuda:gloo"):
            raises(RuntimeError, f"backend '{name}': no world has these engines together",
                   lambda: dist.init_process_group(name, timeout=limit))
            raises(RuntimeError, "no world has these engines together", backend.BackendConfig(name).engine)
        assert not dist.is_initialized()
        dist.init_process_group("gloo")
        raises(RuntimeError, "no world has these engines together", lambda: dist.new_group([0], backend="cpu:mpi,cuda:nccl"))
        dist.destroy_process_group()
    """, 1, tmp_path)


def test_one_list_of_engines(tmp_path):
    run("""
        def make(store, rank, size, timeout, backend="native"):
            told.append(size)
            seen[:] = [rank, timeout]
            return tutti.init_process_group(store=store, rank=rank, world_size=size, timeout=timeout, backend=backend)
        told, seen = [], []
        here = tutti.available_backends()  # mpi, too, where there is one
        assert here[0] == "native" and "tapir" not in here and not tutti.is_available("tapir")
        dist.Backend.register_backend("Tapir", make, devices="cpu")
        assert tutti.available_backends() == [*here, "tapir"]
        assert tutti.is_available("TAPIR") and dist.is_backend_available("tapir")
        assert dist.Backend("TAPIR") == "tapir" == dist.Backend.TAPIR
        assert dist.is_mpi_available() == ("mpi" in here) == (tutti._tutti.why_unavailable("mpi") == "")
        raises(tutti.InvalidArgument, "already", lambda: tutti.register_backend("tapir", make))
        dist.Backend.register_backend("tapir", make, devices="cpu")  # a cell of a notebook, run again
        for name in ("gloo", "nccl"):
            raises(RuntimeError, "exists", lambda: dist.Backend.register_backend(name, make))
        raises(TypeError, "callable", lambda: dist.Backend.register_backend("zebra", 3))
        raises(tutti.InvalidArgument, "one line", lambda: dist.Backend.register_backend("a\\nb", make))
        with tutti.init_process_group(backend="tapir", timeout=20) as world:  # without torch's words
            x = np.full(3, RANK + 1)
            world.all_reduce(x)
            assert (x == 3).all() and told == [2] and world.name == "world" and world.backend == "tapir"
            work = world.all_reduce(x, async_op=True)
            part = world.new_group([1, 0])
        work.wait()  # longer than the world
        part.all_reduce(x)
        assert (x == 12).all() and part.backend == "tapir"
        del part, work  # or the store would still be served at this port
        dist.init_process_group("tapir", timeout=limit)
        assert dist.get_backend() == "tapir" and told.pop() == 2 and seen == [RANK, limit]
        check()
        dist.barrier()
        dist.destroy_process_group()
        # The environment counts where the program says nothing.
        os.environ["TUTTI_BACKEND"] = "tapir"
        dist.init_process_group(timeout=limit)
        assert dist.get_backend() == "tapir" and told == [2, 2]
        check()
        g = dist.new_group([0, 1], use_local_synchronization=True)
        assert dist.get_backend(g) == "tapir" and told == [2, 2, 2]
        dist.destroy_process_group()
        dist.init_process_group("gloo", timeout=limit)
        assert dist.get_backend() == "gloo" and len(told) == 3
        check()
        check(g := dist.new_group([0, 1], use_local_synchronization=True))
        assert dist.get_backend(g) == "gloo" and len(told) == 3
        dist.barrier()
        dist.destroy_process_group()
        dist.Backend.register_backend("again", lambda *options: make(*options, None), devices="cpu")
        os.environ["TUTTI_BACKEND"] = "again"  # which the function does not look at
        raises(ValueError, "itself (TUTTI_BACKEND may say so)", lambda: dist.init_process_group(timeout=limit))
        os.environ["TUTTI_BACKEND"] = "zebra"
        raises(ValueError, "Unknown backend type zebra; known are gloo, native, tutti, mpi, tapir, again",
               lambda: dist.init_process_group(timeout=limit))
        with tutti.init_process_group(backend="GLOO", timeout=20) as world:
            assert world.backend == "native"
    """, 2, tmp_path)


def test_who_names_another_engine_is_told(tmp_path):
    run("""
        dist.Backend.register_backend("tapir", lambda *_: 1 / 0, devices="cpu")
        begin = time.monotonic()
        raises(tutti.DisagreementError, "'tapir'",
               lambda: dist.init_process_group("tapir" if RANK else "gloo", timeout=limit))
        assert time.monotonic() - begin < 19
        dist.init_process_group("gloo", timeout=limit, group_name="again")
        # An error of the function is raised where it was; the others wait in theirs.
        def make(store, rank, size, timeout):
            if rank == 1:
                raise KeyError("no such card")
            return tutti.init_process_group(store=store, rank=rank, world_size=size, timeout=timeout)
        dist.Backend.register_backend("tapir", make, devices="cpu")
        raises(*((KeyError, "no such card") if RANK == 1 else (TimeoutError, "rank 1")),
               lambda: dist.new_group([0, 1, 2], datetime.timedelta(seconds=1), backend="tapir"))
        check()
        dist.barrier()
    """, 3, tmp_path)


@pytest.mark.parametrize("own_world", [True, False])
def test_groups_of_engines_of_ones_own(own_world, tmp_path):
    run(f"""
        told = []
        def make(options, pg_options):
            told.append((options.group_rank, options.group_size, options.global_ranks_in_group, pg_options))
            return tutti.init_process_group(store=options.store, rank=options.group_rank,
                                            world_size=options.group_size, timeout=options.timeout)
        dist.Backend.register_backend("tapir", make, extended_api=True, devices="cpu")
        dist.init_process_group("tapir" if {own_world} else "gloo", timeout=limit)
        told.clear()
        group = dist.new_group([0, 2], limit, backend=None if {own_world} else "tapir", pg_options="mine")
        if RANK == 1:
            assert group == dist.GroupMember.NON_GROUP_MEMBER and not told
        else:
            assert told == [(RANK // 2, 2, [0, 2], "mine")] and dist.get_backend(group) == "tapir"
            check(group, 2)
        told.clear()
        mine, _ = dist.new_subgroups_by_enumeration([[1], [0, 2]], limit, backend="tapir")
        assert told == [(0, 1, [1], None) if RANK == 1 else (RANK // 2, 2, [0, 2], None)]
        assert dist.get_world_size(mine) == (1 if RANK == 1 else 2)
        alone = dist.new_group([RANK], limit, backend="tapir", use_local_synchronization=True)
        assert dist.get_world_size(alone) == 1 and told[-1] == (0, 1, [RANK], None)
        dist.barrier()
        dist.destroy_process_group()
    """, 3, tmp_path)


def test_engines_of_ones_own_keep_their_word(tmp_path):
    run("""
        def other(store, rank, size, timeout):
            return tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1)
        dist.Backend.register_backend("tapir", other, devices="cpu")
        dist.Backend.register_backend("zebra", lambda *_: "a group", devices="cpu")
        first = dist.FileStore(os.path.join(FOLDER, "first"))
        raises(ValueError, f"rank {RANK} of 2",
               lambda: dist.init_process_group("tapir", store=first, rank=RANK, world_size=SIZE))
        dist.init_process_group("gloo", timeout=limit)
        raises(TypeError, "must return a tutti.ProcessGroup, not str", lambda: dist.new_group([RANK], backend="zebra"))
        check()
        dist.barrier()
    """, 2, tmp_path)
