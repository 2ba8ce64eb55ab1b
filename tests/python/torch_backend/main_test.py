"""`python -m tutti.torch` runs programs that name Gloo, or nothing, as they are."""

import os
import sys
import textwrap

import pytest

import ranks
import stacks
import tutti.torch.__main__ as program
from forked import run
from tutti.torch._replace import named

ADD_UP = """
    import sys
    import torch
    import torch.distributed as dist
    from torch.distributed import init_process_group, new_group

    def add_up():
        for group in [None, new_group([0, 1]), new_group([0, 1], None, "cpu:gloo"), new_group(backend="gloo")]:
            x = torch.ones(3)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [2, 2, 2]
            taken = group or dist.group.WORLD
            assert type(taken._get_backend(torch.device("cpu"))).__name__ == "ProcessGroupTutti"
        sys.stdout.write(f"{sys.argv[1:]}\\n")  # at once
        sys.stdout.flush()
        dist.destroy_process_group()
"""


def written(folder, text):
    path = folder / "train.py"
    path.write_text(textwrap.dedent(ADD_UP) + textwrap.dedent(text))
    return str(path)


@pytest.mark.parametrize("named_so", ['"gloo"', "", 'backend="cpu:gloo"', "dist.Backend.GLOO"])
def test_a_script_runs_as_it_is(tmp_path, named_so):
    path = written(tmp_path, f"""
        assert __name__ == "__main__" and sys.path[0] == {str(tmp_path)!r}
        init_process_group({named_so})
        add_up()
    """)
    for text in run(program.main, 2, [path, "--epochs", "3"]):
        assert "['--epochs', '3']\n" in text


def test_a_module_runs_as_it_is(tmp_path):
    written(tmp_path, 'init_process_group("gloo")\nadd_up()\n')
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ranks.free_port()), "WORLD_SIZE": "2"}
    started = [stacks.start([sys.executable, "-m", "tutti.torch", "-m", "train", "x"], cwd=tmp_path,
                            env={**environment, "RANK": str(rank)}) for rank in range(2)]
    ended = [stacks.finish(one) for one in started]
    assert [(one.returncode, one.stdout) for one in ended] == [(0, "['x']\n")] * 2, ended


def test_tuttirun_leaves_master_port_to_torchs_store(tmp_path):
    path = written(tmp_path, 'init_process_group("gloo")\nadd_up()\n')
    assert stacks.said("-m", "tutti.distributed.run", "--nproc-per-node=2", "-m", "tutti.torch", path) == "[]\n" * 2


def test_a_device_mesh_takes_tutti(tmp_path):
    path = written(tmp_path, """
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"), backend_override={"a": "gloo"})
        taken = mesh["a"].get_group()._get_backend(torch.device("cpu"))
        assert type(taken).__name__ == "ProcessGroupTutti", taken
        dist.barrier()  # rank 0 serves torch's store
        dist.destroy_process_group()
    """)
    run(program.main, 2, [path])


def test_what_it_spawns_takes_tutti_too(tmp_path):
    path = written(tmp_path, f"""
        def main(rank):
            init_process_group("gloo", "tcp://127.0.0.1:{ranks.free_port()}", rank=rank, world_size=2)
            add_up()

        if __name__ == "__main__":
            torch.multiprocessing.spawn(main, nprocs=2)
    """)
    assert stacks.said("-m", "tutti.torch", path) == "[]\n" * 2


def test_other_backends_stay():
    assert named("cpu:gloo,cuda:nccl") == "cpu:tutti,cuda:nccl"
    assert [named(one) for one in ("GLOO", "nccl", "cuda:nccl", None)] == ["tutti", "nccl", "cuda:nccl", None]


@pytest.mark.parametrize("arguments, status, text", [
    ([], 2, "train.py --epochs 3"), (["--epochs"], 2, "train.py --epochs 3"), (["-m"], 2, "train.py --epochs 3"),
    (["there/is/none.py"], 2, "there is no file 'there/is/none.py'"), (["--help"], 0, "torchrun")])
def test_wrong_arguments_are_told(arguments, status, text, capfd):
    assert program.main(arguments) == status
    output = capfd.readouterr()
    assert text in (output.err if status else output.out)
