"""AdaHB, AdaGrad and RMSProp: a step and a projection in the metric that the past subgradients make.

AdaHB, with V_0 = 0, t = 1, 2, ..., w_0 = w_1, all products and quotients by coordinates, 0/0 = 0::

    V_t = (1 - gamma/t) V_{t-1} + (gamma/t) g_t^2,      s_t = sqrt(V_t) + delta/sqrt(t)                  [1, Algorithm 1]

    displacement   w_{t+1} = P_t(w_t - alpha/((t+2) sqrt(t)) g_t/s_t + t/(t+2) (w_t - w_{t-1}))               [1, eq. 12]
    averaging      z_{t+1} = P_t(z_t - alpha/sqrt(t) g_t/s_t),      w_{t+1} = w_t + (z_{t+1} - w_t)/(t+2)

and with a constant momentum beta [1, Theorem 6; output the mean of w_1..w_T] ::

    displacement   w_{t+1} = P_t(w_t - alpha/sqrt(t) g_t/s_t + beta (w_t - w_{t-1}))
    averaging      z_{t+1} = P_t(z_t - alpha/((1-beta) sqrt(t)) g_t/s_t),   w_{t+1} = beta w_t + (1-beta) z_{t+1}

**Where we deviate from [1].** P_t is the projection in the metric s_t, argmin_{y in Q} sum_i s_{t,i} (y_i - x_i)^2.
Algorithm 1 prints the Euclidean projection, while its proof needs the weighted one, and the difference is not a detail:

    minimise g'w over the unit l1 ball with g = (1, 0.9), from 0. Always g/s = (1, 1)/sqrt(.), so that the Euclidean method
    stays on w_1 = w_2 and ends in (-1/2, -1/2), f = -0.95, for every alpha and gamma; the minimum is -1, at (-1, 0).

A fixed point of the Euclidean method has -g/s in the normal cone in place of -g. With a hinge loss on an l1 ball it stalls
2e-2 above the minimum on a9a and ijcnn1, 7 to 170 times farther than the weighted one, and is some five times farther on
w8a after ten passes; on covtype the displacement form happens to be better with it (benchmarks/results/heavy_ball.md).
For sets that bound coordinates one by one, and without constraint, both projections are the same.
``projection="euclidean"`` is there for comparison with the literature. The same holds for AdaGrad, RMSProp and Adam.

The bound of the averaging form [1, Theorem 5, with constants], where D is the width of the set along a coordinate::

    F(w_t) - F* <= (F(w_1) - F* + (D^2/(2 alpha) + alpha (2-gamma)/gamma) sum_i (sqrt(t V_{t,i}) + delta)) / (t+1)

For the displacement form it holds only with the distances that z_k = w_k + k (w_k - w_{k-1}) reaches outside of the set.
gamma > 1 would break sqrt(t) s_t >= sqrt(t-1) s_{t-1}, on which all of it rests. With gamma = 1, sqrt(t) s_t is
AdaGrad's metric. gamma < 1 does not favour recent subgradients: V_t weighs g_k^2 like k^(gamma-1).

The others, with a_t of the schedule::

    AdaGrad    G_t = G_{t-1} + g_t^2,  s_t = sqrt(G_t) + delta,  w_{t+1} = P_t(w_t - alpha g_t/s_t)
    RMSProp    "torch": V_t = rho V_{t-1} + (1-rho) g_t^2,  s_t = sqrt(V_t) + delta,  w_{t+1} = P_t(w_t - a_t g_t/s_t)
               "mukkamala-hein": V_t, s_t as in AdaHB,  w_{t+1} = P_t(w_t - alpha/sqrt(t) g_t/s_t)

Memory 2d to 3d numbers. A step is O(d); on sparse rows without a quadratic penalty AdaHB's averaging form with varying
momentum, AdaGrad and RMSProp in Mukkamala and Hein's form cost O(nnz log d) on the l1 ball, boxes and without constraint
(`finitesum.methods.projected.sparse_steps`).

References
----------
.. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive Polyak's
   heavy-ball methods", ICLR 2021, arXiv 2102.07314.
.. [2] J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods for online learning and stochastic optimization",
   JMLR 12 (2011).
.. [3] M. Mukkamala, M. Hein, "Variants of RMSProp and Adagrad with logarithmic regret bounds", ICML 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from finitesum.methods.base import Auto, Card, check_choice, check_fraction, check_positive
from finitesum.methods.projected.base import (
    ProjectedMethod,
    check_delta,
    check_momentum,
    check_schedule,
    chosen_delta,
    chosen_form,
    momentum_number,
)
from finitesum.methods.projected.step_sizes import Scales
from finitesum.methods.projected.steps import FORGETTING, MEAN_SQUARE, OUTPUTS, SCHEDULES, SQUARE_SUM, Rule

PROJECTIONS = ("weighted", "euclidean")


def check_gamma(gamma: float) -> None:
    """Raise unless 0 < gamma <= 1."""
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must lie in (0, 1], got {gamma}: beyond 1 the metric times sqrt(t) could shrink.")


@dataclass(frozen=True)
class AdaHB(ProjectedMethod):
    """The adaptive heavy ball for problems with kinks, whose last iterate is optimal.

    w_{t+1} = P_t(w_t - alpha/((t+2) sqrt(t)) g_t/s_t + t/(t+2) (w_t - w_{t-1})), or its averaging form (see the module).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is sqrt(gamma / (2 (2-gamma))) times the distance in a coordinate, times 1 - beta with constant
        momentum.
    gamma : float in (0, 1]
        How much the newest squares weigh: gamma/t.
    delta : float >= 0 or "auto"
        Keeps the metric positive; "auto" is 1e-8, and must be replaced on simplex and half-space.
    momentum : "varying" or float in [0, 1)
        "varying" is t/(t+2); with a number, beta, the bound is about ``output="average"``.
    form : {"auto", "displacement", "averaging"}
        As published; as the theorem has it, stable, and fast on sparse rows. "auto" averages on CSR rows of more than
        5000 columns (with varying momentum).
    projection : {"weighted", "euclidean"}
        In the metric, as the proofs have it; or as printed, which ends in the wrong place on l1 and l2 balls.
    schedule : {"sqrt", "horizon", "linear", "constant"}
        What stands in place of 1/sqrt(t).
    horizon : float > 0, optional
        The passes that the run will have, for "horizon" and "linear".
    output : {"last", "average", "suffix", "polynomial"}
        Which iterate, or mean of them, is reported.

    Raises
    ------
    ValueError
        A parameter is out of range, or a horizon is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from finitesum.constraints import L1Ball
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge", constraint=L1Ball(1.0))
    >>> method = AdaHB(step_size=0.75, gamma=1.0)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.array([1])).x.round(6)
    array([0.25])

    References
    ----------
    .. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive
       Polyak's heavy-ball methods", ICLR 2021, Algorithm 1 and Theorems 5 and 6.
    """

    step_size: float | Auto = "auto"
    gamma: float = 0.9
    delta: float | Auto = "auto"
    momentum: float | str = "varying"
    form: str = "auto"
    projection: str = "weighted"
    schedule: str = "sqrt"
    horizon: float | None = None
    output: str = "last"

    name: ClassVar[str] = "adahb"
    card: ClassVar[Card] = Card(
        "adaptive heavy ball, individual convergence",
        "3 d",
        "d; nnz log d sparse",
        "d/eps^2",
        "convex",
        "Tao et al. 2021",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_gamma(self.gamma)
        check_delta(self.delta)
        check_momentum(self.momentum)
        check_choice("form", self.form, ("auto", "displacement", "averaging"))
        check_choice("projection", self.projection, PROJECTIONS)
        check_schedule(self.schedule, self.horizon)
        check_choice("output", self.output, tuple(OUTPUTS))

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return Rule(
            form=chosen_form(self.form, self.momentum, problem),
            momentum=momentum_number(self.momentum),
            metric=MEAN_SQUARE,
            metric_memory=float(self.gamma),
            delta=chosen_delta(self.delta, problem),
            is_weighted=self.projection == "weighted",
            schedule=SCHEDULES[self.schedule],
            output=OUTPUTS[self.output],
        )

    def auto_step_size(self, scales: Scales) -> float:
        """Return the bound's best alpha for the expected distance in a coordinate."""
        step_size = math.sqrt(self.gamma / (2.0 * (2.0 - self.gamma))) * scales.coordinate_distance
        return step_size if isinstance(self.momentum, str) else step_size * (1.0 - self.momentum)


