"""Minimisers of a quadratic function with elastic nets of several strengths, and sets: see `gram_paths`.

l2 penalties are solved for all strengths by the eigenvalues of the matrix, or by a factor each; l1 penalties by coordinate
descent from one strength to the next, and by the factor of the coordinates that are not 0. What neither solves to the
tolerance, and a set, has a quadratic model of its own (`finitesum.methods.subproblems.quadratic_models`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.methods.subproblems.gram_descent import minimisers
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.term import ConvexTerm

#: Columns up to which each model with an l1 penalty is solved by itself, for which no kernel is compiled.
FEW_DESCENDED = 10

#: Turns of the minimiser that belongs to a point's signs, and of descents to other signs.
MOST_TURNS = 5

#: Strengths of an l2 penalty from which eigenvalues cost less than factors, and columns up to which they always do.
MANY_STRENGTHS, FEW_COLUMNS = 30, 50


class Quadratic(NamedTuple):
    """The mean squared loss of some rows as a function of the coefficients, the intercept being at its best."""

    gram: Matrix  # (d, d)
    right: Vector  # (d,)
    mean: Vector  # (d,), 0 without an intercept
    target_mean: float  # 0 without an intercept
    spectrum: Callable[
        [], tuple[Vector, Matrix]
    ]  # () -> eigenvalues and eigenvectors of gram, computed once for all targets


class Family(NamedTuple):
    """Terms of the coefficients alone that differ in the strength of an elastic net."""

    unit: ConvexTerm  # of strength 1
    at: Callable[[float], ConvexTerm]


def minimisers_of(quadratic: Quadratic, family: Family, strengths: Vector, tol: float) -> tuple[Matrix, Vector]:
    """Return the minimisers for falling strengths and their optimality: all at once, and one by one what needs more."""
    unit, d = family.unit, quadratic.right.size
    quadratics, thresholds = strengths[:, None] * unit.quadratic, strengths[:, None] * unit.thresholds
    points = None
    if unit.is_smooth:
        points = _ridges(quadratic, quadratics)
    elif not unit.is_constrained and d > FEW_DESCENDED:
        points = minimisers(quadratic.gram, quadratic.right, strengths, unit.quadratic, unit.thresholds, tol)
    is_begun = points is not None
    points = np.zeros((strengths.size, d)) if points is None else points
    optimality = _optimality(quadratic, quadratics, thresholds, points)
    for k in np.flatnonzero(~(optimality <= tol)):
        for turn in range(MOST_TURNS if is_begun and not unit.is_smooth else 0):
            one = strengths[k : k + 1]
            if turn > 0:
                (points[k],) = minimisers(
                    quadratic.gram, quadratic.right, one, unit.quadratic, unit.thresholds, tol, points[k]
                )
            points[k] = _on_support(quadratic, quadratics[k], thresholds[k], points[k])
            (optimality[k],) = _optimality(quadratic, quadratics[k], thresholds[k], points[k : k + 1])
            if optimality[k] <= tol:
                break
        if optimality[k] <= tol:
            continue
        w = points[k] if is_begun or k == 0 else points[k - 1]
        w = w if np.isfinite(w).all() else np.zeros(d)
        term, hessian = family.at(float(strengths[k])), quadratic.gram.copy()
        hessian[np.diag_indices(d)] += quadratics[k]
        points[k] = minimise_model(term, hessian, hessian @ w - quadratic.right, w, tol)
        optimality[k] = term.optimality(points[k], hessian @ points[k] - quadratic.right)
    return points, optimality


def _optimality(quadratic: Quadratic, quadratics: Matrix, thresholds: Matrix, points: Matrix) -> Vector:
    """Return the norms of the prox-gradient mappings at points, with l2 and l1 strengths of the coordinates."""
    places = points - (points @ quadratic.gram - quadratic.right + quadratics * points)
    nearest = np.sign(places) * np.maximum(np.abs(places) - thresholds, 0.0)
    return np.asarray(np.linalg.norm(points - nearest, axis=1))


def _on_support(quadratic: Quadratic, strengths: Vector, thresholds: Vector, w: Vector) -> Vector:
    """Return the minimiser with the point's signs, or the point where that has others."""
    support = np.flatnonzero(w)
    hessian = quadratic.gram[np.ix_(support, support)]
    hessian[np.diag_indices(support.size)] += strengths[support]
    found = solve_spd(hessian, (quadratic.right - thresholds * np.sign(w))[support])
    if not (np.sign(found) == np.sign(w[support])).all():
        return w
    result = np.zeros(w.size)
    result[support] = found
    return result


def _ridges(quadratic: Quadratic, strengths: Matrix) -> Matrix | None:
    """Return the minimisers with l2 penalties by eigenvalues, None where these do not pay."""
    m, d = strengths.shape
    if np.ptp(strengths, axis=1).any() or (d > FEW_COLUMNS and m < MANY_STRENGTHS):
        return None
    values, basis = quadratic.spectrum()
    inverses = np.maximum(values, 0.0) + strengths[:, :1]
    if not (inverses > 0.0).all():
        return None
    coefs: Matrix = ((quadratic.right @ basis) / inverses) @ basis.T
    lacking = quadratic.right - coefs @ quadratic.gram - strengths * coefs  # values and basis have rounding errors
    coefs += ((lacking @ basis) / inverses) @ basis.T
    return coefs
