"""What a snapshot may know of the Hessian, for SVRG2: all of it, a diagonal, or its action on a few directions."""

import math
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import eigh, eigvalsh, svd

from finitesum.core import symmetric
from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import compiled_form, kernel
from finitesum.methods.snapshot import Snapshot, smooth_hessian
from finitesum.methods.visits import AnySum
from finitesum.problems.components import ViewedComponent
from finitesum.problems.view import View

#: The weight of the diagonal in "2Dsec".
SIGMA = 0.01

NO_MATRIX, NO_VECTOR = np.empty((0, 0)), np.empty(0)


class Curvature(NamedTuple):
    """What a snapshot knows of H; the parts that an approximation does not use are empty."""

    hessian: Matrix = NO_MATRIX  # full: H, a padded lower triangle
    eigenvalue: float = 0.0  # full: lambda_max(H), else 0
    step: Vector = NO_VECTOR  # 2D, 2Dsec: s (zeros for 2D)
    diagonal: Vector = NO_VECTOR  # 2D, 2Dsec: A without the penalty
    sketch: Matrix = NO_MATRIX  # CM, AM: R' = (S'HS)^-1/2 S', (k, d)
    image: Matrix = NO_MATRIX  # CM, AM: Q' = (H R)', (k, d)


def times_curvature(view: View, snapshot: Snapshot, i: int, v: Vector) -> Any:
    """Return phi''_i x_i'v at the snapshot; of a function, its Hessian times v, evaluated again."""
    if snapshot.curvatures.size == 0:
        change, loss = view.rows.dot(i, v), cast(Any, view.loss)
        return loss.d2_times(ViewedComponent(view, i).scores(snapshot.point), i, change)
    return snapshot.curvatures[i] * view.rows.dot(i, v)


@compiled_form(of=times_curvature)
def _times_curvature(view: View, snapshot: Snapshot, i: int, v: Vector) -> float:
    return snapshot.curvatures[i] * view.rows.dot(i, v)  # type: ignore[no-any-return]


def add_curvature_products(view: View, snapshot: Snapshot, i: int, scale: float, vectors: Matrix, out: Matrix) -> None:
    """Add scale phi''_i (x_i'v) x_i to a row of out for each row v of `vectors`; of a function, scale H_i v."""
    if snapshot.curvatures.size == 0:
        out += scale * (vectors @ ViewedComponent(view, i).hessian(snapshot.point))
    else:
        _add_curvature_products(view, snapshot, i, scale, vectors, out)


@compiled_form(of=add_curvature_products)
def _add_curvature_products(view: View, snapshot: Snapshot, i: int, scale: float, vectors: Matrix, out: Matrix) -> None:
    factor = scale * snapshot.curvatures[i]
    for k in range(vectors.shape[0]):
        view.rows.add_to(i, factor * view.rows.dot(i, vectors[k]), out[k])


def add_diagonal(view: View, snapshot: Snapshot, i: int, scale: float, step: Vector, v: Vector, out: Vector) -> None:
    """Add scale (s * H_i s + sigma diag H_i) / (s * s + sigma) * v to out, H_i = phi''_i x_i x_i': row i's part of A v."""
    if snapshot.curvatures.size == 0:
        hessian = ViewedComponent(view, i).hessian(snapshot.point)
        out += scale * (step * (hessian @ step) + SIGMA * np.diagonal(hessian)) / (step * step + SIGMA) * v
    else:
        _add_diagonal(view, snapshot, i, scale, step, v, out)


@compiled_form(of=add_diagonal)
def _add_diagonal(view: View, snapshot: Snapshot, i: int, scale: float, step: Vector, v: Vector, out: Vector) -> None:
    rows = view.rows
    factor = scale * snapshot.curvatures[i]
    along = rows.dot(i, step)
    start = rows.first(i)
    for k in range(start, start + rows.n_stored(i)):
        j, x = rows.column(i, k), rows.entry(i, k)
        out[j] += factor * (step[j] * x * along + SIGMA * x * x) / (step[j] * step[j] + SIGMA) * v[j]
    for j in range(view.n_penalised, v.size):
        out[j] += factor * (step[j] * along + SIGMA) / (step[j] * step[j] + SIGMA) * v[j]


def whole_hessian(problem: AnySum, snapshot: Snapshot) -> Curvature:
    """Return H and its largest eigenvalue, NaN where a run has diverged and H is not finite."""
    dim, whole = problem.dim, smooth_hessian(problem, snapshot)
    triangle = symmetric.allocate(dim)
    triangle[:dim, :dim] = np.tril(whole)
    largest = math.nan
    if np.isfinite(whole).all():
        # LAPACK's drivers for a single eigenvalue fail where H is a diagonal and denormal numbers beside it
        largest = float(eigvalsh(whole, driver="evd", check_finite=False)[-1])
    return Curvature(hessian=triangle, eigenvalue=largest)


@kernel
def _diagonal_of(view: View, snapshot: Snapshot, step: Vector, ones: Vector, out: Vector) -> None:
    """Add the diagonal A, without the penalty, to out."""
    for i in range(view.rows.n_rows):
        add_diagonal(view, snapshot, i, view.weights[i], step, ones, out)


def diagonal_hessian(problem: AnySum, snapshot: Snapshot, step: Vector) -> Curvature:
    """Return the diagonal (s * H s + sigma diag H) / (s * s + sigma), which for s = 0 is diag H."""
    diagonal = np.zeros(problem.dim)
    _diagonal_of(problem.view, snapshot, step, np.ones(problem.dim), diagonal)
    return Curvature(step=step, diagonal=diagonal)


@kernel
def _add_hessian_products(view: View, snapshot: Snapshot, vectors: Matrix, out: Matrix) -> None:
    """Add H v, without the penalty, to a row of out for each row v of `vectors`."""
    for i in range(view.rows.n_rows):
        add_curvature_products(view, snapshot, i, view.weights[i], vectors, out)


def sketched_hessian(problem: AnySum, snapshot: Snapshot, columns: Matrix) -> Curvature:
    """Return R and H R for the columns S, given as rows; directions that S hardly has, or that H ignores, are left out.

    The approximations depend on the span of S only, so that an orthonormal basis of it serves as well, and better.
    """
    _, sizes, basis = svd(columns, full_matrices=False, check_finite=False)
    basis = np.ascontiguousarray(basis[sizes > 1e-8 * sizes[0]])
    image = problem.term.quadratic * basis
    _add_hessian_products(problem.view, snapshot, basis, image)
    values, vectors = eigh(basis @ image.T, check_finite=False)
    kept = values > 1e-12 * values[-1]
    root = np.ascontiguousarray((vectors[:, kept] / np.sqrt(values[kept])).T)
    return Curvature(sketch=root @ basis, image=root @ image)
