"""The path of a fold with several classes by Newton's steps: solutions for falling strengths, to parts of a standard error.

Steps are by conjugate gradients (`finitesum.methods.newton.multinomial_newton`), each solved to a part of its gradient. A
strength begins with the iterate, scores and gradient of the one before, or at the point to which the last two solutions
lead, on a line over the logarithm of the strength; a factor of all classes that is the preconditioner stays throughout it.
Once products have taken as much longer than few by the factor of a Hessian would as making it does, that is the
preconditioner, until the same holds again: where classes are nearly separated, Hessians of falling strengths differ by
little more than their sizes. A problem is solved where the step at hand, which leads to the point that is returned, is
small (`finitesum.running.accuracy`). That is known where conjugate gradients see all of the error: by a diagonal not where
columns are far from 0 beside an intercept, which are left to others.
"""

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.methods.class_costs import nanoseconds_of_factor, nanoseconds_of_pass, order_of_factor
from finitesum.methods.newton.class_factor import SOLVE, ClassFactor, class_hessian, divided
from finitesum.methods.newton.multinomial_newton import (
    MultinomialState,
    begun_step,
    is_solved,
    kept_mean,
    multiplied,
    state_at,
    stepped_along,
)
from finitesum.methods.subproblems.conjugate_gradients import advanced, begun, redirected
from finitesum.methods.subproblems.positive_definite import raised_factor
from finitesum.problems.linear import Problem
from finitesum.running.accuracy import decrement_of, is_near
from finitesum.running.factor_paths import FEW_PRODUCTS, LEFT, MOST_PRODUCTS, MOST_STEPS
from finitesum.running.rough_paths import RoughPath, point_ahead

#: The most variables with which there is a Hessian.
MOST_VARIABLES = 4000

#: How many times as long it takes in double precision, which weak penalties need.
DOUBLE = 2.0


class _Metric(NamedTuple):
    """The factor of a Hessian, empty at first, and nanoseconds that products since then took more than by a new one."""

    factor: ClassFactor = ClassFactor()
    excess: float = 0.0


def solve_classes_by_products(
    problems: list[Problem], start: Vector, total: float, tol: float, accuracy: float, *, is_shared: bool = False
) -> RoughPath:
    """Return the solutions of problems of several classes that differ in the strength of an l2 penalty, which falls.

    The arguments are those of `finitesum.running.rough_paths.solve_roughly`, and whether one factor of all classes is to be
    the preconditioner, as in the span of few rows.
    """
    first, m = problems[0], len(problems)
    found = RoughPath(np.zeros((m, first.dim)), np.zeros(m), np.zeros(m, dtype=bool))
    enough = decrement_of(first, total, accuracy)
    metric = _Metric()
    state, n_known = state_at(first, start.copy(), first.n_components, 0)._replace(tol=tol), 0
    for k, problem in enumerate(problems):
        if k >= 1:
            state = _with_penalty(problem, problems[k - 1], state)
        if k >= 2:
            state = _further(problems[k - 2 : k + 1], state, found.points[k - 2 : k])
        state, end, metric = _solved(problem, state, enough, accuracy, is_shared, metric)
        found.n_passes[k] = (state.n_gradients - n_known) / first.n_components
        n_known = state.n_gradients
        if end is None:
            break
        found.points[k], found.is_solved[k] = end, True
    return found


def _with_penalty(problem: Problem, last: Problem, state: MultinomialState) -> MultinomialState:
    """Return the last problem's state, between two steps, as one of a problem with another strength of its penalty."""
    more = problem.term.quadratic - last.term.quadratic
    objective = state.objective + 0.5 * float(more @ state.x**2)
    return state._replace(gradient=state.gradient + more * state.x, objective=objective)


