"""The l1 ball and the l2 ball."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from finitesum.constraints.base import TOLERANCE, Constraint, checked_number, checked_positive, checked_vector
from finitesum.constraints.projections import L1BallProjection, L2BallProjection, Projection, WeightedL1BallProjection
from finitesum.core.arrays import Vector


class Ball(Constraint):
    """Sets of vectors of a norm <= radius."""

    radius: float

    def __post_init__(self) -> None:
        advice = f"Give the largest norm that is allowed, as in {type(self).__name__}(10.0)."
        object.__setattr__(self, "radius", checked_number("radius", self.radius, advice, positive=True))

    def diameter(self, dim: int) -> float:
        """Return the width: no two points are farther apart than some on an axis."""
        self.check_dim(dim)
        return self.width()


@dataclass(frozen=True, eq=False)
class L1Ball(Ball):
    """The l1 ball {y : sum_i c_i |y_i| <= radius}, c = weights.

    It makes sparse solutions. The projection of a point x outside of it in a metric s is ::

        y_i = sign(x_i) max(|x_i| - lam c_i / s_i, 0),      lam > 0 such that  sum_i c_i |y_i| = radius

    found exactly without sorting, in some five passes over the coordinates [1]_, [2]_; the constraint holds to 1 ulp of the
    radius (2 with weights).

    Parameters
    ----------
    radius : float > 0
        The largest weighted l1 norm.
    weights : array_like, shape (d,), > 0, optional
        The weights c; left out, they are 1.

    Raises
    ------
    TypeError
        The radius is no number, or the weights are no numbers.
    ValueError
        The radius is not > 0 and finite; the weights are not > 0 and finite, or have not one axis.

    References
    ----------
    .. [1] Michelot, "A finite algorithm for finding the projection of a point onto the canonical simplex of R^n", JOTA 50
       (1986).
    .. [2] Duchi, Shalev-Shwartz, Singer, Chandra, "Efficient projections onto the l1-ball for learning in high
       dimensions", ICML 2008.

    Examples
    --------
    >>> L1Ball(1.0).project([2.0, 1.5, -0.1])
    array([0.75, 0.25, 0.  ])
    >>> L1Ball(1.0).project([2.0, 1.5, -0.1], metric=[1.0, 3.0, 1.0])
    array([0.125, 0.875, 0.   ])
    >>> L1Ball(1.0, weights=[1.0, 2.0]).support([3.0, 4.0])
    3.0
    """

    radius: float
    weights: Vector | None = None
    boundary: ClassVar[str] = "l1-norm"

    makes_zeros: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            advice = "Give one positive number for each variable."
            weights = checked_vector("weights", self.weights, advice)
            object.__setattr__(self, "weights", checked_positive("weights", weights, advice))

    @property
    def compiled(self) -> Projection:
        if self.weights is None:
            return L1BallProjection(self.radius)
        return WeightedL1BallProjection(self.radius, self.weights)

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return g +- theta c_i where w - g is projected to numbers other than 0, else w; g inside of the ball."""
        weights = np.ones(w.size) if self.weights is None else self.weights
        return self._mapping_with_sum(w, gradient, weights, self.radius)

    def support(self, direction: npt.ArrayLike) -> float:
        """Return radius max_i |g_i| / c_i."""
        g = np.abs(self._point("direction", direction))
        return self.radius * float(np.max(g if self.weights is None else g / self.weights))

    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether sum_i c_i |x_i| <= radius (1 + tolerance)."""
        u = np.abs(self._point("x", x))
        return bool(np.sum(u if self.weights is None else u * self.weights) <= self.radius * (1.0 + tolerance))

    def width(self) -> float:
        """Return 2 radius / min_i c_i."""
        return 2.0 * self.radius / (1.0 if self.weights is None else float(np.min(self.weights)))


@dataclass(frozen=True, eq=False)
class L2Ball(Ball):
    """The Euclidean ball {y : ||y||_2 <= radius}.

    The projection of a point x outside of it is x radius / ||x||. In a metric s it is ::

        y_i = s_i x_i / (s_i + lam),      lam > 0 such that  ||y|| = radius

    where Newton's method on 1/||y|| - 1/radius finds lam [1]_, in about four passes over the coordinates (a dozen for
    metrics over ten orders of magnitude).

    Parameters
    ----------
    radius : float > 0
        The largest norm.

    Raises
    ------
    TypeError
        The radius is no number.
    ValueError
        The radius is not > 0 and finite.

    References
    ----------
    .. [1] Moré, Sorensen, "Computing a trust region step", SIAM J. Sci. Stat. Comput. 4 (1983).

    Examples
    --------
    >>> L2Ball(1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    >>> L2Ball(1.0).project([3.0, 4.0], metric=[1.0, 1.0])
    array([0.6, 0.8])
    >>> L2Ball(2.0).support([3.0, 4.0])
    10.0
    """

    radius: float
    boundary: ClassVar[str] = "l2-norm"

    @property
    def compiled(self) -> Projection:
        return L2BallProjection(self.radius)

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return g + (w - g) (1 - radius / ||w - g||), and g where w - g lies in the ball."""
        moved = w - gradient
        norm = np.sqrt(moved @ moved)
        if norm <= self.radius:
            return gradient
        excess = (w @ w - self.radius**2 - 2.0 * (w @ gradient) + gradient @ gradient) / (norm + self.radius)
        return gradient + moved * (excess / norm)

    def support(self, direction: npt.ArrayLike) -> float:
        """Return radius ||g||."""
        return self.radius * float(np.linalg.norm(self._point("direction", direction)))

    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether ||x|| <= radius (1 + tolerance)."""
        return bool(np.linalg.norm(self._point("x", x)) <= self.radius * (1.0 + tolerance))

    def width(self) -> float:
        return 2.0 * self.radius
