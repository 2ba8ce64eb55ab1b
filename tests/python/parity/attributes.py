"""Cells of what a group's object has besides operations."""

import datetime

from arrays import torch

CPU = torch.device("cpu")


def seconds(count):
    return datetime.timedelta(seconds=count)


def world(at):
    return at.dist.group.WORLD


def own(at):
    """A group of all, for what changes a group."""
    if "own" not in at.groups:
        at.groups["own"] = at.dist.new_group(group_desc="own")
    return at.groups["own"]


def summed(at, group):
    """What a group without functions' help can do."""
    x = at.values("int64")
    group.allreduce([x]).wait()
    return group.rank(), group.size(), x


def questions(at):
    g = own(at)
    return (g.name(), g._get_backend_name(), g.group_desc, g.bound_device_id, g._has_hooks(), g.rank(), g.size(),
            g.use_pg_for_symm_mem_rendezvous, world(at).group_name, world(at).group_desc,
            isinstance(g._id(), int), g._id() == g._id(), isinstance(g._backend_id(g.BackendType.GLOO), int))


def engine(at):
    it = own(at)._get_backend(CPU)
    return (it.rank(), it.size(), it.name(), it.options.backend, it.options._timeout,
            it.options.group_name == own(at).group_name, it.supports_splitting, it.supports_coalescing,
            it.supports_time_estimate, it.supports_shrinking)


def kinds(at):
    kind = at.dist.ProcessGroup.BackendType
    return (sorted(kind.__members__), [int(each.value) for each in kind.__members__.values()],
            kind.GLOO == at.dist.ProcessGroup.GLOO, at.dist.Backend.backend_type_map["gloo"].name,
            at.dist.Backend.backend_type_map["undefined"].name)


def changed_timeout(at):
    before = own(at)._get_backend(CPU).options._timeout
    own(at).set_timeout(seconds(7))
    after = own(at)._get_backend(CPU).options._timeout
    own(at).set_timeout(before)
    return after, own(at)._get_backend(CPU).options._timeout == before, summed(at, own(at))


def store(at):
    shared = own(at).get_group_store()
    if at.rank == at.size - 1:
        shared.set("key", "value")
    shared.wait(["key"], seconds(20))
    here = shared.get("key")
    at.dist.barrier()
    return here, type(shared).__name__, isinstance(shared, at.dist.Store), shared.add("count", 0)


def stores_of_groups(at):
    # Keys of one group are not those of another.
    own(at).get_group_store().set("whose", "own")
    at.dist.barrier()
    return world(at).get_group_store().check(["whose"]), own(at).get_group_store().check(["whose"])


def default_store(at):
    shared = at.dist.distributed_c10d._get_default_store()
    if at.rank == 0:
        shared.set("default", "1")
    shared.wait(["default"], seconds(20))
    return shared.get("default")


def halves(at):
    middle = (at.size + 1) // 2
    return list(range(middle)) if at.rank < middle else list(range(middle, at.size))


# Parts are kept to the end: gloo's slower ranks cannot connect to one that has dropped his. And they are of one rank:
# with parts of two to four ranks gloo has been seen to wait for ever.


def split(at):
    if at.size > 2:
        return None
    at.groups["split"] = g = world(at).split_group(halves(at), seconds(20))
    return summed(at, g), g.group_name, g.name()


def split_by_name(at):
    if at.size > 2:
        return None
    at.groups["named"] = g = world(at).split_group(halves(at), seconds(20), group_name=f"part {at.rank < (at.size + 1) // 2}",
                                                   group_desc="half")
    return summed(at, g), g.group_name, g.group_desc


def split_first(at):
    at.groups["alone"] = g = world(at).split_group([0], seconds(20))
    return None if g is None else summed(at, g)


def described(at):
    own(at)._set_group_desc("other words")
    return own(at).group_desc


def attributes():
    for cell in (questions, engine, kinds, changed_timeout, store, stores_of_groups, default_store, split,
                 split_by_name, split_first, described):
        yield f"attribute/{cell.__name__}", cell
    d = lambda at: at.dist.distributed_c10d  # noqa: E731
    each = {
        "set_timeout/type": lambda at: own(at).set_timeout("3"),
        "set_timeout/function": lambda at: (d(at)._set_pg_timeout(seconds(9), own(at)),
                                            own(at)._get_backend(CPU).options._timeout),
        "set_timeout/function_type": lambda at: d(at)._set_pg_timeout("3", own(at)),
        "split/empty": lambda at: world(at).split_group([]),
        "split/twice": lambda at: world(at).split_group([0, 0]) if at.size > 1 else None,
        "split/large": lambda at: world(at).split_group(list(range(at.size + 1))),
        "merge/type": lambda at: world(at).merge_remote_group(3, 2),
        "hook": lambda at: own(at)._register_on_completion_hook(lambda done: None),
        "pending": lambda at: own(at)._wait_for_pending_works(),
        "start": lambda at: own(at)._start_coalescing(CPU),
        "end": lambda at: own(at)._end_coalescing(CPU),
        "timing": lambda at: own(at)._enable_collectives_timing(),
        "numbers": lambda at: own(at)._set_sequence_number_for_group(),
        "number": lambda at: own(at)._get_sequence_number_for_group() and None,
        "bound": lambda at: setattr(own(at), "bound_device_id", CPU),
        "bad_root/broadcast": lambda at: own(at).broadcast(torch.ones(1), 99),
        "bad_root/scatter": lambda at: own(at).scatter(torch.ones(1), [torch.ones(1)] * at.size, 99),
        "duration": lambda at: own(at).allreduce([torch.ones(1)])._get_duration(),
        "resolve": lambda at: d(at)._resolve_process_group(own(at).group_name) is own(at),
        "resolve/unknown": lambda at: d(at)._resolve_process_group("nothing"),
        "names": lambda at: (d(at)._get_process_group_name(world(at)), d(at)._get_group_size(own(at)),
                             d(at)._get_default_timeout("gloo"), sorted(d(at)._get_pg_config(own(at)))),
    }
    for name, call in each.items():
        yield f"attribute/{name}", call
