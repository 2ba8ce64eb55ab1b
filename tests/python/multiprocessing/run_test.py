"""dist.run, also of jobs that are encrypted; ranks as threads; the launcher's store by rendezvous()."""

import array
import gc
import linecache
import os
import pathlib
import sys
import time
import zipapp
from multiprocessing.reduction import ForkingPickler

import pytest

import ranks
import stacks
import tutti
import tutti.distributed as dist
import tutti.multiprocessing as mp
from process_cases import Stop, add, end_on, fail_on, large, leave, own_world, print_lines, sleep_on

LIMIT = 40.0


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_results_come_in_the_order_of_ranks(method):
    assert dist.run(add, 3, args=([1, 2, 4],), start_method=method) == [(0, 7), (1, 7), (2, 7)]
    assert dist.run(add, 1, kwargs={"values": [5]}, start_method=method) == [(0, 5)]
    assert not dist.is_initialized()  # ours is another process


def test_large_results():
    count = 20_000_000
    results = dist.run(large, 2, args=(count,))
    assert [len(result) for result in results] == [count] * 2 and results[1][-1] == 1


def test_the_function_may_make_its_world_itself(monkeypatch):
    # Variables of a job that this process may itself belong to are not handed on.
    monkeypatch.setenv("TUTTI_JOB", "another")
    assert dist.run(own_world, 2, init=False, env={"MY_VARIABLE": "x"}) == [(2, "x")] * 2


@pytest.mark.parametrize("who", [0, 1])
def test_the_rank_to_blame_is_told(who):
    method = "spawn" if who == 1 else "fork"
    for function, args, kind, text in ((fail_on, (who,), mp.ProcessRaisedException, "no coffee"),
                                       (end_on, (who, "SIGKILL"), mp.ProcessExitedException, "SIGKILL")):
        with pytest.raises(kind, match=text) as caught:
            dist.run(function, 2, args, start_method=method)
        assert caught.value.error_index == who


def test_timeout_names_who_still_ran():
    begin = time.monotonic()
    for method in ("fork", "spawn"):
        with pytest.raises(TimeoutError, match=r"after 5 s rank\(s\) 1 still ran") as caught:
            # The other rank has ended long before.
            dist.run(sleep_on, 2, args=(1,), timeout=5, start_method=method)
        _, head, line = str(caught.value).split("\n", 2)
        assert head == "---- rank 1 stood here ----", caught.value
        # Nothing of what has started it, nor of its other threads.
        assert line.splitlines()[0].endswith("(most recent call first):") and "process_cases.py" in line, line
        assert line.splitlines()[-1].endswith("in sleep_on") and len(line.splitlines()) == 2, line
    assert time.monotonic() - begin < LIMIT


def test_tracebacks_of_functions_without_a_file_have_their_lines():
    """As those of a notebook's cells, which IPython gives names of files that are not there."""
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    text = "def told():\n    raise ValueError('no coffee')  # of the first cell\n"
    calls = "def calls():\n    return told()  # of the second cell\n"
    cells = {"__name__": "__main__"}
    for name, source in (("/tmp/ipykernel_0/1.py", text), ("/tmp/ipykernel_0/2.py", calls)):
        linecache.cache[name] = (len(source), time.time(), source.splitlines(True), name)
        exec(compile(source, name, "exec"), cells)
    with pytest.raises(mp.ProcessRaisedException, match="(?s)# of the second cell\n.*# of the first cell\n.*no coffee"):
        dist.run(cells["calls"], 1, init=False)


def test_lines_of_ranks_do_not_mix(capfd):
    for method in ("spawn", "fork"):
        dist.run(print_lines, 3, start_method=method)
        lines = capfd.readouterr().out.splitlines()
        assert len(lines) == 6000 and all(len(set(line) - {" "}) == 1 for line in lines)


