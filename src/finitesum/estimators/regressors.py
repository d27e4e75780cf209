"""Linear regression with any loss."""

import math
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from finitesum.core.arrays import Data, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.base import LinearEstimator, checked_weights
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.inference import InferenceMixin
from finitesum.estimators.solvers import is_auto
from finitesum.estimators.tasks import with_callbacks
from finitesum.evaluation.outputs import objectives_of_outputs
from finitesum.losses import Loss, LossName, Squared, as_loss
from finitesum.losses.arrays import in_arrays
from finitesum.methods.auto import choose
from finitesum.methods.cost_model import are_squares_of_outputs
from finitesum.problems.input import as_rows, checked_numbers
from finitesum.problems.linear import Problem, share_rows
from finitesum.running.results import Result

#: Newton's steps to the best constant prediction, at most.
MOST_STEPS = 200


@estimator
class LinearRegressorMixin(RegressorMixin, LinearEstimator):
    """A linear model u = x'w + b of numbers, or one for each column of several targets."""

    alpha: float = 1e-4

    def _checked_fit_data(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Any, Vector | None]:
        X, y = self._checked_data(X, y, y_numeric=True, **checks)
        return X, y, checked_weights(sample_weight, X)

    def _unpacked(self, points: list[Vector]) -> tuple[Any, Any]:
        table = np.concatenate([point.reshape(-1, self.n_features_in_ + self.fit_intercept) for point in points])
        coef, intercept = (table[:, :-1], table[:, -1]) if self.fit_intercept else (table, np.zeros(len(table)))
        return (coef, intercept) if len(table) > 1 else (coef[0], float(intercept[0]))

    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None:
        if np.shape(self.coef_) != ((n_columns,) if n_points == 1 else (n_points, n_columns)):
            return None
        table = np.asarray(self.coef_, dtype=np.float64).reshape(n_points, n_columns)
        return list(np.column_stack([table, np.reshape(self.intercept_, n_points)]) if self.fit_intercept else table)

    @in_kind
    def predict(self, X: Any, offset: Any = None) -> Data:
        """Return x'w + b + o for each row of X, shape (n, d), with offsets o of the shape of what is returned."""
        return self._decision(X, offset)

    @in_kind
    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return R^2 = 1 - sum_i s_i (y_i - prediction_i)^2 / sum_i s_i (y_i - mean)^2 of data as for `fit`: 1 is best."""
        from sklearn.metrics import r2_score  # which takes a while to load

        return float(r2_score(y, self.predict(X, offset), sample_weight=sample_weight))


def without_offset(y: Any, offset: Any) -> Vector:
    """Return y - o, which a loss of the residual x'w + b + o - y is fitted to."""
    numbers: Vector = np.asarray(y, dtype=np.float64)
    return numbers if offset is None else numbers - checked_numbers(offset, numbers.shape, "offset")


