"""Losses: scalar functions of one prediction and one target, with two derivatives in the prediction.

Every loss is a NamedTuple whose methods kernels call:

===================  ==================================================================================
``value``            loss(u, y)
``d1``, ``d2``       first and second derivative in u (a subderivative at a kink)
``d1_d2``            both, for the price of one exponential
``majorant``         a curvature c(u) such that v -> value(u) + d1(u) (v - u) + c(u)/2 (v - u)^2 lies above the loss
                     everywhere; infinite where there is none
``curvature_bound``  sup of d2 over all predictions (infinite: no quadratic lies above the loss)
``jerk_bound``       sup of the third derivative's size: the Lipschitz constant of d2 (infinite at kinks of d1)
``target_kind``      "sign": targets are -1 or +1; "real"; "count": non-negative
``is_smooth``        whether d1 is continuous
===================  ==================================================================================

``scale`` multiplies the loss. All formulas hold at margins of +-1000 without overflow, and NaN stays NaN in `value`,
`d1` and the first of `d1_d2`, so that a divergence is seen.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from finitesum.jit import compilable


@runtime_checkable
class Loss(Protocol):
    """What a loss offers; see the module's table."""

    def value(self, prediction: float, target: float) -> float: ...
    def d1(self, prediction: float, target: float) -> float: ...
    def d2(self, prediction: float, target: float) -> float: ...
    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]: ...
    def majorant(self, prediction: float, target: float) -> float: ...
    def curvature_bound(self) -> float: ...
    def jerk_bound(self) -> float: ...
    def target_kind(self) -> str: ...
    def is_smooth(self) -> bool: ...


@compilable
class Logistic(NamedTuple):
    """log(1 + exp(-y u)) for targets -1 and +1.

    Examples
    --------
    >>> round(Logistic().value(0.0, 1.0), 6), Logistic().d1(0.0, 1.0), Logistic().d2(0.0, 1.0)
    (0.693147, -0.5, 0.25)
    """

    scale: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        margin = target * prediction
        return self.scale * (max(-margin, 0.0) + math.log1p(math.exp(-abs(margin))))

    def d1(self, prediction: float, target: float) -> float:
        """Return the first derivative."""
        margin = target * prediction
        decay = math.exp(-abs(margin))
        share = decay if margin > 0.0 else 1.0
        return -self.scale * target * share / (1.0 + decay)

    def d2(self, prediction: float, target: float) -> float:
        """Return the second derivative."""
        decay = math.exp(-abs(prediction))
        return self.scale * decay / ((1.0 + decay) * (1.0 + decay))

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        margin = target * prediction
        decay = math.exp(-abs(margin))
        share = 1.0 / (1.0 + decay)
        slope = decay * share if margin > 0.0 else share
        return -self.scale * target * slope, self.scale * decay * share * share

    def majorant(self, prediction: float, target: float) -> float:
        """Return tanh(u/2) / (2u), the curvature of Jaakkola and Jordan's quadratic upper bound."""
        half = 0.5 * abs(prediction)
        if half < 1e-4:
            return self.scale * 0.25 * (1.0 - half * half / 3.0)
        return self.scale * 0.25 * math.tanh(half) / half

    def curvature_bound(self) -> float:
        """Return 1/4."""
        return 0.25 * self.scale

    def jerk_bound(self) -> float:
        """Return 1 / (6 sqrt 3)."""
        return self.scale / (6.0 * math.sqrt(3.0))

    def target_kind(self) -> str:
        """Return "sign"."""
        return "sign"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True


@compilable
class Squared(NamedTuple):
    """(u - y)^2 / 2."""

    scale: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        return 0.5 * self.scale * (prediction - target) * (prediction - target)

    def d1(self, prediction: float, target: float) -> float:
        """Return the first derivative."""
        return self.scale * (prediction - target)

    def d2(self, prediction: float, target: float) -> float:
        """Return the second derivative."""
        return self.scale

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        return self.scale * (prediction - target), self.scale

    def majorant(self, prediction: float, target: float) -> float:
        """Return 1: the loss is its own upper bound."""
        return self.scale

    def curvature_bound(self) -> float:
        """Return 1."""
        return self.scale

    def jerk_bound(self) -> float:
        """Return 0."""
        return 0.0

    def target_kind(self) -> str:
        """Return "real"."""
        return "real"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True


