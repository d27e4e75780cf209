"""The linear system of a step of the interior-point method, with a matrix sum_i c_i theta_i x_i x_i' + diag(q).

While the weights c_i theta_i spread over twenty orders of magnitude, a sum of squares keeps the large ones alone. So the
rows themselves are brought to a triangle R by Householder's reflections, largest rows and columns first [1], where there
are not too many of them; beyond, R is the Cholesky factor of the sum. Solutions are refined with the residual.

References
----------
.. [1] A. J. Cox, N. J. Higham, "Stability of Householder QR factorization for weighted least squares problems", 1998.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack, qr

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.row_products import matrix_of_rows
from finitesum.methods.newton.interior_numbers import Equations, Inner, n_wrong_of
from finitesum.methods.newton.interior_pieces import Pieces
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

    pieces: Pieces
    corrects: bool  # whether the matrix has what stands in the place of theta where multipliers are corrected
    pull: Vector  # of the first right-hand side
    quadratic: Vector  # the diagonal that the penalty and an l2 ball's multiplier make
    basis: Matrix  # of the rows' span, in which the factor is; else (0, 0)
    triangle: Matrix
    order: Indices
    scale: Vector

    def solution(self, right: Vector) -> Vector:
        """Return the step for a right-hand side, in a simplex's plane."""
        corrects, step = self.corrects, self._solved(right)
        for _ in range(N_REFINEMENTS):
            pull = self.pieces.sum(partial(Inner.response, step=step, corrects=corrects))
            step = step + self._solved(right - self.quadratic * step - pull)
        return step

    def _solved(self, right: Vector) -> Vector:
        if self.basis.size:
            d, n = self.basis.shape
            small = self._by_triangle(np.concatenate([self.basis.T @ right[:d], right[d:]]))
            return np.concatenate([self.basis @ small[:n], small[n:]])
        sides = self.pieces.sides
        step, total = self._by_triangle(np.where(sides.free, right, 0.0)), sides.total
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


def has_span(problem: Problem) -> bool:
    """Return whether the span of the rows has fewer dimensions than columns, and holds an optimum."""
    return problem.n_rows < problem.rows.n_columns and problem.term.is_smooth and not problem.term.has_weights


def span(problem: Problem) -> tuple[Matrix, Matrix]:
    """Return an orthonormal basis of the rows' span and their coordinates in it, where it holds an optimum."""
    if not has_span(problem):
        return np.zeros((0, 0)), np.zeros((0, 0))
    matrix = matrix_of_rows(problem)
    basis, coordinates = qr(
        (matrix.toarray() if problem.rows.is_sparse() else matrix).T, mode="economic", check_finite=False
    )
    return basis, np.ascontiguousarray(coordinates.T)


def system_at(pieces: Pieces, quadratic: Vector, span: tuple[Matrix, Matrix], *, corrects: bool = False) -> System | None:
    """Return the system of a step, or None where numbers have left the range of floats or lost their sign."""
    (basis, coordinates), problem, sides, here = span, pieces.problem, pieces.sides, pieces.here
    diagonal, free, loads = quadratic, sides.free, here.loads(corrects=corrects)
    if basis.size:
        n, last = problem.n_rows, problem.rows.intercept
        diagonal = np.concatenate([np.full(n, problem.term.ridge), np.zeros(last)])
        free = np.ones(n + last, dtype=bool)
    if n_wrong_of(loads) or not np.isfinite(diagonal).all():
        return None
    others = [] if here.place.sides is None else [np.sqrt(loads[here.n_of_rows :])[:, None] * here.place.sides.toarray()]
    if sides.total.size:  # leaves steps in the plane as they are
        others.append(np.sqrt(sides.scale + sides.costs.sum()) / sides.units.min() * sides.total[None, :])

    def as_sum(of_rows: Matrix) -> tuple[Matrix, Indices, Vector] | None:
        matrix = np.diag(diagonal)
        matrix[: len(of_rows), : len(of_rows)] += of_rows
        for part in others:
            matrix += part.T @ part
        matrix[~free] = 0.0
        matrix[:, ~free] = 0.0
        return _cholesky(matrix)

    if is_parted(problem):
        found: Equations = pieces.sum(partial(Inner.equations, corrects=corrects))
        factor = None if found.n_wrong else as_sum(found.matrix)
        return None if factor is None else System(pieces, corrects, found.pull, quadratic, basis, *factor)
    of_rows, n_others = here.loads_of_rows(loads), loads.size - here.n_of_rows
    table = _with_ones(problem, coordinates) if basis.size else None
    if (np.count_nonzero(of_rows) + n_others + diagonal.size) * diagonal.size**2 <= MOST_WORK:
        stacked = np.zeros((problem.n_rows, diagonal.size))
        table = _table(problem) if table is None else table
        np.multiply(table, np.sqrt(of_rows)[:, None], out=stacked[:, : table.shape[1]])
        stacked = np.concatenate([stacked, np.diag(np.sqrt(diagonal)), *others])
        stacked[:, ~free] = 0.0
        factor = _triangle(stacked)
    else:
        factor = as_sum(gram(problem, of_rows) if table is None else table.T @ (table * of_rows[:, None]))
    if factor is None:
        return None
    return System(pieces, corrects, here.first_pull(corrects=corrects), quadratic, basis, *factor)


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
