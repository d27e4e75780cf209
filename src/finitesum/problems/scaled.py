"""A problem in scaled columns: w = D v with a diagonal D, minimised over v; columns far from 0 are centred, too.

F(D v) = (1/S) sum_i s_i loss(y_i, (D x_i)'v + b + o_i) + penalty(D v)

is a linear model again, in the columns D_j x_ij, with penalties of one coefficient by penalties of D_j v_j, and boxes by
boxes. Methods whose steps have one length for all coordinates need as many passes as the columns differ in size, squared;
in scaled columns they do not. Balls, simplices, half-spaces and groups are no sets or penalties of that kind in v: there
is no scaling then.

D_j is the power of 2 nearest to 1 / sqrt(q_j + quadratic_j / c), with q_j the mean square of the column's entries that are
not 0, and c the bound on the loss's second derivative (1 where there is none): the Hessian's diagonal is then about c, less
in rare columns: with D_j of their whole mean square the rows that have them would be long. Powers of 2 change no digit.

Beside an intercept b, which has no penalty and no set, columns may be shifted: x_i'w + b = (x_i - c)'w + b' with
b' = b + c'w, c their means. Where sum_j c_j^2 / var_j is large, columns together nearly give the intercept's, and
the condition number is about that sum times as large; about their means they are not. A shift rounds x_i - c to the last
digit of x_i in float64, so that the optimality is measured on the rows as they are. Dense rows are shifted in all columns,
and so are sparse rows with enough entries, which become dense. In other sparse rows

* a column that is far from 0 by itself has few zeros, at most a fifth of its rows where these weigh the same: x_ij - c_j is
  stored for all rows (`filled`), and the rows stay sparse;
* the other columns keep their zeros. For methods that see data by sums over all rows alone, their part of the shift stands
  in `Columns.unstored`: with Z the rows as they are stored and u that part, rows z_i - u mean that scores are
  z_i'v + (b' - u'v), and that a gradient (g, h) for the rows z_i is (g - h u, h) (`at_rows`, `gradient_from_rows`).

The optimality is that of the user's coefficients: with the gradient (g, h) of F in (v, b') that of w = D v and
(g / D + c h, h).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Vector
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.rows import CSRRows, DenseRows, n_entries, to_matrix
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import Boxed, Separable, WeightedElasticNet

#: Columns are scaled where their scales differ by at least this factor.
LEAST_SPREAD = 8.0

#: Columns are shifted where the squares of their means are together this many times their variances.
FAR = 4.0

#: The fractions of entries from which sparse rows that are shifted become dense, where visits see them, and where sums over
#: all rows alone do. From 0.15 on visits of dense rows take at most twice the time, as measured, and passes are up to 15
#: times fewer.
LEAST_DENSITY, LEAST_OF_SUMS = 0.15, 1.0 / 3.0

#: Bytes of dense rows up to which they may take more memory than twice that of the sparse ones.
MOST_DENSE = 1 << 28

#: The fraction of its rows in which a column is stored that is filled: at most twice the entries.
LEAST_FILLED = 0.5

#: Columns whose entries differ by less than this fraction of their mean are constant: what is left is rounding errors.
CONSTANT = 1e-14

#: Rows of dense data that are squared at a time.
N_TOGETHER = 4096


class Columns(NamedTuple):
    """The columns D_j (x_ij - c_j), in which (w, b) = (D v, b' - c'D v); of several outputs for each of them."""

    scale: Vector  # (d,)  D
    shift: Vector  # (d,)  c; zeros where columns stay where they are
    n_outputs: int = 1
    unstored: Vector | None = None  # (d,)  the part of c that is not taken from the entries of sparse rows, if there is one
    by_sums: bool = False  # whether the method sees data by sums over all rows alone

    def _blocks(self, point: Vector) -> Any:
        return point.reshape(self.n_outputs, -1)

    def outward(self, point: Vector) -> Vector:
        """Return (w, b) of (v, b')."""
        blocks, d = self._blocks(point).copy(), self.scale.size
        blocks[:, :d] *= self.scale
        if self.shift.any():
            blocks[:, d] -= blocks[:, :d] @ self.shift
        return np.asarray(blocks.reshape(-1))

    def inward(self, point: Vector) -> Vector:
        """Return (v, b') of (w, b)."""
        blocks, d = self._blocks(point).copy(), self.scale.size
        if self.shift.any():
            blocks[:, d] += blocks[:, :d] @ self.shift
        blocks[:, :d] /= self.scale
        return np.asarray(blocks.reshape(-1))

    def gradient_outward(self, gradient: Vector) -> Vector:
        """Return the gradient in (w, b), given that in (v, b')."""
        blocks, d = self._blocks(gradient).copy(), self.scale.size
        blocks[:, :d] /= self.scale
        if self.shift.any():
            blocks[:, :d] += np.outer(blocks[:, d], self.shift)
        return np.asarray(blocks.reshape(-1))


@dataclass(frozen=True, eq=False)
class ScaledTerm(ConvexTerm):
    """A term in scaled coordinates, whose optimality is that in the user's."""

    user: Any = None  # the ConvexTerm in the user's coordinates
    columns: Any = None  # Columns

    def optimality(self, w: Vector, gradient: Vector) -> float:
        """Return the optimality at the user's point of the user's problem."""
        return float(self.user.optimality(self.columns.outward(w), self.gradient_outward(w, gradient)))

    def gradient_outward(self, w: Vector, gradient: Vector) -> Vector:
        """Return the gradient of the smooth part of the user's F at the user's point, given that of the smooth part here.

        On a box the quadratic penalty is a part of the prox here, and smooth there.
        """
        found: Vector = self.columns.gradient_outward(gradient)
        if isinstance(self.penalty, Boxed):
            found += self.user.quadratic * self.columns.outward(w)
        return found


@dataclass(frozen=True, eq=False)
class ScaledProblem(Problem):
    """A problem in scaled columns; made by `scaled_problem`."""

    user: Any = None  # the user's ConvexTerm
    columns: Any = None  # Columns

    @cached_property
    def term(self) -> ConvexTerm:
        """Penalty and constraint, on the scaled coefficients."""
        shape = self.rows.n_columns, int(self.rows.intercept), self.n_outputs
        return ScaledTerm(self.penalty, self.constraint, *shape, user=self.user, columns=self.columns)


class ColumnSums(NamedTuple):
    """What one pass over the rows finds of their columns."""

    means: Vector  # (d,)  weighted
    mean_squares: Vector  # (d,)  weighted
    squares: Vector  # (d,)  sums of the squares of entries
    counts: Vector  # (d,)  of entries that are not 0


def column_sums(problem: Problem, shift: Vector | None = None) -> ColumnSums:
    """Return the sums over the rows of each column; with a shift, those of x_ij - c_j over the entries that are not 0."""
    rows, d = problem.rows, problem.rows.n_columns
    found = ColumnSums(*np.zeros((4, d)))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, rows.n_rows, N_TOGETHER):
            stop = min(start + N_TOGETHER, rows.n_rows)
            weights = problem.weights[start:stop]
            if isinstance(rows, CSRRows):
                _add_sparse_sums(rows, start, stop, weights, shift, found)
                continue
            block = rows.values[start:stop].astype(np.float64, copy=False)
            counts = np.count_nonzero(block, axis=0)
            if shift is not None:
                block = np.where(block != 0.0, block - shift, 0.0)
            found.means[:] += weights @ block
            block = np.square(block)
            found.mean_squares[:] += weights @ block
            found.squares[:] += block.sum(axis=0)
            found.counts[:] += counts
    return found


