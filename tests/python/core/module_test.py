"""The module itself: its stubs, its settings, importing, forking, ending."""

import ast
import os
import pathlib
import sys
from datetime import timedelta

import pytest
import tutti
from tutti import _tutti

import ranks
import stacks

STUBS = pathlib.Path(_tutti.__file__).with_name("_tutti.pyi")
STUB_PARTS = [STUBS.with_name(name) for name in ("_settings.pyi", "_stores.pyi")]


def parameters(function):
    """Names in order, after a star those that need their names."""
    arguments = function.args
    names = [a.arg for a in arguments.posonlyargs + arguments.args if a.arg != "self"]
    return names + (["*"] + [a.arg for a in arguments.kwonlyargs] if arguments.kwonlyargs else [])


def described(function):
    """The same of a function of the module, by what its documentation begins with."""
    text = function.__doc__.split("(", 1)[1]
    tree = ast.parse("def f(" + text.split(") ->")[0].replace("ReduceOp.", "ReduceOp_")
                     .replace("LogLevel.", "LogLevel_").replace("<tutti", "'<tutti") + "): 0")
    return parameters(tree.body[0])


def test_submodules_come_with_their_first_use():
    assert stacks.said("-c", "import sys, tutti; early = 'tutti.distributed' in sys.modules; print(early, "
                       "tutti.distributed.ReduceOp.SUM, tutti.rank0.__name__, tutti.multiprocessing.__name__, tutti.log.__name__)"
                       ).split() == ["False", "RedOpType.SUM", "tutti.rank0", "tutti.multiprocessing", "tutti.log"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tutti.nothing


def test_the_package_is_the_commands():
    tutti_command = ("-m", "tutti")
    assert stacks.said(*tutti_command, "--version") == stacks.said(*tutti_command, "version") == f"tutti {tutti.__version__}\n"
    assert stacks.said(*tutti_command, "run", "--version") == f"tuttirun {tutti.__version__}\n"
    assert stacks.said(*tutti_command, "run", "--nproc-per-node", "2", "--no-python", "echo", "here") == "here\nhere\n"


def is_last_overload(function):
    """The one that has all parameters as the function has them."""
    return [each.id for each in function.decorator_list] == ["overload"] and function.returns is not None and (
        ast.unparse(function.returns) == "Work | None")


def test_the_stubs_tell_the_truth():
    told = [node for file in (STUBS, *STUB_PARTS) for node in ast.parse(file.read_text()).body]
    missing = []
    for node in told:
        if isinstance(node, ast.FunctionDef):
            if described(getattr(_tutti, node.name)) != parameters(node):
                missing.append(node.name)
        if isinstance(node, ast.ClassDef) and node.name not in ("ReduceOp", "LogLevel"):
            real = getattr(_tutti, node.name)
            members = set()
            for member in node.body:
                if isinstance(member, ast.AnnAssign):
                    members.add(member.target.id)
                    assert hasattr(real, member.target.id), (node.name, member.target.id)
                elif isinstance(member, ast.FunctionDef):
                    members.add(member.name)
                    found = getattr(real, member.name, None)
                    assert found is not None, (node.name, member.name)
                    plain = not member.name.startswith("__") and (not member.decorator_list or
                                                                  is_last_overload(member))
                    if plain and described(found) != parameters(member):
                        missing.append((node.name, member.name, described(found), parameters(member)))
            untold = {name for name in vars(real) if not name.startswith("_")} - members
            assert not untold, (node.name, untold)
    assert not missing
    names = {node.name for node in told if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {node.target.id for node in told if isinstance(node, ast.AnnAssign)}
    assert {name for name in vars(_tutti) if not name.startswith("_")} <= names


def test_the_stubs_of_collectives_are_made(monkeypatch):
    tools = pathlib.Path(__file__).parents[3] / "tools"
    monkeypatch.syspath_prepend(str(tools))
    import made
    import stubs
    assert list(made.faults(tools.parent)) == []
    monkeypatch.setattr(stubs, "TYPES", stubs.TYPES | {"op": "int"})
    assert [fault.partition(":")[0] for fault in made.faults(tools.parent)] == [stubs.STUBS]


def test_everything_is_documented():
    for name in tutti.__all__:
        assert getattr(tutti, name).__doc__ or name == "ANY_SOURCE", name


# Packages of the standard library, which some versions of Python have imported before the program begins.
IMPORTED = {"_collections", "_collections_abc", "_functools", "_operator", "_sre", "atexit", "collections", "copyreg", "enum",
            "functools", "itertools", "keyword", "operator", "re", "reprlib", "sre_compile", "sre_constants", "sre_parse",
            "types"}
HEAVY = {"asyncio", "cloudpickle", "ml_dtypes", "mpi4py", "multiprocessing", "numpy", "torch", "tqdm"}


def imported_by(name):
    """What `import name` adds in an interpreter that has only the standard library."""
    return stacks.said("-S", "-c", f"import sys; before = set(sys.modules); import {name}; print(*sorted(set(sys.modules) - before))",
                       env={**os.environ, "PYTHONPATH": str(pathlib.Path(tutti.__file__).parent.parent)})


def test_import_brings_nobody_along():
    """What makes it quick: it imports these modules and no others."""
    said = imported_by("tutti")
    ours = {name for name in said.split() if name.partition(".")[0] == "tutti"}
    assert ours == {"tutti", "tutti._tutti", "tutti.errors"}
    assert {name.partition(".")[0] for name in set(said.split()) - ours} <= IMPORTED


@pytest.mark.parametrize("name", ["tutti", "tutti.distributed", "tutti.multiprocessing", "tutti.rank0"])
def test_importing_it_imports_no_heavy_package(name):
    said = stacks.said("-c", f"import sys, {name}; print(*set(sys.modules))")
    own = {"tutti.multiprocessing": {"multiprocessing"}}.get(name, set())
    assert (HEAVY - own).isdisjoint(said.split())


def test_torchs_words_come_without_the_slow_part_of_the_standard_library():
    slow = {"asyncio", "concurrent.futures", "ctypes", "inspect", "logging", "multiprocessing", "socket", "subprocess"}
    assert slow.isdisjoint(imported_by("tutti.distributed").split())


def test_versions_and_backends():
    assert tutti.__version__ == _tutti.__version__ and tutti.__version__.count(".") == 2
    for name in ("native", "tutti", "gloo", "GLOO"):
        assert tutti.is_available(name)
    for name in ("ucc", ""):
        assert not tutti.is_available(name)
    for name in ("mpi", "nccl"):  # the machine's to say
        assert tutti.is_available(name) == (_tutti.why_unavailable(name) == "")


def test_settings():
    config = tutti.Config.from_environment({"TUTTI_TIMEOUT": "5", "TUTTI_AGREE": "strict",
                                            "TUTTI_TRANSPORT": "tcp", "TUTTI_CPUS": "3",
                                            "TUTTI_LOG_LEVEL": "debug"})
    assert (config.timeout, config.agree, config.transport, config.cpus, config.log_level) == (
        timedelta(seconds=5), "strict", "tcp", 3, tutti.LogLevel.DEBUG)
    config.timeout, config.cpus, config.agree = 2.5, None, "normal"
    assert config.timeout == timedelta(seconds=2.5) and config.cpus is None
    assert config.link_timeout == timedelta(seconds=15)
    assert (config.advertise, config.port) == ("", None)
    config.advertise, config.port = "192.0.2.7", 7000
    assert (config.advertise, config.port) == ("192.0.2.7", 7000)
    config.link_timeout = 2
    assert config.link_timeout == timedelta(seconds=2)
    with pytest.raises(ValueError, match="1 to 32767 s"):
        config.link_timeout = 0.5
    with pytest.raises(tutti.InvalidArgument, match="TUTTI_LINK_TIMEOUT='0.5' is not understood"):
        tutti.Config.from_environment({"TUTTI_LINK_TIMEOUT": "0.5"})
    assert config.stall_warning == timedelta(seconds=30)
    config.stall_warning = 0
    assert config.stall_warning == timedelta(0)
    with pytest.raises(ValueError, match="Config.stall_warning must be 0 or more"):
        config.stall_warning = -1
    assert tutti.Config.from_environment({"TUTTI_STALL_WARNING": "0.5"}).stall_warning == timedelta(seconds=0.5)
    with pytest.raises(tutti.InvalidArgument, match="TUTTI_STALL_WARNING='-1' is not understood"):
        tutti.Config.from_environment({"TUTTI_STALL_WARNING": "-1"})
    assert not config.cuda_ipc
    assert tutti.Config.from_environment({"TUTTI_CUDA_IPC": "on"}).cuda_ipc
    with pytest.raises(ValueError, match="'maybe' is none of normal, strict, off"):
        config.agree = "maybe"
    with pytest.raises(tutti.InvalidArgument, match="TUTTI_AGREE"):
        tutti.Config.from_environment({"TUTTI_AGREE": "maybe"})
    for wrong in ({"TUTTI_CPUS": 3}, {3: "a"}):
        with pytest.raises(TypeError, match="names and values of variables are text, not"):
            tutti.Config.from_environment(wrong)
    with tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1,
                                  config=config) as world:
        assert world.timeout == timedelta(seconds=2.5) and tutti.is_initialized()
    assert not tutti.is_initialized()


def test_a_forked_child_starts_anew(tmp_path):
    """Groups, Works and callbacks of the parent are of no use in a child; a world of its own is."""
    ranks.run("""
        work = world.irecv(np.zeros(3), 1 - RANK)
        work.add_done_callback(lambda _: None)  # the thread of the callbacks runs
        early = world.all_reduce(np.ones(100_000), async_op=True) if RANK == 0 else work
        def child():
            global early
            for call in (world.barrier, work.wait, early.wait, lambda: world.new_group([0, 1]),
                         lambda: world.send(np.zeros(3), 0)):
                assert raises(tutti.BackendError, "fork", call).code == "unsupported"
            del early
            assert not tutti.is_initialized()
            own = tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1)
            done = threading.Event()
            own.irecv(np.zeros(3), 0).add_done_callback(lambda _: done.set())
            own.send(np.ones(3), 0)
            assert done.wait(20)
        assert in_fork(child) == 0
        if RANK == 1:
            early = world.all_reduce(np.ones(100_000), async_op=True)
        early.wait()
        world.send(np.ones(3), 1 - RANK)
        work.wait()
        world.barrier()
    """, 2, tmp_path)


def test_sub_interpreters_are_refused():
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = pytest.importorskip("_interpreters", reason="no sub-interpreters here")
    interpreter = interpreters.create()
    told = ("import sys; sys.path[:] = {!r}\ntry:\n  import tutti\nexcept ImportError as problem:\n"
            "  pass\nelse:\n  raise SystemError('was imported')")
    assert interpreters.run_string(interpreter, told.format(sys.path)) is None
    interpreters.destroy(interpreter)
    assert tutti.HashStore().num_keys() == 0


def test_errors_have_pythons_classes_too():
    for ours, theirs in ((tutti.InvalidArgument, ValueError), (tutti.TimeoutError, TimeoutError),
                         (tutti.NetworkError, ConnectionError), (tutti.StoreError, RuntimeError)):
        assert issubclass(ours, tutti.Error) and issubclass(ours, theirs)
