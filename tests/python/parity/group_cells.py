"""The cells that make groups and run in them (see cells.py)."""

import datetime
import re


def chosen(at, which="even"):
    """Ranks of a group."""
    if which == "even":
        return [r for r in range(at.size) if r % 2 == 0]
    return list(range(0 if which == "all" else min(1, at.size - 1), at.size))


def make_groups(at, *names):
    for which in names:
        at.groups[which] = at.dist.new_group(chosen(at, which))
    return [(at.dist.get_rank(at.groups[which]), at.dist.get_world_size(at.groups[which])) for which in names]


def inside(which):
    """What the ranks of a group do in it."""
    def ranks(at):
        return chosen(at, which)

    def g(at):
        return at.groups[which]

    def is_last(at):
        return at.rank == ranks(at)[-1]

    def objects(at):
        last, count = ranks(at)[-1], len(ranks(at))
        every, one, all_of = [None] * count, [None], [("of", at.rank)]
        at.dist.gather_object(at.rank, every if is_last(at) else None, last, g(at))
        at.dist.scatter_object_list(one, list(range(count)) if is_last(at) else None, last, g(at))
        at.dist.broadcast_object_list(all_of, last, g(at))
        return every, one, all_of

    def translation(at):
        return (at.dist.get_process_group_ranks(g(at)), [at.dist.get_global_rank(g(at), i) for i in range(len(ranks(at)))],
                [at.dist.get_group_rank(g(at), r) for r in ranks(at)])

    def recv_source(at):
        if len(ranks(at)) < 2:
            return None
        x = at.values(dtype)
        if at.rank == ranks(at)[0]:
            at.dist.send(x, ranks(at)[1], group=g(at))
        return (at.dist.recv(x, group=g(at)), x) if at.rank == ranks(at)[1] else None

    for dtype in ("float32", "int64"):
        def empties(at, dtype=dtype):
            return [at.empty(dtype) for _ in ranks(at)]

        def parts(at, dtype=dtype):
            return [at.values(dtype, seed=i) for i in range(len(ranks(at)))]

        # For a rank that is not in the group: what it has then.
        others = {"all_reduce": lambda at: at.values(dtype), "broadcast": lambda at: at.values(dtype),
                  "broadcast_group_src": lambda at: at.values(dtype), "all_gather": empties}
        for name, cell in {
            "all_reduce": lambda at: at.dist.all_reduce(x := at.values(dtype), group=g(at)) or x,
            "broadcast": lambda at: at.dist.broadcast(x := at.values(dtype), ranks(at)[-1], group=g(at)) or x,
            "broadcast_group_src": lambda at: at.dist.broadcast(
                x := at.values(dtype), group=g(at), group_src=len(ranks(at)) - 1) or x,
            "all_gather": lambda at: at.dist.all_gather(out := empties(at), at.values(dtype), group=g(at)) or out,
            "gather": lambda at: at.dist.gather(
                at.values(dtype), out := empties(at) if is_last(at) else None, ranks(at)[-1], group=g(at)) or out,
            "scatter": lambda at: at.dist.scatter(
                x := at.empty(dtype), parts(at) if is_last(at) else None, ranks(at)[-1], group=g(at)) or x,
            "objects": objects, "translation": translation, "recv_source": recv_source,
        }.items():
            yield f"group/{which}/{name}/{dtype}", lambda at: (
                cell if at.dist.get_rank(g(at)) >= 0 else others.get(name, lambda at: None))(at)


