"""Huber's robust regression, with a given scale of the residuals or one that is estimated with the coefficients.

With a free scale sigma > 0 Huber's joint estimate minimises the convex function G(w, b, sigma) of `HuberRegressor` [1].
For a fixed sigma that is (2/sigma) times the mean Huber loss of threshold epsilon sigma with the penalty alpha sigma/2,
plus sigma: a problem of `LinearRegressor`. What is left is one equation that rises with sigma, dG/dsigma = 1 - (1/S)
sum_i s_i min((r_i/sigma)^2, epsilon^2) = 0, solved by a bracketed secant method with warm starts. With an l2 penalty, no
set and not many columns it begins where Newton's method on G ends (`finitesum.estimators.huber_scale`), and has one turn.

References
----------
.. [1] A. B. Owen, "A robust hybrid of lasso and ridge regression", Contemporary Mathematics 443 (2007).
"""

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from finitesum.core.arrays import Flags, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.huber_scale import MOST_COLUMNS, JointEstimate, joint_estimate
from finitesum.estimators.inference import InferenceMixin
from finitesum.estimators.regressors import LinearRegressorMixin, without_offset
from finitesum.estimators.solvers import as_solver
from finitesum.estimators.tasks import FitTasks, with_callbacks
from finitesum.losses import Huber
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import elastic_net
from finitesum.running.driver import Result, StopReason

#: Scales that are tried at most, and the smallest one, in units of the standard deviation of the targets.
MOST_SCALES, SMALLEST_SCALE = 60, 1e-6


