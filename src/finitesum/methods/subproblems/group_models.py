"""Quadratic models with a group penalty, minimised by steps of one group at a time and Newton's steps on the others' face.

    q(w) = g'(w - y) + 1/2 (w - y)'H (w - y) + sum_g s_g ||w_g|| + l1 ||w||_1

A pass goes over the groups that are not 0 or want to leave it. Without an l1 part a step is to the minimiser in w_g: with
b the slope at w_g = 0 it is 0 where ||b|| <= s_g, else -r (r H_gg + s_g I)^-1 b with the r > 0 at which

    || (r H_gg + s_g I)^-1 b || = 1    [1],

by Newton's method on the inverse of that norm, which is concave in r, so that iterates rise to the root from where it would
be if all eigenvalues of H_gg were the largest. With an l1
part it is some prox-gradient steps, of the length that H_gg allows. So no step depends on how large the columns of other
groups are. Coordinates without a group, the intercepts, are minimised over together.

Where no group is 0 or leaves it q is smooth in the coordinates that are not 0. Newton's steps there follow each pass: the
penalty's curvature is s_g (I - u u') / ||w_g||, u = w_g / ||w_g||. Coordinates of an l1 part that change their sign, and
groups that turn round, go to 0. A step is halved, or ends where one of them does so, until q falls: where columns of two
groups are the same H has no curvature, and a step leads far beyond.

References
----------
.. [1] M. Yuan, Y. Lin, "Model selection and estimation in regression with grouped variables", JRSS B 68 (2006); Z. Qin, K.
   Scheinberg, D. Goldfarb, "Efficient block-coordinate descent algorithms for the group lasso", Math. Program. Comput. 5
   (2013).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import Groups

#: Rounds of a pass and Newton's steps, at most; these steps in a round; halvings of one.
MOST_ROUNDS, MOST_NEWTON, MOST_HALVINGS = 60, 12, 12

#: Rounds in a row that may leave more than a part of the least optimality so far: it rests where rounding hides curvature.
MOST_IDLE, LESS = 8, 0.9

#: Prox-gradient steps of a group with an l1 part; steps to the norm of one without.
PROX_STEPS, ROOT_STEPS = 5, 60

#: Eigenvalues of a group's block are at least this part of its largest.
SINGULAR = 1e-13

#: How far a step goes beyond the point at which a group turns round, relatively, so that rounding does not hide it.
BEYOND = 1e-12

#: The part of the fall that Newton's model predicts which a step must bring.
ENOUGH = 1e-4


class _Model(NamedTuple):
    hessian: Matrix
    groups: Groups
    free: Indices  # the coordinates without a group
    eigen: dict[int, tuple[Matrix, Vector, Matrix]]  # blocks, their eigenvalues and vectors, where they were asked for


class _Point(NamedTuple):
    w: Vector
    slope: Vector  # of the quadratic part


def minimised(term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    """Return the minimiser of the model to an optimality of the tolerance, H >= 0 being symmetric; y is where it begins."""
    groups: Any = term.compiled.penalty
    is_free = np.ones(y.size, dtype=bool)
    is_free[groups.members] = False
    model = _Model(hessian, groups, np.flatnonzero(is_free), {})
    point, best, least = _Point(y.copy(), gradient.copy()), y, math.inf
    n_idle, is_moved = 0, bool(y[groups.members].any())  # a start that is not 0 may be near
    for _ in range(MOST_ROUNDS):
        if n_idle == MOST_IDLE:
            break
        _pass(model, point, of_zeros=is_moved)
        point = _Point(point.w, gradient + hessian @ (point.w - y))
        left = first = term.optimality(*point)
        for _ in range(MOST_NEWTON):
            if left <= tolerance or (moved := _newton(term, model, point, left)) is None:
                break
            point = moved
            left = term.optimality(*point)
        is_moved = left < LESS * first
        n_idle = 0 if left < LESS * least else n_idle + 1
        if left < least:
            best, least = point.w.copy(), left
        if left <= tolerance:
            break
    return best


def _pass(model: _Model, point: _Point, *, of_zeros: bool) -> None:
    """Move one group after the other, or those alone that leave 0, and the coordinates without a group, in place."""
    groups, (w, slope) = model.groups, point
    leaves, is_zero = groups.excess(slope) > 0.0, groups.sums(np.abs(w[groups.members])) == 0.0
    moves = leaves & is_zero if of_zeros else leaves | ~is_zero
    for g in np.flatnonzero(moves):
        members = groups.members[groups.starts[g] : groups.starts[g + 1]]
        _move(model, point, members, _end_of_group(model, int(g), members, w[members], slope[members]))
    if model.free.size:
        block = model.hessian[np.ix_(model.free, model.free)]
        _move(model, point, model.free, w[model.free] - solve_spd(block, slope[model.free]))


def _move(model: _Model, point: _Point, members: Indices, end: Vector) -> None:
    step = end - point.w[members]
    if step.any():
        point.w[members] = end
        point.slope[:] += step @ model.hessian[members]


def _end_of_group(model: _Model, g: int, members: Indices, w: Vector, slope: Vector) -> Vector:
    """Return where a group is best, the others as they are; with an l1 part a point that is nearer."""
    strength, l1 = float(model.groups.strengths[g]), model.groups.l1
    if g not in model.eigen:
        block = model.hessian[members[:, None], members]
        values, vectors = np.linalg.eigh(block)
        model.eigen[g] = block, np.maximum(values, SINGULAR * float(values[-1])), vectors
    block, values, vectors = model.eigen[g]
    largest = float(values[-1])
    if not largest > 0.0:
        return w
    if l1 == 0.0:
        return vectors @ _in_eigenvectors(values, vectors.T @ (slope - block @ w), strength)
    for _ in range(1 if members.size == 1 else PROX_STEPS):
        moved = w - slope / largest
        moved = np.sign(moved) * np.maximum(np.abs(moved) - l1 / largest, 0.0)
        norm = float(np.linalg.norm(moved))
        moved *= max(1.0 - strength / (largest * norm), 0.0) if norm > 0.0 else 0.0
        slope, w = slope + block @ (moved - w), moved
    return w


def _in_eigenvectors(values: Vector, slopes: Vector, strength: float) -> Vector:
    """Return argmin_v sum_i (slopes_i v_i + values_i v_i^2 / 2) + strength ||v||.

    Examples
    --------
    >>> _in_eigenvectors(np.array([1.0, 2.0]), np.array([0.0, -3.0]), 1.0).round(12) + 0.0
    array([0., 1.])
    """
    size = math.sqrt(float(slopes @ slopes))
    if size <= strength:
        return np.zeros(slopes.size)
    if strength == 0.0:
        return -slopes / values
    r = (size - strength) / float(values.max())
    for _ in range(ROOT_STEPS):
        whole = r * values + strength
        parts = slopes / whole
        square = float(parts @ parts)
        rise = float((parts * parts / whole) @ values)  # of the inverse norm, times its third power
        step = (1.0 - 1.0 / math.sqrt(square)) * square * math.sqrt(square) / rise
        r += step
        if not step > 1e-15 * r:
            break
    return -r * slopes / (r * values + strength)


def _face(model: _Model, point: _Point) -> tuple[Indices, Vector, Matrix]:
    """Return the coordinates that are not 0, group by group, and free ones, with the slope and curvature of q there."""
    groups, (w, slope) = model.groups, point
    norms = np.sqrt(groups.sums(w[groups.members] ** 2))
    is_in = (w[groups.members] != 0.0) & (norms > 0.0)[groups.of_member]  # their squares may vanish
    inside, group = groups.members[is_in], groups.of_member[is_in]
    some = np.concatenate([inside, model.free])
    unit, per_length = w[inside] / norms[group], (groups.strengths / np.where(norms > 0.0, norms, np.inf))[group]
    slopes, curvature = slope[some], model.hessian[np.ix_(some, some)]
    slopes[: inside.size] += groups.strengths[group] * unit + groups.l1 * np.sign(w[inside])
    sizes = np.bincount(group, minlength=groups.strengths.size)
    n_beside, first = sizes[group], (np.cumsum(sizes) - sizes)[group]  # of each: how many its group has, from where on
    i = np.repeat(np.arange(inside.size), n_beside)
    j = np.arange(i.size) + np.repeat(first - (np.cumsum(n_beside) - n_beside), n_beside)
    curvature[i, j] -= (per_length * unit)[i] * unit[j]
    curvature[np.diag_indices(inside.size)] += per_length
    return some, slopes, curvature


def _newton(term: ConvexTerm, model: _Model, point: _Point, left: float) -> _Point | None:
    """Return the point after a Newton step on the face, None where there is none that brings q down."""
    some, slopes, curvature = _face(model, point)
    if some.size == 0 or not np.isfinite(curvature).all():
        return None
    direction = -solve_spd(curvature, slopes)
    predicted = float(slopes @ direction)
    for t in _lengths(model, point.w, some, direction):
        w = point.w.copy()
        w[some] += t * direction
        _stop_at_zero(model, point.w, w)
        step = w - point.w
        change = model.hessian @ step
        rise = float(point.slope @ step) + 0.5 * float(step @ change) + term.rise(point.w, w)
        end = _Point(w, point.slope + change)
        if rise <= ENOUGH * t * predicted and rise < 0.0:
            return end
        if t == 1.0 and term.optimality(*end) <= 0.5 * left:  # what q falls by may be less than its rounding errors
            return end
    return None


def _lengths(model: _Model, w: Vector, some: Indices, direction: Vector) -> Vector:
    """Return the parts of a step to be tried, falling: halves of it, and those to where the first, second, fourth turns."""
    groups, along = model.groups, np.zeros(w.size)
    along[some] = direction
    at, step = w[groups.members], along[groups.members]
    squares, falls = groups.sums(at * at), -groups.sums(at * step)
    lengths = squares[falls > 0.0] / falls[falls > 0.0]
    if groups.l1 > 0.0:
        changes = at * step < 0.0
        lengths = np.concatenate([lengths, -at[changes] / step[changes]])
    ends = np.sort(lengths[lengths < 1.0])
    ends = (1.0 + BEYOND) * ends[2 ** np.arange(ends.size.bit_length()) - 1]
    return np.sort(np.concatenate([0.5 ** np.arange(MOST_HALVINGS), ends]))[::-1]


def _stop_at_zero(model: _Model, before: Vector, w: Vector) -> None:
    """Make coordinates of an l1 part that changed their sign 0, and groups that turned round, in place."""
    groups = model.groups
    if groups.l1 > 0.0:
        inside: Flags = np.zeros(w.size, dtype=bool)
        inside[groups.members] = True
        w[inside & (before * w < 0.0)] = 0.0
    along = groups.sums(before[groups.members] * w[groups.members])
    turned = groups.members[(along <= 0.0)[groups.of_member]]
    w[turned] = 0.0
