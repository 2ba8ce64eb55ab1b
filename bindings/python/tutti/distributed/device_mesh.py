"""Ranks in an n-dimensional arrangement, with a group for every line of it."""

import math
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from tutti.distributed.init import init_process_group
from tutti.distributed.mesh_devices import check_device, choose_device
from tutti.distributed.mesh_layout import MeshLayout
from tutti.distributed.mesh_lines import Engine, Line, line_groups
from tutti.distributed.process_group import ProcessGroup, default_group, get_process_group_ranks, get_rank, resolved
from tutti.distributed.world import world

class _MeshEnv(threading.local):
    """`_mesh_resources`: the meshes whose `with` blocks this thread is in."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> "DeviceMesh":
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh: "DeviceMesh") -> "DeviceMesh":
        warnings.warn("This get_root_mesh API will be deprecated soon.Please use `get_root_mesh` inside DeviceMesh "
                      "instead.", stacklevel=2)
        return device_mesh._get_root_mesh()

    def _get_all_submeshes(self, device_mesh: "DeviceMesh", mesh_dim_name: str) -> list["DeviceMesh"]:
        warnings.warn("This _get_all_submeshes API will be deprecated soon.Please use `_get_all_submeshes` inside "
                      "DeviceMesh instead.", stacklevel=2)
        return device_mesh._get_all_submeshes(mesh_dim_name)


_mesh_resources = _MeshEnv()


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

    _layout: MeshLayout
    _ranks: list[int]  # of the root mesh, to which the layout points
    _lines: list[Line]  # of each dimension our group, which lives as long as a mesh of it

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
                 backend_override: Sequence[Engine] | None = None, _init_backend: bool = True,
                 _rank: int | None = None) -> None:
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
        self._begin(device_type, ranks, MeshLayout.row_major(shape), names, None, get_rank() if _rank is None else _rank)
        if _init_backend:
            self._lines = line_groups(self._layout, ranks, names, backend_override or [(None, None)] * len(shape))

    def _begin(self, device_type: str, ranks: list[int], layout: MeshLayout, names: tuple[str, ...] | None,
               root: "DeviceMesh | None", rank: int) -> None:
        self._device_type, self._ranks, self._layout, self._mesh_dim_names = device_type, ranks, layout, names
        self._root_mesh, self._rank = root, rank
        self._flatten_mapping: dict[str, DeviceMesh] = {}
        own = self._own_ranks()
        self._coordinate = _place(own.index(rank), layout.top_level_sizes) if rank in own else None

    def _part(self, layout: MeshLayout, names: tuple[str, ...], groups: list[Line] | None) -> "DeviceMesh":
        """A mesh of the same root."""
        made = object.__new__(DeviceMesh)
        made._begin(self._device_type, self._ranks, layout, names, self._get_root_mesh(), self._rank)
        if groups is not None:
            made._lines = groups
        return made

    @property
    def _dim_group_names(self) -> list[str]:
        return [line if isinstance(line, str) else line._name for line in self._lines]

    def _own_ranks(self) -> list[int]:
        """Of the meshes of this layout the one that holds this rank, in row-major order."""
        sisters = self._layout.sisters(self._ranks)
        for ranks in sisters:
            if len(sisters) == 1 or self._rank in ranks:
                return ranks
        raise RuntimeError("In order to get the mesh Tensor of a DeviceMesh it needs to either have all its original "
                           "dimensions (e.g., no slicing) or it needs to contain the local rank")

    # ---- what it is ----

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
        if torch is not None and hasattr(torch, "tensor"):
            if self._root_mesh is None or any(len(axis.shape) > 1 for axis in self._layout):
                return torch.tensor(self._own_ranks(), dtype=torch.int32).reshape(self.shape)
            # A view of the root's, as in torch; where an extent is 1, with the step that torch gives it.
            longer = [(axis.shape[0], axis.stride[0]) for axis in self._layout if axis.shape] or [(1, 1)]
            strides, step = [], longer[0][0] * longer[0][1]
            for axis in self._layout:
                step = axis.stride[0] if axis.stride else step
                strides.append(step)
            every = torch.tensor(self._ranks, dtype=torch.int32)
            return every.as_strided(self.shape, strides, self._ranks.index(self._own_ranks()[0]))
        import numpy
        return numpy.array(self._own_ranks(), numpy.int32).reshape(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return self._layout.top_level_sizes

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._layout)

    def size(self, mesh_dim: int | None = None) -> int:
        """Ranks of the mesh, or along one dimension."""
        return self._layout.numel() if mesh_dim is None else self._layout[mesh_dim].numel()

    def get_rank(self) -> int:
        """Ours in the world."""
        return self._rank if world.default is None else get_rank()

    def get_coordinate(self) -> Any:
        """The place of this rank along each dimension; None if it is not in the mesh."""
        return self._coordinate

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate is not None

    def _number(self, mesh_dim_name: str) -> int:
        if not self._mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(f"Mesh dimension '{mesh_dim_name}' does not exist.",
                           f"Available mesh dimensions are: mesh_dim_names={self._mesh_dim_names}")
        return self._mesh_dim_names.index(mesh_dim_name)

    _get_mesh_dim_by_name = _number

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
        flattened = self._get_root_mesh()._flatten_mapping
        if isinstance(wanted, str) and wanted in flattened:
            return flattened[wanted].get_group()
        number: int = self._number(wanted) if isinstance(wanted, str) else wanted
        if not self._lines:
            raise IndexError(f"rank {self._rank} is not in the mesh, so it has no groups of it")
        if not -self.ndim <= number < self.ndim:
            raise IndexError(f"dimension {number} of a mesh with {self.ndim} dimensions")
        return resolved(self._dim_group_names[number])

    def get_all_groups(self) -> list[Any]:
        """The groups of our lines along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    # ---- parts of it ----

    def _get_root_mesh(self) -> "DeviceMesh":
        """The mesh that this one is a part of, or this one."""
        return self if self._root_mesh is None else self._root_mesh

    def _get_root_mesh_dim(self) -> int | None:
        """The dimension of the root that this mesh of one dimension is; None if it has no name."""
        names = self._mesh_dim_names
        if not names:
            return None
        if len(names) != 1:
            raise AssertionError("The submesh can only be a 1D mesh.")
        return self._get_root_mesh()._number(names[0])

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> "DeviceMesh":
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if wanted == self._mesh_dim_names:
            return self
        flattened = self._flatten_mapping if self == self._get_root_mesh() else {}
        valid = [*self._mesh_dim_names, *flattened]
        if any(name not in valid for name in wanted):
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {valid}.")
        axes, groups = [], []
        for name in wanted:
            if name in self._mesh_dim_names:
                part, number = self, self._mesh_dim_names.index(name)
            else:
                warnings.warn("Slicing a flattened dim from root mesh will be deprecated in PT 2.11. Users need to "
                              "bookkeep the flattened mesh directly. ", stacklevel=2)
                part, number = flattened[name], 0
            axes.append(part._layout[number])
            if self._lines:
                groups.append(part._lines[number])
        layout = MeshLayout(tuple(axes))
        if not layout.collapse().is_sorted():
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. Mesh dim indices should be in ascending order.")
        if not layout.collapse().is_free_of_overlaps():
            raise RuntimeError(f"Slicing overlapping dim_names {wanted} is not allowed.")
        return self._part(layout, wanted, groups)

    def _get_all_submeshes(self, mesh_dim_name: str) -> list["DeviceMesh"]:
        """All lines along a dimension. Only ours has a group."""
        number, found = self._number(mesh_dim_name), []
        for ranks in MeshLayout((self._layout[number],)).sisters(self._ranks):
            made = DeviceMesh(self._device_type, ranks, mesh_dim_names=(mesh_dim_name,), _init_backend=False)
            made._lines = [self._lines[number]] if self._rank in ranks else []
            found.append(made)
        return found

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> "DeviceMesh":
        """All dimensions as one, which the root mesh then knows by that name. Every rank of the world calls it."""
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._mesh_dim_names)
        if self._mesh_dim_names == (name,):
            return self
        root = self._get_root_mesh()
        if name in (root._mesh_dim_names or ()):
            raise ValueError(f"{name} already exists for submesh of the {root}. ",
                             f"The mesh_dim_names of submesh and flattened mesh are {root._mesh_dim_names}. Please "
                             f"specify another valid mesh_dim_name.")
        layout = MeshLayout((self._layout.collapse(),))
        if name not in root._flatten_mapping:
            engines = _engines({} if backend_override is None else {0: backend_override}, None, 1)
            root._flatten_mapping[name] = root._part(layout, (name,), line_groups(layout, root._ranks, (name,), engines))
        elif root._flatten_mapping[name]._layout != layout:
            raise ValueError(f"Flatten mesh with mesh_dim_name {name} has been created before, Please specify another "
                             f"valid mesh_dim_name.")
        return root._flatten_mapping[name]

    def _unflatten(self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str],
                   backend_override: Any = None) -> "DeviceMesh":
        """One dimension as several. Every rank of the world calls it."""
        if not self._mesh_dim_names:
            raise TypeError("Cannot unflatten a DeviceMesh without mesh_dim_names!")
        if isinstance(dim, str) and dim not in self._mesh_dim_names:
            raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self._mesh_dim_names}")
        if not isinstance(dim, str) and dim >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        number = self._mesh_dim_names.index(dim) if isinstance(dim, str) else dim % self.ndim
        axes, names = self._layout.axes, self._mesh_dim_names
        engines = _engines(backend_override, tuple(mesh_dim_names), len(mesh_sizes))
        if math.prod(mesh_sizes) != axes[number].numel():
            raise ValueError(f"The product of {mesh_sizes=} is {math.prod(mesh_sizes)}, but the original dimension at "
                             f"dim={number} has size {axes[number].numel()}. These must be equal for unflatten to work "
                             f"correctly.")
        parts = MeshLayout(tuple(axes[number].divided(mesh_sizes)))
        groups = None
        if hasattr(self, "_lines"):
            groups = list(self._lines)
            groups[number:number + 1] = line_groups(parts, self._ranks, tuple(mesh_dim_names), engines)
        return self._part(MeshLayout((*axes[:number], *parts, *axes[number + 1:])),
                          (*names[:number], *mesh_dim_names, *names[number + 1:]), groups)

    @staticmethod
    def _concatenate(device_mesh_list: list["DeviceMesh"]) -> "DeviceMesh":
        """A mesh of the dimensions of all these parts of one root, in this order."""
        first = device_mesh_list[0]
        if any(mesh._ranks != first._ranks for mesh in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshs")
        layout = MeshLayout(tuple(axis for mesh in device_mesh_list for axis in mesh._layout))
        if not layout.collapse().is_free_of_overlaps():
            raise RuntimeError(f"Cannot concatenate overlapping meshes: {device_mesh_list}")
        return first._part(layout, tuple(name for mesh in device_mesh_list for name in mesh._mesh_dim_names or ()),
                           [line for mesh in device_mesh_list for line in mesh._lines])

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
        made._lines = groups
        return made

    # ---- as a value; pickles hold the names of the groups ----

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if "_lines" in state:
            state["_lines"] = self._dim_group_names
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_lines" in state:
            self._lines = [world.groups.get(name, name) for name in state["_lines"]]

    def _key(self) -> tuple[Any, ...]:
        return tuple(self._ranks), self._layout, self._device_type, self._mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __enter__(self) -> "DeviceMesh":
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _mesh_resources.mesh_stack.pop()

    def __repr__(self) -> str:
        named = zip(self._mesh_dim_names or (), self.shape)
        inside = f"({', '.join(f'{name}={extent}' for name, extent in named)})" if self._mesh_dim_names else self.shape
        steps = tuple(axis.stride[0] if len(axis.stride) == 1 else axis.stride for axis in self._layout)
        detail = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL"
        return (f"DeviceMesh({inside}, '{self._device_type}', stride={steps}"
                f"{f', Mesh: {self.mesh.tolist()}' if detail else ''})")


def _place(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    """A position in row-major order as coordinates."""
    place: list[int] = []
    for extent in reversed(shape):
        position, inside = divmod(position, extent)
        place.insert(0, inside)
    return tuple(place)


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
