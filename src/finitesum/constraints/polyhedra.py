"""Sets cut out by several linear inequalities, such as effects in a known order.

The projection solves a small quadratic program in their multipliers (`finitesum.constraints.multipliers`).
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.constraints.base import TOLERANCE, Constraint, checked_vector
from finitesum.constraints.boxes import Unconstrained
from finitesum.constraints.multipliers import Memory, find, memory_for, solved
from finitesum.constraints.projections import Projection
from finitesum.constraints.threshold_sums import Factors, Given, Ones
from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import compilable, kernel_part
from finitesum.core.vectors import copy

#: Distances from the boundary, each a quarter of the one before, that are tried for a point in the interior.
N_DISTANCES = 12

#: Of linear programs: HiGHS's least tolerances.
ACCURATE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@kernel_part
def _excess(matrix: Matrix, limits: Vector, x: Vector, out: Vector) -> float:
    """Write A x - b, and return its largest entry; infinity where one is not finite."""
    most = -np.inf
    for i in range(limits.shape[0]):
        out[i] = -limits[i]
        for k in range(x.shape[0]):
            out[i] += matrix[i, k] * x[k]
        most = max(most, out[i]) if abs(out[i]) < np.inf else np.inf
    return most


@kernel_part
def _take_off(matrix: Matrix, values: Vector, metric: Factors, out: Vector) -> None:
    for i in range(values.shape[0]):
        if values[i] != 0.0:
            for k in range(out.shape[0]):
                out[k] -= np.divide(values[i] * matrix[i, k], metric.entry_of(k))


@kernel_part
def _onto(x: Vector, matrix: Matrix, limits: Vector, metric: Factors, memory: Memory, out: Vector) -> None:
    """Write x - S^-1 A'v, with the multipliers v; twice, because the first step leaves rounding errors."""
    copy(x, out)
    if not 0.0 < _excess(matrix, limits, out, memory.right) < np.inf:
        return
    m, d = matrix.shape
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            for k in range(d):
                total += np.divide(matrix[i, k] * matrix[j, k], metric.entry_of(k))
            memory.gram[i, j] = total
            memory.gram[j, i] = total
    find(memory)
    _take_off(matrix, memory.values, metric, out)
    _excess(matrix, limits, out, memory.right)
    for i in range(m):
        memory.chosen[i] = memory.values[i] > 0.0
    if solved(memory.gram, memory.right, memory.chosen, memory.factor, memory.trial) < 0:
        _take_off(matrix, memory.trial, metric, out)


