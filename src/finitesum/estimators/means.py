"""Regression for a mean exp(x'w + b + o): Poisson, gamma, Tweedie and negative binomial."""

import math
from collections.abc import Callable
from dataclasses import field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from finitesum.core.arrays import Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.base import checked_weights
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.regressors import LinearRegressor, best_constant
from finitesum.estimators.solvers import as_solver
from finitesum.estimators.tasks import FitTasks, with_callbacks
from finitesum.evaluation.row_products import predictions
from finitesum.losses import Gamma, InverseGaussian, Loss, NegativeBinomial, Poisson, Squared, Tweedie, as_loss
from finitesum.problems.input import checked_numbers, checked_targets
from finitesum.problems.linear import Problem
from finitesum.running.driver import Result, StopReason

#: A mean that means no more where it is larger: that of a run that has diverged.
LARGEST_MEAN = 1e300

#: theta beyond which counts vary no more than Poisson's as far as float64 knows, and the least.
LARGEST_THETA, LEAST_THETA = 1e8, 1e-8

#: What rounding errors leave of a deviance, relative to the sum of y^2 / V(y), with the variance V.
ROUNDING = 1e-12

#: Fits with theta and the coefficients in turn, at most; the tolerance of the first, and of theta, relative to it.
MOST_TURNS, FIRST_TOL, TOL_OF_THETA = 100, 1e-3, 1e-11

#: The change of theta with that of the one before from which the turns are only repeated, not led ahead; and the first
#: width of the interval of log theta that is searched.
MOST_SLOPE, FIRST_WIDTH = 0.9, 0.05


@estimator
class MeanRegressor(LinearRegressor):
    """A model of the mean of one target >= 0, whose quality is a share of the deviance."""

    loss: Any = field(default="poisson", init=False)

    _takes_several_targets: ClassVar[bool] = False
    alpha: float = 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._loss().target_kind() != "real"
        return tags

    @in_kind
    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return D^2 = 1 - deviance / deviance of the best constant prediction, of data as for `fit`: 1 is best.

        Where the constant fits exactly D^2 is 1 if the model does, too, and else 0, as scikit-learn's R^2 is.
        """
        loss: Any = self._loss()
        if isinstance(loss, Squared):
            return super().score(X, y, sample_weight, offset)
        means = np.asarray(self.predict(X, offset), dtype=np.float64)
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        check_consistent_length(means, y)
        y = checked_targets(y, y.size, loss, np.ones(y.size)).values
        given = checked_weights(sample_weight, y)
        weights = np.ones(y.size) if given is None else given
        offsets = np.zeros(y.size) if offset is None else checked_numbers(offset, y.shape, "offset")
        found, worst = float(weights @ loss.deviance_from(y, means)), 0.0
        if float(weights @ y) > 0.0:  # else the best constant is 0, which fits exactly
            constants = loss.mean_at(best_constant(loss, y, weights, offsets) + offsets)
            worst = float(weights @ loss.deviance_from(y, constants))
        units = np.divide(y * y, loss.variance_of(y), out=np.zeros(y.size), where=y > 0.0)  # of the deviance
        rounding = ROUNDING * (float(weights @ units) or float(weights.sum()))
        return 1.0 - found / worst if worst > rounding else float(found <= rounding)


@estimator
class PoissonRegressor(MeanRegressor):
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
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, \
bounds, random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `LinearRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, \
cov_params_, standard_errors_
        As in `LinearRegressor`.

    Examples
    --------
    >>> model = PoissonRegressor(alpha=0.0).fit([[0.0], [0.0], [1.0]], [1, 3, 8], offset=[0.0, 0.0, 1.0])
    >>> model.coef_.round(6), model.predict([[1.0]], offset=[1.0]).round(6)
    (array([0.386294]), array([8.]))
    """

    loss: Any = field(default="poisson", init=False)


@estimator
class GammaRegressor(MeanRegressor):
    """Gamma regression with log link: targets y_i > 0 of mean exp(x_i'w + b + o_i) and a standard deviation that it scales.

    F(w, b) = (1/S) sum_i s_i (u_i + y_i exp(-u_i)) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),  u_i = x_i'w +
    b + o_i

    over w in the set: scikit-learn's objective but for a constant, with the same alpha. It suits what is > 0 and varies in
    proportion to its size: claims' sizes, waiting times.

    Parameters
    ----------
    alpha, l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, \
groups, bounds, random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `PoissonRegressor`. Standard errors are those of the expected information, times the dispersion
        sum_i s_i (y_i / mean_i - 1)^2 / (S - p).

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, \
cov_params_, standard_errors_
        As in `LinearRegressor`.

    Examples
    --------
    >>> model = GammaRegressor(alpha=0.0).fit([[0.0], [0.0], [1.0]], [1.0, 3.0, 6.0])
    >>> model.predict([[0.0], [1.0]]).round(6)
    array([2., 6.])
    """

    loss: Any = field(default="gamma", init=False)


