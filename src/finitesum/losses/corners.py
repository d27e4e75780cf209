"""Losses of a residual with corners: absolute, quantile, epsilon-insensitive; rounded: squared epsilon-insensitive."""

import math
from typing import Any, NamedTuple

from finitesum.core.elementwise import maximum
from finitesum.core.jit import compilable
from finitesum.losses.base import Corner, Cornered, OfResidual, RoundedCorner, Scaled


@compilable
class Absolute(Scaled, Cornered):
    """|u - y|, whose mean is least at the median.

    Examples
    --------
    >>> Absolute().value(3.0, 1.0), Absolute(2.0).d1(-1.0, 0.0)
    (2.0, -2.0)
    """

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes -1 and 1 at y."""
        return (-self.scale, self.scale, target), (0.0, 0.0, target)

    def target_kind(self) -> str:
        """Return "real"."""
        return "real"


class _Tube(NamedTuple):
    epsilon: float = 0.1


@compilable
class EpsilonInsensitive(_Tube, Cornered):
    """max(0, |u - y| - epsilon), the loss of support vector regression.

    Examples
    --------
    >>> EpsilonInsensitive(0.5).value(3.0, 1.0), EpsilonInsensitive(0.5).value(1.2, 1.0)
    (1.5, 0.0)
    """

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes -1 and 0 at y - epsilon, and 0 and 1 at y + epsilon."""
        return (-1.0, 0.0, target - self.epsilon), (0.0, 1.0, target + self.epsilon)

    def target_kind(self) -> str:
        """Return "real"."""
        return "real"


class _SquaredTube(NamedTuple):
    epsilon: float = 0.1
    scale: float = 1.0


@compilable
class SquaredEpsilonInsensitive(_SquaredTube, RoundedCorner, OfResidual):
    """max(0, |u - y| - epsilon)^2, smooth: the second derivative jumps at residuals of epsilon.

    Examples
    --------
    >>> SquaredEpsilonInsensitive(0.5).value(3.0, 1.0), SquaredEpsilonInsensitive(0.5).d1(1.2, 1.0)
    (2.25, 0.0)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        excess = maximum(abs(prediction - target) - self.epsilon, 0.0)
        return self.scale * excess * excess

    def d1(self, prediction: Any, target: Any) -> Any:
        residual = prediction - target
        above, below = maximum(residual - self.epsilon, 0.0), maximum(-residual - self.epsilon, 0.0)
        return 2.0 * self.scale * (above - below)

    def d2(self, prediction: Any, target: Any) -> Any:
        return 2.0 * self.scale * (abs(prediction - target) > self.epsilon)

    def curvature_bound(self) -> float:
        """Return 2."""
        return 2.0 * self.scale

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes below 0 at y - epsilon, and above 0 at y + epsilon, both without an end."""
        return (-math.inf, 0.0, target - self.epsilon), (0.0, math.inf, target + self.epsilon)

    def corner_width(self) -> float:
        """Return 1/2."""
        return 0.5 / self.scale


class _Level(NamedTuple):
    quantile: float = 0.5


@compilable
class Quantile(_Level, Cornered):
    """max(q (y - u), (1 - q) (u - y)), whose mean is least at the q-quantile: half the absolute error for q = 1/2.

    Examples
    --------
    >>> Quantile(0.75).value(0.0, 2.0), Quantile(0.75).value(2.0, 0.0)
    (1.5, 0.5)
    """

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes -q and 1 - q at y."""
        return (-self.quantile, 1.0 - self.quantile, target), (0.0, 0.0, target)

    def target_kind(self) -> str:
        """Return "real"."""
        return "real"
