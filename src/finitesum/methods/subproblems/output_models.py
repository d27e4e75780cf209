"""Minimisers of a quadratic model with several outputs, the coefficients of each of which lie in a set by themselves.

    q(w) = g'(w - y) + 1/2 (w - y)'H (w - y),      w = (w_1, b_1, ..., w_K, b_K),   w_k in Q,   b_k free

Two steps by turns, until the mapping w - P(w - q'(w)) is small:

1. *Newton's method on the mapping in the metric of H's diagonal* [1]: with P in the metric S and its generalised Jacobian J
   at v = w - S^-1 q'(w), (I - J + J S^-1 H) d = P(v) - w. J has a closed form on each face of a set, and near the
   minimiser, once its face is found, a step or two are exact. It is taken where it halves the mapping.
2. *A sweep over the outputs*: q is minimised over (w_k, b_k) alone, exactly, as a model of one output is. The model falls
   with each, so that the two converge from anywhere.

l1 balls and simplices have a solution with many zeros that is not the only one where shifts of all outputs change nothing.
There few sweeps are the start of the active-set method, which ends.

References
----------
.. [1] L. Qi, J. Sun, "A nonsmooth version of Newton's method", Mathematical Programming 58 (1993).
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, solve

from finitesum.core.arrays import Matrix, Vector
from finitesum.methods.subproblems import active_set
from finitesum.problems.term import ConvexTerm

MinimiseOne = Callable[[ConvexTerm, Matrix, Vector, Vector, float], Vector]

#: Sweeps, and steps of Newton's method before each, at most; and sweeps before an active-set method.
MOST_SWEEPS, MOST_STEPS, N_SWEEPS = 200, 20, 2

#: The part of the mapping at the start that may be left at the end.
LEAST_PROGRESS = 1e-3

#: What is added to H's diagonal, relatively, where a step does not help.
SHIFTS = (0.0, 1e-12, 1e-9)

#: The part of a change of the model's terms from which a fall is one.
VISIBLE = 1e-12

#: The least normal number.
TINY = float(np.finfo(np.float64).tiny)


def _along_normal(normal: Vector, metric: Vector) -> Matrix:
    """Return I - S^-1 a a' / (a'S^-1 a): the projection along a plane with the normal a."""
    moved = normal / metric
    return np.asarray(np.eye(normal.size) - np.outer(moved, normal / float(normal @ moved)))


def jacobian_of(constraint: Any, x: Vector, metric: Vector, projected: Vector) -> Matrix | None:
    """Return a generalised Jacobian, (d, d), of a set's projection of x in a metric; None for sets that are not known."""
    if (projected == x).all():
        return np.eye(x.size)
    if constraint.boundary in ("l1-norm", "sum"):
        weights = getattr(constraint, "weights", None)
        kept, jacobian = np.flatnonzero(projected), np.zeros((x.size, x.size))
        normal = np.sign(projected) if weights is None else weights * np.sign(projected)
        jacobian[np.ix_(kept, kept)] = _along_normal(normal[kept], metric[kept])
        return jacobian
    if constraint.boundary == "l2-norm":
        largest = int(np.argmax(np.abs(projected)))
        multiplier = max(float(metric[largest] * (x[largest] / projected[largest] - 1.0)), 0.0)
        shrunk, pull = metric / (metric + multiplier), projected / (metric + multiplier)
        return np.asarray(np.diag(shrunk) - np.outer(pull, shrunk * projected / float(projected @ pull)))
    return None


