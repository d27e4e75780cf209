"""Hessians of linear models with several classes in the differences to the last class, from all rows or those that count.

A row's loss does not change where one number is added to all of its scores, and the l2 penalty sees the mean over the
classes apart from the differences t_k = w_k - w_K, k < K. The Hessian of F in t has the blocks

    sum_i p_i P_ik ([k = l] - P_il) x_i x_i' + ([k = l] - 1 / K) diag(l2),    k, l < K.

The weights of each sum have one sign, so that BLAS computes half of it: K (K - 1) / 2 products of half a matrix. With few
columns all pairs of classes are one product of rows of (K - 1) d numbers, which takes less time than many small ones. Many
rows with few entries are summed entry by entry.
"""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_products import squares_of_rows
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import CSRRows, to_matrix

#: Nanoseconds of a multiplication and addition in a product of rows with their zeros, and of a number that is scaled.
PRODUCT, SCALED = 0.009, 1.5

#: Nanoseconds, entry by entry, of a row, of a product of two entries, of a number of the sum and of a pair of classes.
OF_ROW, OF_ENTRIES, OF_NUMBER, OF_PAIR = 8.0, 0.3, 4.0, 2e5

#: Nanoseconds that a Hessian must save by it: a kernel takes half a second to load in a process that has none yet.
WORTH_A_KERNEL = 1e8

#: Columns up to which all pairs of classes are one product.
MOST_JOINT = 100

#: Numbers of a block of rows.
BLOCK_SIZE = 1 << 20


def rows_that_count(problem: Problem, chances: Matrix, n_wanted: int) -> tuple[Indices, Vector]:
    """Return about n_wanted rows and the weights with which they stand for all: rows of high curvature are taken first.

    A row is taken with a chance q_i = min(1, c_i / c), c_i = p_i (1 - sum_k P_ik^2) (||x_i||^2 + 1), at weight p_i / q_i;
    those of q_i < 1 are spread evenly over the data.
    """
    if n_wanted >= problem.n_rows:
        rows = np.flatnonzero(problem.weights > 0.0)
        return rows, problem.weights[rows]
    sizes = problem.weights * (1.0 - np.einsum("ik,ik->i", chances, chances)) * (squares_of_rows(problem.one_output) + 1.0)
    sizes[~(problem.weights > 0.0)] = 0.0
    counted = np.flatnonzero(sizes > 0.0)  # no NaN
    if counted.size <= n_wanted:
        return counted, problem.weights[counted]
    falling = np.sort(sizes[counted])[::-1]
    sums = np.cumsum(falling[::-1])[::-1]
    n_certain = np.arange(min(n_wanted, falling.size))
    is_over = falling[n_certain] * (n_wanted - n_certain) <= sums[n_certain]
    first = int(np.argmax(is_over)) if is_over.any() else n_wanted - 1
    shares = np.minimum(1.0, sizes[counted] * ((n_wanted - first) / sums[first]))
    sums = np.floor(np.cumsum(shares) + 0.5)
    is_taken = np.diff(sums, prepend=0.0) > 0.0
    return counted[is_taken], problem.weights[counted[is_taken]] / shares[is_taken]


def hessian_of_differences(
    problem: Problem, chances: Matrix, rows: Indices | None, weights: Vector | None, kind: Any
) -> Matrix:
    """Return the lower triangle of the Hessian in t of weighted rows, shape ((K - 1) dim, (K - 1) dim), in a precision.

    Without rows and weights it is that of all rows, with their own weights.
    """
    if is_by_entries(problem, problem.n_rows if rows is None else rows.size):
        of_rows = problem.weights
        if rows is not None and weights is not None:
            of_rows = np.zeros(problem.n_rows)
            of_rows[rows] = weights
        out = _summed_by_entries(problem, chances, several.loss_of(problem).scale * of_rows, kind)
    elif rows is None or weights is None:
        out = sum_over_problems(
            lambda part, here: _summed(part, here, several.loss_of(part).scale * part.weights, kind),
            problem,
            reads=(chances,),
        )
    else:
        of_rows = np.zeros(problem.n_rows)
        of_rows[rows] = several.loss_of(problem).scale * weights
        reads = chances, of_rows
        out = sum_over_problems(lambda part, *given: _summed(part, given[0], given[1], kind), problem, reads=reads)
    return with_penalty(problem, np.asarray(out))


def with_penalty(problem: Problem, hessian: Matrix) -> Matrix:
    """Add what the penalty adds to the lower triangle of a Hessian in t, in place, and return it."""
    n_others, dim = problem.n_outputs - 1, problem.rows.dim()
    ridge, columns, blocks = problem.term.quadratic[:dim], np.arange(dim), hessian.reshape(n_others, dim, n_others, dim)
    for k in range(n_others):
        for other in range(k + 1):
            blocks[k, columns, other, columns] += (float(k == other) - 1.0 / problem.n_outputs) * ridge
    return hessian


