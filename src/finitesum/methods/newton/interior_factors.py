"""Factors R'R of the matrices of the interior-point method, scaled to a diagonal of ones.

While the weights c_i theta_i spread over twenty orders of magnitude, a sum of squares keeps the large ones alone. So the
rows themselves are brought to a triangle R by Householder's reflections, largest rows and columns first [1], where there
are not too many of them; beyond, R is the Cholesky factor of the sum. Most rows are small: where the largest have a
triangle T whose least pivot is not far below all the others together, these need no reflections. With S their sum of
squares, C'C = I + T^-T S T^-1 has a condition number that is known to be moderate, and R = C T.

References
----------
.. [1] A. J. Cox, N. J. Higham, "Stability of Householder QR factorization for weighted least squares problems", 1998.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, qr

from finitesum.core.arrays import Indices, Matrix, Vector

#: Multiplications that a triangle of all rows may cost: a tenth of a second.
MOST_WORK = 1e8

#: The largest rows that are reflected first, in columns, and by how many times more until they are enough: while the
#: squares of the others are more than this times that of the triangle's least pivot, of which rounding errors leave twelve
#: digits.
FIRST_ROWS, MORE_ROWS, MOST_OF_OTHERS = 4, 4, 1e4

#: What is added to the diagonal of ones of a matrix until it has a Cholesky factor.
RAISED = (1e-15, 1e-13, 1e-11, 1e-8)

#: The least pivot of a triangle, relative to the first; a coordinate below it stays.
LEAST_PIVOT = 1e-15


class Triangle(NamedTuple):
    """A factor R of a matrix, scaled to a diagonal of ones, its coordinates in an order."""

    triangle: Matrix
    order: Indices
    scale: Vector

    def solved(self, right: Vector) -> Vector:
        """Return the solution for a right-hand side."""
        solution = np.empty_like(right)
        inner, _ = lapack.dtrtrs(self.triangle, (self.scale * right)[self.order], trans=1)
        solution[self.order], _ = lapack.dtrtrs(self.triangle, inner)
        return solution * self.scale


def of_stacked(stacked: Matrix) -> Triangle:
    """Return the factor of A'A, and leave A overwritten."""
    norms = np.sqrt(np.einsum("ij,ij->j", stacked, stacked))
    scale = 1.0 / np.where(norms > 0.0, norms, 1.0)
    stacked *= scale
    triangle, order = _of_largest(stacked) or _reflected(stacked)
    weak = np.flatnonzero(np.abs(np.diagonal(triangle)) <= LEAST_PIVOT * abs(triangle[0, 0]))
    triangle[weak] = 0.0
    triangle[weak, weak] = 1.0 / LEAST_PIVOT
    return Triangle(triangle, order, scale)


def _of_largest(rows: Matrix) -> tuple[Matrix, Indices] | None:
    """Return R and its order by reflections of the largest rows and a sum of squares of the others, if it is accurate."""
    (n, size), squares = rows.shape, np.einsum("ij,ij->i", rows, rows)
    n_first = FIRST_ROWS * size
    while MORE_ROWS * n_first <= n:
        parted = np.argpartition(-squares, n_first)
        triangle, order = _reflected(rows[parted[:n_first]])
        least = float(np.abs(np.diagonal(triangle)).min(initial=np.inf))
        if float(squares[parted[n_first:]].sum()) <= MOST_OF_OTHERS * least**2:
            break
        n_first *= MORE_ROWS
    else:
        return None
    rows[parted[:n_first]] = 0.0
    half, _ = lapack.dtrtrs(triangle, (rows.T @ rows)[np.ix_(order, order)], trans=1)
    both, _ = lapack.dtrtrs(triangle, half.T, trans=1)
    both[np.diag_indices_from(both)] += 1.0
    return cholesky(both, check_finite=False) @ triangle, order


def _reflected(rows: Matrix) -> tuple[Matrix, Indices]:
    """Return R and the order of its columns by reflections of all rows."""
    size = rows.shape[1]
    largest = np.abs(rows).max(axis=1, initial=0.0)
    rows = rows[np.argsort(-largest, kind="stable")[: np.count_nonzero(largest)]]
    rows = np.concatenate([rows, np.zeros((max(size - rows.shape[0], 0), size))])
    triangle, order = qr(rows, mode="r", pivoting=True, check_finite=False)
    return triangle[:size], order


def of_sum(matrix: Matrix) -> Triangle | None:
    """Return the factor of a sum, minutely raised; None where it is not nearly positive semidefinite."""
    diagonal = np.diagonal(matrix)
    if not ((diagonal >= 0.0) & (diagonal < np.inf)).all():
        return None
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = matrix * scale * scale[:, None]
    for raised in RAISED:
        scaled[np.diag_indices_from(scaled)] = 1.0 + raised
        try:
            return Triangle(cholesky(scaled, check_finite=False), np.arange(scale.size), scale)
        except LinAlgError:
            pass
    return None
