"""What methods take on losses with corners and an l2 penalty: the hinge, absolute values, quantiles, intervals.

    seconds = price exp(sum_j effect_j feature_j)

A price is what passes, steps, Hessians and factors come to by the costs of rows (`finitesum.methods.cost_model`), with
counts that are typical; effects say how seconds depend on the problem beyond that. They stand in `forecasts.toml`, as those
of smooth losses do (`finitesum.methods.forecasts`), by draws of the same families of data, and features are kept within the
range that was seen. All are of machine code: dual ascent in NumPy's operations takes about `IN_ARRAYS` times as long.
"""

import math

from finitesum.evaluation.row_products import sum_of_squares
from finitesum.losses import Hinge
from finitesum.losses.arrays import in_arrays
from finitesum.methods import forecasts
from finitesum.methods.auto.sizes import MATRIX_UP_TO
from finitesum.methods.cost_model import costs_of
from finitesum.methods.newton import dual_arrays, interior_columns
from finitesum.methods.newton.interior_factors import MOST_WORK
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries

#: About how many times as long dual ascent takes in NumPy's operations as in machine code (2.5 to 18 on a dozen draws).
IN_ARRAYS = 10.0

#: Typical counts. Of interior points: steps, nanoseconds of a row in one beside its Hessian, of a row and two columns where
#: the rows are brought to a triangle, of a column and two rows in a basis of few rows' span, and of all calls. Of dual
#: ascent: passes (least, by the coupling of rows, to this power), the latter by the root of rows by columns where they are
#: fewer, and nanoseconds of all calls. Of semismooth Newton's whole run: gradients, factors, rows' Hessians, nanoseconds of
#: a row beside, of all calls, and of each of the first rows, for steps on samples see no more.
INTERIOR_STEPS, INTERIOR_ROW, TRIANGLE, SPAN, INTERIOR_CALLS = 14.0, 800.0, 0.5, 0.1, 5e6
DUAL_PASSES, DUAL_CALLS = (15.0, 25.0, 0.4), 1e6
SEMISMOOTH_GRADIENTS, SEMISMOOTH_FACTORS, SEMISMOOTH_HESSIANS, SEMISMOOTH_ROW = 60.0, 50.0, 2.0, 1000.0
SEMISMOOTH_CALLS, SEMISMOOTH_FIRST, FIRST_ROWS = 8e6, 2000.0, 20_000

#: Nanoseconds of a linear program for each entry of the rows, at least; of interior points with an l1 penalty, of all calls
#: and by the cube of their order; and how many times as long these must take. Fitted to 58 draws of sparse rows.
OF_ENTRY, CALLS_OF_SETS, OF_CUBE, PROGRAM_MARGIN = 5e3, 5e7, 1.1, 1.5

#: Entries of a row, on average, up to which factors of rows and columns stay sparse, and the largest slope at 0, divided
#: by its threshold, up to which few coefficients leave 0.
FEW_ENTRIES, NEAR_ZERO = 6.0, 20.0

#: Logarithms of the coupling beyond which it counts more, and the height up to which it does.
STRONG, STRONGER, HIGH = 1.0, 3.0, 2.0


def program_is_faster(problem: Problem, order: int) -> bool:
    """Return whether a linear program on sparse rows is likely to take less than interior points of this order.

    Its factors have the rows at corners and the coefficients that are not 0: many of both, and rows of many entries, fill
    them. Of the hinge few rows are there.
    """
    if is_parted(problem) or not problem.rows.is_sparse():
        return False
    entries = n_entries(problem.rows)
    if PROGRAM_MARGIN * OF_ENTRY * entries >= CALLS_OF_SETS + OF_CUBE * float(order) ** 3:
        return False
    return (
        isinstance(problem.loss, Hinge)
        or entries <= FEW_ENTRIES * problem.n_rows
        or interior_columns.largest_slope(problem) <= NEAR_ZERO
    )


