"""Ranks in an n-dimensional arrangement, with a group for every line of it."""

import itertools
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tutti.distributed.groups import _enumerated
from tutti.distributed.init import init_process_group
from tutti.distributed.mesh_devices import check_device, choose_device
from tutti.distributed.process_group import ProcessGroup, default_group, resolved
from tutti.distributed.queries import get_process_group_ranks, get_rank
from tutti.distributed.world import world

Engine = tuple[Any, Any]  # that of the groups of one dimension, and its options; None: as the world's
Line = ProcessGroup | str  # a group, or the name of one that the process of a pickle did not have
Axis = tuple[int, int]  # ranks along a dimension, and how far neighbours lie apart in the list of all ranks


class RepeatedRankError(AssertionError, ValueError):
    """A rank stands twice in a mesh."""


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


def _engines(override: Any, names: Sequence[str] | None, ndim: int) -> list[Engine]:
    """The engine of each dimension, of a dict with dimensions or their names."""
    left, found = dict(override or {}), []
    for number in range(ndim):
        name = names[number] if names else None
        if name in left and number in left:
            raise RuntimeError(f"Found redundant dim index {number} and name {name} in backend_override")
        given = left.pop(name if name in left else number, None)
        found.append(given if isinstance(given, tuple) else (given, None) if isinstance(given, str) else (None, given))
    if left:
        raise RuntimeError(f"Found invalid keys in backend_override: got {list(left)}, expected integers in range [0, "
                           f"{ndim}) or one of {tuple(names or ())}")
    return found


def _row_major(shape: Sequence[int]) -> tuple[Axis, ...]:
    """The dimensions of a mesh that has all ranks of the list, the last one running fastest."""
    return tuple((extent, math.prod(shape[number + 1:])) for number, extent in enumerate(shape))


