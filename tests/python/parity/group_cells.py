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
    for dtype in ("float32", "int64"):
        def member(at, which=which):
            return at.dist.get_rank(at.groups[which]) >= 0

        def ranks(at, which=which):
            return chosen(at, which)

        def all_reduce(at, dtype=dtype, which=which, member=member):
            x = at.values(dtype)
            if member(at):
                at.dist.all_reduce(x, group=at.groups[which])
            return x

        def broadcast(at, dtype=dtype, which=which, member=member, ranks=ranks):
            x = at.values(dtype)
            if member(at):
                at.dist.broadcast(x, ranks(at)[-1], group=at.groups[which])
            return x

        def broadcast_group_src(at, dtype=dtype, which=which, member=member, ranks=ranks):
            x = at.values(dtype)
            if member(at):
                at.dist.broadcast(x, group=at.groups[which], group_src=len(ranks(at)) - 1)
            return x

        def all_gather(at, dtype=dtype, which=which, member=member, ranks=ranks):
            out = [at.empty(dtype) for _ in ranks(at)]
            if member(at):
                at.dist.all_gather(out, at.values(dtype), group=at.groups[which])
            return out

        def gather(at, dtype=dtype, which=which, member=member, ranks=ranks):
            if not member(at):
                return None
            out = [at.empty(dtype) for _ in ranks(at)] if at.rank == ranks(at)[-1] else None
            at.dist.gather(at.values(dtype), out, ranks(at)[-1], group=at.groups[which])
            return out

        def scatter(at, dtype=dtype, which=which, member=member, ranks=ranks):
            if not member(at):
                return None
            x, last = at.empty(dtype), at.rank == ranks(at)[-1]
            lists = [at.values(dtype, seed=i) for i in range(len(ranks(at)))] if last else None
            at.dist.scatter(x, lists, ranks(at)[-1], group=at.groups[which])
            return x

        def objects(at, which=which, member=member, ranks=ranks):
            if not member(at):
                return None
            g, last, count = at.groups[which], ranks(at)[-1], len(ranks(at))
            every, one, all_of = [None] * count, [None], [("of", at.rank)]
            at.dist.gather_object(at.rank, every if at.rank == last else None, last, g)
            at.dist.scatter_object_list(one, list(range(count)) if at.rank == last else None, last, g)
            at.dist.broadcast_object_list(all_of, last, g)
            return every, one, all_of

        def translation(at, which=which, member=member, ranks=ranks):
            if not member(at):
                return None
            g = at.groups[which]
            return (at.dist.get_process_group_ranks(g), [at.dist.get_global_rank(g, i) for i in range(len(ranks(at)))],
                    [at.dist.get_group_rank(g, r) for r in ranks(at)])

        def recv_source(at, dtype=dtype, which=which, member=member, ranks=ranks):
            if not member(at) or len(ranks(at)) < 2:
                return None
            x = at.values(dtype)
            if at.rank == ranks(at)[0]:
                at.dist.send(x, ranks(at)[1], group=at.groups[which])
            if at.rank == ranks(at)[1]:
                return at.dist.recv(x, group=at.groups[which]), x
            return None

        for cell in (all_reduce, broadcast, broadcast_group_src, all_gather, gather, scatter, objects,
                     translation, recv_source):
            yield f"group/{which}/{cell.__name__}/{dtype}", cell


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

    def barriers(at):
        return at.dist.barrier(), at.dist.barrier(at.groups["all"]), at.dist.barrier(async_op=True).wait()

    def monitored_barrier(at):
        return at.dist.monitored_barrier()

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

    def missing_of_all(at):
        return missing(at, True)

    def missing_in_part(at):
        return missing(at, first=1)

    for cell in (new_subgroups, by_enumeration, local_synchronization, destroyed, barriers, monitored_barrier, methods,
                 missing, missing_of_all, missing_in_part):
        yield f"group/{cell.__name__}", cell
    # Global rank 0 is not in the rest. Late: torch's names of groups with local synchronization count the groups that
    # a rank is in, so until then all members must be in as many.
    yield "group/rest", lambda at: make_groups(at, "rest")
    yield from inside("rest")