@estimator
class TweedieRegressor(MeanRegressor):
    """Regression of a mean m_i = exp(x_i'w + b + o_i) with a variance proportional to m_i^power.

    F(w, b) = (1/S) sum_i s_i loss(y_i, u_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),  u_i = x_i'w + b + o_i

    with the loss exp((2 - p) u) / (2 - p) + y exp((1 - p) u) / (p - 1) for p > 1, but 2, over w in the set: scikit-learn's
    objective but for a constant, with the same alpha. For 1 < p < 2 targets are sums of a Poisson number of gamma
    variables, such as what insurance contracts cost in a year.

    Parameters
    ----------
    power : float
        p: 0 is least squares, 1 Poisson, 2 gamma, 3 inverse Gaussian; below 2 targets may be 0. Beyond 2 the loss is not
        convex: F never rises, and a stationary point is found. Between 0 and 1 no such distribution exists.
    link : {"auto", "log", "identity"}
        "auto" is the identity (mean = u) for power 0 and log otherwise, which are also all that is known.
    alpha, l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, \
groups, bounds, random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `GammaRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, \
cov_params_, standard_errors_
        As in `LinearRegressor`.

    Examples
    --------
    >>> model = TweedieRegressor(power=1.5, alpha=0.0).fit([[0.0], [0.0], [1.0]], [0.0, 4.0, 6.0])
    >>> model.predict([[0.0], [1.0]]).round(6)
    array([2., 6.])
    """

    loss: Any = field(default="tweedie", init=False)
    power: float = 0.0
    link: str = "auto"

    def _loss(self) -> Loss:
        if not isinstance(self.power, Real) or not (self.power == 0.0 or 1.0 <= float(self.power) < math.inf):
            raise ValueError(f"power must be 0 or >= 1, got {self.power!r}: no such distribution exists elsewhere.")
        known = "identity" if self.power == 0.0 else "log"
        if self.link not in ("auto", known):
            raise ValueError(f'link must be "auto" or "{known}" for power {self.power:g}, got {self.link!r}.')
        exact = {0.0: Squared(), 1.0: Poisson(), 2.0: Gamma(), 3.0: InverseGaussian()}.get(float(self.power))
        return as_loss(exact or Tweedie(float(self.power)))


