"""What passes of coordinate descent over columns, a Gram matrix of them and a factor take, about."""

import math

import numpy as np

from finitesum.problems.rows import CSRRows, DenseRows

#: Nanoseconds of a product of two sparse entries of a row, in a Gram matrix, and of the calls of a minimiser by one.
OF_PAIR, OF_CALLS = 0.6, 7e5

#: Coordinates of a Gram matrix, at most.
MOST_OF_GRAM = 3000


def nanoseconds_of_pass(columns: DenseRows | CSRRows, n_free: int) -> float:
    """Return about what a pass over some coordinates takes."""
    if isinstance(columns, DenseRows):
        return n_free * (20.0 + 0.5 * columns.n_columns)
    return n_free * (20.0 + 2.0 * columns.values.size / max(columns.n_rows, 1))


def nanoseconds_of_gram(columns: DenseRows | CSRRows) -> float:
    """Return about what a Gram matrix of all coordinates takes, by their number squared where they are dense."""
    if isinstance(columns, DenseRows):
        return 0.05 * columns.n_columns
    counts = np.bincount(columns.columns).astype(np.float64)
    return OF_PAIR * float(counts @ counts) / max(columns.n_rows, 1) ** 2


def nanoseconds_of_face(of_gram: float, n_free: int, of_calls: float | None = None) -> float:
    """Return about what the minimiser over free coordinates takes: their Gram matrix and its factor."""
    if n_free > MOST_OF_GRAM:
        return math.inf
    return (OF_CALLS if of_calls is None else of_calls) + n_free * (of_gram * n_free + 2.0 * n_free + 0.02 * n_free**2)
