"""What a loss is: the table in `finitesum.losses` as a protocol, and what most of ours answer alike."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

from finitesum.core.elementwise import maximum, where


@runtime_checkable
class Loss(Protocol):
    """What a loss offers; see the module's table."""

    def value(self, prediction: float, target: float) -> float: ...
    def d1(self, prediction: float, target: float) -> float: ...
    def d2(self, prediction: float, target: float) -> float: ...
    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]: ...
    def majorant(self, prediction: float, target: float) -> float: ...
    def curvature_bound(self) -> float: ...
    def d2_lipschitz(self) -> float: ...
    def target_kind(self) -> str: ...
    def is_smooth(self) -> bool: ...


class Scaled(NamedTuple):
    """The field of most losses."""

    scale: float = 1.0


class Curved(ABC):
    """The answers of a smooth loss with at most one bound on its curvature; a class overrides what it knows better."""

    @abstractmethod
    def value(self, prediction: Any, target: Any) -> Any:
        """Return the loss."""

    @abstractmethod
    def d1(self, prediction: Any, target: Any) -> Any:
        """Return the first derivative in the prediction, a subderivative where it jumps."""

    @abstractmethod
    def d2(self, prediction: Any, target: Any) -> Any:
        """Return the second derivative in the prediction."""

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        """Return both derivatives."""
        return self.d1(prediction, target), self.d2(prediction, target)

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        """Return the loss and both derivatives: where they share what takes time, a class computes that once."""
        return self.value(prediction, target), *self.d1_d2(prediction, target)

    def majorant(self, prediction: Any, target: Any) -> float:
        """Return the largest curvature."""
        return self.curvature_bound()

    def curvature_bound(self) -> float:
        """Return infinity: no quadratic lies above the loss."""
        return math.inf

    def d2_lipschitz(self) -> float:
        """Return infinity: the second derivative jumps, or grows without end."""
        return math.inf

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return True

    def is_convex(self) -> bool:
        """Return whether the loss is convex in the prediction."""
        return True


class OfMargin(Curved):
    """Losses of a margin y u."""

    def target_kind(self) -> str:
        """Return "sign"."""
        return "sign"


class OfComponents(Curved):
    """Whole components in the place of losses of a row: the target is the component's number."""

    def target_kind(self) -> str:
        """Return "component"."""
        return "component"


class OfResidual(Curved):
    """Losses of a residual u - y."""

    def target_kind(self) -> str:
        """Return "real"."""
        return "real"


#: The least and the largest slope beside a corner, and the prediction that it is at.
Corner = tuple[Any, Any, Any]


class RoundedCorner(Curved):
    """Losses with one or two rounded corners: sum_j max s (u - k_j) - width/2 s^2 over low_j <= s <= high_j.

    The dual variable of a row is its slope s, the sum of those of its corners, of which at most one is between its bounds:
    u = k_j + width s there.
    """

    @abstractmethod
    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return (low_1, high_1, k_1) and (low_2, high_2, k_2), high_1 <= 0 <= low_2, k_1 < k_2; (0, 0, k_1) for none."""

    @abstractmethod
    def corner_width(self) -> float:
        """Return by how much the prediction changes where the slope changes by 1."""


class Cornered(Curved):
    """Losses of one or two corners, linear beside them: sum_j max(low_j (u - k_j), high_j (u - k_j)), low_j <= 0 <= high_j.

    The dual variable of a row, its slope, is sum_j s_j with low_j <= s_j <= high_j, at the cost of sum_j k_j s_j.
    """

    @abstractmethod
    def corners(self, target: Any) -> tuple[Corner, Corner]:
        """Return (low_1, high_1, k_1) and (low_2, high_2, k_2), with k_1 <= k_2; the second is (0, 0, k_1) for none."""

    def corner_width(self) -> float:
        """Return 0: corners are not rounded."""
        return 0.0

    def value(self, prediction: Any, target: Any) -> Any:
        """Return the sum of both corners' losses."""
        (low, high, point), (other_low, other_high, other_point) = self.corners(target)
        excess, other = prediction - point, prediction - other_point
        return maximum(low * excess, high * excess) + maximum(other_low * other, other_high * other)

    def d1(self, prediction: Any, target: Any) -> Any:
        """Return the slope, a corner's part 0 at it."""
        (low, high, point), (other_low, other_high, other_point) = self.corners(target)
        excess, other = prediction - point, prediction - other_point
        slope = where(excess > 0.0, high, where(excess < 0.0, low, 0.0 * excess))
        return slope + where(other > 0.0, other_high, where(other < 0.0, other_low, 0.0 * other))

    def d2(self, prediction: Any, target: Any) -> Any:
        """Return 0, the second derivative beside the corners."""
        return 0.0

    def is_smooth(self) -> bool:
        """Return whether the first derivative is continuous."""
        return False

    def largest_slope(self) -> float:
        """Return the size of the largest slope."""
        sizes = []
        for target in (-1.0, 1.0):
            (low, high, _), (other_low, other_high, _) = self.corners(target)
            sizes += [high + other_high, -low - other_low]
        return float(max(sizes))
