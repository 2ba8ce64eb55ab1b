"""Ranks in an n-dimensional arrangement, with a group for every line of it."""

import math
import sys
from collections.abc import Sequence
from typing import Any

from tutti.distributed.backend import Backend
from tutti.distributed.groups import _enumerated
from tutti.distributed.init import init_process_group
from tutti.distributed.process_group import NON_GROUP_MEMBER, ProcessGroup, default_group, get_process_group_ranks
from tutti.distributed.world import world

_stack: list["DeviceMesh"] = []


def _flat(mesh: Any) -> tuple[list[int], tuple[int, ...]]:
    """The ranks in row-major order, and the shape, of nested lists or an array."""
    if hasattr(mesh, "tolist"):
        mesh = mesh.tolist()
    shape: list[int] = []
    level = mesh
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        level = level[0] if len(level) else None
    ranks: list[int] = []

    def visit(part: Any, depth: int) -> None:
        if depth == len(shape):
            if isinstance(part, bool) or not hasattr(part, "__index__"):
                raise TypeError(f"DeviceMesh: {part!r} is no rank")
            ranks.append(part.__index__())
            return
        if not isinstance(part, (list, tuple)) or len(part) != shape[depth]:
            raise ValueError("DeviceMesh: the rows of the mesh have different lengths")
        for each in part:
            visit(each, depth + 1)

    visit(mesh, 0)
    return ranks, tuple(shape)


def _check_device(device_type: str) -> None:
    if not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ",
                           "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.")
    served = {device for devices in Backend.backend_capability.values() for device in devices}
    if device_type not in served:
        raise RuntimeError(f"device type {device_type!r}: the engines here serve {', '.join(sorted(served))}; pass "
                           f"\"cpu\", and tensors in CPU memory")