def _summed(problem: Problem, chances: Matrix, of_rows: Vector, kind: Any) -> Matrix:
    """Return the sum over rows of weights > 0."""
    n_others, dim, d = problem.n_outputs - 1, problem.rows.dim(), problem.rows.n_columns
    out, matrix, rows = np.zeros((n_others, dim, n_others, dim), kind), to_matrix(problem.rows), np.flatnonzero(of_rows)
    is_joint = dim <= MOST_JOINT
    n_together = max(BLOCK_SIZE // (dim * n_others), dim * n_others) if is_joint else max(BLOCK_SIZE // dim, dim)
    for first in range(0, rows.size, n_together):
        some = rows[first : first + n_together]
        stored = matrix[some[0] : some[-1] + 1] if some[-1] - some[0] == some.size - 1 else matrix[some]
        block = np.ones((some.size, dim), kind)
        block[:, :d] = stored if isinstance(stored, np.ndarray) else stored.toarray()
        (_add_jointly if is_joint else _add_pairs)(out, block, chances[some, :n_others], of_rows[some])
    return out.reshape(n_others * dim, n_others * dim)


def _summed_by_entries(problem: Problem, chances: Matrix, of_rows: Vector, kind: Any) -> Matrix:
    """Return the sum over sparse rows of weights > 0, pair by pair."""
    n_others, dim = problem.n_outputs - 1, problem.rows.dim()
    out = np.zeros((n_others, dim, n_others, dim), kind)
    for k in range(n_others):
        for other in range(k + 1):
            own = of_rows * chances[:, k] * (1.0 - chances[:, k] if other == k else chances[:, other])
            own[of_rows == 0.0] = 0.0  # what overflows must not show
            found = gram(problem.one_output, own)
            out[k, :, other, :] = found if other == k else -found
    return out.reshape(n_others * dim, n_others * dim)


def nanoseconds_with_zeros(n_outputs: int, dim: int) -> float:
    """Return the nanoseconds of a row in a Hessian in single precision, with its zeros."""
    n_others = n_outputs - 1
    if dim <= MOST_JOINT:
        return PRODUCT * float(n_others * dim) ** 2 + 2.0 * SCALED * n_others * dim
    return n_others * n_outputs / 2 * (PRODUCT * float(dim) ** 2 + SCALED * dim)


def is_by_entries(problem: Problem, n_rows: Any) -> Any:
    """Return whether a Hessian of a number of rows is summed entry by entry: where that saves enough for its kernel."""
    if not isinstance(problem.rows, CSRRows):
        return np.zeros(np.shape(n_rows), dtype=bool)
    with_zeros = n_rows * nanoseconds_with_zeros(problem.n_outputs, problem.rows.dim())
    return with_zeros - nanoseconds_by_entries(problem, n_rows) >= WORTH_A_KERNEL


def nanoseconds_by_entries(problem: Problem, n_rows: Any) -> Any:
    """Return the nanoseconds of a Hessian of a number of sparse rows entry by entry."""
    of_rows = n_rows * (OF_ROW + OF_ENTRIES * _mean_square(problem))
    n_pairs = (problem.n_outputs - 1) * problem.n_outputs / 2
    return n_pairs * (of_rows + OF_NUMBER * float(problem.rows.dim()) ** 2 + OF_PAIR)


@remembered_of_rows
def _mean_square(problem: Problem) -> float:
    """Return the mean square of the rows' numbers of entries."""
    stored = np.diff(problem.rows.starts).astype(np.float64) + problem.rows.intercept
    mean: float = float(stored @ stored) / stored.size
    return mean


def _add_pairs(out: Any, block: Matrix, chances: Matrix, weights: Vector) -> None:
    """Add a block of rows to the Hessian, pair by pair."""
    scaled, gram = np.empty_like(block), np.empty((block.shape[1],) * 2, block.dtype)
    for k in range(out.shape[0]):
        for other in range(k + 1):
            own = weights * chances[:, k] * (1.0 - chances[:, k] if other == k else chances[:, other])
            np.multiply(block, np.sqrt(own).astype(block.dtype)[:, None], out=scaled)
            np.matmul(scaled.T, scaled, out=gram)  # which sees that it is symmetric
            if other == k:
                out[k, :, k, :] += gram
            else:
                out[k, :, other, :] -= gram


def _add_jointly(out: Any, block: Matrix, chances: Matrix, weights: Vector) -> None:
    """Add a block of rows to the Hessian by one product, and one for each class."""
    n_others, dim = out.shape[:2]
    parts = (chances * np.sqrt(weights)[:, None]).astype(block.dtype)
    products = (parts[:, :, None] * block[:, None, :]).reshape(-1, n_others * dim)
    joint = out.reshape(n_others * dim, n_others * dim)
    joint -= products.T @ products
    for k in range(n_others):
        scaled = block * np.sqrt(weights * chances[:, k]).astype(block.dtype)[:, None]
        out[k, :, k, :] += scaled.T @ scaled
