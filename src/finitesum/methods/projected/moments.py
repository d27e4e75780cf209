"""SGD, SGD with momentum, Adam and AMSGrad in projected form: what the heavy-ball methods are compared with.

    SGD            w_{t+1} = P(w_t - a_t g_t)
    SGD-momentum   "keras": w_{t+1} = P(w_t - a_t g_t + beta (w_t - w_{t-1})), the true displacement after projection
                   "torch": b_t = beta b_{t-1} + g_t,  w_{t+1} = P(w_t - a_t b_t)
    Adam           m_t = beta1 m_{t-1} + (1-beta1) g_t,  V_t = beta2 V_{t-1} + (1-beta2) g_t^2,
                   s_t = sqrt(V_t / (1-beta2^t)) + delta,  w_{t+1} = P_t(w_t - a_t m_t / (1-beta1^t) / s_t)
    AMSGrad        m_t, V_t as in Adam,  s_t = sqrt(max_{k<=t} V_k) + delta,  w_{t+1} = P_t(w_t - a_t m_t/s_t)

P_t is the projection in the metric s_t (see `finitesum.methods.projected.adaptive` for why the Euclidean one is wrong).
a_t is alpha/sqrt(t) by default, which convex problems need; "constant" is what neural networks are trained with. The
two forms of SGD-momentum differ as soon as a_t varies or a constraint acts. A quadratic penalty is a part of the
subgradient; a step is O(d). SGD is the projected subgradient method by the name that it has with stochastic
subgradients.

References
----------
.. [1] D. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
.. [2] S. Reddi, S. Kale, S. Kumar, "On the convergence of Adam and beyond", ICLR 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from finitesum.methods.base import Auto, Card, check_choice, check_fraction, check_positive
from finitesum.methods.projected.base import ProjectedMethod, check_delta, check_schedule, chosen_delta
from finitesum.methods.projected.step_sizes import Scales
from finitesum.methods.projected.steps import (
    CORRECTED,
    CORRECTED_MEAN,
    GRADIENT_MEAN,
    GRADIENT_SUM,
    LARGEST,
    OUTPUTS,
    SCHEDULES,
    Rule,
)

PROJECTIONS = ("weighted", "euclidean")


@dataclass(frozen=True)
class SGD(ProjectedMethod):
    """Stochastic (sub)gradient descent, projected: w_{t+1} = P(w_t - a_t g_t).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is distance / (sqrt(2) M), divided by the root of the number of components if the step is constant.
    schedule : {"sqrt", "horizon", "linear", "constant"}
        alpha/sqrt(t), alpha/sqrt(T), alpha/sqrt(T) (1 - (t-1)/T), or alpha.
    horizon : float > 0, optional
        The passes that the run will have, for the schedules with T.
    output : {"last", "average", "suffix", "polynomial"}
        Which iterate, or mean of them, is reported.

    Raises
    ------
    ValueError
        A parameter is out of range, or a horizon is missing.

    Examples
    --------
    >>> SGD(schedule="linear")
    Traceback (most recent call last):
    ...
    ValueError: schedule="linear" needs horizon, the number of passes that the run will have.

    References
    ----------
    .. [1] H. Robbins, S. Monro, "A stochastic approximation method", Ann. Math. Stat. 22 (1951).
    """

    step_size: float | Auto = "auto"
    schedule: str = "sqrt"
    horizon: float | None = None
    output: str = "last"

    name: ClassVar[str] = "sgd"
    card: ClassVar[Card] = Card(
        "stochastic gradient, projected", "d", "d; nnz log d sparse", "1/eps^2 mean", "convex", "Robbins, Monro 1951"
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_schedule(self.schedule, self.horizon)
        check_choice("output", self.output, tuple(OUTPUTS))

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return Rule(schedule=SCHEDULES[self.schedule], output=OUTPUTS[self.output])

    def auto_step_size(self, scales: Scales) -> float:
        """Return distance / (sqrt(2) M)."""
        return scales.distance / (math.sqrt(2.0) * scales.subgradient)


@dataclass(frozen=True)
class SGDMomentum(ProjectedMethod):
    """Stochastic gradient descent with momentum, projected.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is (1-beta) distance / (sqrt(2) M).
    momentum : float in [0, 1)
        beta.
    variant : {"keras", "torch"}
        Momentum on the true displacement, or on a sum of subgradients.
    schedule : {"sqrt", "horizon", "linear", "constant"}
        alpha/sqrt(t), alpha/sqrt(T), alpha/sqrt(T) (1 - (t-1)/T), or alpha.
    horizon : float > 0, optional
        The passes that the run will have, for the schedules with T.

    Raises
    ------
    ValueError
        A parameter is out of range, or a horizon is missing.

    Examples
    --------
    >>> SGDMomentum(momentum=1.0)
    Traceback (most recent call last):
    ...
    ValueError: momentum must lie in [0, 1), got 1.0.

    References
    ----------
    .. [1] B. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
    """

    step_size: float | Auto = "auto"
    momentum: float = 0.9
    variant: str = "keras"
    schedule: str = "sqrt"
    horizon: float | None = None

    name: ClassVar[str] = "sgd-momentum"
    card: ClassVar[Card] = Card(
        "stochastic gradient with momentum, projected", "2 d", "d", "1/eps^2 mean", "convex", "Polyak 1964"
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_fraction("momentum", self.momentum)
        check_choice("variant", self.variant, ("keras", "torch"))
        check_schedule(self.schedule, self.horizon)

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        schedule = SCHEDULES[self.schedule]
        if self.variant == "keras":
            return Rule(momentum=float(self.momentum), schedule=schedule)
        return Rule(direction=GRADIENT_SUM, direction_memory=float(self.momentum), schedule=schedule)

    def auto_step_size(self, scales: Scales) -> float:
        """Return (1-beta) distance / (sqrt(2) M)."""
        return (1.0 - self.momentum) * scales.distance / (math.sqrt(2.0) * scales.subgradient)


@dataclass(frozen=True)
class Adam(ProjectedMethod):
    """Adam, projected, with corrections for its start.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is the distance in a coordinate / 2.
    beta1, beta2 : float in [0, 1)
        Memory of the subgradients and of their squares.
    delta : float >= 0 or "auto"
        Keeps the metric positive; "auto" is 1e-8, and must be replaced on simplex and half-space.
    projection : {"weighted", "euclidean"}
        In the metric; or Euclidean, which ends in the wrong place on l1 and l2 balls.
    schedule : {"sqrt", "constant"}
        alpha/sqrt(t) or alpha.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> Adam(beta1=1.0)
    Traceback (most recent call last):
    ...
    ValueError: beta1 must lie in [0, 1), got 1.0.

    References
    ----------
    .. [1] D. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    step_size: float | Auto = "auto"
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float | Auto = "auto"
    projection: str = "weighted"
    schedule: str = "sqrt"

    name: ClassVar[str] = "adam"
    card: ClassVar[Card] = Card("Adam, projected", "3 d", "d", "none in general", "convex", "Kingma, Ba 2015")

    def __post_init__(self) -> None:
        _check_moments(self)

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return _moment_rule(self, problem)._replace(metric=CORRECTED, direction=CORRECTED_MEAN)

    def auto_step_size(self, scales: Scales) -> float:
        """Return the distance in a coordinate / 2."""
        return 0.5 * scales.coordinate_distance


