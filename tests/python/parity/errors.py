"""Cells of calls that are wrong, and of what a package tells about itself."""

import datetime
import os

from arrays import torch
from cells import OPS


def T(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


def questions():
    """What needs no communication."""
    yield "ask/get_backend", lambda at: (at.dist.get_backend(), type(at.dist.get_backend()).__name__)
    yield "ask/backends", lambda at: [at.dist.Backend("GLOO"), at.dist.Backend("gloo"), at.dist.Backend("foo"),
                                      at.dist.Backend.GLOO, at.dist.Backend.NCCL, at.dist.Backend.MPI,
                                      at.dist.Backend.UNDEFINED]
    # Whether there is an MPI is the machine's to say, of tutti; torch's wheels have none.
    yield "ask/available", lambda at: [at.dist.is_available(), at.dist.is_initialized(), at.dist.is_gloo_available(),
                                       at.dist.is_mpi_available() and False, at.dist.is_nccl_available(),
                                       at.dist.is_ucc_available(), at.dist.is_torchelastic_launched(),
                                       at.dist.is_backend_available("gloo"), at.dist.is_backend_available("GLOO"),
                                       at.dist.is_backend_available("foo")]
    yield "ask/device", lambda at: at.dist.get_default_backend_for_device("cpu")
    yield "ask/ranks", lambda at: (at.dist.get_rank(), at.dist.get_world_size(),
                                   at.dist.get_process_group_ranks(None), at.dist.group.WORLD.rank(),
                                   at.dist.group.WORLD.size(), at.dist.group.WORLD.name(),
                                   at.dist.group.WORLD is at.dist.GroupMember.WORLD)
    yield "ask/non_member", lambda at: (repr(at.dist.GroupMember.NON_GROUP_MEMBER),
                                        at.dist.get_rank(at.dist.GroupMember.NON_GROUP_MEMBER),
                                        at.dist.get_world_size(at.dist.GroupMember.NON_GROUP_MEMBER))
    yield "ask/timeout", lambda at: at.dist.default_pg_timeout
    yield "ask/debug", lambda at: (int(at.dist.get_debug_level().value), sorted(at.dist.DebugLevel.__members__))
    yield "ask/node_local", lambda at: at.dist.get_node_local_rank(5)
    yield "ask/p2pop", lambda at: (lambda op: (op.peer, op.group_peer, op.tag, op.op is at.dist.isend))(
        at.dist.P2POp(at.dist.isend, T(1), at.size - 1, tag=4))


def calls():
    """Calls that are wrong; every rank makes them alike, and nothing is sent."""
    d = lambda at: at.dist  # noqa: E731
    each = {
        "all_reduce": lambda at, x: d(at).all_reduce(x),
        "broadcast": lambda at, x: d(at).broadcast(x, 0),
        "reduce": lambda at, x: d(at).reduce(x, 0),
        "all_gather": lambda at, x: d(at).all_gather([T(1)] * at.size, x),
        "all_gather_list": lambda at, x: d(at).all_gather(x, T(1)),
        "all_gather_single": lambda at, x: d(at).all_gather_single(T(at.size), x),
        "all_gather_single_out": lambda at, x: d(at).all_gather_single(x, T(1)),
        "gather": lambda at, x: d(at).gather(x, None, 0),
        "scatter": lambda at, x: d(at).scatter(x, None, 0),
        "reduce_scatter": lambda at, x: d(at).reduce_scatter(x, [T(1)] * at.size),
        "reduce_scatter_list": lambda at, x: d(at).reduce_scatter(T(1), x),
        "reduce_scatter_single": lambda at, x: d(at).reduce_scatter_single(x, T(at.size)),
        "reduce_scatter_single_in": lambda at, x: d(at).reduce_scatter_single(T(1), x),
        "all_to_all_single": lambda at, x: d(at).all_to_all_single(x, T(at.size)),
        "all_to_all_single_in": lambda at, x: d(at).all_to_all_single(T(at.size), x),
        "all_to_all": lambda at, x: d(at).all_to_all(x, [T(1)]),
        "all_to_all_in": lambda at, x: d(at).all_to_all([T(1)], x),
        "recv": lambda at, x: d(at).recv(x, 0),
        "irecv": lambda at, x: d(at).irecv(x, 0),
        "isend": lambda at, x: d(at).isend(x, 0),
        "all_reduce_coalesced": lambda at, x: d(at).all_reduce_coalesced(x),
        "all_gather_coalesced": lambda at, x: d(at).all_gather_coalesced(x, [T(1)]),
        "all_gather_coalesced_in": lambda at, x: d(at).all_gather_coalesced([[T(1)]] * at.size, x),
        "P2POp": lambda at, x: d(at).P2POp(d(at).isend, x, 0),
    }
    # First: torch's barrier raises what an earlier operation has raised, while a thread of its holds that one
    # still; then its ranks go on out of step.
    yield "call/barrier/device_ids", lambda at: d(at).barrier(device_ids=3)
    for name, call in each.items():
        for kind, wrong in (("int", 3), ("list", [3]), ("str", "x"), ("none", None)):
            yield f"wrong/{name}/{kind}", lambda at, call=call, wrong=wrong: call(at, wrong)
    for op in OPS:
        yield f"wrong/complex/{op}", lambda at, op=op: d(at).all_reduce(T(2, dtype=torch.complex64), at.op(op))
    one = {
        "send/self": lambda at: d(at).send(T(1), at.rank),
        "send/none": lambda at: d(at).send(T(1)),
        "send/both": lambda at: d(at).send(T(1), dst=0, group_dst=0),
        "isend/none": lambda at: d(at).isend(T(1)),
        "isend/both": lambda at: d(at).isend(T(1), 0, group_dst=0),
        "broadcast/none": lambda at: d(at).broadcast(T(1)),
        "broadcast/both": lambda at: d(at).broadcast(T(1), 0, group_src=0),
        "broadcast/range": lambda at: d(at).broadcast(T(1), 99),
        "broadcast/negative": lambda at: d(at).broadcast(T(1), -1),
        "broadcast/text": lambda at: d(at).broadcast(T(1), "0"),
        "reduce/none": lambda at: d(at).reduce(T(1)),
        "reduce/both": lambda at: d(at).reduce(T(1), 0, group_dst=0),
        "reduce/range": lambda at: d(at).reduce(T(1), 99),
        "gather/no_list": lambda at: d(at).gather(T(1), None, at.rank),
        "gather/list": lambda at: d(at).gather(T(1), [T(1)] * at.size, (at.rank + 1) % at.size + 99 * (at.size == 1)),
        "gather/both": lambda at: d(at).gather(T(1), None, 0, group_dst=0),
        "scatter/no_list": lambda at: d(at).scatter(T(1), None, at.rank),
        "scatter/list": lambda at: d(at).scatter(T(1), [T(1)] * at.size, (at.rank + 1) % at.size + 99 * (at.size == 1)),
        "scatter/both": lambda at: d(at).scatter(T(1), None, 0, group_src=0),
        "all_gather/length": lambda at: d(at).all_gather([T(1)] * (at.size + 1), T(1)),
        "all_gather/dtype": lambda at: d(at).all_gather([T(1, dtype=torch.int32)] * at.size, T(1)),
        "all_gather/mixed": lambda at: d(at).all_gather([T(1, dtype=torch.int32)] + [T(1)] * at.size, T(1)),
        "all_gather/shape": lambda at: d(at).all_gather([T(2)] * at.size, T(1)),
        "all_gather/uneven": lambda at: (lambda out: (d(at).all_gather(out, T(1 + at.rank)), out))(
            [torch.zeros(1 + r) for r in range(at.size)]),
        "all_gather_single/count": lambda at: d(at).all_gather_single(T(at.size + 1), T(1)),
        "all_gather_single/dtype": lambda at: d(at).all_gather_single(T(at.size), T(1, dtype=torch.int32)),
        "reduce_scatter/length": lambda at: d(at).reduce_scatter(T(1), [T(1)] * (at.size + 1)),
        "reduce_scatter/shape": lambda at: d(at).reduce_scatter(T(1), [T(2)] * at.size),
        "reduce_scatter/dtype": lambda at: d(at).reduce_scatter(T(1), [T(1, dtype=torch.int32)] * at.size),
        "reduce_scatter_single/count": lambda at: d(at).reduce_scatter_single(T(1), T(at.size + 1)),
        "reduce_scatter_single/dtype": lambda at: d(at).reduce_scatter_single(T(1), T(at.size, dtype=torch.int32)),
        "all_to_all_single/splits": lambda at: d(at).all_to_all_single(T(at.size), T(at.size), [1] * (at.size + 1),
                                                                       [1] * at.size),
        "all_to_all_single/sum": lambda at: d(at).all_to_all_single(T(at.size), T(at.size), [2] * at.size,
                                                                    [1] * at.size),
        "all_to_all_single/dtype": lambda at: d(at).all_to_all_single(T(at.size), T(at.size, dtype=torch.int32)),
        "all_to_all/length": lambda at: d(at).all_to_all([T(1)] * (at.size + 1), [T(1)] * at.size),
        "all_to_all/dtype": lambda at: d(at).all_to_all([T(1, dtype=torch.int32)] * at.size, [T(1)] * at.size),
        "op/float_bits": lambda at: d(at).all_reduce(T(1), d(at).ReduceOp.BAND),
        "op/text": lambda at: d(at).all_reduce(T(1), "sum"),
        "op/number": lambda at: d(at).all_reduce(T(1), 0),
        "P2POp/op": lambda at: d(at).P2POp(d(at).send, T(1), 0),
        "P2POp/none": lambda at: d(at).P2POp(d(at).isend, T(1)),
        "P2POp/both": lambda at: d(at).P2POp(d(at).isend, T(1), 0, group_peer=0),
        "batch/empty": lambda at: d(at).batch_isend_irecv([]),
        "batch/element": lambda at: d(at).batch_isend_irecv([3]),
        "batch/type": lambda at: d(at).batch_isend_irecv(3),
        "monitored_barrier/seconds": lambda at: d(at).monitored_barrier(timeout=20.0),
        "monitored_barrier/timeout": lambda at: d(at).monitored_barrier(timeout="3"),
        "new_group/twice": lambda at: d(at).new_group([0, 0]) if at.size > 1 else None,
        "new_group/range": lambda at: d(at).new_group([99]),
        "new_group/negative": lambda at: d(at).new_group([-1]),
        "new_group/large": lambda at: d(at).new_group(list(range(at.size + 1))),
        "new_group/timeout": lambda at: d(at).new_group([0], timeout="3"),
        "new_group/empty": lambda at: d(at).new_group([]),
        "new_subgroups/zero": lambda at: d(at).new_subgroups(0),
        "new_subgroups/large": lambda at: d(at).new_subgroups(99),
        "new_subgroups/divisor": lambda at: d(at).new_subgroups(2) if at.size % 2 and at.size > 1 else None,
        "new_subgroups/none": lambda at: d(at).new_subgroups(),
        "by_enumeration/none": lambda at: d(at).new_subgroups_by_enumeration(None),
        "by_enumeration/empty": lambda at: d(at).new_subgroups_by_enumeration([]),
        "by_enumeration/twice": lambda at: d(at).new_subgroups_by_enumeration([[0], [0, at.size - 1]]),
        "split_group/none": lambda at: d(at).split_group(),
        "split_group/empty": lambda at: d(at).split_group(split_ranks=[]),
        "split_group/works": lambda at: d(at).split_group(split_ranks=[[0]]) and None,
        "shrink_group": lambda at: d(at).shrink_group([0]),
        "shrink_group/type": lambda at: d(at).shrink_group(0),
        "rank/unknown_group": lambda at: d(at).get_global_rank(3, 0),
        "rank/group_rank": lambda at: d(at).get_group_rank(3, 0),
        "rank/not_in": lambda at: d(at).get_group_rank(d(at).group.WORLD, 99),
        "rank/global_not_in": lambda at: d(at).get_global_rank(d(at).group.WORLD, 99),
        "ranks/unknown": lambda at: d(at).get_process_group_ranks(3),
        "backend/number": lambda at: d(at).Backend(3),
        "backend/unknown_group": lambda at: d(at).get_backend(3),
        "init/twice": lambda at: d(at).init_process_group("gloo"),
        "device/text": lambda at: d(at).get_default_backend_for_device("foo"),
        "scatter_object_list/empty": lambda at: d(at).scatter_object_list([], [1] * at.size),
        "scatter_object_list/type": lambda at: d(at).scatter_object_list(3, [1]),
        "broadcast_object_list/none": lambda at: d(at).broadcast_object_list([1]),
        "broadcast_object_list/type": lambda at: d(at).broadcast_object_list(3, 0),
        "gather_object/list": lambda at: d(at).gather_object(1, [None] * at.size,
                                                             (at.rank + 1) % at.size + 99 * (at.size == 1)),
        "gather_object/no_list": lambda at: d(at).gather_object(1, None, at.rank),
        "coalesced/dtypes": lambda at: d(at).all_reduce_coalesced([T(1), T(1, dtype=torch.int32)]),
        "coalesced/complex": lambda at: d(at).all_reduce_coalesced([T(1, dtype=torch.complex64)],
                                                                   d(at).ReduceOp.MAX),
        "rendezvous/scheme": lambda at: next(d(at).rendezvous("foo://")),
        "rendezvous/rank": lambda at: next(d(at).rendezvous("tcp://127.0.0.1:1")),
        "rendezvous/path": lambda at: next(d(at).rendezvous("file://")),
        "rendezvous/registered": lambda at: d(at).register_rendezvous_handler("tcp", None),
        "mesh/large": lambda at: d(at).init_device_mesh("cpu", (at.size, 7)),
        "mesh/index": lambda at: d(at).init_device_mesh("cpu:0", (at.size,)),
        "mesh/names": lambda at: d(at).init_device_mesh("cpu", (at.size,), mesh_dim_names=("a", "b")),
        "mesh/twice": lambda at: d(at).init_device_mesh("cpu", (1, at.size), mesh_dim_names=("a", "a")),
        "work_timeout_type": lambda at: d(at).all_reduce(T(1), async_op=True).wait(datetime.timedelta(seconds=20)),
    }
    for name, call in one.items():
        yield f"call/{name}", call


def strangers():
    """What a rank does that is not in the group; the cells that follow use group 0 alone."""
    def make(at):
        at.groups["first"] = at.dist.new_group([0])
        return at.rank == 0 or repr(at.groups["first"])

    yield "stranger/new_group", make
    g = lambda at: at.groups["first"]  # noqa: E731
    each = {
        "all_reduce": lambda at: at.dist.all_reduce(T(1), group=g(at)),
        "all_gather": lambda at: at.dist.all_gather([T(1)], T(1), group=g(at)),
        "all_gather_single": lambda at: at.dist.all_gather_single(T(1), T(1), group=g(at)),
        "reduce_scatter": lambda at: at.dist.reduce_scatter(T(1), [T(1)], group=g(at)),
        "all_to_all_single": lambda at: at.dist.all_to_all_single(T(1), T(1), group=g(at)),
        "all_to_all": lambda at: at.dist.all_to_all([T(1)], [T(1)], group=g(at)),
        "broadcast": lambda at: at.dist.broadcast(T(1), 0, group=g(at)),
        "reduce": lambda at: at.dist.reduce(T(1), 0, group=g(at)),
        "barrier": lambda at: at.dist.barrier(g(at)),
        "monitored_barrier": lambda at: at.dist.monitored_barrier(g(at)),
        "recv": lambda at: at.dist.recv(T(1), 0, group=g(at)),
        "isend": lambda at: at.dist.isend(T(1), 0, group=g(at)),
        "irecv": lambda at: at.dist.irecv(T(1), 0, group=g(at)),
        "send": lambda at: at.dist.send(T(1), 0, group=g(at)),
        "broadcast_object_list": lambda at: at.dist.broadcast_object_list([1], 0, group=g(at)),
        "all_gather_object": lambda at: at.dist.all_gather_object([None], 1, group=g(at)),
        "gather_object": lambda at: at.dist.gather_object(1, None, 0, group=g(at)),
        "scatter_object_list": lambda at: at.dist.scatter_object_list([None], [1], 0, group=g(at)),
        "all_reduce_coalesced": lambda at: at.dist.all_reduce_coalesced([T(1)], group=g(at)),
        "all_gather_coalesced": lambda at: at.dist.all_gather_coalesced([[T(1)]], [T(1)], group=g(at)),
        "get_backend": lambda at: at.dist.get_backend(g(at)),
        "destroy": lambda at: at.dist.destroy_process_group(g(at)),
        "all_reduce_again": lambda at: at.dist.all_reduce(T(1), group=g(at)),
    }
    for name, call in each.items():
        yield f"stranger/{name}", lambda at, call=call: call(at) if at.rank > 0 else None


def meshes():
    def make(at):
        shape = (2, at.size // 2) if at.size % 2 == 0 else (1, at.size)
        at.groups["mesh"] = at.dist.init_device_mesh("cpu", shape, mesh_dim_names=("a", "b"))
        m = at.groups["mesh"]
        return (m.shape, m.ndim, m.size(), m.size(0), m.size(1), m.get_coordinate(), m.get_local_rank("a"),
                m.get_local_rank(1), m.get_rank(), m.mesh_dim_names, m.device_type,
                torch.as_tensor(m.mesh))

    def lines(at):
        m = at.groups["mesh"]
        out = []
        for name in ("a", "b"):
            x = at.values("int64")
            at.dist.all_reduce(x, group=m.get_group(name))
            out += [x, at.dist.get_world_size(m.get_group(name)), torch.as_tensor(m[name].mesh), m[name].get_local_rank()]
        return out, len(m.get_all_groups())

    yield "mesh/make", make
    yield "mesh/lines", lines
    m = lambda at: at.groups["mesh"]  # noqa: E731
    yield "mesh/unknown_name", lambda at: m(at)["c"]
    yield "mesh/no_dim", lambda at: m(at).get_group()
    yield "mesh/no_local_dim", lambda at: m(at).get_local_rank()
    yield "mesh/bad_group_name", lambda at: m(at).get_group("z")
    yield "mesh/number", lambda at: m(at).get_group(5)
    yield "mesh/equal", lambda at: m(at) == at.dist.init_device_mesh("cpu", m(at).shape, mesh_dim_names=("a", "b"))
    yield "mesh/from_group", lambda at: torch.as_tensor(at.dist.DeviceMesh.from_group(at.dist.group.WORLD, "cpu").mesh)


def lives():
    """The end of the world, and what holds after it; the last cells."""
    yield "end/all_here", lambda at: at.dist.barrier()  # as long as rank 0 serves the store
    yield "end/leave", lambda at: at.dist.destroy_process_group()
    yield "end/initialized", lambda at: at.dist.is_initialized()
    for name, call in {
        "get_rank": lambda at: at.dist.get_rank(),
        "get_world_size": lambda at: at.dist.get_world_size(),
        "get_backend": lambda at: at.dist.get_backend(),
        "all_reduce": lambda at: at.dist.all_reduce(T(1)),
        "barrier": lambda at: at.dist.barrier(),
        "send": lambda at: at.dist.send(T(1), 0),
        "new_group": lambda at: at.dist.new_group([0]),
        "destroy": lambda at: at.dist.destroy_process_group(),
        "world": lambda at: at.dist.group.WORLD,
        "init/number": lambda at: at.dist.init_process_group(3),
        "init/both": lambda at: at.dist.init_process_group("gloo", init_method="env://", store=at.dist.HashStore()),
        "init/store_size": lambda at: at.dist.init_process_group("gloo", store=at.dist.HashStore()),
        "init/store_rank": lambda at: at.dist.init_process_group("gloo", store=at.dist.HashStore(), world_size=1),
        "init/scheme": lambda at: at.dist.init_process_group("gloo", init_method="foo://x"),
        "init/file": lambda at: at.dist.init_process_group("gloo", init_method="file://"),
        "init/timeout": lambda at: at.dist.init_process_group("gloo", timeout="5"),
        "init/device": lambda at: at.dist.init_process_group("gloo", device_id=torch.device("cpu")),
        "init/device_number": lambda at: at.dist.init_process_group("gloo", device_id=0),
        "init/pair": lambda at: at.dist.init_process_group("cpu:gloo,cpu:gloo"),
        "node_local": lambda at: at.dist.get_node_local_rank(),
    }.items():
        yield f"end/{name}", call

    def alone(at):
        kept = {name: os.environ.pop(name) for name in ("MASTER_ADDR", "MASTER_PORT")}
        try:
            at.dist.init_process_group("gloo", rank=0, world_size=1)
            at.dist.destroy_process_group()
        finally:
            os.environ.update(kept)

    yield "end/init/alone", alone
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        for method in (None, "env://", "tcp://127.0.0.1:1234"):
            if method == "tcp://127.0.0.1:1234" and name == "MASTER_PORT":
                continue

            def without(at, name=name, method=method):
                kept = os.environ.pop(name)
                try:
                    at.dist.init_process_group("gloo", init_method=method, world_size=-1 if name == "WORLD_SIZE"
                                               or not str(method).startswith("tcp") else at.size)
                finally:
                    os.environ[name] = kept
            yield f"end/init/no_{name}/{str(method)[:3]}", without