@estimator
class NegativeBinomialRegressor(MeanRegressor):
    """Negative binomial regression: counts of mean m_i = exp(x_i'w + b + o_i) and variance m_i + m_i^2 / theta.

    F(w, b) = (1/S) sum_i s_i ((y_i + theta) log(1 + exp(v_i)) - y_i v_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2
    ||w||^2),  v_i = x_i'w + b + o_i - log theta

    over w in the set. Counts vary more than Poisson's; an infinite theta is `PoissonRegressor`.

    Parameters
    ----------
    theta : float > 0 or "estimate"
        The size; 1 / theta is the alpha of statsmodels' NegativeBinomial. "estimate" takes what makes the counts likeliest,
        with the coefficients and theta in turn.
    alpha, l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, \
groups, bounds, random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `PoissonRegressor`. Standard errors are those of the expected information, theta being given.

    Attributes
    ----------
    theta_ : float
        What was used; 1e8 where it is estimated and the counts vary no more than Poisson's: no finite one is likeliest.
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, \
cov_params_, standard_errors_
        As in `LinearRegressor`. With theta="estimate" iterations and passes are summed over the thetas that were tried, and
        the trace is that of the last.

    Examples
    --------
    >>> model = NegativeBinomialRegressor(theta=2.0, alpha=0.0).fit([[0.0], [0.0], [1.0]], [1, 3, 6])
    >>> model.predict([[0.0], [1.0]]).round(6)
    array([2., 6.])
    """

    loss: Any = field(default="negative-binomial", init=False)
    theta: float | str = 1.0

    def _loss(self) -> Loss:
        theta = self.theta
        if isinstance(theta, str):
            if theta != "estimate":
                raise ValueError(f'theta must be a number > 0 or "estimate", got {theta!r}.')
            theta = getattr(self, "theta_", 1.0)
        return as_loss(NegativeBinomial(theta))

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model; parameters as in `LinearRegressor.fit`."""
        if self.theta != "estimate":
            super().fit(X, y, sample_weight, offset)
            self.theta_ = float(self._loss().theta)  # type: ignore[attr-defined]
            return self
        problems, total, X, y = self._problems(X, y, sample_weight, offset)
        if self.standard_errors:
            self._require_errors(problems[0])
        tasks = FitTasks(self, X, y, {"sample_weight": sample_weight, "offset": offset}, 1)
        callback = self._after_pass(tasks, tasks.of_problem(0), X.dtype, single=True)
        problem, results = self._turns(problems[0], callback)
        self.theta_ = float(problem.loss.theta)  # type: ignore[attr-defined]
        self._note(results[-1:], X.dtype)
        self.n_iter_ = self._n_iter([max(1, sum(int(one.nit) for one in results))])
        self.n_passes_ = float(sum(one.n_passes for one in results))
        self.n_hessian_passes_ = float(sum(one.n_hessian_passes for one in results))
        self.__dict__.pop("_memory", None)
        tasks.end(lambda: {"coef_": self.coef_, "intercept_": self.intercept_})
        self._warn(results[-1])
        self._note_errors([problem], results[-1:], total)
        return self

    def _turns(self, problem: Problem, callback: Callable[[Any], bool] | None) -> tuple[Problem, list[Result]]:
        """Return the problem with the likeliest theta, and the runs, of which the last solves it.

        They begin with what an earlier fit has found, and where that leads nowhere, or there is none, with Poisson's.
        """
        (start,) = self._starts([problem])
        results: list[Result] = []
        if start is not None:
            known, results = self._turns_from(problem, start, getattr(self, "theta_", LARGEST_THETA), callback)
            last = results[-1]
            is_found = last.success and math.isfinite(last.fun) and known.loss.theta > LEAST_THETA  # type: ignore[attr-defined]
            if is_found or last.reason is StopReason.CALLBACK:
                return known, results
        start = np.zeros(problem.dim)
        if problem.has_intercept:
            start[-1] = best_constant(problem.loss, problem.targets, problem.weights, problem.offsets)
        problem, more = self._turns_from(problem, start, LARGEST_THETA, callback)
        return problem, results + more

    def _turns_from(
        self, problem: Problem, start: Vector, theta: float, callback: Callable[[Any], bool] | None
    ) -> tuple[Problem, list[Result]]:
        """Return what `_turns` does, from a point and a theta.

        What is likeliest for the coefficients of another theta changes little with it, by nearly the same factor from one
        turn to the next: the secant of two turns leads to where it does not change.
        """
        results: list[Result] = []
        earlier: tuple[float, float] | None = None
        while True:
            problem, is_first = replace(problem, loss=as_loss(NegativeBinomial(theta))), not results
            tol = max(self.tol, FIRST_TOL) if is_first else self.tol
            solver = as_solver(self.solver, self.step_size, problem, tol=tol, n_threads=self.n_threads)
            results.append(self._solve(problem, start, solver, tol=tol, callback=callback))
            start = results[-1].x
            means = problem.loss.mean_at(predictions(problem, start) + problem.offsets)  # type: ignore[attr-defined]
            found = likeliest_theta(problem.targets, means, problem.weights, near=theta)
            if results[-1].reason is StopReason.CALLBACK:
                return replace(problem, loss=as_loss(NegativeBinomial(found))), results
            change, ahead = found - theta, found
            if len(results) >= MOST_TURNS or (abs(change) <= TOL_OF_THETA * theta and not is_first):
                return problem, results
            if earlier is not None and theta != earlier[0]:
                slope = (found - earlier[1]) / (theta - earlier[0])
                if abs(slope) < MOST_SLOPE:
                    ahead = min(max(theta + change / (1.0 - slope), LEAST_THETA), LARGEST_THETA)
            earlier, theta = None if is_first else (theta, found), ahead


def likeliest_theta(counts: Vector, means: Vector, weights: Vector, *, near: float = 1.0) -> float:
    """Return the theta that makes negative binomial counts of given means likeliest, between 1e-8 and 1e8.

    The derivative of the log-likelihood in theta is sum_i s_i (psi(y_i + theta) - psi(theta) + log(theta / (theta + m_i)) +
    (m_i - y_i) / (theta + m_i)). It is sought where it is 0, `near` a guess first. Where all counts are 0 it is 1e8, as
    for others that vary no more than Poisson's.
    """
    has_weight = weights > 0.0
    counts, weights = counts[has_weight], weights[has_weight]
    means = np.minimum(means[has_weight], LARGEST_MEAN)
    if not counts.any():
        return LARGEST_THETA
    different, places = np.unique(counts, return_inverse=True)
    weights_of = np.bincount(places, weights)

    def slope(logarithm: float) -> float:
        theta = math.exp(logarithm)
        ratio = -np.log1p(means / theta) + (means - counts) / (theta + means)
        return float(weights_of @ _digamma_change(different, theta) + weights @ ratio)

    least, largest, width = math.log(LEAST_THETA), math.log(LARGEST_THETA), FIRST_WIDTH
    if slope(largest) >= 0.0:
        return LARGEST_THETA
    low = high = min(max(math.log(near), least), largest)
    rises = slope(low) > 0.0
    while True:
        end = min(high + width, largest) if rises else max(low - width, least)
        low, high = (high, end) if rises else (end, low)
        if (slope(end) > 0.0) is not rises:
            return math.exp(brentq(slope, low, high, xtol=1e-14, rtol=1e-14))
        if end == least:
            return LEAST_THETA
        width *= 4.0


def _digamma_change(counts: Vector, theta: float) -> Vector:
    """Return psi(y + theta) - psi(theta); for large theta by the differences of the asymptotic series' terms."""
    if theta < 100.0:
        return np.asarray(digamma(counts + theta) - digamma(theta))
    end = theta + counts
    change: Vector = np.log1p(counts / theta) + 0.5 * counts / (theta * end)
    squares, product = counts * (theta + end), (theta * end) ** 2
    return change + squares / (12.0 * product) - squares * (theta**2 + end**2) / (120.0 * product**2)
