"""Ridge regression, exact by the normal equations, also from parts of the data one after the other."""

from dataclasses import field
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Matrix, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.covariance import Centred, centred_gram, inverse_and_rank, residual_variance, with_intercept
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.regressors import LinearRegressor, without_offset
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.penalties import elastic_net
from finitesum.running.driver import Result


class Moments(NamedTuple):
    """All that a least-squares problem needs of the data so far."""

    total: float  # S
    mean: Vector  # (d,)  of the columns
    target_mean: float
    gram: Matrix  # (d, d)  sum_i s_i (x_i - mean)(x_i - mean)'
    pull: Vector  # (d,)  sum_i s_i (x_i - mean)(y_i - target_mean)
    spread: float  # sum_i s_i (y_i - target_mean)^2


def moments_of(X: Any, y: Vector, weights: Vector) -> Moments:
    """Return the moments of some rows; sparse rows are not centred themselves."""
    total = float(weights.sum())
    if total == 0.0:
        d = X.shape[1]
        return Moments(0.0, np.zeros(d), 0.0, np.zeros((d, d)), np.zeros(d), 0.0)
    mean, target_mean = np.asarray(X.T @ weights, dtype=np.float64) / total, float(weights @ y) / total
    left = y - target_mean
    spread = float(weights @ left**2)
    if scipy.sparse.issparse(X):
        X = X.astype(np.float64)
        gram = centred_gram((X.T @ X.multiply(weights[:, None]).tocsr()).toarray(), mean, total)
        return Moments(total, mean, target_mean, gram, np.asarray(X.T @ (weights * left)), spread)
    centred = X - mean
    scaled = centred * weights[:, None]
    return Moments(total, mean, target_mean, centred.T @ scaled, scaled.T @ left, spread)


def joined(one: Moments, other: Moments) -> Moments:
    """Return the moments of two sets of rows together."""
    total = one.total + other.total
    if total == 0.0:
        return one
    fraction, step, rise = other.total / total, other.mean - one.mean, other.target_mean - one.target_mean
    weight = one.total * fraction
    mean, target_mean = one.mean + fraction * step, one.target_mean + fraction * rise
    gram = one.gram + other.gram + weight * np.outer(step, step)
    pull, spread = one.pull + other.pull + weight * rise * step, one.spread + other.spread + weight * rise * rise
    return Moments(total, mean, target_mean, gram, pull, spread)