def _projected(term: ConvexTerm, w: Vector, metric: Vector) -> Vector:
    """Return the point of the sets that is nearest to w in a metric."""
    end, d = w.copy(), term.n_columns
    for start in range(0, w.size, w.size // term.n_blocks):
        here = slice(start, start + d)
        end[here] = term.constraint.project(w[here], metric[here])
    return end


def _newton_step(term: ConvexTerm, hessian: Matrix, w: Vector, slope: Vector, shift: float) -> Vector | None:
    """Return the end of a step of Newton's method on the mapping, None where the set's Jacobian is not known."""
    d, curvatures = term.n_columns, np.maximum(np.diagonal(hessian), TINY)
    moved = w - slope / curvatures
    end, matrix = _projected(term, moved, curvatures), hessian / curvatures[:, None]
    matrix.flat[:: w.size + 1] += shift
    is_fixed = np.zeros(w.size, dtype=bool)
    for start in range(0, w.size, w.size // term.n_blocks):
        here = slice(start, start + d)
        jacobian = jacobian_of(term.constraint, moved[here], curvatures[here], end[here])
        if jacobian is None:
            return None
        is_fixed[here] = ~jacobian.any(axis=1)
        matrix[here] = jacobian @ matrix[here]
        matrix[here, here] += np.eye(d) - jacobian
    roots = np.sqrt(curvatures)
    try:
        step = solve(roots[:, None] * matrix / roots, roots * (end - w), check_finite=False) / roots
    except LinAlgError:
        return None
    return _projected(term, np.where(is_fixed, end, w + step), curvatures) if np.isfinite(step).all() else None


def _by_newton(term: ConvexTerm, model: Any, w: Vector, tolerance: float) -> tuple[Vector, float]:
    """Return the best point that Newton's method on the mapping finds from w, and the largest entry of its mapping."""
    hessian, gradient, y = model
    slope = gradient + hessian @ (w - y)
    left = float(np.abs(term.mapping(w, slope)).max())
    for _ in range(MOST_STEPS):
        if left <= tolerance:
            break
        for shift in SHIFTS:
            end = _newton_step(term, hessian, w, slope, shift)
            if end is None:
                continue
            step = end - w
            there = gradient + hessian @ (end - y)
            remains, rise = float(np.abs(term.mapping(end, there)).max()), 0.5 * float((slope + there) @ step)
            if remains <= 0.5 * left or rise < -VISIBLE * float((np.abs(slope) + np.abs(there)) @ np.abs(step)):
                break
        else:
            break
        w, slope, left = end, there, remains
    return w, left


def _swept(term: ConvexTerm, model: Any, w: Vector, tolerance: float, minimise_one: MinimiseOne) -> Vector:
    """Return the point after the model was minimised over the coordinates of one output after the other."""
    hessian, gradient, y = model
    one = ConvexTerm(term.penalty, term.constraint, term.n_columns, term.n_free)
    w, slope = w.copy(), gradient + hessian @ (w - y)
    for start in range(0, y.size, y.size // term.n_blocks):
        here = slice(start, start + y.size // term.n_blocks)
        end = minimise_one(one, hessian[here, here], slope[here], w[here], 0.1 * tolerance)
        slope += hessian[:, here] @ (end - w[here])
        w[here] = end
    return w


def minimised(
    term: ConvexTerm, model: tuple[Matrix, Vector, Vector], tolerance: float, rounding: float, minimise_one: MinimiseOne
) -> Vector:
    """Return the minimiser over the sets of the model (H, g, y), where the mapping has no entry above the tolerance.

    At least a thousandth of the mapping at y is asked for, so that the point moves, and no less than its rounding error.
    `minimise_one(term, H, g, y, tolerance)` is that of a model of one output.
    """
    hessian, gradient, y = model
    w = term.project(y.copy())
    best, least = w, np.inf
    most = LEAST_PROGRESS * float(np.abs(term.mapping(w, gradient + hessian @ (w - y))).max())
    tolerance = max(min(tolerance, most), rounding)
    intervals = term.intervals
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # a singular H has shifts
        for k in range(MOST_SWEEPS if intervals is None else 1 + N_SWEEPS):
            w, left = _by_newton(term, model, w, tolerance)
            if left < least:
                best, least = w, left
            if left <= tolerance:
                return best
            if intervals is None or k < N_SWEEPS:
                w = _swept(term, model, w, tolerance, minimise_one)
    if intervals is not None:
        for shift in SHIFTS:
            raised = hessian if shift == 0.0 else hessian + np.diag(shift * np.diagonal(hessian))
            end = active_set.minimised(intervals, raised, gradient, y, w, tolerance)
            left = float(np.abs(term.mapping(end, gradient + hessian @ (end - y))).max())
            if left < least:
                best, least = end, left
            if left <= 10.0 * tolerance:
                break
    return best
