"""What a snapshot may know of the Hessian, for SVRG2: all of it, a diagonal, or its action on a few directions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, eigvalsh, svd

from finitesum.core import symmetric
from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.evaluation.hessian import hessian_of
from finitesum.methods.snapshot import Snapshot
from finitesum.problems.linear import LinearSum, Problem

#: The weight of the diagonal in "2Dsec".
SIGMA = 0.01


class Curvature(NamedTuple):
    """What a snapshot knows of H; the parts that an approximation does not use are empty."""

    hessian: Matrix  # full: H, a padded lower triangle
    eigenvalue: float  # full: lambda_max(H), else 0
    way: Vector  # 2D, 2Dsec: s (zeros for 2D)
    diagonal: Vector  # 2D, 2Dsec: A without the penalty
    sketch: Matrix  # CM, AM: R' = (S'HS)^-1/2 S', (k, d)
    image: Matrix  # CM, AM: Q' = (H R)', (k, d)


NO_MATRIX, NO_VECTOR = np.empty((0, 0)), np.empty(0)


def whole_hessian(problem: Problem, snapshot: Snapshot) -> Curvature:
    """Return H and its largest eigenvalue, NaN where a run has diverged and H is not finite."""
    dim = problem.dim
    whole = hessian_of(problem, snapshot.curvatures)
    triangle = symmetric.allocate(dim)
    triangle[:dim, :dim] = np.tril(whole)
    largest = math.nan
    if np.isfinite(whole).all():
        # LAPACK's drivers for a single eigenvalue fail where H is a diagonal and denormal numbers beside it
        largest = float(eigvalsh(whole, driver="evd", check_finite=False)[-1])
    return Curvature(triangle, largest, NO_VECTOR, NO_VECTOR, NO_MATRIX, NO_MATRIX)


@kernel_part
def add_diagonal(linear_sum: LinearSum, i: int, scale: float, way: Vector, out: Vector, v: Vector) -> None:
    """Add scale (s * z (z's) + sigma z * z) / (s * s + sigma) * v to out: a row's share of A v."""
    rows = linear_sum.rows
    along = rows.dot(i, way)
    start = rows.first(i)
    for k in range(start, start + rows.n_stored(i)):
        j, z = rows.column(i, k), rows.entry(i, k)
        out[j] += scale * (way[j] * z * along + SIGMA * z * z) / (way[j] * way[j] + SIGMA) * v[j]
    for j in range(linear_sum.n_penalised, v.size):
        out[j] += scale * (way[j] * along + SIGMA) / (way[j] * way[j] + SIGMA) * v[j]


@kernel
def _diagonal_of(linear_sum: LinearSum, curvatures: Vector, way: Vector, ones: Vector, out: Vector) -> None:
    """Add the diagonal A, without the penalty, to out."""
    for i in range(linear_sum.rows.n_rows):
        add_diagonal(linear_sum, i, linear_sum.weights[i] * curvatures[i], way, out, ones)


def diagonal_hessian(problem: Problem, snapshot: Snapshot, way: Vector) -> Curvature:
    """Return the diagonal (s * H s + sigma diag H) / (s * s + sigma), which for s = 0 is diag H."""
    diagonal = np.zeros(problem.dim)
    _diagonal_of(problem.view, snapshot.curvatures, way, np.ones(problem.dim), diagonal)
    return Curvature(NO_MATRIX, 0.0, way, diagonal, NO_MATRIX, NO_MATRIX)


@kernel
def _times_hessian(linear_sum: LinearSum, curvatures: Vector, vectors: Matrix, out: Matrix) -> None:
    """Write H v for each row v of `vectors` to the rows of out."""
    for k in range(vectors.shape[0]):
        for j in range(vectors.shape[1]):
            out[k, j] = linear_sum.penalty.ridge() * vectors[k, j] if j < linear_sum.n_penalised else 0.0
    for i in range(linear_sum.rows.n_rows):
        scale = linear_sum.weights[i] * curvatures[i]
        for k in range(vectors.shape[0]):
            linear_sum.rows.add_to(i, scale * linear_sum.rows.dot(i, vectors[k]), out[k])


def sketched_hessian(problem: Problem, snapshot: Snapshot, columns: Matrix) -> Curvature:
    """Return R and H R for the columns S, given as rows; directions that S hardly has, or that H ignores, are left out.

    The approximations depend on the span of S only, so that an orthonormal basis of it serves as well, and better.
    """
    _, sizes, basis = svd(columns, full_matrices=False, check_finite=False)
    basis = np.ascontiguousarray(basis[sizes > 1e-8 * sizes[0]])
    image = np.empty_like(basis)
    _times_hessian(problem.view, snapshot.curvatures, basis, image)
    values, vectors = eigh(basis @ image.T, check_finite=False)
    kept = values > 1e-12 * values[-1]
    root = np.ascontiguousarray((vectors[:, kept] / np.sqrt(values[kept])).T)
    return Curvature(NO_MATRIX, 0.0, NO_VECTOR, NO_VECTOR, root @ basis, root @ image)