@estimator
class LinearRegressor(LinearRegressorMixin, InferenceMixin):
    """Linear regression with any loss, penalty and constraint.

    F(w, b) = (1/S) sum_i s_i loss(y_i, x_i'w + b + o_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    over w in the set, with S the sum of the weights s_i and o_i known offsets. The intercept b is neither penalised nor
    constrained. Losses of a mean predict the mean: exp(x'w + b + o) for "poisson". Each of several targets has its own w
    and b.

    Parameters
    ----------
    loss : {"squared", "huber", "pseudo-huber", "log-cosh", "absolute", "quantile", "epsilon-insensitive", \
"squared-epsilon-insensitive", "poisson", "gamma", "inverse-gaussian", "tweedie", "negative-binomial", "binomial"} or Loss
        "binomial" takes shares y = successes / trials, the trials being sample_weight. `finitesum.losses` has the formulas,
        and classes for other parameters, such as ``Tweedie(power=1.7)`` or ``Quantile(0.9)``.
    alpha : float >= 0
        Strength of the penalty, against the weighted mean of the losses.
    l1_ratio : float in [0, 1]
        0 is the l2 penalty, 1 the l1 penalty.
    solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, bounds, \
random_state, verbose, warm_start, n_threads, callback, measure_every
        As in `LinearClassifier`.
    standard_errors : bool
        Whether to set `cov_params_` and `standard_errors_`, and to have `summary`.

    Attributes
    ----------
    coef_ : ndarray, shape (d,), or (K, d) for K > 1 targets
    intercept_ : float, or ndarray, shape (K,)
    n_iter_ : int, or ndarray of int, shape (K,)
    n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearClassifier`.
    cov_params_, standard_errors_ : ndarray
        As in `LogisticRegression`; for the squared loss times the residual variance sum_i s_i r_i^2 / (S - p), with p the
        rank of the Hessian; Huber's formula (`finitesum.estimators.robust_errors`) for the losses that are robust.

    Examples
    --------
    >>> model = LinearRegressor(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    loss: LossName | Loss = field(default="squared", kw_only=False)
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

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
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
        problems, total, X, y = self._problems(X, y, sample_weight, offset, joins=self._may_join())
        loss = problems[0].loss
        starts: list[Vector | None] | None = None
        is_begun = (self.warm_start and hasattr(self, "coef_")) or hasattr(self, "_near")  # of a choice by folds
        if hasattr(loss, "link_of") and self.fit_intercept and not is_begun:
            known = ((one.loss, one.targets, one.weights, one.offsets) for one in problems)
            starts = [np.append(np.zeros(one.dim - 1), best_constant(*of)) for one, of in zip(problems, known, strict=True)]
        metadata = {"sample_weight": sample_weight, "offset": offset}
        results = self._run(problems, (X, y, metadata), starts)
        if problems[0].n_outputs > 1 and not results[0].success:  # the last digits are those of single targets
            starts = list(results[0].x.reshape(problems[0].n_outputs, -1))
            problems, total, X, y = self._problems(X, y, sample_weight, offset, reset=False)
            results = self._run(problems, (X, y, metadata), starts)
        self._note_errors(problems, results, total)
        if problems[0].n_outputs > 1:
            self._note_targets(problems[0], results[0])
        return self

    def _warn(self, result: Result) -> None:
        if result.x.size <= self.n_features_in_ + 1:  # of one target: else they are run again, one by one
            super()._warn(result)

    def _may_join(self) -> bool:
        """Return whether several targets may be one problem: of squares, where nobody sees runs of single ones."""
        is_watched = self.callback is not None or bool(getattr(self, "_skl_callbacks", [])) or self.warm_start
        is_watched = is_watched or self.standard_errors or hasattr(self, "_near")
        has_choice = is_auto(self.solver) and self.step_size == "auto"
        return has_choice and not is_watched and isinstance(self._loss(), Squared)

    def _note_targets(self, problem: Problem, result: Result) -> None:
        """Set what there is of each target, after a run for all of them."""
        k, objectives = problem.n_outputs, objectives_of_outputs(problem, result.x)
        self.n_iter_ = self._n_iter([self.n_iter_] * k)
        self.objective_, self.trace_ = objectives, [result.trace] * k

    def _problems(
        self, X: Any, y: Any, sample_weight: Any, offset: Any, *, reset: bool = True, joins: bool = False
    ) -> tuple[list[Problem], float, Any, Any]:
        """Return the problems of the targets, the sum of the weights, and the data as they were checked.

        Where problems may be joined that is one problem of all targets, if Newton's method solves it by one linear system.
        """
        loss = self._loss()
        checks: dict[str, Any] = {"multi_output": self._takes_several_targets, "reset": reset}
        X, y, weights = self._checked_fit_data(X, y, sample_weight, **checks)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        total = float(X.shape[0] if weights is None else weights.sum())
        targets = np.atleast_2d(y.T)
        offsets = [offset] * len(targets) if offset is None or y.ndim == 1 else checked_numbers(offset, y.shape, "offset").T
        rows, alphas = as_rows(X, is_checked=True), self._alphas(len(targets), total)
        if joins and len(targets) > 1 and alphas.count(alphas[0]) == len(alphas):
            shifts = None if offset is None else np.stack(offsets, axis=1)
            whole = self._problem(rows, y, weights, loss, alphas[0], shifts)
            if are_squares_of_outputs(whole) and choose(whole, self.tol).method.name == "newton":
                return [whole], total, X, y
        parts = zip(targets, alphas, offsets, strict=True)
        problems = [self._problem(rows, one, weights, loss, alpha, shift) for one, alpha, shift in parts]
        if len(problems) > 1:
            share_rows(problems)
        return problems, total, X, y

    def _posed(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[list[Problem], float]:
        problems, total, *_ = self._problems(X, y, sample_weight, offset, reset=False)
        return problems, total

    @in_kind
    def predict(self, X: Any, offset: Any = None) -> Data:
        """Return x'w + b + o for each row of X, shape (n, d), with offsets o of the shape of what is returned.

        The mean that belongs to it for losses that have one: its exponential for "poisson", a share for "binomial".
        """
        linear, loss = super().predict(X, offset), self._loss()
        return loss.mean_at(linear) if hasattr(loss, "mean_at") else linear


def best_constant(loss: Any, targets: Vector, weights: Vector, offsets: Vector) -> float:
    """Return the b that minimises sum_i s_i loss(y_i, b + o_i), of a loss of means; 0 where none does.

    Without offsets its mean is that of the targets; with them Newton's steps are cut to 1, and halved while the sum rises.
    """
    total, known, has_offsets = float(weights.sum()), in_arrays(loss), bool(offsets.any())
    with np.errstate(divide="ignore"):
        b = float(loss.link_of(float(weights @ targets) / total))
    if has_offsets:
        b -= float(weights @ offsets) / total
    if not math.isfinite(b):
        return 0.0
    if not (has_offsets and np.ptp(offsets)):
        return b

    def value(b: float) -> float:
        found = float(weights @ known.value(b + offsets, targets))
        return found if math.isfinite(found) else math.inf

    here = value(b)
    for _ in range(MOST_STEPS):
        slopes, curvatures = known.d1_d2(b + offsets, targets)
        slope, curvature = float(weights @ slopes), float(weights @ curvatures)
        if math.isfinite(curvature):
            step = math.copysign(min(abs(slope / curvature), 1.0) if curvature > 0.0 else 1.0, -slope)
        else:  # exp(u) overflows
            step = -1.0
        while abs(step) > 1e-15 * max(abs(b), 1.0) and not (there := value(b + step)) <= here:
            step *= 0.5
        if abs(step) <= 1e-15 * max(abs(b), 1.0):
            break
        b, here = b + step, there
    return b
