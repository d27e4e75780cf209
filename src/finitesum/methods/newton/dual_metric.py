"""How strongly coefficients and an intercept are held in dual ascent, and what the visit of a row is divided by."""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.row_products import mean_square, squares_of_rows
from finitesum.losses import RoundedCorner
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered

#: An intercept is held that many times more than coefficients are, as a row sees it: of sharp corners, of rounded ones.
HOLD = 3.0, 30.0

#: The least ||x_i||^2 / l2 that is divided by.
TINY = 1e-200


class Terms(NamedTuple):
    """What does not change in a run."""

    couplings: Vector  # ||x_i||^2 / l2 + 1 / mu
    ridge: float  # l2
    hold: float  # mu, infinite without an intercept


def _hold(problem: Problem) -> float:
    """Return mu: infinity without an intercept."""
    if not problem.has_intercept:
        return math.inf
    return float(HOLD[isinstance(problem.loss, RoundedCorner)] * problem.term.ridge / (mean_square(problem) or 1.0))


@remembered
def terms_of(problem: Problem) -> Terms:
    """Return the couplings of the rows with themselves, l2 and mu."""
    ridge, hold = problem.term.ridge, _hold(problem)
    return Terms(np.maximum(squares_of_rows(problem) / ridge + 1.0 / hold, TINY), ridge, hold)


@remembered
def in_metric(problem: Problem) -> Vector:
    """Return l2 for each coefficient, and mu for an intercept, shape (dim,)."""
    strengths = np.full(problem.dim, problem.term.ridge)
    strengths[problem.rows.n_columns :] = _hold(problem)
    return strengths