@compilable
class PolyhedronProjection(NamedTuple):
    """matrix y <= limits; the memory is for one projection at a time."""

    matrix: Matrix
    limits: Vector
    memory: Memory

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        _onto(x, self.matrix, self.limits, Given(metric), self.memory, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        _onto(x, self.matrix, self.limits, Ones(0.0), self.memory, out)


@dataclass(frozen=True, eq=False)
class Polyhedron(Constraint):
    """The polyhedron {y : A y <= b}: several linear inequalities at once.

    The projection of x in a metric s is x - S^-1 A'v with the multipliers ::

        v = argmin {1/2 v'A S^-1 A'v - v'(A x - b) : v >= 0}

    found exactly by an active-set method, in about as many steps as inequalities hold with equality. It takes some m^2 d
    operations: m is meant to be small, or d.

    Parameters
    ----------
    matrix : array_like, shape (m, d)
        A: finite, no row 0.
    limits : array_like, shape (m,), or a number
        b: finite.

    Raises
    ------
    ValueError
        The shapes do not fit, numbers are not finite, a row is 0, or no point fulfils all inequalities.

    Examples
    --------
    >>> set_ = Polyhedron([[1.0, 1.0], [1.0, -1.0]], [1.0, 0.0])  # y_1 + y_2 <= 1 and y_1 <= y_2
    >>> set_.project([2.0, 1.0])
    array([0.5, 0.5])
    >>> set_.project([0.0, 3.0]), set_.contains([0.5, 0.6])
    (array([-1.,  2.]), False)
    >>> Polyhedron.increasing([0, 1, 2], 4).project([3.0, 1.0, 2.0, 0.0])  # y_1 <= y_2 <= y_3
    array([2., 2., 2., 0.])
    """

    matrix: Matrix
    limits: Vector

    boundary: ClassVar[str] = "planes"

    needs_floor: ClassVar[bool] = True
    has_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        advice = "Give a row of numbers for each inequality <a, y> <= b."
        try:
            matrix = np.array(self.matrix, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise TypeError(f"matrix must be numbers, got {self.matrix!r}. {advice}") from None
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(f"matrix must have shape (m, d), got {matrix.shape}. {advice}")
        limits = np.broadcast_to(checked_vector("limits", np.atleast_1d(self.limits), advice), matrix.shape[:1]).copy()
        if not (np.isfinite(matrix).all() and np.isfinite(limits).all() and matrix.any(axis=1).all()):
            raise ValueError(f"matrix and limits must be finite, and no row 0. {advice}")
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "limits", limits)
        if not self.contains(self.project(np.zeros(matrix.shape[1])), 1e-8):
            raise ValueError(
                "no point fulfils all the inequalities: they contradict each other. Loosen some of the limits."
            )

    @classmethod
    def increasing(cls, columns: Sequence[int], dim: int) -> "Polyhedron":
        """Return {y in R^dim : y_j <= y_k for columns j, k in this order}: effects of ordered levels that only grow."""
        order = [int(j) for j in columns]
        if len(order) < 2 or len(set(order)) < len(order) or not all(0 <= j < dim for j in order):
            raise ValueError(f"columns must hold two different numbers in [0, {dim}) or more, got {columns!r}.")
        matrix = np.zeros((len(order) - 1, dim))
        for row, (lower, upper) in enumerate(pairwise(order)):
            matrix[row, lower], matrix[row, upper] = 1.0, -1.0
        return cls(matrix, np.zeros(len(order) - 1))

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def _scaled(self) -> tuple[Matrix, Vector]:
        norms = np.sqrt((self.matrix**2).sum(axis=1))
        return np.ascontiguousarray(self.matrix / norms[:, None]), self.limits / norms

    @property
    def compiled(self) -> Projection:
        """A new tuple, with a memory of its own."""
        return PolyhedronProjection(*self._scaled, memory_for(self.limits.size))

    def on_columns(self, columns: Indices) -> Constraint:
        """Return the inequalities in some coordinates, the others 0."""
        matrix = self.matrix[:, columns]
        kept = matrix.any(axis=1)
        if (self.limits[~kept] < 0.0).any():
            raise ValueError("columns must hold one of each inequality that 0 does not fulfil. Add such columns.")
        return Polyhedron(matrix[kept], self.limits[kept]) if kept.any() else Unconstrained()

    def support(self, direction: npt.ArrayLike) -> float:
        """Return min {<b, v> : A'v = g, v >= 0}, by linear programming; inf where no v >= 0 gives g."""
        from scipy.optimize import linprog  # which takes a while to load

        g = self._point("direction", direction)
        size = float(np.abs(g).max())
        if size == 0.0:
            return 0.0
        matrix, limits = self._scaled
        found = linprog(limits, A_eq=matrix.T, b_eq=g / size, method="highs")
        return size * float(found.fun) if found.status == 0 else math.inf

    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether A x <= b + tolerance (|b| + |A| |x|)."""
        point = self._point("x", x)
        slack = tolerance * (np.abs(self.limits) + np.abs(self.matrix) @ np.abs(point))
        return bool((self.matrix @ point <= self.limits + slack).all())

    def least_within(self, slope: Vector, reach: Vector) -> float:
        """Return a lower bound of <slope, y> over the points of the set with |y_j| <= reach_j, by linear programming.

        Any v >= 0 makes one: -<b, v> - <reach, |slope + A'v|>. Those of the program's solution are tried, and those that
        leave the least of the slope with the same inequalities.
        """
        from scipy.optimize import linprog  # which takes a while to load

        size, (matrix, limits) = float(np.abs(slope).max(initial=0.0)), self._scaled
        if size == 0.0:
            return 0.0
        if not (size < math.inf and np.isfinite(reach).all()):
            return -math.inf
        bounds = np.column_stack([-reach, reach])
        found = linprog(slope / size, matrix, limits, bounds=bounds, method="highs-ds", options=ACCURATE)
        values = np.zeros(limits.size) if found.status != 0 else size * np.maximum(-found.ineqlin.marginals, 0.0)
        polished, tight = np.zeros(limits.size), values > 0.0
        left = (matrix[tight] * reach).T
        polished[tight] = np.maximum(np.linalg.lstsq(left, -slope * reach, rcond=None)[0], 0.0)
        return max(float(-limits @ v - reach @ np.abs(slope + matrix.T @ v)) for v in (values, polished))

    def inner_point(self, x: Vector, units: Vector | None = None) -> Vector | None:
        """Return a point near x that lies within all inequalities by some distance; None where there is none.

        The distance is 1, in the given units of the coordinates, or else what room there is, up to a factor of 4.
        """
        widths = np.ones(self.dim) if units is None else units
        norms = np.sqrt(((self.matrix * widths) ** 2).sum(axis=1))
        for distance in 0.25 ** np.arange(N_DISTANCES):
            with suppress(ValueError):  # no point lies that far within
                point = Polyhedron(self.matrix, self.limits - distance * norms).project(x, widths**-2.0)
                if (self.limits - self.matrix @ point > 0.5 * distance * norms).all():
                    return point
        return None if units is None else self.inner_point(x)

    @cached_property
    def has_interior(self) -> bool:
        """Whether a point fulfils all inequalities with room to spare: pairs of them that make an equation leave none."""
        return self.inner_point(np.zeros(self.dim)) is not None

    @cached_property
    def _extents(self) -> Vector:
        extents, axes = np.full(self.dim, math.inf), np.eye(self.dim)
        for j, axis in enumerate(axes):
            extents[j] = self.support(axis) + self.support(-axis)
            if math.isinf(extents[j]):
                break
        return extents

    def diameter(self, dim: int) -> float:
        """Return the diameter of the smallest box around the set, perhaps inf, which is no less than its own."""
        self.check_dim(dim)
        return math.sqrt(float(self._extents @ self._extents))

    def width(self) -> float:
        return float(self._extents.max())
