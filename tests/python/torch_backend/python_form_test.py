"""Without its compiled part the backend is one in Python, of the operations that it names."""

import gc
import signal
import subprocess
import sys
import time
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import errors_test
import layers_test
import operations_test
import rendezvous_test
import training_test
import works_test
from forked import run, run_each
from tutti.torch import _python_base, _python_form

CPU = torch.device("cpu")
CAN_BE_A_BACKEND = _python_base.derives_from_backend()


def in_python(body, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _python_form.begin("for a test")
    dist.Backend._plugins["TUTTI"] = dist.Backend._BackendPlugin(
        lambda given, options: _python_form.make_backend(given, options, "native"), True)
    body(*arguments)


def body_refused():
    with pytest.raises(ValueError, match="names several backends, .* pip install tutti-torch"):
        dist.init_process_group("cpu:tutti,cuda:gloo")


def body_names():
    dist.init_process_group("cpu:tutti")
    group = dist.group.WORLD
    assert isinstance(group, _python_form.ProcessGroupTutti)
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
    dist.init_process_group("tutti")
    rendezvous_test.add_up()
    options = dist.AllreduceOptions()
    options.timeout = timedelta(milliseconds=300)
    if dist.get_rank() == 0:
        with pytest.raises(dist.DistBackendError, match="a timeout has passed: .* rank 1"):
            dist.group.WORLD.allreduce([torch.ones(1)], options).wait()
    else:
        time.sleep(1)  # the other rank does not wait as long


def body_shut_down():
    dist.init_process_group("tutti")
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
    dist.init_process_group("tutti")
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    tensors = [torch.full((3,), rank + 1.0), torch.full((2, 2), rank, dtype=torch.int32)]
    group.allreduce_coalesced(tensors).wait()
    assert (tensors[0] == 3).all() and (tensors[1] == 1).all()
    outputs = [torch.empty(size * 3), torch.empty(size * 2, 2, dtype=torch.int32)]
    group.all_gather_single_coalesced(outputs, tensors).wait()
    assert (outputs[0] == 3).all() and (outputs[1] == 1).all()
    group.reduce_scatter_single_coalesced(tensors, outputs).wait()
    assert (tensors[0] == 6).all() and (tensors[1] == 2).all()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("body", [operations_test.body_reductions, operations_test.body_moves], ids=["reduce", "move"])
def test_gives_what_torchs_formulas_give(body, size):
    run(in_python, size, body, limit=60)


@pytest.mark.parametrize("body", [body_names, body_late, body_shut_down, body_coalesced, operations_test.body_as_gloo,
                                  works_test.body_futures, layers_test.body_ddp_as_gloo, layers_test.body_functional,
                                  errors_test.body_aborted], ids=lambda body: body.__name__.removeprefix("body_"))
def test_two_ranks(body):
    run(in_python, 2, body, limit=60)


def test_a_rank_that_is_lost_in_backward_is_named():
    """DDP's C++ reads the value of a future that has failed; torch makes a RuntimeError of what it is told."""
    ended = run_each(in_python, 3, training_test.body_lost, signal.SIGKILL, RuntimeError)
    assert [one.status for one in ended] == [0, -signal.SIGKILL, 0], ended


def body_beside_another():
    dist.init_process_group("cpu:tutti,cuda:gloo")
    gc.collect()  # torch alone keeps the backend
    backend = dist.group.WORLD._get_backend(CPU)
    assert isinstance(backend, _python_form.BackendTutti) and backend.name() == "tutti"
    rendezvous_test.add_up()
    assert backend._get_sequence_number_for_group() > 0
    assert backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
    dist.group.WORLD.monitored_barrier(timedelta(seconds=10), wait_all_ranks=True)
    dist.group.WORLD.set_timeout(timedelta(seconds=7))
    assert backend.options._timeout == timedelta(seconds=7)


def body_coalescing():
    of_torch = dist.init_process_group
    dist.init_process_group = lambda _: of_torch("cpu:tutti,cuda:gloo")  # a backend, not a group
    operations_test.body_coalesced()


def body_in_detail():
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("cpu:tutti,cuda:gloo")
    rendezvous_test.add_up()
    with pytest.raises(RuntimeError, match="Detected mismatch between collectives"):
        dist.all_reduce(torch.ones(1 + dist.get_rank()))
    rendezvous_test.add_up()  # nothing was sent
    dist.destroy_process_group()


@pytest.mark.skipif(not CAN_BE_A_BACKEND, reason="before torch 2.14 Python cannot derive from torch's Backend")
@pytest.mark.parametrize("body", [body_beside_another, body_in_detail, body_coalescing],
                         ids=["beside_another", "in_detail", "coalescing"])
def test_is_a_whole_backend(body):
    run(in_python, 2, body, limit=60)


@pytest.mark.skipif(CAN_BE_A_BACKEND, reason="since torch 2.14 the form in Python can be a backend beside others")
def test_is_the_only_backend_of_a_group():
    run(in_python, 1, body_refused)


def test_objects_and_groups(tmp_path):
    run(in_python, 2, layers_test.body_objects, tmp_path, limit=60)


def test_serves_the_operations_that_it_names():
    own = {name for name, value in vars(_python_form._Operations).items()
           if callable(value) and value.__name__ == name}
    helpers = {"__init__", "getBackendName", "getGroupName", "setGroupName", "getGroupDesc", "setGroupDesc",
               "_get_backend", "abort", "shutdown", "_check_open", "_run", "_lists", "_counts", "_each"}
    assert own - helpers == set(_python_form.OPERATIONS)


def test_says_why_it_is_taken():
    text = """if True:
        import torch
        torch.__version__ = "2.99.0"
        import tutti.torch
        assert tutti.torch.ProcessGroupTutti.__module__ == "tutti.torch._python_form"
        """
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    assert f"tutti-torch has no module for torch 2.99.0 and {python}, only for torch 2." in done.stderr
    assert "tutti.torch takes its form in Python" in done.stderr
