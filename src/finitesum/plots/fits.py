"""How a model fits its rows: residuals, leverages, calibration of means."""

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.estimators.residuals import Residuals
from finitesum.plots.base import DrawsOnAxes

Kind = Literal["deviance", "pearson", "standardised", "response"]

#: Bins of the running mean, and the rows that a bin has at least.
MOST_BINS, LEAST_ROWS = 20, 5

_BLUE, _RED = "#0072B2", "#D55E00"


def quantile_bins(values: Vector, weights: Vector, n_bins: int) -> list[Any]:
    """Return the rows of each of at most `n_bins` bins of equal weight, by rising values; equal values share a bin."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order]) / weights.sum()
    numbers = np.minimum((n_bins * (ends - 0.5 * weights[order] / weights.sum())).astype(int), n_bins - 1)
    same = np.flatnonzero(np.diff(values[order]) == 0.0)
    for i in same:
        numbers[i + 1] = numbers[i]
    return [order[numbers == k] for k in np.unique(numbers)]


class OfResiduals(DrawsOnAxes, ABC):
    """A display of what `model.residuals(X, y)` returns."""

    def __init__(self, residuals: Residuals) -> None:
        self.residuals = residuals

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw them."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, sample_weight: Any = None, offset: Any = None, ax: Any = None, **how: Any
    ) -> Self:
        """Draw a fitted model of a family, on the data of its fit; what else is given is for `plot`."""
        return cls(estimator.residuals(X, y, sample_weight, offset)).plot(ax=ax, **how)


class ResidualDisplay(OfResiduals):
    """Residuals against fitted means, with their mean in bins of equal weight: it should stay at 0.

    Parameters
    ----------
    residuals : Residuals
        What `model.residuals(X, y)` returns.

    Attributes
    ----------
    ax_, figure_
    """

    def plot(self, ax: Any = None, *, kind: Kind = "deviance") -> Self:
        """Draw the residuals of a kind: "deviance", "pearson", "standardised" or "response"."""
        if kind not in ("deviance", "pearson", "standardised", "response"):
            raise ValueError(f'kind must be "deviance", "pearson", "standardised" or "response", got {kind!r}.')
        ax, fitted, values = self._axes(ax), self.residuals.fitted, getattr(self.residuals, kind)
        ax.plot(fitted, values, ".", color="0.55", markersize=3, alpha=0.6, zorder=1, rasterized=fitted.size > 5000)
        bins = quantile_bins(fitted, np.ones(fitted.size), max(1, min(MOST_BINS, fitted.size // LEAST_ROWS)))
        centres = [float(fitted[rows].mean()) for rows in bins]
        means = [float(values[rows].mean()) for rows in bins]
        ax.plot(centres, means, "o-", color=_RED, markersize=4, label="mean in bins", zorder=3)
        ax.axhline(0.0, color="0.3", linewidth=0.9, zorder=2)
        if (fitted > 0.0).all() and fitted.max() > 30.0 * fitted.min():
            ax.set_xscale("log")
        ax.set_xlabel("fitted mean")
        ax.set_ylabel(f"{kind} residual")
        ax.legend()
        return self


class LeverageDisplay(OfResiduals):
    """Standardised residuals against leverages, with lines of equal Cook's distance; the rows that move most are numbered.

    Parameters
    ----------
    residuals : Residuals
        What `model.residuals(X, y)` returns.

    Attributes
    ----------
    ax_, figure_
    """

    def plot(self, ax: Any = None, *, n_names: int = 5) -> Self:
        """Draw a point for each row; the `n_names` with the largest Cook's distances are numbered."""
        ax, known = self._axes(ax), self.residuals
        many = known.leverage.size > 5000
        ax.plot(known.leverage, known.standardised, ".", color="0.45", markersize=4, alpha=0.7, rasterized=many)
        for i in np.argsort(-known.cooks)[:n_names]:
            place = (known.leverage[i], known.standardised[i])
            ax.annotate(str(i), place, xytext=(4, 3), textcoords="offset points", fontsize="small", color=_RED)
        ax.axhline(0.0, color="0.6", linewidth=0.8)
        limits, h = ax.get_ylim(), np.linspace(1e-4, min(float(known.leverage.max()) * 1.05, 0.9999), 200)
        for distance in (0.5, 1.0):
            reach = np.sqrt(distance * known.rank * (1.0 - h) / h)
            for sign in (-1.0, 1.0):
                label = f"Cook's distance {distance:g}" if sign > 0 else None
                ax.plot(h, sign * reach, color=_RED, linewidth=0.9, linestyle="--" if distance < 1.0 else "-", label=label)
        ax.set_ylim(limits)
        ax.set_xlim(0.0, None)
        ax.set_xlabel("leverage")
        ax.set_ylabel("standardised Pearson residual")
        ax.legend(loc="best")
        return self


class MeanCalibrationDisplay(DrawsOnAxes):
    """Observed against predicted means in bins of equal weight, with intervals of two standard errors, and the diagonal.

    What `sklearn.calibration.CalibrationDisplay` is for probabilities, for means of any size: claims, counts, amounts.

    Parameters
    ----------
    observed, predicted, errors : ndarray, shape (bins,)
        Weighted means, and the standard errors of the observed ones.

    Attributes
    ----------
    ax_, figure_
    """

    def __init__(self, observed: Vector, predicted: Vector, errors: Vector) -> None:
        self.observed, self.predicted, self.errors = observed, predicted, errors

    @classmethod
    def from_predictions(
        cls, y: Any, predicted: Any, *, sample_weight: Any = None, n_bins: int = 10, ax: Any = None
    ) -> "MeanCalibrationDisplay":
        """Draw targets y against predictions, both of shape (n,)."""
        y, predicted = (np.asarray(numbers, dtype=np.float64).reshape(-1) for numbers in (y, predicted))
        if y.shape != predicted.shape:
            raise ValueError(f"y and predicted must have one shape, got {y.shape} and {predicted.shape}.")
        weights = np.ones(y.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        kept = weights > 0.0
        y, predicted, weights = y[kept], predicted[kept], weights[kept]
        columns = []
        for rows in quantile_bins(predicted, weights, n_bins):
            share = weights[rows] / weights[rows].sum()
            mean = float(share @ y[rows])
            error = float(np.sqrt((share**2) @ (y[rows] - mean) ** 2)) if rows.size > 1 else 0.0
            columns.append((mean, float(share @ predicted[rows]), error))
        return cls(*np.array(columns).T).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        n_bins: int = 10,
        ax: Any = None,
    ) -> "MeanCalibrationDisplay":
        """Draw targets against the predictions of a fitted regressor, best of rows that were not fitted."""
        predicted = estimator.predict(X) if offset is None else estimator.predict(X, offset=offset)
        return cls.from_predictions(y, predicted, sample_weight=sample_weight, n_bins=n_bins, ax=ax)

    def plot(self, ax: Any = None) -> "MeanCalibrationDisplay":
        """Draw the bins."""
        ax = self._axes(ax)
        both = np.concatenate([self.observed, self.predicted])
        low, high = float(both.min()), float(both.max())
        ax.plot([low, high], [low, high], color="0.5", linestyle=(0, (4, 3)), linewidth=1.0, label="calibrated")
        ax.errorbar(self.predicted, self.observed, 2.0 * self.errors, fmt="o", color=_BLUE, markersize=5, capsize=2)
        if low > 0.0 and high > 30.0 * low:
            ax.set_xscale("log")
            ax.set_yscale("log")
        ax.set_xlabel("predicted mean")
        ax.set_ylabel("observed mean, two standard errors")
        ax.legend()
        return self