class DeviceMesh:
    """The ranks of `mesh` (nested lists or an array), with a group for each line along each dimension.

    Every rank of the world makes it with the same mesh. `mesh[name]` and `mesh[name, name]` are the parts
    along these dimensions that hold this rank.
    """

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None,
                 backend_override: Any = None, _init_backend: bool = True) -> None:
        self.device_type = device_type
        self._ranks, self._shape = _flat(mesh)
        if mesh_dim_names is not None:
            mesh_dim_names = tuple(mesh_dim_names)
            _check_names(mesh_dim_names, len(self._shape))
        self.mesh_dim_names = mesh_dim_names
        if world.default is None:
            init_process_group()
        if len(set(self._ranks)) != len(self._ranks):
            raise RuntimeError("DeviceMesh cannot have duplicate values, but found duplicates in the mesh")
        size = len(default_group()._ranks)
        if len(self._ranks) > size:
            raise RuntimeError(f"Mesh should not be bigger than default world size {size}, but found "
                               f"{len(self._ranks)} ranks!")
        for rank in self._ranks:
            if not 0 <= rank < size:
                raise ValueError(f"DeviceMesh: rank {rank} is none of the world's 0 to {size - 1}")
        self._own = default_group()._own
        self._root: DeviceMesh | None = None
        self._flattened: dict[str, DeviceMesh] = {}
        self._coordinate = self._place_of(self._own)
        self._groups: list[Any] = [self._lines(dim) for dim in range(len(self._shape))] if _init_backend else []

    # ---- arithmetic of places ----

    def _place_of(self, rank: int) -> tuple[int, ...] | None:
        if rank not in self._ranks:
            return None
        position, place = self._ranks.index(rank), []
        for extent in reversed(self._shape):
            position, inside = divmod(position, extent)
            place.append(inside)
        return tuple(reversed(place))

    def _line_lists(self, dim: int) -> list[list[int]]:
        stride = math.prod(self._shape[dim + 1:])
        extent = self._shape[dim]
        starts = [start for start in range(len(self._ranks)) if start // stride % extent == 0]
        return [[self._ranks[start + i * stride] for i in range(extent)] for start in starts]

    def _lines(self, dim: int) -> Any:
        lines = self._line_lists(dim)
        everybody = default_group()
        if lines == [everybody._ranks]:
            return everybody
        mine, _ = _enumerated(everybody, lines, None, None,
                              f"mesh_{self.mesh_dim_names[dim] if self.mesh_dim_names else f'dim_{dim}'}")
        return NON_GROUP_MEMBER if mine is None else mine

    def _number(self, mesh_dim: int | str | None, what: str) -> int:
        if mesh_dim is None:
            if len(self._shape) != 1:
                raise RuntimeError(f"Found the DeviceMesh have {len(self._shape)} dimensions",
                                   "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.", *(
                                       ("If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                                        "please use `get_all_groups()` instead.",) if what == "group" else ()))
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist.",
                               f"Available mesh dimensions are: mesh_dim_names={self.mesh_dim_names}")
            return self.mesh_dim_names.index(mesh_dim)
        if not -len(self._shape) <= mesh_dim < len(self._shape):
            raise IndexError(f"dimension {mesh_dim} of a mesh with {len(self._shape)} dimensions")
        return mesh_dim % len(self._shape)

    # ---- what it is ----

    @property
    def mesh(self) -> Any:
        """The ranks: a torch tensor where torch is in use, else a NumPy array."""
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "tensor"):
            return torch.tensor(self._ranks, dtype=torch.int32).reshape(self._shape)
        import numpy
        return numpy.array(self._ranks, numpy.int32).reshape(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return self._shape

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Ranks of the mesh, or along one dimension."""
        return len(self._ranks) if mesh_dim is None else self._shape[self._number(mesh_dim, "size")]

    def get_rank(self) -> int:
        """Ours in the world."""
        return default_group()._own

    def get_coordinate(self) -> Any:
        """The coordinate of this rank; None if it is not in the mesh."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Our place along one dimension."""
        number = self._number(mesh_dim, "rank")
        if self._coordinate is None:
            raise RuntimeError(f"rank {self._own} is not in the mesh")
        return self._coordinate[number]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of our line along one dimension."""
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if isinstance(mesh_dim, str) and mesh_dim in self._top()._flattened:
            return self._top()._flattened[mesh_dim]._groups[0]
        return self._groups[self._number(mesh_dim, "group")]

    def get_all_groups(self) -> list[Any]:
        """The groups of our lines along all dimensions."""
        return [self.get_group(dim) for dim in range(len(self._shape))]

    # ---- parts of it ----

    def _top(self) -> "DeviceMesh":
        return self if self._root is None else self._root

    def _derived(self, ranks: list[int], shape: tuple[int, ...], names: tuple[str, ...] | None,
                 groups: list[Any]) -> "DeviceMesh":
        made = object.__new__(DeviceMesh)
        made.device_type, made._ranks, made._shape, made.mesh_dim_names = self.device_type, ranks, shape, names
        made._own, made._root, made._flattened = self._own, self._top(), {}
        made._coordinate = made._place_of(self._own)
        made._groups = groups
        return made

    def __getitem__(self, names: str | tuple[str, ...]) -> "DeviceMesh":
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if wanted == self.mesh_dim_names:
            return self
        if len(wanted) == 1 and wanted[0] in self._top()._flattened:
            return self._top()._flattened[wanted[0]]
        if any(name not in self.mesh_dim_names for name in wanted) or len(set(wanted)) != len(wanted):
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are "
                           f"{list(self.mesh_dim_names)}.")
        numbers = [self.mesh_dim_names.index(name) for name in wanted]
        place = self._coordinate or (0,) * len(self._shape)
        shape = tuple(self._shape[number] for number in numbers)
        ranks = []
        for position in range(math.prod(shape)):
            here, rest = list(place), position
            for number in reversed(numbers):
                rest, here[number] = divmod(rest, self._shape[number])
            flat = 0
            for extent, inside in zip(self._shape, here):
                flat = flat * extent + inside
            ranks.append(self._ranks[flat])
        return self._derived(ranks, shape, wanted, [self._groups[number] for number in numbers])

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> "DeviceMesh":
        """All dimensions as one. Every rank of the world calls it."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or map(str, range(len(self._shape))))
        top = self._top()
        if name in (top.mesh_dim_names or ()) and not (self.mesh_dim_names == (name,)):
            raise ValueError(f"{name} already exists for submesh of the {top}. ")
        if name in top._flattened:
            return top._flattened[name]
        everybody = default_group()
        lists = self._sisters()
        if lists == [everybody._ranks]:
            group: Any = everybody
        else:
            mine, _ = _enumerated(everybody, lists, None, None, f"mesh_{name}")
            group = NON_GROUP_MEMBER if mine is None else mine
        made = self._derived(list(self._ranks), (len(self._ranks),), (name,), [group])
        top._flattened[name] = made
        return made

    def _sisters(self) -> list[list[int]]:
        """The ranks of this part and of all its like in the whole mesh."""
        top = self._top()
        if top is self or self.mesh_dim_names is None or top.mesh_dim_names is None:
            return [list(self._ranks)]
        inside = [top.mesh_dim_names.index(name) for name in self.mesh_dim_names]
        sisters: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for rank in top._ranks:
            place = top._place_of(rank)
            assert place is not None
            outer = tuple(p for number, p in enumerate(place) if number not in inside)
            sisters.setdefault(outer, []).append((tuple(place[number] for number in inside), rank))
        return [[rank for _, rank in sorted(members)] for members in sisters.values()]

    def _unflatten(self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str],
                   backend_override: Any = None) -> "DeviceMesh":
        """One dimension as several. Every rank of the world calls it."""
        number = self._number(dim, "dim")
        if math.prod(mesh_sizes) != self._shape[number]:
            raise ValueError(f"_unflatten: {tuple(mesh_sizes)} does not make {self._shape[number]}")
        shape = (*self._shape[:number], *mesh_sizes, *self._shape[number + 1:])
        names = self.mesh_dim_names or tuple(f"dim_{i}" for i in range(len(self._shape)))
        return DeviceMesh(self.device_type, _nested(self._ranks, shape),
                          mesh_dim_names=(*names[:number], *mesh_dim_names, *names[number + 1:]))

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *,
                   mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None) -> "DeviceMesh":
        """A mesh of groups that exist: of one group, or of one for each dimension of `mesh`."""
        _check_device(device_type)
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            if mesh is not None and _flat(mesh)[0] != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            groups, given = [group], ranks
        else:
            groups = list(group)
            if not groups:
                raise ValueError("Expects at least one ProcessGroup to be passed")
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            if mesh_dim_names is None:
                raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
            given = mesh
        made = DeviceMesh(device_type, given, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if len(groups) != made.ndim:
            raise ValueError(f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {made._shape} and "
                             f"{len(groups)} ProcessGroups")
        made._groups = groups
        return made

    # ---- as a value ----

    def _key(self) -> tuple[Any, ...]:
        return (self.device_type, tuple(self._ranks), self._shape, self.mesh_dim_names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> "DeviceMesh":
        _stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack.pop()

    def __repr__(self) -> str:
        if self.mesh_dim_names:
            inside = ", ".join(f"{name}={extent}" for name, extent in zip(self.mesh_dim_names, self._shape))
        else:
            inside = ", ".join(map(str, self._shape)) + ("," if len(self._shape) == 1 else "")
        return f"DeviceMesh(({inside}), '{self.device_type}')"


def _nested(ranks: Sequence[int], shape: Sequence[int]) -> Any:
    if len(shape) == 0:
        return ranks[0]
    inner = math.prod(shape[1:])
    return [_nested(ranks[i * inner:(i + 1) * inner], shape[1:]) for i in range(shape[0])]


def _check_names(names: tuple[str, ...], ndim: int) -> None:
    if len(set(names)) != len(names):
        raise RuntimeError("Each mesh_dim_name must be unique. "
                           f"Found repeated mesh_dim_name in mesh_dim_names {names}")
    if len(names) != ndim:
        raise RuntimeError("mesh_shape and mesh_dim_names should have same length! "
                           f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape):{ndim}.")


def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None,
                     backend_override: Any = None) -> DeviceMesh:
    """Ranks 0, 1, 2, ... of the world in an arrangement of that shape. Every rank calls it; a world is made
    if there is none."""
    if not isinstance(mesh_shape, (tuple, list)):
        raise TypeError(f"init_device_mesh: mesh_shape is {mesh_shape!r}; it is a tuple, such as (2, 4)")
    for extent in mesh_shape:
        if not hasattr(extent, "__index__"):
            raise TypeError(f"init_device_mesh: mesh_shape has {extent!r}, which is no whole number")
        if extent < 1:
            raise ValueError(f"init_device_mesh: mesh_shape has {extent}; along each dimension there is a rank at least")
    if mesh_dim_names is not None:
        _check_names(tuple(mesh_dim_names), len(mesh_shape))
    _check_device(device_type)
    if world.default is None:
        init_process_group()
    size, wanted = len(default_group()._ranks), math.prod(mesh_shape)
    if wanted > size:
        raise RuntimeError(f"Mesh should not be bigger than default world size {size}, but found {wanted} ranks!")
    return DeviceMesh(device_type, _nested(list(range(wanted)), tuple(mesh_shape)), mesh_dim_names=mesh_dim_names)
