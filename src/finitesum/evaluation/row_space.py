"""The span of the rows of wide data, in which the solution with an l2 penalty lies: a problem of at most n columns.

With fewer rows than columns, X X' = U S U' and Q = X' U S^(-1/2), shape (d, r), whose columns are orthonormal, predictions
are X Q v = U S^(1/2) v for coefficients w = Q v, and ||w|| = ||v||: in v it is the same problem on the rows of U S^(1/2). A
gradient or Hessian of w is that of v in the span, and l2 w or l2 I in the directions orthogonal to it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from finitesum.core.arrays import Matrix, Vector
from finitesum.problems.linear import Problem, remembered
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import DenseRows, to_matrix

#: The most rows by columns for which the span is worth it, and the most rows.
MOST_HIGH, MOST_ROWS = 0.7, 4000

#: The least eigenvalue of X X' that is kept, by the largest.
LEAST_EIGENVALUE = 1e-13

#: Nanoseconds of a multiplication in X X' and of one of the n^3 of its eigenvectors.
PRODUCT, EIGENVECTORS = 0.04, 0.6


class RowSpace(NamedTuple):
    """A problem in the span of its rows."""

    inside: Problem  # in v
    mixed: Matrix  # (n, r)  U S^(-1/2)


def is_wide(problem: Problem) -> bool:
    """Return whether the span of the rows is of use: few rows, in memory, and an l2 penalty of one strength."""
    n, term = problem.n_rows, problem.term
    is_suited = problem.is_smooth and term.ridge > 0.0 and not term.has_weights and not is_parted(problem)
    return is_suited and n <= min(MOST_HIGH * problem.rows.n_columns, MOST_ROWS)


def nanoseconds_of_row_space(problem: Problem) -> float:
    """Return how long the span takes, 0 once it is known."""
    if "row_space" in problem.derived:
        return 0.0
    n = problem.n_rows
    return float(n * (PRODUCT * problem.rows.values.size + EIGENVECTORS * n**2))


@remembered
def row_space(problem: Problem) -> RowSpace:
    """Return the problem in the span of its rows."""
    matrix = to_matrix(problem.rows).astype(np.float64, copy=False)
    gram = matrix @ matrix.T
    gram = gram if isinstance(gram, np.ndarray) else gram.toarray()
    values, vectors = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    kept = values > LEAST_EIGENVALUE * float(values[-1])
    kept[-1] = True
    sizes = np.sqrt(np.maximum(values[kept], 1e-300))
    inside = np.ascontiguousarray(vectors[:, kept] * sizes)
    rows = DenseRows(inside, problem.n_rows, sizes.size, int(problem.rows.intercept))
    return RowSpace(replace(problem, rows=rows), vectors[:, kept] / sizes)


def into_row_space(problem: Problem, w: Vector) -> Vector:
    """Return Q'w, output by output; intercepts stay."""
    space, table, d = row_space(problem), w.reshape(problem.n_outputs, -1), problem.rows.n_columns
    products = np.asarray((to_matrix(problem.rows) @ table[:, :d].T).T, dtype=np.float64)
    return np.concatenate([products @ space.mixed, table[:, d:]], axis=1).reshape(-1)


def from_row_space(problem: Problem, v: Vector) -> Vector:
    """Return Q v, output by output; intercepts stay."""
    space, table = row_space(problem), v.reshape(problem.n_outputs, -1)
    r, matrix = space.mixed.shape[1], to_matrix(problem.rows)
    of_rows = table[:, :r].astype(np.float64) @ space.mixed.T
    found = of_rows @ matrix if isinstance(matrix, np.ndarray) else (matrix.T @ of_rows.T).T
    return np.concatenate([found, table[:, r:]], axis=1).reshape(-1)
