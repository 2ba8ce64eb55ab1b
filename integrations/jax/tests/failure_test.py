"""A process that dies, leaves, does not come or does what cannot be: JAX's exception has tutti's text."""

import re

import jobs
import pytest

KILL = """
import signal
mesh = mesh_of()
for _ in range(3):
    psum(mesh, np.ones(4, np.float32))
seen = os.path.join(os.environ["JOB_FOLDER"], "killed")
if RANK == 1:
    with open(seen + ".new", "w") as file:
        file.write(str(time.monotonic()))
    os.rename(seen + ".new", seen)
    os.kill(os.getpid(), signal.SIGKILL)
OPERATION
def forever():
    while True:
        mine(function(data))
text = failure(forever)
say(f"{time.monotonic() - float(open(seen).read()):.3f} {text}")
say("again " + failure(psum, mesh, np.ones(4, np.float32)))
end(gone=(1,))
"""
OPERATIONS = {
    "psum": "lax.psum(v, 'x')", "all_gather": "lax.all_gather(v, 'x')", "all_to_all": "lax.all_to_all(v, 'x', 0, 0, tiled=True)",
    "psum_scatter": "lax.psum_scatter(v, 'x', tiled=True)",
    "ppermute": "lax.ppermute(v, 'x', [(r, (r + 1) % SIZE) for r in range(SIZE)])"}


@pytest.mark.parametrize(("size", "operation"), ((2, "psum"), (3, "psum"), (2, "all_gather"), (3, "psum_scatter"),
                                                 (2, "all_to_all"), (3, "ppermute")))
def test_killed_rank_is_named(size, operation, tmp_path):
    body = KILL.replace("OPERATION", f"function = everywhere(mesh, lambda v: jax.{OPERATIONS[operation]})\n"
                                     "data = rows(mesh, np.ones((SIZE, 4), np.float32))")
    said = jobs.run(body, size, tmp_path, expect={1: -9})
    for rank in range(size):
        if rank == 1:
            continue
        first, second = said[rank].splitlines()
        seconds, text = first.split(" ", 1)
        # The second where JAX hears of it only when the result is read.
        assert text.startswith(("JaxRuntimeError: UNKNOWN: ", "ValueError: UNKNOWN: ")), text
        assert re.search(r"MPI error: tutti: .* lost rank 1\b.*its process died", text), text
        assert float(seconds) < 1.0, first
        assert "rank 1" in second


def test_an_exception_tells_the_others(tmp_path):
    """A process that ends by an exception leaves, also while JAX's arrays live."""
    said = jobs.run("""
        mesh = mesh_of()
        kept = everywhere(mesh, lambda v: jax.lax.psum(v, "x"))(rows(mesh, np.ones(4, np.float32)))
        if RANK == 1:
            raise ValueError("on purpose")
        begun = time.monotonic()
        text = failure(psum, mesh, np.ones(4, np.float32))
        say(f"{time.monotonic() - begun:.1f} {text}")
        """, 2, tmp_path, expect={1: 1})
    seconds, text = said[0].split(" ", 1)
    assert "rank 1" in text
    assert "tutti: " in text
    assert float(seconds) < 20  # the other one starts to leave only when its Python ends


def test_the_end_waits_for_computations(tmp_path):
    """A process that has nothing more to do still serves what it has started."""
    said = jobs.run("""
        mesh = mesh_of()
        def many(v):
            for _ in range(30):
                v = jax.lax.psum(jnp.sin(v) @ jnp.ones((600, 600), v.dtype) * 1e-3, "x")
            return v
        result = everywhere(mesh, many)(rows(mesh, np.ones((600, 600), np.float32)))
        if RANK == 0:
            say("done")
        else:
            say("finite" if np.isfinite(mine(result)).all() else "not finite")
        """, 2, tmp_path)
    assert said == ["done\n", "finite\n"]


def test_after_the_end(tmp_path):
    said = jobs.run("""
        import atexit
        def late():
            say(failure(psum, mesh, np.ones(4, np.float32)))
            say(failure(psum, Mesh(np.array(jax.devices()[::-1]), "x"), np.ones(4, np.float32)))
        atexit.register(late)  # before JAX makes its client: runs after MPI_Finalize
        mesh = mesh_of()
        psum(mesh, np.ones(4, np.float32))
        """, 2, tmp_path)
    for text in said:
        assert text.count("MPI error: tutti: this process has ended its part in the JAX job") == 2, text


def test_devices_of_some_processes(tmp_path):
    """Refused before anything is sent, also while the others compute on all devices: their sums would be wrong."""
    said = jobs.run("""
        if RANK < 2:
            function = everywhere(mesh_of(jax.devices()[:2]), lambda v: jax.lax.psum(v, "x"))
            say(failure(function, rows(mesh_of(jax.devices()[:2]), np.ones(4, np.float32))))
        assert psum(mesh_of(), np.ones(1, np.int32))[0] == 4
        # One process by itself.
        assert int(jax.jit(lambda v: v.sum())(jnp.arange(4))) == 6
        """, 4, tmp_path)
    for text in said[:2]:
        assert text == ("ValueError: the computation is on devices of the processes 0, 1 only, and tutti.jax needs all 4 "
                        "processes of the job, or one alone: make the mesh of all of jax.devices()\n"), text


