"""Losses of a margin y u, for targets -1 and +1: logistic, hinge and its smooth kin."""

import math
from typing import NamedTuple

from finitesum.core.jit import compilable
from finitesum.losses.base import OfMargin, Scaled
from finitesum.losses.exponential import exp, log1p


@compilable
class Logistic(Scaled, OfMargin):
    """log(1 + exp(-y u)) for targets -1 and +1.

    Examples
    --------
    >>> round(Logistic().value(0.0, 1.0), 6), Logistic().d1(0.0, 1.0), Logistic().d2(0.0, 1.0)
    (0.693147, -0.5, 0.25)
    """

    def value(self, prediction: float, target: float) -> float:
        margin = target * prediction
        return self.scale * (max(-margin, 0.0) + log1p(exp(-abs(margin))))

    def d1(self, prediction: float, target: float) -> float:
        margin = target * prediction
        decay = exp(-abs(margin))
        fraction = decay if margin > 0.0 else 1.0
        return -self.scale * target * fraction / (1.0 + decay)

    def d2(self, prediction: float, target: float) -> float:
        decay = exp(-abs(prediction))
        return self.scale * decay / ((1.0 + decay) * (1.0 + decay))

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        margin = target * prediction
        decay = exp(-abs(margin))
        fraction = 1.0 / (1.0 + decay)
        slope = decay * fraction if margin > 0.0 else fraction
        return -self.scale * target * slope, self.scale * decay * fraction * fraction

    def majorant(self, prediction: float, target: float) -> float:
        """Return tanh(u/2) / (2u), the curvature of Jaakkola and Jordan's quadratic bound (Stat. Comput. 10, 2000)."""
        size = abs(prediction)
        decay = exp(-size)
        ratio = (1.0 - decay) / (size * (1.0 + decay)) if size > 2e-4 else 0.5 - size * size / 24.0
        return self.scale * 0.5 * ratio

    def curvature_bound(self) -> float:
        """Return 1/4."""
        return 0.25 * self.scale

    def d2_lipschitz(self) -> float:
        """Return 1 / (6 sqrt 3)."""
        return self.scale / (6.0 * math.sqrt(3.0))


@compilable
class SquaredHinge(Scaled, OfMargin):
    """max(0, 1 - y u)^2 for targets -1 and +1; the second derivative jumps at margin 1."""

    def value(self, prediction: float, target: float) -> float:
        gap = 1.0 - target * prediction
        return 0.0 if gap <= 0.0 else self.scale * gap * gap

    def d1(self, prediction: float, target: float) -> float:
        gap = 1.0 - target * prediction
        return 0.0 if gap <= 0.0 else -2.0 * self.scale * target * gap

    def d2(self, prediction: float, target: float) -> float:
        return 2.0 * self.scale if target * prediction < 1.0 else 0.0

    def curvature_bound(self) -> float:
        """Return 2."""
        return 2.0 * self.scale


@compilable
class Hinge(Scaled, OfMargin):
    """max(0, 1 - y u) for targets -1 and +1: not smooth, for the subgradient methods; d1 is 0 at margin 1."""

    def value(self, prediction: float, target: float) -> float:
        gap = 1.0 - target * prediction
        return 0.0 if gap <= 0.0 else self.scale * gap

    def d1(self, prediction: float, target: float) -> float:
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0
        return -self.scale * target if gap > 0.0 else gap

    def d2(self, prediction: float, target: float) -> float:
        """Return 0, the second derivative beside the corner."""
        return 0.0

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return False


class _Rounded(NamedTuple):
    width: float = 1.0


@compilable
class SmoothedHinge(_Rounded, OfMargin):
    """The hinge, rounded at its corner over a width: 0 for y u >= 1, (1 - y u)^2 / (2 width), then 1 - y u - width/2."""

    def value(self, prediction: float, target: float) -> float:
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0
        if gap >= self.width:
            return gap - 0.5 * self.width
        return 0.5 * gap * gap / self.width

    def d1(self, prediction: float, target: float) -> float:
        return -target * min(max(1.0 - target * prediction, 0.0) / self.width, 1.0)

    def d2(self, prediction: float, target: float) -> float:
        gap = 1.0 - target * prediction
        return 1.0 / self.width if 0.0 < gap < self.width else 0.0

    def majorant(self, prediction: float, target: float) -> float:
        """Return the least curvature of a quadratic above the loss that touches it here: 1 / width within the corner."""
        gap = 1.0 - target * prediction
        return 1.0 / max(self.width, gap, self.width - 2.0 * gap)

    def curvature_bound(self) -> float:
        """Return 1 / width."""
        return 1.0 / self.width
