"""Losses of a residual: squared, Huber, and two that are smooth between."""

import math
from typing import Any, NamedTuple

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compilable
from finitesum.losses.base import OfResidual, Scaled
from finitesum.losses.exponential import LARGEST_EXPONENT, exp, expm1, log1p

#: Residuals up to which log cosh is summed as a series, and log 2.
SMALL, LOG_2 = 0.02, math.log(2.0)


@compilable
class Squared(Scaled, OfResidual):
    """(u - y)^2 / 2."""

    def value(self, prediction: Any, target: Any) -> Any:
        return 0.5 * self.scale * (prediction - target) * (prediction - target)

    def d1(self, prediction: Any, target: Any) -> Any:
        return self.scale * (prediction - target)

    def d2(self, prediction: Any, target: Any) -> Any:
        return self.scale

    def curvature_bound(self) -> float:
        """Return 1."""
        return self.scale

    def d2_lipschitz(self) -> float:
        """Return 0."""
        return 0.0


class _Threshold(NamedTuple):
    threshold: float = 1.35


@compilable
class Huber(_Threshold, OfResidual):
    """r^2 / 2 for a residual r = u - y of size <= threshold, threshold (|r| - threshold/2) beyond."""

    def value(self, prediction: Any, target: Any) -> Any:
        size = abs(prediction - target)
        inside = minimum(size, self.threshold)
        return inside * (size - 0.5 * inside)

    def d1(self, prediction: Any, target: Any) -> Any:
        return minimum(maximum(prediction - target, -self.threshold), self.threshold)

    def d2(self, prediction: Any, target: Any) -> Any:
        return 1.0 * (abs(prediction - target) <= self.threshold)

    def majorant(self, prediction: Any, target: Any) -> Any:
        """Return min(1, threshold / |r|), the curvature of iteratively reweighted least squares."""
        return self.threshold / maximum(abs(prediction - target), self.threshold)

    def curvature_bound(self) -> float:
        """Return 1."""
        return 1.0


@compilable
class LogCosh(Scaled, OfResidual):
    """log cosh(u - y): r^2 / 2 for small residuals r, |r| - log 2 for large ones.

    Examples
    --------
    >>> round(LogCosh().value(1.0, 0.0), 6), round(LogCosh().d1(1.0, 0.0), 6), round(LogCosh().d2(1.0, 0.0), 6)
    (0.433781, 0.761594, 0.419974)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        size = abs(prediction - target)
        near = minimum(size, SMALL)
        square = near * near
        series = square * (0.5 - square * (1.0 / 12.0 - square * (1.0 / 45.0 - square * (17.0 / 2520.0))))
        return self.scale * where(size < SMALL, series, size + log1p(exp(-2.0 * size)) - LOG_2)

    def d1(self, prediction: Any, target: Any) -> Any:
        residual = prediction - target
        size = abs(residual)
        lack = -expm1(-2.0 * minimum(size, LARGEST_EXPONENT))
        return self.scale * where(residual < 0.0, -1.0, 1.0) * (lack / (2.0 - lack) + 0.0 * size)

    def d2(self, prediction: Any, target: Any) -> Any:
        decay = exp(-2.0 * abs(prediction - target))
        return self.scale * 4.0 * decay / ((1.0 + decay) * (1.0 + decay))

    def majorant(self, prediction: Any, target: Any) -> Any:
        """Return tanh(r) / r, the curvature of the parabola that touches at r and -r."""
        size = maximum(abs(prediction - target), SMALL)
        lack = -expm1(-2.0 * size)
        near = minimum(abs(prediction - target), SMALL)
        return self.scale * where(
            size > SMALL, lack / ((2.0 - lack) * size), 1.0 - near * near * (1.0 / 3.0 - near**2 / 7.5)
        )

    def curvature_bound(self) -> float:
        """Return 1."""
        return self.scale

    def d2_lipschitz(self) -> float:
        """Return 4 / (3 sqrt 3)."""
        return self.scale * 4.0 / (3.0 * math.sqrt(3.0))


@compilable
class PseudoHuber(_Threshold, OfResidual):
    """t^2 (sqrt(1 + (r/t)^2) - 1) of a residual r = u - y and a threshold t: `Huber` without its corners in d1.

    Examples
    --------
    >>> round(PseudoHuber(1.0).value(1.0, 0.0), 6), round(PseudoHuber(1.0).d2(0.0, 0.0), 6)
    (0.414214, 1.0)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        residual = prediction - target
        ratio = residual / self.threshold
        return residual * (residual / (1.0 + (1.0 + ratio * ratio) ** 0.5))

    def d1(self, prediction: Any, target: Any) -> Any:
        residual = prediction - target
        ratio = residual / self.threshold
        return residual / (1.0 + ratio * ratio) ** 0.5

    def d2(self, prediction: Any, target: Any) -> Any:
        ratio = (prediction - target) / self.threshold
        return (1.0 + ratio * ratio) ** -1.5

    def majorant(self, prediction: Any, target: Any) -> Any:
        """Return 1 / sqrt(1 + (r/t)^2), the curvature of the parabola that touches at r and -r."""
        ratio = (prediction - target) / self.threshold
        return (1.0 + ratio * ratio) ** -0.5

    def curvature_bound(self) -> float:
        """Return 1."""
        return 1.0

    def d2_lipschitz(self) -> float:
        """Return 48 / (25 sqrt 5 t)."""
        return 48.0 / (25.0 * math.sqrt(5.0) * self.threshold)
