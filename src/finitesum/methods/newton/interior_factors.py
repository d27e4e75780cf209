"""Factors R'R of the matrices of the interior-point method, scaled to a diagonal of ones.

While the weights c_i theta_i spread over twenty orders of magnitude, a sum of squares keeps the large ones alone. So the
rows themselves are brought to a triangle R by Householder's reflections, largest rows and columns first [1], where there
are not too many of them; beyond, R is the Cholesky factor of the sum.

References
----------
.. [1] A. J. Cox, N. J. Higham, "Stability of Householder QR factorization for weighted least squares problems", 1998.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, qr

from finitesum.core.arrays import Indices, Matrix, Vector

#: Multiplications that the triangle of the rows may cost: a tenth of a second.
MOST_WORK = 1e8

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
    """Return the factor of A'A."""
    size = stacked.shape[1]
    norms = np.linalg.norm(stacked, axis=0)
    scale = 1.0 / np.where(norms > 0.0, norms, 1.0)
    scaled = stacked * scale
    largest = np.abs(scaled).max(axis=1, initial=0.0)
    scaled = scaled[np.argsort(-largest, kind="stable")[: np.count_nonzero(largest)]]
    scaled = np.concatenate([scaled, np.zeros((max(size - scaled.shape[0], 0), size))])
    triangle, order = qr(scaled, mode="r", pivoting=True, check_finite=False)
    triangle = triangle[:size]
    weak = np.flatnonzero(np.abs(np.diagonal(triangle)) <= LEAST_PIVOT * abs(triangle[0, 0]))
    triangle[weak] = 0.0
    triangle[weak, weak] = 1.0 / LEAST_PIVOT
    return Triangle(triangle, order, scale)


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
