"""Figures of curves in panels under one legend. The only module that imports matplotlib, when it draws.

Nothing here touches pyplot or its global state: figures are made on the Agg and SVG canvases, and no display is needed.
"""

import hashlib
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Horizontal = Literal["n_passes", "seconds"]
Scale = Literal["linear", "log"]

AXIS_NAMES: dict[Horizontal, str] = {
    "n_passes": "effective passes over the data",
    "seconds": "seconds, measuring not counted",
}


class Style(NamedTuple):
    """How one method is drawn: a colour, a dash pattern and a marker, each of which distinguishes it."""

    color: str
    dashes: Any
    marker: str


# Colours that people with any kind of colour blindness distinguish (after Okabe and Ito), dark enough for a white page.
_BLUE, _RED, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#A5427F"
_SKY, _AMBER, _BLACK, _GREY = "#3E9BD0", "#C98A00", "#222222", "#777777"

#: A method looks the same in every figure.
STYLES: dict[str, Style] = {
    "a-ciag": Style(_RED, "-", "o"),
    "ciag": Style(_BLUE, "-", "s"),
    "iag": Style(_GREEN, (0, (5, 1.5)), "^"),
    "sag": Style(_PURPLE, (0, (5, 1.5)), "v"),
    "saga": Style(_AMBER, (0, (5, 1.5)), "D"),
    "fg": Style(_GREY, (0, (1.2, 1.2)), "x"),
    "afg": Style(_BLACK, (0, (1.2, 1.2)), "+"),
    "ig": Style(_SKY, (0, (4, 1.2, 1, 1.2)), "*"),
    "nim": Style(_BLACK, "-", "D"),
    "iqn": Style(_AMBER, "-", "<"),
    "newton": Style(_GREY, "-", "d"),
    "lazy-newton": Style(_PURPLE, "-", ">"),
    "svrg2": Style(_GREEN, "-", "X"),
    "svrg": Style(_SKY, (0, (5, 1.5)), "h"),
    "acc-svrg": Style(_SKY, (0, (3, 1, 1, 1)), "p"),
    "sarah": Style(_BLUE, (0, (5, 1.5)), "P"),
}

_SPARE = tuple(
    Style(color, dashes, marker)
    for dashes, marker in (("-", "P"), ((0, (3, 1, 1, 1)), "X"), ((0, (6, 2)), "h"))
    for color in (_BLUE, _RED, _GREEN, _PURPLE, _AMBER, _BLACK, _SKY, _GREY)
)

#: What is no method but a bound or a guide to the eye.
GUIDES = {"guide": Style("#555555", (0, (2, 2)), ""), "guide-2": Style("#555555", (0, (6, 2, 1, 2)), "")}

#: Fonts, axes and grid of every figure.
LOOKS = Path(__file__).with_name("figures.mplstyle")


