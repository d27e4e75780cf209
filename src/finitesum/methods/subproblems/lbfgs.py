"""L-BFGS: pairs of a step and the change of the gradient over it, which correct a preconditioner.

With P the factor's matrix and pairs (s_k, y_k), `solve` returns the product of the inverse that the BFGS formula makes of
P^-1 and the pairs, oldest first, with a vector: the two loops of L-BFGS [1, algorithm 7.4], with P in the place of a
multiple of the identity. On a quadratic the steps are those of conjugate gradients preconditioned by P.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, section 7.2.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_blas_funcs

from finitesum.core.arrays import Matrix, Vector

#: Pairs that are kept.
MEMORY = 20


class Pairs(NamedTuple):
    """The pairs, oldest first."""

    steps: Matrix  # (k, d)  s
    changes: Matrix  # (k, d)  y


def no_pairs(dim: int, kind: Any = np.float64) -> Pairs:
    """Return no pairs, of numbers of a kind."""
    return Pairs(np.zeros((0, dim), kind), np.zeros((0, dim), kind))


def with_pair(known: Pairs, step: Vector, change: Vector, most: int = MEMORY) -> Pairs:
    """Return the pairs with one more, at most a given number, unless it shows no curvature (rounding errors)."""
    curvature = step @ change
    if not curvature > 1e-14 * math.sqrt(step @ step) * math.sqrt(change @ change):
        return known
    return Pairs(_with_row(known.steps, step, most), _with_row(known.changes, change, most))


def _with_row(rows: Matrix, row: Vector, most: int) -> Matrix:
    """Return the last rows, at most `most`, with one more behind them: in the memory behind the rows where there is room.

    The rows given stay as they are.
    """
    first, memory, stride = max(0, len(rows) + 1 - most), rows.base, row.nbytes
    if isinstance(memory, np.ndarray) and memory.flags.c_contiguous and memory.shape[1:] == row.shape and stride:
        start = (rows.ctypes.data - memory.ctypes.data) // stride
        end = start + len(rows)
        if end < len(memory) and memory.dtype == row.dtype:
            memory[end] = row
            return memory[start + first : end + 1]
    memory = np.empty((2 * most, *row.shape), row.dtype)
    kept = len(rows) - first
    memory[:kept] = rows[first:]
    memory[kept] = row
    return memory[: kept + 1]


def solve(known: Pairs, precondition: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return the BFGS inverse of the pairs times `right`, with `precondition` as the inverse to begin with."""
    add = get_blas_funcs("axpy", (right,))
    left, found = right.copy(), []
    for step, change in zip(known.steps[::-1], known.changes[::-1], strict=True):
        curvature = step @ change
        coefficient = (step @ left) / curvature
        left = add(change, left, a=-coefficient)
        found.append((coefficient, curvature))
    result = precondition(left)
    for step, change, (coefficient, curvature) in zip(known.steps, known.changes, reversed(found), strict=True):
        result = add(step, result, a=coefficient - (change @ result) / curvature)
    return result
