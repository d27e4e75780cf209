"""The span of the rows of wide data, in which the solution with an l2 penalty lies: a problem of at most n columns.

With fewer rows than columns, X X' = P L L' P', a Cholesky factor with pivots, of rank r. With X_1 the r rows that come
first and L_1 their triangle, Q = X_1' L_1^(-T), shape (d, r), has orthonormal columns; predictions are X Q v = P L v for
coefficients w = Q v, and ||w|| = ||v||: in v it is the same problem on the rows of P L. A gradient or Hessian of w is that
of v in the span, and l2 w or l2 I in the directions orthogonal to it.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf, dtrtri

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.outputs import score_changes, sum_of_rows
from finitesum.evaluation.whole_arrays import whole_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered, remembered_of_rows
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import CSRRows, DenseRows, some_rows, to_matrix

#: The most rows by columns for which the span is worth it, and the most rows.
MOST_HIGH, MOST_ROWS = 0.7, 4000

#: The least pivot of X X' that is kept, by the largest entry.
LEAST_PIVOT = 1e-13

#: Nanoseconds of a multiplication in X X' and of one of stored entries, of an entry that is stored by columns, and of one
#: of the n^3 of a factor with pivots and its inverse.
PRODUCT, SPARSE_PRODUCT, CONVERTED, FACTOR = 0.016, 5.0, 20.0, 0.03

#: Stored numbers among which pairs in a column are counted, and rows, at least.
MOST_SEEN, FEWEST_SEEN = 5e4, 128

#: Numbers of sparse rows with their zeros that are multiplied at a time.
NUMBERS_AT_A_TIME = 2**19


class RowSpace(NamedTuple):
    """A problem in the span of its rows."""

    inside: Problem  # in v
    mixed: Matrix  # (n, r)  P [L_1^(-T), 0]'


def is_wide(problem: Problem, most_high: float = MOST_HIGH) -> bool:
    """Return whether the span of the rows is of use: few rows, in memory, and an l2 penalty of one strength.

    They are few with at most `most_high` of them for each column.
    """
    n, term = problem.n_rows, problem.term
    is_suited = problem.is_smooth and term.ridge > 0.0 and not term.has_weights and not is_parted(problem)
    return is_suited and n <= min(most_high * problem.rows.n_columns, MOST_ROWS)


def nanoseconds_of_products(problem: Problem) -> float:
    """Return how long the products of rows take, 0 once they are known."""
    return 0.0 if "products_of_rows" in problem.of_rows else min(_times_of_products(problem))


def nanoseconds_of_row_space(problem: Problem) -> float:
    """Return how long the span takes, whatever is known of it: the shapes of a run's state depend on it."""
    return min(_times_of_products(problem)) + FACTOR * problem.n_rows**3


@remembered_of_rows
def _times_of_products(problem: Problem) -> tuple[float, float]:
    """Return the nanoseconds of X X' with the zeros of sparse rows, and without them: at least, where that is the more.

    Pairs in a column are counted only where as many in each, which are the fewest, would take less time than the zeros.
    """
    n, rows = float(problem.n_rows), problem.rows
    by_matrix = PRODUCT * n * n * rows.n_columns
    if not isinstance(rows, CSRRows):
        return by_matrix, math.inf
    by_matrix += CONVERTED * rows.values.size
    fewest = SPARSE_PRODUCT * max(float(rows.values.size) ** 2 / max(rows.n_columns, 1), float(rows.values.size))
    if fewest > by_matrix:
        return by_matrix, fewest
    n_seen = min(problem.n_rows, max(FEWEST_SEEN, int(MOST_SEEN * n / max(rows.values.size, 1))))
    seen: Any = (
        rows if n_seen == n else some_rows(rows, np.linspace(0, problem.n_rows, n_seen, endpoint=False, dtype=np.int64))
    )
    met, n_stored = np.bincount(seen.columns, minlength=rows.n_columns).astype(np.float64), float(seen.values.size)
    n_pairs = (n / n_seen) ** 2 * (float(met @ met) - n_stored) + n / n_seen * n_stored  # each of a row with itself, too
    return by_matrix, SPARSE_PRODUCT * n_pairs


@remembered
def row_space(problem: Problem) -> RowSpace:
    """Return the problem in the span of its rows."""
    gram = products_of_rows(problem)
    lower, order, rank, _ = dpstrf(gram, tol=LEAST_PIVOT * float(gram.diagonal().max()), lower=1)
    order, rank = order - 1, max(rank, 1)
    inside, mixed = np.zeros((problem.n_rows, rank)), np.zeros((problem.n_rows, rank))
    inside[order] = np.tril(lower[:, :rank])
    if lower[0, 0] > 0.0:
        mixed[order[:rank]] = dtrtri(inside[order[:rank]], lower=1)[0].T
    rows = DenseRows(inside, problem.n_rows, rank, int(problem.rows.intercept))
    return RowSpace(replace(problem, rows=rows), mixed)


def _matrix(problem: Problem) -> Any:
    """Return the stored columns, sparse or, of small data, as sums over the rows have them."""
    arrays = whole_arrays(problem)
    return to_matrix(problem.rows if arrays is None else arrays.rows)


@remembered_of_rows
def products_of_rows(problem: Problem) -> Matrix:
    """Return X X', shape (n, n), of sparse rows with their zeros where that takes less time: by blocks of columns."""
    matrix = _matrix(problem)
    is_dense = isinstance(matrix, np.ndarray)
    if is_dense and matrix.dtype == np.float64:
        return np.asarray(matrix @ matrix.T)
    with_zeros, without = _times_of_products(problem)
    if not is_dense and without <= with_zeros:
        matrix = matrix.astype(np.float64, copy=False)
        return np.asarray((matrix @ matrix.T).toarray())
    n, d = matrix.shape
    by_columns, gram, width = matrix if is_dense else matrix.tocsc(), np.zeros((n, n)), max(1, NUMBERS_AT_A_TIME // n)
    for first in range(0, d, width):
        block = by_columns[:, first : first + width].astype(np.float64, copy=False)
        block = block if is_dense else block.toarray()
        gram += block @ block.T
    return gram


def into_row_space(problem: Problem, w: Vector) -> Vector:
    """Return Q'w, output by output; intercepts stay."""
    space, table, d = row_space(problem), w.reshape(problem.n_outputs, -1), problem.rows.n_columns
    without = np.concatenate([table[:, :d], np.zeros_like(table[:, d:])], axis=1)
    products = score_changes(problem, without.reshape(-1)).T
    return np.concatenate([products @ space.mixed, table[:, d:]], axis=1).reshape(-1)


def from_row_space(problem: Problem, v: Vector) -> Vector:
    """Return Q v, output by output; intercepts stay."""
    space, table = row_space(problem), v.reshape(problem.n_outputs, -1)
    r = space.mixed.shape[1]
    found = sum_of_rows(problem, (table[:, :r] @ space.mixed.T).T)
    found[:, problem.rows.n_columns :] = table[:, r:]
    return found.reshape(-1)


def divided_in_row_space(problem: Problem, solve: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return the inverse of a Hessian times a vector: in the span as `solve` has it, by the l2 penalty beside it."""
    inside, ridge, n_outputs = into_row_space(problem, right), problem.term.ridge, problem.n_outputs
    found = solve(inside)
    parts = (found - inside / ridge).reshape(n_outputs, -1)
    out = (right / ridge + from_row_space(problem, parts.reshape(-1))).reshape(n_outputs, -1)
    if problem.has_intercept:  # which is in the span
        out[:, -1] = found.reshape(n_outputs, -1)[:, -1]
    return out.reshape(-1)
