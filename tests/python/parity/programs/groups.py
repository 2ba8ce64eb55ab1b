"""Groups of some ranks: who is in them, in which order, and what is done in them."""

import datetime

from arrays import torch
from inputs import whole


def summed(at, group):
    """What the members of a group have together, and where this rank is in it."""
    d = at.dist
    if d.get_rank(group) < 0:
        return None
    d.all_reduce(x := torch.tensor([2 ** at.rank]), group=group)
    d.all_gather(out := [torch.zeros(1) for _ in range(d.get_world_size(group))], torch.tensor([float(at.rank)]), group=group)
    return x, out, d.get_rank(group), d.get_world_size(group), d.get_process_group_ranks(group)


def orders(at, step, d, n):
    """The ranks of a group are sorted, whatever the list says."""
    for name, ranks in {"all": None, "forward": list(range(n)), "backward": list(range(n))[::-1], "first": [0],
                        "last": [n - 1], "ends": sorted({0, n - 1}), "ends_backward": sorted({0, n - 1})[::-1],
                        "but_first": list(range(1, n)) or [0]}.items():
        group = step(f"{name}/new_group", lambda: at.groups.setdefault(name, d.new_group(ranks)))
        step(f"{name}/summed", lambda: summed(at, group))
        is_member, size = d.get_rank(group) >= 0, d.get_world_size(group)

        def member(kind, call, name=name, is_member=is_member):
            step(f"{name}/{kind}", lambda: call() if is_member else None)

        def at_first(value, group=group):
            return value if d.get_rank(group) == 0 else None

        member("group_ranks", lambda: [d.get_group_rank(group, r) for r in sorted(ranks or range(n))])
        member("global_ranks", lambda: [d.get_global_rank(group, r) for r in range(size)])
        member("broadcast_from_last", lambda: d.broadcast(x := whole(at.rank, 3), group=group, group_src=size - 1) or x)
        member("objects", lambda: d.broadcast_object_list(x := [at.rank], group=group, group_src=0) or x)
        member("reduce", lambda: d.reduce(x := whole(at.rank, 3), group=group, group_dst=0) or at_first(x))
        member("gather", lambda: d.gather(
            whole(at.rank, 2), out := at_first([torch.zeros(2) for _ in range(size)]), group=group, group_dst=0) or out)
        member("scatter_objects", lambda: d.scatter_object_list(
            out := [None], at_first([("for", r) for r in range(size)]), group=group, group_src=0) or out)
    step("count", lambda: d.get_pg_count())


def kinds(at, step, d, n):
    """Ways of making groups."""
    step("subgroups", lambda: summed(at, d.new_subgroups(1)[0]))
    step("subgroups_of_two", lambda: summed(at, d.new_subgroups(2)[0]) if n % 2 == 0 else None)
    step("subgroups_of_all", lambda: summed(at, d.new_subgroups(n)[0]))
    step("enumerated", lambda: summed(at, d.new_subgroups_by_enumeration([[r] for r in range(n)])[0]))
    step("enumerated_backward", lambda: summed(at, d.new_subgroups_by_enumeration([list(range(n))[::-1]])[0]))
    step("enumerated_in_part", lambda: d.new_subgroups_by_enumeration([[0]])[0] is not None)
    step("described", lambda: (g := d.new_group(group_desc="some words")) and g.group_desc)
    step("with_timeout", lambda: summed(at, d.new_group(timeout=datetime.timedelta(seconds=30))))
    step("with_backend", lambda: d.get_backend(d.new_group(backend="gloo")))
    step("tuple", lambda: summed(at, d.new_group(tuple(range(n)))))
    step("range", lambda: summed(at, d.new_group(range(n))))
    step("world_is_world", lambda: d.group.WORLD is d.distributed_c10d._get_default_group())
    step("non_member", lambda: d.new_group([0]) is d.GroupMember.NON_GROUP_MEMBER)
    step("rank_of_non_member", lambda: d.get_rank(d.GroupMember.NON_GROUP_MEMBER))
    step("equal", lambda: d.group.WORLD == d.group.WORLD and hash(d.group.WORLD) == hash(d.group.WORLD))
    step("hierarchy", lambda: hierarchy(at))


def hierarchy(at):
    """A sum inside of nodes, between their first ranks, and back."""
    d, per_node = at.dist, 2 if at.size % 2 == 0 else 1
    mine, nodes = d.new_subgroups(per_node)
    leaders = d.new_group(list(range(0, at.size, per_node)))
    x = whole(at.rank, 4)
    d.reduce(x, group=mine, group_dst=0)
    if at.rank % per_node == 0:
        d.all_reduce(x, group=leaders)
    d.broadcast(x, group=mine, group_src=0)
    return x, len(nodes)


PROGRAMS = [orders, kinds]