def _add_sparse_sums(
    rows: CSRRows, start: int, stop: int, weights: Vector, shift: Vector | None, found: ColumnSums
) -> None:
    d, starts = rows.n_columns, rows.starts[start : stop + 1]
    columns, values = rows.columns[starts[0] : starts[-1]], rows.values[starts[0] : starts[-1]].astype(np.float64)
    counts, stored = values != 0.0, np.repeat(weights, np.diff(starts))
    if shift is not None:
        values = np.where(counts, values - shift[columns], 0.0)
    squares = np.square(values)
    for total, numbers in zip(found, (stored * values, stored * squares, squares, counts), strict=True):
        total += np.bincount(columns, weights=numbers, minlength=d)


def shift_of(problem: Problem, sums: ColumnSums | None = None, *, by_sums: bool = False) -> tuple[Vector, Vector | None]:
    """Return the shift of columns beside an intercept, and the part of it that is not stored.

    The shift is the weighted means of columns that are far from 0 by their spread, together or by themselves, else zeros.
    Sparse columns whose zeros stay are shifted for methods that see data `by_sums` over all rows alone.
    """
    rows, zeros = problem.rows, np.zeros(problem.rows.n_columns)
    if not problem.has_intercept:
        return zeros, None
    found = column_sums(problem) if sums is None else sums
    means = found.means
    with np.errstate(all="ignore"):
        squares = means * means
        ratios = np.where(squares > 0.0, squares / np.maximum(found.mean_squares - squares, 1e-300 + 1e-16 * squares), 0.0)
    if not (np.isfinite(found.mean_squares) & np.isfinite(ratios)).all():
        return zeros, None
    # d columns of n < d rows have, scaled to a variance of 1, an eigenvalue of d / n at least
    together, far = ratios.sum() > FAR * max(1.0, rows.n_columns / rows.n_rows), ratios > FAR
    if _becomes_dense(rows, LEAST_OF_SUMS if by_sums else LEAST_DENSITY):
        return means if together else np.where(far, means, 0.0), None
    stored = far & (found.counts >= LEAST_FILLED * rows.n_rows)
    if by_sums and together and not stored.all():
        return means, np.where(stored, 0.0, means)
    return np.where(stored, means, 0.0), None


