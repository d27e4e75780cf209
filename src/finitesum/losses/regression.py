"""Losses of a prediction and a number: squared, Huber, Poisson."""

import math
from typing import Any, NamedTuple

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compilable, kernel_part
from finitesum.losses.base import Curved, OfResidual, Scaled
from finitesum.losses.exponential import exp

#: Beyond it exp overflows a float64.
LARGEST_EXPONENT = 709.0


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


@kernel_part
def _mean(prediction: Any) -> Any:
    """Return exp(u), infinite for u > 709."""
    return where(prediction > LARGEST_EXPONENT, math.inf, exp(minimum(prediction, LARGEST_EXPONENT)))


@compilable
class Poisson(Scaled, Curved):
    """exp(u) - y u, the Poisson negative log-likelihood with log link, for targets >= 0 (infinite for u > 709)."""

    def value(self, prediction: Any, target: Any) -> Any:
        return self.scale * (_mean(prediction) - target * prediction)

    def d1(self, prediction: Any, target: Any) -> Any:
        return self.scale * (_mean(prediction) - target)

    def d2(self, prediction: Any, target: Any) -> Any:
        return self.scale * _mean(prediction)

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        mean = _mean(prediction)
        return self.scale * (mean - target), self.scale * mean

    def target_kind(self) -> str:
        """Return "count"."""
        return "count"