@estimator
class Ridge(LinearRegressor):
    """Least squares with an l2 penalty: one step of Newton's method, which is the normal equations.

    F(w, b) = (1/S) sum_i s_i (x_i'w + b + o_i - y_i)^2 / 2 + (alpha/S) (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    over w in the set, with S the sum of the weights s_i and o_i known offsets: what scikit-learn's Ridge minimises, divided
    by 2 S. The intercept b is neither penalised nor constrained. Each of several targets has its own w and b.

    .. versionchanged:: 0.1.0
       alpha stands against the sum of the losses, as scikit-learn's does, where it stood against their weighted mean:
       `LinearRegressor` with the same alpha is what Ridge was.

    Parameters
    ----------
    alpha : float >= 0, or array_like, shape (K,)
        Strength of the penalty, against the weighted sum of the squares; one for each of K targets where there are several.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, \
bounds, random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `LinearRegressor`. "auto" solves the normal equations where there is neither an l1 penalty nor a constraint.

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, \
cov_params_, standard_errors_
        As in `LinearRegressor`. After `partial_fit`, `n_passes_` and `n_hessian_passes_` are 1 (each part was read once),
        there is no trace, and standard errors are NaN as long as there are no more rows than variables.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]
    >>> whole = Ridge(alpha=1.5).fit(X, y)
    >>> parts = Ridge(alpha=1.5).partial_fit(X[:1], y[:1]).partial_fit(X[1:], y[1:])
    >>> whole.coef_.round(6), parts.coef_.round(6)
    (array([1.142857]), array([1.142857]))
    """

    alpha: Any = field(default=1.0, kw_only=False)
    loss: Any = field(default="squared", init=False)

    def _alphas(self, n_targets: int, total_weight: float) -> list[float]:
        given = [self.alpha] * n_targets if np.ndim(self.alpha) == 0 else list(self.alpha)
        if len(given) != n_targets:
            raise ValueError(f"alpha must be a number, or hold {n_targets}, one for each target, got {len(given)}.")
        for alpha in given:
            elastic_net(alpha, self.l1_ratio)  # raises what is wrong with it
        return [float(alpha) / total_weight for alpha in given]

    def _has_squares_alone(self) -> bool:
        """Return whether nothing but alpha and l1_ratio stands beside the squares."""
        beside = (self.constraint, self.penalty, self.penalty_weights, self.groups, self.bounds)
        return all(given is None for given in beside)

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_alpha_is_of": "sum"}

    def __setstate__(self, state: Any) -> None:
        state = dict(state)
        if state.pop("_alpha_is_of", "mean") != "sum":
            raise ValueError(
                "this Ridge was saved when alpha stood against the mean of the losses. Fit it again: with alpha times the "
                "sum of the weights (the number of rows where there are none), or as LinearRegressor with the same alpha."
            )
        super().__setstate__(state)

    def _note(self, results: list[Result], dtype: Any) -> None:
        self.__dict__.pop("_moments", None)  # a fit forgets the parts
        super()._note(results, dtype)

    @in_kind
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model to these rows and all of the earlier calls together: exactly what `fit` finds on them.

        The first call, and the first after `fit`, forgets all before. d^2 numbers are kept, no rows. The normal equations
        are solved whatever `solver` says. A model with an l1 penalty or a constraint is a ValueError: only the normal
        equations are known from parts. The data are as for `fit`, of one target.
        """
        if elastic_net(self.alpha, self.l1_ratio).lasso() > 0.0 or not self._has_squares_alone():
            raise ValueError("partial_fit needs l1_ratio=0 and no constraint: use fit on all rows.")
        known: Moments | None = getattr(self, "_moments", None)
        X, y, weights = self._checked_fit_data(X, y, sample_weight, reset=known is None)
        part = moments_of(X, without_offset(y, offset), np.ones(X.shape[0]) if weights is None else weights)
        self._moments = part if known is None else joined(known, part)
        self._solve_moments(X.dtype)
        return self

    def _solve_moments(self, dtype: Any) -> None:
        known = self._moments
        (alpha,) = self._alphas(1, known.total)
        hessian, right = known.gram / known.total, known.pull / known.total
        if not self.fit_intercept:
            hessian = hessian + np.outer(known.mean, known.mean)
            right = right + known.target_mean * known.mean
        hessian[np.diag_indices_from(hessian)] += alpha
        coef = solve_spd(hessian, right)
        lacking = hessian @ coef - right
        coef -= solve_spd(hessian, lacking)
        self.coef_ = coef.astype(dtype)
        self.intercept_ = float(known.target_mean - known.mean @ coef) if self.fit_intercept else 0.0
        self.optimality_ = float(np.linalg.norm(hessian @ coef - right))
        self.n_iter_, self.n_passes_, self.n_hessian_passes_, self.solver_ = 1, 1.0, 1.0, "newton"
        missed = 0.0 if self.fit_intercept else float(known.target_mean - known.mean @ coef)
        squares = max(known.spread - 2.0 * float(known.pull @ coef) + float(coef @ known.gram @ coef), 0.0)
        squares += known.total * missed**2
        self.objective_ = 0.5 * (squares / known.total + alpha * float(coef @ coef))
        for name in ("trace_", "cov_params_", "standard_errors_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.standard_errors:
            self._set_errors(squares, hessian, alpha)

    def _set_errors(self, squares: float, hessian: Matrix, alpha: float) -> None:
        known = self._moments
        if self.fit_intercept:
            inverse, rank = with_intercept(Centred(known.gram / known.total, known.mean, 1.0), alpha)
        else:
            inverse, rank = inverse_and_rank(hessian)
        variance = residual_variance(squares, known.total, rank) if known.total > rank else np.nan
        self.cov_params_ = variance / known.total * inverse
        self.standard_errors_ = np.sqrt(np.diagonal(self.cov_params_))
