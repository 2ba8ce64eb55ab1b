"""Programs that join a world themselves, in new processes: ways of finding each other, wrong ones, one world after another."""

import datetime
import os

from arrays import torch


def summed(at):
    """What shows that a world works."""
    at.dist.all_reduce(x := torch.tensor([2 ** at.rank]))
    return x, at.dist.get_rank(), at.dist.get_world_size(), at.dist.get_backend()


def leave(at):
    at.dist.barrier()  # as long as rank 0 serves the store
    at.dist.destroy_process_group()


def joined(at, step, **options):
    step("init", lambda: at.dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30), **options))
    step("sum", lambda: summed(at))
    step("leave", lambda: leave(at))


def by_environment(at, step):
    step("before", lambda: at.dist.is_initialized())
    joined(at, step)
    step("after", lambda: (at.dist.is_initialized(), at.dist.group.WORLD))
    step("get_rank", lambda: at.dist.get_rank())


def by_address(at, step):
    joined(at, step, init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}", rank=at.rank, world_size=at.size)


def by_address_with_rank(at, step):
    joined(at, step, init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}?rank={at.rank}&world_size={at.size}")


def by_file(at, step):
    joined(at, step, init_method=f"file://{at.folder}/meeting", rank=at.rank, world_size=at.size)


def by_tcp_store(at, step):
    store = at.dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), at.size, at.rank == 0,
                             datetime.timedelta(seconds=30))
    step("store", lambda: store.set(f"k{at.rank}", "v") or store.get(f"k{at.rank}"))
    joined(at, step, store=store, rank=at.rank, world_size=at.size)


def by_file_store(at, step):
    joined(at, step, store=at.dist.FileStore(f"{at.folder}/store", at.size), rank=at.rank, world_size=at.size)


def by_prefix_store(at, step):
    store = at.dist.PrefixStore("job", at.dist.FileStore(f"{at.folder}/store", at.size))
    joined(at, step, store=store, rank=at.rank, world_size=at.size)


def twice(at, step):
    """One world after another, in one process."""
    for number in range(3):
        step(f"{number}/init", lambda: at.dist.init_process_group(
            "gloo", init_method=f"file://{at.folder}/meeting{number}", rank=at.rank, world_size=at.size))
        step(f"{number}/sum", lambda: summed(at))
        step(f"{number}/again", lambda: at.dist.init_process_group("gloo"))
        step(f"{number}/leave", lambda: leave(at))


def by_mesh(at, step):
    """A mesh joins the world where there is none."""
    step("mesh", lambda: at.dist.init_device_mesh("cpu", (at.size,), mesh_dim_names=("dp",)).shape)
    step("sum", lambda: summed(at))
    step("leave", lambda: leave(at))


def without_a_backend(at, step):
    step("init", lambda: at.dist.init_process_group())
    step("sum", lambda: summed(at)[:3])
    step("leave", lambda: leave(at))


def wrong(at, step):
    """Joining in wrong ways; nobody is waited for."""
    init, d = at.dist.init_process_group, at.dist
    kept = dict(os.environ)

    def without(name, value=None):
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
        try:
            init("gloo", timeout=datetime.timedelta(seconds=2))
        finally:
            os.environ.update(kept)

    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        step(f"no_{name}", lambda: without(name))
        step(f"text_{name}", lambda: without(name, "x"))
    calls = {
        "backend_unknown": lambda: init("unknown"), "backend_number": lambda: init(3), "timeout": lambda: init("gloo", timeout="5"),
        "scheme": lambda: init("gloo", init_method="foo://"), "method_number": lambda: init("gloo", init_method=3),
        "file_no_path": lambda: init("gloo", init_method="file://", rank=0, world_size=1),
        "tcp_no_rank": lambda: init("gloo", init_method="tcp://127.0.0.1:1", world_size=1) if "RANK" not in os.environ else None,
        "store_no_rank": lambda: init("gloo", store=d.HashStore(), world_size=1),
        "store_no_size": lambda: init("gloo", store=d.HashStore(), rank=0),
        "store_and_method": lambda: init("gloo", store=d.HashStore(), init_method="env://"),
        "device_id": lambda: init("gloo", device_id=0), "leave": lambda: d.destroy_process_group(),
        "get_rank": lambda: d.get_rank(), "size": lambda: d.get_world_size(), "barrier": lambda: d.barrier(),
        "all_reduce": lambda: d.all_reduce(torch.ones(1)), "new_group": lambda: d.new_group(), "world": lambda: d.group.WORLD,
        "objects": lambda: d.all_gather_object([None], 1), "default_group": lambda: d.distributed_c10d._get_default_group(),
        "default_store": lambda: d.distributed_c10d._get_default_store(), "unknown_keyword": lambda: init("gloo", nothing=1),
    }
    for name, call in calls.items():
        step(name, call)


def debug_levels(at, step):
    """TORCH_DISTRIBUTED_DEBUG, and what is asked of it."""
    for text in ("OFF", "INFO", "DETAIL", "info", "strange", ""):
        def set_to(text=text):
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = text
            at.dist.set_debug_level_from_env()
            return at.dist.get_debug_level().name
        step(f"set/{text}", set_to)
    os.environ.pop("TORCH_DISTRIBUTED_DEBUG")
    step("unset", lambda: at.dist.set_debug_level_from_env() or at.dist.get_debug_level().name)
    step("level", lambda: at.dist.set_debug_level(at.dist.DebugLevel.INFO) or at.dist.get_debug_level().name)


PROGRAMS = [by_environment, by_address, by_address_with_rank, by_file, by_tcp_store, by_file_store, by_prefix_store, twice,
            by_mesh, without_a_backend, wrong, debug_levels]
