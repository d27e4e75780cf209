"""The linear system of a step of the interior-point method, with a matrix sum_i c_i theta_i x_i x_i' + diag(q).

While the weights c_i theta_i spread over twenty orders of magnitude, a sum of squares keeps the large ones alone. So the
rows themselves are brought to a triangle R by Householder's reflections, largest rows and columns first [1], where there
are not too many of them; beyond, R is the Cholesky factor of the sum. Solutions are refined with the residual.

References
----------
.. [1] A. J. Cox, N. J. Higham, "Stability of Householder QR factorization for weighted least squares problems", 1998.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, qr

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.row_products import combination, matrix_of_rows, predictions
from finitesum.methods.newton.interior_sides import Sides
from finitesum.problems.linear import Problem, remembered
from finitesum.problems.partitioned import is_parted

#: Multiplications that the triangle of the rows may cost: a tenth of a second.
MOST_WORK = 1e8

#: What is added to the diagonal of ones of a matrix until it has a Cholesky factor.
RAISED = (1e-15, 1e-13, 1e-11, 1e-8)

#: The least pivot of a triangle, relative to the first; a coordinate below it stays.
LEAST_PIVOT = 1e-15

#: Times that a solution is refined.
N_REFINEMENTS = 1


class System(NamedTuple):
    """A system's matrix and its factor: R'R is the matrix, scaled to a diagonal of ones, its coordinates in `order`."""

    sides: Sides
    rows: Any  # of the sides, where the state is
    theta: Vector  # (n + k,)
    quadratic: Vector  # the diagonal that the penalty and an l2 ball's multiplier make
    basis: Matrix  # of the rows' span, in which the factor is; else (0, 0)
    triangle: Matrix
    order: Indices
    scale: Vector

    def solution(self, problem: Problem, right: Vector) -> tuple[Vector, Vector]:
        """Return the step for a right-hand side, in a simplex's plane, and what the margins and sides change by."""
        step = self._solved(right)
        for _ in range(N_REFINEMENTS):
            changes = row_products(problem, self.rows, step)
            pull = pulled_back(problem, self.sides, self.rows, self.theta * changes)
            step = step + self._solved(right - self.quadratic * step - pull)
        return step, row_products(problem, self.rows, step)

    def _solved(self, right: Vector) -> Vector:
        if self.basis.size:
            d, n = self.basis.shape
            small = self._by_triangle(np.concatenate([self.basis.T @ right[:d], right[d:]]))
            return np.concatenate([self.basis @ small[:n], small[n:]])
        step, total = self._by_triangle(np.where(self.sides.free, right, 0.0)), self.sides.total
        if total.size:
            pushed = self._by_triangle(total)
            for _ in range(2):  # the second time for what rounding errors have left
                step -= pushed * (float(total @ step) / float(total @ pushed))
        return step

    def _by_triangle(self, right: Vector) -> Vector:
        solved = np.empty_like(right)
        inner, _ = lapack.dtrtrs(self.triangle, (self.scale * right)[self.order], trans=1)
        solved[self.order], _ = lapack.dtrtrs(self.triangle, inner)
        return solved * self.scale


def margins_at(problem: Problem, x: Vector) -> Vector:
    """Return m_i = y_i (x_i'w + b + o_i)."""
    return np.asarray(problem.targets * (predictions(problem, x) + problem.offsets))


def row_products(problem: Problem, rows: Any, z: Vector) -> Vector:
    """Return y_i x_i'w and what the sides make of z."""
    margins: Vector = problem.targets * predictions(problem, z[: problem.dim])
    return np.concatenate([margins, rows @ z]) if rows.shape[0] else margins


def pulled_back(problem: Problem, sides: Sides, rows: Any, multipliers: Vector) -> Vector:
    """Return sum_i c_i a_i y_i x_i, and the same of the sides."""
    loads, n = sides.costs * multipliers, problem.n_rows
    pull = rows.T @ loads[n:] if rows.shape[0] else np.zeros(rows.shape[1])
    pull[: problem.dim] += combination(problem, loads[:n] * problem.targets)
    return np.asarray(pull)


