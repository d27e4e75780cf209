"""Working sets of columns for interior points: with an l1 penalty most coefficients are 0 at the minimum.

A system of all columns, or of all rows, takes the cube of their number. F is minimised over the columns of a working set,
the other coefficients 0, until a part of the duality gap is left. The multipliers a make a minorant over all columns,
v = -sum_i c_i a_i y_i x_i, whose bound holds for F itself. The set grows by the columns that v moves most from 0 [1] where
these, and not what is left on the set, are why the gap is large, and by others that it nearly moves: each new set is
started from its first step.

References
----------
.. [1] T. B. Johnson, C. Guestrin, "Blitz: a principled meta-algorithm for scaling sparse optimization", ICML 2015.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.certificates import Minorant, balanced, minorant_at
from finitesum.evaluation.row_products import predictions
from finitesum.losses.arrays import in_arrays
from finitesum.methods.newton.interior_rows import goes_by_rows
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted

#: The order of the system of all columns, or rows, from which there are working sets, as measured; and how many columns
#: there are for each of the first set, at least.
LEAST_ORDER, FEWEST_SETS = 400, 4

#: Columns of the first working set, and new ones, at least.
FEWEST_NEW = 128

#: The order of a working set's system, as a part of that of all columns, beyond which steps take all of them: most may
#: matter then, and each larger set starts from its first step. So they do up to an order whose matrix has 0.8 GB.
MOST_OF_ORDER, MOST_ORDER = 0.25, 10_000

#: The part of the gap that is left on a working set, and how many times as large as on the set it is where the set grows.
LEFT, FAR = 0.1, 3.0


def order_of_system(problem: Problem) -> int:
    """Return the order of the matrix of a step in all columns."""
    return problem.n_rows if goes_by_rows(problem) else problem.dim


def takes_columns(problem: Problem, *, is_asked: bool = False) -> bool:
    """Return whether steps go by working sets: with an l1 penalty on all columns, where these are many or if asked."""
    d, term = problem.rows.n_columns, problem.term
    if is_parted(problem) or term.is_constrained or not (term.is_elastic_net and (term.thresholds[:d] > 0.0).all()):
        return False
    return is_asked or (d >= FEWEST_SETS * FEWEST_NEW and order_of_system(problem) >= LEAST_ORDER)


def is_for_all(problem: Problem, columns: Indices) -> bool:
    """Return whether steps are to take all columns in the place of a working set."""
    order = order_of_system(problem)
    return columns.size > MOST_OF_ORDER * order and order <= MOST_ORDER


def working_sets_fit(problem: Problem) -> bool:
    """Return whether working sets up to a part of all columns, and all of them where they come to that, fit into memory."""
    return MOST_OF_ORDER * order_of_system(problem) <= MOST_ORDER


def _at_best_intercept(problem: Problem, x: Vector) -> Vector:
    """Return x with about the intercept that is the best for its coefficients: slopes of rows have both signs there."""
    cornered: Any = problem.loss
    loss: Any = in_arrays(cornered)
    at = predictions(problem, np.append(x[:-1], 0.0)) + problem.offsets
    corners = [point - at for low, high, point in cornered.corners(problem.targets) if np.any(low) or np.any(high)]
    bounds = min(float(part.min()) for part in corners), max(float(part.max()) for part in corners)
    if not bounds[0] < bounds[1] < np.inf:
        return x
    found = minimize_scalar(
        lambda b: float(problem.weights @ loss.value(at + b, problem.targets)), bounds=bounds, method="bounded"
    )
    return np.append(x[:-1], found.x)


def largest_slope(problem: Problem) -> float:
    """Return the largest slope at 0, with about the best intercept, divided by its threshold: infinite without one."""
    if not takes_columns(problem, is_asked=True):
        return np.inf
    x = np.zeros(problem.dim)
    x = _at_best_intercept(problem, x) if problem.has_intercept else x
    return float(_parts(problem, minorant_at(problem, x)[1]).max())


def first_columns(problem: Problem, x: Vector, most: int) -> tuple[Indices, float]:
    """Return the columns with coefficients, and those whose slopes are the most of their thresholds; and F."""
    if problem.has_intercept:
        x = _at_best_intercept(problem, x)
    value, made = minorant_at(problem, x)
    columns = _with_most(np.flatnonzero(x[: problem.rows.n_columns]), _parts(problem, made), most)
    return columns, value + problem.term.value(x)


def more_columns(problem: Problem, columns: Indices, x: Vector, made: Minorant, fewest: int) -> Indices:
    """Return the working set with columns that the minorant moves or nearly moves, if it moves any other from 0."""
    parts = _parts(problem, made)
    parts[columns] = 0.0
    if not (parts > 1.0).any():
        return columns
    most = max(fewest, int(np.count_nonzero(x[: problem.rows.n_columns])))
    room = int(MOST_OF_ORDER * order_of_system(problem)) - columns.size
    return _with_most(columns, parts, min(most, room) if np.count_nonzero(parts > 1.0) <= room else most)


def _parts(problem: Problem, made: Minorant) -> Vector:
    """Return the sizes of a minorant's slopes as parts of the thresholds, which leave coefficients at 0 up to 1."""
    d = problem.rows.n_columns
    return np.asarray(np.abs(balanced(problem, made)[1][:d]) / problem.term.thresholds[:d])


def _with_most(columns: Indices, sizes: Vector, most: int) -> Indices:
    """Return columns, and of the others those of the largest sizes > 0, increasing."""
    sizes[columns] = 0.0
    new = np.flatnonzero(sizes)
    if new.size > most:
        new = new[np.argpartition(sizes[new], new.size - most)[new.size - most :]]
    return np.sort(np.concatenate([columns, new]))
