"""The sets cut out by a linear equation or inequality: simplex and half-space."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from finitesum.constraints.base import TOLERANCE, Constraint, checked_number, checked_vector
from finitesum.constraints.boxes import Unconstrained
from finitesum.constraints.projections import HalfSpaceProjection, Projection, SimplexProjection
from finitesum.core.arrays import Indices, Vector

#: A direction is taken for a multiple of the normal up to this relative error.
PARALLEL = 1e-9


@dataclass(frozen=True, eq=False)
class Simplex(Constraint):
    """The simplex {y : y_i >= 0, sum_i y_i = total}.

    The projection of x in a metric s is ::

        y_i = max(x_i - lam / s_i, 0),      lam of any sign such that  sum_i y_i = total

    found exactly without sorting, in some five passes over the coordinates [1]_; the sum is right to 1 ulp of the total.

    **Degenerate metric.** Coordinate i moves by lam / s_i: those with a metric near 0 take nearly the whole correction,
    whatever the gradient says of them. In an adaptive method these are the coordinates that no row has touched so far.
    That is right for the metric, and makes no sense: give the method a floor (``delta``) of at least a thousandth of the
    size of a typical gradient when it projects onto a simplex.

    Parameters
    ----------
    total : float > 0, default 1
        The sum of the coordinates.

    Raises
    ------
    TypeError
        The total is no number.
    ValueError
        The total is not > 0 and finite.

    References
    ----------
    .. [1] Michelot, "A finite algorithm for finding the projection of a point onto the canonical simplex of R^n", JOTA 50
       (1986).

    Examples
    --------
    >>> Simplex().project([0.5, 1.0, -1.0])
    array([0.25, 0.75, 0.  ])
    >>> Simplex().project([0.5, 1.0, -1.0], metric=[1.0, 3.0, 1.0])
    array([0.125, 0.875, 0.   ])
    >>> Simplex().start(4)
    array([0.25, 0.25, 0.25, 0.25])
    """

    total: float = 1.0
    boundary: ClassVar[str] = "sum"

    needs_floor: ClassVar[bool] = True

    def __post_init__(self) -> None:
        advice = "Give the sum of the coordinates, as in Simplex(1.0)."
        object.__setattr__(self, "total", checked_number("total", self.total, advice, positive=True))

    @property
    def compiled(self) -> Projection:
        return SimplexProjection(self.total)

    def intervals(self, dim: int) -> tuple[Vector, Vector]:
        """Return 0 and infinity: that the sum bounds the coordinates, too, is another matter."""
        return np.zeros(dim), np.full(dim, np.inf)

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return g + theta where w - g is projected to numbers above 0, else w."""
        return self._mapping_with_sum(w, gradient, np.ones(w.size), self.total)

    def support(self, direction: npt.ArrayLike) -> float:
        """Return total max_i g_i."""
        return self.total * float(np.max(self._point("direction", direction)))

    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether x_i >= -tolerance total and the sum is right to tolerance total."""
        point = self._point("x", x)
        slack = tolerance * self.total
        return bool(np.all(point >= -slack) and abs(np.sum(point) - self.total) <= slack)

    def diameter(self, dim: int) -> float:
        """Return sqrt(2) total; 0 for one variable."""
        self.check_dim(dim)
        return math.sqrt(2.0) * self.total if dim > 1 else 0.0

    def width(self) -> float:
        return self.total


@dataclass(frozen=True, eq=False)
class HalfSpace(Constraint):
    """The half-space {y : <normal, y> <= offset}.

    The projection of x in a metric s is, with a = normal and b = offset, ::

        y_i = x_i - max(0, (<a, x> - b) / sum_j (a_j^2 / s_j)) a_i / s_i

    **Degenerate metric.** Coordinate i moves by a multiple of a_i / s_i: those with a metric near 0 take nearly the whole
    correction. Give adaptive methods a floor (``delta``), as for the `Simplex`.

    Parameters
    ----------
    normal : array_like, shape (d,)
        The normal a: finite, not all 0.
    offset : float
        The offset b.

    Raises
    ------
    TypeError
        The normal or the offset is no number.
    ValueError
        They are not finite, or the normal is 0 or has not one axis.

    Examples
    --------
    >>> half = HalfSpace([1.0, 1.0], 1.0)
    >>> half.project([2.0, 1.0])
    array([1., 0.])
    >>> half.project([2.0, 1.0], metric=[1.0, 3.0])
    array([0.5, 0.5])
    >>> half.support([2.0, 2.0]), half.support([1.0, 0.0])
    (2.0, inf)
    """

    normal: Vector
    offset: float
    boundary: ClassVar[str] = "plane"

    needs_floor: ClassVar[bool] = True

    def __post_init__(self) -> None:
        advice = "Give the normal as one finite number for each variable, not all of them 0."
        normal = checked_vector("normal", self.normal, advice)
        if not np.isfinite(normal).all() or not normal.any():
            raise ValueError(f"normal must be finite and not 0, got {self.normal!r}. {advice}")
        object.__setattr__(self, "normal", normal)
        object.__setattr__(self, "offset", checked_number("offset", self.offset, "Give b of <normal, y> <= b."))

    @property
    def compiled(self) -> Projection:
        return HalfSpaceProjection(self.normal, self.offset)

    def on_columns(self, columns: Indices) -> Constraint:
        """Return the set of what some coordinates can be where the others are 0: all of R^k where the normal is 0 there."""
        normal = self.normal[columns]
        if normal.any():
            return HalfSpace(normal, self.offset)
        if self.offset < 0.0:
            raise ValueError(
                f"columns must hold one where the normal is not 0, because the offset {self.offset} is < 0: no point of "
                "the half-space is 0 everywhere else. Add the columns where a point of it is not 0."
            )
        return Unconstrained()

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return g + a max(0, <a, w> - b - <a, g>) / ||a||^2."""
        a = self.normal.astype(w.dtype)
        excess = np.maximum(a @ w - self.offset - a @ gradient, 0.0)
        return gradient + a * (excess / (a @ a))

    def support(self, direction: npt.ArrayLike) -> float:
        """Return t offset where g = t normal with t >= 0 (to 1e-9, relatively), and inf elsewhere."""
        g = self._point("direction", direction)
        factor = float(g @ self.normal / (self.normal @ self.normal))
        parallel = np.linalg.norm(g - factor * self.normal) <= PARALLEL * np.linalg.norm(g)
        return factor * self.offset if parallel and factor >= 0.0 else math.inf

    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether <a, x> <= b + tolerance (|b| + sum_i |a_i x_i|)."""
        terms = self.normal * self._point("x", x)
        slack = tolerance * (abs(self.offset) + float(np.sum(np.abs(terms))))
        return bool(np.sum(terms) <= self.offset + slack)

    def diameter(self, dim: int) -> float:
        self.check_dim(dim)
        return math.inf

    def width(self) -> float:
        return math.inf
