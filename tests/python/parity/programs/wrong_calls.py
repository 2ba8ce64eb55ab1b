"""Calls that are wrong alike on all ranks: shapes, splits, dtypes, types, ranks, groups. Nothing is sent."""

import warnings

import numpy
from arrays import torch
from errors import T


def shapes(at, step):
    d, n, pg = at.dist, at.size, at.dist.group.WORLD

    def rows(*shape, count=None):
        return [T(*shape) for _ in range(n if count is None else count)]

    calls = {
        "all_gather/transposed": lambda: d.all_gather(rows(3, 2), T(2, 3)),
        "all_gather/flat": lambda: d.all_gather(rows(6), T(2, 3)),
        "all_gather/deep": lambda: d.all_gather(rows(1, 2, 3), T(2, 3)),
        "all_gather/last": lambda: d.all_gather([*rows(2, 3)[1:], T(6)], T(2, 3)),
        "all_gather/short_list": lambda: d.all_gather(rows(2, count=n - 1), T(2)),
        "all_gather/long_list": lambda: d.all_gather(rows(2, count=n + 1), T(2)),
        "all_gather/empty_list": lambda: d.all_gather([], T(2)),
        "all_gather/larger": lambda: d.all_gather(rows(3), T(2)),
        "gather/transposed": lambda: d.gather(T(2, 3), rows(3, 2) if at.rank == 0 else None) if n == 1 else None,
        "reduce_scatter/transposed": lambda: d.reduce_scatter(T(2, 3), rows(3, 2)),
        "reduce_scatter/flat": lambda: d.reduce_scatter(T(2, 3), rows(6)),
        "reduce_scatter/short_list": lambda: d.reduce_scatter(T(2), rows(2, count=n - 1)),
        "reduce_scatter/long_list": lambda: d.reduce_scatter(T(2), rows(2, count=n + 1)),
        "reduce_scatter/larger": lambda: d.reduce_scatter(T(2), rows(3)),
        "all_to_all/transposed": lambda: d.all_to_all(rows(3, 2), rows(2, 3)),
        "all_to_all/short_list": lambda: d.all_to_all(rows(2, count=n - 1), rows(2, count=n - 1)),
        "all_to_all/long_list": lambda: d.all_to_all(rows(2, count=n + 1), rows(2, count=n + 1)),
        "all_gather_into_tensor/wide": lambda: d.all_gather_into_tensor(T(2, 2 * n), T(2, 2)) if n > 1 else None,
        "all_gather_into_tensor/flat": lambda: d.all_gather_into_tensor(T(4 * n), T(2, 2)),
        "all_gather_into_tensor/more": lambda: d.all_gather_into_tensor(T(2 * n + 1), T(2)),
        "all_gather_into_tensor/less": lambda: d.all_gather_into_tensor(T(2 * n - 1), T(2)),
        "reduce_scatter_tensor/wide": lambda: d.reduce_scatter_tensor(T(2, 2), T(2, 2 * n)) if n > 1 else None,
        "reduce_scatter_tensor/flat": lambda: d.reduce_scatter_tensor(T(2, 2), T(4 * n)),
        "reduce_scatter_tensor/more": lambda: d.reduce_scatter_tensor(T(2), T(2 * n + 1)),
        "coalesced/gather_short": lambda: d.all_gather_coalesced([[T(1)]] * (n - 1) or [[]], [T(1)]),
        "coalesced/gather_inner": lambda: d.all_gather_coalesced([[T(1), T(1)]] * n, [T(1)]),
        "coalesced/gather_shape": lambda: d.all_gather_coalesced([[T(2)]] * n, [T(1)]),
        "coalesced/reduce_nothing": lambda: d.all_reduce_coalesced([]),
        "method/allgather": lambda: pg.allgather([rows(3, 2)], [T(2, 3)]),
        "method/allgather_two": lambda: pg.allgather([rows(2), rows(2)], [T(2), T(2)]),
        "method/allreduce_none": lambda: pg.allreduce([]),
        "method/allreduce_two": lambda: pg.allreduce([T(1), T(1)]),
        "method/broadcast_none": lambda: pg.broadcast([]),
        "method/reduce_scatter": lambda: pg.reduce_scatter([T(2, 3)], [rows(3, 2)]),
        "method/alltoall": lambda: pg.alltoall(rows(3, 2), rows(2, 3)),
    }
    for name, call in calls.items():
        step(name, call)


