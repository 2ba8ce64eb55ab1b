"""The changes that `import tutti.jax` makes to a process, and all that it leaves as it was."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import jobs
import pytest
from tutti import _tutti

LIBRARY = pathlib.Path(_tutti.__file__).parent / "lib" / "libtutti_jax.so"


def python(text, *arguments, **environment):
    """Runs a text of Python; what it printed, its errors and its status."""
    done = subprocess.run([sys.executable, "-c", text, *arguments], env={**os.environ, **environment}, text=True,
                          capture_output=True, timeout=jobs.LIMIT, check=False)
    return done.stdout, done.stderr, done.returncode


def test_only_this_process_is_changed():
    out, problem, status = python("""
import os, subprocess, sys
before = dict(os.environ)
import tutti.jax, jax
changed = {name for name in os.environ if os.environ[name] != before.get(name)} | before.keys() - os.environ.keys()
assert not any("MPI" in name or "COLLECTIVES" in name or "TUTTI" in name for name in changed), changed
assert jax.config.jax_cpu_collectives_implementation == "mpi"
child = "import jax, os; print(jax.config.jax_cpu_collectives_implementation, 'tutti' in open('/proc/self/maps').read())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout.strip())
print(jax.jit(lambda v: v + 1)(1))  # one process, no job
""", MPITRAMPOLINE_VERBOSE="1")
    assert status == 0, problem
    assert out.splitlines() == ["gloo False", "2"]


def test_one_copy_of_the_library():
    out, problem, status = python("""
import tutti.jax, tutti.distributed
print(sorted({line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "libtutti" in line}))
print(len({line.split()[-1] for line in open("/proc/self/maps") if "/libtutti.so" in line}))
""")
    assert status == 0, problem
    assert out.splitlines() == ["['libtutti.so.0', 'libtutti_jax.so']", "1"]


def test_nothing_is_imported_before_it_is_used():
    out, problem, status = python("import sys, tutti, tutti.distributed; print('jax' in sys.modules)")
    assert (out, status) == ("False\n", 0), problem


def test_jax_before_it():
    _, problem, status = python("import jax; import tutti.jax")
    assert status == 1
    assert "import tutti.jax before jax and all that imports it" in problem


@pytest.mark.parametrize("version", ("0.9.2", "0.11.0", "0.12.0.1", "0.100.1", "1.0"))
def test_another_version(version):
    _, problem, status = python(f"""
import importlib.metadata
real = importlib.metadata.version
importlib.metadata.version = lambda name: {version!r} if name == "jaxlib" else real(name)
import tutti.jax
""")
    assert status == 1
    assert f"tutti.jax does not know jaxlib {version}: it was tried with 0.10.0 and 0.10.2 and takes 0.10.*" in problem


def test_without_jax():
    _, problem, status = python("""
