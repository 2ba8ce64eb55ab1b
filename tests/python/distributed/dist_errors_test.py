"""Handlers of torch.distributed's errors catch ours: classes, and words that programs look for in texts."""

import datetime
import socket

import pytest

import ranks
import tutti.distributed as dist
from init_programs import run
from tutti import errors

SOON = datetime.timedelta(seconds=0.3)


def caught(kind, call, *others, text=""):
    with pytest.raises(kind) as told:
        call()
    assert all(isinstance(told.value, other) for other in others), type(told.value).__mro__
    assert text in str(told.value)


def test_a_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ranks.free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        caught(dist.DistNetworkError, lambda: dist.TCPStore("127.0.0.1", port, 1, True, SOON), dist.DistError,
               dist.DistStoreError, text="EADDRINUSE")


def test_nobody_serves_the_store():
    port = ranks.free_port()
    for host in ("127.0.0.1", "no.such.host.invalid"):
        caught(dist.DistNetworkError, lambda: dist.TCPStore(host, port, 2, False, SOON), dist.DistError, TimeoutError)
    caught(dist.DistStoreError, lambda: dist.TCPStore("127.0.0.1", 0, 2, True, SOON), TimeoutError, text="users have joined")


@pytest.mark.parametrize("kind", ["hash", "tcp", "file", "prefix"])
def test_stores(kind, tmp_path):
    tcp = dist.TCPStore("127.0.0.1", 0, 1, True)
    store = {"hash": dist.HashStore, "tcp": lambda: tcp, "file": lambda: dist.FileStore(str(tmp_path / "s"), 1),
             "prefix": lambda: dist.PrefixStore("p", tcp)}[kind]()
    store.set_timeout(0.05)
    for call in (lambda: store.get("x"), lambda: store.wait(["x"]), lambda: store.multi_get(["x"]),
                 lambda: store.queue_pop("q"), lambda: store.wait(["x"], datetime.timedelta(seconds=0.01))):
        caught(dist.DistStoreError, call, TimeoutError, dist.DistError, errors.TimeoutError)
    caught(dist.QueueEmptyError, lambda: store.queue_pop("q", False), dist.DistStoreError, IndexError)
    caught(dist.DistStoreError, lambda: store.multi_set(["a", "b"], ["1"]), ValueError)


def test_set_timeout_of_a_prefix_reaches_below():
    below = dist.HashStore()
    dist.PrefixStore("a", dist.PrefixStore("b", below)).set_timeout(datetime.timedelta(seconds=7))
    assert below.timeout == datetime.timedelta(seconds=7) == dist.PrefixStore("c", below).timeout


def test_stores_of_one_process_share_a_server():
    def made(port=0, **options):
        return dist.TCPStore("127.0.0.1", port, 1, True, SOON, **options)

    first = made(multi_tenant=True)
    second = made(first.port, multi_tenant=True)
    first.set("x", "1")
    assert second.get("x") == b"1" and second.port == first.port
    caught(dist.DistNetworkError, lambda: made(first.port), text="EADDRINUSE")
    port = first.port
    del first
    third = made(port, multi_tenant=True)  # the server lives as long as one of them
    second.set("y", "2")
    assert third.get("y") == b"2"
    del second, third
    alone = made()
    caught(dist.DistNetworkError, lambda: made(alone.port, multi_tenant=True), text="EADDRINUSE")


def test_devices_that_have_names_elsewhere():
    answers = [dist.get_default_backend_for_device(device) for device in ("cpu", "cuda:1", "xpu", "mps")]
    assert answers == ["gloo", "nccl", "xccl", "gloo"]
    caught(RuntimeError, lambda: dist.get_default_backend_for_device("abacus"))


def test_a_url_with_a_rank_beside_a_rank():
    for place in (dict(rank=0, world_size=1), dict(world_size=1)):
        for call in (lambda: dist.init_process_group("gloo", "tcp://127.0.0.1:1?rank=0", **place),
                     lambda: next(dist.rendezvous("tcp://127.0.0.1:1?rank=0", **place))):
            caught(AssertionError, call, text="has node-specific arguments(rank, world_size) already")


