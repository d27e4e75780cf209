"""Sets cut out by several linear inequalities, such as effects in a known order.

The projection solves a small quadratic program in the multipliers of the inequalities, by the active-set method of Lawson
and Hanson [1]: a multiplier joins those that are > 0 as long as one asks for it, and leaves where it would become negative.

References
----------
.. [1] C. L. Lawson, R. J. Hanson, "Solving least squares problems", 1974, chapter 23.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.constraints.base import TOLERANCE, Constraint, checked_vector
from finitesum.constraints.boxes import Unconstrained
from finitesum.constraints.projections import Projection
from finitesum.constraints.threshold_sums import Factors, Given, Ones
from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.core.jit import array_form, compilable, kernel, kernel_part
from finitesum.core.vectors import copy

#: Pivots of dependent inequalities, and wishes of multipliers, that count as 0, relative to what they are computed from.
DEPENDENT, SETTLED = 1e-12, 1e-14

#: Numbers of an array that are computed while Python does one operation of the active-set method.
PYTHON_NUMBERS = 100.0


class Memory(NamedTuple):
    """What a projection computes with: kernels do not allocate."""

    gram: Matrix  # (m, m)  A S^-1 A'
    factor: Matrix  # (m, m)
    right: Vector  # (m,)  A x - b
    values: Vector  # (m,)  the multipliers
    trial: Vector  # (m,)
    chosen: Flags  # (m,)  those that may be > 0
    barred: Flags  # (m,)


def memory_for(m: int) -> Memory:
    """Return the memory for m inequalities."""
    right, values, trial = np.zeros((3, m))
    chosen, barred = np.zeros((2, m), dtype=np.bool_)
    return Memory(np.zeros((m, m)), np.zeros((m, m)), right, values, trial, chosen, barred)


@kernel_part
def _solved(gram: Matrix, right: Vector, chosen: Flags, factor: Matrix, out: Vector) -> int:
    """Solve for the chosen multipliers, others 0, by Cholesky's factor; return the first dependent one, or -1."""
    m = right.shape[0]
    for i in range(m):
        out[i] = 0.0
        if chosen[i]:
            for j in range(i + 1):
                if chosen[j]:
                    total = gram[i, j]
                    for k in range(j):
                        if chosen[k]:
                            total -= factor[i, k] * factor[j, k]
                    if j < i:
                        factor[i, j] = total / factor[j, j]
                    elif total > DEPENDENT * gram[i, i]:
                        factor[i, i] = math.sqrt(total)
                    else:
                        return i
    for i in range(m):
        if chosen[i]:
            total = right[i]
            for k in range(i):
                if chosen[k]:
                    total -= factor[i, k] * out[k]
            out[i] = total / factor[i, i]
    for back in range(m):
        i = m - 1 - back
        if chosen[i]:
            total = out[i]
            for k in range(i + 1, m):
                if chosen[k]:
                    total -= factor[k, i] * out[k]
            out[i] = total / factor[i, i]
    return -1


@kernel_part
def _wanted(memory: Memory) -> int:
    """Return the multiplier at 0 that asks the most to become > 0, or -1."""
    gram, values = memory.gram, memory.values
    m, best, most = values.shape[0], -1, 0.0
    for i in range(m):
        if not memory.chosen[i] and not memory.barred[i] and gram[i, i] > 0.0:
            slope, size = memory.right[i], abs(memory.right[i])
            for j in range(m):
                slope -= gram[i, j] * values[j]
                size += abs(gram[i, j] * values[j])
            gain = slope / math.sqrt(gram[i, i])
            if slope > SETTLED * size and gain > most:
                best, most = i, gain
    return best


@kernel_part
def _replaces(memory: Memory, joins: int) -> bool:
    """Let a multiplier that depends on the chosen ones take the place of the first that comes to 0; False if none does."""
    values, trial, chosen = memory.values, memory.trial, memory.chosen
    chosen[joins] = False
    _solved(memory.gram, memory.gram[joins], chosen, memory.factor, trial)
    length, first = 0.0, -1
    for i in range(values.shape[0]):
        if chosen[i] and trial[i] > DEPENDENT and (first < 0 or values[i] < length * trial[i]):
            length, first = values[i] / trial[i], i
    if first < 0:
        return False
    for i in range(values.shape[0]):
        if chosen[i]:
            values[i] = max(values[i] - length * trial[i], 0.0)
    values[first], chosen[first] = 0.0, False
    values[joins], chosen[joins] = values[joins] + length, True
    return True


@kernel_part
def _step(memory: Memory) -> int:
    """Go to the solution for the chosen multipliers, or to where the first of them comes to 0; return that one, or -1."""
    values, trial, chosen = memory.values, memory.trial, memory.chosen
    length, first = 1.0, -1
    for i in range(values.shape[0]):
        if chosen[i] and trial[i] <= 0.0:
            until = values[i] / (values[i] - trial[i]) if values[i] > 0.0 else 0.0
            if first < 0 or until < length:
                length, first = until, i
    for i in range(values.shape[0]):
        if chosen[i]:
            values[i] += length * (trial[i] - values[i])
    if first >= 0:
        values[first], chosen[first] = 0.0, False
    return first


@kernel_part
def _find(memory: Memory) -> None:
    """Write argmin {1/2 v'G v - right'v : v >= 0} to the values, for a symmetric G >= 0."""
    m, values, chosen, barred = memory.values.shape[0], memory.values, memory.chosen, memory.barred
    for i in range(m):
        values[i], chosen[i], barred[i] = 0.0, False, False
    for _ in range(10 * m + 10):
        joins = _wanted(memory)
        if joins < 0:
            return
        chosen[joins] = True
        for _ in range(10 * m + 10):
            if _solved(memory.gram, memory.right, chosen, memory.factor, memory.trial) >= 0:
                if not _replaces(memory, joins):  # no point fulfils all
                    barred[joins] = True
                    break
                continue
            first = _step(memory)
            if first < 0:
                for i in range(m):
                    barred[i] = False
                break
            if first == joins:
                barred[joins] = True


@kernel
def _found(memory: Memory) -> None:
    _find(memory)


@array_form(_found, lambda memory: PYTHON_NUMBERS * memory.right.size**3)
def _found_in_python(memory: Memory) -> None:
    _find(memory)


def multipliers_of(gram: Matrix, right: Vector) -> Vector:
    """Return argmin {1/2 v'G v - right'v : v >= 0} for a symmetric G >= 0, shape (m, m)."""
    memory = memory_for(right.size)
    memory.gram[:], memory.right[:] = gram, right
    _found(memory)
    return memory.values


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
    _find(memory)
    _take_off(matrix, memory.values, metric, out)
    _excess(matrix, limits, out, memory.right)
    for i in range(m):
        memory.chosen[i] = memory.values[i] > 0.0
    if _solved(memory.gram, memory.right, memory.chosen, memory.factor, memory.trial) < 0:
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
