"""Plots of dots on a logarithmic axis, as SVG: a row for each operation, a panel for each setting, a colour and a shape
for each library. No library draws them: the files stay small, and a new measurement gives a diff that can be read."""

import math
from html import escape
from typing import NamedTuple

WIDTH = 720
LEFT = 124  # the names of the rows
GAP = 16
TOP = 58  # title and legend
HEAD = 24  # the name of a panel
FOOT = 42  # ticks and the axis' name
LANE = 10  # of one library in a row
PAD = 5
LINE = 18  # of the caption
MARGIN = 9  # between a panel's edge and a dot on it
PANELS = 3  # side by side
CAPTION = 92  # characters a line

# The colours and the look are those of apps/bench/plot.cpp. A picture has its own background, light or dark.
STYLE = """
text { font: 13px sans-serif; fill: #57606a; }
.title { font-size: 16px; font-weight: 600; fill: #1f2328; }
.name { font-size: 14.5px; fill: #1f2328; }
.paper { fill: #ffffff; }
.slow { fill: #d1242f; fill-opacity: .09; }
.grid { stroke: #d0d7de; fill: none; }
.one { stroke: #1f2328; stroke-width: 1.5; }
.dots { fill: none; stroke-opacity: .85; }
.c0 { stroke: #009e73; } .c1 { stroke: #d55e00; } .c2 { stroke: #0072b2; } .c3 { stroke: #1f2328; }
@media (prefers-color-scheme: dark) {
text { fill: #9da7b1; } .title, .name { fill: #e6edf3; } .paper { fill: #0d1117; } .slow { fill: #ff7b72; fill-opacity: .16; }
.grid { stroke: #30363d; } .one { stroke: #e6edf3; }
.c0 { stroke: #3fd1a4; } .c1 { stroke: #ff8f4a; } .c2 { stroke: #58a6ff; } .c3 { stroke: #e6edf3; }
}
"""


class Dot(NamedTuple):
    panel: str
    row: str
    series: str
    value: float
    size: int = 1  # 0, 1, 2: small, middle, large


class Plot(NamedTuple):
    """All that a picture shows. Rows, panels and series without a dot are left out."""
    title: str
    axis: str
    caption: str
    dots: list
    series: list  # (name, colour) in the order of their lanes
    rows: list
    panels: list
    ratio: bool = False  # a line at 1; what lies beyond it is a loss
    least: float = 0  # smaller values stand at the left edge
    sizes: str = ""  # what a larger dot means


def short(value):
    """A tick's text."""
    return f"{value:g}" if value < 1 else f"{value:,.0f}"


def ticks(low, high, ratio):
    if ratio:
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        every = 1 if len(powers) <= 5 else 2 if len(powers) <= 9 else 3  # so that texts have room in a third of the width
        return [(2.0 ** power, f"1/{2 ** -power}" if power < 0 else str(2 ** power)) for power in powers if power % every == 0]
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    every = 1 if len(powers) <= 5 else 2
    return [(10.0 ** power, short(10.0 ** power)) for power in powers if power % every == 0]


def bounds(plot):
    """The ends of the axis: powers of two of a ratio; otherwise those of the dots, with a power of ten between them."""
    values = [max(dot.value, plot.least) for dot in plot.dots]
    low, high = min(values), max(values)
    if plot.ratio:
        return 2.0 ** math.floor(math.log2(min(low, 0.5))), 2.0 ** math.ceil(math.log2(max(high, 2)))
    ten = 10.0 ** round(math.log10(math.sqrt(low * high)))
    return min(low, ten / 2), max(high, ten * 2)


def marks(colour, size, places):
    """One path for the dots of a library in a row. A line of no length with a cap is a dot: round, square, or a dash."""
    width = (4.4, 5.8, 7.4)[size]
    if colour == 2:
        steps = "".join(f"M{x:.1f} {y - width / 2:.1f}v{width:.1f}" for x, y in places)
        return f"<path class='dots c{colour}' stroke-width='{width / 2:.1f}' d='{steps}'/>"
    cap = "square" if colour == 1 else "round"
    width += (0, -0.8, 0, 1)[colour]
    steps = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
    return f"<path class='dots c{colour}' stroke-linecap='{cap}' stroke-width='{width:.1f}' d='{steps}'/>"


