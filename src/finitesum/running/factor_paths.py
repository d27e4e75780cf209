"""The path of a fold with one output by factors that stay: solutions for falling strengths, to parts of a standard error.

Steps are Newton's, solved to a part of their gradient by conjugate gradients with the factor of an earlier Hessian as the
preconditioner: where classes are nearly separated, Hessians of falling strengths differ by little more than their sizes,
and few products are enough. It is made at the start, and again once products have taken as much longer than few by a new
one would as making that does. A strength begins where the last step of the one before did, or at the point to which the
last two solutions lead, on a line over the logarithm of the strength. It is solved where the step at hand, which leads to
the point that is returned, is small (`finitesum.running.accuracy`).
"""

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.row_products import combination, predictions
from finitesum.evaluation.whole_arrays import losses_at
from finitesum.losses.arrays import in_arrays
from finitesum.methods.cost_model import costs_of
from finitesum.methods.subproblems.conjugate_gradients import advanced, begun, redirected
from finitesum.methods.subproblems.line_search import halved
from finitesum.methods.subproblems.positive_definite import apply_inverse, raised_factor
from finitesum.problems.linear import Problem
from finitesum.running.accuracy import decrement_of, is_near
from finitesum.running.rough_paths import RoughPath, point_ahead

#: Steps and products of a strength, after which the rest is left to others.
MOST_STEPS, MOST_PRODUCTS = 50, 1000

#: What conjugate gradients leave of the gradient, in the norm of their preconditioner.
LEFT = 0.3

#: Products that a step by a new factor is taken to need, and nanoseconds of the calls of one, and of a multiplication and
#: addition in a solve.
FEW_PRODUCTS, OF_PRODUCT, SOLVE = 2, 1e5, 1.0

#: Hessians and products of a strength, and products by Newton-CG in their place, as they were seen on columns with one to
#: five rows for each.
HESSIANS, PRODUCTS, BY_NEWTON_CG = 0.4, 6.0, 40.0

#: Columns up to which a fold may have a Hessian, whatever it takes.
MOST_COLUMNS = 5000


class _At(NamedTuple):
    """A point with what its losses are there."""

    x: Vector
    predictions: Vector  # without offsets
    curvatures: Vector  # times the weights
    gradient: Vector  # of F
    value: float  # of F


class _Metric(NamedTuple):
    """A factor, and nanoseconds that products since it was made took more than by a new one."""

    factor: Matrix
    excess: float = 0.0


def has_hessians(problem: Problem) -> bool:
    """Return whether a path is to have Hessians and factors: where these are likely to take less time than Newton-CG."""
    by_products = BY_NEWTON_CG * (float(problem.n_rows) * costs_of(problem).gradient + OF_PRODUCT)
    return nanoseconds_by_factors(problem) <= by_products and problem.dim <= MOST_COLUMNS


def nanoseconds_by_factors(problem: Problem) -> float:
    """Return the nanoseconds of a strength of a path."""
    return HESSIANS * _nanoseconds_of_factor(problem) + PRODUCTS * _nanoseconds_of_product(problem)


def _nanoseconds_of_factor(problem: Problem) -> float:
    """Return the nanoseconds of a Hessian and its factor."""
    costs = costs_of(problem)
    return float(problem.n_rows * costs.hessian + costs.factor)


def _nanoseconds_of_product(problem: Problem) -> float:
    """Return the nanoseconds of a product of conjugate gradients, with a solve by the factor."""
    return OF_PRODUCT + 2.0 * problem.n_rows * costs_of(problem).gradient + SOLVE * float(problem.dim) ** 2


def solve_by_factors(problems: list[Problem], start: Vector, total: float, tol: float, accuracy: float) -> RoughPath:
    """Return the solutions of problems that differ in the strength of an l2 penalty, which falls.

    The arguments are those of `finitesum.running.rough_paths.solve_roughly`.
    """
    first, m = problems[0], len(problems)
    found = RoughPath(np.zeros((m, first.dim)), np.zeros(m), np.zeros(m, dtype=bool))
    enough = decrement_of(first, total, accuracy)
    with np.errstate(all="ignore"):  # steps that are too long show in F
        here = _at(first, start.copy(), predictions(first, start))
        metric = _Metric(_factor_at(first, here))
        for k, problem in enumerate(problems):
            n_read = int(k == 0)
            if k >= 1:
                here = _with_penalty(problem, problems[k - 1], here)
            if k >= 2 and (end := point_ahead(problems[k - 2 : k + 1], found.points[k - 2 : k])) is not None:
                there = _at(problem, end, predictions(problem, end))
                here, n_read = there if there.value < here.value else here, 1
            here, metric, solution, n_passes = _solved(problem, here, metric, enough, accuracy, tol)
            found.n_passes[k] = n_read + n_passes
            if solution is None:
                break
            found.points[k], found.is_solved[k] = solution, True
    return found


