"""Joining the job by every way there is, leaving it, and joining again."""

import json
import signal
import sys
import textwrap

import pytest

import ranks
import stacks
import tutti
import tutti.distributed as dist
from init_programs import PRELUDE, run

SIZES = ranks.sizes(2, others=(1, 4))


@pytest.mark.parametrize("size", SIZES)
def test_the_environment_is_read_at_init(size, tmp_path):
    run("""
        port = os.environ.pop("MASTER_PORT")
        raises(ValueError, "MASTER_PORT expected, but not set; tuttirun sets it", dist.init_process_group)
        os.environ["MASTER_PORT"] = port
        assert dist.init_process_group("GLOO") is None
        assert dist.get_backend() == "gloo" and dist.get_world_size() == SIZE
        assert dist.group.WORLD.timeout == datetime.timedelta(minutes=30) == dist.default_pg_timeout
        check()
    """, size, tmp_path)


def test_a_world_of_one_needs_no_address(tmp_path):
    run("""
        import tutti
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
            del os.environ[name]
        port = os.environ.pop("MASTER_PORT")
        for options in ({}, dict(backend="gloo", timeout=limit), dict(init_method="env://")):
            dist.init_process_group(rank=0, world_size=1, **options)
            check(dist.new_group([0]))
            dist.all_gather_object(got := [None], "itself")
            assert got == ["itself"] and (dist.get_rank(), dist.get_world_size()) == (0, 1)
            dist.group.WORLD.get_group_store().set("key", "value")
            dist.destroy_process_group()
        with tutti.init_process_group(rank=0, world_size=1) as alone:
            alone.all_reduce(x := np.ones(2))
            assert x.tolist() == [1, 1] and (alone.rank, alone.size) == (0, 1)
        # A program that no launcher has started; with a rank it belongs to others.
        for face in (dist, tutti):
            raises(ValueError, "RANK", lambda: face.init_process_group())
            os.environ["RANK"] = "0"
            raises(ValueError, "WORLD_SIZE", lambda: face.init_process_group(or_alone=True))
            del os.environ["RANK"]
        dist.init_process_group(or_alone=True)
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
        dist.destroy_process_group()
        with tutti.init_process_group(or_alone=True) as alone:
            assert (alone.rank, alone.size) == (0, 1)
        # An address, or a part of one, is not ignored.
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        for face in (dist, tutti):
            raises(ValueError, "MASTER_PORT", lambda: face.init_process_group(rank=0, world_size=1))
        os.environ["MASTER_PORT"] = port
        dist.init_process_group(rank=0, world_size=1)
        __import__("socket").create_connection(("127.0.0.1", int(port)), 20).close()  # its store is there
    """, 1, tmp_path)


