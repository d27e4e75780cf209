"""Linear regression with any loss, and Poisson regression."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from finitesum.core.arrays import Vector
from finitesum.estimators.base import LinearEstimator, checked_weights
from finitesum.estimators.tasks import with_callbacks
from finitesum.losses import Loss, Poisson, as_loss
from finitesum.problems.input import as_rows, checked_numbers


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegressorMixin(RegressorMixin, LinearEstimator):
    """A linear model u = x'w + b of numbers, or one for each column of several targets."""

    alpha: float = 1e-4

    def _checked_fit_data(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Any, Vector | None]:
        X, y = self._checked_data(X, y, y_numeric=True, **checks)
        return X, y, checked_weights(sample_weight, X)

    def _unpacked(self, points: list[Vector]) -> tuple[Any, Any]:
        table = np.stack(points)
        coef, intercept = (table[:, :-1], table[:, -1]) if self.fit_intercept else (table, np.zeros(len(points)))
        return (coef, intercept) if len(points) > 1 else (coef[0], float(intercept[0]))

    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None:
        if np.shape(self.coef_) != ((n_columns,) if n_points == 1 else (n_points, n_columns)):
            return None
        table = np.asarray(self.coef_, dtype=np.float64).reshape(n_points, n_columns)
        return list(np.column_stack([table, np.reshape(self.intercept_, n_points)]) if self.fit_intercept else table)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return x'w + b + o for each row of X, shape (n, d), with offsets o of the shape of what is returned."""
        return self._decision(X, offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return R^2 = 1 - sum_i s_i (y_i - prediction_i)^2 / sum_i s_i (y_i - mean)^2 of data as for `fit`: 1 is best."""
        from sklearn.metrics import r2_score  # which takes a while to load

        return float(r2_score(y, self.predict(X, offset), sample_weight=sample_weight))


def without_offset(y: Any, offset: Any) -> Vector:
    """Return y - o, which a loss of the residual x'w + b + o - y is fitted to."""
    numbers: Vector = np.asarray(y, dtype=np.float64)
    return numbers if offset is None else numbers - checked_numbers(offset, numbers.shape, "offset")


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegressor(LinearRegressorMixin):
    """Linear regression with any loss, penalty and constraint.

    F(w, b) = (1/S) sum_i s_i loss(y_i, x_i'w + b + o_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    over w in the set, with S the sum of the weights s_i and o_i known offsets. The intercept b is neither penalised nor
    constrained. With the Poisson loss the prediction is exp(x'w + b + o). Each of several targets has its own w and b.

    Parameters
    ----------
    loss : {"squared", "huber", "poisson"} or Loss
    alpha : float >= 0
        Strength of the penalty, against the weighted mean of the losses.
    l1_ratio : float in [0, 1]
        0 is the l2 penalty, 1 the l1 penalty.
    solver, step_size, max_iter, tol, fit_intercept, constraint, random_state, verbose, warm_start, n_threads, \
callback, measure_every
        As in `LinearClassifier`.
    standard_errors : bool
        Whether to set `cov_params_` and `standard_errors_`.

    Attributes
    ----------
    coef_ : ndarray, shape (d,), or (K, d) for K > 1 targets
    intercept_ : float, or ndarray, shape (K,)
    n_iter_ : int, or ndarray of int, shape (K,)
    n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearClassifier`.
    cov_params_, standard_errors_ : ndarray
        As in `LogisticRegression`; for the squared loss times the residual variance sum_i s_i r_i^2 / (S - p), with p the
        rank of the Hessian. Not with the Huber loss, whose curvature says nothing of the residuals' scale.

    Examples
    --------
    >>> model = LinearRegressor(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    loss: str | Loss = field(default="squared", kw_only=False)
    standard_errors: bool = False

    _takes_several_targets: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._takes_several_targets
        return tags

    def _alphas(self, n_targets: int, total_weight: float) -> list[float]:
        """Return the strength of each target's penalty, against the weighted mean of the losses."""
        return [self.alpha] * n_targets

    def _loss(self) -> Loss:
        known = as_loss(self.loss)
        if known.target_kind() in ("sign", "class"):
            raise ValueError(f"loss must be one for regression, such as squared or huber, got {self.loss!r}.")
        return known

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array_like or sparse, shape (n, d)
        y : array_like, shape (n,), or (n, K) for K targets
            PoissonRegressor takes one target.
        sample_weight : array_like, shape (n,), optional
            Weights >= 0; weight 2 means the same as the row written twice.
        offset : array_like, of the shape of y, optional
            Added to each x'w + b; give those of the rows in question when you predict, too.
        """
        loss = self._loss()
        X, y, weights = self._checked_fit_data(X, y, sample_weight, multi_output=self._takes_several_targets)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        total = float(X.shape[0] if weights is None else weights.sum())
        targets = np.atleast_2d(y.T)
        offsets = [offset] * len(targets) if offset is None or y.ndim == 1 else checked_numbers(offset, y.shape, "offset").T
        rows, alphas = as_rows(X), self._alphas(len(targets), total)
        parts = zip(targets, alphas, offsets, strict=True)
        problems = [self._problem(rows, target, weights, loss, alpha, shift) for target, alpha, shift in parts]
        starts: list[Vector | None] | None = None
        if isinstance(loss, Poisson) and self.fit_intercept and not (self.warm_start and hasattr(self, "coef_")):
            starts = [poisson_start(one.targets, one.weights, one.offsets, one.dim) for one in problems]
        results = self._run(problems, (X, y, {"sample_weight": sample_weight, "offset": offset}), starts)
        self._note_errors(problems, results, total)
        return self

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return x'w + b + o for each row of X, shape (n, d), with offsets o of the shape of what is returned.

        Its exponential for "poisson".
        """
        linear = super().predict(X, offset)
        return np.exp(linear) if isinstance(self._loss(), Poisson) else linear


def poisson_start(targets: Vector, weights: Vector, offsets: Vector, dim: int) -> Vector:
    """Return the best model without columns: w = 0 and b = log(mean y / mean exp(o))."""
    start = np.zeros(dim)
    top = float(offsets.max())
    mean, exposure = float(weights @ targets), float(weights @ np.exp(offsets - top))
    if mean > 0.0 and exposure > 0.0:
        start[-1] = math.log(mean / exposure) - top
    return start


@dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegressor(LinearRegressor):
    """Poisson regression with log link: counts y_i of mean exp(x_i'w + b + o_i).

    F(w, b) = (1/S) sum_i s_i (exp(u_i) - y_i u_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),  u_i = x_i'w +
    b + o_i

    over w in the set: scikit-learn's objective but for a constant, with the same alpha. The intercept b is neither
    penalised nor constrained. For counts over exposures e_i give offset = log(e_i), or fit the rates y_i / e_i with
    sample_weight = e_i: both have the same solution where alpha is 0 (S differs).

    Parameters
    ----------
    alpha : float >= 0
        Strength of the penalty, against the weighted mean of the losses.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, random_state, verbose, warm_start, \
n_threads, callback, measure_every, standard_errors
        As in `LinearRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, cov_params_, \
standard_errors_
        As in `LinearRegressor`.

    Examples
    --------
    >>> model = PoissonRegressor(alpha=0.0).fit([[0.0], [0.0], [1.0]], [1, 3, 8], offset=[0.0, 0.0, 1.0])
    >>> model.coef_.round(6), model.predict([[1.0]], offset=[1.0]).round(6)
    (array([0.386294]), array([8.]))
    """

    loss: str = field(default="poisson", init=False)

    _takes_several_targets: ClassVar[bool] = False
    alpha: float = 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return D^2 = 1 - deviance / deviance of the best constant rate, of data as for `fit`: 1 is best.

        Where the constant rate fits exactly D^2 is 1 if the model does, too, and else 0, as scikit-learn's R^2 is.
        """
        means = np.asarray(self.predict(X, offset), dtype=np.float64)
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        check_consistent_length(means, y)
        if (y < 0.0).any():
            raise ValueError(f"y must be >= 0 for Poisson, got {y.min()}.")
        given = checked_weights(sample_weight, y)
        weights = np.ones(y.size) if given is None else given
        offsets = np.zeros(y.size) if offset is None else checked_numbers(offset, y.shape, "offset")
        exposures = np.exp(offsets - offsets.max())
        constant = exposures * (weights @ y) / (weights @ exposures)

        def deviance(mean: Vector) -> float:
            return float(weights @ (xlogy(y, y) - xlogy(y, mean) - y + mean))

        found, worst, rounding = deviance(means), deviance(constant), 1e-12 * float(weights @ y)
        return 1.0 - found / worst if worst > rounding else float(found <= rounding)
