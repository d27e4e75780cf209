"""Losses of a residual that are linear but for corners: absolute, quantile, epsilon-insensitive."""

from typing import Any, NamedTuple

from finitesum.core.jit import compilable
from finitesum.losses.base import Corner, Cornered, Scaled


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