@pytest.mark.parametrize("size, transport", [*((size, "auto") for size in SIZES), (3, "tcp")])
def test_rank_0_may_leave_master_addr_out(size, transport, tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_TRANSPORT", transport)
    run("""
        if RANK == 0:
            del os.environ["MASTER_ADDR"]
        dist.init_process_group(timeout=limit)
        check()
    """, size, tmp_path)


def test_blanks_around_numbers_are_taken(tmp_path, monkeypatch):
    """As YAML and the `read` of shells leave them."""
    monkeypatch.setenv("OTHER_PORT", str(ranks.free_port()))
    run("""
        numbers = {"RANK": "\\n", "WORLD_SIZE": " ", "LOCAL_RANK": "\\t", "MASTER_PORT": " "}
        for name, blank in numbers.items():
            os.environ[name] = blank + os.environ.get(name, str(RANK)) + blank
        os.environ.update(TUTTI_TIMEOUT=" 60\\n", TUTTI_LINK_TIMEOUT="15 ", TUTTI_STALL_WARNING="30\\r", TUTTI_CPUS="2 ",
                          TUTTI_TLS="0 ", TUTTI_AGENT_STORE="0\\n")
        from tutti import rank0
        assert (rank0.rank(), rank0.world_size(), dist.get_node_local_rank()) == (RANK, SIZE, RANK)
        dist.init_process_group()
        check()
        dist.destroy_process_group()
        port = int(os.environ["MASTER_PORT"])
        for url in (f"tcp://127.0.0.1:{port} ", f"tcp://127.0.0.1:{port}\\n?rank={RANK} &world_size=\\t{SIZE}"):
            dist.init_process_group(init_method=url, timeout=limit)
            check()
            dist.destroy_process_group()
        os.environ["RANK"] = "0 1"
        raises(ValueError, "RANK is '0 1', which is not a whole number", rank0.rank)
        raises(ValueError, 'RANK is "0 1", which is not a whole number', dist.init_process_group)
    """, 2, tmp_path)
    run("""
        os.environ["RANK"] += "\\n"
        del os.environ["MASTER_ADDR"]  # rank 0 need not know it
        dist.init_process_group(timeout=limit)
        check()
        dist.destroy_process_group()
        os.environ.update(WORLD_SIZE="1\\n", MASTER_PORT=os.environ["OTHER_PORT"] + " ")
        store, rank, size = next(dist.rendezvous("env://", timeout=limit))
        assert (rank, size) == (0, 1)
    """, 1, tmp_path)


@pytest.mark.parametrize("size", SIZES)
def test_urls_and_stores(size, tmp_path):
    run("""
        port = os.environ.pop("MASTER_PORT")
        del os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"]
        dist.init_process_group("gloo", f"file://{FOLDER}/rendezvous?rank={RANK}&world_size={SIZE}", timeout=limit)
        check()
        dist.destroy_process_group()
        store = dist.TCPStore("127.0.0.1", int(port), SIZE, RANK == 0, limit)
        assert not store.libuvBackend
        dist.init_process_group(None, store=dist.PrefixStore("part", store), timeout=limit, rank=RANK, world_size=SIZE)
        check()
        dist.barrier()
        dist.destroy_process_group()
        again, rank, size = next(dist.rendezvous(f"file://{FOLDER}/other?rank={RANK}&world_size={SIZE}"))
        assert (rank, size) == (RANK, SIZE)
        dist.init_process_group("gloo", store=again, timeout=limit, rank=rank, world_size=size)
        check()
        dist.barrier()
    """, size, tmp_path)


MEET_AGAIN = """
        dist.init_process_group(timeout=limit, rank=RANK, world_size=4, **way)
        if RANK == 1:
            dist.all_reduce(np.ones(10))
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                dist.all_reduce(np.ones(10))
        except dist.DistBackendError as problem:
            lost, why = problem.culprit, str(problem)
        assert lost == 1, why
        raises(TypeError, "group_name", lambda: dist.shrink_group([lost]))
        dist.destroy_process_group()
        for _ in range(2):  # the same ranks may use the name again
            dist.init_process_group(timeout=limit, rank=RANK - (RANK > lost), world_size=3, group_name="without 1",
                                    **way)
            check(None, 3)
            assert dist.get_world_size() == 3
            dist.destroy_process_group()
"""


@pytest.mark.parametrize("way", [
    'dict(store=dist.TCPStore("127.0.0.1", PORT))', "dict()",
    'dict(store=dist.FileStore(os.path.join(FOLDER, "store")))', 'dict(init_method=f"file://{FOLDER}/store")',
], ids=["tcp", "launcher", "file", "file_url"])
def test_survivors_meet_again(way, tmp_path, monkeypatch):
    served = tutti.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    if way == "dict()":
        monkeypatch.setenv("TUTTI_STORE_PORT", str(served.port))
        monkeypatch.setenv("TUTTI_AGENT_STORE", "1")
    way = f"way = {way.replace('PORT', str(served.port))}\n"
    with ranks.Job(PRELUDE + way + textwrap.dedent(MEET_AGAIN), 4, tmp_path, init=False) as job:
        job.finish({1: -signal.SIGKILL})


def test_group_names_that_cannot_be(tmp_path):
    run("""
        raises(TypeError, "group_name is text", lambda: dist.init_process_group(group_name=3))
        raises(ValueError, "the job name has 200 bytes",
               lambda: dist.init_process_group(group_name="x" * 200))
    """, 1, tmp_path)


@pytest.mark.parametrize("url", ["env://", "tcp://127.0.0.1:{port}"])
def test_the_store_of_a_url_is_as_closed_as_the_worlds(url, tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_SECRET_FILE", str(ranks.secret_in(tmp_path)))
    monkeypatch.setenv("TUTTI_TLS", "1")
    monkeypatch.setenv("TUTTI_JOB", "this one")
    run(f"""
        port = int(os.environ["MASTER_PORT"])
        store, rank, size = next(dist.rendezvous({url!r}.format(port=port), RANK, SIZE))
        store.set(f"key{{rank}}", "value")
        store.wait([f"key{{r}}" for r in range(size)], limit)
        if RANK == 1:
            def join(**options):
                return lambda: dist.TCPStore("127.0.0.1", port, timeout=datetime.timedelta(seconds=5), **options)
            raises(tutti.NetworkError, "it encrypts", join(job="this one"))
            os.environ["TUTTI_INSECURE"] = "1"
            del os.environ["TUTTI_SECRET_FILE"]
            raises(tutti.NetworkError, "asks for the job's secret", join(job="this one"))
            raises(tutti.NetworkError, "another job", join(secret=b"s" * 32, encrypt=True))
            raises(tutti.NetworkError, "it encrypts", join(secret=b"s" * 32, job="this one"))
            raises(tutti.NetworkError, "another secret", join(secret=b"t" * 32, encrypt=True, job="this one"))
            join(secret=b"s" * 32, encrypt=True, job="this one")()
        store.set(f"end{{rank}}", "")
        store.wait([f"end{{r}}" for r in range(size)], limit)
    """, 2, tmp_path)


def test_the_secret_is_read_in_one_way(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    monkeypatch.setenv("TUTTI_SECRET_FILE", str(secret))
    for mode, text, problem in ((0o600, b"s" * 31, "holds 31 bytes"), (0o644, b"s" * 32, "chmod 600"),
                                (0o600, b"s" * 5000, "too many bytes")):
        secret.write_bytes(text)
        secret.chmod(mode)
        with pytest.raises(tutti.InvalidArgument, match=problem):
            next(dist.rendezvous("tcp://127.0.0.1:0", 0, 1))
    secret.write_bytes(b"s" * 32)
    assert tutti.job_secret() == b"s" * 32
    monkeypatch.delenv("TUTTI_SECRET_FILE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tutti.job_secret() == (tmp_path / ".config/tutti/key").read_bytes()
    monkeypatch.setenv("TUTTI_INSECURE", "1")
    assert tutti.job_secret() == b""


def test_a_secret_may_be_given(monkeypatch):
    with pytest.raises(tutti.InvalidArgument, match="given to init_process_group holds 31 bytes") as refused:
        tutti.init_process_group(rank=0, world_size=1, secret=b"s" * 31)
    assert "sss" not in str(refused.value)
    with pytest.raises(TypeError):
        tutti.init_process_group(rank=0, world_size=1, secret="s" * 32)
    # Only who has a secret can encrypt.
    monkeypatch.setenv("TUTTI_INSECURE", "1")
    config = tutti.Config.from_environment()
    config.tls = True
    url = f"tcp://127.0.0.1:{ranks.free_port()}?rank=0&world_size=1"
    with pytest.raises(tutti.InvalidArgument, match="secret"):
        tutti.init_process_group(url, config=config)
    with tutti.init_process_group(url, config=config, secret=b"s" * 32) as world:
        assert world.size == 1


def test_the_timeout_of_the_environment(tmp_path):
    run("""
        seconds = lambda n: datetime.timedelta(seconds=n)
        os.environ["TUTTI_TIMEOUT"] = "40"
        told = []
        def meet(url, timeout):
            assert url.startswith("here://")
            told.append(timeout)
            yield dist.FileStore(os.path.join(FOLDER, "here" + url[-1]), SIZE), RANK, SIZE
        dist.register_rendezvous_handler("here", meet)  # a scheme of one's own
        raises(RuntimeError, "already registered", lambda: dist.register_rendezvous_handler("here", meet))
        dist.init_process_group("gloo", "here://1")
        check()
        assert told == [seconds(40)] and dist.group.WORLD.timeout == seconds(40)
        dist.destroy_process_group()
        dist.init_process_group("gloo", "here://2", timeout=seconds(15))
        assert told[1:] == [seconds(15)] and dist.group.WORLD.timeout == seconds(15)
        assert dist.new_group([0, 1]).timeout == seconds(40)  # what the variable says, not what the world has
        assert dist.new_group([0, 1], seconds(3)).timeout == seconds(3)
        os.environ["TUTTI_TIMEOUT"] = "50"
        assert dist.split_group(split_ranks=[[0, 1]]).timeout == seconds(50)
        del os.environ["TUTTI_TIMEOUT"]
        assert dist.new_group([0, 1]).timeout == dist.default_pg_timeout
        dist.barrier()
    """, 2, tmp_path)


def test_fourteen_worlds_in_a_row_on_one_port(tmp_path):
    run("""
        for _ in range(14):
            dist.init_process_group("gloo", timeout=limit)
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
        dist.init_process_group("gloo", timeout=limit)
        def leave():
            with dist.group.WORLD:
                if RANK == 1:
                    raise KeyError("lost the way")
                dist.barrier()
        raises(KeyError if RANK == 1 else dist.DistBackendError, "lost the way", leave)
        assert not dist.is_initialized()
    """, 2, tmp_path)


def test_tracebacks_tell_the_rank_and_torchrun_is_told_of_the_error(tmp_path):
    with ranks.Job(PRELUDE + """
os.environ["TORCHELASTIC_ERROR_FILE"] = os.path.join(FOLDER, f"{RANK}.json")
dist.init_process_group("gloo")
dist.barrier()
raise LookupError("something")
""", 2, tmp_path, init=False) as job:
        for rank, process in enumerate(job.processes):
            _, problem = process.communicate()
            assert process.returncode == 1
            assert f"[rank{rank}]: LookupError: something".encode() in problem, problem.decode()
            told = json.loads((tmp_path / f"{rank}.json").read_text())
            assert told["message"]["message"] == "LookupError: something"


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


@pytest.mark.torch
def test_torch_tensors_among_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "LIMIT", 90.0)  # importing torch takes its time on a busy machine
    run("""
        import torch
        dist.init_process_group("gloo", timeout=limit)
        weights = torch.arange(100_000.0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        # Those that are small and plain are in tests/python/parity/programs/things.py.
        tied = {"a": weights, "b": weights.view(1000, 100), "half": weights.bfloat16(), "grad":
                torch.ones(100_000, requires_grad=True), "rows": weights.view(1000, 100)[::2],
                "turned": weights.view(1000, 100).t(), "inner": torch.ones(2, requires_grad=True) * 2,
                "skipped": torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)[:, :2, ::2],
                "columns": weights.view(1000, 100).t()[::2, 1:].requires_grad_()}
        got = [tied, model.state_dict(), torch.float16] if RANK == 0 else [None] * 3
        dist.broadcast_object_list(got, 0)
        [got, state, dtype] = got
        assert dtype is torch.float16
        for key, sent in tied.items():
            assert torch.equal(got[key], sent), key
            assert type(got[key]) is type(sent) and got[key].dtype == sent.dtype, key
            assert got[key].requires_grad == sent.requires_grad
            packed = {"rows": (100, 1), "skipped": (20, 1, 10, 2), "columns": (1, 50)}
            assert got[key].stride() == (sent.stride() if RANK == 0 else packed.get(key, sent.stride())), key
        model.load_state_dict(state)
        assert state._metadata == model.state_dict()._metadata
        got["a"][7] = -1
        # They shared memory, and still do.
        assert got["b"][0, 7] == -1 == got["turned"][7, 0]
        weights[7] = 7
        dist.barrier()
        # The functions that take lists: 2 processes with 8 ones each get 16.
        ones = [torch.ones(3, dtype=torch.bfloat16, requires_grad=i == 3) for i in range(8)]
        dist.all_reduce_multigpu(ones)
        assert all(each.tolist() == [16] * 3 for each in ones) and ones[3].requires_grad and ones[3].grad_fn is None
        each = [torch.full((2,), RANK * 8 + i) for i in range(8)]
        dist.reduce_multigpu(each, 1, dist.ReduceOp.MAX, dst_tensor=5)
        assert [int(one[0]) for one in each] == [15 if (RANK, i) == (1, 5) else RANK * 8 + i for i in range(8)]
        turned = [torch.tensor([RANK + 1j * i]).conj() for i in range(2)]
        dist.broadcast_multigpu(turned, 1, src_tensor=1)
        assert all(one.item() == 1 - 1j for one in turned)
        out = [[torch.zeros(1) for _ in range(4)] for _ in range(2)]
        dist.all_gather_multigpu(out, [torch.tensor([RANK * 2.0 + i]) for i in range(2)])
        assert [[int(one) for one in row] for row in out] == [[0, 1, 2, 3]] * 2
    """, 2, tmp_path)


MISSED = """
import tutti.distributed as dist
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
"""


def end_of(program):
    """What a program says to standard error that an error ends."""
    done = stacks.run([sys.executable, "-c", program], 120)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("way", ["text", pytest.param("torch", marks=pytest.mark.torch)])
def test_a_program_that_misses_torchs_world_is_told_what_to_change(way):
    missed = {"text": "raise ValueError('Default process group has not been initialized, please make sure to call "
                      "init_process_group.')",
              "torch": "import torch; torch.utils.data.DistributedSampler(range(3))"}[way]
    said = end_of(MISSED + missed)
    assert "process group has not been initialized" in said
    assert said.count("[rank0]: tutti: ") == 3 and "`import tutti.torch`" in said
    assert "tutti.torch" not in end_of("import tutti.distributed as dist; dist.get_rank()")
    assert "tutti.torch" not in end_of(MISSED + "raise ValueError('another one')")
