"""Quadratic models of many rows in some columns, minimised by coordinate descent on the columns themselves.

At w, with slopes p_i phi'_i and curvatures h_i = p_i phi''_i of rows, the model of F in some columns and an intercept b is

    q(v, b) = sum_i (p_i phi'_i z_i + 1/2 h_i z_i^2) + 1/2 sum_j q_j v_j^2 + sum_j t_j |v_j|,   z = X (v - w) + b,

between bounds. The columns are kept as rows, times the roots of h, so that a step along a coordinate reads one of them
twice: for its slope x_j'r, and to add to r = h^1/2 X (v - w). After each step the intercept is where q is least, which is a
number: with m_j = sum_i h_i x_ij and H = sum_i h_i it is -(sum_i p_i phi'_i + m'(v - w)) / H, and a coordinate's curvature
is x_j'x_j - m_j^2 / H. So an intercept costs no passes, and columns need not be centred.

A pass over all coordinates is followed by passes over those that are not 0. After each round the last iterates are
extrapolated [1]: their combination with weights of sum 1 whose differences nearly cancel, taken if q is lower there. Once
rounds took as long as a Gram matrix of the coordinates that are not 0 and a factor would, q is minimised by these in the
coordinates that are not 0 or nearly leave it. Where that is far, some rounds are enough: the next model is nearer to F.
Before that conjugate gradients go to where q is least while signs stay as they are, for some rounds' time, later again if
they failed (`finitesum.methods.subproblems.column_faces`): with more coordinates than half of the rows only where an l2
penalty curves q and passes gain little.

References
----------
.. [1] Q. Bertrand, M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import array_form, kernel
from finitesum.evaluation.hessian import gram_of
from finitesum.methods.subproblems.column_costs import (
    MOST_OF_GRAM,
    nanoseconds_of_face,
    nanoseconds_of_gram,
    nanoseconds_of_pass,
)
from finitesum.methods.subproblems.column_faces import face_step
from finitesum.methods.subproblems.extrapolation import extrapolated
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.subproblems.scaled_columns import ScaledColumns, entries_of, n_numbers, without_intercept
from finitesum.problems.rows import CSRRows, DenseRows, add_combination, products, some_rows, turned
from finitesum.problems.term import ConvexTerm

#: Passes of a round, the first of them over all coordinates, and how many of its last iterates are extrapolated.
PASSES, MEMORY = 10, 5

#: Rounds for a model, at most; and where they took less than a part of what a Gram matrix and a factor would.
MOST_ROUNDS, ENOUGH_ROUNDS, FAR = 30, 6, 0.2

#: Coordinates that are not 0 up to which calls count for what a round takes, so that a Gram matrix comes in time, and
#: rounds of an exact model go on for it; nanoseconds of these calls.
FEW_FREE, OF_ROUND = 50, 3e4

#: Conjugate gradients are tried after this part of the time of a Gram matrix and a factor, for as long. Where that is more
#: than three rounds they are tried for three, after one, or after two with more coordinates than half of the rows (less a
#: tenth, for rounding).
PART, ROUNDS_INSTEAD, ROUNDS_BEFORE = 0.25, 3.0, (0.9, 1.9)

#: What a round's last change is of that MEMORY - 1 passes before, at least, where passes gain little.
SLOW = 0.7

#: The products in that time, at least and at most; nanoseconds of one's calls.
FEWEST_PRODUCTS, MOST_PRODUCTS, OF_PRODUCT = 8, 60, 5e4

#: How many times as late they are tried again, by what was spent with them, after they failed; the part of the tolerance
#: at which they end.
LATER, FACE_CLOSE = 2.0, 0.3

#: The part of its threshold from which the slope of a coordinate that is 0 is nearly enough to leave it, and how many times
#: as many as those that are not 0 all coordinates, or those that nearly leave it, may be where they are taken, too.
NEARLY, MOST_MORE = 0.7, 1.5

#: What a read of a column for its slope takes of that for a step, too.
SLOPE_ALONE = 0.5

#: Passes over coordinates that are not 0 end where slopes change by this part of the tolerance.
NEARER = 0.3

#: The change of a slope at which passes over a Gram matrix end, by the tolerance as a norm.
CLOSE = 0.5

#: Rounding errors of slopes, relative to what they are sums of.
ROUNDING = 1e-15


class ColumnModel(NamedTuple):
    """A model in some columns."""

    columns: DenseRows | CSRRows  # columns as rows, times the roots of the rows' curvatures
    figures: Matrix  # (7, k): slope, curvature, q_j, threshold, bounds and m_j of each coordinate
    intercept_slope: float  # sum_i p_i phi'_i
    total: float  # H, or 0 without an intercept
    unit: float  # that the model was divided by
    term: ConvexTerm  # of the coordinates and the intercept


#: A point, its r and its intercept.
_Point = tuple[Vector, Vector, float]


class Minimiser(NamedTuple):
    """Where a model is least, as far as it was minimised."""

    w: Vector
    intercept: float  # its change
    n_reads: float  # of all columns, what it took


@kernel
def _descend(
    columns: DenseRows | CSRRows,
    figures: Matrix,
    total: float,
    w: Vector,
    r: Vector,
    shift: Vector,
    history: Matrix,
    tolerance: float,
) -> int:
    """Make a round of passes, and write the last iterates; end after a pass over all that changed slopes by the tolerance.

    Return the passes, and 1 there; a negative number of them where the last one changed slopes by much less.
    """
    slopes, curvatures, quadratic, thresholds = figures[0], figures[1], figures[2], figures[3]
    lower, upper, means = figures[4], figures[5], figures[6]
    n_kept = history.shape[0]
    for k in range(PASSES):
        square = 0.0
        for j in range(w.size):
            before, curvature = w[j], curvatures[j]
            if before == 0.0 and (k > 0 or not curvature > 0.0):
                continue
            slope = slopes[j] + columns.dot(j, r) + shift[0] * means[j] + quadratic[j] * before
            if curvature > 0.0:
                target, threshold = before - slope / curvature, thresholds[j] / curvature
                target = max(target - threshold, 0.0) + min(target + threshold, 0.0)
            else:  # linear on both sides of 0
                target = 0.0 if abs(slope) < thresholds[j] else before
            target = min(max(target, lower[j]), upper[j])
            step = target - before
            if step != 0.0:
                w[j] = target
                columns.add_to(j, step, r)
                if total > 0.0:
                    shift[0] -= step * means[j] / total
                square += (curvature * step) ** 2
        if k + n_kept >= PASSES:
            history[k + n_kept - PASSES] = w
        if k == 0 and square <= tolerance**2:
            return 1
        if square <= (NEARER * tolerance) ** 2:
            return -k - 1
    return PASSES


@array_form(_descend, n_numbers, stands_in=True)
def _descend_in_arrays(
    columns: DenseRows | CSRRows,
    figures: Matrix,
    total: float,
    w: Vector,
    r: Vector,
    shift: Vector,
    history: Matrix,
    tolerance: float,
) -> int:
    """Do the same, but for coordinates that are 0 and not asked to move when a pass begins: it leaves them out."""
    slopes, curvatures, quadratic, thresholds, lower, upper, means = figures
    intercept, n_kept, daxpy, at = shift.item(0), history.shape[0], blas.daxpy, w.tolist()
    sizes = np.divide(thresholds, curvatures, out=thresholds.copy(), where=curvatures > 0.0)
    parts = (part.tolist() for part in (slopes, curvatures, quadratic, sizes, lower, upper, means))
    coordinates, found = list(zip(range(w.size), entries_of(columns), *parts, strict=True)), PASSES
    for k in range(PASSES):
        square, moves = 0.0, w != 0.0
        if k == 0:
            asked = slopes + products(columns, r) + intercept * means + quadratic * w
            moves |= (curvatures > 0.0) & ~(np.abs(asked) <= thresholds)
        visited = itertools.compress(coordinates, moves.tolist())
        for j, (places, row), slope, curvature, of_square, size, least, most, mean in visited:
            before = at[j]
            slope += row.dot(r if places is None else r[places]) + intercept * mean + of_square * before
            if curvature > 0.0:
                target = before - slope / curvature
                target = 0.0 if -size <= target <= size else (target + size if target < 0.0 else target - size)
            else:
                target = 0.0 if abs(slope) < size else before
            target = least if target < least else (most if target > most else target)
            step = target - before
            if step != 0.0:
                at[j] = target
                if places is None:
                    daxpy(row, r, a=step)  # in place
                else:
                    r[places] += step * row
                if total > 0.0:
                    intercept -= step * mean / total
                square += (curvature * step) * (curvature * step)  # a power of floats may raise
        w[:] = at
        if k + n_kept >= PASSES:
            history[k + n_kept - PASSES] = w
        if k == 0 and square <= tolerance**2:
            found = 1
            break
        if square <= (NEARER * tolerance) ** 2:
            found = -k - 1
            break
    shift[0] = intercept
    return found


def column_model(
    scaled: ScaledColumns, total: float, unit: float, gradient: Vector, w: Vector, term: ConvexTerm
) -> ColumnModel:
    """Return the model at w, divided by a unit, of columns scaled with the roots of h / unit; total is the sum of h / unit.

    The gradient is that of F's smooth part. It, w and the term have the intercept's number at their end where there is one.
    """
    intervals, k = term.intervals, scaled.squares.size
    if intervals is None:
        raise ValueError("term must have intervals")
    has_intercept = gradient.size > k
    means = scaled.means if has_intercept else np.zeros(k)
    curvatures = without_intercept(scaled.squares, scaled.means, total) if has_intercept else scaled.squares
    gradient, quadratic = gradient / unit, term.quadratic[:k] / unit
    figures = np.empty((7, k))
    figures[0] = gradient[:k] - quadratic * w[:k]
    figures[1] = curvatures + quadratic
    figures[2] = quadratic
    figures[3] = intervals.thresholds[:k] / unit
    figures[4], figures[5], figures[6] = intervals.lower[:k], intervals.upper[:k], means
    of_intercept = (float(gradient[k]), total) if has_intercept else (0.0, 0.0)
    return ColumnModel(scaled.columns, figures, *of_intercept, unit, term)


def _value(model: ColumnModel, w: Vector, r: Vector, intercept: float) -> float:
    slopes, _, quadratic, thresholds, *_ = model.figures
    of_term = slopes @ w + 0.5 * (quadratic @ (w * w)) + thresholds @ np.abs(w)
    return float(of_term + 0.5 * (r @ r) - 0.5 * intercept * intercept * model.total)


def _extrapolated(model: ColumnModel, start: Vector, history: Matrix) -> _Point | None:
    """Return the combination of iterates whose differences nearly cancel, with its r and intercept."""
    combination = extrapolated(history)
    if combination is None:
        return None
    w = np.clip(combination, model.figures[4], model.figures[5])
    r = np.zeros(model.columns.n_columns)
    add_combination(model.columns, w - start, r)
    return w, r, _intercept(model, w - start)


def _intercept(model: ColumnModel, step: Vector) -> float:
    return -(model.intercept_slope + float(model.figures[6] @ step)) / model.total if model.total > 0.0 else 0.0


def minimised(model: ColumnModel, start: Vector, tolerance: float, *, is_exact: bool = False) -> Minimiser:
    """Return the model's minimiser, with an optimality of at most the tolerance but for the intercept's.

    Rounds on few coordinates of an exact model, F itself, go on: the next one would be the same.
    """
    w, r, shift = start.copy(), np.zeros(model.columns.n_columns), np.array([_intercept(model, np.zeros(start.size))])
    history, spent, in_all = np.empty((MEMORY + 1, start.size)), 0.0, 0.0
    of_read = nanoseconds_of_pass(model.columns, start.size)
    sizes = np.abs(model.figures[0]) + model.figures[3] * (start != 0.0)
    tolerance = max(tolerance / model.unit, ROUNDING * float(np.sqrt(sizes @ sizes)))
    change, of_gram, due = tolerance, math.nan, 0.0  # of slopes, at which a round ends
    for n_rounds in range(1, MOST_ROUNDS + 1):
        found = _descend(model.columns, model.figures, model.total, w, r, shift, history, change)
        n_free = int(np.count_nonzero(w))
        of_pass = nanoseconds_of_pass(model.columns, n_free)
        of_round = abs(found) * of_pass + SLOPE_ALONE * (of_read - of_pass)
        spent, in_all = spent + of_round + OF_ROUND * (n_free <= FEW_FREE), in_all + of_round
        if found == 1:
            in_all, left = in_all + SLOPE_ALONE * of_read, _optimality(model, w, r, float(shift[0]))
            if not left > tolerance:
                break
            change *= max(0.5 * tolerance / left, 0.01)
        if math.isnan(of_gram) and (n_rounds == ENOUGH_ROUNDS or spent > nanoseconds_of_face(0.0, n_free)):
            of_gram = nanoseconds_of_gram(model.columns)
        by_gram = nanoseconds_of_face(of_gram, n_free)
        if n_rounds >= ENOUGH_ROUNDS and in_all < FAR * by_gram and not (is_exact and n_free <= FEW_FREE):
            break
        if found == PASSES and spent > by_gram:  # not where that is unknown
            in_all, spent = in_all + by_gram, 0.0
            w, r, shift[0] = _by_gram(model, start, (w, r, float(shift[0])), tolerance)
        elif found == PASSES:
            is_wide = 2 * n_free > r.size
            of_face, wait = PART * nanoseconds_of_face(np.nan_to_num(of_gram), n_free), 1.0
            if of_face > ROUNDS_INSTEAD * of_round:
                of_face, wait = ROUNDS_INSTEAD * of_round, ROUNDS_BEFORE[is_wide] / ROUNDS_INSTEAD
            far, most = None, min(int(of_face / (of_pass + OF_PRODUCT)), MOST_PRODUCTS)
            is_likely = most >= FEWEST_PRODUCTS and (not is_wide or _is_curved_and_slow(model, history))
            if is_likely and spent > max(wait * of_face, due):
                ends = FACE_CLOSE * tolerance, most
                far, n_products, is_solved = _on_face(model, start, (w, r, float(shift[0])), ends)
                spent, in_all = spent + n_products * of_pass, in_all + n_products * of_pass
                due = 0.0 if is_solved else LATER * spent
            far = _extrapolated(model, start, history) if far is None else far
            if far is not None and _value(model, *far) < _value(model, w, r, shift[0]):
                w, r, shift[0] = far
    return Minimiser(w, float(shift[0]), in_all / max(of_read, 1.0))


def _is_curved_and_slow(model: ColumnModel, history: Matrix) -> bool:
    """Return whether an l2 penalty curves all coordinates, and the passes of a round gained little."""
    first, last = history[1] - history[0], history[-1] - history[-2]
    return bool((model.figures[2] > 0.0).all()) and float(last @ last) > SLOW**2 * float(first @ first)


def _optimality(model: ColumnModel, w: Vector, r: Vector, shift: float) -> float:
    """Return the norm of the prox-gradient mapping, divided by the unit as the model is."""
    slope = model.figures[0] + products(model.columns, r) + shift * model.figures[6] + model.figures[2] * w
    mapping = _mapping(model, w, slope)
    return math.sqrt(mapping @ mapping)


def _mapping(model: ColumnModel, w: Vector, slope: Vector) -> Vector:
    """Return the prox-gradient mapping, divided by the unit as the model is, given the model's slope without thresholds."""
    thresholds, lower, upper = model.figures[3:6]
    at = w / model.unit
    mapping = np.clip(at, slope - thresholds, slope + thresholds)
    return np.clip(mapping, at - upper / model.unit, at - lower / model.unit)


