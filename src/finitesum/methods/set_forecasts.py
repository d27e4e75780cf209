"""Forecasts of what methods take on a set, which decide where to begin and when to change.

    seconds = passes n gradient + Hessians n hessian + steps s(d)

A gradient and a Hessian of a row cost what `finitesum.methods.cost_model` says; s(d) is the projection, or the model of a
step with the set, as measured on generated problems of 100 to 10,000 rows and 40 to 6,000 columns, with which the usual
counts of Newton's methods and coordinate descent vary little. Those of accelerated gradients vary by a factor of three
about what digits and the penalty's coupling of rows say (with several outputs: digits and the eigenvalues of the columns),
so that a run may begin with them where they are not much slower by their forecast: it goes on with the other method once
they have taken `TRIED` of its time, if by their progress they will take longer than that one
(`finitesum.running.handover`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.evaluation.row_products import gram_product, sum_of_squares
from finitesum.methods.cost_model import costs_of
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows

#: Sets whose projection sorts, and whose solutions have many zeros.
SORTING = ("sum", "l1-norm")

#: Passes, Hessians and steps of Newton's methods on a set, typical; those of Newton's method where F is quadratic.
NEWTON_COUNTS, WORKING_SET_COUNTS, QUADRATIC_COUNTS = (8.0, 3.0, 5.0), (9.0, 0.3, 12.0), (2.0, 1.0, 1.0)

#: How many times as much Newton's method takes on intervals, where solutions often lie at their ends.
OF_INTERVALS = 2.5

#: Nanoseconds of a step of Newton's method by d^0 and d^3; on a simplex, whose active set is found from nothing, by d^2
#: and d^3, too.
STEP, OF_MODEL, SIMPLEX_SQUARE, SIMPLEX_CUBE = 8e5, 0.06, 400.0, 0.3

#: Nanoseconds of a step of Newton's method with several outputs by d^3, d the variables of all.
OF_OUTPUTS = 0.2

#: Steps on working sets of several outputs, typical: where F is quadratic, elsewhere, and of each variable. Nanoseconds of
#: a step by n a^2 and by a^3, a the coefficients in a set: as many as there are on intervals, up to a limit, and where a
#: solution has many zeros this many times the root of those that there are.
OF_OUTPUTS_STEPS, OF_OUTPUTS_GRAM, OF_OUTPUTS_CUBE = (1.0, 4.0, 1e-3), 0.025, 0.04
OF_OUTPUTS_SET, OF_OUTPUTS_FEW = 3000.0, 20.0

#: Nanoseconds of a step on working sets, and of a column in one.
SET_STEP, SET_COLUMN = 5e5, 1500.0

#: Nanoseconds of a step of accelerated gradients, and of a coordinate of its projection: where it sorts, where it clips,
#: and elsewhere.
GRADIENT_STEP, SORTED, CLIPPED, COORDINATE = 1e5, 400.0, 10.0, 150.0

#: Nanoseconds of a step of accelerated gradients with several outputs, and of each of them where its projection sorts.
OUTPUTS_STEP, OUTPUT_SORTED = 2.5e5, 1e5

#: Nanoseconds of coordinate descent, and those of a row in gradients.
DESCENT, DESCENT_GRADIENTS = 3e6, 110.0

#: The logarithm of the passes of accelerated gradients: one, by the logarithm of the digits, and by that of the coupling.
PASSES, FEWEST_PASSES = (0.52, 1.86, 0.077), 30.0

#: With several outputs: by the logarithm of the digits, and by that of the spread of the columns' eigenvalues, and another
#: one where F is not quadratic.
PASSES_OF_OUTPUTS, FEWEST_OF_OUTPUTS = (2.1, 0.55, 1.3), 10.0

#: Products with the columns' Gram matrix from which its largest eigenvalue is estimated.
N_PRODUCTS = 8

#: How many times their forecast accelerated gradients may well take, which go on where Newton's method is late.
UNSURE = 7.0

#: By how much slower accelerated gradients may be by their forecast where they are tried, and for which fraction of the
#: time of the other method.
WORTH_TRYING, TRIED = 2.0, 0.25

#: The passes of accelerated gradients with several outputs from which it is seen how they get on.
FEWEST_TRIED = 12.0


class Spent(NamedTuple):
    """Passes over the rows, Hessians of all rows, and steps."""

    passes: float
    hessians: float
    steps: float


@remembered_of_rows
def spread_of_eigenvalues(problem: Problem) -> float:
    """Return the largest eigenvalue of the columns' Gram matrix by their mean, about: a power method's estimate.

    Examples
    --------
    >>> round(spread_of_eigenvalues(Problem.linear([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 1])), 2)
    1.5
    """
    one, ones = problem.one_output, np.ones(problem.n_rows)
    v, largest = np.ones(one.dim) + 0.1 * np.cos(np.arange(one.dim)), 0.0
    with np.errstate(all="ignore"):
        for _ in range(N_PRODUCTS):
            v = gram_product(one, ones, v / np.linalg.norm(v))
            largest = float(np.linalg.norm(v))
            if not 0.0 < largest < math.inf:
                return 1.0
        mean = sum_of_squares(one) / one.n_rows / max(one.rows.n_columns, 1)
        return max(largest / mean, 1.0) if 0.0 < mean < math.inf else 1.0


def _of_working_set(problem: Problem) -> float:
    """Return about how many coefficients of several outputs are in a working set at most."""
    dim = float(problem.dim)
    has_zeros = problem.term.constraint.boundary in SORTING or problem.term.has_l1
    few = OF_OUTPUTS_FEW * math.sqrt(dim) if has_zeros else OF_OUTPUTS_SET
    return min(dim, few)


def price(name: str, problem: Problem, counts: Any) -> float:
    """Return the seconds that a method's counts come to on a set.

    Examples
    --------
    >>> from finitesum.constraints import NonNegative
    >>> problem = Problem.linear([[0.0], [1.0], [2.0]], [0, 1, 1], constraint=NonNegative())
    >>> price("afg", problem, Spent(10.0, 0.0, 10.0)) < price("newton", problem, Spent(10.0, 3.0, 10.0))
    True
    """
    n, dim, costs, boundary = problem.n_rows, float(problem.dim), costs_of(problem), problem.term.constraint.boundary
    rows = n * (counts.passes * costs.gradient + counts.hessians * costs.hessian)
    if name == "afg":
        sorts = boundary in SORTING
        clips = boundary in ("bounds", "signs")
        step = GRADIENT_STEP + (SORTED if sorts else CLIPPED if clips else COORDINATE) * dim
        if problem.n_outputs > 1:
            step += OUTPUTS_STEP + sorts * OUTPUT_SORTED * problem.n_outputs
    elif name == "multinomial-working-set":
        size = _of_working_set(problem)
        step = STEP + size**2 * (OF_OUTPUTS_GRAM * n + OF_OUTPUTS_CUBE * size)
    elif name == "working-set-newton" and boundary != "sum":
        step = SET_STEP + SET_COLUMN * dim
    else:
        of_simplex = SIMPLEX_SQUARE * dim**2 + SIMPLEX_CUBE * dim**3 if boundary == "sum" else 0.0
        step = STEP + (OF_MODEL if problem.n_outputs == 1 else OF_OUTPUTS) * dim**3 + of_simplex
    return float(1e-9 * (rows + counts.steps * step))


def forecast(name: str, problem: Problem, features: dict[str, float]) -> float:
    """Return the seconds that a method is likely to take on a set."""
    if name == "coordinate-descent":
        return 1e-9 * (DESCENT + DESCENT_GRADIENTS * problem.n_rows * costs_of(problem).gradient)
    if name == "multinomial-working-set":
        of_quadratic, of_others, of_variables = OF_OUTPUTS_STEPS
        n_steps = (of_quadratic if problem.has_quadratic_loss else of_others) + of_variables * problem.dim
        return price(name, problem, Spent(n_steps + 1.0, 0.0, n_steps))
    if name == "afg":
        logs, factors, fewest = (1.0, features["digits"], features["coupling"]), PASSES, FEWEST_PASSES
        if problem.n_outputs > 1:
            is_curved = float(problem.loss.d2_lipschitz() > 0.0)
            logs = features["digits"], math.log(spread_of_eigenvalues(problem)), is_curved
            factors, fewest = PASSES_OF_OUTPUTS, FEWEST_OF_OUTPUTS
        n_passes = max(math.exp(sum(factor * log for factor, log in zip(factors, logs, strict=True))), fewest)
        searches = not math.isfinite(problem.loss.curvature_bound())  # for its steps, by two gradients each
        return price(name, problem, Spent((1.0 + searches) * n_passes, 0.0, n_passes))
    newton_counts: tuple[float, ...] = QUADRATIC_COUNTS if problem.has_quadratic_loss else NEWTON_COUNTS
    if name == "newton" and problem.term.constraint.boundary in ("bounds", "signs"):
        newton_counts = tuple(OF_INTERVALS * count for count in newton_counts)
    counts = WORKING_SET_COUNTS if name == "working-set-newton" else newton_counts
    return price(name, problem, Spent(*counts))
