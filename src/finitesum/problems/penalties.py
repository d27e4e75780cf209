"""Penalties r(w): an elastic net, whose quadratic part is smooth, and others by their value and their prox.

The quadratic part of an elastic net joins the smooth function: its gradient and curvature are exact everywhere and it gives
strong convexity. Only the rest goes through the prox. With no l1 part the prox is the identity and every method is the
smooth one, to the last bit.

A separable penalty is a NamedTuple with two methods, ``penalty_value(coordinate)`` and ``prox_at(coordinate, step)``, and
all that a method with proximal steps needs. One that is not convex says so by a third, ``weak_convexity()``. Derivatives
away from 0, ``slope_at(coordinate)`` and ``curvature_at(coordinate)``, let `coordinate-descent` take Newton's steps.

===============  =====================================================  ==============================================
`ElasticNet`     l1 |w_j| + l2/2 w_j^2                                  convex
`MCP`            minimax concave penalty                                not convex; stationary points are found
`SCAD`           smoothly clipped absolute deviation                    not convex; stationary points are found
`GroupLasso`     alpha sum_g sqrt(K d_g) ||W_g||, perhaps with l1       convex; zeros come in groups
===============  =====================================================  ==============================================

Kernels take what `finitesum.problems.term_penalties.as_penalty` makes of them.
"""

import math
from numbers import Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

from finitesum.core.arrays import Vector
from finitesum.core.jit import compilable, kernel_part


@runtime_checkable
class Penalty(Protocol):
    """What a separable penalty offers."""

    def penalty_value(self, coordinate: float) -> float: ...
    def prox_at(self, coordinate: float, step: float) -> float: ...


@kernel_part
def soft_threshold(value: float, threshold: float) -> float:
    """Return sign(v) max(|v| - threshold, 0)."""
    if abs(value) <= threshold:
        return 0.0
    if value > 0.0:
        return value - threshold
    return value + threshold  # NaN stays NaN, so that a divergence is seen


