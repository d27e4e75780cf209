"""What a loss is: the table in `finitesum.losses` as a protocol, and what most of ours answer alike."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable


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
