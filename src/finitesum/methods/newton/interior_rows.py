"""The system of a step of the interior-point method by the rows, where they are fewer than the coefficients.

Each bound, threshold and pair |w_j| <= v_j is about one column. So the matrix of a step is D + A'LA, with D made of blocks
of one or two coefficients, the rows of the data and the few inequalities that join columns in A, and their weights
c_i theta_i in L. With t = L A dz the equations D dz + A't = g are

    (L^-1 + A D^-1 A') t = A D^-1 g + e db,    e't = g_b,    dz = D^-1 (g - A't)

where e is 1 in the rows of data, if there is an intercept b. The matrix has as many rows as A, and a Cholesky factor for
weights of any spread: the coefficients that are free, with a small D, are as few as rows that are met [1].

References
----------
.. [1] S. J. Wright, "Modified Cholesky factorizations in interior-point algorithms for linear programming", SIAM J. Optim.
       9 (1999).
"""

from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.row_products import matrix_of_rows
from finitesum.methods.newton.interior_factors import MOST_WORK, Triangle, of_stacked, of_sum
from finitesum.methods.newton.interior_sides import Sides, sides_of
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries

#: Numbers of rows that are scaled at a time, and the part of entries that are stored from which zeros are multiplied, too.
NUMBERS_AT_A_TIME, NOT_SPARSE = 2**22, 0.1

#: Multiplications of a system of the rows that one thread makes in about 0.1 s.
MOST_OF_ONE = 2e9

#: Times that a solution is refined.
N_REFINEMENTS = 2


class Blocks(NamedTuple):
    """D, of q dw^2 + b (dv - dw)^2 + a (dv + dw)^2 for w_j and the bound v_j of its absolute value, or of q dw^2 alone.

    Where w_j and v_j move together, only their difference and sum have digits of their own: solutions are those.
    """

    quadratic: Vector  # (d,)  q
    below: Vector  # (d,), or of size 0  b
    above: Vector  # the same  a
    inverse: Vector  # (d,)  of D^-1 that of w; 0 for coefficients that stay

    def turned(self, w: Vector, v: Vector) -> tuple[Vector, ...]:
        """Return (v - w) / 2 and (v + w) / 2 of a gradient, or without pairs w."""
        return (0.5 * (v - w), 0.5 * (v + w)) if self.below.size else (w,)

    def solved(self, left: tuple[Vector, ...]) -> tuple[Vector, ...]:
        """Return dv - dw and dv + dw for such a gradient, or without pairs dw."""
        if len(left) == 1:
            return (self.inverse * left[0],)
        (less, more), q, b, a = left, 0.25 * self.quadratic, self.below, self.above
        determinant = b * a + q * (b + a)
        return (a * less + q * (less + more)) / determinant, (b * more + q * (less + more)) / determinant


def _w_and_v(pairs: tuple[Vector, ...]) -> tuple[Vector, Vector]:
    """Return dw and dv, of size 0 without pairs."""
    return (pairs[0], pairs[0][:0]) if len(pairs) == 1 else (0.5 * (pairs[1] - pairs[0]), 0.5 * (pairs[1] + pairs[0]))


class RowsSolution(NamedTuple):
    """A step, and what its equations know to more digits than it does."""

    step: Vector
    loads: Vector  # t = L A dz, (m,) of rows and (k,) of joint inequalities
    pairs: Vector  # (2 d,), or of size 0  dv - dw and dv + dw


class RowsFactor(NamedTuple):
    """The factor of L^-1 + A D^-1 A', of the rows in use and joint inequalities, and what solutions take."""

    rows: Any  # (m, d) array or CSR array
    joint: tuple[Matrix, Matrix]  # (k, d) and (k, d) or (k, 0)  coefficients of w and v
    inverses: Vector  # (m + k,)  L^-1
    blocks: Blocks
    factor: Triangle
    intercept: int  # 1 where there is one
    of_intercept: Vector  # (L^-1 + A D^-1 A')^-1 e

    def solved(self, right: Vector) -> RowsSolution:
        """Return the step for a right-hand side, refined with what it leaves of t = L A dz."""
        (m, d), (of_w, of_v), blocks = self.rows.shape, self.joint, self.blocks
        end, loads, b = d + self.intercept, np.zeros(self.inverses.size), np.zeros(self.intercept)
        left = blocks.turned(right[:d], right[end:])  # g - A't: where D is small, so is it, to its own digits
        pairs = blocks.solved(left)
        for _ in range(1 + N_REFINEMENTS):
            w, v = _w_and_v(pairs)
            changes = np.concatenate([self.rows @ w + b.sum(), of_w @ w + of_v @ v])
            more = self.factor.solved(changes - self.inverses * loads)
            if self.intercept:
                change = (right[d] - (loads + more)[:m].sum()) / self.of_intercept[:m].sum()
                b, more = b + change, more + change * self.of_intercept
            loads = loads + more
            taken = blocks.turned(self.rows.T @ more[:m] + more[m:] @ of_w, more[m:] @ of_v)
            left = tuple(part - less for part, less in zip(left, taken, strict=True))
            pairs = blocks.solved(left)
        w, v = _w_and_v(pairs)
        return RowsSolution(np.concatenate([w, b, v]), loads, np.concatenate(pairs) if blocks.below.size else v)


@remembered
def goes_by_rows(problem: Problem) -> bool:
    """Return whether the rows, and inequalities that join columns, are fewer than coefficients, each of which has a D."""
    d = problem.rows.n_columns
    if is_parted(problem) or problem.n_rows >= d or problem.n_rows + (sides := sides_of(problem)).joint.size >= d:
        return False
    has_any = ~sides.free[:d] | (problem.term.quadratic[:d] > 0.0) | sides.on_norm | (sides.radius > 0.0)
    has_any[sides.bounded] = has_any[sides.shrunk] = True
    return bool(has_any.all())


