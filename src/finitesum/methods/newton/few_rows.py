"""Newton's steps with fewer rows than columns and an l2 penalty: by the n x n matrix of products of rows, K = X X'.

With predictions f = X w + b, slopes s_i = p_i phi'_i and curvatures D = diag(p_i phi''_i) at w, the minimiser of the
model of F there is w+ = X'z, with an intercept b+, where

    l2 z + D (K z + b+ 1) = D f - s,    1'z = 0 (where there is an intercept).

It is found by a Cholesky factor of l2 I + D^(1/2) K D^(1/2), of the rows whose curvature is not 0; of the others z_i is
-s_i / l2. No matrix of d^2 numbers is formed [1, section 3.4]. In f and z the steps that follow read no row: F is the mean
loss at f and l2/2 z'K z, and its gradient X'(s + l2 z). So several are taken where reading the rows costs more.

The rounding errors of w+ are those of l2 z and D f, which cancel in the gradient. Where a gradient (g, g_b) is known in
extended precision, the step from w is found from it, -(g + X't) / l2 and q for the intercept, where

    l2 t + D (K t - l2 q 1) = -D X g,    1't = -g_b.

References
----------
.. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian processes for machine learning", 2006.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.row_products import combination, predictions
from finitesum.evaluation.row_space import products_of_rows
from finitesum.evaluation.whole_arrays import losses_at
from finitesum.losses.arrays import in_arrays
from finitesum.methods.cost_model import costs_by_products
from finitesum.methods.snapshot import Snapshot
from finitesum.methods.subproblems.positive_definite import apply_inverse, raised_factor
from finitesum.problems.linear import Problem

#: Rows of curvatures below this part of the largest have none.
NO_CURVATURE = 1e-20

#: Steps in one pass, at most; the part of the optimality, and the one of tol, that are left at their end.
MOST_STEPS, AS_GOOD_AS_NOTHING, PART_OF_TOL = 25, 1e-12, 0.1


class Duals(NamedTuple):
    """A point w = X'z, with an intercept."""

    z: Vector  # (n,)
    intercept: float
    predictions: Vector  # K z + intercept


def end_of_steps(problem: Problem, here: Snapshot, tol: float, *, is_one: bool) -> tuple[Vector, int]:
    """Return the point at the end of a step from a snapshot, or of several while F falls, and how many they were.

    They end where the gradient is a tenth of tol, as z has it: what w's own is, a pass over the rows says.
    """
    costs = costs_by_products(problem)
    most = 1 if is_one else min(costs.steps_a_pass(), MOST_STEPS)
    weights, targets, loss = problem.weights, problem.targets, in_arrays(problem.loss)
    at, value, n_steps = predictions(problem, here.point), math.inf, 1
    best = after = minimiser(problem, at, weights * here.slopes, weights * here.curvatures)
    enough = max(AS_GOOD_AS_NOTHING * here.optimality, PART_OF_TOL * tol)
    while n_steps < most:
        found = losses_at(loss, targets, after.predictions + problem.offsets, 0)
        kept = weights > 0.0
        slopes, curvatures = (np.where(kept, weights * part, 0.0) for part in (found.slopes, found.curvatures))
        before, value = value, float(weights[kept] @ found.values[kept]) + penalty_at(problem, after)
        if not value < before:
            break
        best = after
        left = slopes + problem.term.ridge * after.z
        square = float(left @ (products_of_rows(problem) @ left)) + problem.has_intercept * float(slopes.sum()) ** 2
        has_lines = bool((slopes[curvatures == 0.0] != 0.0).any())  # which a majorant's curvature has to bend
        if has_lines or not square > enough**2:
            break
        after, n_steps = minimiser(problem, after.predictions, slopes, curvatures), n_steps + 1
    else:
        best = after
    end = combination(problem, best.z)
    if problem.has_intercept:
        end[-1] = best.intercept
    return end, n_steps


def step_from_gradient(problem: Problem, curvatures: Vector, gradient: Vector) -> Vector:
    """Return the step to the minimiser of the model with these phi''_i whose gradient is a given one."""
    ridge, columns = problem.term.ridge, problem.rows.n_columns
    if not (np.isfinite(curvatures).all() and np.isfinite(gradient).all()):
        return np.full(gradient.size, np.nan)
    curved, roots, factor = _curved(problem, problem.weights * curvatures)
    changes = np.concatenate([gradient[:columns], np.zeros(gradient.size - columns)])
    of_rows, t, q = -predictions(problem, changes)[curved], np.zeros(problem.n_rows), 0.0
    of_gradient = apply_inverse(factor, roots * of_rows)
    if problem.has_intercept and curved.size:
        of_ones = apply_inverse(factor, roots)
        q = -float(gradient[-1] + roots @ of_gradient) / float(roots @ of_ones)
        of_gradient += q * of_ones
    t[curved] = roots * of_gradient
    step = (gradient + combination(problem, t)) / -ridge
    if problem.has_intercept:
        step[-1] = q / ridge
    return step


def penalty_at(problem: Problem, point: Duals) -> float:
    """Return l2/2 ||w||^2 of the coefficients w = sum_i z_i x_i."""
    return 0.5 * problem.term.ridge * float(point.z @ (point.predictions - point.intercept))


def minimiser(problem: Problem, at: Vector, slopes: Vector, curvatures: Vector) -> Duals:
    """Return the minimiser of the model of F where predictions, slopes p_i phi'_i and curvatures p_i phi''_i are these."""
    products, ridge = products_of_rows(problem), problem.term.ridge
    if not (np.isfinite(at).all() and np.isfinite(slopes).all() and np.isfinite(curvatures).all()):
        return Duals(np.full(at.size, np.nan), math.nan, at)
    curved, roots, factor = _curved(problem, curvatures)
    z = slopes / -ridge
    right = curvatures * at - slopes
    z[curved] = 0.0
    if curved.size < at.size:
        right -= curvatures * (products @ z)
    of_right, intercept = apply_inverse(factor, right[curved] / roots), 0.0
    if problem.has_intercept and curved.size:
        of_ones = apply_inverse(factor, roots)
        intercept = float((z.sum() + roots @ of_right) / (roots @ of_ones))
        of_right -= intercept * of_ones
    z[curved] = roots * of_right
    return Duals(z, intercept, products @ z + intercept)


def _curved(problem: Problem, curvatures: Vector) -> tuple[Indices, Vector, Matrix]:
    """Return the rows with a curvature p_i phi''_i, its roots, and the factor of l2 I + D^(1/2) K D^(1/2)."""
    products = products_of_rows(problem)
    curved = np.flatnonzero(curvatures > NO_CURVATURE * float(curvatures.max(initial=0.0)))
    roots = np.sqrt(curvatures[curved])
    matrix = products * roots if curved.size == len(products) else products[np.ix_(curved, curved)] * roots
    matrix *= roots[:, None]
    matrix.flat[:: curved.size + 1] += problem.term.ridge
    return curved, roots, raised_factor(matrix, 0.0)[0]
