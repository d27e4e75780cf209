"""Quadratic models of many rows in some columns beside a separable penalty, or groups, minimised by coordinate descent.

The model is that of `finitesum.methods.subproblems.column_models`, with sum_j r_j(v_j) in the place of thresholds and
bounds, where all that is known of r_j is its prox. With slope g_j and curvature c_j at w_j it is least along a coordinate
at

    v_j = prox of r_j, with the step 1 / c_j, at w_j - g_j / c_j,

of a penalty that is not convex, too [1]: no step raises the model, and where no coordinate moves the point is stationary. A
pass over all coordinates is followed by passes over those that are not 0; after each round the last iterates are
extrapolated, where that lowers the model [2]. Once rounds took as long as a Gram matrix of the coordinates that are not 0
and a factor, a step of Newton's method in these is tried, where the penalty knows its derivatives. Groups have passes of
their own (`finitesum.methods.subproblems.group_descent`).

References
----------
.. [1] P. Breheny, J. Huang, "Coordinate descent algorithms for nonconvex penalized regression, with applications to
   biological feature selection", Ann. Appl. Stat. 5 (2011).
.. [2] Q. Bertrand, Q. Klopfenstein, P.-A. Bannier, G. Gidel, M. Massias, "Beyond L1: faster and better sparse models
   with skglm", NeurIPS 2022.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve

from finitesum.constraints.projections import COORDINATE_NUMBERS
from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import array_form, kernel
from finitesum.evaluation.hessian import gram_of
from finitesum.methods.subproblems import group_descent
from finitesum.methods.subproblems.column_costs import nanoseconds_of_face, nanoseconds_of_gram, nanoseconds_of_pass
from finitesum.methods.subproblems.column_models import CLOSE, MEMORY, NEARER, PASSES, ROUNDING, SLOPE_ALONE, Minimiser
from finitesum.methods.subproblems.extrapolation import extrapolated
from finitesum.methods.subproblems.group_descent import curvatures_of_groups
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.subproblems.scaled_columns import ScaledColumns, entries_of, n_numbers, without_intercept
from finitesum.problems.rows import CSRRows, DenseRows, add_combination, products, some_rows, turned
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import Groups, Separable

#: Rounds for a model, at most: for one that is F itself, and for others, of which the next one is nearer to F.
MOST_ROUNDS, ENOUGH_ROUNDS = 30, 8

#: Nanoseconds of the calls of a step of Newton's method, and of a visit to a coordinate, or a group, as without a kernel.
OF_NEWTON, OF_VISIT = 2e5, 1e4

#: How many times as long as rounds took so far these may take after the last one.
AT_LAST = 5.0

#: By which part of itself a singular matrix's diagonal is raised, and the part of it that a pivot must be more than: less
#: is rounding errors, and a step along it leads anywhere.
RAISED, SINGULAR = 1e-6, 1e-9

#: The rounding errors of a model's value, relative to what it is a sum of.
HIDDEN = 1e-15

#: The step of a coordinate without curvature, times the unit: so long that the penalty alone says where it goes.
LONG = 1e9


class ProxModel(NamedTuple):
    """A model in some columns."""

    columns: DenseRows | CSRRows  # columns as rows, times the roots of the rows' curvatures
    figures: Matrix  # (4, k): slope, curvature, step of the prox and m_j of each coordinate
    intercept_slope: float  # sum_i p_i phi'_i
    total: float  # the sum of curvatures, or 0 without an intercept
    unit: float  # that the model was divided by
    term: ConvexTerm  # of the coordinates and the intercept


#: A point, its r and its intercept.
_Point = tuple[Vector, Vector, float]


@kernel
def _descend(
    columns: DenseRows | CSRRows,
    penalty: Separable,
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
    slopes, curvatures, steps, means = figures[0], figures[1], figures[2], figures[3]
    n_kept = history.shape[0]
    for k in range(PASSES):
        square = 0.0
        for j in range(w.size):
            before, curvature = w[j], curvatures[j]
            if before == 0.0 and k > 0:
                continue
            target = before
            if curvature > 0.0:
                target -= (slopes[j] + columns.dot(j, r) + shift[0] * means[j]) / curvature
            target = penalty.prox_of(target, steps[j], j)
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
    penalty: Separable,
    figures: Matrix,
    total: float,
    w: Vector,
    r: Vector,
    shift: Vector,
    history: Matrix,
    tolerance: float,
) -> int:
    """Do the same, but for coordinates that are 0 and not asked to move when a pass begins: it leaves them out."""
    slopes, curvatures, steps, means = figures
    intercept, n_kept, at, found = shift.item(0), history.shape[0], w.tolist(), PASSES
    coordinates = list(zip(range(w.size), entries_of(columns), *(part.tolist() for part in figures), strict=True))
    for k in range(PASSES):
        square, moves = 0.0, w != 0.0
        if k == 0:
            asked = slopes + products(columns, r) + intercept * means
            targets = np.divide(-asked, curvatures, out=np.zeros(w.size), where=curvatures > 0.0).tolist()
            ends = [penalty.prox_of(*to, j) for j, to in enumerate(zip(targets, steps.tolist(), strict=True))]
            moves |= np.array(ends, dtype=np.float64) != 0.0
        for j, (places, row), slope, curvature, length, mean in itertools.compress(coordinates, moves.tolist()):
            target = before = at[j]
            if curvature > 0.0:
                target -= (slope + row.dot(r if places is None else r[places]) + intercept * mean) / curvature
            step = (target := float(penalty.prox_of(target, length, j))) - before
            if step != 0.0:
                at[j] = target
                if places is None:
                    blas.daxpy(row, r, a=step)  # in place
                else:
                    r[places] += step * row
                if total > 0.0:
                    intercept -= step * mean / total
                square += (curvature * step) ** 2
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


@kernel
def _pull(penalty: Separable, w: Vector, gradient: Vector, curvatures: Vector, out: Vector) -> None:
    for j in range(out.size):
        if w[j] == 0.0 and curvatures[j] > 0.0:
            step = 1.0 / curvatures[j]
            out[j] = curvatures[j] * abs(penalty.prox_of(-gradient[j] * step, step, j))


@array_form(_pull, lambda penalty, w, *_: w.size * COORDINATE_NUMBERS)
def _pull_in_arrays(penalty: Separable, w: Vector, gradient: Vector, curvatures: Vector, out: Vector) -> None:
    for j in np.flatnonzero((w == 0.0) & (curvatures > 0.0) & (gradient[: w.size] != 0.0)).tolist():
        step = 1.0 / curvatures.item(j)
        out[j] = curvatures[j] * abs(penalty.prox_of(-gradient.item(j) * step, step, j))


def pulls(penalty: Separable, w: Vector, gradient: Vector, curvatures: Vector) -> Vector:
    """Return how far a step along it alone would move each coefficient that is 0, times its curvature."""
    out = np.zeros(w.size)
    _pull(penalty, w, gradient, curvatures, out)
    return out


def prox_model(
    scaled: ScaledColumns, total: float, unit: float, gradient: Vector, w: Vector, term: ConvexTerm
) -> ProxModel:
    """Return the model at w, divided by a unit, of columns scaled with the roots of h / unit; total is the sum of h / unit.

    The gradient is that of the mean loss. It, w and the term have the intercept's number at their end where there is one.
    """
    k, has_intercept = scaled.squares.size, gradient.size > scaled.squares.size
    means = scaled.means if has_intercept else np.zeros(k)
    if isinstance(term.penalty, Groups):
        curvatures = curvatures_of_groups(scaled.columns, means, total if has_intercept else 0.0, term.penalty)
    else:
        curvatures = without_intercept(scaled.squares, scaled.means, total) if has_intercept else scaled.squares
    steps = np.divide(1.0, unit * curvatures, out=np.full(k, LONG / unit), where=curvatures > 0.0)
    of_intercept = (float(gradient[k]) / unit, total) if has_intercept else (0.0, 0.0)
    return ProxModel(scaled.columns, np.stack([gradient[:k] / unit, curvatures, steps, means]), *of_intercept, unit, term)


def _value(model: ProxModel, start: Vector, w: Vector, r: Vector, intercept: float) -> float:
    of_term = float(model.figures[0] @ (w - start)) + model.term.value(w) / model.unit
    return of_term + 0.5 * float(r @ r) - 0.5 * intercept * intercept * model.total


def _intercept(model: ProxModel, step: Vector) -> float:
    return -(model.intercept_slope + float(model.figures[3] @ step)) / model.total if model.total > 0.0 else 0.0


def _lower(model: ProxModel, start: Vector, point: _Point, far: Vector | None) -> _Point:
    """Return the one of two points where the model is lower, the second one's coordinates being all that is known of it."""
    if far is None:
        return point
    r = np.zeros(model.columns.n_columns)
    add_combination(model.columns, far - start, r)
    other = far, r, _intercept(model, far - start)
    sizes = np.abs(model.figures[0]) @ np.abs(far - start) + r @ r + other[2] ** 2 * model.total
    hidden = HIDDEN * float(sizes) + model.term.value(far) * HIDDEN / model.unit
    return other if _value(model, start, *other) + hidden < _value(model, start, *point) else point


