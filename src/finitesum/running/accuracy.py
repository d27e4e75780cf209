"""To what a problem of a path is solved: a part of a standard error, and as small a part of its decisions.

A step leads to the solution where Newton's decrement sqrt(g'B g) is at most accuracy / sqrt(S), S the sum of the weights or
the number of the rows, whichever is larger. For a likelihood H/S is the inverse covariance matrix of the estimates, so that
no decision x'w is further off than that part of its own standard error. Besides, what the step changes the decisions by, in
the root of the mean square, is at most that part of 1 or, of a step by the problem's own Hessian, of the decisions
themselves, whichever is larger: where classes are separated, nearly, standard errors are beyond measure, and decisions are
large. Steps by another Hessian may be small far from the solution.
"""

import math

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.row_products import predictions
from finitesum.problems.linear import Problem

#: The error of a solution, in standard errors, and that of its decisions.
ACCURACY = 1e-3


def decrement_of(problem: Problem, total: float, accuracy: float) -> float:
    """Return Newton's decrement that is small enough, given the sum of the unscaled weights of the rows."""
    return accuracy / math.sqrt(max(total, float(np.count_nonzero(problem.weights))))


def size_of_decisions(problem: Problem, decisions: Matrix) -> float:
    """Return the root of the mean square of decisions, shape (n,), or (n, K) and then of their sums of squares."""
    squares = decisions**2
    return math.sqrt(float(problem.weights @ (squares if squares.ndim == 1 else squares.sum(axis=1))))


def is_near(problem: Problem, x: Vector, step: Vector, accuracy: float) -> bool:
    """Return whether a step from x by the problem's Hessian changes the decisions, without offsets, by little enough."""
    moved = size_of_decisions(problem, _decisions(problem, step))
    return moved <= accuracy or moved <= accuracy * size_of_decisions(problem, _decisions(problem, x))


def _decisions(problem: Problem, v: Vector) -> Matrix:
    return several.score_changes(problem, v) if problem.n_outputs > 1 else predictions(problem, v)
