"""Without its compiled part the backend is one in Python, of the operations that it names."""

import gc
import signal
import sys
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import errors_test
import layers_test
import operations_test
import rendezvous_test
import stacks
import training_test
import works_test
from forked import all_come, begin, check_killed, on_ranks, run
from tutti.torch import _python_base, _python_fallback

CPU = torch.device("cpu")
CAN_BE_A_BACKEND = _python_base.derives_from_backend()


def in_python(body, *arguments):
    """Calls a function, or that of a test, on a backend that is in Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _python_fallback.begin("for a test")
    dist.Backend._plugins["TUTTI"] = dist.Backend._BackendPlugin(
        lambda given, options: _python_fallback.make_backend(given, options, "native"), True)
    getattr(body, "body", body)(*arguments)


def body_refused():
    with pytest.raises(ValueError, match="names several backends, .* pip install tutti-torch"):
        dist.init_process_group("cpu:tutti,cuda:gloo")


def body_names():
    begin("cpu:tutti")
    group = dist.group.WORLD
    assert isinstance(group, _python_fallback.ProcessGroupTutti)
    rendezvous_test.add_up()
    x = torch.ones(1)
    for wrong, kind, text in [
        (lambda: dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0)), ValueError, "the package tutti-torch has it"),
        (lambda: dist.all_reduce(x, op=dist.ReduceOp.BAND), ValueError, "BAND of float32 has no meaning"),
        (lambda: dist.all_reduce(x.to_sparse()), ValueError, "takes dense CPU tensors"),
        (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)), ValueError, "does not divide equally"),
        (lambda: group.recv([x], -1, 0), ValueError, "the sender must be a rank of the group, not -1"),
        (lambda: group.allgather([[x]], [x]), ValueError, "a tensor for each of the 2 ranks"),
    ]:
        with pytest.raises(kind, match=text):
            wrong()
    rendezvous_test.add_up()  # nothing was sent


def body_late():
    rank, _ = begin()
    rendezvous_test.add_up()
    options = dist.AllreduceOptions()
    options.timeout = timedelta(milliseconds=300)
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="a timeout has passed: .* rank 1"):
            dist.group.WORLD.allreduce([torch.ones(1)], options).wait()
    all_come()


def body_shut_down():
    begin()
    group = dist.group.WORLD
    work = dist.all_reduce(torch.ones(1), async_op=True)
    with pytest.raises(ValueError, match="only a recv that is done has one"):
        work._source_rank()
    dist.destroy_process_group()
    assert work.wait()
    for late in (group.abort, lambda: group.allreduce([torch.ones(1)])):
        with pytest.raises(dist.DistBackendError, match="group '0' was shut down"):
            late()


def body_coalesced():
    rank, size = begin()
    group = dist.group.WORLD
    tensors = [torch.full((3,), rank + 1.0), torch.full((2, 2), rank, dtype=torch.int32)]
    group.allreduce_coalesced(tensors).wait()
    assert (tensors[0] == 3).all() and (tensors[1] == 1).all()
    outputs = [torch.empty(size * 3), torch.empty(size * 2, 2, dtype=torch.int32)]
    group.all_gather_single_coalesced(outputs, tensors).wait()
    assert (outputs[0] == 3).all() and (outputs[1] == 1).all()
    group.reduce_scatter_single_coalesced(tensors, outputs).wait()
    assert (tensors[0] == 6).all() and (tensors[1] == 2).all()


def of(*bodies):
    return pytest.mark.parametrize("body", bodies, ids=[body.__name__.split("_", 1)[1] for body in bodies])


@of(operations_test.test_reductions, operations_test.test_moves)
@on_ranks(1, 3, limit=60)
def test_gives_what_torchs_formulas_give(body):
    in_python(body)


@of(body_names, body_late, body_shut_down, body_coalesced, operations_test.test_gives_what_gloo_gives,
    works_test.test_futures, layers_test.test_ddp_gets_the_gradients_that_gloo_gives, layers_test.test_functional,
    errors_test.test_abort_is_told_to_all)
@on_ranks(2, limit=60)
def test_two_ranks(body):
    in_python(body)


def test_a_rank_that_is_lost_in_backward_is_named():
    """DDP's C++ reads the value of a future that has failed; torch makes a RuntimeError of what it is told."""
    check_killed(in_python, 3, training_test.LOST, training_test.body_lost, signal.SIGKILL, RuntimeError)