@compilable
class SquaredHinge(NamedTuple):
    """max(0, 1 - y u)^2 for targets -1 and +1; the second derivative jumps at margin 1."""

    scale: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        gap = 1.0 - target * prediction
        return 0.0 if gap <= 0.0 else self.scale * gap * gap

    def d1(self, prediction: float, target: float) -> float:
        """Return the first derivative."""
        gap = 1.0 - target * prediction
        return 0.0 if gap <= 0.0 else -2.0 * self.scale * target * gap

    def d2(self, prediction: float, target: float) -> float:
        """Return the second derivative."""
        return 2.0 * self.scale if target * prediction < 1.0 else 0.0

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0, 0.0
        return -2.0 * self.scale * target * gap, 2.0 * self.scale

    def majorant(self, prediction: float, target: float) -> float:
        """Return 2, the largest curvature."""
        return 2.0 * self.scale

    def curvature_bound(self) -> float:
        """Return 2."""
        return 2.0 * self.scale

    def jerk_bound(self) -> float:
        """Return infinity: the second derivative jumps."""
        return math.inf

    def target_kind(self) -> str:
        """Return "sign"."""
        return "sign"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True


@compilable
class Hinge(NamedTuple):
    """max(0, 1 - y u) for targets -1 and +1: not smooth, for the subgradient methods; d1 is 0 at margin 1."""

    scale: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        gap = 1.0 - target * prediction
        return 0.0 if gap <= 0.0 else self.scale * gap

    def d1(self, prediction: float, target: float) -> float:
        """Return the subderivative."""
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0
        return -self.scale * target if gap > 0.0 else gap

    def d2(self, prediction: float, target: float) -> float:
        """Return 0, the second derivative off the kink."""
        return 0.0

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0, 0.0
        return (-self.scale * target if gap > 0.0 else gap), 0.0

    def majorant(self, prediction: float, target: float) -> float:
        """Return infinity: no quadratic lies above a kink."""
        return math.inf

    def curvature_bound(self) -> float:
        """Return infinity."""
        return math.inf

    def jerk_bound(self) -> float:
        """Return infinity."""
        return math.inf

    def target_kind(self) -> str:
        """Return "sign"."""
        return "sign"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return False


@compilable
class SmoothedHinge(NamedTuple):
    """The hinge with its kink rounded over a width: 0 for y u >= 1, (1 - y u)^2 / (2 width), then 1 - y u - width/2."""

    width: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0
        if gap >= self.width:
            return gap - 0.5 * self.width
        return 0.5 * gap * gap / self.width

    def d1(self, prediction: float, target: float) -> float:
        """Return the first derivative."""
        return -target * min(max(1.0 - target * prediction, 0.0) / self.width, 1.0)

    def d2(self, prediction: float, target: float) -> float:
        """Return the second derivative."""
        gap = 1.0 - target * prediction
        return 1.0 / self.width if 0.0 < gap < self.width else 0.0

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        gap = 1.0 - target * prediction
        if gap <= 0.0:
            return 0.0, 0.0
        if gap >= self.width:
            return -target, 0.0
        return -target * gap / self.width, 1.0 / self.width

    def majorant(self, prediction: float, target: float) -> float:
        """Return 1 / width, the largest curvature."""
        return 1.0 / self.width

    def curvature_bound(self) -> float:
        """Return 1 / width."""
        return 1.0 / self.width

    def jerk_bound(self) -> float:
        """Return infinity: the second derivative jumps."""
        return math.inf

    def target_kind(self) -> str:
        """Return "sign"."""
        return "sign"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True


