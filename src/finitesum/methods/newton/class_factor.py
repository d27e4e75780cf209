r"""The Cholesky factor of a Hessian of several classes, as the metric of L-BFGS: when it pays, and of how many rows.

L-BFGS reads the data once a step, and where few directions of small curvature are left to find its steps become many. A
Hessian H costs K (K - 1) / 2 products of the rows, its factor ((K - 1) d)^3 / 3 multiplications and additions, and a step
by it needs ((K - 1) d)^2 more; it leaves about a fraction e of the gradient where it is made of n_s rows:

    e = STALE + 2 sqrt(d / n_s) (1 - n_s / n)

as measured on dense data: the first for what changes between there and the minimum. After some steps with the present
metric, their rate says how many are left to tol; H is made where those would take longer than it, its factor and the steps
with it, with the n_s for which that is least. A rate is no more than a guess far from the minimum, where sizes of gradients
say little: a run has taken a part of the time of H before. Rows are taken by their curvature, which near the minimum few
have.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.class_hessians import hessian_of_differences, rows_that_count
from finitesum.evaluation.row_space import divided_in_row_space, is_wide, row_space
from finitesum.methods.class_costs import FACTOR, nanoseconds_of_factor, nanoseconds_of_pass, order_of_factor
from finitesum.methods.subproblems.positive_definite import apply_inverse, raised_factor
from finitesum.problems.linear import Problem

#: Variables up to which there may be a factor, and from which it is in single precision.
MOST_VARIABLES, LEAST_SINGLE = 8000, 200

#: Steps by which the rate of a metric is known, and those at most that it is taken over.
LEAST_STEPS, MOST_STEPS = 5, 12

#: What a Hessian of all rows leaves of the gradient in a step, and the most that one of some rows may.
STALE, MOST_LEFT = 0.2, 0.9

#: How many times its cost a Hessian in the span of few rows must save: steps there become fewer by themselves, because
#: their metric of low rank is made again as curvatures change.
CAUTION = 2.0

#: The part of a Hessian's time that a run has taken before, and the nanoseconds of a step beside its pass.
PART, BESIDE = 0.5, 3e5

#: The optimality below which rounding errors are what is left.
LEAST_TOL = 1e-12

#: Nanoseconds, on one core, of a multiplication and addition in a solve.
SOLVE = 1.2

NO_FACTOR: Any = np.zeros((0, 0), np.float32)


class ClassFactor(NamedTuple):
    """A factor, empty where there is none, and what steps since then left of the gradient."""

    lower: Matrix = NO_FACTOR  # ((K - 1) dim, (K - 1) dim)
    sizes: Vector = np.zeros(MOST_STEPS + 1)  # norms of the last gradients since the metric changed, behind zeros


def with_size(factor: ClassFactor, size: float) -> ClassFactor:
    """Return the factor after a step that left a gradient of a size."""
    return factor._replace(sizes=np.append(factor.sizes[1:], size))


def _digits_and_rate(factor: ClassFactor, tol: float) -> tuple[float, float]:
    """Return what is left to a tolerance and what a step takes of it, as logarithms; nothing is left after few steps."""
    sizes = factor.sizes[factor.sizes > 0.0]
    if sizes.size <= LEAST_STEPS:
        return 0.0, 1.0
    best = float(sizes[1:].min())
    digits = math.log(max(best / max(tol, LEAST_TOL), 1.0))
    return digits, math.log(max(float(sizes[0]) / best, 1.0 + 1e-9)) / (sizes.size - 1)


def steps_left(factor: ClassFactor, tol: float) -> float:
    """Return how many steps are left to a tolerance, by the rate of the last ones; 0 after few."""
    digits, rate = _digits_and_rate(factor, tol)
    return digits / rate


def rows_wanted(problem: Problem, factor: ClassFactor, tol: float, n_passes: float, *, is_single: bool) -> int:
    """Return of how many rows a Hessian is to be made before the next step; 0 where none pays.

    n_passes are those of the run so far.
    """
    (digits, rate), order = _digits_and_rate(factor, tol), order_of_factor(problem)
    if digits == 0.0 or order > MOST_VARIABLES or not several.loss_of(problem).ignores_shifts():
        return 0
    a_pass = nanoseconds_of_pass(problem, is_single=is_single)
    a_solve = SOLVE * order**2
    now = digits / rate * (a_pass + (a_solve if factor.lower.size else 0.0))
    n, dim = problem.n_rows, order // (problem.n_outputs - 1)
    caution = CAUTION if is_wide(problem) else 1.0
    if caution * FACTOR * float(order) ** 3 >= now:  # whatever the rows
        return 0
    rows = np.append(8.0 * dim * 2.0 ** np.arange(0.0, 8.0, 0.5), n)
    rows = rows[(rows < 0.7 * n) | (rows == n)]
    left = np.minimum(STALE + 2.0 * np.sqrt(dim / rows) * (1.0 - rows / n), MOST_LEFT)
    if is_wide(problem):
        a_solve += a_pass  # into the span of the rows, and out of it
    of_factor = nanoseconds_of_factor(problem, rows)
    then = of_factor + (1.0 + digits / -np.log(left)) * (a_pass + a_solve)
    best = int(then.argmin())
    return int(rows[best]) if caution * then[best] < now and PART * of_factor[best] <= n_passes * (a_pass + BESIDE) else 0


def factor_at(problem: Problem, scores: Matrix, n_wanted: int) -> tuple[ClassFactor, int]:
    """Return the factor of the Hessian at given scores, of a sample of rows, and how many they were."""
    chances = several.loss_of(problem).curvatures(scores)
    rows, weights = rows_that_count(problem, chances, n_wanted)
    is_large = order_of_factor(problem) >= LEAST_SINGLE
    for kind in (np.float32, np.float64)[not is_large :]:
        with np.errstate(all="ignore"):  # too large for single precision, or after an overflow
            hessian = class_hessian(problem, chances, rows, weights, kind)
        if np.isfinite(np.diagonal(hessian)).all() and np.isfinite(hessian.sum()):
            return ClassFactor(raised_factor(hessian, 0.0)[0]), rows.size
    return ClassFactor(), rows.size


def class_hessian(problem: Problem, chances: Matrix, rows: Indices | None, weights: Vector | None, kind: Any) -> Matrix:
    """Return `hessian_of_differences`, with few rows that in their span."""
    return hessian_of_differences(row_space(problem).inside if is_wide(problem) else problem, chances, rows, weights, kind)


def divided(problem: Problem, factor: ClassFactor, right: Vector) -> Vector:
    """Return the inverse of the Hessian times a vector; without a penalty, nothing for the mean over the classes."""
    if not is_wide(problem):
        return _divided(problem, factor, right)
    found = divided_in_row_space(problem, lambda inside: _divided(row_space(problem).inside, factor, inside), right)
    return np.asarray(found, right.dtype)


def _divided(problem: Problem, factor: ClassFactor, right: Vector) -> Vector:
    table = right.reshape(problem.n_outputs, -1)
    mean, ridge = table.mean(axis=0), problem.term.quadratic[: table.shape[1]]
    kind = factor.lower.dtype
    found = apply_inverse(factor.lower, (table - mean)[:-1].reshape(-1).astype(kind)).astype(right.dtype)
    out = np.zeros(table.shape, right.dtype)
    out[:-1] = found.reshape(problem.n_outputs - 1, -1)
    out -= out.mean(axis=0)
    out += np.where(ridge > 0.0, mean / np.where(ridge > 0.0, ridge, 1.0), 0.0)
    return out.reshape(-1)