def _further(problems: list[Problem], state: MultinomialState, points: Matrix) -> MultinomialState:
    """Return the state at the point to which the last two solutions lead, if F is less there."""
    if (end := point_ahead(problems, points)) is None:
        return state
    problem = problems[2]
    direction = end - state.x
    line = state.scores, several.changes_by_row(problem, direction)
    with np.errstate(over="ignore", invalid="ignore"):
        value = several.objective_along(problem, state.x, direction, line, 1.0)
    if not value < state.objective:
        return state
    there = state_at(problem, end, state.n_gradients + problem.n_components, state.n_hessians)
    return there._replace(tol=state.tol, preconditioner=state.preconditioner, n_products=state.n_products)


def _solved(
    problem: Problem, state: MultinomialState, enough: float, accuracy: float, is_shared: bool, metric: _Metric
) -> tuple[MultinomialState, Vector | None, _Metric]:
    """Return the state before the step that leads to the solution, the solution, or None, and the metric."""
    most, n_products = state.n_gradients + MOST_PRODUCTS * problem.n_components, 0
    for _ in range(MOST_STEPS):
        size = float(np.linalg.norm(state.gradient))
        if size <= state.tol:
            return state, state.x, metric
        if metric.factor.lower.size:
            run = _by_factor(problem, state, metric.factor, most)
        else:
            run = begun_step(problem, state, is_shared=is_shared)._replace(enough=0.0)
            while not is_solved(problem, run) and run.cg.size > LEFT**2 * run.cg.start and run.n_gradients < most:
                run = multiplied(problem, run)
        direction = kept_mean(problem, run.direction + run.cg.solution)
        n_more = (run.n_gradients - state.n_gradients) // problem.n_components
        n_products += n_more
        state = state._replace(n_gradients=run.n_gradients, preconditioner=run.preconditioner, n_products=n_products)
        squared = -float(state.gradient @ direction)
        if not squared > 0.0 or state.n_gradients >= most:
            break
        if squared <= enough**2 and is_near(problem, state.x, direction, accuracy):
            return state, state.x + direction, metric
        after = stepped_along(problem, run, direction, 0)
        if np.array_equal(after.x, state.x):
            break
        state = after._replace(n_products=0)  # so that a factor of all classes stays until the next strength
        metric = _after(problem, state, metric, n_more)
    return state, None, metric


def _by_factor(problem: Problem, state: MultinomialState, factor: ClassFactor, most: int) -> MultinomialState:
    """Return the state with conjugate gradients run for the next step, by the factor of a Hessian."""
    cg = begun(-state.gradient, divided(problem, factor, -state.gradient))
    run = state._replace(
        curvatures=several.curvatures_by_row(problem, state.scores), direction=np.zeros(problem.dim), cg=cg, enough=0.0
    )
    while not is_solved(problem, run) and run.cg.size > LEFT**2 * cg.start and run.n_gradients < most:
        found = advanced(run.cg, several.hessian_product(problem, run.curvatures, run.cg.direction))
        found = redirected(found, divided(problem, factor, found.residual))
        run = run._replace(cg=found, n_gradients=run.n_gradients + problem.n_components)
    return run


def _after(problem: Problem, state: MultinomialState, metric: _Metric, n_products: int) -> _Metric:
    """Return the metric after a step of some products: with the factor of the Hessian at the state where it pays."""
    order = order_of_factor(problem)
    if order > MOST_VARIABLES:
        return metric
    a_pass, a_solve = nanoseconds_of_pass(problem, is_single=False), SOLVE * order**2
    by_factor = a_pass + a_solve
    taken = n_products * (by_factor if metric.factor.lower.size else a_pass)
    excess = max(metric.excess + taken - FEW_PRODUCTS * by_factor, 0.0)
    if excess <= DOUBLE * nanoseconds_of_factor(problem, problem.n_rows):
        return metric._replace(excess=excess)
    with np.errstate(all="ignore"):  # after an overflow
        hessian = class_hessian(problem, several.curvatures_by_row(problem, state.scores), None, None, np.float64)
    return _Metric(ClassFactor(raised_factor(hessian, 0.0)[0]) if np.isfinite(hessian).all() else ClassFactor())
