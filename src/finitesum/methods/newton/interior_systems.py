"""The linear system of a step of the interior-point method, with a matrix sum_i c_i theta_i x_i x_i' + diag(q).

Its factor is one of all coefficients (`finitesum.methods.newton.interior_factors`), or where a penalty or a set
leaves no coefficient alone and rows are fewer one of the rows (`finitesum.methods.newton.interior_rows`). Solutions are
refined with the residual.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.row_products import matrix_of_rows
from finitesum.methods.newton.hinge_rows import hinges_of
from finitesum.methods.newton.interior_factors import MOST_WORK, Triangle, of_stacked, of_sum
from finitesum.methods.newton.interior_numbers import Inner, n_wrong_of
from finitesum.methods.newton.interior_pieces import Pieces
from finitesum.methods.newton.interior_records import Equations
from finitesum.methods.newton.interior_rows import RowsFactor, by_rows, goes_by_rows
from finitesum.methods.newton.interior_sides import Sides
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered
from finitesum.problems.partitioned import is_parted

#: How many times the least weight the largest is where a sum of squares keeps too few digits of what has small weights.
SPREAD = 1e8

#: Times that a solution is refined.
N_REFINEMENTS = 1


class System(NamedTuple):
    """A system's matrix and its factor."""

    pieces: Pieces
    corrects: bool  # whether the matrix has what stands in the place of theta where multipliers are corrected
    pull: Vector  # of the first right-hand side
    quadratic: Vector  # the diagonal that the penalty and an l2 ball's multiplier make
    basis: Matrix  # of the rows' span, in which the factor is; else (0, 0)
    factor: Triangle

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
            small = self.factor.solved(np.concatenate([self.basis.T @ right[:d], right[d:]]))
            return np.concatenate([self.basis @ small[:n], small[n:]])
        sides = self.pieces.sides
        step, total = self.factor.solved(np.where(sides.free, right, 0.0)), sides.total
        if total.size:
            pushed = self.factor.solved(total)
            for _ in range(2):  # the second time for what rounding errors have left
                step -= pushed * (float(total @ step) / float(total @ pushed))
        return step


class SystemOfRows(NamedTuple):
    """A system with a factor of the rows."""

    problem: Problem
    inner: Inner
    corrects: bool
    pull: Vector
    sides: Sides
    factor: RowsFactor
    used: Indices  # the rows that it has

    def solution(self, right: Vector) -> Vector:
        """Return the step, and behind it by what it changes rows and sides, times theta."""
        inner, sides, problem = self.inner, self.sides, self.problem
        step, loads, pairs = self.factor.solved(np.where(sides.free, right, 0.0))
        n, m, k = inner.n_of_rows, self.used.size, sides.joint.size
        scales, by_row = inner.scales(corrects=self.corrects), np.zeros(problem.n_rows)
        by_row[self.used] = loads[:m] * self.factor.inverses[:m]
        changes = np.concatenate([hinges_of(problem).of_rows(by_row), np.zeros(sides.costs.size)])
        if sides.costs.size:
            of_sides = changes[n:]
            of_sides[:] = inner.place.sides @ step
            of_sides[sides.bounded.size :][: pairs.size] = pairs
            of_sides[sides.joint] = loads[m : m + k] * self.factor.inverses[m : m + k]
        return np.concatenate([step, scales * changes])


def _by_rows(pieces: Pieces, quadratic: Vector, loads: Vector, *, corrects: bool) -> SystemOfRows | None:
    """Return the system of a step with a factor of the rows."""
    sides, here = pieces.sides, pieces.here
    of_sides, joint = loads[here.n_of_rows :], np.zeros((0, pieces.size))
    if sides.joint.size:
        joint = here.place.sides[sides.joint].toarray()
    of_joint = of_sides[sides.joint]
    if sides.total.size:  # a step stays in the plane
        joint, of_joint = np.concatenate([joint, sides.total[None, :]]), np.append(of_joint, np.inf)
    found = by_rows(pieces.problem, quadratic, here.loads_of_rows(loads), of_sides, joint, of_joint)
    if found is None:
        return None
    return SystemOfRows(pieces.problem, here, corrects, here.first_pull(corrects=corrects), sides, *found)


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


def system_at(
    pieces: Pieces, quadratic: Vector, span: tuple[Matrix, Matrix], *, corrects: bool = False
) -> System | SystemOfRows | None:
    """Return the system of a step, or None where numbers have left the range of floats or lost their sign."""
    (basis, coordinates), problem, sides, here = span, pieces.problem, pieces.sides, pieces.here
    diagonal, free, loads = quadratic, sides.free, here.loads(corrects=corrects)
    if basis.size:
        n, last = problem.n_rows, problem.rows.intercept
        diagonal = np.concatenate([np.full(n, problem.term.ridge), np.zeros(last)])
        free = np.ones(n + last, dtype=bool)
    if n_wrong_of(loads) or not np.isfinite(diagonal).all():
        return None
    if not basis.size and goes_by_rows(problem):
        return _by_rows(pieces, quadratic, loads, corrects=corrects)
    others = [] if here.place.sides is None else [np.sqrt(loads[here.n_of_rows :])[:, None] * here.place.sides.toarray()]
    if sides.total.size:  # leaves steps in the plane as they are
        others.append(np.sqrt(sides.scale + sides.costs.sum()) / sides.units.min() * sides.total[None, :])

    def as_sum(of_rows: Matrix) -> Triangle | None:
        matrix = np.diag(diagonal)
        matrix[: len(of_rows), : len(of_rows)] += of_rows
        for part in others:
            matrix += part.T @ part
        matrix[~free] = 0.0
        matrix[:, ~free] = 0.0
        return of_sum(matrix)

    if is_parted(problem):
        found: Equations = pieces.sum(partial(Inner.equations, corrects=corrects))
        factor = None if found.n_wrong else as_sum(found.matrix)
        return None if factor is None else System(pieces, corrects, found.pull, quadratic, basis, factor)
    of_rows, n_others = here.loads_of_rows(loads), loads.size - here.n_of_rows
    table = _with_ones(problem, coordinates) if basis.size else None
    work = (np.count_nonzero(of_rows) + n_others + diagonal.size) * diagonal.size**2
    if work <= MOST_WORK and float(loads.max(initial=0.0)) > SPREAD * float(loads.min(where=loads > 0.0, initial=np.inf)):
        table, behind = _table(problem) if table is None else table, [np.diag(np.sqrt(diagonal)), *others]
        (n, width), last = table.shape, sum(map(len, behind))
        stacked = np.empty((n + last, diagonal.size))
        np.multiply(table, np.sqrt(of_rows)[:, None], out=stacked[:n, :width])
        stacked[:n, width:] = 0.0
        np.concatenate(behind, out=stacked[n:])
        stacked[:, ~free] = 0.0
        factor = of_stacked(stacked)
    else:
        factor = as_sum(gram(problem, of_rows) if table is None else table.T @ (table * of_rows[:, None]))
    if factor is None:
        return None
    return System(pieces, corrects, here.first_pull(corrects=corrects), quadratic, basis, factor)


@remembered
def _table(problem: Problem) -> Matrix:
    """Return the rows as a dense array."""
    matrix = matrix_of_rows(problem)
    return _with_ones(problem, matrix.toarray() if problem.rows.is_sparse() else matrix)


def _with_ones(problem: Problem, table: Matrix) -> Matrix:
    return np.column_stack([table, np.ones(problem.n_rows)]) if problem.has_intercept else table
