"""Coefficients: along a path of penalties, with their intervals, and how a penalty was chosen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.estimators.inference import Inference
from finitesum.plots.base import DrawsOnAxes

#: What a strength is, by its name.
AXES = {"C": "C, the inverse strength of the penalty", "alpha": "alpha, the strength of the penalty"}


def known_strength(name: str) -> str:
    """Return the name of a strength, or raise what is wrong with it."""
    if name not in AXES:
        raise ValueError(f'strength_name must be "C" or "alpha", got {name!r}.')
    return name


class PathDisplay(DrawsOnAxes):
    """Coefficients against the strength of the penalty, the weakest at the right.

    Parameters
    ----------
    strengths : ndarray, shape (m,)
        alpha, or the inverse strength C.
    coefs : ndarray, shape (m, d)
        Of one class or target.
    strength_name : {"C", "alpha"}
    names : sequence of str, optional
    chosen : float, optional
        A strength that is marked.

    Attributes
    ----------
    ax_, figure_
    lines_ : list of Line2D
    """

    def __init__(
        self,
        strengths: Vector,
        coefs: Matrix,
        *,
        strength_name: str = "C",
        names: Sequence[str] | None = None,
        chosen: float | None = None,
    ) -> None:
        self.strengths, self.coefs = np.asarray(strengths), np.asarray(coefs)
        if self.coefs.ndim != 2 or self.coefs.shape[0] != self.strengths.size:
            m = self.strengths.size
            raise ValueError(f"coefs must have shape ({m}, d), a row for each {strength_name}, got {self.coefs.shape}.")
        self.strength_name = known_strength(strength_name)
        self.names = list(names) if names is not None else [f"x{j}" for j in range(self.coefs.shape[1])]
        self.chosen = chosen

    @classmethod
    def from_path(
        cls, path: Any, *, output: int = 0, names: Sequence[str] | None = None, ax: Any = None, **how: Any
    ) -> "PathDisplay":
        """Draw what `finitesum.logistic_path` or `linear_path` returned, of the class or target with number `output`."""
        name = "C" if hasattr(path, "Cs") else "alpha"
        coefs = np.asarray(path.coefs)
        one = coefs if coefs.ndim == 2 else coefs[:, output]
        return cls(path.Cs if name == "C" else path.alphas, one, strength_name=name, names=names).plot(ax=ax, **how)

    @classmethod
    def from_estimator(cls, estimator: Any, *, output: int = 0, ax: Any = None, **how: Any) -> "PathDisplay":
        """Draw the mean over the folds of the coefficients of a fitted `LogisticRegressionCV`, and the C that it chose."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        if not hasattr(estimator, "coefs_paths_"):
            raise ValueError(
                f"{type(estimator).__name__} has no path of coefficients. Use LogisticRegressionCV, or from_path."
            )
        coefs = np.asarray(estimator.coefs_paths_)[:, :, output].mean(axis=0)
        names = getattr(estimator, "feature_names_in_", None)
        return cls(estimator.Cs_, coefs, names=names, chosen=estimator.C_).plot(ax=ax, **how)

    def plot(self, ax: Any = None, *, n_names: int = 10) -> "PathDisplay":
        """Draw a line for each coefficient; the `n_names` largest at the weakest penalty are named."""
        ax, name = self._axes(ax), self.strength_name
        self.lines_ = ax.plot(self.strengths, self.coefs, linewidth=1.2)
        ax.set_xscale("log")
        ax.axhline(0.0, color="0.6", linewidth=0.8)
        if self.chosen is not None:
            label = f"chosen: {name} = {self.chosen:.3g}"
            ax.axvline(self.chosen, color="0.3", linestyle=(0, (4, 3)), linewidth=1.0, label=label)
        weakest = np.argmax(self.strengths) if name == "C" else np.argmin(self.strengths)
        order = np.argsort(-np.abs(self.coefs[weakest]))[:n_names]
        handles = [self.lines_[j] for j in order]
        labels = [self.names[j] for j in order]
        more, more_labels = ax.get_legend_handles_labels()
        ax.legend([*handles, *more], [*labels, *more_labels], loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        if name == "alpha" and not ax.xaxis_inverted():
            ax.invert_xaxis()
        ax.set_xlabel(AXES[name])
        ax.set_ylabel("coefficient")
        return self


class CVDisplay(DrawsOnAxes):
    """Scores of cross-validation by the penalty: mean, standard error, the best, and the strongest within one error of it.

    Parameters
    ----------
    strengths : ndarray, shape (m,)
        alpha, or the inverse strength C.
    scores : ndarray, shape (folds, m)
        Larger is better.
    chosen : float
        The strength that is marked as chosen.
    strength_name : {"C", "alpha"}
    score_name : str

    Attributes
    ----------
    one_standard_error : float
        That of the strongest penalty whose mean score is at most one standard error below the best.
    ax_, figure_
    """

    def __init__(
        self, strengths: Vector, scores: Matrix, *, chosen: float, strength_name: str = "C", score_name: str = "score"
    ) -> None:
        self.strengths, self.scores = np.asarray(strengths), np.asarray(scores)
        if self.scores.ndim != 2 or self.scores.shape[1] != self.strengths.size:
            raise ValueError(f"scores must have shape (folds, {self.strengths.size}), got {self.scores.shape}.")
        self.chosen, self.strength_name, self.score_name = chosen, known_strength(strength_name), score_name
        self.means = self.scores.mean(axis=0)
        folds = len(self.scores)
        self.errors = self.scores.std(axis=0, ddof=1) / np.sqrt(folds) if folds > 1 else np.zeros(self.strengths.size)
        best = int(np.nanargmax(self.means))
        near = self.strengths[self.means >= self.means[best] - self.errors[best]]
        self.one_standard_error = float(near.min() if strength_name == "C" else near.max())

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> "CVDisplay":
        """Draw the scores of a fitted `LogisticRegressionCV`, `LinearRegressorCV`, `RidgeCV` or `PoissonRegressorCV`."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        if not hasattr(estimator, "scores_"):
            raise ValueError(f"{type(estimator).__name__} has no scores of folds. Use an estimator with CV in its name.")
        scoring = estimator.scoring
        name = scoring if isinstance(scoring, str) or scoring is None else "score"
        if hasattr(estimator, "Cs_"):
            scores = estimator.scores_
            if scores.ndim == 3:
                scores = scores[:, list(estimator.l1_ratios).index(estimator.l1_ratio_)]
            return cls(estimator.Cs_, scores, chosen=estimator.C_, score_name=name or "accuracy").plot(ax=ax)
        row = int(np.flatnonzero((estimator.alphas_ == estimator.alpha_).any(axis=1))[0])
        names = {"strength_name": "alpha", "score_name": name or "minus mean loss"}
        return cls(estimator.alphas_[row], estimator.scores_[:, row], chosen=estimator.alpha_, **names).plot(ax=ax)

    def plot(self, ax: Any = None) -> "CVDisplay":
        """Draw the folds faintly, their mean with its standard error, and both choices."""
        ax, name = self._axes(ax), self.strength_name
        ax.plot(self.strengths, self.scores.T, color="0.8", linewidth=0.8, zorder=1)
        ax.errorbar(self.strengths, self.means, self.errors, color="#0072B2", marker="o", markersize=4, capsize=2, zorder=2)
        ax.axvline(self.chosen, color="#D55E00", linewidth=1.2, label=f"chosen: {name} = {self.chosen:.3g}")
        if (other := self.one_standard_error) != self.chosen:
            style, label = (0, (4, 3)), f"one standard error: {name} = {other:.3g}"
            ax.axvline(other, color="#D55E00", linestyle=style, linewidth=1.2, label=label)
        ax.set_xscale("log")
        ax.set_xlabel(AXES[name])
        ax.set_ylabel(f"{self.score_name} of {len(self.scores)} folds, mean and standard error")
        ax.legend()
        return self


class CoefficientDisplay(DrawsOnAxes):
    """Coefficients with their confidence intervals, one below the other.

    Parameters
    ----------
    inference : Inference
        What `model.summary()` or `model.inference(X, y)` returns.
    level : float in (0, 1)
    names : sequence of str, optional
        Which of them, in this order; all but the intercepts when left out.

    Attributes
    ----------
    ax_, figure_
    """

    def __init__(self, inference: Inference, *, level: float = 0.95, names: Sequence[str] | None = None) -> None:
        self.inference, self.level = inference, level
        known = list(inference.names)
        wanted = [name for name in known if not name.endswith("intercept")] if names is None else list(names)
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise ValueError(f"names holds {unknown[0]!r}, but the coefficients are {', '.join(known)}.")
        self.names = wanted
        rows = [known.index(name) for name in wanted]
        self.coefficients, self.intervals = inference.coefficients[rows], inference.confint(level)[rows]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, level: float = 0.95, names: Sequence[str] | None = None, ax: Any = None, **how: Any
    ) -> "CoefficientDisplay":
        """Draw the coefficients of an estimator that was fitted with ``standard_errors=True``."""
        return cls(estimator.summary(), level=level, names=names).plot(ax=ax, **how)

    def plot(self, ax: Any = None, *, exponentiated: bool = False) -> "CoefficientDisplay":
        """Draw the intervals; `exponentiated` shows ratios (of odds, rates or means) on a logarithmic scale."""
        n = len(self.names)
        ax = self._axes(ax, size=(6.4, max(2.0, 0.32 * n + 1.0)))
        at = np.arange(n)[::-1]
        values, ends = self.coefficients, self.intervals
        if exponentiated:
            from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

            values, ends = np.exp(values), np.exp(ends)
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ends.max() < 50.0 * ends.min() else (1.0,)))
            ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.xaxis.set_minor_formatter(NullFormatter())
        ax.axvline(1.0 if exponentiated else 0.0, color="0.5", linewidth=0.9, linestyle=(0, (4, 3)))
        ax.hlines(at, ends[:, 0], ends[:, 1], color="#0072B2", linewidth=1.6)
        ax.plot(values, at, "o", color="#0072B2", markersize=5)
        ax.set_yticks(at, self.names)
        ax.set_ylim(-0.7, n - 0.3)
        what = "exp(coefficient)" if exponentiated else "coefficient"
        ax.set_xlabel(f"{what}, {100.0 * self.level:.4g} % confidence interval ({self.inference.kind})")
        ax.grid(axis="x", color="0.92")
        return self
