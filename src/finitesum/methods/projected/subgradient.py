"""PSG, HB and NAG: projected subgradient, heavy ball, and Nesterov's extrapolation for problems with kinks.

With a subgradient g_t at w_t, an unbiased estimate of one, or one of a mini-batch, t = 1, 2, ..., w_0 = w_1::

    PSG   w_{t+1} = P(w_t - alpha/sqrt(t) g_t)
    HB    w_{t+1} = P(w_t - alpha/((t+2) sqrt(t)) g_t + t/(t+2) (w_t - w_{t-1}))                       [1, Theorem 3]
          w_{t+1} = P(w_t - alpha/sqrt(t) g_t + beta (w_t - w_{t-1})),   output the mean of w_1..w_T      [1, Theorem 4]
    NAG   y_t = w_t + (t-2)/(t+1) (w_t - w_{t-1}),   w_{t+1} = P(y_t - alpha/(t+1)^(3/2) g(y_t))              [2]

PSG's last iterate is worse than the mean of its iterates by a factor log T in the worst case; the last iterates of HB and
NAG are not.

**Two forms of the heavy ball.** Above is the displacement form, as published. The averaging form ::

    z_{t+1} = P(z_t - alpha/sqrt(t) g_t),      w_{t+1} = w_t + (z_{t+1} - w_t)/(t+2),      g_t at w_t

has the same iterates while P does nothing, since z_{t+1} = w_{t+1} + (t+1)(w_{t+1} - w_t). Where the constraint acts they
differ: the published proof takes z_{t+1} for a projection onto the set, which it is in the averaging form alone, so that
there the bound ::

    F(w_t) - F* <= (F(w_1) - F*)/(t+1) + sqrt(t)/(t+1) (alpha M^2 + D^2/(2 alpha)),      D the set's diameter

holds as stated. It also does not amplify rounding errors, as the displacement form does on the l1 ball by orders of
magnitude, and on sparse rows a step costs O(nnz log d) in place of O(d). In return the displacement form is
often, not always, the more accurate one in practice: its last operation is a projection, which finds the solution's face.
``form="auto"`` averages on sparse rows of more than 5000 columns.

With constant momentum the averaging form is z_{t+1} = P(z_t - alpha/((1-beta) sqrt(t)) g_t), w_{t+1} = beta w_t + (1-beta)
z_{t+1}.

Schedules: "sqrt" as above; "horizon" has sqrt(T) in place of sqrt(t), T the steps of `horizon` passes; "linear" is
alpha/sqrt(T) (1 - (t-1)/T), for which the last iterate of PSG is as good as any [4]; "constant" is alpha.

A quadratic penalty is a part of the subgradient. Memory: PSG d numbers, HB and NAG 2d; a mean as output d more. A step is
O(d), or O(nnz log d) on sparse rows without a quadratic penalty for PSG (output "last" or "average") and the averaging
form (output "last") on the l1 ball, the l2 ball, boxes, and without constraint.

References
----------
.. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive Polyak's
   heavy-ball methods", ICLR 2021, arXiv 2102.07314.
.. [2] W. Tao, Z. Pan, G. Wu, Q. Tao, "The strength of Nesterov's extrapolation in the individual convergence of nonsmooth
   optimization", IEEE TNNLS 31 (2020).
.. [3] O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013.
.. [4] M. Zamani, F. Glineur, "Exact convergence rate of the last iterate in subgradient methods", 2023.
.. [5] A. Rakhlin, O. Shamir, K. Sridharan, "Making gradient descent optimal for strongly convex stochastic optimization",
   ICML 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from finitesum.methods.base import Auto, Card, check_choice, check_positive
from finitesum.methods.projected.base import (
    ProjectedMethod,
    check_momentum,
    check_schedule,
    chosen_form,
    momentum_number,
)
from finitesum.methods.projected.step_sizes import Scales
from finitesum.methods.projected.steps import EXTRAPOLATED, OUTPUTS, SCHEDULES, Rule


@dataclass(frozen=True)
class PSG(ProjectedMethod):
    """The projected subgradient method: w_{t+1} = P(w_t - alpha_t g_t).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is distance / (sqrt(2) M), from the size of the set and of the subgradients at the start.
    schedule : {"sqrt", "horizon", "linear", "constant"}
        alpha/sqrt(t), alpha/sqrt(T), alpha/sqrt(T) (1 - (t-1)/T), or alpha.
    horizon : float > 0, optional
        The passes that the run will have, for the schedules with T.
    output : {"last", "average", "suffix", "polynomial"}
        The last iterate; the mean of w_1..w_T; the mean of the last half to three quarters of them [2]_; the mean in
        which w_t weighs like t^3 [3]_.

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
    >>> method = PSG(step_size=0.25)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.array([1])).x
    array([0.5])

    References
    ----------
    .. [1] N. Shor, "Minimization methods for non-differentiable functions", 1985.
    .. [2] A. Rakhlin, O. Shamir, K. Sridharan, "Making gradient descent optimal for strongly convex stochastic
       optimization", ICML 2012.
    .. [3] O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013.
    """

    step_size: float | Auto = "auto"
    schedule: str = "sqrt"
    horizon: float | None = None
    output: str = "last"

    name: ClassVar[str] = "psg"
    card: ClassVar[Card] = Card(
        "projected subgradient",
        "d",
        "d; nnz log d sparse",
        "log^2(1/eps)/eps^2 last, 1/eps^2 mean",
        "convex",
        "Shor 1985",
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
class HB(ProjectedMethod):
    """The heavy ball for problems with kinks, whose last iterate is optimal.

    w_{t+1} = P(w_t - alpha/((t+2) sqrt(t)) g_t + t/(t+2) (w_t - w_{t-1})), or its averaging form (see the module).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is distance / (sqrt(2) M), times 1 - beta with constant momentum.
    momentum : "varying" or float in [0, 1)
        "varying" is t/(t+2); with a number, beta, the bound is about ``output="average"``.
    form : {"auto", "displacement", "averaging"}
        As published; as the theorem has it, stable, and fast on sparse rows. "auto" averages on CSR rows of more than
        5000 columns (with varying momentum).
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
    >>> method = HB(step_size=0.75)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.array([1])).x
    array([0.5])

    References
    ----------
    .. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive
       Polyak's heavy-ball methods", ICLR 2021, Theorems 3 and 4.
    """

    step_size: float | Auto = "auto"
    momentum: float | str = "varying"
    form: str = "auto"
    schedule: str = "sqrt"
    horizon: float | None = None
    output: str = "last"

    name: ClassVar[str] = "hb"
    card: ClassVar[Card] = Card(
        "heavy ball, individual convergence", "2 d", "d; nnz log d sparse", "1/eps^2", "convex", "Tao et al. 2021"
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_momentum(self.momentum)
        check_choice("form", self.form, ("auto", "displacement", "averaging"))
        check_schedule(self.schedule, self.horizon)
        check_choice("output", self.output, tuple(OUTPUTS))

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return Rule(
            form=chosen_form(self.form, self.momentum, problem),
            momentum=momentum_number(self.momentum),
            schedule=SCHEDULES[self.schedule],
            output=OUTPUTS[self.output],
        )

    def auto_step_size(self, scales: Scales) -> float:
        """Return distance / (sqrt(2) M), times 1 - beta with constant momentum."""
        step_size = scales.distance / (math.sqrt(2.0) * scales.subgradient)
        return step_size if isinstance(self.momentum, str) else step_size * (1.0 - self.momentum)


@dataclass(frozen=True)
class NAG(ProjectedMethod):
    """Nesterov's extrapolation for problems with kinks, whose last iterate is optimal.

    y_t = w_t + (t-2)/(t+1) (w_t - w_{t-1}), w_{t+1} = P(y_t - alpha/(t+1)^(3/2) g(y_t))

    Parameters
    ----------
    step_size : float > 0 or "auto"
        alpha; "auto" is sqrt(2) distance / M: twice that of the heavy ball.
    schedule : {"sqrt", "horizon", "linear", "constant"}
        What stands in place of 1/sqrt(t+1).
    horizon : float > 0, optional
        The passes that the run will have, for "horizon" and "linear".

    Raises
    ------
    ValueError
        A parameter is out of range, or a horizon is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge")
    >>> method = NAG(step_size=2.0 ** 1.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.array([0])).x.round(12)
    array([-1.])

    References
    ----------
    .. [1] W. Tao, Z. Pan, G. Wu, Q. Tao, "The strength of Nesterov's extrapolation in the individual convergence of
       nonsmooth optimization", IEEE TNNLS 31 (2020).
    """

    step_size: float | Auto = "auto"
    schedule: str = "sqrt"
    horizon: float | None = None

    name: ClassVar[str] = "nag"
    card: ClassVar[Card] = Card(
        "Nesterov extrapolation, individual convergence", "2 d", "d", "1/eps^2", "convex", "Tao et al. 2020"
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_schedule(self.schedule, self.horizon)

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes."""
        return Rule(form=EXTRAPOLATED, schedule=SCHEDULES[self.schedule])

    def auto_step_size(self, scales: Scales) -> float:
        """Return sqrt(2) distance / M."""
        return math.sqrt(2.0) * scales.distance / scales.subgradient