def _line_group(axis: Axis, ranks: list[int], name: str, engine: Engine) -> ProcessGroup | None:
    """Our group along a dimension; None if we are in none. Its ranks ascend, whatever their places."""
    everybody = default_group()
    extent, step = axis
    if extent == len(everybody._ranks) and engine == (None, None):
        return everybody
    lines = [sorted(ranks[first:first + extent * step:step]) for first in range(len(ranks)) if first // step % extent == 0]
    backend, options = engine
    mine: ProcessGroup | None = _enumerated(everybody, lines, getattr(options, "_timeout", None), backend, f"mesh_{name}",
                                            options)[0]
    return mine


class DeviceMesh:
    """The ranks of `mesh` (nested lists or an array), with a group for each line along each dimension.

    `device_type` says where the tensors are: "cpu", "cuda", or a type that a registered backend serves. It is recorded;
    the groups are the same for all types. With "cuda", torch's current device becomes GPU LOCAL_RANK (modulo the number
    of GPUs) if torch is imported, a GPU is there and the program has not used CUDA before; otherwise it stays as
    it is. Without a GPU such a mesh can be made, too.

    Every rank of the world makes it with the same mesh. `mesh[name]` and `mesh[name, name]` are the parts
    along these dimensions that hold this rank. The ranks of a group ascend, so `get_local_rank` may differ from
    `get_coordinate` where the mesh's do not.
    """

    _ranks: list[int]  # of the mesh that this one is a part of
    _axes: tuple[Axis, ...]  # in that list
    _lines: list[Line]  # of each dimension our group, which lives as long as a mesh of it

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
                 backend_override: Sequence[Engine] | None = None, _init_backend: bool = True) -> None:
        if mesh is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        check_device(device_type)
        ranks, shape = _flat(mesh)
        names = tuple(mesh_dim_names) if mesh_dim_names else None
        if names is not None:
            _check_names(names, len(shape))
        if backend_override is not None and len(backend_override) != len(shape):
            raise ValueError(f"backend_override should have the same length as the number of mesh dimensions, but got "
                             f"{len(backend_override)} and {len(shape)}.")
        if _init_backend:
            if world.default is None:
                init_process_group()
            choose_device(device_type)
        _check_ranks(ranks)
        self._begin(device_type, ranks, _row_major(shape), names, get_rank())
        if _init_backend:
            engines = backend_override or [(None, None)] * len(shape)
            groups = [_line_group(axis, ranks, names[number] if names else f"dim_{number}", engines[number])
                      for number, axis in enumerate(self._axes)]
            self._lines = [group for group in groups if group is not None]  # none where this rank is not in the mesh

    def _begin(self, device_type: str, ranks: list[int], axes: tuple[Axis, ...], names: tuple[str, ...] | None,
               rank: int) -> None:
        self._device_type, self._ranks, self._axes, self._mesh_dim_names, self._rank = device_type, ranks, axes, names, rank
        own = self._own_ranks()
        self._coordinate = self._place(ranks.index(rank)) if rank in own else None

    def _place(self, position: int) -> tuple[int, ...]:
        """A position in the list of all ranks, along each dimension."""
        return tuple(position // step % extent for extent, step in self._axes)

    def _own_ranks(self) -> list[int]:
        """Of the parts along these dimensions the one that holds this rank, in row-major order."""
        first = 0
        if self.size() != len(self._ranks) or not self._ranks:
            if self._rank not in self._ranks:
                raise RuntimeError("In order to get the mesh Tensor of a DeviceMesh it needs to either have all its original "
                                   "dimensions (e.g., no slicing) or it needs to contain the local rank")
            own = self._ranks.index(self._rank)
            first = own - self._offset(self._place(own))
        return [self._ranks[first + self._offset(place)] for place in itertools.product(*map(range, self.shape))]

    def _offset(self, place: Iterable[int]) -> int:
        return sum(inside * step for inside, (_, step) in zip(place, self._axes))

    # ---- its attributes ----

    @property
    def device_type(self) -> str:
        """Where the tensors are: "cpu", "cuda"."""
        return self._device_type

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions, if they have any."""
        return self._mesh_dim_names

    @property
    def mesh(self) -> Any:
        """The ranks: a torch tensor where torch is in use, else a NumPy array."""
        torch = sys.modules.get("torch")
        own = self._own_ranks()
        if torch is not None and hasattr(torch, "tensor"):
            if self.size() == len(self._ranks):
                return torch.tensor(own, dtype=torch.int32).reshape(self.shape)
            # A view of the whole mesh, as in torch; where an extent is 1, with the step that torch gives it.
            longer = [axis for axis in self._axes if axis[0] > 1] or [(1, 1)]
            strides, last = [], math.prod(longer[0])
            for extent, step in self._axes:
                last = step if extent > 1 else last
                strides.append(last)
            return torch.tensor(self._ranks, dtype=torch.int32).as_strided(self.shape, strides, self._ranks.index(own[0]))
        import numpy
        return numpy.array(own, numpy.int32).reshape(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return tuple(extent for extent, _ in self._axes)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._axes)

    def size(self, mesh_dim: int | None = None) -> int:
        """Ranks of the mesh, or along one dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """Ours in the world."""
        return self._rank if world.default is None else get_rank()

    def get_coordinate(self) -> Any:
        """The place of this rank along each dimension; None if it is not in the mesh."""
        return self._coordinate

    def _number(self, mesh_dim_name: str) -> int:
        if not self._mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(f"Mesh dimension '{mesh_dim_name}' does not exist.",
                           f"Available mesh dimensions are: mesh_dim_names={self._mesh_dim_names}")
        return self._mesh_dim_names.index(mesh_dim_name)

    def _one_dimension(self, mesh_dim: Any, *more: str) -> Any:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions",
                               "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.", *more)
        return 0 if mesh_dim is None else mesh_dim

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Our rank in the group of our line along one dimension."""
        return get_rank(self.get_group(self._one_dimension(mesh_dim)))

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of our line along one dimension."""
        if not hasattr(self, "_lines"):
            raise RuntimeError("DeviceMesh process groups not initialized!")
        wanted = self._one_dimension(mesh_dim, "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                                               "please use `get_all_groups()` instead.")
        number: int = self._number(wanted) if isinstance(wanted, str) else wanted
        if not self._lines:
            raise IndexError(f"rank {self._rank} is not in the mesh, so it has no groups of it")
        if not -self.ndim <= number < self.ndim:
            raise IndexError(f"dimension {number} of a mesh with {self.ndim} dimensions")
        line = self._lines[number]
        return resolved(line if isinstance(line, str) else line._name)

    def get_all_groups(self) -> list[Any]:
        """The groups of our lines along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    # ---- parts of it ----

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> "DeviceMesh":
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if wanted == self._mesh_dim_names:
            return self
        valid = list(self._mesh_dim_names)
        if any(name not in valid for name in wanted):
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {valid}.")
        numbers = [valid.index(name) for name in wanted]
        steps = [step for extent, step in (self._axes[number] for number in numbers) if extent > 1]
        if steps != sorted(steps, reverse=True):
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. Mesh dim indices should be in ascending order.")
        if len(set(steps)) != len(steps):
            raise RuntimeError(f"Slicing overlapping dim_names {wanted} is not allowed.")
        part = object.__new__(DeviceMesh)
        part._begin(self._device_type, self._ranks, tuple(self._axes[number] for number in numbers), wanted, self._rank)
        part._lines = [self._lines[number] for number in numbers if self._lines]
        return part

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *,
                   mesh_dim_names: Sequence[str] | None = None) -> "DeviceMesh":
        """A mesh of groups that exist: of one group, or of one for each dimension of `mesh`."""
        check_device(device_type)
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
            ndim = len(_flat(mesh)[1])
            if ndim != len(groups):
                raise ValueError(f"Expects mesh with ndim equal to number of ProcessGroups but got mesh "
                                 f"{mesh.tolist() if hasattr(mesh, 'tolist') else mesh} and {len(groups)} ProcessGroups")
        made = DeviceMesh(device_type, given, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._lines = list(groups)
        return made

    # ---- as a value; pickles hold the names of the groups ----

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "_lines" in state:
            state["_lines"] = [line if isinstance(line, str) else line._name for line in self._lines]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_lines" in state:
            groups: Any = world.groups
            self._lines = [groups.get(name, name) for name in state["_lines"]]

    def _key(self) -> tuple[Any, ...]:
        axes = tuple((extent, step if extent > 1 else 0) for extent, step in self._axes)
        return tuple(self._ranks), axes, self._device_type, self._mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> "DeviceMesh":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        named = zip(self._mesh_dim_names or (), self.shape)
        inside = f"({', '.join(f'{name}={extent}' for name, extent in named)})" if self._mesh_dim_names else self.shape
        steps = tuple(step if extent > 1 else () for extent, step in self._axes)
        detail = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL"
        return (f"DeviceMesh({inside}, '{self._device_type}', stride={steps}"
                f"{f', Mesh: {self.mesh.tolist()}' if detail else ''})")


def _nested(ranks: Sequence[int], shape: Sequence[int]) -> Any:
    if len(shape) == 0:
        return ranks[0]
    inner = math.prod(shape[1:])
    return [_nested(ranks[i * inner:(i + 1) * inner], shape[1:]) for i in range(shape[0])]


def _check_ranks(ranks: list[int]) -> None:
    """Each is a rank of the world, and stands there once."""
    if len(set(ranks)) != len(ranks):
        raise RepeatedRankError(f"ranks list must not contain duplicate entries, got {ranks}")
    if world.default is None:
        return
    size = len(default_group()._ranks)
    if len(ranks) > size:
        raise RuntimeError(f"Mesh should not be bigger than default world size {size}, but found {len(ranks)} ranks!")
    for rank in ranks:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")


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
    if there is none. `device_type`: as of DeviceMesh, where it is explained. `backend_override`: the engine of the
    groups of some dimensions, by number or name."""
    if not isinstance(mesh_shape, (tuple, list)):
        raise TypeError(f"init_device_mesh: mesh_shape is {mesh_shape!r}; it is a tuple, such as (2, 4)")
    for extent in mesh_shape:
        if not hasattr(extent, "__index__"):
            raise TypeError(f"init_device_mesh: mesh_shape has {extent!r}, which is no whole number")
        if extent < 1:
            raise ValueError(f"init_device_mesh: mesh_shape has {extent}; along each dimension there is a rank at least")
    if mesh_dim_names is not None:
        _check_names(tuple(mesh_dim_names), len(mesh_shape))
    engines = None if backend_override is None else _engines(backend_override, mesh_dim_names, len(mesh_shape))
    check_device(device_type)
    if world.default is None:
        init_process_group()
    size, wanted = len(default_group()._ranks), math.prod(mesh_shape)
    if wanted > size:
        raise RuntimeError(f"Mesh should not be bigger than default world size {size}, but found {wanted} ranks!")
    return DeviceMesh(device_type, _nested(list(range(wanted)), tuple(mesh_shape)), mesh_dim_names=mesh_dim_names,
                      backend_override=engines)