def _becomes_dense(rows: DenseRows | CSRRows, least: float) -> bool:
    """Return whether rows are dense, or are to be where they are shifted."""
    if isinstance(rows, DenseRows):
        return True
    size, n_stored = float(rows.n_rows) * rows.n_columns, n_entries(rows)
    fits = size * rows.values.itemsize <= MOST_DENSE or n_stored >= LEAST_OF_SUMS * size
    return n_stored >= least * size and fits


def scale_of(
    problem: Problem, shift: Vector | None = None, sums: ColumnSums | None = None, *, by_sums: bool = False
) -> Vector:
    """Return D, (n_columns,), for columns less their shift, or ones where the squares of entries overflow.

    The square that D is for is the mean one of all entries or, where visits see rows, that of the entries that are not 0
    if it is larger.
    """
    bound, n = problem.loss.curvature_bound(), problem.n_rows
    quadratic = problem.term.quadratic[: problem.rows.n_columns]
    found = column_sums(problem) if sums is None else sums
    shift = np.zeros(found.means.size) if shift is None else shift
    left = column_sums(problem, shift).squares if shift.any() else found.squares
    squares = (left + (n - found.counts) * shift**2) / n
    squares = squares if by_sums else np.maximum(squares, left / np.maximum(found.counts, 1.0))
    is_constant = squares <= (CONSTANT * shift) ** 2
    squares[is_constant] = shift[is_constant] ** 2
    squares += quadratic / (bound if 0.0 < bound < math.inf else 1.0)
    squares[squares == 0.0] = 1.0
    if not (np.isfinite(squares) & (squares > 1e-200)).all():
        return np.ones(squares.size)
    return np.asarray(np.exp2(np.round(-0.5 * np.log2(squares))))