def wrapped(text, most):
    """Its lines."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def legend(series, sizes):
    x = LEFT
    for name, colour in series:
        yield marks(colour, 2, [(x + 4, 40)])
        yield f"<text x='{x + 14}' y='44.5'>{escape(name)}</text>"
        x += 30 + 7.4 * len(name)
    if sizes:
        yield f"<text x='{WIDTH - GAP}' y='44.5' text-anchor='end'>{escape(sizes)}</text>"


class Panel:
    """One panel: where its values and lanes lie."""

    def __init__(self, plot, name, rows, series, left, top, width):
        self.plot, self.name, self.rows, self.series = plot, name, rows, series
        self.left, self.top, self.width = left, top + HEAD, width
        self.row = LANE * len(series) + PAD
        self.low, self.high = bounds(plot)

    def x(self, value):
        part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.left + MARGIN + part * (self.width - 2 * MARGIN)

    def y(self, row, lane):
        return self.top + self.rows.index(row) * self.row + PAD / 2 + LANE * (lane + 0.5)

    def svg(self):
        bottom = self.top + self.row * len(self.rows)
        yield f"<text class='name' x='{self.left}' y='{self.top - 7}'>{escape(self.name)}</text>"
        if self.plot.ratio:
            yield (f"<rect class='slow' x='{self.x(1):.1f}' y='{self.top}' width='{self.left + self.width - self.x(1):.1f}' "
                   f"height='{bottom - self.top}'/>")
        lines = "".join(f"M{self.left:.1f} {self.top + self.row * count}h{self.width:.1f}" for count in range(len(self.rows) + 1))
        for value, text in ticks(self.low, self.high, self.plot.ratio):
            lines += f"M{self.x(value):.1f} {self.top}V{bottom + 4}"
            edge = "&lt; " if self.plot.least and value <= self.plot.least else ""
            yield f"<text x='{self.x(value):.1f}' y='{bottom + 18}' text-anchor='middle'>{edge}{text}</text>"
        yield f"<path class='grid' d='{lines}'/>"
        if self.plot.ratio:
            yield f"<path class='one' d='M{self.x(1):.1f} {self.top}V{bottom}'/>"
        for row in self.rows:
            for lane, (name, colour) in enumerate(self.series):
                for size in (0, 1, 2):
                    places = [(self.x(dot.value), self.y(row, lane)) for dot in self.plot.dots
                              if (dot.panel, dot.row, dot.series, dot.size) == (self.name, row, name, size)]
                    if places:
                        yield marks(colour, size, sorted(places))


def svg(plot):
    """The picture."""
    rows = [row for row in plot.rows if any(dot.row == row for dot in plot.dots)]
    panels = [panel for panel in plot.panels if any(dot.panel == panel for dot in plot.dots)]
    series = [one for one in plot.series if any(dot.series == one[0] for dot in plot.dots)]
    across = min(len(panels), PANELS)
    width = (WIDTH - LEFT - GAP * across) / across
    tall = HEAD + (LANE * len(series) + PAD) * len(rows) + FOOT
    levels = math.ceil(len(panels) / across)
    caption = wrapped(plot.caption, CAPTION)
    height = TOP + levels * tall + LINE * len(caption) + 8
    body = [f"<text class='title' x='{GAP}' y='24'>{escape(plot.title)}</text>", *legend(series, plot.sizes)]
    for count, name in enumerate(panels):
        top = TOP + count // across * tall
        panel = Panel(plot, name, rows, series, LEFT + count % across * (width + GAP), top, width)
        if count % across == 0:
            body += [f"<text class='name' x='{LEFT - 8}' y='{panel.top + (place + 0.5) * panel.row + 5:.1f}' "
                     f"text-anchor='end'>{escape(row)}</text>" for place, row in enumerate(rows)]
            body.append(f"<text x='{(LEFT + WIDTH - GAP) / 2}' y='{top + tall - 6}' text-anchor='middle'>{escape(plot.axis)}</text>")
        body += panel.svg()
    body += [f"<text x='{GAP}' y='{TOP + levels * tall + LINE * (count + 1) - 4}'>{escape(line)}</text>"
             for count, line in enumerate(caption)]
    return "\n".join([f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' "
                      f"aria-label='{escape(plot.title)}'>", f"<style>{STYLE}</style>",
                      f"<rect class='paper' width='{WIDTH}' height='{height}' rx='6'/>", *body, "</svg>", ""])