def test_processes_that_do_not_come(tmp_path):
    said = jobs.run("""
        mesh = mesh_of()
        psum(mesh, np.ones(4, np.float32))
        begun = time.monotonic()
        if RANK >= 2:
            time.sleep(4)
        say(failure(psum, mesh_of(jax.devices()[::-1]), np.ones(4, np.float32)))
        assert time.monotonic() - begun < 20
        # The communicator that was there before goes on.
        say(str(psum(mesh, np.ones(1, np.int32))[0]))
        """, 4, tmp_path, environment={"TUTTI_JAX_SPLIT_TIMEOUT": "2"})
    for rank in (0, 1):
        text = said[rank].splitlines()[0]
        assert "within 2 s (TUTTI_JAX_SPLIT_TIMEOUT)" in text, text
        assert "All processes of the JAX job must take part in it" in text
        assert "rank 2" in text, text
        assert "rank 3" in text, text
    for rank in range(4):
        lines = said[rank].splitlines()
        assert "MPI error: tutti: " in lines[-2], lines
        assert lines[-1] == "4"


SEVERAL = """
mesh = mesh_of()
count = len(jax.devices())
whole = jax.make_array_from_callback((count,), NamedSharding(mesh, P("x")), lambda at: np.arange(count, dtype=np.int32)[at])
function = everywhere(mesh, lambda v: jax.lax.psum(v, "x"))
say(failure(lambda: [np.asarray(one.data) for one in function(whole).addressable_shards]).replace("\\n", " "))
end()
"""


@pytest.mark.parametrize("way", ("config", "flag"))
def test_several_devices_in_a_process(way, tmp_path):
    if way == "flag":
        environment, body = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}, SEVERAL
    else:
        environment, body = {}, 'jax.config.update("jax_num_cpu_devices", 2)\n' + SEVERAL
    for text in jobs.run(body, 2, tmp_path, environment=environment):
        assert "process 0: it has 2 CPU devices, and tutti.jax needs one per process" in text, text


def test_several_devices_in_one_of_the_processes(tmp_path):
    said = jobs.run(SEVERAL, 2, tmp_path, each={1: {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}})
    for text in said:
        assert "process 1: it has 2 CPU devices" in text, text


@pytest.mark.parametrize("sets", ("all", "pairs", "crossed"))
def test_the_library_refuses_several_devices_by_itself(sets, tmp_path):
    """Never a wrong number, also if Python does not see the devices."""
    said = jobs.run(f"""
        jax.config.update("jax_num_cpu_devices", 2)
        tutti.jax._job._settings = lambda: ("", 5.0)
        devices = np.array(jax.devices())  # 0 and 1 of process 0, then those of process 1
        if {sets!r} == "all":
            mesh, spec = Mesh(devices, "x"), P("x")
        else:
            grid = devices.reshape(2, 2)
            if {sets!r} == "crossed":
                grid[1] = grid[1][::-1]
            mesh, spec = Mesh(grid, ("x", "y")), P(("x", "y"))
        whole = jax.make_array_from_callback((4,), NamedSharding(mesh, spec), lambda at: np.arange(4, dtype=np.int32)[at] + 1)
        function = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
        expected = {{0: 10}} if {sets!r} == "all" else {{0: 4, 1: 6}}
        try:
            result = [(one.index[0].start or 0, int(one.data[0])) for one in function(whole).addressable_shards]
        except Exception as problem:
            say(str(problem).replace("\\n", " "))
        else:
            assert all(value == expected[place % len(expected)] for place, value in result), result
            say("right")
        end()
        """, 2, tmp_path)
    refused = [text for text in said if "one CPU device per process" in text]
    if sets == "all":
        assert refused, said
    for text in said:
        assert text == "right\n" or "MPI error: tutti: " in text, said


def test_a_setting_that_is_no_number(tmp_path):
    for text in jobs.run("say(failure(psum, mesh_of(), np.ones(4, np.float32)))\nend()", 2, tmp_path,
                         each={1: {"TUTTI_JAX_SPLIT_TIMEOUT": "soon"}}):
        assert "process 1: TUTTI_JAX_SPLIT_TIMEOUT is 'soon'; allowed: seconds, more than 0" in text, text


def test_a_process_without_tutti(tmp_path):
    """One that runs on gloo is named."""
    said = jobs.run("""
        if RANK == 0:
            time.sleep(4)
            end()
        say(failure(tutti.jax._job._exchanged, "settings", b"", 1.0))
        end()
        """, 2, tmp_path)
    assert "process 0 did not come within 1 s; does every process import tutti.jax, and use JAX?" in said[1]