class Line(NamedTuple):
    """A curve; points that are not finite, or not positive on a log scale, are left out."""

    label: str  # in the legend
    x: Vector
    y: Vector
    style: str | Style = ""  # a style or the name that has it, by default the label; "guide" or "guide-2" for a bound
    low: Vector | None = None  # with `high`, a band around the curve
    high: Vector | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_scale: Scale = "linear"
    y_scale: Scale = "log"
    x_limits: tuple[float | None, float | None] = (None, None)
    y_limits: tuple[float | None, float | None] = (None, None)

    def points(self, line: Line) -> Any:
        """Return which points of a line are shown."""
        kept = np.isfinite(line.x) & np.isfinite(line.y)
        kept &= (line.y > 0.0) | (self.y_scale == "linear")
        return kept & ((line.x > 0.0) | (self.x_scale == "linear"))


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """Return a style for each name: its own where it has one, else one that no other name of these has."""
    spare = iter(_SPARE * (1 + len(names) // len(_SPARE)))
    return {name: STYLES[name] if name in STYLES else next(spare) for name in names}


def panels_figure(panels: Sequence[Panel], *, n_columns: int = 2, height: float = 2.9, width: float = 3.9) -> "Figure":
    """Return a figure of at least one panel, row by row, with one legend to the right of the first row.

    A panel with its labels is so high and wide, in inches: all sizes are known beforehand, because matplotlib's own layout
    would take longer than all the drawing.
    """
    import matplotlib
    from matplotlib.figure import Figure

    n_columns = min(n_columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    names = dict.fromkeys(line.style or line.label for panel in panels for line in panel.lines)
    own = [name for name in names if isinstance(name, str) and name not in GUIDES]
    styles = {**styles_of(own), **GUIDES}
    with matplotlib.rc_context(fname=LOOKS):
        legend = 0.8 + 0.075 * max((len(label) for label in labels), default=9)
        total, tall = width * n_columns + legend, height * n_rows + 0.1
        figure = Figure(figsize=(total, tall))
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
        left, gap, below, above = 0.84, 0.9, 0.5, 0.3
        figure.subplots_adjust(left / total, below / tall, 1.0 - legend / total, 1.0 - above / tall)
        figure.subplots_adjust(wspace=gap / (width - gap), hspace=(below + above) / (height - below - above))
        handles: dict[str, Any] = {}
        for place, panel in zip(axes.flat, panels, strict=False):
            _draw(place, panel, styles, handles)
        for place in axes.flat[len(panels) :]:
            place.set_visible(False)
        shown = [label for label in labels if label in handles]
        place = {"loc": "upper left", "borderaxespad": 0.0, "frameon": False, "handlelength": 3.2}
        if shown:
            axes[0, -1].legend([handles[label] for label in shown], shown, bbox_to_anchor=(1.02, 1.0), **place)
    return figure


def _draw(axes: Any, panel: Panel, styles: dict[str, Style], handles: dict[str, Any]) -> None:
    axes.set_yscale(panel.y_scale)
    axes.set_xscale(panel.x_scale)
    for line in panel.lines:
        name = line.style or line.label
        style = name if isinstance(name, Style) else styles[name]
        kept = panel.points(line)
        if not kept.any():
            continue
        guide = name in GUIDES
        look = {"color": style.color, "linestyle": style.dashes, "marker": style.marker or None}
        weight = {"linewidth": 1.2 if guide else 1.5, "zorder": 1 if guide else 2}
        options = {"label": line.label, "markevery": max(1, int(kept.sum()) // 10), **look, **weight}
        handles.setdefault(line.label, axes.plot(line.x[kept], line.y[kept], **options)[0])
        if line.low is not None and line.high is not None:
            band = line.low[kept], line.high[kept]
            axes.fill_between(line.x[kept], *band, color=style.color, alpha=0.13, linewidth=0.0)
    axes.set_xlim(*panel.x_limits)
    axes.set_ylim(*panel.y_limits)
    axes.set_title(panel.title, loc="left", fontsize=10, color="#222222")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    _set_ticks(axes, panel)


def _set_ticks(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if panel.x_scale == "linear" and all(np.all(line.x % 1.0 == 0.0) for line in panel.lines):  # epochs, visits
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    for axis, scale in ((axes.yaxis, panel.y_scale), (axes.xaxis, panel.x_scale)):
        if scale == "log":
            low, high = axis.get_view_interval()
            axis.set_minor_locator(NullLocator())
            if high > 200.0 * max(low, 1e-300):
                axis.set_major_locator(LogLocator(base=10, numticks=8))
            else:
                axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
                axis.set_major_formatter(StrMethodFormatter("{x:g}"))


#: The name of a method, and the columns of its trace.
Curve = tuple[str, Mapping[str, Vector]]


def optimality_figure(
    curves: Sequence[Curve], against: Sequence[Horizontal] = ("n_passes",), *, tol: float | None = None, title: str = ""
) -> "Figure":
    """Return a figure of optimality (log scale) against passes, seconds, or both side by side.

    `tol` is drawn as a thin line where it is given, above 0, and not far below all curves.
    """
    panels = [_optimality_panel(curves, horizontal) for horizontal in against]
    reached = [columns["optimality"] for _, columns in curves]
    heights = [y for y in (values[np.isfinite(values) & (values > 0.0)] for values in reached) if y.size]
    level = None
    if heights:  # what was reached, and what was asked for unless it is far below; what diverges leaves the picture
        lowest, start = min(float(y.min()) for y in heights), max(float(y[0]) for y in heights)
        level = tol if tol and tol >= 1e-4 * lowest else None
        highest = min(max(float(y.max()) for y in heights), 1e3 * start)
        limits = (0.4 * min(lowest, level or lowest), 2.0 * highest)
        panels = [replace(panel, y_limits=limits) for panel in panels]
    panels[0] = replace(panels[0], y_label="optimality", title=title)
    figure = panels_figure(panels, n_columns=len(panels), height=4.0, width=5.1)
    if level is not None:
        for axes in figure.axes:
            axes.axhline(level, color="#666666", linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
        text, place = f" tol {level:.0e}", ("axes fraction", "data")
        figure.axes[-1].annotate(text, (1.0, level), xycoords=place, va="center", fontsize=8, color="#777777")
    return figure


def _optimality_panel(curves: Sequence[Curve], against: Horizontal) -> Panel:
    lines = [Line(name, columns[against], columns["optimality"]) for name, columns in curves]
    panel = Panel("", AXIS_NAMES[against], "", lines, x_limits=(0.0, None))
    shown = [x for x in (line.x[panel.points(line)] for line in lines) if x.size]
    ends = [float(x[-1]) for x in shown]
    if against == "seconds" and ends and max(ends) > 20.0 * max(min(ends), 1e-9):
        first = [float(x[1]) for x in shown if x.size > 1 and x[1] > 0.0]
        return replace(panel, x_scale="log", x_limits=(0.5 * min(first, default=1e-3), None))
    return panel


def to_png(figure: "Figure") -> bytes:
    """Return a figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150, metadata={"Software": None})
    return file.getvalue()


def to_svg(figure: "Figure", label: str) -> str:
    """Return a figure as an <svg> element that stands inside an HTML page and refers to nothing outside.

    The label is what a screen reader says; it also keeps the names inside of two figures of a page apart.
    """
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(fname=LOOKS):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    own = hashlib.blake2b(label.encode(), digest_size=4).hexdigest()
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1f{own}-", text)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text))
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1).strip()
