"""The path of a fold with few rows and an l2 penalty: solutions for falling strengths, by products of rows.

Steps are those of `finitesum.methods.newton.few_rows`, halved until F falls, in the predictions f and the coefficients z of
the rows, w = X'z: no step reads the rows, whose products X X' are known once for all strengths, and of a fold are a part of
those of all rows. A strength begins where the one before ended, and is solved by the rule of `finitesum.running.accuracy`.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.evaluation.row_products import combination
from finitesum.evaluation.row_space import is_wide, products_of_rows
from finitesum.evaluation.whole_arrays import losses_at
from finitesum.losses.arrays import in_arrays
from finitesum.methods.base import Choice
from finitesum.methods.newton.few_rows import Duals, minimiser, penalty_at
from finitesum.methods.newton.lazy_newton import LazyNewton
from finitesum.methods.newton.newton import Newton
from finitesum.problems.linear import Problem
from finitesum.running.accuracy import decrement_of, size_of_decisions
from finitesum.running.factor_paths import has_hessians, nanoseconds_by_factors

#: Steps of a strength, and halvings of one, after which the rest is left to others.
MOST_STEPS, MOST_HALVINGS = 30, 30

#: What F has to fall by, of what a step's slope promises.
ENOUGH = 1e-4

#: The most rows for each column: with more of them the factors of columns are the smaller ones.
HIGH = 2.0

#: Nanoseconds of a step for each cube of all rows, of which folds have most, and of its calls, steps of a strength, and the
#: part of a fit by itself that one takes which starts where the last one ended.
OF_STEP, OF_CALLS, STEPS, FROM_THE_LAST = 0.01, 1e5, 4.0, 0.5


class FewRowsPath(NamedTuple):
    """What was found."""

    points: Matrix  # (m, dim)
    n_passes: Vector  # (m,)
    is_solved: Flags  # (m,)


class _At(NamedTuple):
    """A point with what its losses are there, times the weights."""

    point: Duals
    slopes: Vector
    curvatures: Vector
    value: float  # of F


def has_few_rows(problem: Problem, choice: Choice) -> bool:
    """Return whether a path by products of rows pays, given the choice for its last problem and all rows.

    It does where the span of the rows pays and a method with Hessians would be taken, and for up to twice as many rows as
    columns where factors take less time than a method's fits, unless factors of columns take less.
    """
    if not is_wide(problem, HIGH):
        return False
    nanoseconds = STEPS * (OF_STEP * float(problem.n_rows) ** 3 + OF_CALLS)
    if has_hessians(problem) and nanoseconds_by_factors(problem) < nanoseconds:
        return False
    if is_wide(problem) and isinstance(choice.method, LazyNewton | Newton):
        return True
    return 1e-9 * nanoseconds <= FROM_THE_LAST * choice.seconds


def solve_few_rows(problems: list[Problem], intercept: float, total: float, accuracy: float) -> FewRowsPath:
    """Return the solutions of problems that differ in the strength of an l2 penalty, which falls.

    Parameters
    ----------
    problems : list of Problem
        On the same rows, which are not many more than their columns, with one output and an l2 penalty.
    intercept : float
        Where the first one begins, with w = 0.
    total : float
        The sum of the rows' weights, in whose place their number is taken where that is larger.
    accuracy : float
        The error of a solution in standard errors, and of its decisions.
    """
    first, m = problems[0], len(problems)
    enough = decrement_of(first, total, accuracy)
    found = FewRowsPath(np.zeros((m, first.dim)), np.zeros(m), np.zeros(m, dtype=bool))
    b = intercept if first.has_intercept else 0.0
    point = Duals(np.zeros(first.n_rows), b, np.full(first.n_rows, b))
    with np.errstate(all="ignore"):  # steps that are too long show in F
        for k, problem in enumerate(problems):
            end = _solved(problem, point, enough, accuracy)
            if end is None:
                break
            point = end
            found.points[k] = combination(problem, point.z)
            found.points[k, problem.rows.n_columns :] = point.intercept
            found.n_passes[k], found.is_solved[k] = 1.0, True
    return found


def _at(problem: Problem, point: Duals) -> _At:
    weights = problem.weights
    losses = losses_at(in_arrays(problem.loss), problem.targets, point.predictions + problem.offsets, 0)
    slopes, curvatures, values = (np.where(weights > 0.0, weights * part, 0.0) for part in losses)
    return _At(point, slopes, curvatures, float(values.sum()) + penalty_at(problem, point))


def _solved(problem: Problem, start: Duals, enough: float, accuracy: float) -> Duals | None:
    """Return the solution, None where Newton's steps do not find it."""
    here, before = _at(problem, start), math.nan  # the squared decrement before the last step, if that was a whole one
    for _ in range(MOST_STEPS):
        if not math.isfinite(here.value) or (here.slopes[here.curvatures == 0.0] != 0.0).any():
            return None
        end = minimiser(problem, here.point.predictions, here.slopes, here.curvatures)
        moved, shift = end.predictions - here.point.predictions, end.intercept - here.point.intercept
        change = end.z - here.point.z
        squared = float((here.curvatures * moved) @ moved) + problem.term.ridge * float(change @ (moved - shift))
        if not math.isfinite(squared):
            return None
        squared = max(squared, 0.0)
        ratio = math.sqrt(squared / before) if before > 0.0 else math.nan
        left = ratio if ratio < 0.5 else 1.0
        if left * math.sqrt(squared) <= enough:
            most = accuracy * max(1.0, size_of_decisions(problem, here.point.predictions))
            if left * size_of_decisions(problem, moved) <= most:
                return end
        t, there = 1.0, _at(problem, end)
        while not there.value <= here.value - ENOUGH * t * squared:
            t *= 0.5
            if t < 0.5**MOST_HALVINGS:
                return None
            there = _at(problem, _between(here.point, end, t))
        here, before = there, squared if t == 1.0 else math.nan
    return None


def _between(start: Duals, end: Duals, t: float) -> Duals:
    """Return start + t (end - start), in all that a point has."""
    z = start.z + t * (end.z - start.z)
    predictions = start.predictions + t * (end.predictions - start.predictions)
    return Duals(z, start.intercept + t * (end.intercept - start.intercept), predictions)


def with_products(problem: Problem, whole: Problem, chosen: Indices) -> Problem:
    """Let a problem of some rows of another one know their products from those of all rows, and return it."""
    if problem.n_rows == chosen.size:
        problem.of_rows["products_of_rows"] = products_of_rows(whole)[np.ix_(chosen, chosen)]
    return problem
