"""The course of runs."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.plots.base import DrawsOnAxes
from finitesum.reporting.plots import AXIS_NAMES, styles_of

Across = Literal["n_passes", "seconds"]
Upward = Literal["optimality", "gap", "objective"]

UPWARD_NAMES: dict[str, str] = {
    "optimality": "optimality",
    "gap": "objective above the best that is known",
    "objective": "objective",
}


class TraceDisplay(DrawsOnAxes):
    """Optimality or objective of one or more runs, against passes over the data or seconds.

    Parameters
    ----------
    traces : dict of str to Trace
        By the name in the legend.
    best : float, optional
        The objective that "gap" is the distance from; the least of all traces when left out.

    Attributes
    ----------
    ax_, figure_
        matplotlib's axes and figure, after `plot`.
    lines_ : dict of str to Line2D

    Examples
    --------
    >>> from finitesum import LogisticRegression
    >>> model = LogisticRegression(measure_every=1).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> display = TraceDisplay.from_estimator(model)  # doctest: +SKIP
    """

    def __init__(self, traces: Mapping[str, Any], *, best: float | None = None) -> None:
        if not traces:
            raise ValueError("traces must hold one trace or more, by name.")
        self.traces = dict(traces)
        self.best = best

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, name: str | None = None, **how: Any) -> "TraceDisplay":
        """Draw the run, or the runs of the classes, of a fitted estimator.

        Fit it with ``measure_every=1`` for a point at each pass.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        label = name or estimator.solver_
        if isinstance(estimator.trace_, list):
            classes = getattr(estimator, "classes_", range(len(estimator.trace_)))
            traces = {f"{label}, {k}": trace for k, trace in zip(classes, estimator.trace_, strict=True)}
        else:
            traces = {label: estimator.trace_}
        return cls(traces).plot(ax=ax, **how)

    @classmethod
    def from_results(cls, results: Any, *, ax: Any = None, best: float | None = None, **how: Any) -> "TraceDisplay":
        """Draw results of `finitesum.minimize`: one, several, or a dict of them by name."""
        if isinstance(results, Mapping) and not hasattr(results, "trace"):
            named = dict(results)
        else:
            several = results if isinstance(results, list | tuple) else [results]
            named = {}
            for one in several:
                name = one.method.name
                named[name if name not in named else f"{name} ({len(named) + 1})"] = one
        return cls({name: one.trace for name, one in named.items()}, best=best).plot(ax=ax, **how)

    def plot(self, ax: Any = None, *, x: Across = "n_passes", y: Upward = "optimality") -> "TraceDisplay":
        """Draw the traces.

        Parameters
        ----------
        ax : matplotlib axes, optional
            New ones when left out.
        x : {"n_passes", "seconds"}
        y : {"optimality", "gap", "objective"}
            The first two on a logarithmic scale; points that are not positive are left out there.
        """
        if x not in AXIS_NAMES or y not in UPWARD_NAMES:
            raise ValueError(
                f'x must be "n_passes" or "seconds", y "optimality", "gap" or "objective", got {x!r} and {y!r}.'
            )
        ax, styles = self._axes(ax), styles_of(list(self.traces))
        best, self.lines_ = self._best() if y == "gap" else 0.0, {}
        for name, trace in self.traces.items():
            across = np.asarray(trace.column(x), dtype=np.float64)
            upward = np.asarray(trace.column("optimality" if y == "optimality" else "objective"), dtype=np.float64) - best
            kept = np.isfinite(upward) & ((upward > 0.0) | (y == "objective"))
            style = styles[name]
            look = {"color": style.color, "linestyle": style.dashes, "marker": style.marker or None, "markersize": 4}
            every = max(1, int(kept.sum()) // 12)
            (self.lines_[name],) = ax.plot(across[kept], upward[kept], label=name, markevery=every, **look)
        if y != "objective":
            ax.set_yscale("log")
        ax.set_xlabel(AXIS_NAMES[x])
        ax.set_ylabel(UPWARD_NAMES[y])
        ax.grid(color="0.9")
        ax.legend()
        return self

    def _best(self) -> float:
        if self.best is not None:
            return self.best
        columns = [np.asarray(trace.column("objective"), dtype=np.float64) for trace in self.traces.values()]
        return min(_least(column) for column in columns)


def _least(column: Vector) -> float:
    finite = column[np.isfinite(column)]
    return float(finite.min()) if finite.size else np.inf
