"""Figures: optimality against passes and against seconds. The only module that imports matplotlib, when it draws.

Nothing here touches pyplot or its global state: figures are made on the Agg and SVG canvases, and no display is needed.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Horizontal = Literal["n_passes", "seconds"]

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

#: Fonts, axes and grid of every figure.
LOOKS: Any = {
    "font.size": 9.5,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "svg.fonttype": "path",
    "svg.hashsalt": "finitesum",
    "path.simplify": True,
}


class Curve(NamedTuple):
    """One method's optimality over its run."""

    name: str
    n_passes: Vector
    seconds: Vector
    optimality: Vector


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """Return a style for each name: its own where it has one, else one that no other name of these has.

    Examples
    --------
    >>> styles_of(["saga", "my-method"])["saga"] == STYLES["saga"]
    True
    """
    spare = iter(_SPARE * (1 + len(names) // len(_SPARE)))
    return {name: STYLES[name] if name in STYLES else next(spare) for name in names}


def optimality_figure(
    curves: Sequence[Curve], against: Sequence[Horizontal] = ("n_passes",), *, tol: float | None = None, title: str = ""
) -> Figure:
    """Return a figure of optimality (log scale) against passes, seconds, or both side by side.

    Parameters
    ----------
    curves
        In the order of the legend; points that are not finite or not positive are left out.
    against
        "n_passes" or "seconds": a panel each.
    tol
        Drawn as a thin line where it is given, above 0, and not far below all curves.
    title
        Stands above the figure.
    """
    import matplotlib

    with matplotlib.rc_context(LOOKS):
        panels, figure = _panels(len(against), max((len(curve.name) for curve in curves), default=0), bool(title))
        styles = styles_of([curve.name for curve in curves])
        for axes, horizontal in zip(panels, against, strict=True):
            for curve in curves:
                x, y = _points(curve, horizontal)
                if x.size:
                    draw_curve(axes, x, y, curve.name, styles[curve.name])
            _set_axes(axes, curves, horizontal)
        _set_heights(panels, curves, tol or None)
        panels[0].set_ylabel("optimality")
        if title:
            panels[0].set_title(title, loc="left", fontsize=10.5, color="#222222")
        if panels[0].get_legend_handles_labels()[0]:
            panels[-1].legend(
                loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, frameon=False, handlelength=3.2
            )
    return figure


def _panels(n_panels: int, n_letters: int, has_title: bool) -> tuple[Any, Figure]:
    """Return axes side by side, with room for a legend to their right, and their figure.

    The sizes are in inches and known beforehand: matplotlib's own layout would take longer than all the drawing.
    """
    from matplotlib.figure import Figure

    width, height, left, gap, below = 4.4, 3.25, 0.72, 0.25, 0.5
    legend = 0.75 + 0.075 * max(n_letters, 9)
    above = 0.32 if has_title else 0.12
    total, tall = left + n_panels * width + (n_panels - 1) * gap + legend, below + height + above
    figure = Figure(figsize=(total, tall))
    panels = figure.subplots(1, n_panels, sharey=True, squeeze=False)[0]
    right, top = 1.0 - legend / total, 1.0 - above / tall
    figure.subplots_adjust(left=left / total, right=right, bottom=below / tall, top=top, wspace=gap / width)
    return panels, figure


def _points(curve: Curve, against: Horizontal) -> tuple[Vector, Vector]:
    horizontal = curve.n_passes if against == "n_passes" else curve.seconds
    shown = np.isfinite(horizontal) & np.isfinite(curve.optimality) & (curve.optimality > 0.0)
    return horizontal[shown], curve.optimality[shown]


def draw_curve(axes: Any, x: Vector, y: Vector, label: str, style: Style, **options: Any) -> Any:
    """Return a curve, drawn with some ten markers in the style of a method; options are those of matplotlib's lines."""
    look = {
        "label": label,
        "color": style.color,
        "linestyle": style.dashes,
        "linewidth": 1.5,
        "marker": style.marker or None,
        "markersize": 4.5,
        "markerfacecolor": "white",
        "markeredgewidth": 1.1,
        "markevery": max(1, x.size // 12),
    }
    return axes.plot(x, y, **{**look, **options})[0]


def _set_axes(axes: Any, curves: Sequence[Curve], against: Horizontal) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(AXIS_NAMES[against])
    ends = [x[-1] for x, _ in (_points(curve, against) for curve in curves) if x.size]
    if against == "seconds" and ends and max(ends) > 20.0 * max(min(ends), 1e-9):
        axes.set_xscale("log")
        first = [x[1] for x, _ in (_points(curve, against) for curve in curves) if x.size > 1 and x[1] > 0.0]
        axes.set_xlim(left=0.5 * min(first, default=1e-3))
    elif ends:
        axes.set_xlim(left=0.0)


def _set_heights(panels: Sequence[Any], curves: Sequence[Curve], tol: float | None) -> None:
    """Show what was reached, and what was asked for unless it is far below; a method that diverges leaves the picture."""
    heights = [y for _, y in (_points(curve, "n_passes") for curve in curves) if y.size]
    if not heights:
        return
    lowest, start = min(float(y.min()) for y in heights), max(float(y[0]) for y in heights)
    if tol is not None and tol >= 1e-4 * lowest:
        lowest = min(lowest, tol)
        _mark_tol(panels, tol)
    highest = min(max(float(y.max()) for y in heights), 1e3 * start)
    panels[0].set_ylim(0.4 * lowest, 2.0 * highest)


def _mark_tol(panels: Sequence[Any], tol: float) -> None:
    for axes in panels:
        axes.axhline(tol, color="#666666", linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
    panels[-1].annotate(
        f" tol {tol:.0e}", (1.0, tol), xycoords=("axes fraction", "data"), va="center", fontsize=8, color="#777777"
    )


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    return file.getvalue()


def to_svg(figure: Figure, label: str) -> str:
    """Return a figure as an <svg> element that stands inside an HTML page and refers to nothing outside.

    Parameters
    ----------
    figure
        A figure of `optimality_figure`.
    label
        What a screen reader says; it also keeps the names inside of two figures of a page apart.
    """
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(LOOKS):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    own = hashlib.blake2b(label.encode(), digest_size=4).hexdigest()
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1f{own}-", text)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text))
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1).strip()
