"""Penalties r(x) = sum_j value(x_j): a smooth quadratic part and a part with a cheap prox.

The quadratic part (``ridge``) joins the smooth function: its gradient and curvature are exact everywhere and it gives
strong convexity. Only the rest goes through the prox. With no l1 part the prox is the identity and every method is the
smooth one, to the last bit.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple, Protocol, runtime_checkable

from finitesum.core.jit import compilable


@runtime_checkable
class Penalty(Protocol):
    """What a separable penalty offers."""

    def penalty_value(self, coordinate: float) -> float: ...
    def prox_at(self, coordinate: float, step: float) -> float: ...
    def ridge(self) -> float: ...
    def lasso(self) -> float: ...


@compilable
class ElasticNet(NamedTuple):
    """l1 |x| + l2/2 x^2.

    Examples
    --------
    >>> penalty = ElasticNet(l1=1.0, l2=0.5)
    >>> penalty.penalty_value(2.0), penalty.prox_at(2.0, 0.5)
    (3.0, 1.5)
    """

    l1: float = 0.0
    l2: float = 0.0

    def penalty_value(self, coordinate: float) -> float:
        """Return the penalty of one coordinate."""
        return self.l1 * abs(coordinate) + 0.5 * self.l2 * coordinate * coordinate

    def prox_at(self, coordinate: float, step: float) -> float:
        """Return argmin_v l1 |v| + (v - x)^2 / (2 step): the prox of the part that is not quadratic."""
        threshold = step * self.l1
        if abs(coordinate) <= threshold:
            return 0.0
        if coordinate > 0.0:
            return coordinate - threshold
        return coordinate + threshold  # NaN stays NaN, so that a divergence is seen

    def ridge(self) -> float:
        """Return the strength of the quadratic part."""
        return self.l2

    def lasso(self) -> float:
        """Return the strength of the absolute value."""
        return self.l1


def Zero() -> ElasticNet:
    """Return the penalty that is 0 everywhere."""
    return ElasticNet(0.0, 0.0)


def L2(alpha: float) -> ElasticNet:
    """Return alpha/2 x^2."""
    return elastic_net(alpha, 0.0)


def L1(alpha: float) -> ElasticNet:
    """Return alpha |x|."""
    return elastic_net(alpha, 1.0)


def elastic_net(alpha: float, l1_ratio: float = 0.0) -> ElasticNet:
    """Return alpha (l1_ratio |x| + (1 - l1_ratio)/2 x^2).

    Raises
    ------
    ValueError
        alpha is negative or not finite, or l1_ratio lies outside [0, 1].
    """
    if not isinstance(alpha, Real) or not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha must be a number >= 0 and finite, got {alpha!r}. 0 is no penalty.")
    if not isinstance(l1_ratio, Real) or not 0.0 <= l1_ratio <= 1.0:
        raise ValueError(
            f"l1_ratio must be a number in [0, 1], got {l1_ratio!r}. 0 is the l2 penalty, 1 the l1 penalty."
        )
    return ElasticNet(float(alpha) * float(l1_ratio), float(alpha) * (1.0 - float(l1_ratio)))