def test_init_that_finds_nobody(tmp_path):
    run("""
        limit = datetime.timedelta(seconds=0.5)
        os.environ["WORLD_SIZE"] = "3"  # one of them does not come
        if RANK == 0:
            raises(dist.DistStoreError, "not joined", lambda: dist.init_process_group("gloo", timeout=limit))
        else:
            os.environ["MASTER_PORT"] = "1"
            for kind in (dist.DistNetworkError, TimeoutError):
                raises(kind, "cannot reach", lambda: dist.init_process_group("gloo", timeout=limit))
    """, 2, tmp_path)


def test_wrong_arguments_of_a_first_program(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=20)
        x = np.ones(1)
        for call in (dist.broadcast, dist.reduce, dist.send, dist.isend, dist.recv, dist.irecv,
                     lambda tensor, rank: dist.P2POp(dist.isend, tensor, rank)):
            for wrong in (True, 0.5, 0.0, "0"):
                raises(TypeError, f"a rank is a whole number, not {wrong!r}", lambda: call(x, wrong))
        raises(TypeError, "send_object_list: object_list must be a list, not <class 'int'>",
               lambda: dist.send_object_list(3, 1 - RANK))
        raises(TypeError, "as_completed: 3 is no Work", lambda: dist.as_completed([3]))
        raises(TypeError, "keys must be a list of str or bytes, not int", lambda: dist.HashStore().wait(3))
        class Series:
            def to_numpy(self):
                return x
        for given, text in ((Series(), "Pass the NumPy array of its to_numpy(), and keep that: results are written into it."),
                            ([1.0], "Pass a NumPy array of it (numpy.asarray), and keep that: results are written into it.")):
            for call in (dist.all_reduce, lambda x: dist.broadcast(x, 0), lambda x: dist.all_gather([x], np.ones(1))):
                assert str(raises(TypeError, "Invalid function argument", lambda: call(given))).endswith(text)
        masked = np.ma.masked_array([1.0], [True])
        for call in (dist.all_reduce, lambda x: dist.send(x, 1 - RANK), lambda x: dist.all_gather([x, x], x)):
            raises(TypeError, "is masked", lambda: call(masked))
        for wrong in (7, True, dist.ReduceOp.SUM, 0.5):
            for call in (lambda: dist.send(x, 1 - RANK, wrong), lambda: dist.all_reduce(x, dist.ReduceOp.SUM, wrong)):
                raises(TypeError, f"(`group` got this {type(wrong).__name__}: give what comes after it by name, as in tag=7)", call)
        import copy, pickle
        work = dist.barrier(async_op=True)
        for given, text in ((dist.group.WORLD, "a ProcessGroup cannot be pickled: its connections are this process's; send its ranks"),
                            (work, "a Work cannot be pickled: its operation runs in this process; wait for it")):
            for one in (given, given._low):
                for call in (pickle.dumps, copy.copy, copy.deepcopy):
                    raises(TypeError, text, lambda: call(one))
        work.wait()
        for wrong in (0, -1, datetime.timedelta(0)):
            raises(ValueError, "the timeout must be positive", lambda: dist.new_group([0, 1], timeout=wrong))
            raises(ValueError, "the timeout must be positive", lambda: dist.new_subgroups(1, timeout=wrong))
        check()
    """, 2, tmp_path)


def test_groups_that_are_gone(tmp_path):
    said = run("""
        raises(AssertionError, "there is no world, or it was destroyed already", dist.destroy_process_group)
        dist.init_process_group("gloo", timeout=20)
        both, second = dist.new_group([0, 1]), dist.new_group([1])
        assert "destroyed" not in repr(both)
        dist.destroy_process_group(both)
        assert repr(both).endswith("rank %d of 2, destroyed>" % RANK)
        raises(ValueError, "destroyed", lambda: dist.all_reduce(np.ones(1), group=both))
        raises(ValueError, "destroyed> is not registered", lambda: dist.get_rank(both))
        raises(KeyError, "destroyed", lambda: dist.get_process_group_ranks(both))
        if RANK == 0:
            raises(KeyError, "this rank is not in the group", lambda: dist.get_process_group_ranks(second))
        check()
        # A thread that still waits gets an error, and the process ends.
        thread = __import__("threading").Thread(target=lambda: raises(
            dist.DistBackendError, "another thread of this process destroyed the group during the wait",
            lambda: dist.recv(np.ones(1), 0)) and say("told"))
        if RANK == 1:
            thread.start()
            dist.barrier()
            time.sleep(0.1)
            dist.destroy_process_group()
        else:
            dist.barrier()
            raises(dist.DistNetworkError, "destroyed the group", lambda: dist.recv(np.ones(1), 1))
    """, 2, tmp_path)
    assert said == ["", "told\n"]


@pytest.mark.torch
def test_tensors_that_cannot_be_used_and_short_lists(tmp_path):
    run("""
        torch = __import__("torch")
        dist.init_process_group("gloo")
        ones = torch.ones(2, 2)
        quantised = torch.quantize_per_tensor(ones, 1., 0, torch.qint8)
        nested = torch.nested.nested_tensor([ones, torch.ones(1, 2)])
        for tensor in (ones.to_sparse_csr(), ones.to_mkldnn(), quantised, nested):
            for call in (dist.all_reduce, lambda x: dist.broadcast(x, 0)):
                raises(NotImplementedError, "in place", lambda: call(tensor))
        raises(NotImplementedError, "in place", lambda: dist.broadcast(ones.to_sparse(), 0))
        unknown = ones.to(torch.float8_e4m3fnuz)
        raises(RuntimeError, "does not know", lambda: dist.all_reduce(unknown))
        raises(TypeError, "does not know", lambda: dist.all_reduce(unknown))
        raises(IndexError, "has 1 places", lambda: dist.all_gather_object([None], 1))
        if RANK == 0:
            raises(IndexError, "has 1 places", lambda: dist.gather_object(1, [None]))
            raises(RuntimeError, "the list has 1 objects", lambda: dist.scatter_object_list([None], [1]))

        # complex32 moves and is summed as its parts, float16.
        half = torch.complex(torch.full((3, 2), RANK + 1.), torch.full((3, 2), 2. - RANK)).to(torch.complex32)
        total = torch.complex(torch.full((3, 2), 3.), torch.full((3, 2), 3.)).to(torch.complex32)
        def same(a, b):
            return a.dtype == b.dtype == torch.complex32 and bool((torch.view_as_real(a) == torch.view_as_real(b)).all())
        x = half.clone()
        dist.all_reduce(x)
        assert same(x, total)
        wide = torch.zeros(2, 3, dtype=torch.complex32)
        x = wide.t()
        x.copy_(half)
        dist.all_reduce(x)  # with strides
        assert same(x, total)
        every = [torch.zeros(3, 2, dtype=torch.complex32) for _ in range(2)]
        dist.all_gather(every, half)
        assert same(every[RANK], half) and same(sum(torch.view_as_real(e) for e in every).view(3, 4).view(torch.float16)
                                                .view(3, 2, 2).contiguous().view(torch.complex32).squeeze(-1), total)
        rows = torch.full((3, 2), RANK + 1., dtype=torch.float32).to(torch.complex32)
        out = torch.zeros(2 + RANK * 2, 2, dtype=torch.complex32)
        dist.all_to_all_single(out, rows, [1, 1] if RANK == 0 else [2, 2], [1, 2])
        assert torch.view_as_real(out)[:, 0, 0].tolist() == [k for k in (1, 2) for _ in range(1 + RANK)]
        dist.broadcast(x := half.clone(), 1)
        assert torch.view_as_real(x)[0, 0].tolist() == [2, 1]
        for op in (dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
            raises(ValueError, "on complex", lambda: dist.all_reduce(x, op))
            raises(ValueError, "on complex", lambda: dist.group.WORLD.allreduce([x], op))
    """, 2, tmp_path)