@dataclass(frozen=True)
class AMSGrad(ProjectedMethod):
    """AMSGrad, projected: Adam with a metric that never shrinks, without corrections for its start.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is the distance in a coordinate / 2.
    beta1, beta2 : float in [0, 1)
        Memory of the subgradients and of their squares.
    delta : float >= 0 or "auto"
        Keeps the metric positive; "auto" is 1e-8, and must be replaced on simplex and half-space.
    projection : {"weighted", "euclidean"}
        In the metric; or Euclidean, which ends in the wrong place on l1 and l2 balls.
    schedule : {"sqrt", "constant"}
        alpha/sqrt(t) or alpha.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> AMSGrad(beta2=1.5)
    Traceback (most recent call last):
    ...
    ValueError: beta2 must lie in [0, 1), got 1.5.

    References
    ----------
    .. [1] S. Reddi, S. Kale, S. Kumar, "On the convergence of Adam and beyond", ICLR 2018.
    """

    step_size: float | Auto = "auto"
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float | Auto = "auto"
    projection: str = "weighted"
    schedule: str = "sqrt"

    name: ClassVar[str] = "amsgrad"
    card: ClassVar[Card] = Card("AMSGrad, projected", "4 d", "d", "d/eps^2 mean", "convex", "Reddi et al. 2018")

    def __post_init__(self) -> None:
        _check_moments(self)

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return _moment_rule(self, problem)._replace(metric=LARGEST, direction=GRADIENT_MEAN)

    def auto_step_size(self, scales: Scales) -> float:
        """Return the distance in a coordinate / 2."""
        return 0.5 * scales.coordinate_distance


def _check_moments(method: Adam | AMSGrad) -> None:
    check_positive("step_size", method.step_size)
    check_fraction("beta1", method.beta1)
    check_fraction("beta2", method.beta2)
    check_delta(method.delta)
    check_choice("projection", method.projection, PROJECTIONS)
    check_choice("schedule", method.schedule, ("sqrt", "constant"))


def _moment_rule(method: Adam | AMSGrad, problem: Any) -> Rule:
    return Rule(
        metric_memory=float(method.beta2),
        delta=chosen_delta(method.delta, problem),
        is_weighted=method.projection == "weighted",
        direction_memory=float(method.beta1),
        schedule=SCHEDULES[method.schedule],
    )