def splits(at, step):
    d, n, pg = at.dist, at.size, at.dist.group.WORLD
    ones = [1] * n
    rest = [0] * (n - 1)

    def exchange(rows, out, into):
        d.all_to_all_single(room := torch.zeros(rows, 2), T(rows, 2), out, into)
        return room

    known = {"known": T(n, 2)}

    kinds = {
        "lists": (ones, ones), "tuples": (tuple(ones), tuple(ones)), "arrays": (numpy.array(ones), numpy.array(ones)),
        "tensors": (torch.tensor(ones), torch.tensor(ones)), "numpy_integers": ([numpy.int64(1)] * n,) * 2,
        "tensor_elements": ([torch.tensor(1)] * n,) * 2, "bools": ([True] * n,) * 2, "empty": ([], []),
        "only_input": (None, ones), "only_output": (ones, None), "size": (torch.Size(ones),) * 2,
        "generator": ((1 for _ in range(n)), (1 for _ in range(n))), "range": (range(1, 2), range(1, 2)) if n == 1 else (ones, ones),
    }
    for name, (out, into) in kinds.items():
        step(f"taken/{name}", lambda: exchange(n, out, into), **known if name == "tensors" else {})
    wrong = {
        "text": ("1" * n, "1" * n), "texts": (["1"] * n, ["1"] * n), "floats": ([1.0] * n, [1.0] * n), "none": ([None] * n,) * 2,
        "number": (1, 1), "short": (ones[1:] or [2], ones), "long": ([*ones, 0], ones), "sum_more": ([2, *ones[1:]], ones), "sum_less": ([0, *ones[1:]], ones), "input_more": (ones, [2, *ones[1:]]),
        "octets": (b"1" * n, b"1" * n), "dict": ({r: 1 for r in range(n)},) * 2, "nested": ([[1]] * n,) * 2, "object": (object(), object()),
        "huge": ([2**70, *rest], ones),
    }
    for name, (out, into) in wrong.items():
        step(f"wrong/{name}", lambda: exchange(n, out, into))
    step("even_rows", lambda: exchange(2 * n, None, None))
    step("uneven_rows", lambda: exchange(n + 1, None, None))
    step("even_elements", lambda: d.all_to_all_single(room := torch.zeros(1, 2 * n), torch.arange(2.0 * n)[None]) or room)
    step("even_elements_deep", lambda: d.all_to_all_single(
        room := torch.zeros(1, n, 3), torch.arange(3.0 * n).reshape(1, n, 3) + at.rank) or room)
    step("other_rows", lambda: d.all_to_all_single(room := torch.zeros(n, 2), torch.arange(2.0 * n).reshape(2 * n, 1)) or room)
    step("scalar", lambda: d.all_to_all_single(torch.tensor(0.0), torch.tensor(1.0)))
    step("method/base", lambda: pg.alltoall_base(room := torch.zeros(n), T(n), ones, ones).wait() and room)
    step("method/tensors", lambda: pg.alltoall_base(
        room := torch.zeros(n), T(n), torch.tensor(ones), torch.tensor(ones)).wait() and room, known=T(n))