def body_beside_another():
    begin("cpu:tutti,cuda:gloo")
    gc.collect()  # torch alone keeps the backend
    backend = dist.group.WORLD._get_backend(CPU)
    assert isinstance(backend, _python_fallback.BackendTutti) and backend.name() == "tutti"
    rendezvous_test.add_up()
    assert backend._get_sequence_number_for_group() > 0
    assert backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
    dist.group.WORLD.monitored_barrier(timedelta(seconds=10), wait_all_ranks=True)
    dist.group.WORLD.set_timeout(timedelta(seconds=7))
    assert backend.options._timeout == timedelta(seconds=7)


def body_coalescing():
    of_torch = dist.init_process_group
    dist.init_process_group = lambda _, **options: of_torch("cpu:tutti,cuda:gloo", **options)  # a backend, not a group
    operations_test.test_coalesced.body()


def body_in_detail():
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    begin("cpu:tutti,cuda:gloo")
    rendezvous_test.add_up()
    with pytest.raises(RuntimeError, match="Detected mismatch between collectives"):
        dist.all_reduce(torch.ones(1 + dist.get_rank()))
    rendezvous_test.add_up()  # nothing was sent
    dist.destroy_process_group()


@pytest.mark.skipif(not CAN_BE_A_BACKEND, reason="before torch 2.14 Python cannot derive from torch's Backend")
@of(body_beside_another, body_in_detail, body_coalescing)
@on_ranks(2, limit=60)
def test_is_a_whole_backend(body):
    in_python(body)


@pytest.mark.skipif(CAN_BE_A_BACKEND, reason="since torch 2.14 the Python fallback can be a backend beside others")
def test_is_the_only_backend_of_a_group():
    run(in_python, 1, body_refused)


@on_ranks(2, limit=60)
def test_objects_and_groups(tmp_path):
    in_python(layers_test.test_objects_checkpoints_and_sub_groups, tmp_path)


def test_serves_the_operations_that_it_names():
    own = {name for name, value in vars(_python_fallback._Operations).items()
           if callable(value) and value.__name__ == name}
    helpers = {"__init__", "getBackendName", "getGroupName", "setGroupName", "getGroupDesc", "setGroupDesc",
               "_get_backend", "abort", "shutdown", "_check_open", "_run", "_call", "_lists", "_counts", "_each"}
    assert own - helpers == {
        "allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "alltoall",
        "alltoall_base", "barrier", "broadcast", "gather", "recv", "recv_anysource", "reduce", "reduce_scatter",
        "reduce_scatter_tensor_coalesced", "scatter", "send", "_allgather_base", "_reduce_scatter_base"}


def test_says_why_it_is_taken():
    text = """if True:
        import torch
        torch.__version__ = "2.99.0"
        import tutti.torch
        assert tutti.torch.ProcessGroupTutti.__module__ == "tutti.torch._python_fallback"
        """
    done = stacks.python("-c", text)
    assert done.returncode == 0, done.stderr
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    assert f"tutti-torch has no module for torch 2.99.0 and {python}, only for torch 2." in done.stderr
    assert "tutti.torch takes its Python fallback" in done.stderr


def test_worlds_without_a_secret_are_refused_as_by_the_compiled_part(tmp_path):
    for words in (("1", "1"), ("pickle", "1")):
        folder = tmp_path / "-".join(words)
        folder.mkdir()
        run(in_python, 2, rendezvous_test.test_a_world_without_a_secret_is_refused, words, folder)
    run(in_python, 2, rendezvous_test.test_keys_that_differ_are_an_error_that_names_both_hosts_and_files, tmp_path)
