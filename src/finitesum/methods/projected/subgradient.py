"""PSG, SGD, HB, NAG and SGD with momentum: projected subgradient methods in the Euclidean metric.

Their recursions are in the table of `finitesum.methods.projected.rules`. PSG's last iterate is worse than the mean of its
iterates by a factor log T in the worst case; the last iterates of HB and NAG are not, nor is PSG's with
``schedule="linear"`` [1]_.

Memory: PSG d numbers, the others 2d; a mean as output d more. A step is O(d), or O(nnz log d) on sparse rows without a
quadratic penalty for PSG (output "last" or "average") and the averaging form (output "last") on the l1 ball, the l2 ball,
boxes, and without constraint.

References
----------
.. [1] M. Zamani, F. Glineur, "Exact convergence rate of the last iterate in subgradient methods", 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from finitesum.methods.base import Card
from finitesum.methods.projected.base import ProjectedMethod
from finitesum.methods.projected.options import Form, Fraction, Horizon, Momentum, Output, Schedule, choice
from finitesum.methods.projected.step_sizes import Scales


@dataclass(frozen=True)
class PSG(ProjectedMethod):
    """The projected subgradient method.

    References
    ----------
    .. [1] N. Shor, "Minimization methods for non-differentiable functions", 1985.
    .. [2] A. Rakhlin, O. Shamir, K. Sridharan, "Making gradient descent optimal for strongly convex stochastic
       optimization", ICML 2012, for the output "suffix".
    .. [3] O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013, for "polynomial".
    """

    schedule: Schedule = "sqrt"
    horizon: Horizon = None
    output: Output = "last"

    name: ClassVar[str] = "psg"
    card: ClassVar[Card] = Card(
        "projected subgradient",
        "d",
        "d; nnz log d sparse",
        "log^2(1/eps)/eps^2 last, 1/eps^2 mean",
        "convex",
        "Shor 1985",
    )

    def auto_step_size(self, scales: Scales) -> float:
        """Return distance / (sqrt(2) M), over the root of the number of components where the steps are constant."""
        return scales.distance / (math.sqrt(2.0) * scales.subgradient)


@dataclass(frozen=True)
class SGD(PSG):
    """Stochastic (sub)gradient descent, projected: the method PSG by the name that it has with stochastic subgradients.

    References
    ----------
    .. [1] H. Robbins, S. Monro, "A stochastic approximation method", Ann. Math. Stat. 22 (1951).
    """

    name: ClassVar[str] = "sgd"
    card: ClassVar[Card] = Card(
        "stochastic gradient, projected", "d", "d; nnz log d sparse", "1/eps^2 mean", "convex", "Robbins, Monro 1951"
    )


@dataclass(frozen=True)
class HB(ProjectedMethod):
    """The heavy ball for nonsmooth problems, whose last iterate is optimal.

    References
    ----------
    .. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive
       Polyak's heavy-ball methods", ICLR 2021, Theorems 3 and 4.
    """

    momentum: Momentum = "varying"
    form: Form = "auto"
    schedule: Schedule = "sqrt"
    horizon: Horizon = None
    output: Output = "last"

    name: ClassVar[str] = "hb"
    card: ClassVar[Card] = Card(
        "heavy ball, individual convergence", "2 d", "d; nnz log d sparse", "1/eps^2", "convex", "Tao et al. 2021"
    )

    def auto_step_size(self, scales: Scales) -> float:
        """Return distance / (sqrt(2) M), times 1 - beta with constant momentum."""
        step_size = scales.distance / (math.sqrt(2.0) * scales.subgradient)
        return step_size if isinstance(self.momentum, str) else step_size * (1.0 - self.momentum)


@dataclass(frozen=True)
class NAG(ProjectedMethod):
    """Nesterov's extrapolation for nonsmooth problems, whose last iterate is optimal.

    References
    ----------
    .. [1] W. Tao, Z. Pan, G. Wu, Q. Tao, "The strength of Nesterov's extrapolation in the individual convergence of
       nonsmooth optimization", IEEE TNNLS 31 (2020).
    """

    schedule: Schedule = "sqrt"
    horizon: Horizon = None

    name: ClassVar[str] = "nag"
    card: ClassVar[Card] = Card(
        "Nesterov extrapolation, individual convergence", "2 d", "d", "1/eps^2", "convex", "Tao et al. 2020"
    )

    def auto_step_size(self, scales: Scales) -> float:
        """Return sqrt(2) distance / M."""
        return math.sqrt(2.0) * scales.distance / scales.subgradient


@dataclass(frozen=True)
class SGDMomentum(ProjectedMethod):
    """Stochastic gradient descent with momentum, projected, as Keras or as torch has it.

    References
    ----------
    .. [1] B. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
    """

    momentum: Fraction = 0.9
    variant: Annotated[str, choice("Momentum on the true displacement, or on a sum.", "keras", "torch")] = "keras"
    schedule: Schedule = "sqrt"
    horizon: Horizon = None

    name: ClassVar[str] = "sgd-momentum"
    card: ClassVar[Card] = Card(
        "stochastic gradient with momentum, projected", "2 d", "d", "1/eps^2 mean", "convex", "Polyak 1964"
    )

    def auto_step_size(self, scales: Scales) -> float:
        """Return (1-beta) distance / (sqrt(2) M)."""
        return (1.0 - self.momentum) * scales.distance / (math.sqrt(2.0) * scales.subgradient)
