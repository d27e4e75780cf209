"""The path of a fold with several classes by products alone: solutions for falling strengths, to parts of a standard error.

Steps are Newton's by conjugate gradients (`finitesum.methods.newton.multinomial_newton`), each solved to a part of its
gradient. A strength begins with the iterate, scores and gradient of the one before, or at the point to which the last
two solutions lead, on a line over the logarithm of the strength. It is solved where the step at hand, which leads to the
point that is returned, is a part of a standard error. That is known where conjugate gradients see all of the error: by a
diagonal not where columns are far from 0 beside an intercept, which are left to others.
"""

import math

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.methods.newton.multinomial_newton import (
    MultinomialState,
    begun_step,
    is_solved,
    kept_mean,
    multiplied,
    state_at,
    stepped_along,
)
from finitesum.problems.linear import Problem
from finitesum.running.rough_paths import RoughPath, point_ahead

#: Steps and products of a strength, after which the rest is left to others.
MOST_STEPS, MOST_PRODUCTS = 50, 1000

#: What conjugate gradients leave of the gradient.
LEFT = 0.1


def solve_classes_by_products(
    problems: list[Problem], start: Vector, total: float, tol: float, accuracy: float, *, is_shared: bool = False
) -> RoughPath:
    """Return the solutions of problems of several classes that differ in the strength of an l2 penalty, which falls.

    The arguments are those of `finitesum.running.rough_paths.solve_roughly`, and whether one factor of all classes is to be
    the preconditioner, as in the span of few rows.
    """
    first, m = problems[0], len(problems)
    found = RoughPath(np.zeros((m, first.dim)), np.zeros(m), np.zeros(m, dtype=bool))
    enough = accuracy / math.sqrt(max(total, float(np.count_nonzero(first.weights))))
    state, n_known = state_at(first, start.copy(), first.n_components, 0)._replace(tol=tol), 0
    for k, problem in enumerate(problems):
        if k >= 1:
            state = _with_penalty(problem, problems[k - 1], state)
        if k >= 2:
            state = _further(problems[k - 2 : k + 1], state, found.points[k - 2 : k])
        state, end = _solved(problem, state, enough, accuracy, is_shared)
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
    problem: Problem, state: MultinomialState, enough: float, accuracy: float, is_shared: bool
) -> tuple[MultinomialState, Vector | None]:
    """Return the state before the step that leads to the solution, and the solution, None where there is none."""
    most = state.n_gradients + MOST_PRODUCTS * problem.n_components
    for _ in range(MOST_STEPS):
        size = float(np.linalg.norm(state.gradient))
        if size <= state.tol:
            return state, state.x
        run = begun_step(problem, state, is_shared=is_shared)._replace(enough=LEFT * size)
        while not is_solved(problem, run) and run.n_gradients < most:
            run = multiplied(problem, run)
        direction = kept_mean(problem, run.direction + run.cg.solution)
        squared = -float(state.gradient @ direction)
        state = state._replace(n_gradients=run.n_gradients, preconditioner=run.preconditioner, n_products=run.cg.n_products)
        if not squared > 0.0 or state.n_gradients >= most:
            break
        if squared <= enough**2:
            moved = several.score_changes(problem, direction)
            if float(problem.weights @ (moved**2).sum(axis=1)) <= accuracy**2:
                return state, state.x + direction
        after = stepped_along(problem, run, direction, 0)
        if np.array_equal(after.x, state.x):
            break
        state = after
    return state, None
