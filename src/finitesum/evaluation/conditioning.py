"""What makes a problem hard: columns of different size, collinear ones, rounding errors. Said where runs end above tol.

How alike columns are says beforehand what methods without a matrix are likely to need.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.outputs import full_hessian, loss_of, scores_at
from finitesum.evaluation.rounding import gradient_rounding
from finitesum.evaluation.row_products import gram_diagonal
from finitesum.problems.finite_sum import AnyProblem
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import n_entries, some_rows, to_matrix

#: What is reported: a factor between columns' sizes, a condition number of the scaled Hessian, and rounding errors
#: as a fraction of the optimality reached.
SIZES, CONDITION, ROUNDING = 1e3, 1e6, 0.1

#: Columns, and products of two entries, up to which the Hessian is formed: some seconds.
MOST_COLUMNS, MOST_WORK = 1000, 5e10

#: Numbers of the rows that are compared with each other, and those rows, at least and at most.
COMPARED_NUMBERS, LEAST_COMPARED, MOST_COMPARED = 2e5, 32.0, 64.0

EPSILON = float(np.finfo(np.float64).eps)


@remembered_of_rows
def redundancy_of(problem: Problem) -> float:
    """Return about tr(R^2) / tr(R), R being the second moments of the columns, each divided by its root mean square.

    It is 1 where columns are orthogonal and grows up to their number: where it is small, conjugate gradients with a
    diagonal preconditioner are fast. (u_i'u_j)^2 of two independent rows is tr(R^2) on average; some rows are looked at.
    R is that of many more rows than there are: of n rows tr(R^2) / tr(R) itself is larger, by about d / n.

    Examples
    --------
    >>> redundancy_of(Problem.linear(np.ones((200, 3)), np.arange(200) % 2))
    3.0
    """
    return _redundancy(problem, is_centred=False)


@remembered_of_rows
def centred_redundancy_of(problem: Problem) -> float:
    """Return the same of columns less their means where there is an intercept, as coordinate descent has them.

    Examples
    --------
    >>> problem = Problem.linear(np.ones((200, 3)), np.arange(200) % 2, fit_intercept=True)
    >>> redundancy_of(problem), centred_redundancy_of(problem)
    (3.0, 1.0)
    """
    return _redundancy(problem, is_centred=problem.has_intercept)


def _redundancy(problem: Problem, *, is_centred: bool) -> float:
    """Return what `redundancy_of` says, of columns less their means where these are asked for."""
    counted = np.flatnonzero(problem.weights)
    entries = max(n_entries(problem.rows) / problem.n_rows, 1.0)
    m = int(min(counted.size, MOST_COMPARED, max(COMPARED_NUMBERS / entries, LEAST_COMPARED)))
    rows = some_rows(problem.rows, counted[np.linspace(0, counted.size, m, endpoint=False, dtype=np.int64)])
    with np.errstate(all="ignore"):
        matrix = to_matrix(rows).astype(np.float64)
        squares = np.asarray((matrix * matrix).sum(axis=0)) / m
        if is_centred:
            variances = squares - np.asarray(matrix.mean(axis=0)) ** 2
            squares = np.where(variances > 1e-12 * squares, variances, 0.0)
        scales = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0)
        scaled = matrix.multiply(scales).tocsr() if rows.is_sparse() else matrix * scales
        products = scaled @ scaled.T
        products = products.toarray() if rows.is_sparse() else products
        if is_centred:
            means = products.mean(axis=0)
            products = products - means - means[:, None] + means.mean()
        products = np.square(products)
        mean = (products.sum() - np.trace(products)) / max(m * (m - 1), 1)
        return float(np.nan_to_num(np.maximum(mean / max(np.count_nonzero(squares), 1), 1.0), nan=1.0, posinf=1.0))


class Conditioning(NamedTuple):
    """What a point's surroundings are like."""

    sizes: float  # largest root mean square of a column by the smallest
    condition: float  # number of the Hessian, scaled to a diagonal of ones; NaN where it was not formed
    rounding: float  # a bound of the norm of the rounding errors in the gradient; NaN with several outputs
    spacing: float  # what coefficients lose of the optimality by being rounded, typically; NaN where it is not known


def _condition(hessian: Matrix) -> float:
    """Return the condition number of a Hessian that is scaled to a diagonal of ones; NaN where it is 0 or not finite."""
    if not np.isfinite(hessian).all():
        return math.nan
    diagonal = np.diagonal(hessian)
    kept = np.flatnonzero(diagonal > 0.0)
    scale = 1.0 / np.sqrt(diagonal[kept])
    if not (kept.size and np.isfinite(scale).all()):
        return math.nan
    scaled = hessian[np.ix_(kept, kept)] * scale[:, None] * scale
    if not np.isfinite(scaled).all():
        return math.nan
    values = np.linalg.eigvalsh(scaled)
    return float(values[-1] / values[0]) if values[0] > EPSILON * values[-1] else math.inf


def _hessian(problem: Problem, w: Vector) -> Matrix:
    """Return the Hessian at w; where shifts of all classes change nothing, in the coefficients of all but the last."""
    if problem.n_outputs == 1:
        return hessian_at(problem, w)
    loss = loss_of(problem)
    n_kept = problem.dim - (problem.one_output.dim if loss.ignores_shifts() else 0)
    return full_hessian(problem, loss.curvatures(scores_at(problem, w)))[:n_kept, :n_kept]


def _of_spacing(problem: Problem, hessian: Matrix, w: Vector) -> float:
    """Return the root mean square of H times an error of rounding, over the coordinates that are at no bound."""
    bounds, free = problem.term.intervals, w != 0.0
    if bounds is not None:
        free &= (w != bounds.lower) & (w != bounds.upper)
    return float(np.linalg.norm(hessian[np.ix_(free, free)] * np.spacing(np.abs(w[free])))) / math.sqrt(12.0)


def conditioning_at(problem: Problem, w: Vector) -> Conditioning:
    """Return how well conditioned a problem with a smooth loss is at w."""
    one = problem.one_output
    squares = gram_diagonal(one, np.ones(problem.n_rows))
    used = squares[squares > 0.0]
    sizes = math.sqrt(used.max() / used.min()) if used.size else 1.0
    is_formed = problem.dim <= MOST_COLUMNS and n_entries(one.rows) ** 2 / problem.n_rows <= MOST_WORK
    condition = rounding = spacing = math.nan
    if is_formed:
        condition = _condition(hessian := _hessian(problem, w))
    if problem.n_outputs == 1:
        rounding, spacing = gradient_rounding(problem, w), _of_spacing(problem, hessian, w) if is_formed else math.nan
    return Conditioning(sizes, condition, rounding, spacing)


def why_hard(problem: AnyProblem, w: Vector, optimality: float, rounding: float = math.nan) -> str:
    """Return what keeps a run from coming closer to the minimum than this, "" where the problem is not to blame.

    `rounding` bounds what rounding errors put into the optimality, where that is known already.
    """
    if not isinstance(problem, Problem) or not problem.loss.is_smooth() or not np.isfinite(w).all():
        return ""
    with np.errstate(all="ignore"):
        found = conditioning_at(problem, w)
    facts = []
    if found.sizes > SIZES:
        facts.append(f"columns differ in size by a factor of {found.sizes:.0e}")
    if found.condition > CONDITION:
        number = "beyond 1e15" if found.condition > 1e15 else f"about {found.condition:.0e}"
        facts.append(f"the Hessian's condition number is {number} with columns scaled to one size")
    rounding = rounding if math.isnan(found.rounding) else found.rounding
    if rounding > ROUNDING * optimality:
        facts.append(f"rounding errors alone may be {rounding:.0e}")
    if found.spacing > ROUNDING * optimality:
        facts.append(f"coefficients rounded to float64 leave about {found.spacing:.0e}")
    if not facts:
        return ""
    return (
        f"The problem is ill-conditioned: {'; '.join(facts)}. Scale the columns of X, drop nearly collinear ones, raise "
        "alpha, or loosen tol."
    )