import importlib.metadata
def version(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
import tutti.jax
""")
    assert status == 1
    assert "tutti.jax needs jax: pip install jax==0.10.2" in problem


def test_the_library_without_the_package(tmp_path):
    """Its name in jaxlib's variable alone: jax loads it, finds every symbol, and computations say what is missing."""
    with jobs.Job("""
        jax.config.update("jax_cpu_collectives_implementation", "mpi")
        begin()
        say(failure(psum, mesh_of(), np.ones(4, np.float32)))
        end()
        """, 2, tmp_path, begins=False, package=False,
                  environment={"MPITRAMPOLINE_LIB": str(LIBRARY), "MPITRAMPOLINE_VERBOSE": "1"}) as job:
        for text in job.finish():
            assert "import tutti.jax before jax, and leave MPITRAMPOLINE_LIB unset" in text
        assert "Found MPI ABI version 2.9.0" in job.all_said()


def test_functions_that_jax_does_not_call():
    out, problem, status = python("""
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
assert library.MPIABI_Bcast() != 0
text, length = ctypes.create_string_buffer(1024), ctypes.c_int()
library.MPIABI_Error_string(1, text, ctypes.byref(length))
print(text.value.decode())
assert length.value == len(text.value)
handle = ctypes.c_size_t(12345)
assert library.MPIABI_Wait(ctypes.byref(handle), None) != 0 and handle.value == 0
library.MPIABI_Error_string(1, text, ctypes.byref(length))
print(text.value.decode())
handle = ctypes.c_size_t(77777)
assert library.MPIABI_Comm_free(ctypes.byref(handle)) == 0 and handle.value == 0
library.MPIABI_Finalize()  # without a begin
""", str(LIBRARY))
    assert status == 0, problem
    assert out.splitlines() == [
        "tutti: MPI_Bcast is not supported: tutti.jax has only the functions of MPI that jaxlib's collectives call",
        "tutti: MPI_Wait: there is no such request"]


def test_the_same_job_again(tmp_path):
    """New clients of JAX in one process, other meshes of the same devices, and a world of the program's own beside."""
    said = jobs.run("""
        from jax.extend.backend import clear_backends
        import tutti
        for turn in range(3):
            for devices in (jax.devices(), jax.devices()[::-1], jax.devices()):
                assert psum(mesh_of(devices), np.full(2, RANK + turn, np.int32)).tolist() == [1 + 2 * turn] * 2
            clear_backends()
            jax.distributed.shutdown()
            begin(os.environ[f"PORT_{turn}"])
        world = tutti.init_process_group(f"tcp://127.0.0.1:{os.environ['OTHER_PORT']}?rank={RANK}&world_size={SIZE}")
        values = np.ones(3, np.float32)
        world.all_reduce(values)
        assert values.tolist() == [2.0] * 3
        assert psum(mesh_of(), np.ones(2, np.int32)).tolist() == [2, 2]
        world.close()
        assert psum(mesh_of(), np.ones(2, np.int32)).tolist() == [2, 2]
        say("well")
        """, 2, tmp_path, environment={"OTHER_PORT": str(jobs.free_port()),
                                        **{f"PORT_{turn}": str(jobs.free_port()) for turn in range(3)}})
    assert said == ["well\n"] * 2


def tuttirun(*arguments, **environment):
    """Runs a job of two workers under tuttirun."""
    program = pathlib.Path(_tutti.__file__).parent / "bin" / "tuttirun"
    return subprocess.run([str(program), "--nproc-per-node", "2", *arguments], text=True, capture_output=True, timeout=jobs.LIMIT,
                          env={**os.environ, "PYTHON_EXEC": sys.executable, **environment}, check=False)


PROGRAM = """
import sys
import jax, numpy as np
from jax.experimental import multihost_utils
jax.distributed.initialize()
assert sys.argv[1:] == ["one", "two"], sys.argv
assert __name__ == "__main__"
import beside
print("sum", int(multihost_utils.process_allgather(np.array([jax.process_index() + 1])).sum()), jax.process_count())
print(jax.config.jax_cpu_collectives_implementation)
"""


@pytest.mark.parametrize("form", ("file", "module"))
def test_tuttirun_needs_no_other_word(form, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").touch()
    named = [str(tmp_path / "program.py")] if form == "file" else ["-m", "program"]
    search = {} if form == "file" else {"PYTHONPATH": str(tmp_path)}
    done = tuttirun("-m", "tutti.jax", *named, "one", "two", **search)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum 3 2") == 2, done.stdout
    assert done.stdout.count("mpi") == 2


TOGETHER = """
import tutti.jax
import jax, numpy as np
from jax.experimental import multihost_utils
import tutti.distributed as dist

jax.distributed.initialize()
dist.init_process_group()
rank = dist.get_rank()

def check_jax(turn):
    assert int(multihost_utils.process_allgather(np.array([jax.process_index() + turn])).sum()) == 1 + 2 * turn

def check_dist(turn):
    values = np.full(4, rank + turn, np.float32)
    dist.all_reduce(values)
    assert values.tolist() == [1 + 2.0 * turn] * 4

checks = [check_jax, check_dist]
{more}
for turn in range(3):
    for check in checks:
        check(turn)
copies = {{line.split()[-1] for line in open("/proc/self/maps") if "/libtutti.so" in line}}
assert len(copies) == 1, copies
dist.destroy_process_group()
print("well")
"""

TORCH = """
import importlib.util, torch, torch.distributed
import tutti.torch
compiled = importlib.util.find_spec("_tutti_torch_" + "_".join(torch.__version__.split(".")[:2]))
assert (tutti.torch.ProcessGroupTutti.__module__ == "tutti.torch._python_fallback") == (compiled is None)
torch.distributed.init_process_group("tutti")

def check_torch(turn):
    tensor = torch.full((4,), float(rank + turn))
    torch.distributed.all_reduce(tensor)
    assert tensor.tolist() == [1 + 2.0 * turn] * 4

checks.append(check_torch)
"""


def run_together(more, folder):
    (folder / "program.py").write_text(TOGETHER.format(more=more))
    done = tuttirun(str(folder / "program.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("well") == 2


def test_one_program_with_tutti_distributed(tmp_path):
    run_together("", tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_one_program_with_torch(tmp_path):
    """tutti.jax, tutti.distributed and tutti.torch; integrations/check.sh runs it again when it has installed torch."""
    run_together(TORCH, tmp_path)


@pytest.mark.parametrize(("arguments", "text"), (
    ((), "usage: python -m tutti.jax program.py"), (("--help",), "usage: python -m tutti.jax program.py"), (("-m",), "usage: "),
    (("absent.py",), "tutti.jax: cannot read absent.py: No such file or directory")))
def test_misuse_of_the_command(arguments, text):
    done = subprocess.run([sys.executable, "-m", "tutti.jax", *arguments], text=True, capture_output=True, timeout=jobs.LIMIT,
                          check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(text)
