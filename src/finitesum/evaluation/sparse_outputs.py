"""Products of sparse rows with tables of K columns, for several outputs: by rows, or by columns of a copy.

By rows, each entry adds to the K numbers of its row. If K is small, an entry waits for the sum of the one before it; if
columns are many, their numbers are not in the cache. A copy in CSC format has its entries column by column, and each adds
to the numbers of another row. Where those are in the cache, a product takes half of the time, and less with many columns.
Sums over the rows are the same products with the transpose. The copy is made after some products; of large and of mapped
rows there is none. Entries that are sorted by columns are summed in the same order either way, so that sums have the same
bits; others are read by rows.
"""

from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix
from finitesum.core.mapped import mapping_of
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import to_matrix, turned

#: Products by rows before the copy is made, which takes as long as the time that 5 to 15 of them lose (measured on text).
BEFORE_COPY = 10

#: Outputs up to which sums by rows wait for each other: with 8 or more the copy gains nothing (measured, AMD EPYC).
FEW_OUTPUTS = 5

#: Numbers, n K or K d, that a core's cache holds nearly: 2.4 MB (measured with 1 MB of its own and 32 MB shared).
IN_CACHE = 300_000

#: n / d below which the copy gains for any number of outputs: the numbers of rows are nearer than those of columns.
FEW_ROWS = 0.5

#: Bytes of the entries' values of which a copy is made.
MOST_BYTES = 1e9


@remembered_of_rows
def matrix_of(problem: Problem) -> Any:
    """Return the rows as a matrix over the same memory, which for SciPy takes as long to make as a product of few rows."""
    return to_matrix(problem.rows)


@remembered_of_rows
def _transposed(problem: Problem) -> Any:
    return matrix_of(problem).T


@remembered_of_rows
def _by_columns(problem: Problem) -> tuple[Any, Any]:
    """Return a copy in CSC format, and its transpose."""
    transpose = to_matrix(turned(problem.rows))
    return transpose.T, transpose


def scores_of(problem: Problem, table: Matrix) -> Matrix:
    """Return sum_j x_ij w_kj, shape (n, K), for a table w of shape (K, d), of sparse rows in float64."""
    n_rows, n_columns, n_outputs = problem.n_rows, problem.rows.n_columns, len(table)
    if n_rows < FEW_ROWS * n_columns or (n_outputs <= FEW_OUTPUTS and n_outputs * n_rows <= IN_CACHE):
        if _is_worth_a_copy(problem):
            found: Matrix = _by_columns(problem)[0] @ table.T
            return found
        problem.of_rows["n_products"] = problem.of_rows.get("n_products", 0) + 1
    return np.asarray(matrix_of(problem) @ table.T)


def _is_worth_a_copy(problem: Problem) -> bool:
    values = problem.rows.values
    if problem.of_rows.get("n_products", 0) < BEFORE_COPY or values.nbytes > MOST_BYTES or mapping_of(values) is not None:
        return False
    return bool(matrix_of(problem).has_sorted_indices)


def combined(problem: Problem, scales: Matrix) -> Matrix:
    """Return sum_i r_ik x_i, shape (K, d), for r of shape (n, K), of sparse rows in float64."""
    n_rows, n_columns = problem.n_rows, problem.rows.n_columns
    is_far = n_rows < FEW_ROWS * n_columns and scales.shape[1] * n_columns > 2 * IN_CACHE
    across = _by_columns(problem)[1] if is_far and "_by_columns" in problem.of_rows else _transposed(problem)
    found: Matrix = (across @ scales).T
    return found