def typical_seconds(problem: Problem, order: int, *, fits: bool) -> dict[str, float]:
    """Return the seconds of the methods that treat a problem by typical counts; without matrices that fit, of dual ascent.

    The matrices of interior points are of this order.
    """
    n, dim, costs, (least, by_coupling, power) = problem.n_rows, problem.dim, costs_of(problem), DUAL_PASSES
    n_passes = least + by_coupling * min(math.sqrt(n / dim), 1.0) * _coupling(problem) ** power
    found = {"dual-ascent": DUAL_CALLS + forecasts.DUAL_VISIT * n * costs.gradient * n_passes}
    if fits:
        factor, work = costs.factor * (order / dim) ** 3, n * float(order) ** 2
        rows = TRIANGLE * work if work <= MOST_WORK else n * costs.hessian
        basis = SPAN * dim * n**2 if n < problem.rows.n_columns else 0.0
        found["interior-point"] = INTERIOR_CALLS + basis + INTERIOR_STEPS * (n * INTERIOR_ROW + rows + factor)
    if fits and dim <= (MATRIX_UP_TO if is_parted(problem) else min(n, MATRIX_UP_TO)):
        of_row = SEMISMOOTH_GRADIENTS * costs.gradient + SEMISMOOTH_HESSIANS * costs.hessian + SEMISMOOTH_ROW
        calls = SEMISMOOTH_CALLS + SEMISMOOTH_FIRST * min(n, FIRST_ROWS)
        found["semismooth-newton"] = n * of_row + SEMISMOOTH_FACTORS * costs.factor + calls
    return {name: 1e-9 * nanoseconds for name, nanoseconds in found.items()}


def features_of(problem: Problem, tol: float) -> dict[str, float]:
    """Return the features by their names; digits are those of F at 0 by tol."""
    n, dim, coupling = problem.n_rows, problem.dim, math.log(max(_coupling(problem), 1e-12))
    first = 1.0
    if not is_parted(problem):
        first = float(problem.weights @ in_arrays(problem.loss).value(problem.offsets, problem.targets)) or 1.0
    digits = max(math.log10(first / max(tol, forecasts.LEAST_TOL)), forecasts.LEAST_DIGITS)
    height = math.log(n / dim)
    return {
        "one": 1.0,
        "digits": math.log(digits),
        "coupling": coupling,
        "strong": max(coupling - STRONG, 0.0),
        "stronger": max(coupling - STRONGER, 0.0),
        "strong_height": max(coupling - STRONG, 0.0) * min(max(height, 0.0), HIGH),
        "rows": math.log(n),
        "columns": math.log(dim),
        "entries": math.log(max(n_entries(problem.rows) / n, 0.1)),
        "height": max(height, 0.0),
        "width": max(-height, 0.0),
        "sparse": float(problem.rows.is_sparse()),
        "intercept": float(problem.has_intercept),
        "real": float(not isinstance(problem.loss, Hinge)),
        "rarity": _rarity(problem),
    }


def seconds_of(problem: Problem, tol: float, order: int, *, fits: bool) -> dict[str, float]:
    """Return the seconds that the methods are likely to take until the duality gap is at most tol."""
    features, found = features_of(problem, tol), typical_seconds(problem, order, fits=fits)
    found = {name: price * forecasts.effect("corners", name, features) for name, price in found.items()}
    if dual_arrays.stand_in(problem):
        found["dual-ascent"] *= IN_ARRAYS
    elif problem.n_rows <= problem.dim:  # of 318 such draws another method was faster on 3
        found["dual-ascent"] = min(found.values())
    return found


def _rarity(problem: Problem) -> float:
    """Return the logarithm of how many times fewer than half of the rows have the rarer label; 0 for numbers, and parts."""
    if not isinstance(problem.loss, Hinge) or is_parted(problem):
        return 0.0
    share = float(problem.weights @ (problem.targets > 0.0))
    return -math.log(2.0 * max(min(share, 1.0 - share), 1e-3))


def _coupling(problem: Problem) -> float:
    """Return the mean of p_i ||x_i||^2 / l2, without the intercept: by how much a visit sees its own change."""
    n = problem.n_rows
    return (sum_of_squares(problem) - n * problem.has_intercept) / (n * n * problem.term.ridge)
