"""Active sets: the zeros, signs and bounds of a point, and the minimiser of a quadratic model that keeps them.

Where it is known which coefficients are 0 or at a bound, and which signs the others have, the minimiser of a model with an
l1 penalty, or over a box, an l1 ball or a simplex, is that of a quadratic in the free coordinates, perhaps on a plane

    min_p  s'p + 1/2 p'H p,      p_j = 0 for j not free,   <normal, p> = 0

which takes a Cholesky factor of H on the free coordinates. What active sets a penalty or a set has is said by its geometry,
one class each (`geometry_of`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.term import ConvexTerm


class ActiveSet(NamedTuple):
    """The points near w with the same zeros, signs and bounds."""

    free: Indices
    slopes: Vector  # of the l1 penalty, on the free coordinates
    normal: Vector  # steps are orthogonal to it; empty where they need not be


class Geometry(ABC):
    """The active sets of a term, whose prox is that of an l1 penalty until a class says otherwise."""

    total = 0.0  # what the coefficients add up to where their sum is at its bound
    is_surface: ClassVar[bool] = False  # whether that sum has a bound

    def __init__(self, term: ConvexTerm) -> None:
        self.term, self.constraint = term, cast(Any, term.constraint)
        self.n_columns = term.n_columns
        #: Coordinates that are 0 or keep a sign on an active set.
        self.has_sign = np.arange(term.dim) < term.n_columns
        #: The bounds of the coordinates, in which coordinate descent stays.
        self.lower, self.upper = np.full(term.dim, -np.inf), np.full(term.dim, np.inf)
        self.lower[: self.n_columns], self.upper[: self.n_columns] = term.constraint.intervals(term.n_columns)

    def thresholds(self, w: Vector, slope: Vector) -> Vector:
        """Return the weight of each |w_j|: that of the l1 penalty, or the multiplier of a set as w and slope imply it."""
        return self.term.thresholds

    def split(self, thresholds: Vector) -> tuple[Vector, Vector]:
        """Return what of them coordinate descent adds to the slopes, and what it weights the sizes with."""
        return np.zeros(thresholds.size), thresholds

    def has_gains(self, w: Vector, slope: Vector, thresholds: Vector) -> bool:
        """Return whether the model falls where a coefficient leaves 0 or a bound."""
        at_zero = self.has_sign & (w == 0.0)
        return bool((np.abs(slope[at_zero]) > (1.0 + 1e-12) * thresholds[at_zero]).any())

    def _nonzeros(self, w: Vector) -> tuple[Indices, Vector]:
        """Return the coordinates that are not 0 or have no sign, and the signs of the others."""
        return np.flatnonzero(~self.has_sign | (w != 0.0)), np.where(self.has_sign, np.sign(w), 0.0)

    @abstractmethod
    def active_set(self, w: Vector, slope: Vector, *, is_tight: bool | None = None) -> ActiveSet:
        """Return the active set of w; whether the sum is at its bound can be given, where w lies outside of the set."""

    def restored(self, w: Vector, end: Vector) -> Vector:
        """Return the end of a step from w with 0 where signs changed, in the set."""
        end[self.has_sign & (w * end < 0.0)] = 0.0
        return self.term.project(end)

    def first_change(self, w: Vector, free: Indices, step: Vector) -> float:
        """Return the fraction of the step after which the first coefficient is 0 or at a bound."""
        start, end = w[free], w[free] + step
        crossing = self.has_sign[free] & (start * end < 0.0)
        return float(np.min(-start[crossing] / step[crossing], initial=1.0))


class Signs(Geometry):
    """The zeros and signs of an l1 penalty, on the coefficients that it weighs."""

    def __init__(self, term: ConvexTerm) -> None:
        super().__init__(term)
        self.has_sign = term.thresholds > 0.0

    def active_set(self, w: Vector, slope: Vector, *, is_tight: bool | None = None) -> ActiveSet:
        free, signs = self._nonzeros(w)
        return ActiveSet(free, self.term.thresholds[free] * signs[free], np.zeros(0))


class Bounds(Geometry):
    """The bounds of a box, an orthant or an l_inf ball: coordinates that the slope draws inside are free."""

    def has_gains(self, w: Vector, slope: Vector, thresholds: Vector) -> bool:
        return True  # which bounds are passed is seen by going there

    def active_set(self, w: Vector, slope: Vector, *, is_tight: bool | None = None) -> ActiveSet:
        length = 1e-3 * max(1.0, np.abs(w).max()) / (np.abs(slope).max() or 1.0)
        chosen = np.flatnonzero(self.term.prox_step(w, slope, length) != w)
        return ActiveSet(chosen, np.zeros(chosen.size), np.zeros(0))

    def restored(self, w: Vector, end: Vector) -> Vector:
        return self.term.project(end)

    def first_change(self, w: Vector, free: Indices, step: Vector) -> float:
        start, end = w[free], w[free] + step
        inside = np.zeros(w.size)
        inside[free] = end
        reached = self.term.project(inside)[free]
        passed = reached != end
        return float(np.min((reached[passed] - start[passed]) / step[passed], initial=1.0))


class L1BallSurface(Geometry):
    """The zeros and signs on the surface of an l1 ball; inside of it all coordinates are free."""

    is_surface: ClassVar[bool] = True

    def __init__(self, term: ConvexTerm) -> None:
        super().__init__(term)
        self.total, self.weights = self.constraint.radius, self.constraint.weights

    def _is_tight(self, w: Vector) -> bool:
        """Return whether the sum of the sizes is at its bound."""
        return not self.term.constraint.contains((1.0 + 1e-9) * w[: self.n_columns])

    def thresholds(self, w: Vector, slope: Vector) -> Vector:
        n, thresholds = self.n_columns, np.zeros(w.size)
        if self._is_tight(w):
            thresholds[:n] = max(-float(slope[:n] @ w[:n]) / self.total, 0.0)
            if self.weights is not None:
                thresholds[:n] *= self.weights
        return thresholds

    def active_set(self, w: Vector, slope: Vector, *, is_tight: bool | None = None) -> ActiveSet:
        if not (self._is_tight(w) if is_tight is None else is_tight):
            return ActiveSet(np.arange(w.size), np.zeros(w.size), np.zeros(0))
        free, normal = self._nonzeros(w)
        if self.weights is not None:
            normal[: self.n_columns] *= self.weights
        return ActiveSet(free, np.zeros(free.size), normal[free])


class SimplexSurface(Geometry):
    """The zeros of a simplex, whose sum is always at its bound; thresholds are what all slopes are raised by."""

    is_surface: ClassVar[bool] = True

    def __init__(self, term: ConvexTerm) -> None:
        super().__init__(term)
        self.total = self.constraint.total

    def thresholds(self, w: Vector, slope: Vector) -> Vector:
        n, thresholds = self.n_columns, np.zeros(w.size)
        thresholds[:n] = -float(slope[:n] @ w[:n]) / self.total
        return thresholds

    def split(self, thresholds: Vector) -> tuple[Vector, Vector]:
        return thresholds, np.zeros(thresholds.size)

    def has_gains(self, w: Vector, slope: Vector, thresholds: Vector) -> bool:
        at_zero = w[: self.n_columns] == 0.0
        return bool((slope[: self.n_columns][at_zero] + thresholds[: self.n_columns][at_zero] < 0.0).any())

    def active_set(self, w: Vector, slope: Vector, *, is_tight: bool | None = None) -> ActiveSet:
        free, signs = self._nonzeros(w)
        return ActiveSet(free, np.zeros(free.size), signs[free])


#: The geometry of each kind of set that has one, by its boundary; a penalty's stands beside no set.
GEOMETRIES: dict[str, type[Geometry]] = {
    "nothing": Signs,
    "signs": Bounds,
    "bounds": Bounds,
    "l1-norm": L1BallSurface,
    "sum": SimplexSurface,
}


def geometry_of(term: ConvexTerm) -> Geometry | None:
    """Return the active sets of a term, None where its set or penalty has none that are known."""
    geometry = GEOMETRIES.get(term.constraint.boundary) if term.is_elastic_net else None
    return None if geometry is None else geometry(term)


def step_on(geometry: Geometry, hessian: Matrix, w: Vector, slope: Vector, active: ActiveSet) -> Vector:
    """Return the step from w to the minimiser of the model on an active set, for the free coordinates."""
    right = -(slope[active.free] + active.slopes)
    matrix = hessian if active.free.size == w.size else hessian[np.ix_(active.free, active.free)]
    if not active.normal.any():
        return solve_spd(matrix, right)
    solutions = solve_spd(matrix, np.column_stack([right, active.normal]))
    lacking = geometry.total - active.normal @ w[active.free]
    force = (active.normal @ solutions[:, 0] - lacking) / (active.normal @ solutions[:, 1])
    step: Vector = solutions[:, 0] - force * solutions[:, 1]
    return step


def on_active_set(geometry: Geometry, hessian: Matrix, w: Vector, slope: Vector) -> Vector:
    """Return the minimiser of the model on the active set of w; where that leaves the set or changes signs, a better point.

    The slope is the gradient of the quadratic at w, which is returned itself where nothing better is found.
    """
    active = geometry.active_set(w, slope)
    if active.free.size == 0:
        return w
    step = step_on(geometry, hessian, w, slope, active)
    for fraction in (1.0, geometry.first_change(w, active.free, step)):
        end = w.copy()
        end[active.free] += fraction * step
        end = geometry.restored(w, end)
        if model_change(geometry.term, hessian, w, end, slope) < 0.0:
            return end
    return w


def model_change(term: ConvexTerm, hessian: Matrix, w: Vector, end: Vector, slope: Vector) -> float:
    """Return by how much the model rises from w to the end."""
    step = end - w
    return float(slope @ step + 0.5 * step @ (hessian @ step)) + term.rise(w, end)
