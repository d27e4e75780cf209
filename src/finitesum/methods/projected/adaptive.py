"""AdaHB, AdaGrad, RMSProp, Adam and AMSGrad: steps and projections in the metric that the past subgradients make.

Their recursions, the bound of AdaHB, and where and why we deviate from the published algorithms are in
`finitesum.methods.projected.rules`.

Memory 2d to 4d numbers. A step is O(d); on sparse rows without a quadratic penalty AdaHB's averaging form with varying
momentum, AdaGrad and RMSProp in Mukkamala and Hein's form cost O(nnz log d) on the l1 ball, boxes and without constraint
(`finitesum.methods.projected.sparse_steps`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from finitesum.methods.base import Card, check_fraction
from finitesum.methods.projected.base import ProjectedMethod
from finitesum.methods.projected.options import (
    Delta,
    Form,
    Fraction,
    FractionOrGamma,
    Gamma,
    Horizon,
    Metric,
    Momentum,
    Output,
    RootOrConstant,
    Schedule,
    check_gamma,
    choice,
)
from finitesum.methods.projected.step_sizes import Scales


@dataclass(frozen=True)
class AdaHB(ProjectedMethod):
    """The adaptive heavy ball for nonsmooth problems, whose last iterate is optimal.

    References
    ----------
    .. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive
       Polyak's heavy-ball methods", ICLR 2021, Algorithm 1 and Theorems 5 and 6.
    """

    gamma: Gamma = 0.9
    delta: Delta = "auto"
    momentum: Momentum = "varying"
    form: Form = "auto"
    projection: Metric = "weighted"
    schedule: Schedule = "sqrt"
    horizon: Horizon = None
    output: Output = "last"

    name: ClassVar[str] = "adahb"
    card: ClassVar[Card] = Card(
        "adaptive heavy ball, individual convergence",
        "3 d",
        "d; nnz log d sparse",
        "d/eps^2",
        "convex",
        "Tao et al. 2021",
    )

    def auto_step_size(self, scales: Scales) -> float:
        """Return sqrt(gamma / (2 (2-gamma))) times the distance in a coordinate, times 1 - beta with constant momentum."""
        step_size = math.sqrt(self.gamma / (2.0 * (2.0 - self.gamma))) * scales.coordinate_distance
        return step_size if isinstance(self.momentum, str) else step_size * (1.0 - self.momentum)


@dataclass(frozen=True)
class AdaGrad(ProjectedMethod):
    """AdaGrad, projected, with constant step lengths: the decay is in the metric.

    References
    ----------
    .. [1] J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods for online learning and stochastic optimization",
       JMLR 12 (2011).
    """

    delta: Delta = "auto"
    projection: Metric = "weighted"
    output: Output = "last"

    name: ClassVar[str] = "adagrad"
    card: ClassVar[Card] = Card(
        "AdaGrad, projected", "2 d", "d; nnz log d sparse", "d/eps^2 mean", "convex", "Duchi et al. 2011"
    )

    def auto_step_size(self, scales: Scales) -> float:
        """Return the distance in a coordinate / sqrt(2)."""
        return scales.coordinate_distance / math.sqrt(2.0)


_VARIANTS = "V_t = rho V_{t-1} + (1-rho) g_t^2; or V_t = (1 - gamma/t) V_{t-1} + (gamma/t) g_t^2."


@dataclass(frozen=True)
class RMSProp(ProjectedMethod):
    """RMSProp, projected, in the form of Keras and torch or in that of Mukkamala and Hein.

    References
    ----------
    .. [1] T. Tieleman, G. Hinton, "Lecture 6.5 - RMSProp", Coursera, 2012.
    .. [2] M. Mukkamala, M. Hein, "Variants of RMSProp and Adagrad with logarithmic regret bounds", ICML 2017.
    """

    variant: Annotated[str, choice(_VARIANTS, "torch", "mukkamala-hein")] = "torch"
    memory: FractionOrGamma = 0.9
    delta: Delta = "auto"
    projection: Metric = "weighted"
    schedule: RootOrConstant = "sqrt"

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
        super().__post_init__()
        check_memory = check_fraction if self.variant == "torch" else check_gamma
        check_memory("memory", self.memory)

    def auto_step_size(self, scales: Scales) -> float:
        """Return sqrt(1-rho), or sqrt(gamma / (2 (2-gamma))), times the distance in a coordinate."""
        square = 1.0 - self.memory if self.variant == "torch" else self.memory / (2.0 * (2.0 - self.memory))
        return math.sqrt(square) * scales.coordinate_distance


@dataclass(frozen=True)
class Adam(ProjectedMethod):
    """Adam, projected, with corrections for its start.

    References
    ----------
    .. [1] D. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    delta: Delta = "auto"
    projection: Metric = "weighted"
    schedule: RootOrConstant = "sqrt"

    name: ClassVar[str] = "adam"
    card: ClassVar[Card] = Card("Adam, projected", "3 d", "d", "none in general", "convex", "Kingma, Ba 2015")

    def auto_step_size(self, scales: Scales) -> float:
        """Return the distance in a coordinate / 2."""
        return 0.5 * scales.coordinate_distance


@dataclass(frozen=True)
class AMSGrad(Adam):
    """AMSGrad, projected: Adam with a metric that never shrinks, without corrections for its start.

    References
    ----------
    .. [1] S. Reddi, S. Kale, S. Kumar, "On the convergence of Adam and beyond", ICLR 2018.
    """

    name: ClassVar[str] = "amsgrad"
    card: ClassVar[Card] = Card("AMSGrad, projected", "4 d", "d", "d/eps^2 mean", "convex", "Reddi et al. 2018")
