r"""Safe screens: columns that a duality gap proves to have no coefficient at the minimum, of losses of bounded curvature.

Of F(w, b) = sum_i p_i phi_i(z_i) + sum_j (q_j w_j^2 / 2 + t_j |w_j|), z_i = x_i'w + b + o_i, the dual problem is

    max_theta D(theta) = sum_i p_i (theta_i o_i - phi_i*(theta_i)) - sum_j r_j*(v_j),    v = sum_i p_i theta_i x_i,
    r_j*(v_j) = max(|v_j| - t_j, 0)^2 / (2 q_j),  where q_j = 0 at |v_j| <= t_j alone,

with sum_i p_i theta_i = 0 where there is an intercept. Second derivatives phi'' <= L make phi* strongly convex, so that any
point (w, b) and any theta with the gap G = F(w, b) - D(theta) have the dual solution in a ball around theta [1, 2],

    sum_i p_i (theta_i - theta*_i)^2 <= 2 L G,

and w*_j = 0 where |v*_j| < t_j, hence where

    |v_j| + c_j sqrt(2 L G) < t_j,    c_j^2 = sum_i p_i x_ij^2, or with an intercept sum_i p_i (x_ij - mean_j)^2.

The dual point is that of a primal one: the slopes s_i = phi_i'(z_i), times a number a_i in [0, 1] that makes it feasible.
The slopes above or below 0 are scaled down until their sums cancel, and all of them until |v_j| <= t_j. No conjugate is
needed: phi_i*(s_i) = s_i z_i - phi_i(z_i), and where phi >= 0

    phi_i*(a_i s_i) <= a_i phi_i*(s_i) - a_i (1 - a_i) s_i^2 / (2 L),

of the squared loss with equality. So a screen needs what a gradient has found, and the sizes of the columns, once.

References
----------
.. [1] E. Ndiaye, O. Fercoq, A. Gramfort, J. Salmon, "Gap safe screening rules for sparsity enforcing penalties", JMLR 18
   (2017).
.. [2] O. Fercoq, A. Gramfort, J. Salmon, "Mind the duality gap: safer rules for the Lasso", ICML 2015.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Vector
from finitesum.evaluation.certificates import column_sizes
from finitesum.evaluation.optimality import checked_point
from finitesum.evaluation.row_products import combination, predictions
from finitesum.evaluation.whole_arrays import losses_at
from finitesum.losses import LOSSES
from finitesum.losses.arrays import in_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.partitioned import is_parted

#: What rounding errors may make of a gap, by the numbers that it is made of, and of |v_j|, by t_j and c_j.
OF_GAP, OF_SLOPE = 64.0 * float(np.finfo(np.float64).eps), 1e-10

#: The part of a column's square that its spread is taken to be at least: less is rounding errors of what its mean leaves.
LEAST_SPREAD = 1e-12


class Gap(NamedTuple):
    """What a point proves of the minimum."""

    size: float  # F there less the dual objective: F is at most as much above its minimum; infinite where nothing is known
    slopes: Vector  # (d,)  bounds of the |v_j| of the dual point


def has_gap(problem: Problem) -> bool:
    """Return whether duality gaps are known: of a convex loss >= 0 of one output with an l1 penalty on every column."""
    term = problem.term
    is_net = term.is_elastic_net and term.has_l1 and not term.is_constrained
    is_known = type(problem.loss) in LOSSES.values() and problem.loss.is_smooth() and problem.convex
    in_memory = problem.n_outputs == 1 and not is_parted(problem)
    return is_net and is_known and in_memory and bool((term.thresholds[: term.n_columns] > 0.0).all())


def has_screen(problem: Problem) -> bool:
    """Return whether columns can be screened: where `has_gap` holds and the loss has a bound on its curvature."""
    return has_gap(problem) and math.isfinite(problem.loss.curvature_bound())


@remembered_of_rows
def column_spreads(problem: Problem) -> Vector:
    """Return c_j, the root of the weighted mean of a column's squares, less its mean where there is an intercept, (d,)."""
    sizes = column_sizes(problem)
    if not problem.has_intercept:
        return sizes
    squares = sizes * sizes
    means = combination(problem, problem.weights)[: sizes.size]
    return np.asarray(np.sqrt(np.maximum(squares - means * means, LEAST_SPREAD * squares)))


