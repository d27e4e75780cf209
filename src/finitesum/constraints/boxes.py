"""The sets that bound each coordinate by itself: box, l_inf ball, orthant, whole space.

Their projection clips every coordinate, and is the same in every diagonal metric, to the last bit.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from finitesum.constraints.base import TOLERANCE, Constraint, checked_number, checked_vector
from finitesum.constraints.projections import BoxProjection, IntervalProjection, Projection
from finitesum.core.arrays import Vector

_BOUNDS = (
    "Give a number or one for each variable, of several outputs also a table with a row for each; -inf and inf stand for "
    "no bound."
)


class Intervals(Constraint):
    """Sets lower_i <= y_i <= upper_i."""

    is_separable: ClassVar[bool] = True
    boundary: ClassVar[str] = "bounds"

    @abstractmethod
    def bounds(self) -> tuple[float | Vector, float | Vector]:
        """Return lower and upper, both numbers or both arrays."""

    def intervals(self, dim: int) -> tuple[Vector, Vector]:
        """Return the bounds of the coordinates, each of shape (dim,), or (K, dim) where each of K outputs has its own."""
        lower, upper = (np.asarray(bound) for bound in self.bounds())
        shape = (*lower.shape[:-1], dim)
        return np.full(shape, lower), np.full(shape, upper)

    @property
    def compiled(self) -> Projection:
        lower, upper = self.bounds()
        if isinstance(lower, np.ndarray) and isinstance(upper, np.ndarray):
            return BoxProjection(lower, upper)
        return IntervalProjection(float(lower), float(upper))

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return the nearest point to g_i in [w_i - upper_i, w_i - lower_i]."""
        lower, upper = self.bounds()
        return np.clip(gradient, w - upper, w - lower)

    def support(self, direction: npt.ArrayLike) -> float:
        """Return sum_i max(lower_i g_i, upper_i g_i)."""
        g = self._point("direction", direction)
        lower, upper = self.bounds()
        reached = np.broadcast_to(np.where(g > 0.0, upper, lower), g.shape)
        return float(np.sum(g[g != 0.0] * reached[g != 0.0]))  # 0 times inf is 0 here

    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether lower_i - slack <= x_i <= upper_i + slack, slack = tolerance max(1, |bound|)."""
        point = self._point("x", x)
        lower, upper = self.bounds()
        low = np.where(np.isinf(lower), lower, lower - tolerance * np.fmax(1.0, np.abs(np.nan_to_num(lower))))
        high = np.where(np.isinf(upper), upper, upper + tolerance * np.fmax(1.0, np.abs(np.nan_to_num(upper))))
        return bool(np.all((low <= point) & (point <= high)))

    def diameter(self, dim: int) -> float:
        """Return sqrt(sum_i (upper_i - lower_i)^2)."""
        self.check_dim(dim)
        lower, upper = self.intervals(dim)
        return float(np.linalg.norm(upper - lower))

    def width(self) -> float:
        """Return max_i (upper_i - lower_i)."""
        lower, upper = self.bounds()
        return float(np.max(np.subtract(upper, lower)))


@dataclass(frozen=True, eq=False)
class Box(Intervals):
    """The box {y : lower_i <= y_i <= upper_i}; the projection is min(max(x_i, lower_i), upper_i), in every metric.

    Parameters
    ----------
    lower, upper : float or array_like, shape (d,) or (K, d)
        The bounds, lower <= upper; -inf and inf stand for no bound. If one is an array, so will be the other. A table has a
        row for each of K outputs, as `coef_` of the estimators: row k bounds the coefficients of output k. Without rows the
        bounds are those of all outputs.

    Raises
    ------
    TypeError
        The bounds are no numbers.
    ValueError
        NaN, lower > upper, an interval without a number in it, or arrays of shapes that do not fit each other. A table
        projects nothing by itself, see `of_output`.

    Examples
    --------
    >>> Box(-1.0, [1.0, 2.0]).project([3.0, -4.0])
    array([ 1., -1.])
    >>> Box(-1.0, [1.0, 2.0]).width()
    3.0
    >>> Box(0.0, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).of_output(1).project([9.0, 9.0])
    array([3., 4.])
    """

    lower: float | Vector
    upper: float | Vector

    def __post_init__(self) -> None:
        lower, upper = _bound("lower", self.lower), _bound("upper", self.upper)
        try:
            lower, upper = np.broadcast_arrays(lower, upper)
        except ValueError:
            raise ValueError(
                f"lower and upper must be of one shape, got {lower.shape} and {upper.shape}. {_BOUNDS}"
            ) from None
        empty = ~((lower <= upper) & (lower < np.inf) & (upper > -np.inf))
        if empty.any():
            raise ValueError(
                f"lower must be <= upper, with a number between them, got {lower[empty][0]} and {upper[empty][0]}. "
                f"{_BOUNDS}"
            )
        for name, bound in (("lower", lower), ("upper", upper)):
            object.__setattr__(self, name, np.array(bound) if bound.ndim else float(bound))

    def bounds(self) -> tuple[float | Vector, float | Vector]:
        return self.lower, self.upper

    @property
    def n_outputs(self) -> int | None:
        return int(np.shape(self.lower)[0]) if np.ndim(self.lower) == 2 else None

    def of_output(self, k: int) -> "Box":
        """Return the box of the coefficients of one output, 0 <= k < K: the box itself where all outputs have the same."""
        return self if self.n_outputs is None else Box(np.asarray(self.lower)[k], np.asarray(self.upper)[k])


@dataclass(frozen=True, eq=False)
class LInfBall(Intervals):
    """The l_inf ball {y : max_i |y_i| <= radius}; the projection clips, in every metric.

    Parameters
    ----------
    radius : float > 0
        The largest absolute value of a coordinate.

    Raises
    ------
    TypeError
        The radius is no number.
    ValueError
        The radius is not > 0 and finite.

    Examples
    --------
    >>> LInfBall(1.0).project([3.0, -0.5])
    array([ 1. , -0.5])
    >>> LInfBall(1.0).diameter(4)
    4.0
    """

    radius: float

    def __post_init__(self) -> None:
        advice = "Give the largest absolute value that is allowed, as in LInfBall(1.0)."
        object.__setattr__(self, "radius", checked_number("radius", self.radius, advice, positive=True))

    def bounds(self) -> tuple[float, float]:
        return -self.radius, self.radius


@dataclass(frozen=True, eq=False)
class NonNegative(Intervals):
    """The orthant {y : y_i >= 0}; the projection is max(x_i, 0), in every metric.

    Examples
    --------
    >>> NonNegative().project([3.0, -0.5])
    array([3., 0.])
    """

    boundary: ClassVar[str] = "signs"

    def bounds(self) -> tuple[float, float]:
        return 0.0, math.inf


@dataclass(frozen=True, eq=False)
class Unconstrained(Intervals):
    """The whole space: the projection is a copy.

    Examples
    --------
    >>> Unconstrained().project([3.0, -0.5])
    array([ 3. , -0.5])
    """

    boundary: ClassVar[str] = "nothing"

    def bounds(self) -> tuple[float, float]:
        return -math.inf, math.inf


def _bound(name: str, values: Any) -> Vector:
    """Return float64 of shape (), (d,) or (K, d)."""
    try:
        n_axes = np.ndim(values)
    except ValueError:  # rows of several lengths
        raise ValueError(f"{name} must have rows of one length. {_BOUNDS}") from None
    if n_axes == 2 and len(values) > 0:
        return np.array([checked_vector(f"{name}[{k}]", row, _BOUNDS) for k, row in enumerate(np.asarray(values))])
    if n_axes > 0:
        return checked_vector(name, values, _BOUNDS)
    if isinstance(values, float) and not math.isfinite(values):
        if math.isnan(values):
            raise ValueError(f"{name} must not be NaN. {_BOUNDS}")
        return np.array(values)
    return np.array(checked_number(name, values, _BOUNDS))