def element_types(at, step, d, n):
    i = torch.int32

    def quietly(make):
        with warnings.catch_warnings():  # of torch's making them, once in a process
            warnings.simplefilter("ignore")
            return make()

    calls = {
        "all_gather": lambda: d.all_gather([T(1, dtype=i)] * n, T(1)),
        "all_gather_into_tensor": lambda: d.all_gather_into_tensor(T(n, dtype=i), T(1)),
        "reduce_scatter": lambda: d.reduce_scatter(T(1), [T(1, dtype=i)] * n),
        "reduce_scatter_tensor": lambda: d.reduce_scatter_tensor(T(1), T(n, dtype=i)),
        "all_to_all_single": lambda: d.all_to_all_single(T(n), T(n, dtype=i)),
        "all_to_all": lambda: d.all_to_all([T(1)] * n, [T(1, dtype=i)] * n),
        "coalesced": lambda: d.all_reduce_coalesced([T(1), T(1, dtype=i)]),
        "coalesced_gather": lambda: d.all_gather_coalesced([[T(1), T(1)]] * n, [T(1), T(1, dtype=i)]),
        "scatter": lambda: d.scatter(T(1), [T(1, dtype=i)] * n if at.rank == 0 else None) if n == 1 else None,
        "gather": lambda: d.gather(T(1), [T(1, dtype=i)] * n if at.rank == 0 else None) if n == 1 else None,
        "sparse": lambda: d.broadcast(torch.eye(2).to_sparse(), 0),
        "csr": lambda: d.all_reduce(quietly(lambda: torch.eye(2).to_sparse_csr())),
        "quantized": lambda: d.all_reduce(quietly(lambda: torch.quantize_per_tensor(T(2), 0.5, 0, torch.quint8))),
        "bits": lambda: d.all_reduce(torch.zeros(4, dtype=torch.uint8).view(torch.bits8)),
    }
    for name, call in calls.items():
        step(name, call)
    for op in ("BAND", "BOR", "BXOR"):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            step(f"{op}/{dtype}", lambda: d.all_reduce(T(2, dtype=getattr(torch, dtype)), at.op(op)))
    for op in ("MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR"):
        if op != "PRODUCT":
            step(f"complex/{op}", lambda: d.all_reduce(T(2, dtype=torch.complex64), at.op(op)))
            step(f"complex_reduce/{op}", lambda: d.reduce(T(2, dtype=torch.complex64), 0, at.op(op)))
            step(f"complex_scatter/{op}", lambda: d.reduce_scatter(
                T(2, dtype=torch.complex64), [T(2, dtype=torch.complex64)] * n, at.op(op)))


THINGS = {"int": 3, "float": 2.5, "text": "x", "none": None, "list": [3], "dict": {}, "class": torch.Tensor, "object": object(),
          "list_of_none": [None], "function": len}


def types(at, step, d, n):
    """Things of a wrong type in every place that wants a tensor or a list of them."""
    places = {
        "all_reduce": lambda x: d.all_reduce(x), "broadcast": lambda x: d.broadcast(x, 0), "reduce": lambda x: d.reduce(x, 0),
        "all_gather_list": lambda x: d.all_gather(x, T(1)), "all_gather": lambda x: d.all_gather([T(1)] * n, x),
        "all_gather_into": lambda x: d.all_gather_into_tensor(x, T(1)),
        "reduce_scatter_list": lambda x: d.reduce_scatter(T(1), x), "reduce_scatter_out": lambda x: d.reduce_scatter(x, [T(1)] * n),
        "reduce_scatter_tensor": lambda x: d.reduce_scatter_tensor(x, T(n)),
        "all_to_all_out": lambda x: d.all_to_all(x, [T(1)] * n), "all_to_all_in": lambda x: d.all_to_all([T(1)] * n, x),
        "all_to_all_single": lambda x: d.all_to_all_single(T(n), x), "isend": lambda x: d.isend(x, 0),
        "irecv": lambda x: d.irecv(x, 0), "gather": lambda x: d.gather(x, None, 0), "scatter": lambda x: d.scatter(x, None, 0),
        "coalesced": lambda x: d.all_reduce_coalesced(x), "op": lambda x: d.all_reduce(T(1), x) if x is not None else None,
        "P2POp": lambda x: d.P2POp(x, T(1), 0), "batch": lambda x: d.batch_isend_irecv(x),
        "batch_list": lambda x: d.batch_isend_irecv([x]),
    }
    # errors.py makes calls with four of these on more numbers of ranks.
    others = {"all_gather_into", "reduce_scatter_tensor", "all_to_all_out", "all_to_all_in", "op", "P2POp",
              "batch", "batch_list"}
    for place, call in places.items():
        for kind, thing in THINGS.items():
            if place not in others and kind in ("int", "list", "text", "none"):
                continue
            step(f"{place}/{kind}", lambda: call(thing))


