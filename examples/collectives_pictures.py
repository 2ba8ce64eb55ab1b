"""The pictures of collectives.ipynb: who sends what to whom. Plain SVG, no library needed."""

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

# One colour for each rank, that of what it gives; a mix of several is grey.
COLOURS = ("#7db8e8", "#f4a582", "#90cf8e", "#d6a5e3")
MIXED, MIXED_HEAD = "#d9d9d9", "#8c8c8c"
CELL, HEIGHT, GAP, MARGIN = 34, 26, 26, 14
FLIGHT = 78  # of the arrows, from above to below
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'

Place = tuple[int, int]  # rank, index


class Picture:
    """Shows itself in a notebook."""

    def __init__(self, title: str, svg: str) -> None:
        self._title = title
        self._svg = svg

    def __repr__(self) -> str:
        return f"<picture: {self._title}>"

    def _repr_svg_(self) -> str:
        return self._svg


def picture(title: str, given: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]],
            arrows: Sequence[tuple[Place, Place]]) -> Picture:
    """The input of each rank stands above, its output below; arrows go from a (rank, index) above to a
    (rank, index) below. A cell below has the colour of the rank that it comes from; a dashed one is as it was."""
    widths = [CELL * max(len(above), len(below), 1) for above, below in zip(given, got, strict=True)]
    lefts = [MARGIN + sum(widths[:rank]) + GAP * rank for rank in range(len(widths))]
    top = 58
    bottom = top + HEIGHT + FLIGHT
    width = lefts[-1] + widths[-1] + MARGIN
    width = max(width, MARGIN * 2 + 8 * len(title))
    height = bottom + HEIGHT + 14
    parts = [_text(MARGIN, 20, title, 14, bold=True)]
    starts, ends, heads = {}, {}, {}
    for rank, left in enumerate(lefts):
        middle = left + widths[rank] / 2
        parts.append(_text(middle, top - 9, f"rank {rank}", 12, middle=True))
        for index, value in enumerate(given[rank]):
            x = middle - CELL * len(given[rank]) / 2 + CELL * index
            parts.append(_cell(x, top, value, COLOURS[rank]))
            starts[rank, index] = (x + CELL / 2, top + HEIGHT)
        for index, value in enumerate(got[rank]):
            x = middle - CELL * len(got[rank]) / 2 + CELL * index
            sources = {start[0] for start, end in arrows if end == (rank, index)}
            colour = MIXED if len(sources) > 1 else COLOURS[min(sources)] if sources else None
            parts.append(_cell(x, bottom, value, colour))
            heads[rank, index] = MIXED_HEAD if colour == MIXED else colour
            ends[rank, index] = (x + CELL / 2, bottom)
    parts += [_arrow(starts[start], ends[end], COLOURS[start[0]], heads[end]) for start, end in arrows]
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
           f'viewBox="0 0 {width:g} {height:g}"><rect width="100%" height="100%" fill="#ffffff"/>'
           f'{"".join(parts)}</svg>')
    return Picture(title, svg)


def _text(x: float, y: float, text: str, size: int, bold: bool = False, middle: bool = False) -> str:
    style = (' font-weight="bold"' if bold else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {FONT} fill="#222222"{style}>{escape(text)}</text>'


def _cell(x: float, y: float, value: Any, colour: str | None) -> str:
    text = str(value)
    size = 12 if len(text) <= 4 else 9
    look = 'fill="#ffffff" stroke="#999999" stroke-dasharray="3 2"' if colour is None else (
        f'fill="{colour}" stroke="#555555"')
    return (f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{HEIGHT}" {look}/>'
            + _text(x + CELL / 2, y + HEIGHT / 2 + size * 0.36, text, size, middle=True))


def _arrow(start: tuple[float, float], end: tuple[float, float], colour: str, head_colour: str | None) -> str:
    (x0, y0), (x1, y1) = start, end
    bend = (y1 - y0) * 0.45
    tip = y1 - 1
    line = f"M{x0:g},{y0:g} C{x0:g},{y0 + bend:g} {x1:g},{tip - 7 - bend:g} {x1:g},{tip - 6:g}"
    head = f"M{x1 - 3.5:g},{tip - 7:g} L{x1 + 3.5:g},{tip - 7:g} L{x1:g},{tip:g} Z"
    return (f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
            f'<path d="{head}" fill="{head_colour}"/>')