@compilable
class Huber(NamedTuple):
    """r^2 / 2 for a residual r = u - y of size <= threshold, threshold (|r| - threshold/2) beyond."""

    threshold: float = 1.35

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        size = abs(prediction - target)
        if size <= self.threshold:
            return 0.5 * size * size
        return self.threshold * (size - 0.5 * self.threshold)

    def d1(self, prediction: float, target: float) -> float:
        """Return the first derivative."""
        return min(max(prediction - target, -self.threshold), self.threshold)

    def d2(self, prediction: float, target: float) -> float:
        """Return the second derivative."""
        return 1.0 if abs(prediction - target) <= self.threshold else 0.0

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        residual = prediction - target
        if residual > self.threshold:
            return self.threshold, 0.0
        if residual < -self.threshold:
            return -self.threshold, 0.0
        return residual, 1.0

    def majorant(self, prediction: float, target: float) -> float:
        """Return min(1, threshold / |r|), the curvature of iteratively reweighted least squares."""
        size = abs(prediction - target)
        return 1.0 if size <= self.threshold else self.threshold / size

    def curvature_bound(self) -> float:
        """Return 1."""
        return 1.0

    def jerk_bound(self) -> float:
        """Return infinity: the second derivative jumps."""
        return math.inf

    def target_kind(self) -> str:
        """Return "real"."""
        return "real"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True


#: Beyond it exp overflows a float64.
LARGEST_EXPONENT = 709.0


@compilable
class Poisson(NamedTuple):
    """exp(u) - y u, the Poisson negative log-likelihood with log link, for targets >= 0 (infinite for u > 709)."""

    scale: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        """Return the loss."""
        if prediction > LARGEST_EXPONENT:
            return math.inf
        return self.scale * (math.exp(prediction) - target * prediction)

    def d1(self, prediction: float, target: float) -> float:
        """Return the first derivative."""
        if prediction > LARGEST_EXPONENT:
            return math.inf
        return self.scale * (math.exp(prediction) - target)

    def d2(self, prediction: float, target: float) -> float:
        """Return the second derivative."""
        if prediction > LARGEST_EXPONENT:
            return math.inf
        return self.scale * math.exp(prediction)

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        """Return both derivatives."""
        if prediction > LARGEST_EXPONENT:
            return math.inf, math.inf
        mean = math.exp(prediction)
        return self.scale * (mean - target), self.scale * mean

    def majorant(self, prediction: float, target: float) -> float:
        """Return infinity: no quadratic lies above the exponential."""
        return math.inf

    def curvature_bound(self) -> float:
        """Return infinity."""
        return math.inf

    def jerk_bound(self) -> float:
        """Return infinity."""
        return math.inf

    def target_kind(self) -> str:
        """Return "count"."""
        return "count"

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True


#: The losses by the names that users write.
LOSSES: dict[str, type[Loss]] = {
    "logistic": Logistic,
    "squared": Squared,
    "squared-hinge": SquaredHinge,
    "hinge": Hinge,
    "smoothed-hinge": SmoothedHinge,
    "huber": Huber,
    "poisson": Poisson,
}


def as_loss(loss: str | Loss) -> Loss:
    """Return the loss of a name, or the loss itself after a check of its methods and parameters.

    Raises
    ------
    ValueError
        The name is unknown or a parameter is out of range.
    TypeError
        It is no loss, or one of its methods has other parameters than in the table above.

    Examples
    --------
    >>> as_loss("huber")
    Huber(threshold=1.35)
    """
    if isinstance(loss, str):
        key = loss.replace("_", "-")
        if key not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(sorted(LOSSES))}, got {loss!r}.")
        return LOSSES[key]()
    if not isinstance(loss, Loss) or not isinstance(loss, tuple):
        raise TypeError(f"loss must be a name or a loss (a NamedTuple with value, d1, d2, ...), got {loss!r}.")
    compilable(type(loss))
    known: Any = loss
    for name in {"scale", "width", "threshold"}.intersection(known._fields):
        number = getattr(known, name)
        if not isinstance(number, Real) or not 0.0 < float(number) < math.inf:
            raise ValueError(f"{name} of {type(loss).__name__} must be > 0 and finite, got {number!r}.")
        known = known._replace(**{name: float(number)})  # one machine code for 2 and 2.0
    return cast(Loss, known)
