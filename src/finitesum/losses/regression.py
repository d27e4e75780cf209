"""Losses of a prediction and a number: squared, Huber, Poisson."""

import math
from typing import NamedTuple

from finitesum.core.jit import compilable
from finitesum.losses.base import Curved, OfResidual, Scaled
from finitesum.losses.exponential import exp

#: Beyond it exp overflows a float64.
LARGEST_EXPONENT = 709.0


@compilable
class Squared(Scaled, OfResidual):
    """(u - y)^2 / 2."""

    def value(self, prediction: float, target: float) -> float:
        return 0.5 * self.scale * (prediction - target) * (prediction - target)

    def d1(self, prediction: float, target: float) -> float:
        return self.scale * (prediction - target)

    def d2(self, prediction: float, target: float) -> float:
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

    def value(self, prediction: float, target: float) -> float:
        size = abs(prediction - target)
        if size <= self.threshold:
            return 0.5 * size * size
        return self.threshold * (size - 0.5 * self.threshold)

    def d1(self, prediction: float, target: float) -> float:
        return min(max(prediction - target, -self.threshold), self.threshold)

    def d2(self, prediction: float, target: float) -> float:
        return 1.0 if abs(prediction - target) <= self.threshold else 0.0

    def majorant(self, prediction: float, target: float) -> float:
        """Return min(1, threshold / |r|), the curvature of iteratively reweighted least squares."""
        size = abs(prediction - target)
        return 1.0 if size <= self.threshold else self.threshold / size

    def curvature_bound(self) -> float:
        """Return 1."""
        return 1.0


@compilable
class Poisson(Scaled, Curved):
    """exp(u) - y u, the Poisson negative log-likelihood with log link, for targets >= 0 (infinite for u > 709)."""

    def value(self, prediction: float, target: float) -> float:
        if prediction > LARGEST_EXPONENT:
            return math.inf
        return self.scale * (exp(prediction) - target * prediction)

    def d1(self, prediction: float, target: float) -> float:
        if prediction > LARGEST_EXPONENT:
            return math.inf
        return self.scale * (exp(prediction) - target)

    def d2(self, prediction: float, target: float) -> float:
        if prediction > LARGEST_EXPONENT:
            return math.inf
        return self.scale * exp(prediction)

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        if prediction > LARGEST_EXPONENT:
            return math.inf, math.inf
        mean = exp(prediction)
        return self.scale * (mean - target), self.scale * mean

    def target_kind(self) -> str:
        """Return "count"."""
        return "count"