@compilable
class ElasticNet(NamedTuple):
    """l1 |w_j| + l2/2 w_j^2.

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
        """Return argmin_v l1 |v| + (v - w_j)^2 / (2 step): the prox of the part that is not quadratic."""
        return soft_threshold(coordinate, step * self.l1)

    def prox_of(self, coordinate: float, step: float, j: int) -> float:
        return self.prox_at(coordinate, step)

    def penalty_total(self, coefficients: Vector, start: float) -> float:
        for j in range(coefficients.size):
            start += self.penalty_value(coefficients[j])
        return start

    def apply_prox(self, coefficients: Vector, step: float) -> None:
        for j in range(coefficients.size):
            coefficients[j] = self.prox_at(coefficients[j], step)

    def ridge(self) -> float:
        return self.l2

    def lasso(self) -> float:
        return self.l1

    def has_prox(self) -> bool:
        return self.l1 != 0.0

    def has_closed_form(self) -> bool:
        """Return whether k equal steps have a closed form: the prox shifts by one number."""
        return True


@compilable
class MCP(NamedTuple):
    """The minimax concave penalty: alpha |w_j| - w_j^2 / (2 gamma) where |w_j| <= gamma alpha, constant beyond [1]_.

    It begins as the l1 penalty of strength alpha and levels off, so that large coefficients are not shrunk. It is not
    convex: methods find a stationary point.

    Parameters
    ----------
    alpha : float >= 0
        The strength at 0.
    gamma : float > 0
        From gamma alpha on the penalty is constant; towards infinity it becomes the l1 penalty.

    References
    ----------
    .. [1] C.-H. Zhang, "Nearly unbiased variable selection under minimax concave penalty", Ann. Statist. 38 (2010).

    Examples
    --------
    >>> penalty = MCP(alpha=1.0, gamma=3.0)
    >>> [penalty.penalty_value(w) for w in (1.0, 3.0, 9.0)]
    [0.8333333333333334, 1.5, 1.5]
    >>> [round(penalty.prox_at(v, 1.0), 9) for v in (0.5, 2.0, 9.0)]
    [0.0, 1.5, 9.0]
    """

    alpha: float
    gamma: float = 3.0

    def penalty_value(self, coordinate: float) -> float:
        """Return the penalty of one coordinate."""
        size = abs(coordinate)
        if size <= self.gamma * self.alpha:
            return self.alpha * size - 0.5 * size * size / self.gamma
        return 0.5 * self.gamma * self.alpha * self.alpha

    def prox_at(self, coordinate: float, step: float) -> float:
        """Return argmin_v penalty_value(v) + (v - w_j)^2 / (2 step): a firm threshold, a hard one where step >= gamma."""
        size = abs(coordinate)
        if step >= self.gamma:  # concave up to gamma alpha: 0, or beyond it the point itself
            return 0.0 if size <= self.alpha * math.sqrt(step * self.gamma) else coordinate
        if size > self.gamma * self.alpha:
            return coordinate
        return soft_threshold(coordinate, step * self.alpha) / (1.0 - step / self.gamma)

    def slope_at(self, coordinate: float) -> float:
        """Return the derivative at a coordinate other than 0."""
        return math.copysign(max(self.alpha - abs(coordinate) / self.gamma, 0.0), coordinate)

    def curvature_at(self, coordinate: float) -> float:
        """Return the second derivative at a coordinate other than 0, where there is one."""
        return -1.0 / self.gamma if abs(coordinate) < self.gamma * self.alpha else 0.0

    def weak_convexity(self) -> float:
        """Return the smallest c such that penalty + c/2 w^2 is convex."""
        return 1.0 / self.gamma


@compilable
class SCAD(NamedTuple):
    """The smoothly clipped absolute deviation: slope alpha up to |w_j| = alpha, falling to 0 at gamma alpha [1]_.

    It begins as the l1 penalty of strength alpha, which it is up to |w_j| = alpha, and is constant from gamma alpha on, so
    that large coefficients are not shrunk. It is not convex: methods find a stationary point.

    Parameters
    ----------
    alpha : float >= 0
        The strength at 0.
    gamma : float > 2
        From gamma alpha on the penalty is constant; 3.7 is its authors' advice.

    References
    ----------
    .. [1] J. Fan, R. Li, "Variable selection via nonconcave penalized likelihood and its oracle properties", J. Amer.
       Statist. Assoc. 96 (2001).

    Examples
    --------
    >>> penalty = SCAD(alpha=1.0, gamma=3.0)
    >>> [penalty.penalty_value(w) for w in (0.5, 2.0, 3.0, 9.0)]
    [0.5, 1.75, 2.0, 2.0]
    >>> [penalty.prox_at(v, 1.0) for v in (0.5, 1.5, 2.5, 9.0)]
    [0.0, 0.5, 2.0, 9.0]
    """

    alpha: float
    gamma: float = 3.7

    def penalty_value(self, coordinate: float) -> float:
        """Return the penalty of one coordinate."""
        size, alpha, gamma = abs(coordinate), self.alpha, self.gamma
        if size <= alpha:
            return alpha * size
        if size <= gamma * alpha:
            return (2.0 * gamma * alpha * size - size * size - alpha * alpha) / (2.0 * (gamma - 1.0))
        return 0.5 * (gamma + 1.0) * alpha * alpha

    def prox_at(self, coordinate: float, step: float) -> float:
        """Return argmin_v penalty_value(v) + (v - w_j)^2 / (2 step)."""
        size, alpha, gamma = abs(coordinate), self.alpha, self.gamma
        if step < gamma - 1.0:
            if size <= (1.0 + step) * alpha:
                return soft_threshold(coordinate, step * alpha)
            if size <= gamma * alpha:
                sign = 1.0 if coordinate > 0.0 else -1.0
                return ((gamma - 1.0) * coordinate - sign * step * gamma * alpha) / (gamma - 1.0 - step)
            return coordinate
        # concave between alpha and gamma alpha: the best of what lies below and beyond
        inner = min(max(size - step * alpha, 0.0), alpha)
        inner_value = alpha * inner + 0.5 * (inner - size) ** 2 / step
        if size <= gamma * alpha or inner_value <= 0.5 * (gamma + 1.0) * alpha * alpha:
            return inner if coordinate > 0.0 else -inner
        return coordinate

    def slope_at(self, coordinate: float) -> float:
        """Return the derivative at a coordinate other than 0."""
        falling = max((self.gamma * self.alpha - abs(coordinate)) / (self.gamma - 1.0), 0.0)
        return math.copysign(min(falling, self.alpha), coordinate)

    def curvature_at(self, coordinate: float) -> float:
        """Return the second derivative at a coordinate other than 0, where there is one."""
        return -1.0 / (self.gamma - 1.0) if self.alpha < abs(coordinate) < self.gamma * self.alpha else 0.0

    def weak_convexity(self) -> float:
        """Return the smallest c such that penalty + c/2 w^2 is convex."""
        return 1.0 / (self.gamma - 1.0)


class GroupLasso(NamedTuple):
    """alpha ((1 - l1_ratio) sum_g sqrt(d_g) ||w_g|| + l1_ratio ||w||_1), d_g the size of group g [1]_, [2]_.

    The coefficients of a group are 0 together; with an l1 part some of the others are 0, too. With K outputs, classes or
    targets, a group has the K d_g coefficients W_g of its columns for all of them, and sqrt(K d_g) ||W_g|| with the
    Frobenius norm takes the place of sqrt(d_g) ||w_g||: a column is in the model of all outputs or of none.

    Parameters
    ----------
    alpha : float >= 0
        The strength.
    groups : array_like, shape (d,)
        A label for each column of X: columns with the same label are a group.
    l1_ratio : float in [0, 1]
        0 is the group lasso, 1 the l1 penalty, between them the sparse group lasso.

    References
    ----------
    .. [1] M. Yuan, Y. Lin, "Model selection and estimation in regression with grouped variables", JRSS B 68 (2006).
    .. [2] N. Simon, J. Friedman, T. Hastie, R. Tibshirani, "A sparse-group lasso", J. Comput. Graph. Stat. 22 (2013).
    """

    alpha: float
    groups: Any
    l1_ratio: float = 0.0


#: The penalties that `Problem.linear` takes as ``penalty=``: by name, with the bounds that parameters must exceed.
PENALTIES: dict[str, tuple[type[Any], dict[str, float]]] = {
    "ElasticNet": (ElasticNet, {}),
    "MCP": (MCP, {"gamma": 0.0}),
    "SCAD": (SCAD, {"gamma": 2.0}),
    "GroupLasso": (GroupLasso, {}),
}


def Zero() -> ElasticNet:
    """Return the penalty that is 0 everywhere."""
    return ElasticNet(0.0, 0.0)


def L2(alpha: float) -> ElasticNet:
    """Return alpha/2 w_j^2."""
    return elastic_net(alpha, 0.0)


def L1(alpha: float) -> ElasticNet:
    """Return alpha |w_j|."""
    return elastic_net(alpha, 1.0)


def elastic_net(alpha: float, l1_ratio: float = 0.0) -> ElasticNet:
    """Return alpha (l1_ratio |w_j| + (1 - l1_ratio)/2 w_j^2), or raise a ValueError that says what is wrong."""
    if not isinstance(alpha, Real) or not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha must be a number >= 0 and finite, got {alpha!r}. 0 is no penalty.")
    if not isinstance(l1_ratio, Real) or not 0.0 <= l1_ratio <= 1.0:
        raise ValueError(f"l1_ratio must be a number in [0, 1], got {l1_ratio!r}. 0 is the l2 penalty, 1 the l1 penalty.")
    return ElasticNet(float(alpha) * float(l1_ratio), float(alpha) * (1.0 - float(l1_ratio)))