def roots(at, step, d, n):
    calls = {
        "broadcast": lambda r: d.broadcast(T(1), r), "reduce": lambda r: d.reduce(T(1), r),
        "broadcast_group": lambda r: d.broadcast(T(1), group_src=r), "isend": lambda r: d.isend(T(1), r) and None,
        "gather": lambda r: d.gather(T(1), None, r), "scatter": lambda r: d.scatter(T(1), None, r),
        "broadcast_objects": lambda r: d.broadcast_object_list([1], r),
        "P2POp": lambda r: d.P2POp(d.isend, T(1), r) and None,
    }
    for name, call in calls.items():
        for kind, root in {"float": 0.5, "text": "0", "tensor": torch.tensor([0, 1]), "list": [0]}.items():
            step(f"{name}/{kind}", lambda: call(root))
    step("group_self", lambda: d.send(T(1), group_dst=at.rank))
    step("gather_list_elsewhere", lambda: d.gather(T(1), [T(1)] * n, dst=0) if at.rank > 0 else None)
    step("scatter_list_elsewhere", lambda: d.scatter(T(1), [T(1)] * n, src=0) if at.rank > 0 else None)
    step("no_gather_list", lambda: d.gather(T(1), dst=0) if at.rank == 0 else None)
    step("no_scatter_list", lambda: d.scatter(T(1), src=0) if at.rank == 0 else None)
    step("empty_gather_list", lambda: d.gather(T(1), [], dst=0) if at.rank == 0 else None)


def groups(at, step, d, n):
    for kind, thing in {"number": 3, "text": "world", "list": [0], "class": d.ProcessGroup, "object": object()}.items():
        step(f"rank/{kind}", lambda: d.get_rank(thing))
        step(f"size/{kind}", lambda: d.get_world_size(thing))
        step(f"backend/{kind}", lambda: d.get_backend(thing))
        step(f"ranks/{kind}", lambda: d.get_process_group_ranks(thing) if kind != "list" else None)
        step(f"all_reduce/{kind}", lambda: d.all_reduce(T(1), group=thing))
        step(f"barrier/{kind}", lambda: d.barrier(thing))
        step(f"destroy/{kind}", lambda: d.destroy_process_group(thing))
        step(f"new_group/{kind}", lambda: d.new_group(thing) if kind != "list" else None)
    step("ranks_text", lambda: d.new_group(["0"]))
    step("ranks_float", lambda: d.new_group([0.5]))
    step("ranks_twice", lambda: d.new_group([0, 0]))
    step("ranks_large", lambda: d.new_group([n]))
    step("backend_unknown", lambda: d.new_group(backend="unknown"))
    step("backend_number", lambda: d.new_group(backend=3))
    step("timeout_number", lambda: d.new_group(timeout=3))
    step("subgroups_large", lambda: d.new_subgroups(n + 1))
    step("enumeration_twice", lambda: d.new_subgroups_by_enumeration([[0], [0]]))
    step("global_rank_range", lambda: d.get_global_rank(d.group.WORLD, n) if False else None)
    step("monitored_number", lambda: d.monitored_barrier(timeout=3))
    step("device_ids", lambda: d.barrier(device_ids="0"))


def keywords(at, step, d):
    """Arguments that there are not, and too many or too few."""
    for name in ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
                 "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv",
                 "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "new_group",
                 "init_process_group", "get_rank", "batch_isend_irecv", "P2POp", "monitored_barrier", "split_group"):
        function = getattr(d, name)
        step(f"{name}/unknown", lambda: function(T(1), no_such_argument=1))
        step(f"{name}/many", lambda: function(*[None] * 30))
        if name not in ("new_group", "init_process_group", "get_rank", "monitored_barrier", "split_group"):
            step(f"{name}/none", lambda: function())


PROGRAMS = [shapes, splits, element_types, types, roots, groups, keywords]
