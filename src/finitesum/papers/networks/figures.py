"""Training loss and test accuracy by epoch, as figures 2 and 3 of the paper have them, and beside them the control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.papers.networks.grid import Row, best_alphas
from finitesum.papers.networks.methods import DECAYED, METHODS, OURS, OURS_BY_STEP, RIVALS
from finitesum.papers.networks.verdict import Results
from finitesum.reporting.plots import LOOKS, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SOLID, _DASHED, _DOTTED = "-", (0, (5, 1.5)), (0, (1.2, 1.2))

#: A rival looks the same with and without the decay.
_STYLES = {
    OURS: Style("#D55E00", _SOLID, "o"),
    OURS_BY_STEP: Style("#C98A00", _DASHED, "o"),
    "hb": Style("#777777", _DOTTED, "x"),
    "adam": Style("#0072B2", _SOLID, "s"),
    "sgd": Style("#222222", _DOTTED, "+"),
    "sgd-momentum": Style("#009E73", _DASHED, "^"),
    "adagrad": Style("#3E9BD0", _DASHED, "v"),
    "rmsprop": Style("#A5427F", _SOLID, "D"),
}

_TITLES = (
    "constant alpha, as in the paper",
    "control: alpha / √epoch for everybody",
)


class Band(NamedTuple):
    """One method's figure over the epochs: mean, least and largest over the repeats."""

    epochs: Any
    mean: Any
    low: Any
    high: Any


def bands(rows: Sequence[Row], method: str, column: str) -> Band | None:
    """Return a method's figures at the alphas with the best final test accuracy; None where it was not run.

    Parameters
    ----------
    rows
        Of one grid.
    method
        Its name.
    column
        "train_loss", "test_loss" or "test_accuracy".
    """
    best = best_alphas(rows)
    chosen = [row for row in rows if best.get((row.method, row.seed)) == row.alpha and row.method == method]
    epochs = sorted({row.epoch for row in chosen})
    if not epochs:
        return None
    values = [[getattr(row, column) for row in chosen if row.epoch == epoch] for epoch in epochs]
    summaries = [[f(entry) for entry in values] for f in (np.mean, np.min, np.max)]
    return Band(np.array(epochs), *(np.array(summary) for summary in summaries))


def figure_of(results: Results, title: str = "") -> Figure:
    """Return the figure of a grid: training loss and test accuracy, above as in the paper, below for the control.

    Lines are means over the repeats, shades go from the least to the largest.
    """
    import matplotlib
    from matplotlib.figure import Figure

    above = [name for name in METHODS if not name.endswith(DECAYED)]
    below = [OURS, *(rival + DECAYED for rival in RIVALS)]
    run = {row.method for row in results.rows}
    rows = [names for names in (above, below) if len(run.intersection(names)) > (names is below)]
    with matplotlib.rc_context(LOOKS):
        figure = Figure(figsize=(10.6, 3.7 * len(rows)), layout="constrained")
        panels = figure.subplots(len(rows), 2, squeeze=False, sharex=True)
        for pair, names, subtitle in zip(panels, rows, _TITLES, strict=False):
            _draw_pair(pair, results, names)
            pair[0].set_title(subtitle, loc="left", fontsize=9.5, color="#444444")
            pair[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handlelength=3.2)
        for axes in panels[-1]:
            axes.set_xlabel("epoch")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color="#222222")
    return figure


def _draw_pair(panels: Any, results: Results, names: Sequence[str]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    for axes, column in zip(panels, ("train_loss", "test_accuracy"), strict=True):
        for name in names:
            band = bands(results.rows, name, column)
            if band is not None:
                _draw(axes, band, name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_yscale("log")
    panels[0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panels[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels[0].yaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("training loss")
    panels[1].set_ylabel("test accuracy")
    _leave_out_the_start(panels[1], [bands(results.rows, name, "test_accuracy") for name in names])


def _draw(axes: Any, band: Band, name: str) -> None:
    style = _STYLES[name.removesuffix(DECAYED)]
    look = {"color": style.color, "zorder": 3 if name == OURS else 2}
    axes.plot(
        band.epochs,
        band.mean,
        label=METHODS[name].label,
        linestyle=style.dashes,
        linewidth=2.2 if name == OURS else 1.4,
        marker=style.marker,
        markersize=4.5,
        markerfacecolor="white",
        markeredgewidth=1.1,
        markevery=max(1, len(band.epochs) // 10),
        **look,
    )
    if np.any(band.high > band.low):
        axes.fill_between(band.epochs, band.low, band.high, alpha=0.12, linewidth=0.0, **look)


def _leave_out_the_start(axes: Any, all_bands: Sequence[Band | None]) -> None:
    """Begin the axis of accuracies where the ends can be told apart: the first epochs lie far below."""
    ends = [float(band.mean[-1]) for band in all_bands if band is not None]
    top = max(ends, default=1.0)
    good = [end for end in ends if end > 0.5 * top] or [0.0]
    room = max(2.0 * (top - min(good)), 0.05)
    axes.set_ylim(max(0.0, top - 1.5 * room), min(1.0, top + 0.25 * room) + 0.005)
