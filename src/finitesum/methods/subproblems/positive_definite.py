"""Solutions of H v = b for symmetric H >= 0: by Cholesky's factor, with a diagonal that is raised where there is none."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

from finitesum.core.arrays import Matrix, Vector

#: The least shift of a diagonal, relatively, in double precision.
LEAST_SHIFT = 1e-14


def solve_spd(hessian: Matrix, right: Matrix) -> Matrix:
    """Return H^-1 right for a finite symmetric H >= 0, given by its lower triangle (a shifted H where it is not > 0)."""
    _, solution, info = lapack.dposv(hessian.T, right, lower=0)
    if info == 0:
        return np.asarray(solution)
    is_known = bool((np.diagonal(hessian) > 0.0).all())  # that there is none without a shift
    factor, _ = raised_factor(np.array(hessian, order="C"), LEAST_SHIFT if is_known else 0.0)
    return apply_inverse(factor, right)


def inverse_of(matrix: Matrix, advice: str) -> Matrix:
    """Return the inverse of a matrix > 0 in C order, by its lower triangle; for others raise a ValueError that advises."""
    try:
        factor = cho_factor(matrix, check_finite=False)
    except LinAlgError:
        raise ValueError(advice) from None
    return np.ascontiguousarray(cho_solve(factor, np.eye(matrix.shape[0]), check_finite=False))


def raised_factor(matrix: Matrix, shift: float) -> tuple[Matrix, float]:
    """Return the Cholesky factor of H + shift diag(H), for `apply_inverse`, and the shift that it took.

    H is given by its lower triangle, in C order, whose diagonal is overwritten: where that is not > 0 it counts as 1. The
    shift is raised until the matrix is positive definite, from 1e-14 on (1e-6 in single precision) by factors of 100.
    """
    everywhere = np.arange(matrix.shape[0])
    diagonal = np.diagonal(matrix).copy()
    diagonal[~(diagonal > 0.0)] = 1.0  # a column without curvature
    potrf, least = (lapack.spotrf, 1e-6) if matrix.dtype == np.float32 else (lapack.dpotrf, LEAST_SHIFT)
    while True:
        matrix[everywhere, everywhere] = diagonal * (1.0 + shift)
        factor, info = potrf(matrix.T, lower=0, clean=0)
        if info == 0:
            return factor, shift
        if not shift < 1e12:  # NaN
            return np.asfortranarray(np.diag(np.sqrt(diagonal))), shift
        shift = max(least, 100.0 * shift)


def apply_inverse(factor: Matrix, right: Vector) -> Vector:
    """Return the solution of H v = right by the factor of H, which may have no rows."""
    if not factor.size:  # which LAPACK's wrapper refuses
        return np.zeros(np.shape(right), factor.dtype)
    potrs = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    return np.asarray(potrs(factor, right, lower=0)[0])


def with_positive_eigenvalues(hessian: Matrix) -> Matrix:
    """Return H, or H with its eigenvalues replaced by their sizes where one of them is well below 0."""
    if not np.isfinite(hessian).all():
        return hessian
    values, vectors = np.linalg.eigh(hessian)
    if values[0] >= -1e-12 * max(values[-1], 0.0):
        return hessian
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    definite: Matrix = (vectors * sizes) @ vectors.T
    return definite
