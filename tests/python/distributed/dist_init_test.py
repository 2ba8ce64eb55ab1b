"""Joining the job by every way there is, leaving it, and joining again."""

import textwrap

import pytest

import ranks

SIZES = [1, 2, 4]
PRELUDE = """
import datetime
import tutti.distributed as dist
SIZE = int(os.environ["WORLD_SIZE"])

def check():
    x = np.full(3, RANK + 1)
    dist.all_reduce(x)
    assert (x == SIZE * (SIZE + 1) // 2).all()

def raises(kind, part, call):
    try:
        call()
    except kind as problem:
        assert part in str(problem), problem
    else:
        raise AssertionError(f"no {kind.__name__} was raised")
"""


def run(body, size, folder, **options):
    return ranks.run(PRELUDE + textwrap.dedent(body), size, folder, init=False, **options)


@pytest.mark.parametrize("size", SIZES)
def test_the_environment_is_read_at_init(size, tmp_path):
    run("""
        port = os.environ.pop("MASTER_PORT")
        raises(ValueError, "environment variable MASTER_PORT expected, but not set", dist.init_process_group)
        os.environ["MASTER_PORT"] = port
        assert dist.init_process_group("GLOO") is None
        assert dist.get_backend() == "gloo" and dist.is_initialized() and dist.get_world_size() == SIZE
        assert dist.group.WORLD.timeout == datetime.timedelta(minutes=30) == dist.default_pg_timeout
        raises(ValueError, "twice", lambda: dist.init_process_group("gloo"))
        check()
        dist.destroy_process_group()
        raises(ValueError, "Default process group has not been initialized", dist.get_rank)
    """, size, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_rank_0_may_leave_master_addr_out(size, tmp_path):
    run("""
        if RANK == 0:
            del os.environ["MASTER_ADDR"]
        dist.init_process_group(timeout=datetime.timedelta(seconds=20))
        check()
    """, size, tmp_path)


def test_rank_0_may_leave_master_addr_out_over_tcp(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_TRANSPORT", "tcp")
    run("""
        if RANK == 0:
            del os.environ["MASTER_ADDR"]
        dist.init_process_group(timeout=datetime.timedelta(seconds=20))
        check()
    """, 3, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_urls_and_stores(size, tmp_path):
    run("""
        port = os.environ.pop("MASTER_PORT")
        del os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"]
        place = dict(rank=RANK, world_size=SIZE)
        limit = datetime.timedelta(seconds=20)
        for url in (f"tcp://127.0.0.1:{port}", f"file://{FOLDER}/meeting"):
            dist.init_process_group("gloo", url, limit, **place)
            check()
            dist.destroy_process_group()
            dist.init_process_group("gloo", f"{url}{'2' if 'file' in url else ''}?rank={RANK}&world_size={SIZE}",
                                    timeout=limit)
            check()
            dist.destroy_process_group()
        store = dist.TCPStore("127.0.0.1", int(port), SIZE, RANK == 0, limit)
        assert store.has_extended_api() and store.clone() is not None and not store.libuvBackend
        dist.init_process_group(None, store=dist.PrefixStore("part", store), timeout=limit, **place)
        check()
        dist.barrier()
        dist.destroy_process_group()
        [(again, rank, size)] = [next(dist.rendezvous(f"file://{FOLDER}/other?rank={RANK}&world_size={SIZE}"))]
        assert (rank, size) == (RANK, SIZE)
        again.set(f"key{RANK}", "value")
        again.wait([f"key{r}" for r in range(SIZE)], limit)
        dist.init_process_group("gloo", store=again, timeout=limit, **place)
        check()
        dist.barrier()
    """, size, tmp_path)


def test_schemes_of_ones_own(tmp_path):
    run("""
        def meet(url, timeout):
            assert url.startswith("here://")
            yield dist.FileStore(os.path.join(FOLDER, "here"), SIZE), RANK, SIZE
        dist.register_rendezvous_handler("here", meet)
        raises(RuntimeError, "already registered", lambda: dist.register_rendezvous_handler("here", meet))
        dist.init_process_group("gloo", init_method="here://anything")
        check()
    """, 2, tmp_path)


def test_a_store_in_python(tmp_path):
    run("""
        class Shelf(dist.Store):
            def __init__(self, store):
                super().__init__()
                self.store, self.used = store, set()
        for verb in ("set", "get", "add", "check", "wait", "compare_set", "delete_key", "list_keys"):
            def method(self, *arguments, verb=verb):
                self.used.add(verb)
                return getattr(self.store, verb)(*arguments)
            setattr(Shelf, verb, method)
        shelf = Shelf(dist.FileStore(os.path.join(FOLDER, "shelf"), SIZE))
        dist.init_process_group("gloo", store=shelf, rank=RANK, world_size=SIZE)
        check()
        assert shelf.used
        dist.barrier()
    """, 3, tmp_path)


def test_engines_that_are_not_here(tmp_path):
    run("""
        raises(RuntimeError, "MPI built in", lambda: dist.init_process_group("mpi"))
        raises(RuntimeError, "NCCL built in", lambda: dist.init_process_group("NCCL"))
        raises(ValueError, "Unknown backend type foo", lambda: dist.init_process_group("foo"))
        raises(AssertionError, "Unknown backend type foo", lambda: dist.init_process_group("cpu:foo"))
        raises(ValueError, "invalid", lambda: dist.init_process_group("cpu:gloo:x"))
        raises(RuntimeError, "not on 'cuda'", lambda: dist.init_process_group("cuda:gloo"))
        assert not dist.is_initialized()
        for name in ("native", "tutti", "cpu:gloo", None):
            dist.init_process_group(name)
            assert dist.get_backend() == (name or "undefined")
            dist.destroy_process_group()
    """, 1, tmp_path)


def test_engines_of_ones_own(tmp_path):
    run("""
        told = []
        def make(store, rank, size, timeout):
            told.append((rank, size, timeout))
            return tutti.init_process_group(store=store, rank=rank, world_size=size, timeout=timeout)
        dist.Backend.register_backend("tapir", make, devices="cpu")
        assert dist.Backend("TAPIR") == "tapir" == dist.Backend.TAPIR and dist.is_backend_available("tapir")
        raises(RuntimeError, "exists", lambda: dist.Backend.register_backend("gloo", make))
        raises(TypeError, "callable", lambda: dist.Backend.register_backend("zebra", 3))
        dist.init_process_group("tapir", timeout=datetime.timedelta(seconds=20))
        assert told == [(RANK, SIZE, datetime.timedelta(seconds=20))] and dist.get_backend() == "tapir"
        check()
        dist.barrier()
        dist.destroy_process_group()
    """, 2, tmp_path)


def test_fourteen_worlds_in_a_row_on_one_port(tmp_path):
    run("""
        for _ in range(14):
            dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
            check()
            dist.new_group([0])
            dist.destroy_process_group()
    """, 3, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_programs_may_end_without_destroying(size, tmp_path):
    run("""
        dist.init_process_group("gloo")
        check()
        work = dist.all_reduce(np.ones(3), async_op=True)
        group = dist.new_group([0])
        work.wait()
    """, size, tmp_path)


def test_a_world_is_a_context_that_tells_why_it_ended(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
        try:
            with dist.group.WORLD:
                if RANK == 1:
                    raise KeyError("lost the way")
                dist.barrier()
        except KeyError:
            assert RANK == 1
        except dist.DistBackendError as problem:
            assert RANK == 0 and "lost the way" in str(problem), problem
        assert not dist.is_initialized()
    """, 2, tmp_path)


def test_tracebacks_tell_the_rank(tmp_path):
    with ranks.Job(PRELUDE + """
dist.init_process_group("gloo")
dist.barrier()
raise LookupError("something")
""", 2, tmp_path, init=False) as job:
        for rank, process in enumerate(job.processes):
            _, problem = process.communicate(timeout=20)
            assert process.returncode == 1
            assert f"[rank{rank}]: LookupError: something".encode() in problem, problem.decode()


def test_a_hook_of_the_programs_own_stays(tmp_path):
    run("""
        before = sys.excepthook
        dist.init_process_group("gloo")
        assert sys.excepthook is not before
        dist.destroy_process_group()
        assert sys.excepthook is before
        dist.init_process_group("gloo")
        own = sys.excepthook = lambda *problem: None
        dist.destroy_process_group()
        assert sys.excepthook is own
    """, 1, tmp_path)


def test_importing_it_imports_nothing_big(tmp_path):
    run("""
        import subprocess
        code = ("import sys, tutti.distributed; "
                "print([name for name in ('torch', 'numpy', 'mpi4py', 'asyncio', 'multiprocessing') "
                "if name in sys.modules])")
        assert subprocess.check_output([sys.executable, "-c", code], timeout=20).strip() == b"[]"
    """, 1, tmp_path)


def test_torch_tensors_among_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "LIMIT", 90.0)  # importing torch takes its time on a busy machine
    pytest.importorskip("torch.distributed", reason="torch is not installed (./dev deps torch)")
    run("""
        import torch
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
        weights = torch.arange(100_000.0)
        tied = {"a": weights, "b": weights.view(1000, 100), "half": weights.bfloat16(), "grad":
                torch.ones(100_000, requires_grad=True), "rows": weights.view(1000, 100)[::2], "small": torch.ones(2)}
        for safe in (False, True):
            keys = ["a", "b", "half", "grad"] + ([] if safe else ["rows", "small"])
            got = [{k: tied[k] for k in keys}] if RANK == 0 else [None]
            dist.broadcast_object_list(got, 0, weights_only=safe)
            [got] = got
            for key in keys:
                assert torch.equal(got[key], tied[key]) and got[key].dtype == tied[key].dtype, key
                assert got[key].requires_grad == tied[key].requires_grad
            got["a"][7] = -1
            assert got["b"][0, 7] == -1  # they shared memory, and still do
            weights[7] = 7
            dist.barrier()
    """, 2, tmp_path)
