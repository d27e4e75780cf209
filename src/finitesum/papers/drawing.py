"""Figures of several panels under one legend, in the looks of all other figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.reporting.plots import LOOKS, Style, draw_curve, styles_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["linear", "log"]

#: What is no method but a bound or a guide to the eye.
GUIDES = {
    "guide": Style("#555555", (0, (2, 2)), ""),
    "guide-2": Style("#555555", (0, (6, 2, 1, 2)), ""),
}


class Line(NamedTuple):
    """A curve; points that are not finite, or not positive on a log scale, are left out.

    Parameters
    ----------
    label
        Its name in the legend.
    x, y
        Its points.
    style
        A style, or the name whose style it has; its label without it. "guide" or "guide-2" for a bound.
    low, high
        A band around it.
    """

    label: str
    x: Vector
    y: Vector
    style: str | Style = ""
    low: Vector | None = None
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


def panels_figure(panels: Sequence[Panel], *, n_columns: int = 2, height: float = 2.9, width: float = 3.9) -> Figure:
    """Return a figure of panels, row by row, with one legend to the right of the first row.

    Parameters
    ----------
    panels
        At least one.
    n_columns
        Panels in a row.
    height, width
        Of a panel, in inches.
    """
    import matplotlib
    from matplotlib.figure import Figure

    n_columns = min(n_columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    names = dict.fromkeys(_style_name(line) for panel in panels for line in panel.lines)
    styles = {**styles_of([name for name in names if name and name not in GUIDES]), **GUIDES}
    with matplotlib.rc_context(LOOKS):
        legend = 0.8 + 0.075 * max(len(label) for label in labels)
        figure = Figure(figsize=(width * n_columns + legend, height * n_rows + 0.1), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
        handles: dict[str, Any] = {}
        for place, panel in zip(axes.flat, panels, strict=False):
            _draw(place, panel, styles, handles)
        for place in axes.flat[len(panels) :]:
            place.set_visible(False)
        shown = [label for label in labels if label in handles]
        axes[0, -1].legend(
            [handles[label] for label in shown],
            shown,
            loc="upper left",
            bbox_to_anchor=(1.02, 1.0),
            borderaxespad=0.0,
            frameon=False,
            handlelength=3.2,
        )
    return figure


def _style_name(line: Line) -> str:
    """Return the name whose style a line has; none where it brings its own."""
    return "" if isinstance(line.style, Style) else line.style or line.label


def _draw(axes: Any, panel: Panel, styles: dict[str, Style], handles: dict[str, Any]) -> None:
    axes.set_yscale(panel.y_scale)
    axes.set_xscale(panel.x_scale)
    for line in panel.lines:
        style = line.style if isinstance(line.style, Style) else styles[_style_name(line)]
        kept = np.isfinite(line.x) & np.isfinite(line.y)
        kept &= (line.y > 0.0) | (panel.y_scale == "linear")
        kept &= (line.x > 0.0) | (panel.x_scale == "linear")
        if not kept.any():
            continue
        guide = _style_name(line) in GUIDES
        x, y, marked = line.x[kept], line.y[kept], max(1, int(kept.sum()) // 10)
        look = {"linewidth": 1.2 if guide else 1.5, "zorder": 1 if guide else 2, "markevery": marked}
        handle = draw_curve(axes, x, y, line.label, style, **look)
        handles.setdefault(line.label, handle)
        if line.low is not None and line.high is not None:
            low, high = line.low[kept], line.high[kept]
            axes.fill_between(line.x[kept], low, high, color=style.color, alpha=0.13, linewidth=0.0)
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