def _at(problem: Problem, x: Vector, of_x: Vector) -> _At:
    """Return a point, given its predictions."""
    losses = losses_at(in_arrays(problem.loss), problem.targets, of_x + problem.offsets, 0)
    slopes, curvatures, values = (np.where(problem.weights > 0.0, problem.weights * part, 0.0) for part in losses)
    gradient = combination(problem, slopes) + problem.term.quadratic * x
    return _At(x, of_x, curvatures, gradient, float(values.sum()) + problem.term.value(x))


def _with_penalty(problem: Problem, last: Problem, here: _At) -> _At:
    """Return a point of the last problem as one of a problem with another strength of its penalty."""
    more = problem.term.quadratic - last.term.quadratic
    return here._replace(gradient=here.gradient + more * here.x, value=here.value + 0.5 * float(more @ here.x**2))


def _factor_at(problem: Problem, here: _At) -> Matrix:
    hessian = gram(problem, here.curvatures)
    hessian.flat[:: problem.dim + 1] += problem.term.quadratic
    return raised_factor(hessian, 0.0)[0]


def _solved(
    problem: Problem, here: _At, metric: _Metric, enough: float, accuracy: float, tol: float
) -> tuple[_At, _Metric, Vector | None, int]:
    """Return the point before the step that leads to the solution, the metric, the solution or None, and passes."""
    n_passes = 0
    for _ in range(MOST_STEPS):
        if float(np.linalg.norm(here.gradient)) <= tol:
            return here, metric, here.x, n_passes
        direction, n_products = _step(problem, here, metric.factor, MOST_PRODUCTS - n_passes)
        n_passes += n_products
        squared = -float(here.gradient @ direction)
        if not squared > 0.0 or n_passes >= MOST_PRODUCTS:
            break
        if squared <= enough**2 and is_near(problem, here.x, direction, accuracy):
            return here, metric, here.x + direction, n_passes
        there = _along(problem, here, direction, squared)
        if np.array_equal(there.x, here.x) or not np.isfinite(there.gradient).all():
            break
        here = there
        n_passes += 1
        metric = _after(problem, here, metric, n_products)
    return here, metric, None, n_passes


def _step(problem: Problem, here: _At, factor: Matrix, most: int) -> tuple[Vector, int]:
    """Return v with H v = -g up to a part of g, and how many products that took."""
    cg = begun(-here.gradient, apply_inverse(factor, -here.gradient))
    while cg.n_products < most and not cg.is_over and cg.size > LEFT**2 * cg.start:
        product = combination(problem, here.curvatures * predictions(problem, cg.direction))
        cg = advanced(cg, product + problem.term.quadratic * cg.direction)
        cg = redirected(cg, apply_inverse(factor, cg.residual))
    return cg.solution, cg.n_products


def _along(problem: Problem, here: _At, direction: Vector, squared: float) -> _At:
    """Return the point after a step along a direction: the first of the halves that brings F down, or here."""
    moved, loss = predictions(problem, direction), in_arrays(problem.loss)
    counts = problem.weights > 0.0

    def value(t: float) -> float:
        losses = loss.value(here.predictions + t * moved + problem.offsets, problem.targets)
        return float((problem.weights * losses)[counts].sum()) + problem.term.value(here.x + t * direction)

    t, _ = halved(value, here.value, -squared, problem.n_rows)
    return _at(problem, here.x + t * direction, here.predictions + t * moved)


def _after(problem: Problem, here: _At, metric: _Metric, n_products: int) -> _Metric:
    """Return the metric after a step of some products: with a new factor where that pays."""
    excess = max(metric.excess + (n_products - FEW_PRODUCTS) * _nanoseconds_of_product(problem), 0.0)
    if excess <= _nanoseconds_of_factor(problem):
        return metric._replace(excess=excess)
    return _Metric(_factor_at(problem, here))