def span(problem: Problem) -> tuple[Matrix, Matrix]:
    """Return an orthonormal basis of the rows' span and their coordinates in it, where it holds an optimum."""
    term = problem.term
    if problem.n_rows >= problem.rows.n_columns or not term.is_smooth or term.has_weights:
        return np.zeros((0, 0)), np.zeros((0, 0))
    matrix = matrix_of_rows(problem)
    basis, coordinates = qr(
        (matrix.toarray() if problem.rows.is_sparse() else matrix).T, mode="economic", check_finite=False
    )
    return basis, np.ascontiguousarray(coordinates.T)


def system_at(
    problem: Problem, sides: Sides, rows: Any, theta: Vector, quadratic: Vector, span: tuple[Matrix, Matrix]
) -> System | None:
    """Return the system of a step, or None where numbers have left the range of floats or lost their sign."""
    basis, coordinates = span
    n, loads, diagonal, free = problem.n_rows, sides.costs * theta, quadratic, sides.free
    if basis.size:
        last = problem.rows.intercept
        diagonal = np.concatenate([np.full(n, problem.term.ridge), np.zeros(last)])
        free = np.ones(n + last, dtype=bool)
    if not (np.isfinite(loads).all() and loads.min(initial=0.0) >= 0.0 and np.isfinite(diagonal).all()):
        return None
    others = [np.sqrt(loads[n:])[:, None] * rows.toarray()] if rows.shape[0] else []
    if sides.total.size:  # leaves steps in the plane as they are
        others.append(np.sqrt(sides.costs.sum()) / sides.units.min() * sides.total[None, :])
    work = (np.count_nonzero(loads) + diagonal.size) * diagonal.size**2
    if work <= MOST_WORK and not is_parted(problem):
        stacked = np.zeros((n, diagonal.size))
        table = _with_ones(problem, coordinates) if basis.size else _table(problem)
        np.multiply(table, np.sqrt(loads[:n])[:, None], out=stacked[:, : table.shape[1]])
        stacked = np.concatenate([stacked, np.diag(np.sqrt(diagonal)), *others])
        stacked[:, ~free] = 0.0
        return System(sides, rows, theta, quadratic, basis, *_triangle(stacked))
    matrix = np.diag(diagonal)
    if basis.size:
        table = _with_ones(problem, coordinates)
        matrix += table.T @ (table * loads[:n, None])
    else:
        matrix[: problem.dim, : problem.dim] += gram(problem, loads[:n])
    for part in others:
        matrix += part.T @ part
    matrix[~free] = 0.0
    matrix[:, ~free] = 0.0
    factor = _cholesky(matrix)
    return None if factor is None else System(sides, rows, theta, quadratic, basis, *factor)


@remembered
def _table(problem: Problem) -> Matrix:
    """Return the rows as a dense array."""
    matrix = matrix_of_rows(problem)
    return _with_ones(problem, matrix.toarray() if problem.rows.is_sparse() else matrix)


def _with_ones(problem: Problem, table: Matrix) -> Matrix:
    return np.column_stack([table, np.ones(problem.n_rows)]) if problem.has_intercept else table


def _triangle(stacked: Matrix) -> tuple[Matrix, Indices, Vector]:
    """Return R, the order of its coordinates, and the scale of the columns before."""
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
    return triangle, order, scale


def _cholesky(matrix: Matrix) -> tuple[Matrix, Indices, Vector] | None:
    """Return the same of a sum, minutely raised; None where it is not nearly positive semidefinite."""
    diagonal = np.diagonal(matrix)
    if not (diagonal >= 0.0).all():
        return None
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = matrix * scale * scale[:, None]
    for raised in RAISED:
        scaled[np.diag_indices_from(scaled)] = 1.0 + raised
        try:
            return cholesky(scaled, check_finite=False), np.arange(scale.size), scale
        except LinAlgError:
            pass
    return None