def _on_face(model: ColumnModel, start: Vector, point: _Point, ends: tuple[float, int]) -> tuple[_Point | None, int, bool]:
    """Return the minimiser in the coordinates that are not 0, if these keep their signs, the reads, and if it was found."""
    (w, r, shift), (first, curvatures, quadratic, _, lower, upper, means) = point, model.figures
    free = np.flatnonzero((w != 0.0) & (w > lower) & (w < upper) & (curvatures > 0.0))
    columns = some_rows(model.columns, free)
    slope = first[free] + products(columns, r) + shift * means[free] + quadratic[free] * w[free]
    step = face_step(columns, model.figures[:, free], model.total, slope, w[free], ends)
    if step.w.size == 0:
        return None, step.n_products + 1, False
    end, change = w.copy(), np.zeros(model.columns.n_columns)
    end[free] = step.w
    add_combination(columns, end[free] - w[free], change)
    return (end, r + change, _intercept(model, end - start)), step.n_products + 2, step.is_solved


def _by_gram(model: ColumnModel, start: Vector, point: _Point, tolerance: float) -> _Point:
    """Return the minimiser in the coordinates that are not 0 or nearly leave it, the others as they are."""
    (w, r, shift), (first, curvatures, quadratic, thresholds, *_, means) = point, model.figures
    slope = first + products(model.columns, r) + shift * means + quadratic * w
    is_free, may_move = w != 0.0, (w != 0.0) | (curvatures > 0.0)
    is_near, n_free = is_free | (may_move & (np.abs(slope) > NEARLY * thresholds)), int(np.count_nonzero(is_free))
    most = max(min(MOST_MORE * n_free, MOST_OF_GRAM), n_free)  # what was weighed is the time for these
    some = next(found for one in (may_move, is_near, is_free) if (found := np.flatnonzero(one)).size <= most)
    columns, figures = some_rows(model.columns, some), model.figures[:, some]
    matrix: Matrix = columns.values @ columns.values.T if isinstance(columns, DenseRows) else gram_of(turned(columns))
    matrix.flat[:: some.size + 1] += figures[2]
    hessian, right, at = matrix, slope[some], w[some]
    if model.total > 0.0:
        hessian = np.block([[matrix, figures[6:7].T], [figures[6:7], model.total]])
        right, at = np.append(right, 0.0), np.append(at, 0.0)  # the intercept is where its slope is 0
    near = CLOSE * model.unit * tolerance / math.sqrt(w.size)
    solved = minimise_model(model.term.on_columns(some), model.unit * hessian, model.unit * right, at, near)
    end, change = w.copy(), np.zeros(model.columns.n_columns)
    end[some] = solved[: some.size]
    add_combination(columns, end[some] - w[some], change)
    return end, r + change, _intercept(model, end - start)
