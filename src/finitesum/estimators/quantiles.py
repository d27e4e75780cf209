"""Quantile regression: what a part q of the targets is below."""

from dataclasses import field
from typing import Any

from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.regressors import LinearRegressor
from finitesum.losses import Loss, Quantile, as_loss


@estimator
class QuantileRegressor(LinearRegressor):
    """Linear regression of a quantile, exact by interior points.

    F(w, b) = (1/S) sum_i s_i max(q r_i, (q - 1) r_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),  r_i = y_i -
    x_i'w - b - o_i

    over w in the set, with S the sum of the weights s_i and o_i known offsets: scikit-learn's objective where l1_ratio is
    1, with the same alpha. A part q of the targets is below x'w + b + o; q = 1/2 is the median, and F half the mean
    absolute error. The intercept b is neither penalised nor constrained. `Ridge` and `HuberRegressor` are for means.

    Parameters
    ----------
    quantile : float in (0, 1)
        q.
    alpha : float >= 0
        Strength of the penalty, against the weighted mean of the losses.
    l1_ratio : float in [0, 1]
        1 is the l1 penalty, 0 the l2 penalty.
    solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, bounds, \
random_state, verbose, warm_start, n_threads, callback, measure_every
        As in `LinearRegressor`. "auto" is "interior-point", with an l2 penalty alone dual methods; `tol` is a duality gap.
    standard_errors : bool
        False: the loss is the likelihood of no model. Resample rows instead.

    Attributes
    ----------
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearRegressor`.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.0, 2.0, 3.0, 40.0]
    >>> model = QuantileRegressor(alpha=0.0).fit(X, y)
    >>> model.predict([[4.0]]).round(6)
    array([4.])
    """

    loss: Any = field(default="quantile", init=False)
    quantile: float = 0.5
    alpha: float = 1.0
    l1_ratio: float = 1.0

    def _loss(self) -> Loss:
        return as_loss(Quantile(self.quantile))
