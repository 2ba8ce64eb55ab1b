"""The groups of a mesh: one for each line along each dimension."""

from collections.abc import Sequence
from typing import Any

from tutti.distributed.groups import _enumerated
from tutti.distributed.mesh_layout import Axis, MeshLayout
from tutti.distributed.process_group import ProcessGroup, default_group

# The engine of the groups of one dimension, and their options; None: as the world's.
Engine = tuple[Any, Any]
Line = ProcessGroup | str  # a group, or the name of one that the process of a pickle did not have


def _line_group(axis: Axis, ranks: list[int], name: str, engine: Engine) -> ProcessGroup | None:
    """Our group along a dimension; None if we are in none. Its ranks ascend, whatever their places."""
    everybody = default_group()
    if axis.numel() == len(everybody._ranks) and engine == (None, None):
        return everybody
    lines = [sorted(line) for line in MeshLayout((axis,)).sisters(ranks)]
    backend, options = engine
    mine: ProcessGroup | None = _enumerated(everybody, lines, getattr(options, "_timeout", None), backend, f"mesh_{name}",
                                            options)[0]
    return mine


def line_groups(layout: MeshLayout, ranks: list[int], names: Sequence[str] | None, engines: Sequence[Engine]) -> list[Line]:
    """Those of all dimensions: of each, or of none where this rank is not in the mesh."""
    made = [_line_group(axis, ranks, names[number] if names else f"dim_{number}", engines[number])
            for number, axis in enumerate(layout)]
    return [group for group in made if group is not None]
