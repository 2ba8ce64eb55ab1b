"""dist.run, and ranks as threads."""

import array
import gc
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
from process_cases import Stop, add, die_on, end_on, fail_on, large, leave, own_world, sleep_on

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


def test_the_function_may_make_its_world_itself():
    # Variables of a job that this process may itself belong to are not handed on.
    os.environ["TUTTI_JOB"] = "another"
    try:
        assert dist.run(own_world, 2, init=False, env={"MY_VARIABLE": "x"}) == [(2, "x")] * 2
    finally:
        del os.environ["TUTTI_JOB"]


@pytest.mark.parametrize("who", [0, 1])
def test_the_rank_to_blame_is_told(who):
    method = "spawn" if who == 1 else "fork"
    with pytest.raises(mp.ProcessRaisedException, match="no coffee") as caught:
        dist.run(fail_on, 2, args=(who,), start_method=method)
    assert caught.value.error_index == who
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL") as caught:
        dist.run(die_on, 2, args=(who,), start_method=method)
    assert caught.value.error_index == who


def test_timeout_names_who_still_ran():
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"after 5 s rank\(s\) 1 still ran"):
        # A fork starts at once: the other rank has ended long before.
        dist.run(sleep_on, 2, args=(1,), timeout=5, start_method="fork")
    assert time.monotonic() - begin < LIMIT


def test_who_leaves_early_has_no_result():
    with pytest.raises(RuntimeError, match="rank 1 .* ended without a result"):
        dist.run(leave, 2)


@pytest.mark.parametrize("how, text", [("interrupt raised", "KeyboardInterrupt"), ("os._exit 0", "before its function had returned"),
                                       ("no Exception", "Stop: enough"), ("sys.exit text", "exit code 1")])
def test_an_end_without_a_result_is_told(how, text):
    with pytest.raises(mp.ProcessException, match=text) as caught:
        dist.run(end_on, 2, args=(1, how), start_method="fork")
    assert caught.value.error_index == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Stop("enough")])
def test_a_thread_that_ends_by_no_exception_is_told(error):
    def body(world):
        if world.rank == 1:
            raise error
        with pytest.raises(tutti.Error):
            world.barrier()

    with pytest.raises(type(error)):
        mp.run_threads(body, 2)


NAMELESS = """
import sys
{before}
import tutti.distributed as dist
class Result:
    def __init__(self, rank): self.rank = rank
def work(factor):
    return Result(dist.get_rank() * factor)
print([result.rank for result in dist.run(work, 2, args=(5,))])
"""


@pytest.mark.parametrize("before", ["", "sys.modules['cloudpickle'] = None"])
def test_functions_without_a_name(before):
    # As in a notebook: neither the function nor the class of its result could be imported. Without
    # cloudpickle the processes are forks; the result must then have a class that has a name.
    source = NAMELESS.format(before=before)
    if before:
        source = source.replace("return Result(dist.get_rank() * factor)",
                                "return dist.get_rank() * factor").replace("result.rank", "result")
    assert stacks.said("-c", source) == "[0, 5]\n"


# A program whose main module other processes cannot import, and how it is started.
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


def by_input(folder, source):
    return stacks.output([sys.executable, "-"], LIMIT, stdin=open(folder / "program.py", encoding="utf-8"))


def by_pipe(folder, source):
    return stacks.output(["bash", "-c", f"cat {folder}/program.py | {sys.executable}"], LIMIT)


def by_name_of_a_pipe(folder, source):
    return stacks.output(["bash", "-c", f"{sys.executable} <(cat {folder}/program.py)"], LIMIT)


def by_dev_stdin(folder, source):
    return stacks.output(["bash", "-c", f"{sys.executable} /dev/stdin < {folder}/program.py"], LIMIT)


def by_text(folder, source):
    return stacks.said("-c", source)


def by_module(folder, source):
    return stacks.said("-m", "program", cwd=folder)


def by_package(folder, source):
    (folder / "package").mkdir()
    (folder / "package" / "__main__.py").write_text(source)
    return stacks.said("-m", "package", cwd=folder)


def by_folder(folder, source):
    (folder / "__main__.py").write_text(source)
    return stacks.said(folder)


def by_archive(folder, source):
    (folder / "in").mkdir()
    (folder / "in" / "__main__.py").write_text(source)
    zipapp.create_archive(folder / "in", folder / "app.pyz")
    return stacks.said("app.pyz", cwd=folder)


def by_exec(folder, source):
    (folder / "outer.py").write_text(f"if __name__ == '__main__':\n    exec(open({str(folder / 'program.py')!r}).read())\n")
    return stacks.said(folder / "outer.py")


def by_exec_of_a_module(folder, source):
    (folder / "outer.py").write_text(
        f"if __name__ == '__main__':\n    import runpy\n    runpy.run_path({str(folder / 'program.py')!r}, run_name='__main__')\n")
    return stacks.said(folder / "outer.py")


STARTS = [by_input, by_pipe, by_name_of_a_pipe, by_dev_stdin, by_text, by_module, by_package, by_folder, by_archive, by_exec,
          by_exec_of_a_module]


def check_without_file(start, folder, options=""):
    source = WITHOUT_FILE.replace("{options}", options)
    (folder / "program.py").write_text(source)
    assert start(folder, source) == "[0, 5]\n"


@pytest.mark.parametrize("start", [by_input, *ranks.one_by_rotation(STARTS[1:])])
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


def test_the_first_error_of_a_thread_is_raised():
    def body(world):
        if world.rank == 1:
            raise ValueError("no coffee")
        with pytest.raises(tutti.Error):
            world.barrier()

    with pytest.raises(ValueError, match="no coffee"):
        mp.run_threads(body, 3)
    with pytest.raises(ValueError, match="nthreads"):
        mp.run_threads(body, 0)


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