def gap_at(problem: Problem, w: Vector, scores: Vector, slopes: Vector, values: Vector, gradient: Vector) -> Gap:
    """Return the duality gap of a point and of the slopes of the losses there, made feasible.

    Parameters
    ----------
    problem : Problem
        For which `has_gap` holds.
    w : ndarray, shape (dim,)
    scores : ndarray, shape (n,)
        x_i'w + b + o_i.
    slopes, values : ndarray, shape (n,)
        p_i phi_i' and p_i phi_i at the scores.
    gradient : ndarray, shape (dim,)
        sum_i slopes_i x_i: that of the mean loss, without the penalty.

    Returns
    -------
    Gap

    Examples
    --------
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared", alpha=0.5, l1_ratio=1.0, fit_intercept=False)
    >>> gap_at(problem, np.array([0.5]), np.array([0.5, 1.5]), np.array([0.25, -0.25]), np.array([0.0625, 0.0625]),
    ...        np.array([-0.5])).size < 1e-13
    True
    """
    term, d, bound = problem.term, problem.rows.n_columns, problem.loss.curvature_bound()
    thresholds, quadratic, coefficients = term.thresholds[:d], term.quadratic[:d], w[:d]
    with np.errstate(all="ignore"):
        of_rows = slopes * slopes / np.where(problem.weights > 0.0, problem.weights, 1.0)  # p_i s_i^2
        size = math.sqrt(float(of_rows.sum()))
        factors, moved = _balanced(problem, slopes, of_rows)
        largest = np.abs(gradient[:d])
        if moved > 0.0:
            largest = largest + column_sizes(problem) * moved
        linear = scores - problem.offsets - (w[d] if problem.has_intercept else 0.0)  # x_i'w
        of_penalty = float(thresholds @ np.abs(coefficients) + 0.5 * (quadratic @ (coefficients * coefficients)))
        feasible = min(1.0, float((thresholds / np.maximum(largest, 1e-300)).min(initial=1.0)))

        def gap(scale: float) -> float:
            a = scale * factors
            of_scaling = float(((1.0 - a) * (values - a * of_rows / (2.0 * bound))).sum())
            excess = np.maximum(scale * largest * (1.0 - 1e-15) - thresholds, 0.0)
            of_conjugate = float((excess * excess / (2.0 * quadratic)).sum()) if term.ridge > 0.0 else 0.0
            return of_scaling + float((a * slopes) @ linear) + of_penalty + of_conjugate

        scale = feasible
        if term.ridge > 0.0 and gap(1.0) < gap(feasible):
            scale = 1.0
        of_columns = float(np.abs(coefficients).sum()) * size
        numbers = float(values.sum()) + of_penalty + float(np.abs(slopes) @ (np.abs(scores) + np.abs(problem.offsets)))
        found = max(gap(scale), 0.0) + OF_GAP * (numbers + of_columns)
    return Gap(found if math.isfinite(found) else math.inf, scale * largest)


def _balanced(problem: Problem, slopes: Vector, of_rows: Vector) -> tuple[Vector, float]:
    """Return factors in [0, 1] that bring the slopes' sum to 0 beside an intercept, and what they change them by."""
    factors = np.ones(slopes.size)
    if not problem.has_intercept:
        return factors, 0.0
    is_rising = slopes > 0.0
    rising, falling = float(slopes[is_rising].sum()), -float(slopes[~is_rising].sum())
    if max(rising, falling) > 0.0:
        factors = np.where(is_rising, min(1.0, falling / max(rising, 1e-300)), min(1.0, rising / max(falling, 1e-300)))
    change = 1.0 - factors
    return factors, math.sqrt(float((change * change) @ of_rows))


def screened(problem: Problem, known: Gap) -> Flags:
    """Return which columns have no coefficient at any minimum of F, shape (d,): none where nothing is known.

    Examples
    --------
    >>> problem = Problem.linear([[1.0, 0.2], [3.0, 0.1]], [0.0, 2.0], loss="squared", alpha=0.5, l1_ratio=1.0)
    >>> screened(problem, Gap(1e-3, np.array([0.5, 0.1])))
    array([False,  True])
    """
    d = problem.rows.n_columns
    if not math.isfinite(known.size):
        return np.zeros(d, dtype=bool)
    thresholds, spreads = problem.term.thresholds[:d], column_spreads(problem)
    radius = math.sqrt(2.0 * problem.loss.curvature_bound() * known.size)
    reach = known.slopes + spreads * radius
    return np.asarray(reach < thresholds - OF_SLOPE * (thresholds + spreads * radius + known.slopes))


def certified_zeros(problem: Problem, w: Vector) -> Flags:
    """Return which columns a point proves to have no coefficient at any minimum of F, by one pass over the data.

    Parameters
    ----------
    problem : Problem
        With one output, an l1 penalty on every column, no set, and a loss of bounded curvature of the library's.
    w : array_like, shape (dim,)
        Any point, the intercept last; the nearer to the minimum, the more columns it proves.

    Returns
    -------
    ndarray of bool, shape (d,)
        True where every minimiser has a coefficient of 0; False says nothing.

    Raises
    ------
    ValueError
        The problem is another one, or w does not hold dim numbers.

    Examples
    --------
    >>> from finitesum import minimize
    >>> problem = Problem.linear([[1.0, 0.2], [3.0, 0.1]], [0.0, 2.0], loss="squared", alpha=0.5, l1_ratio=1.0)
    >>> certified_zeros(problem, minimize(problem, tol=1e-8).x)
    array([False,  True])
    """
    if not has_screen(problem):
        raise ValueError(
            "zeros are certified for one output, an l1 penalty on every column, no set, rows in memory and a smooth convex "
            "loss of bounded curvature that is the library's own. See finitesum.evaluation.screens."
        )
    w = checked_point(problem, w)
    at = predictions(problem, w) + problem.offsets
    with np.errstate(all="ignore"):
        found = losses_at(in_arrays(problem.loss), problem.targets, at, 0)
        slopes, values = (np.where(problem.weights > 0.0, problem.weights * part, 0.0) for part in (found[0], found[2]))
    return screened(problem, gap_at(problem, w, at, slopes, values, combination(problem, slopes)))