def test_who_leaves_early_has_no_result():
    with pytest.raises(RuntimeError, match="rank 1 .* ended without a result"):
        dist.run(leave, 2)


@pytest.mark.parametrize("how, text", [("interrupt raised", "KeyboardInterrupt"), ("os._exit 0", "before its function had returned"),
                                       ("no Exception", "Stop: enough"), ("sys.exit text", "exit code 1")])
def test_an_end_without_a_result_is_told(how, text):
    with pytest.raises(mp.ProcessException, match=text) as caught:
        dist.run(end_on, 2, args=(1, how), start_method="fork")
    assert caught.value.error_index == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Stop("enough"), ValueError("no coffee")])
def test_the_first_error_of_a_thread_is_raised(error):
    def body(world):
        if world.rank == 1:
            raise error
        with pytest.raises(tutti.Error):
            world.barrier()

    with pytest.raises(type(error)) as told:
        mp.run_threads(body, 3)
    assert told.value.args == error.args


def test_functions_without_a_name_and_cloudpickle():
    """As in a notebook: the processes are forks, and the result must have a class that has a name."""
    assert stacks.said("-c", """
import sys
sys.modules["cloudpickle"] = None
import tutti.distributed as dist
print(dist.run(lambda factor: dist.get_rank() * factor, 2, args=(5,)))
""") == "[0, 5]\n"


# A program whose main module other processes cannot import.
WITHOUT_FILE = """
import tutti.distributed as dist
class Result:
    def __init__(self, value): self.value = value
def work(factor):
    return Result(dist.get_rank() * factor)
def main():
    print([one.value for one in dist.run(work, 2, args=(5,){options})])
if __name__ == "__main__":
    main()
"""


def by_shell(text):
    return lambda folder: stacks.output(["bash", "-c", text.format(python=sys.executable)], LIMIT, cwd=folder)


# By what such a program is started, in a folder that has it in all these forms.
STARTS = {
    "input": lambda folder: stacks.output([sys.executable, "-"], LIMIT, stdin=open(folder / "program.py", encoding="utf-8")),
    "pipe": by_shell("cat program.py | {python}"),
    "name of a pipe": by_shell("{python} <(cat program.py)"),
    "/dev/stdin": by_shell("{python} /dev/stdin < program.py"),
    "text": lambda folder: stacks.said("-c", (folder / "program.py").read_text()),
    "module": lambda folder: stacks.said("-m", "program", cwd=folder),
    "package": lambda folder: stacks.said("-m", "package", cwd=folder),
    "folder": lambda folder: stacks.said(folder / "package"),
    "archive": lambda folder: stacks.said("app.pyz", cwd=folder),
    "exec": lambda folder: stacks.said("exec.py", cwd=folder),
    "exec of a module": lambda folder: stacks.said("runpy_.py", cwd=folder),
}
OUTER = {"exec": "exec(open('program.py').read())", "runpy_": "import runpy; runpy.run_path('program.py', run_name='__main__')"}


def check_without_file(start, folder, options=""):
    (folder / "package").mkdir()
    for path in ("program.py", "package/__main__.py"):
        (folder / path).write_text(WITHOUT_FILE.replace("{options}", options))
    zipapp.create_archive(folder / "package", folder / "app.pyz")
    for name, call in OUTER.items():
        (folder / f"{name}.py").write_text(f"if __name__ == '__main__':\n    {call}\n")
    assert STARTS[start](folder) == "[0, 5]\n"


