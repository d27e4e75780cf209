"""What passes, Hessians and factors of several classes take on one core, beside `finitesum.methods.cost_model`."""

import math
from typing import Any

import numpy as np

from finitesum.evaluation.class_hessians import PRODUCT, is_by_entries, nanoseconds_by_entries, nanoseconds_with_zeros
from finitesum.evaluation.conditioning import redundancy_of
from finitesum.evaluation.outputs import loss_of
from finitesum.evaluation.row_space import is_wide, nanoseconds_of_row_space
from finitesum.losses.classes import Multinomial
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import CSRRows

#: Nanoseconds: of a multiplication and addition in a pass (dense rows in single and double precision, sparse ones), of a
#: score, of one in a factor.
PASS, SCORE, FACTOR = (0.04, 0.08, 0.6), 20.0, 0.0055

#: Columns up to which a Kronecker factor of these may be whole, and the passes that it may cost; the time of its factors,
#: the Gram matrix of the rows and the eigenvectors, by that of d^3 multiplications in a pass.
MOST_COLUMNS, WORTH_PASSES, FACTOR_WORK = 3000, 100.0, 8.0

#: How alike columns are (`redundancy_of`, and d / n more) up to which such a factor waits for as many steps as it costs
#: passes, if these are more than a few (of squares, whose Hessian it is, than many); and for more steps, whatever it costs.
INDEPENDENT, FEW_PASSES, MANY_PASSES, FEWEST_STEPS = 1.4, 3.0, 30.0, 8
ORTHOGONAL, MORE_STEPS = 1.05, 20

#: Products of conjugate gradients that a run may take, by the rows and in their span, where their factor is the metric.
OUTSIDE, WITHIN_SPAN = 60.0, 40.0

#: Newton's method takes its exact solver up to this many variables, and where Hessian and factor take at most this many
#: products.
EXACT_UP_TO, EXACT_PRODUCTS = 200, 1e8

#: For classes, whose Hessian is that of K - 1 differences: nanoseconds of Hessian and factor, in single precision.
EXACT_NANOSECONDS = 2e7

#: Multiplications of a pass from which epochs of SDCA are worth a kernel: hundreds of passes take the second that it
#: is made in.
WORTH = 1 << 20

#: Nanoseconds of an entry for each class, and of a class in a row, in an epoch and in a pass; epochs that take this many
#: times as long as a pass are none.
EPOCH, SPARSE_PASS, MOST_PASSES = (1.6, 130.0), (2.0, 20.0), 3.0


def nanoseconds_of_pass(problem: Problem, *, is_single: bool) -> float:
    """Return the nanoseconds of a pass over the rows for all outputs."""
    rows, n_outputs = problem.rows, problem.n_outputs
    each = PASS[2] if rows.is_sparse() else PASS[0 if is_single else 1]
    return float(n_outputs * (2.0 * each * rows.values.size + SCORE * problem.n_rows))


def order_of_factor(problem: Problem) -> int:
    """Return the order of the Hessian in the differences; with few rows that in their span."""
    dim = problem.n_rows + int(problem.has_intercept) if is_wide(problem) else problem.rows.dim()
    return (problem.n_outputs - 1) * dim


def nanoseconds_of_factor(problem: Problem, n_rows: Any, *, by_entries: bool = True) -> Any:
    """Return the nanoseconds of the Hessian of a number of rows, in single precision, and of its factor.

    Many sparse rows are summed entry by entry where that takes less time, unless asked otherwise.
    """
    n_others = problem.n_outputs - 1
    dim = order_of_factor(problem) // n_others
    of_rows = n_rows * nanoseconds_with_zeros(problem.n_outputs, dim)
    if by_entries and not is_wide(problem) and np.any(is_less := is_by_entries(problem, n_rows)):
        of_rows = np.where(is_less, nanoseconds_by_entries(problem, n_rows), of_rows)[()]
    once = nanoseconds_of_row_space(problem) if is_wide(problem) else 0.0
    return of_rows + FACTOR * (n_others * dim) ** 3 + once


def is_cheap(problem: Problem) -> bool:
    """Return whether Hessian and factor take a part of a second at most, or there are few variables."""
    if not loss_of(problem).ignores_shifts():
        return problem.dim <= EXACT_UP_TO or problem.dim**2 * (problem.n_rows / 2.0 + problem.dim / 3.0) <= EXACT_PRODUCTS
    return problem.dim <= EXACT_UP_TO or nanoseconds_of_factor(problem, problem.n_rows) <= EXACT_NANOSECONDS


def is_whole_cheap(problem: Problem) -> bool:
    """Return whether L-BFGS has a metric of all columns, whose factor takes no more than some passes."""
    return problem.rows.dim() <= MOST_COLUMNS and passes_of_whole(problem) <= WORTH_PASSES


def passes_of_whole(problem: Problem) -> float:
    """Return how many passes take the time of a metric of all columns."""
    of_a_pass = 4.0 * problem.n_outputs * (problem.rows.values.size + problem.n_rows)
    return float(FACTOR_WORK * problem.rows.dim() ** 3 / of_a_pass)


def steps_before_whole(problem: Problem) -> int:
    """Return how many steps are taken with the columns' diagonal before a metric of all of them is worth its time.

    That is 0 but for dense rows whose columns hardly depend on each other.
    """
    if problem.rows.is_sparse() or is_parted(problem):
        return 0
    n_passes, is_quadratic = passes_of_whole(problem), problem.has_quadratic_loss
    alike = redundancy_of(problem) + problem.rows.dim() / problem.n_rows
    if alike <= ORTHOGONAL and not is_quadratic:
        return max(math.ceil(n_passes), MORE_STEPS)
    is_long = n_passes > (MANY_PASSES if is_quadratic else FEW_PASSES)
    return max(math.ceil(n_passes), FEWEST_STEPS) if is_long and alike <= INDEPENDENT else 0


def is_worth_epochs(problem: Problem) -> bool:
    """Return whether epochs of SDCA are worth it before L-BFGS, from 0."""
    is_suited = isinstance(problem.loss, Multinomial) and isinstance(problem.rows, CSRRows) and not problem.term.has_weights
    is_large = problem.rows.values.size * problem.n_outputs >= WORTH
    return is_suited and is_large and problem.term.ridge > 0.0 and passes_of_epoch(problem) <= MOST_PASSES


def passes_of_epoch(problem: Problem) -> float:
    """Return how many passes of L-BFGS take the time of an epoch."""
    n_entries, n_rows = problem.rows.values.size, problem.n_rows
    of_epoch, of_pass = (each[0] * n_entries + each[1] * n_rows for each in (EPOCH, SPARSE_PASS))
    return float(of_epoch / of_pass)


def is_worth_span(problem: Problem) -> bool:
    """Return whether conjugate gradients run in the span of the rows, by shape and entries alone."""
    if not is_wide(problem):
        return False
    n, outside = problem.n_rows, nanoseconds_of_pass(problem, is_single=False)
    within = problem.n_outputs * n * (2.0 * PASS[1] * n + SCORE)
    return nanoseconds_of_row_space(problem) + WITHIN_SPAN * within <= OUTSIDE * outside


def products_of_metric(problem: Problem) -> float:
    """Return how many products take the time of a factor of all columns, made of rows with their zeros."""
    n, dim = float(problem.n_rows), float(problem.rows.dim())
    return 2.0 * (PRODUCT * n + FACTOR * dim) * dim**2 / nanoseconds_of_pass(problem, is_single=False)