def filled(rows: CSRRows, shift: Vector) -> CSRRows:
    """Return sparse rows less a shift, in float64, stored for all rows in the columns where that is not 0."""
    columns = np.flatnonzero(shift)
    shape, n = (rows.n_rows, rows.n_columns), rows.n_rows
    indices, starts = np.tile(columns, n), np.arange(n + 1) * columns.size
    matrix = to_matrix(rows) - scipy.sparse.csr_array((np.tile(shift[columns], n), indices, starts), shape=shape)
    fits = rows.starts.dtype if matrix.nnz <= np.iinfo(rows.starts.dtype).max else np.dtype(np.int64)
    indices, starts = matrix.indices.astype(fits, copy=False), matrix.indptr.astype(fits, copy=False)
    return rows._replace(values=matrix.data.astype(np.float64, copy=False), columns=indices, starts=starts)


def at_rows(problem: Any, point: Vector) -> Vector:
    """Return the point whose scores by the rows as they are stored are those of this point by the rows less their shift."""
    if (unstored := _unstored(problem)) is None:
        return point
    blocks, d = point.reshape(problem.n_outputs, -1).copy(), unstored.size
    blocks[:, d] -= blocks[:, :d] @ unstored
    return np.asarray(blocks.reshape(-1))


def gradient_from_rows(problem: Any, gradient: Vector) -> Vector:
    """Return the gradient by the rows less their shift, given that by the rows as they are stored at `at_rows`."""
    if (unstored := _unstored(problem)) is None:
        return gradient
    blocks, d = gradient.reshape(problem.n_outputs, -1).copy(), unstored.size
    blocks[:, :d] -= np.outer(blocks[:, d], unstored)
    return np.asarray(blocks.reshape(-1))


def _unstored(problem: Any) -> Vector | None:
    """Return u, in scaled columns, where rows mean z_i - u."""
    if not isinstance(problem, ScaledProblem) or problem.columns.unstored is None:
        return None
    return np.asarray(problem.columns.unstored * problem.columns.scale)


def can_scale(term: ConvexTerm) -> bool:
    """Return whether penalty and set are of the same kind in scaled coefficients."""
    if term.is_constrained:
        is_of_columns = term.constraint.boundary in ("bounds", "signs") and term.constraint.n_outputs is None
        return is_of_columns and term.is_elastic_net
    return isinstance(term.penalty, ElasticNet | WeightedElasticNet | Separable)


def scaled_problem(problem: Problem, changed: Columns) -> ScaledProblem:
    """Return the problem in columns less their shift, times their scale > 0; the data are copied."""
    columns, shift = changed.scale, changed.shift
    rows, d, penalty, constraint = problem.rows, problem.rows.n_columns, problem.penalty, problem.constraint
    stored = shift if changed.unstored is None else shift - changed.unstored
    scaled: Any
    least = LEAST_OF_SUMS if changed.by_sums else LEAST_DENSITY
    if shift.any() and changed.unstored is None and isinstance(rows, CSRRows) and _becomes_dense(rows, least):
        rows = DenseRows(to_matrix(rows).toarray(), *rows[3:])
    if isinstance(rows, DenseRows):
        values = rows.values if not shift.any() else rows.values - shift  # in float64, whose digits hold x_i - c
        scaled = rows._replace(values=values * columns.astype(values.dtype))
    else:
        scaled = rows if not stored.any() else filled(rows, stored)
        scaled = scaled._replace(values=scaled.values * columns.astype(scaled.values.dtype)[scaled.columns])
    if problem.term.is_constrained:
        term = problem.term
        lower, upper = term.constraint.intervals(d)
        penalty = Boxed(term.thresholds[:d] * columns, term.quadratic[:d] * columns**2, lower / columns, upper / columns)
        constraint = Unconstrained()
    elif isinstance(penalty, WeightedElasticNet | Separable):
        penalty = penalty._replace(scale=penalty.scale * columns)
    elif problem.term.has_penalty:
        penalty = WeightedElasticNet(penalty.lasso(), penalty.ridge(), np.ones(d), columns)
    fields = {name: getattr(problem, name) for name in Problem.__dataclass_fields__}
    fields |= {"rows": scaled, "penalty": penalty, "constraint": constraint}
    return ScaledProblem(**fields, user=problem.term, columns=changed)