def _on_support(model: ProxModel, point: _Point, tolerance: float) -> Vector | None:
    """Return a point that is likely to be lower, by a matrix of the coordinates that are not 0."""
    if isinstance(model.term.penalty, Groups):
        return _by_gram(model, *point, tolerance)
    return _by_newton(model, *point)


def _by_newton(model: ProxModel, w: Vector, r: Vector, shift: float) -> Vector | None:
    """Return the end of a step of Newton's method in the coordinates that are not 0; None where it is no step down."""
    free = np.flatnonzero((w != 0.0) & (model.figures[1] > 0.0))
    columns, (slopes, _, _, means) = some_rows(model.columns, free), model.figures[:, free]
    penalty, at = model.term.penalty.on_columns(free), w[free]
    matrix: Matrix = columns.values @ columns.values.T if isinstance(columns, DenseRows) else gram_of(turned(columns))
    if model.total > 0.0:
        matrix -= np.outer(means, means / model.total)
    of_penalty, curvatures = penalty.derivatives(at) / model.unit
    slope = slopes + products(columns, r) + shift * means + of_penalty
    end, convex = w.copy(), np.maximum(curvatures, 0.0)  # that of a majorant, while signs stay
    raised = convex + RAISED * np.diagonal(matrix)
    for added in (curvatures, convex, raised) if curvatures.any() else (convex, raised):
        try:
            factor = cho_factor(matrix + np.diag(added), lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        pivots = np.square(np.diagonal(factor[0]))
        if (pivots > SINGULAR * np.diagonal(matrix)).all():
            end[free] = at - cho_solve(factor, slope, check_finite=False)
            return end if np.isfinite(end).all() else None
    return None


def _by_gram(model: ProxModel, w: Vector, r: Vector, shift: float, tolerance: float) -> Vector:
    """Return the minimiser in the groups that are not 0, the others as they are."""
    groups = model.term.penalty
    free = groups.members[(groups.sums(w[groups.members] != 0.0) > 0.0)[groups.of_member]]
    free = np.sort(free[model.figures[1, free] > 0.0])
    columns, (slopes, _, _, means) = some_rows(model.columns, free), model.figures[:, free]
    hessian: Matrix = columns.values @ columns.values.T if isinstance(columns, DenseRows) else gram_of(turned(columns))
    right, at = slopes + products(columns, r) + shift * means, w[free]
    if model.total > 0.0:
        hessian = np.block([[hessian, means[:, None]], [means[None, :], np.array([[model.total]])]])
        right, at = np.append(right, 0.0), np.append(at, 0.0)  # the intercept is where its slope is 0
    near = CLOSE * model.unit * tolerance / math.sqrt(w.size)
    end = w.copy()
    end[free] = minimise_model(model.term.on_columns(free), model.unit * hessian, model.unit * right, at, near)[: free.size]
    return end


def minimised(model: ProxModel, start: Vector, tolerance: float, *, is_exact: bool = False) -> Minimiser:
    """Return a stationary point of the model, with an optimality of at most the tolerance but for the intercept's."""
    slopes, _, _, means = model.figures
    w, r, shift = start.copy(), np.zeros(model.columns.n_columns), np.array([_intercept(model, np.zeros(start.size))])
    history, in_all, of_read = np.empty((MEMORY + 1, start.size)), 0.0, nanoseconds_of_pass(model.columns, start.size)
    tolerance = max(tolerance / model.unit, ROUNDING * float(np.sqrt(slopes @ slopes)))
    descend = group_descent.descend if isinstance(model.term.penalty, Groups) else _descend
    change, penalty, spent, of_gram = tolerance, model.term.penalty, 0.0, nanoseconds_of_gram(model.columns)
    most = MOST_ROUNDS if is_exact else ENOUGH_ROUNDS
    for n_rounds in range(1, most + 1):
        found = descend(model.columns, penalty, model.figures, model.total, w, r, shift, history, change)
        of_pass = nanoseconds_of_pass(model.columns, n_free := int(np.count_nonzero(w)))
        in_all += abs(found) * of_pass + SLOPE_ALONE * (of_read - of_pass)
        spent += abs(found) * (of_pass + OF_VISIT * n_free / penalty.size_of_parts())
        if found == 1:
            slope = model.unit * (slopes + products(model.columns, r) + float(shift[0]) * means)
            left = model.term.optimality(w, slope) / model.unit
            in_all += SLOPE_ALONE * of_read
            if not left > tolerance:
                break
            change *= max(0.5 * tolerance / left, 0.01)
        elif found == PASSES:
            of_support = nanoseconds_of_face(of_gram, n_free, of_calls=OF_NEWTON)
            is_due = penalty.has_derivatives() and (AT_LAST if n_rounds == most else 1.0) * spent > of_support
            if is_due:
                in_all, spent = in_all + of_support, 0.0
            far = _on_support(model, (w, r, float(shift[0])), tolerance) if is_due else None
            w, r, shift[0] = _lower(model, start, (w, r, float(shift[0])), extrapolated(history) if far is None else far)
    return Minimiser(w, float(shift[0]), in_all / max(of_read, 1.0))