def groups():
    yield "group/new_group", lambda at: make_groups(at, "even", "all")
    yield from inside("even")
    yield from inside("all")

    def new_subgroups(at):
        current, every = at.dist.new_subgroups(1)
        return at.dist.get_rank(current), len(every)

    def by_enumeration(at):
        lists = [chosen(at), [r for r in range(at.size) if r % 2]]
        current, every = at.dist.new_subgroups_by_enumeration([ranks for ranks in lists if ranks])
        x = at.values("int64")
        at.dist.all_reduce(x, group=current)
        return at.dist.get_rank(current), len(every), x

    def local_synchronization(at):
        # Only the members make it.
        g = at.dist.new_group(chosen(at), use_local_synchronization=True)
        if at.rank not in chosen(at):
            return g
        x = at.values("int64")
        at.dist.all_reduce(x, group=g)
        return at.dist.get_world_size(g), x

    def destroyed(at):
        g = at.dist.new_group()
        at.dist.barrier(g)  # gloo's slower ranks cannot connect to one that has destroyed it
        at.dist.destroy_process_group(g)
        at.dist.destroy_process_group(g)

    def methods(at):
        # Those of a group, in both forms, and what they leave in their tensors.
        pg, ops, limit = at.groups["all"], at.dist.ReduceOp, datetime.timedelta(seconds=20)
        kept = []

        def empties(count=None):
            kept.append([at.empty("float32") for _ in range(at.size if count is None else count)])
            return kept[-1]

        def value(*arguments):
            kept.append(at.values("float32", *arguments))
            return kept[-1]

        own = at.rank == at.size - 1
        pg.allreduce([value()]).wait()
        pg.allreduce(value(), ops.MAX).wait()
        pg.allreduce(value(), op=ops.MIN, timeout=limit).wait()
        pg.broadcast(value(), at.size - 1).wait()
        pg.broadcast(value(), root=at.size - 1, timeout=limit).wait()
        pg.reduce(x := value(), at.size - 1, ops.MAX).wait()
        if not own:
            kept[-1] = x = None
        pg.allgather([empties()], [value()]).wait()
        pg.allgather(empties(), value(), timeout=limit).wait()
        gathered, scattered = at.dist.GatherOptions(), at.dist.ScatterOptions()
        gathered.rootRank = scattered.rootRank = at.size - 1
        pg.gather([empties()] if own else [], [value()], gathered).wait()
        pg.scatter([value()], [[value((5,), None, seed) for seed in range(at.size)]] if own else [], scattered).wait()
        pg.reduce_scatter(value(), [value((5,), None, seed) for seed in range(at.size)], ops.MAX).wait()
        pg.all_gather_single(x := at.empty("float32", (at.size * 5,)), value()).wait()
        pg._reduce_scatter_base(y := at.empty("float32"), value((at.size * 5,)), at.dist.ReduceScatterOptions()).wait()
        pg.alltoall_base(z := at.empty("float32", (at.size,)), value((at.size,)), [], []).wait()
        pg.barrier().wait()
        pg.barrier(limit).wait()
        return kept, x, y, z

    def missing(at, every=False, first=0):
        # The last rank of a group of its own does not come; what is said begins with fixed words.
        if at.size != 4:
            return None
        g, said = at.dist.new_group(list(range(first, at.size))), None
        if first <= at.rank < at.size - 1:
            try:
                at.dist.monitored_barrier(g, datetime.timedelta(milliseconds=500), every)
            except RuntimeError as problem:
                found = re.match(r".*? (monitoredBarrier in \d+ ms|for faulty rank\.)", str(problem))
                said = found.group() if found else str(problem)
        at.dist.barrier()
        return said

    for name, cell in {
        "new_subgroups": new_subgroups, "by_enumeration": by_enumeration, "local_synchronization": local_synchronization,
        "destroyed": destroyed,
        "barriers": lambda at: (at.dist.barrier(), at.dist.barrier(at.groups["all"]), at.dist.barrier(async_op=True).wait()),
        "monitored_barrier": lambda at: at.dist.monitored_barrier(), "methods": methods, "missing": missing,
        "missing_of_all": lambda at: missing(at, True), "missing_in_part": lambda at: missing(at, first=1),
    }.items():
        yield f"group/{name}", cell
    # Global rank 0 is not in the rest. Late: torch's names of groups with local synchronization count the groups that
    # a rank is in, so until then all members must be in as many.
    yield "group/rest", lambda at: make_groups(at, "rest")
    yield from inside("rest")