@dataclass(frozen=True)
class AdaGrad(ProjectedMethod):
    """AdaGrad, projected: w_{t+1} = P_t(w_t - alpha g_t/s_t) with s_t = sqrt(sum of squares) + delta.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is the distance in a coordinate / sqrt(2).
    delta : float >= 0 or "auto"
        Keeps the metric positive; "auto" is 1e-8, and must be replaced on simplex and half-space.
    projection : {"weighted", "euclidean"}
        In the metric; or Euclidean, which ends in the wrong place on l1 and l2 balls.
    output : {"last", "average", "suffix", "polynomial"}
        Which iterate, or mean of them, is reported.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge")
    >>> method = AdaGrad(step_size=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.array([1])).x.round(6)
    array([0.5])

    References
    ----------
    .. [1] J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods for online learning and stochastic optimization",
       JMLR 12 (2011).
    """

    step_size: float | Auto = "auto"
    delta: float | Auto = "auto"
    projection: str = "weighted"
    output: str = "last"

    name: ClassVar[str] = "adagrad"
    card: ClassVar[Card] = Card(
        "AdaGrad, projected", "2 d", "d; nnz log d sparse", "d/eps^2 mean", "convex", "Duchi et al. 2011"
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_delta(self.delta)
        check_choice("projection", self.projection, PROJECTIONS)
        check_choice("output", self.output, tuple(OUTPUTS))

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return Rule(
            metric=SQUARE_SUM,
            delta=chosen_delta(self.delta, problem),
            is_weighted=self.projection == "weighted",
            schedule=SCHEDULES["constant"],
            output=OUTPUTS[self.output],
        )

    def auto_step_size(self, scales: Scales) -> float:
        """Return the distance in a coordinate / sqrt(2)."""
        return scales.coordinate_distance / math.sqrt(2.0)


@dataclass(frozen=True)
class RMSProp(ProjectedMethod):
    """RMSProp, projected, in the form of Keras and torch or in that of Mukkamala and Hein.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is sqrt(1-rho), or sqrt(gamma / (2 (2-gamma))), times the distance in a coordinate.
    variant : {"torch", "mukkamala-hein"}
        V_t = rho V_{t-1} + (1-rho) g_t^2; or V_t = (1 - gamma/t) V_{t-1} + (gamma/t) g_t^2.
    memory : float
        rho in [0, 1), or gamma in (0, 1].
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
    >>> RMSProp(variant="mukkamala-hein", memory=2.0)
    Traceback (most recent call last):
    ...
    ValueError: gamma must lie in (0, 1], got 2.0: beyond 1 the metric times sqrt(t) could shrink.

    References
    ----------
    .. [1] T. Tieleman, G. Hinton, "Lecture 6.5 - RMSProp", Coursera, 2012.
    .. [2] M. Mukkamala, M. Hein, "Variants of RMSProp and Adagrad with logarithmic regret bounds", ICML 2017.
    """

    step_size: float | Auto = "auto"
    variant: str = "torch"
    memory: float = 0.9
    delta: float | Auto = "auto"
    projection: str = "weighted"
    schedule: str = "sqrt"

    name: ClassVar[str] = "rmsprop"
    card: ClassVar[Card] = Card(
        "RMSProp, projected",
        "2 d",
        "d",
        "none known (torch), d/eps^2 mean (M. and H.)",
        "convex",
        "Mukkamala, Hein 2017",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_choice("variant", self.variant, ("torch", "mukkamala-hein"))
        if self.variant == "torch":
            check_fraction("memory", self.memory)
        else:
            check_gamma(self.memory)
        check_delta(self.delta)
        check_choice("projection", self.projection, PROJECTIONS)
        check_choice("schedule", self.schedule, ("sqrt", "constant"))

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return Rule(
            metric=FORGETTING if self.variant == "torch" else MEAN_SQUARE,
            metric_memory=float(self.memory),
            delta=chosen_delta(self.delta, problem),
            is_weighted=self.projection == "weighted",
            schedule=SCHEDULES[self.schedule],
        )

    def auto_step_size(self, scales: Scales) -> float:
        """Return a step in proportion to the distance in a coordinate."""
        share = 1.0 - self.memory if self.variant == "torch" else self.memory / (2.0 * (2.0 - self.memory))
        return math.sqrt(share) * scales.coordinate_distance