@pytest.mark.parametrize("start", ["input", "text", *ranks.one_by_rotation(sorted(STARTS.keys() - {"input", "text"}))])
def test_a_program_whose_main_module_has_no_file(start, tmp_path):
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    check_without_file(start, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_program_whose_main_module_has_no_file_by_other_methods(start, method, tmp_path):
    check_without_file(start, tmp_path, f", start_method={method!r}")


def test_a_script_of_its_own(script):
    path = script("""
import tutti.distributed as dist
def work():
    return dist.get_rank() + 10
if __name__ == "__main__":
    print(dist.run(work, 2))
""")
    assert stacks.said(path) == "[10, 11]\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_functions_without_a_name_in_a_script(method, script):
    """Pickle fails at them after it has sent the queue behind them for the first time."""
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    path = script(f"""
import tutti.distributed as dist
if __name__ == "__main__":
    factor = 5
    print(dist.run(lambda more: dist.get_rank() * factor + more, 2, args=(1,), start_method={method!r}))
""")
    assert stacks.said(path) == "[1, 6]\n"


def test_what_is_no_function_is_refused_here():
    for start in (dist.run, mp.spawn):
        with pytest.raises(TypeError, match="fn must be a function that the processes call, not 'add'"):
            start("add", nprocs=2)


@pytest.mark.parametrize("wrong, kind, text", [
    (dict(nprocs="2"), TypeError, "nprocs is '2'; it is a whole number"), (dict(nprocs=2.0), TypeError, "whole number"),
    (dict(nprocs=True), TypeError, "whole number"), (dict(nprocs=0), ValueError, "nprocs is 0; at least one"),
    (dict(nprocs=1, args=5), TypeError, "args is 5; it is the tuple of fn's arguments: args=(5,)"),
    (dict(nprocs=1, args="ab"), TypeError, "args=('ab',)"),
    (dict(nprocs=1, timeout="3"), TypeError, "got 3"), (dict(nprocs=1, timeout=-1), ValueError, "negative"),
    (dict(nprocs=1, timeout=float("nan")), ValueError, "NaN"),
    (dict(nprocs=1, env={"A": 1}), TypeError, "env has 'A': 1; names and values of variables are text")])
def test_wrong_arguments_are_refused_here(wrong, kind, text):
    with pytest.raises(kind) as problem:
        dist.run(add, **wrong)
    assert text in str(problem.value)
    if set(wrong) <= {"nprocs", "args"}:
        for start in (mp.spawn, mp.start_processes):
            with pytest.raises(kind) as problem:
                start(print, **wrong)
            assert text in str(problem.value)
        with pytest.raises(kind) as problem:
            mp.run_threads(print, wrong["nprocs"], wrong.get("args", ()))
        assert text.replace("nprocs", "nthreads") in str(problem.value)


def test_arguments_of_other_kinds_are_taken():
    assert dist.run(large, nprocs=1, args=[3], timeout=float("inf")) == [bytes(3)]


def test_a_fork_of_a_process_with_a_world_is_refused():
    assert stacks.said("-c", """
import os
import tutti.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    dist.run(max, 2, args=(1, 2), start_method="fork")
except RuntimeError as problem:
    assert "destroy_process_group" in str(problem)
    print("refused", dist.run(max, 2, args=(1, 2)))
""") == "refused [2, 2]\n"


def open_descriptors():
    gc.collect()  # a traceback may still hold processes
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dist.run(add, 2, args=([1, 2],))  # starts multiprocessing's own helper, which stays
    descriptors = open_descriptors()
    dist.run(add, 2, args=([1, 2],))
    with pytest.raises(mp.ProcessRaisedException):
        dist.run(fail_on, 2, args=(0,))
    assert not list(tmp_path.iterdir())
    assert open_descriptors() == descriptors


def test_threads_are_ranks():
    def body(world, word):
        x = array.array("d", [1.0, world.rank])
        world.all_reduce(x)
        return word, world.rank, list(x)

    assert mp.run_threads(body, 3, ("a",)) == [("a", rank, [3, 3]) for rank in range(3)]


def test_threads_have_the_timeout_of_the_environment(monkeypatch):
    def seconds(world):
        return world.timeout.total_seconds()

    monkeypatch.setenv("TUTTI_TIMEOUT", "7")
    assert mp.run_threads(seconds, 2) == [7, 7]
    config = tutti.Config()
    config.timeout = 3
    assert mp.run_threads(seconds, 2, config=config) == [3, 3]
    monkeypatch.delenv("TUTTI_TIMEOUT")
    assert mp.run_threads(seconds, 2) == [1800, 1800]


def reach(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Lent:
    """multiprocessing sends it as what only lives as long as the sender; pickle by its value."""


ForkingPickler.register(Lent, lambda _: (reach, ("/nowhere/at/all",)))


class Unreadable:
    def __reduce__(self):
        return reach, ("/nowhere/at/all",)


def lend():
    return Lent()


def unreadable():
    return Unreadable()


def test_results_outlive_their_process():
    results = dist.run(lend, 2, start_method="fork", init=False)
    assert [type(each) for each in results] == [Lent] * 2


def test_a_result_that_cannot_be_read_is_told():
    with pytest.raises(RuntimeError, match="result of rank 0 cannot be read: .*nowhere"):
        dist.run(unreadable, 1, start_method="fork", init=False)


@pytest.mark.torch
def test_torch_tensors_as_results():
    source = """
import torch
import tutti.distributed as dist
def work():
    return {"weights": torch.full((3, 100_000), float(dist.get_rank())), "rank": dist.get_rank()}
for rank, result in enumerate(dist.run(work, 2, start_method="fork")):
    assert result["rank"] == rank and result["weights"].shape == (3, 100_000) and (result["weights"] == rank).all()
print("tensors came")
"""
    assert stacks.said("-c", source, limit=90) == "tensors came\n"  # importing torch takes its time


def add_ranks():
    x = array.array("d", [dist.get_rank() + 1.0])
    dist.all_reduce(x)
    return x[0]


def meet():
    assert not dist.is_initialized()
    store, rank, size = next(dist.rendezvous("env://"))
    store.set(f"from {rank}", str(rank))
    return [store.get(f"from {peer}") for peer in range(size)]


def test_a_job_may_be_encrypted(monkeypatch):
    assert dist.run(add_ranks, 2, env={"TUTTI_TLS": "1", "TUTTI_TRANSPORT": "tcp"}, start_method="fork") == [3.0, 3.0]
    monkeypatch.setenv("TUTTI_TLS", "1")
    assert dist.run(add_ranks, 2, start_method="fork") == [3.0, 3.0]


@pytest.mark.parametrize("tls", ["0", "1"])
def test_the_store_of_the_job_may_be_used(tls):
    assert dist.run(meet, 3, init=False, env={"TUTTI_TLS": tls}, start_method="fork") == [[b"0", b"1", b"2"]] * 3


def serve_and_meet():
    """A store of the program's own at MASTER_PORT, as torch.distributed has one, beside the job's."""
    port, rank, size = int(os.environ["MASTER_PORT"]), dist.get_rank(), dist.get_world_size()
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
    store.set(f"from {rank}", str(rank))
    return add_ranks(), [store.get(f"from {peer}") for peer in range(size)]


@pytest.mark.parametrize("tls", ["0", "1"])
def test_the_program_may_serve_at_master_port(tls):
    assert dist.run(serve_and_meet, 2, env={"TUTTI_TLS": tls}, start_method="fork") == [(3.0, [b"0", b"1"])] * 2


SCRIPT = """
import os, sys
import tutti.distributed as dist
assert os.environ["TUTTI_SECRET_FD"]
store, rank, size = next(dist.rendezvous("env://"))
store.set(f"from {rank}", str(rank))
assert [store.get(f"from {peer}") for peer in range(size)] == [b"0", b"1"]
dist.init_process_group("gloo")
dist.barrier()
print("met", flush=True)
"""


def test_the_store_of_tuttirun_may_be_used(script):
    said = stacks.said("-m", "tutti.distributed.run", "--nproc-per-node=2", script(SCRIPT))
    assert said.split() == ["met", "met"]
