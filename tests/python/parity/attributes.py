"""Cells of what a group's object has besides operations."""

import datetime

from arrays import torch

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
    return g.name(), g.group_desc, g.rank(), g.size(), world(at).group_name, world(at).group_desc


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


def attributes():
    for cell in (questions, store, stores_of_groups, default_store, split, split_by_name, split_first):
        yield f"attribute/{cell.__name__}", cell
    d = lambda at: at.dist.distributed_c10d  # noqa: E731
    each = {
        "set_timeout/type": lambda at: own(at).set_timeout("3"),
        "split/empty": lambda at: world(at).split_group([]),
        "split/twice": lambda at: world(at).split_group([0, 0]) if at.size > 1 else None,
        "split/large": lambda at: world(at).split_group(list(range(at.size + 1))),
        "merge/type": lambda at: world(at).merge_remote_group(3, 2),
        "bad_root/broadcast": lambda at: own(at).broadcast(torch.ones(1), 99),
        "bad_root/scatter": lambda at: own(at).scatter(torch.ones(1), [torch.ones(1)] * at.size, 99),
        "resolve": lambda at: d(at)._resolve_process_group(own(at).group_name) is own(at),
        "resolve/unknown": lambda at: d(at)._resolve_process_group("nothing"),
    }
    for name, call in each.items():
        yield f"attribute/{name}", call
