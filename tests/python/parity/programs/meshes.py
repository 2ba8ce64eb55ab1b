"""DeviceMesh: its parts, ranks and groups."""

import copy
import pickle

from arrays import torch


def about(at, mesh):
    """All that a mesh tells of itself."""
    names = mesh.mesh_dim_names or ()
    return (torch.as_tensor(mesh.mesh), mesh.shape, mesh.ndim, mesh.size(), mesh.get_coordinate(), mesh.get_rank(), names, mesh.device_type,
            [mesh.size(dim) for dim in range(mesh.ndim)], repr(mesh), len(mesh.get_all_groups()) if mesh.get_coordinate() else
            None, [at.dist.get_process_group_ranks(mesh.get_group(dim)) for dim in range(mesh.ndim)]
            if mesh.get_coordinate() else None)


def shapes(at):
    """(shape, names)"""
    n = at.size
    yield "line", (n,), ("dp",)
    yield "line_unnamed", (n,), None
    yield "column", (n, 1), ("dp", "tp")
    yield "row", (1, n), ("dp", "tp")
    yield "cube", (1, n, 1), ("pp", "dp", "tp")
    if n == 4:
        yield "square", (2, 2), ("dp", "tp")
        yield "flat_cube", (2, 1, 2), ("pp", "dp", "tp")
    yield "first", (1,), ("dp",)


def made(at, step, d):
    for name, shape, names in shapes(at):
        mesh = step(f"{name}/make", lambda: d.init_device_mesh("cpu", shape, mesh_dim_names=names))
        step(f"{name}/about", lambda: about(at, mesh))
        step(f"{name}/local_ranks", lambda: [mesh.get_local_rank(dim) for dim in range(mesh.ndim)])
        step(f"{name}/flattened", lambda: torch.as_tensor(mesh.mesh).flatten())
        for part in names or ():
            step(f"{name}/{part}/about", lambda: about(at, mesh[part]))
            step(f"{name}/{part}/local_rank", lambda: mesh[part].get_local_rank())
            step(f"{name}/{part}/sum", lambda: d.all_reduce(
                x := torch.tensor([2 ** at.rank]), group=mesh.get_group(part)) or x)
        step(f"{name}/equal", lambda: (mesh == d.init_device_mesh("cpu", shape, mesh_dim_names=names), mesh != mesh,
                                       hash(mesh) == hash(mesh), mesh == shape))
        step(f"{name}/copied", lambda: copy.deepcopy(mesh) == mesh)
        step(f"{name}/pickled", lambda: about(at, pickle.loads(pickle.dumps(mesh))))
        step(f"{name}/entered", lambda: entered(at, mesh))


def entered(at, mesh):
    with mesh as current:
        return current is mesh


def orders(at, step, d, n):
    """Ranks in orders of their own."""
    chosen = {"backward": list(range(n))[::-1], "tensor": torch.arange(n), "in_part": [n - 1], "nested": [list(range(n))],
              "column": [[r] for r in range(n)], "column_backward": [[r] for r in range(n)][::-1]}
    if n == 4:
        chosen |= {"mixed": [[3, 1], [2, 0]], "crossed": [[0, 2], [1, 3]]}
    for name, ranks in chosen.items():
        mesh = step(f"{name}/make", lambda: d.DeviceMesh("cpu", ranks))
        step(f"{name}/about", lambda: about(at, mesh))
        step(f"{name}/local_rank", lambda: mesh.get_local_rank(0))
        step(f"{name}/sum", lambda: None if mesh.get_coordinate() is None else [d.all_reduce(
            x := torch.tensor([2 ** at.rank]), group=mesh.get_group(dim)) or x for dim in range(mesh.ndim)])
        step(f"{name}/gather", lambda: None if mesh.get_coordinate() is None else [d.all_gather_object(
            out := [None] * mesh.size(dim), at.rank, group=mesh.get_group(dim)) or out for dim in range(mesh.ndim)])


def parts(at, step, d, n):
    shape = (2, 2, 1) if n == 4 else (1, n, 1)
    mesh = step("make", lambda: d.init_device_mesh("cpu", shape, mesh_dim_names=("pp", "dp", "tp")))
    for names in (("pp", "dp"), ("dp", "tp"), ("pp", "tp"), ("pp", "dp", "tp"), ("dp",), "tp"):
        step(f"slice/{'_'.join(names)}", lambda: about(at, mesh[names]))
    for names in (("dp", "pp"), ("tp", "pp"), "none", ("dp", "none"), (), ("dp", "dp"), 3, None):
        step(f"wrong_slice/{names}", lambda: mesh[names])
    step("from_group", lambda: about(at, d.DeviceMesh.from_group(d.group.WORLD, "cpu")))
    step("from_group_named", lambda: about(at, d.DeviceMesh.from_group(d.group.WORLD, "cpu", mesh_dim_names=("x",))))
    step("from_groups", lambda: about(at, d.DeviceMesh.from_group(
        [mesh.get_group("pp"), mesh.get_group("dp")], "cpu", mesh=mesh["pp", "dp"].mesh, mesh_dim_names=("a", "b"))))
    step("from_group_wrong", lambda: d.DeviceMesh.from_group(d.group.WORLD, "cpu", mesh=[n + 5]))
    step("from_no_group", lambda: d.DeviceMesh.from_group([], "cpu"))


def wrong(at, step, d, n):
    init = d.init_device_mesh
    each = {
        "upper_case": lambda: about(at, init("CPU", (n,))), "too_large": lambda: init("cpu", (n + 1,)), "empty_shape": lambda: init("cpu", ()).shape,
        "names_short": lambda: init("cpu", (1, n), mesh_dim_names=("a",)), "no_shape": lambda: init("cpu"),
        "duplicate": lambda: d.DeviceMesh("cpu", [0, 0]), "no_mesh": lambda: d.DeviceMesh("cpu", None),
        "out_of_range": lambda: d.DeviceMesh("cpu", [n + 3]), "negative": lambda: d.DeviceMesh("cpu", [-1]),
        "uneven": lambda: d.DeviceMesh("cpu", [[0], [0, 1]]), "text": lambda: d.DeviceMesh("cpu", "0"),
        "number": lambda: init(3, (n,)), "override": lambda: init("cpu", (n,), backend_override={"x": "gloo"}),
        "override_gloo": lambda: init("cpu", (n,), mesh_dim_names=("x",), backend_override={"x": "gloo"}).shape,
        "dim_of_many": lambda: init("cpu", (1, n)).get_group(), "dim_unknown": lambda: init("cpu", (1, n)).get_group("x"),
        "dim_range": lambda: init("cpu", (1, n)).get_group(7), "local_rank_many": lambda: init("cpu", (1, n)).get_local_rank(),
        "size_range": lambda: init("cpu", (1, n)).size(5), "slice_unnamed": lambda: init("cpu", (1, n))["x"],
        "size_negative": lambda: init("cpu", (1, n)).size(-1),
    }
    for name, call in each.items():
        step(name, call)


PROGRAMS = [made, orders, parts, wrong]
