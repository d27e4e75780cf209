"""A problem in scaled columns: w = D v with a diagonal D, minimised over v; dense columns far from 0 are centred, too.

F(D v) = (1/S) sum_i s_i loss(y_i, (D x_i)'v + b + o_i) + penalty(D v)

is a linear model again, in the columns D_j x_ij, with penalties of one coefficient by penalties of D_j v_j, and boxes by
boxes. Methods whose steps have one length for all coordinates need as many passes as the columns differ in size, squared;
in scaled columns they do not. Balls, simplices, half-spaces and groups are no sets or penalties of that kind in v: there
is no scaling then.

D_j is the power of 2 nearest to 1 / sqrt(q_j + quadratic_j / c), with q_j the mean square of the column's entries that are
not 0, and c the bound on the loss's second derivative (1 where there is none): the Hessian's diagonal is then about c, less
in rare columns: with D_j of their whole mean square the rows that have them would be long. Powers of 2 change no digit.

Beside an intercept b, which has no penalty and no set, dense columns may be shifted: x_i'w + b = (x_i - c)'w + b' with
b' = b + c'w, c their means. Columns far from 0 are nearly multiples of the intercept's, and as badly conditioned as the
square of their distance by their spread; about their means they are not. A shift rounds x_i - c to the last digit of x_i.
Sparse columns stay where they are: about their means they would not be sparse.

The optimality is that of the user's coefficients: with the gradient (g, h) of F in (v, b') that of w = D v and
(g / D + c h, h).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Vector
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.rows import CSRRows, DenseRows
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import Boxed, Separable, WeightedElasticNet

#: Columns are scaled where their scales differ by at least this factor.
LEAST_SPREAD = 8.0

#: Columns are shifted where the square of their mean is this many times their variance.
FAR = 4.0

#: Rows of dense data that are squared at a time.
N_TOGETHER = 4096


class Columns(NamedTuple):
    """The columns D_j (x_ij - c_j), in which (w, b) = (D v, b' - c'D v); of several outputs for each of them."""

    scale: Vector  # (d,)  D
    shift: Vector  # (d,)  c; zeros where columns stay where they are
    n_outputs: int = 1

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
        return float(self.user.optimality(self.columns.outward(w), self.columns.gradient_outward(gradient)))


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


def shift_of(problem: Problem) -> Vector:
    """Return the weighted means of dense columns that are far from 0 by their spread, beside an intercept; else zeros."""
    rows, d = problem.rows, problem.rows.n_columns
    means, squares = np.zeros(d), np.zeros(d)
    if isinstance(rows, CSRRows) or not problem.has_intercept:
        return means
    for start in range(0, rows.n_rows, N_TOGETHER):
        block, weights = rows.values[start : start + N_TOGETHER], problem.weights[start : start + N_TOGETHER]
        means += weights @ block
    for start in range(0, rows.n_rows, N_TOGETHER):
        block = rows.values[start : start + N_TOGETHER] - means
        squares += problem.weights[start : start + N_TOGETHER] @ (block * block)
    if not (np.isfinite(means) & np.isfinite(squares)).all():
        return np.zeros(d)
    return np.where(means * means > FAR * squares, means, 0.0)


def column_squares(problem: Problem, shift: Vector | None = None) -> Vector:
    """Return the mean square of each column's entries that are not 0, (n_columns,): 0 where there are none.

    Of columns that are shifted it is that of what is left.
    """
    rows, d = problem.rows, problem.rows.n_columns
    squares, counts = np.zeros(d), np.zeros(d)
    with np.errstate(over="ignore"):
        if isinstance(rows, CSRRows):
            first, last = rows.starts[0], rows.starts[-1]
            columns, values = rows.columns[first:last], rows.values[first:last].astype(np.float64)
            squares += np.bincount(columns, weights=values * values, minlength=d)
            counts += np.bincount(columns[values != 0.0], minlength=d)
        else:
            for start in range(0, rows.n_rows, N_TOGETHER):
                block = rows.values[start : start + N_TOGETHER].astype(np.float64)
                block = block if shift is None else block - shift
                squares += np.einsum("ij,ij->j", block, block)
                counts += np.count_nonzero(block, axis=0)
    return np.asarray(squares / np.maximum(counts, 1.0))


def scale_of(problem: Problem, shift: Vector | None = None) -> Vector:
    """Return D, (n_columns,), for columns less their shift, or ones where the squares of entries overflow."""
    bound = problem.loss.curvature_bound()
    quadratic = problem.term.quadratic[: problem.rows.n_columns]
    squares = column_squares(problem, shift) + quadratic / (bound if 0.0 < bound < math.inf else 1.0)
    squares[squares == 0.0] = 1.0
    if not (np.isfinite(squares) & (squares > 1e-200)).all():
        return np.ones(squares.size)
    return np.asarray(np.exp2(np.round(-0.5 * np.log2(squares))))


def can_scale(term: ConvexTerm) -> bool:
    """Return whether penalty and set are of the same kind in scaled coefficients."""
    if term.is_constrained:
        is_of_columns = term.constraint.boundary in ("bounds", "signs") and term.constraint.n_outputs is None
        return is_of_columns and isinstance(term.penalty, ElasticNet)
    return isinstance(term.penalty, ElasticNet | WeightedElasticNet | Separable)


def scaled_problem(problem: Problem, changed: Columns) -> ScaledProblem:
    """Return the problem in columns less their shift, times their scale > 0; the data are copied."""
    columns, shift = changed.scale, changed.shift
    rows, d, penalty, constraint = problem.rows, problem.rows.n_columns, problem.penalty, problem.constraint
    scaled: Any
    if isinstance(rows, DenseRows):
        values = rows.values if not shift.any() else (rows.values - shift).astype(rows.values.dtype)
        scaled = rows._replace(values=values * columns.astype(rows.values.dtype))
    else:
        scaled = rows._replace(values=rows.values * columns.astype(rows.values.dtype)[rows.columns])
    if problem.term.is_constrained:
        lower, upper = problem.term.constraint.intervals(d)
        penalty = Boxed(penalty.ridge() * columns**2, lower / columns, upper / columns)
        constraint = Unconstrained()
    elif isinstance(penalty, WeightedElasticNet | Separable):
        penalty = penalty._replace(scale=penalty.scale * columns)
    elif problem.term.has_penalty:
        penalty = WeightedElasticNet(penalty.lasso(), penalty.ridge(), np.ones(d), columns)
    fields = {name: getattr(problem, name) for name in Problem.__dataclass_fields__}
    fields |= {"rows": scaled, "penalty": penalty, "constraint": constraint}
    return ScaledProblem(**fields, user=problem.term, columns=changed)
