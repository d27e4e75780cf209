"""Losses of a margin y u, for targets -1 and +1: logistic, hinge and its smooth kin."""

import math
from typing import Any, NamedTuple

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compilable, kernel_part
from finitesum.losses.base import Corner, Cornered, Curved, OfMargin, RoundedCorner, Scaled
from finitesum.losses.exponential import exp, log1p


@kernel_part
def logistic_majorant(t: Any) -> Any:
    """Return tanh(t/2) / (2t), the curvature of Jaakkola and Jordan's quadratic bound (Stat. Comput. 10, 2000)."""
    size = abs(t)
    decay = exp(-size)
    ratio = (1.0 - decay) / (maximum(size, 2e-4) * (1.0 + decay))
    return 0.5 * where(size > 2e-4, ratio, 0.5 - size * size / 24.0)


class LogisticCurvature(Curved):
    """The bounds on the curvature of -log of a logistic function, which depends on the size of the prediction alone."""

    scale: float

    def majorant(self, prediction: Any, target: Any) -> Any:
        """Return tanh(u/2) / (2u), the curvature of Jaakkola and Jordan's quadratic bound (Stat. Comput. 10, 2000)."""
        return self.scale * logistic_majorant(prediction)

    def curvature_bound(self) -> float:
        """Return 1/4."""
        return 0.25 * self.scale

    def d2_lipschitz(self) -> float:
        """Return 1 / (6 sqrt 3)."""
        return self.scale / (6.0 * math.sqrt(3.0))


@compilable
class Logistic(Scaled, LogisticCurvature, OfMargin):
    """log(1 + exp(-y u)) for targets -1 and +1.

    Examples
    --------
    >>> round(Logistic().value(0.0, 1.0), 6), Logistic().d1(0.0, 1.0), Logistic().d2(0.0, 1.0)
    (0.693147, -0.5, 0.25)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        margin = target * prediction
        return self.scale * (maximum(-margin, 0.0) + log1p(exp(-abs(margin))))

    def d1(self, prediction: Any, target: Any) -> Any:
        margin = target * prediction
        decay = exp(-abs(margin))
        return -self.scale * target * maximum(decay, 1.0 * (margin <= 0.0)) / (1.0 + decay)

    def d2(self, prediction: Any, target: Any) -> Any:
        decay = exp(-abs(prediction))
        return self.scale * decay / ((1.0 + decay) * (1.0 + decay))

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        margin = target * prediction
        decay = exp(-abs(margin))
        fraction = 1.0 / (1.0 + decay)
        slope = maximum(decay, 1.0 * (margin <= 0.0)) * fraction
        return -self.scale * target * slope, self.scale * decay * fraction * fraction

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """Return the loss and both derivatives, from one exponential."""
        margin = target * prediction
        decay = exp(-abs(margin))
        fraction = 1.0 / (1.0 + decay)
        slope = maximum(decay, 1.0 * (margin <= 0.0)) * fraction
        value = self.scale * (maximum(-margin, 0.0) + log1p(decay))
        return value, (-self.scale * target) * slope, (self.scale * decay) * (fraction * fraction)


@compilable
class SquaredHinge(Scaled, RoundedCorner, OfMargin):
    """max(0, 1 - y u)^2 for targets -1 and +1; the second derivative jumps at margin 1."""

    def value(self, prediction: Any, target: Any) -> Any:
        gap = maximum(1.0 - target * prediction, 0.0)
        return self.scale * gap * gap

    def d1(self, prediction: Any, target: Any) -> Any:
        return -2.0 * self.scale * target * maximum(1.0 - target * prediction, 0.0)

    def d2(self, prediction: Any, target: Any) -> Any:
        return 2.0 * self.scale * (target * prediction < 1.0)

    def curvature_bound(self) -> float:
        """Return 2."""
        return 2.0 * self.scale

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes beyond 0 on the side of -y, without an end, at margin 1."""
        return (minimum(-math.inf * target, 0.0), maximum(-math.inf * target, 0.0), target), (0.0, 0.0, target)

    def corner_width(self) -> float:
        """Return 1/2."""
        return 0.5 / self.scale


@compilable
class Hinge(Scaled, Cornered):
    """max(0, 1 - y u) for targets -1 and +1: not smooth, for the subgradient methods; d1 is 0 at margin 1."""

    def value(self, prediction: Any, target: Any) -> Any:
        return self.scale * maximum(1.0 - target * prediction, 0.0)

    def d1(self, prediction: Any, target: Any) -> Any:
        gap = 1.0 - target * prediction
        return where(gap <= 0.0, 0.0, where(gap > 0.0, -self.scale * target, gap))

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes between 0 and -y, at margin 1."""
        slope = -self.scale * target
        return (minimum(slope, 0.0), maximum(slope, 0.0), target), (0.0, 0.0, target)

    def target_kind(self) -> str:
        """Return "sign"."""
        return "sign"


class _Rounded(NamedTuple):
    width: float = 1.0


@compilable
class SmoothedHinge(_Rounded, RoundedCorner, OfMargin):
    """The hinge, rounded at its corner over a width: 0 for y u >= 1, (1 - y u)^2 / (2 width), then 1 - y u - width/2."""

    def value(self, prediction: Any, target: Any) -> Any:
        gap = maximum(1.0 - target * prediction, 0.0)
        inside = minimum(gap, self.width)
        return inside * (gap - 0.5 * inside) / self.width

    def d1(self, prediction: Any, target: Any) -> Any:
        return -target * minimum(maximum(1.0 - target * prediction, 0.0) / self.width, 1.0)

    def d2(self, prediction: Any, target: Any) -> Any:
        gap = 1.0 - target * prediction
        return ((gap > 0.0) & (gap < self.width)) / self.width

    def majorant(self, prediction: Any, target: Any) -> Any:
        """Return the least curvature of a quadratic above the loss that touches it here: 1 / width within the corner."""
        gap = 1.0 - target * prediction
        return 1.0 / maximum(where(gap > 0.0, gap, self.width - 2.0 * gap), self.width)

    def curvature_bound(self) -> float:
        """Return 1 / width."""
        return 1.0 / self.width

    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return the slopes between 0 and -y, at margin 1."""
        return (minimum(-target, 0.0), maximum(-target, 0.0), target), (0.0, 0.0, target)

    def corner_width(self) -> float:
        """Return the width."""
        return self.width
