"""Sums over dense rows for several outputs, by one read of the data: each block of rows stays in the cache.

A block's scores x_i'w_k + b_k come first, then what is made of them, r_ik, and its part of sum_i r_ik (x_i, 1). Products
of few numbers take half as long as others in the linear algebra library, which copies the factors of larger ones first:
scores are made of a few rows at a time.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.threads import NUMBERS_OF_A_THREAD, blas_threads, limited_blas, map_parts
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows

#: Numbers of a block that stays in the cache for both products, and of the rows whose scores are made at once.
IN_CACHE, AT_ONCE = 1 << 18, 1 << 16

#: Parts of many rows, at most, that threads take.
MOST_PARTS = 32

#: Multiplications up to which a product is small, and the rows from which small products are worth their calls.
SMALL, LEAST_ROWS = 1_000_000, 64


@remembered_of_rows
def _single_rows(problem: Problem) -> Matrix:
    """Return dense rows in single precision."""
    values: Matrix = problem.rows.values.astype(np.float32, copy=False)
    return values


def sums_of_dense_rows(
    problem: Problem, w: Vector, kind: Any, function: Callable[[slice, Matrix], tuple[float, Matrix]]
) -> tuple[float, Matrix]:
    """Return the sum of values and sum_i r_ik (x_i, 1), shape (K, dim), products being in a precision.

    function(here, scores) returns a value and r, shape (K, m), for the rows `here` and x_i'w_k + b_k, shape (K, m), which
    it may write over: offsets are not in it.
    """
    n, d, table = problem.n_rows, problem.rows.n_columns, w.reshape(problem.n_outputs, -1)
    matrix = _single_rows(problem) if kind == np.float32 else problem.rows.values
    columns, n_outputs, size = table[:, :d].T.astype(kind, order="C"), len(table), max(LEAST_ROWS, IN_CACHE // max(d, 1))
    few, not_zero = min(AT_ONCE, SMALL // n_outputs) // max(d, 1), w.any()  # 0 is where fits begin
    if few < LEAST_ROWS:
        few = size

    def of_block(here: slice, out: Matrix) -> float:
        block = matrix[here].astype(kind, copy=False)
        scores, sums = (np.empty if not_zero else np.zeros)((n_outputs, len(block)), kind), out[:, :d]
        parts = [slice(i, i + few) for i in range(0, len(block), few)]
        for part in parts if not_zero else ():
            scores[:, part] = (block[part] @ columns).T if few < size else columns.T @ block.T
        if problem.has_intercept:
            scores += table[:, d:]
        value, changes = function(here, scores)
        for part in parts:
            sums += changes[:, part] @ block[part]
        if problem.has_intercept:
            out[:, d] += changes.sum(axis=1)
        return value

    def of_rows(start: int, stop: int) -> tuple[float, Matrix]:
        total, out = 0.0, np.zeros(table.shape)
        with np.errstate(all="ignore"):  # of this thread, after a divergence
            for first in range(start, stop, size):
                total += of_block(slice(first, min(first + size, stop)), out)
        return total, out

    n_parts = min(int(matrix.size // NUMBERS_OF_A_THREAD), MOST_PARTS)
    if n_parts <= 1:
        return of_rows(0, n)
    ends = np.linspace(0, n, n_parts + 1).astype(int)  # by the data alone, so that sums have the same bits on any threads
    parts, n_threads = list(itertools.pairwise(ends)), min(blas_threads(), n_parts)
    some = [parts[i * n_parts // n_threads : (i + 1) * n_parts // n_threads] for i in range(n_threads)]
    with limited_blas(1):
        by_thread = map_parts(lambda these: [of_rows(*part) for part in these], some, n_threads)
    values, sums = zip(*itertools.chain.from_iterable(by_thread), strict=True)
    return sum(values), sum(sums[1:], start=sums[0])