@remembered
def _stored(problem: Problem) -> Any:
    """Return the rows as an array, or a CSR array where few entries are stored."""
    matrix: Any = matrix_of_rows(problem)
    return matrix if isinstance(matrix, np.ndarray) or _is_sparse(problem) else matrix.toarray()


def _is_sparse(problem: Problem) -> bool:
    size = float(problem.n_rows) * problem.rows.n_columns
    return bool(problem.rows.is_sparse() and (n_entries(problem.rows) <= NOT_SPARSE * size or size > NUMBERS_AT_A_TIME))


def takes_one_thread(problem: Problem) -> bool:
    """Return whether one thread suffices for systems of the rows: of sparse rows, and where they are formed in 0.1 s.

    Products of sparse rows are one thread's, and a tenth of the time is left for others. Solutions are dozens of short
    calls of two libraries, each with threads that wait for its next call at full speed: with two of them on two busy cores
    a step of 1,000 x 2,000 took ten times as long.
    """
    if not goes_by_rows(problem):
        return False
    return _is_sparse(problem) or float(problem.n_rows) ** 2 * problem.rows.n_columns <= MOST_OF_ONE


def _blocks(sides: Sides, quadratic: Vector, loads: Vector) -> Blocks:
    """Return D, given the weights of the sides."""
    d, none = sides.units.size, np.zeros(0)
    free, first, last = sides.free[:d], sides.bounded.size, loads.size - sides.shrunk.size
    diagonal = quadratic[:d] + np.bincount(sides.bounded, loads[:first], d)
    diagonal += np.bincount(sides.shrunk, loads[last:] / sides.units[sides.shrunk] ** 2, d)
    if not sides.on_norm:
        return Blocks(diagonal, none, none, np.divide(1.0, diagonal, out=np.zeros(d), where=free & (diagonal > 0.0)))
    below, above = loads[first : first + d], loads[first + d : first + 2 * d]
    both = below + above
    return Blocks(diagonal, below, above, both / (diagonal * both + 4.0 * below * above))


def _products(rows: Any, of_columns: Vector) -> Matrix:
    """Return X diag(h) X'."""
    if not isinstance(rows, np.ndarray):
        scaled = rows.copy()
        scaled.data = rows.data * of_columns[rows.indices]
        return np.asarray((scaled @ rows.T).toarray())
    (m, d), roots = rows.shape, np.sqrt(of_columns)
    total, width = np.zeros((m, m)), max(1, NUMBERS_AT_A_TIME // max(m, 1))
    for j in range(0, d, width):
        part = rows[:, j : j + width] * roots[j : j + width]
        total += part @ part.T
    return total


def _factor(rows: Any, joint: tuple[Matrix, Matrix], blocks: Blocks, inverses: Vector) -> Triangle | None:
    """Return the factor of L^-1 + A D^-1 A', by reflections where they cost little."""
    (m, d), (of_w, of_v), roots, k = rows.shape, joint, np.sqrt(blocks.inverse), len(joint[0])
    mixed = of_w.copy()  # D^-1 = C'C, and this is A C'
    if of_v.size:
        both = blocks.below + blocks.above
        mixed += (blocks.below - blocks.above) / both * of_v
        last = of_v / np.sqrt(both)
    else:
        last = np.zeros((k, 0))
    if (d + k + inverses.size) * float(inverses.size) ** 2 <= MOST_WORK:
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        stacked = np.zeros((d + k, inverses.size))
        stacked[:d, :m], stacked[:d, m:] = (dense * roots).T, (mixed * roots).T
        stacked[d:, m:] = np.linalg.qr(last.T, mode="r") if last.shape[1] >= k > 0 else 0.0
        return of_stacked(np.concatenate([stacked, np.diag(np.sqrt(inverses))]))
    matrix = np.zeros((inverses.size, inverses.size))
    matrix[:m, :m] = _products(rows, blocks.inverse)
    if k:
        matrix[:m, m:] = rows @ (mixed * blocks.inverse).T
        matrix[m:, :m] = matrix[:m, m:].T
        matrix[m:, m:] = mixed @ (mixed * blocks.inverse).T + last @ last.T
    matrix[np.diag_indices_from(matrix)] += inverses
    return of_sum(matrix)


def by_rows(
    problem: Problem, quadratic: Vector, of_rows: Vector, of_sides: Vector, joint: Matrix, of_joint: Vector
) -> tuple[RowsFactor, Indices] | None:
    """Return the factor of the system D + A'LA, given the weights of rows, sides and joint inequalities, and the rows."""
    sides, d, last = sides_of(problem), problem.rows.n_columns, problem.rows.intercept
    with np.errstate(all="ignore"):
        blocks = _blocks(sides, quadratic, of_sides)
        inverses = 1.0 / np.concatenate([of_rows, of_joint])
    used: Indices = np.flatnonzero(inverses[: of_rows.size] < np.inf)
    rows, parts = _stored(problem), (joint[:, :d], joint[:, d + last :])
    if used.size < of_rows.size:
        rows = rows[used]
    m, inverses = used.size, np.concatenate([inverses[used], inverses[of_rows.size :]])
    is_finite = np.isfinite(inverses).all() and all(np.isfinite(part).all() for part in blocks)
    factor = _factor(rows, parts, blocks, inverses) if is_finite else None
    if factor is None:
        return None
    of_intercept = factor.solved((np.arange(inverses.size) < m).astype(np.float64)) if last else np.zeros(0)
    return RowsFactor(rows, parts, inverses, blocks, factor, last, of_intercept), used