@estimator
class HuberRegressor(LinearRegressorMixin, InferenceMixin):
    """Linear regression that outliers cannot pull far.

    F(w, b) = (1/S) sum_i s_i h(r_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),   r_i = x_i'w + b + o_i - y_i

    over w in the set, with h(r) = r^2/2 for |r| <= delta and delta (|r| - delta/2) beyond, delta = epsilon scale, S the
    sum of the weights s_i and o_i known offsets. With scale="joint" the scale is estimated, too, as scikit-learn's
    HuberRegressor does:

    G(w, b, sigma) = (1/S) sum_i s_i (sigma + sigma H(r_i / sigma)) + alpha/2 ||w||^2,   H(t) = t^2 or 2 epsilon |t| -
    epsilon^2

    which is scikit-learn's objective divided by S, with its alpha = S alpha / 2. The intercept b is neither penalised nor
    constrained.

    Parameters
    ----------
    epsilon : float > 0
        Residuals of more than epsilon scales count linearly.
    scale : float > 0 or "joint"
        The scale of the residuals, in the units of y; "joint" estimates it with the coefficients.
    alpha : float >= 0
        Strength of the penalty, against the weighted mean of the losses.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, \
bounds, random_state, verbose, warm_start, n_threads, callback, measure_every
        As in `LinearRegressor`; scale="joint" needs l1_ratio=0.

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearRegressor`. With scale="joint" passes are summed over the scales that were tried, the optimality is the
        norm of the gradient of G with respect to (w, b, sigma), and the trace is that of the last scale.
    scale_ : float
    outliers_ : ndarray of bool, shape (n,)
        Which rows have residuals beyond epsilon scale_.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 30.0, 2.0, 3.0, 4.0]
    >>> model = HuberRegressor(scale=0.5, alpha=0.0).fit(X, y)
    >>> model.outliers_
    array([False,  True, False, False, False])
    """

    epsilon: float = 1.35
    scale: float | str = 1.0

    def _posed(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[list[Problem], float]:
        X, y, weights = self._checked_fit_data(X, y, sample_weight, reset=False)
        total = float(X.shape[0] if weights is None else weights.sum())
        alpha = 0.5 * self.alpha * self.scale_ if self.scale == "joint" else self.alpha
        loss = Huber(float(self.epsilon * self.scale_))
        return [self._problem(X, without_offset(y, offset), weights, loss, alpha)], total

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model to rows X, shape (n, d), and targets y, shape (n,); the rest is as for `LinearRegressor.fit`."""
        joint = self._checked_scale()
        X, y, weights = self._checked_fit_data(X, y, sample_weight)
        data = X, y, {"sample_weight": sample_weight, "offset": offset}
        y = without_offset(y, offset)
        if joint:
            self._fit_jointly(y, weights, data)
        else:
            self.scale_ = float(self.scale)
            problem = self._problem(X, y, weights, Huber(float(self.epsilon * self.scale_)), self.alpha)
            self._run([problem], data)
        residuals = X @ self.coef_ + self.intercept_ - y
        self.outliers_: Flags = np.abs(residuals) > self.epsilon * self.scale_
        return self

    def _checked_scale(self) -> bool:
        """Return whether the scale is to be estimated, or raise what is wrong with the parameters."""
        if not isinstance(self.epsilon, Real) or not 0.0 < float(self.epsilon) < math.inf:
            raise ValueError(f"epsilon must be > 0 and finite, got {self.epsilon!r}.")
        elastic_net(self.alpha, self.l1_ratio)
        if self.scale == "joint":
            if self.l1_ratio != 0.0:
                raise ValueError('scale="joint" needs l1_ratio=0. Give the scale as a number.')
            if self.epsilon <= 1.0:
                raise ValueError(f'scale="joint" needs epsilon > 1, got {self.epsilon!r}: else no scale is best.')
            return True
        if not isinstance(self.scale, Real) or not 0.0 < float(self.scale) < math.inf:
            raise ValueError(f'scale must be a number > 0 or "joint", got {self.scale!r}.')
        return False

    # -- the joint estimate

    def _fit_jointly(self, y: Vector, weights: Vector | None, data: tuple[Any, Any, dict[str, Any]]) -> None:
        X = data[0]
        fractions = np.full(y.size, 1.0 / y.size) if weights is None else weights / weights.sum()
        known = self._packed(X.shape[1], 1) if self.warm_start and hasattr(self, "coef_") else None
        start = None if known is None else known[0]
        spread = math.sqrt(float(fractions @ (y - float(fractions @ y)) ** 2)) or 1.0
        tasks = FitTasks(self, *data, 1)
        callback = self._after_pass(tasks, tasks.of_problem(0), X.dtype, single=True)

        def solve(sigma: float, start: Vector | None) -> Result:
            return self._solve_at(X, y, weights, sigma, start, callback)

        def slope_of(sigma: float, result: Result) -> float:
            coef, intercept = self._unpacked([result.x])
            ratios = np.asarray(X @ coef + intercept - y) / sigma
            return 1.0 - float(fractions @ np.minimum(ratios * ratios, self.epsilon**2))

        at_once = self._at_once(X, y, fractions, start, spread)
        first = spread if start is None else self.scale_
        if at_once is not None and at_once.is_least:
            start, first = at_once.coefficients, at_once.scale
        self._search(spread, first, start, solve, slope_of, X.dtype)
        if at_once is not None:
            self.n_iter_ += at_once.n_steps
            self.n_passes_ += at_once.n_steps + 1.0
            self.n_hessian_passes_ += at_once.n_hessians
        tasks.end(lambda: {"coef_": self.coef_, "intercept_": self.intercept_})

    def _at_once(self, X: Any, y: Vector, fractions: Vector, start: Vector | None, spread: float) -> JointEstimate | None:
        """Return where Newton's method on coefficients and scale ends, None where a method or a term is asked for."""
        own = self.constraint, self.bounds, self.penalty, self.penalty_weights, self.groups, self.callback
        is_plain = self.solver == "auto" and all(option is None for option in own)
        is_known = isinstance(X, np.ndarray) or scipy.sparse.issparse(X)
        if not is_plain or not is_known or X.shape[1] > MOST_COLUMNS:
            return None
        first = np.zeros(X.shape[1] + self.fit_intercept) if start is None else start
        if start is None and self.fit_intercept:
            first[-1] = float(fractions @ y)
        settings: Any = {"alpha": self.alpha, "epsilon": self.epsilon, "has_intercept": bool(self.fit_intercept)}
        limits: Any = {"tol": 0.25 * self.tol, "least_scale": spread * SMALLEST_SCALE, "most_steps": self.max_iter}
        with np.errstate(all="ignore"):  # what is not finite is no step
            begun = first, spread if start is None else self.scale_
            return joint_estimate(X.astype(np.float64, copy=False), y, fractions, begun, **settings, **limits)

    def _search(
        self,
        spread: float,
        first: float,
        start: Vector | None,
        solve: Callable[[float, Vector | None], Result],
        slope_of: Callable[[float, Result], float],
        dtype: Any,
    ) -> None:
        """Find the scale, and set what is known of the runs, given the targets' spread, a first scale and a run at one."""
        search = _ScaleSearch(spread, first)
        tried: list[Result] = []
        while True:
            sigma = search.scale
            result = solve(sigma, start)
            tried.append(result)
            start = result.x
            slope = slope_of(sigma, result)
            if result.reason is StopReason.CALLBACK or not search.moves(slope, self.tol):
                break
        self.scale_ = sigma
        self._note(tried[-1:], dtype)
        self.n_iter_ = sum(max(1, int(one.nit)) for one in tried)
        self.n_passes_ = float(sum(one.n_passes for one in tried))
        self.n_hessian_passes_ = float(sum(one.n_hessian_passes for one in tried))
        self.objective_ = sigma + 2.0 / sigma * float(result.fun)
        self.optimality_ = math.hypot(2.0 / sigma * float(result.optimality), slope)
        if self.optimality_ > self.tol and tried[-1].reason is not StopReason.CALLBACK:
            warnings.warn(
                f"HuberRegressor: optimality {self.optimality_:.3g} (asked: {self.tol:.3g}) at scale {sigma:.6g}. If most "
                "rows are fitted exactly no positive scale is best: raise alpha or give the scale.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _solve_at(
        self, X: Any, y: Vector, weights: Vector | None, sigma: float, start: Vector | None, callback: Any
    ) -> Result:
        problem = self._problem(X, y, weights, Huber(float(self.epsilon * sigma)), 0.5 * self.alpha * sigma)
        tol = 0.25 * self.tol * sigma
        method = as_solver(self.solver, self.step_size, problem, tol=tol, n_threads=self.n_threads)
        return self._solve(problem, start, method, tol=tol, callback=callback)


class _ScaleSearch:
    """Finds the zero of a rising function of the scale: secant steps in log sigma within a bracket, else its middle."""

    def __init__(self, spread: float, first: float) -> None:
        self._low, self._high = math.log(spread) + math.log(SMALLEST_SCALE), math.inf
        self._tried: list[tuple[float, float]] = []  # log sigma, slope
        self.scale = math.exp(max(math.log(first), self._low))

    def moves(self, slope: float, tol: float) -> bool:
        """Move from a scale of this slope to the next one, or return False where it is the last."""
        here = math.log(self.scale)
        self._tried.append((here, slope))
        if slope > 0.0:
            self._high = here
        else:
            self._low = max(self._low, here)
        stuck = self._high - self._low <= 4e-16 * max(1.0, abs(here))
        if abs(slope) <= 0.5 * tol or stuck or len(self._tried) >= MOST_SCALES:
            return False
        self.scale = math.exp(self._proposal(here, slope))
        return True

    def _proposal(self, here: float, slope: float) -> float:
        if len(self._tried) > 1:
            before, other = self._tried[-2]
            proposal = here - slope * (here - before) / (slope - other) if slope != other else math.nan
            if self._low < proposal < self._high:
                return min(proposal, here + 1.0) if math.isinf(self._high) else proposal
        if math.isinf(self._high):
            return here + 1.0
        if all(slope > 0.0 for _, slope in self._tried):  # towards the smallest scale by factors, not at once
            return max(self._low, self._high - 2.0)
        return 0.5 * (self._low + self._high)
