"""The path of a fold with one output by products: solutions for falling strengths of an l2 penalty, to parts of an error.

Steps are those of Newton-CG on all rows of the fold; where factors of Hessians are likely to take less time, paths are
those of `finitesum.running.factor_paths`. A strength begins with what the one before ended with, the rows' curvatures
besides the iterate, or at the point to which the last two solutions lead, on a line over the logarithm of the strength:
where classes are separated solutions are near such a line. It is solved by the rule of `finitesum.running.accuracy`: the
step that is then at hand leads to the point that is returned.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.evaluation.samples import sample_of
from finitesum.methods.base import batch_size_for
from finitesum.methods.newton.newton_cg import NewtonCG, solved_direction
from finitesum.methods.newton.other_strength import with_strength
from finitesum.methods.newton.subsampling import falls_at, found_at
from finitesum.problems.linear import Problem
from finitesum.running.accuracy import decrement_of, is_near

#: Passes of the method over a strength, after which the rest is left to others: steps, or some products of one.
MOST_PASSES = 500


class RoughPath(NamedTuple):
    """What was found, up to the first strength that is not solved."""

    points: Matrix  # (m, dim)
    n_passes: Vector  # (m,)
    is_solved: Flags  # (m,)


def solve_roughly(problems: list[Problem], start: Vector, total: float, tol: float, accuracy: float) -> RoughPath:
    """Return the solutions of problems that differ in the strength of an l2 penalty, which falls.

    Parameters
    ----------
    problems : list of Problem
        On the same rows, with one output and a smooth loss.
    start : ndarray, shape (dim,)
        Where the first one begins.
    total : float
        The sum of the rows' weights, in whose place their number is taken where that is larger.
    tol : float
        The optimality with which a problem is solved in any case.
    accuracy : float
        The error of a solution in standard errors, and of its decisions, about.
    """
    first, m = problems[0], len(problems)
    method = NewtonCG(first_rows=first.n_rows)
    problems = [problem.batched(batch_size_for(method, first)) for problem in problems]
    order = np.arange(problems[0].n_components)
    enough = decrement_of(first, total, accuracy)
    found = RoughPath(np.zeros((m, first.dim)), np.zeros(m), np.zeros(m, dtype=bool))
    state: Any = method.init(problems[0], start, tol)
    state = method.run_pass(problems[0], state, order)  # which reads all rows
    n_known, before = 0, first.term.ridge
    for k, problem in enumerate(problems):
        if k >= 1:
            state, before = with_strength(problem, state, before), problem.term.ridge
        if k >= 2:
            state = _further(method, problems[k - 2 : k + 1], state, found.points[k - 2 : k])
        state, end = _solved(method, problem, state, enough, accuracy)
        found.n_passes[k] = (state.n_gradients - n_known) / order.size
        n_known = state.n_gradients
        if end is None:
            break
        found.points[k], found.is_solved[k] = end, True
    return found


def point_ahead(problems: list[Problem], points: Matrix) -> Vector | None:
    """Return the point to which the solutions of two problems lead for a third one; None where strengths do not tell it."""
    ridges = [problem.term.ridge for problem in problems]
    earlier, last, now = (math.log(ridge) if ridge > 0.0 else -math.inf for ridge in ridges)
    if last == earlier or now == -math.inf:
        return None
    return np.asarray(points[1] + (now - last) / (last - earlier) * (points[1] - points[0]))


def _further(method: NewtonCG, problems: list[Problem], state: Any, points: Matrix) -> Any:
    """Return the state at the point to which the last two solutions lead, if F is less there."""
    if (ahead := point_ahead(problems, points)) is None:
        return state
    direction = ahead - state.x
    sample = sample_of(problems[2], state.order)
    end = method.end_of(problems[2], state, sample, direction, 1.0, state.majorize)
    state = state._replace(n_gradients=state.n_gradients + state.order.size)
    if not (np.isfinite(end.found.gradient).all() and falls_at(problems[2], state, sample, end)):
        return state
    return found_at(problems[2], state, end.x, end.found)


def _solved(method: NewtonCG, problem: Problem, state: Any, enough: float, accuracy: float) -> tuple[Any, Vector | None]:
    """Return the state before the step that leads to the solution, and the solution, None where there is none."""
    for _ in range(MOST_PASSES):
        if state.optimality <= state.tol:
            return state, state.x
        if (direction := solved_direction(problem, state)) is not None:
            is_small = -float(state.gradient @ direction) <= enough**2
            if is_small and is_near(problem, state.x, direction, accuracy):
                return state, state.x + direction
        state = method.run_pass(problem, state, state.order)
        if not math.isfinite(state.optimality):
            break
    return state, None
