"""Minimisers of a quadratic function with elastic nets of several strengths, and sets: see `gram_paths`.

l2 penalties are solved for all strengths by the eigenvalues of the matrix, or by a factor each; l1 penalties by coordinate
descent from one strength to the next as long as that finds the signs of the minimisers, and then along their path. What
neither solves to the tolerance, and a set, has a quadratic model of its own
(`finitesum.methods.subproblems.quadratic_models`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.methods.subproblems.gram_descent import minimisers
from finitesum.methods.subproblems.gram_homotopy import Lost, Path
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.term import ConvexTerm

#: Columns up to which each model with an l1 penalty is solved by itself, for which no kernel is compiled.
FEW_DESCENDED = 10

#: Descents for a strength, after each of which its signs are tried, before a model takes its place.
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
    elif not unit.is_constrained:
        points = _nets(quadratic, family, strengths, tol)
    is_begun = points is not None
    points = np.zeros((strengths.size, d)) if points is None else points
    optimality = _optimality(quadratic, quadratics, thresholds, points)
    for k in np.flatnonzero(~(optimality <= tol)):
        w = points[k] if is_begun or k == 0 else points[k - 1]
        points[k] = _by_a_model(quadratic, family, float(strengths[k]), w, tol)
        (optimality[k],) = _optimality(quadratic, quadratics[k], thresholds[k], points[k : k + 1])
    return points, optimality


def _nets(quadratic: Quadratic, family: Family, strengths: Vector, tol: float) -> Matrix:
    """Return the minimisers with l1 penalties: by descent as long as it finds their signs, then by following their path."""
    unit, right, m = family.unit, quadratic.right, strengths.size
    points, n_solved = np.zeros((m, right.size)), 0
    while n_solved < m and right.size > FEW_DESCENDED:
        start, rest = points[max(n_solved - 1, 0)], strengths[n_solved:]
        points[n_solved:], n_more = minimisers(quadratic.gram, right, rest, unit.quadratic, unit.thresholds, tol, start)
        n_solved += n_more
        if n_solved == m or not _is_solved(quadratic, unit, float(strengths[n_solved]), points[n_solved], tol):
            break
        n_solved += 1
    path: Path | None = None
    for k in range(n_solved, m):
        w = points[k - 1] if k > 0 else np.zeros(right.size)
        before = float(strengths[k - 1]) if k > 0 else _least_for_zero(right, unit.thresholds)
        try:
            if path is None:
                path = Path(quadratic.gram, right, unit.quadratic, unit.thresholds, before, w)
            points[k] = path.at(float(strengths[k]))
        except Lost:
            points[k:] = _without_path(quadratic, unit, strengths[k:], w, tol)
            break
    return points


def _without_path(quadratic: Quadratic, unit: ConvexTerm, strengths: Vector, w: Vector, tol: float) -> Matrix:
    """Return points near minimisers by descents alone, each of which may find their signs: for columns without a path."""
    model, m = (unit.quadratic, unit.thresholds, tol), strengths.size
    points, k = np.empty((m, w.size)), 0
    while k < m:  # one that takes many sweeps is a start for the next, too
        some, n_solved = minimisers(quadratic.gram, quadratic.right, strengths[k:], *model, w)
        last = min(k + n_solved + 1, m)
        points[k:last] = some[: last - k]
        w, k = points[last - 1], last
    for k in range(m):
        for _ in range(MOST_TURNS):
            if _is_solved(quadratic, unit, float(strengths[k]), points[k], tol):
                break
            (points[k],), _ = minimisers(quadratic.gram, quadratic.right, strengths[k : k + 1], *model, points[k])
    return points


def _is_solved(quadratic: Quadratic, unit: ConvexTerm, strength: float, w: Vector, tol: float) -> bool:
    """Return whether the point is a minimiser, or that with its signs, which takes its place, is."""
    quadratics, thresholds = strength * unit.quadratic, strength * unit.thresholds
    if _optimality(quadratic, quadratics[None], thresholds[None], w[None])[0] <= tol:
        return True
    support = np.flatnonzero(w)
    hessian = quadratic.gram[np.ix_(support, support)]
    hessian[np.diag_indices(support.size)] += quadratics[support]
    found = solve_spd(hessian, (quadratic.right - thresholds * np.sign(w))[support])
    if not (np.sign(found) == np.sign(w[support])).all():
        return False
    w[support] = found
    return bool(_optimality(quadratic, quadratics[None], thresholds[None], w[None])[0] <= tol)


def _least_for_zero(right: Vector, thresholds: Vector) -> float:
    """Return the least strength at which the coordinates that have a threshold are 0, where all of them have one."""
    has_one = thresholds > 0.0
    return float((np.abs(right[has_one]) / thresholds[has_one]).max(initial=0.0))


def _by_a_model(quadratic: Quadratic, family: Family, strength: float, w: Vector, tol: float) -> Vector:
    """Return the minimiser for one strength from a point near it."""
    w = w if np.isfinite(w).all() else np.zeros(w.size)
    term, hessian = family.at(strength), quadratic.gram.copy()
    hessian[np.diag_indices_from(hessian)] += strength * family.unit.quadratic
    return minimise_model(term, hessian, hessian @ w - quadratic.right, w, tol)


def _optimality(quadratic: Quadratic, quadratics: Matrix, thresholds: Matrix, points: Matrix) -> Vector:
    """Return the norms of the prox-gradient mappings at points, with l2 and l1 strengths of the coordinates."""
    places = points - (points @ quadratic.gram - quadratic.right + quadratics * points)
    nearest = np.sign(places) * np.maximum(np.abs(places) - thresholds, 0.0)
    return np.asarray(np.linalg.norm(points - nearest, axis=1))


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
