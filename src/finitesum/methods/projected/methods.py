"""The projected methods: PSG, SGD, HB, NAG and SGD with momentum in the Euclidean metric; AdaHB, AdaGrad, RMSProp, Adam and
AMSGrad in the metric that the past subgradients make.

Their recursions, and where we deviate from the published algorithms, are in `finitesum.methods.projected.rules`.
PSG's last iterate is worse than the mean of its iterates by a factor log T in the worst case; the last iterates of HB, NAG
and AdaHB are not, nor is PSG's with ``schedule="linear"`` [1]_.

Memory: PSG d numbers, the others 2d to 4d; a mean as output d more. A step is O(d). On sparse rows without a quadratic
penalty it is O(nnz log d) on the l1 ball, boxes and without constraint (in the Euclidean metric also on the l2 ball) for
PSG (output "last" or "average"), AdaGrad, RMSProp in Mukkamala and Hein's form, and the averaging form of HB and AdaHB with
varying momentum (output "last"): see `finitesum.methods.projected.sparse_steps`.

References
----------
.. [1] M. Zamani, F. Glineur, "Exact convergence rate of the last iterate in subgradient methods", 2023.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from finitesum.methods.parameters import check_fraction
from finitesum.methods.projected import options
from finitesum.methods.projected.base import ProjectedMethod
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

    schedule: options.Schedule = "sqrt"
    horizon: options.Horizon = None
    output: options.Output = "last"

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


@dataclass(frozen=True)
class HB(ProjectedMethod):
    """The heavy ball for nonsmooth problems, whose last iterate is optimal.

    References
    ----------
    .. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive
       Polyak's heavy-ball methods", ICLR 2021, Theorems 3 and 4.
    """

    momentum: options.Momentum = "varying"
    form: options.Form = "auto"
    schedule: options.Schedule = "sqrt"
    horizon: options.Horizon = None
    output: options.Output = "last"

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

    schedule: options.Schedule = "sqrt"
    horizon: options.Horizon = None

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

    momentum: options.Fraction = 0.9
    variant: Annotated[str, options.choice("Momentum on the true displacement, or on a sum.", "keras", "torch")] = "keras"
    schedule: options.Schedule = "sqrt"
    horizon: options.Horizon = None

    def auto_step_size(self, scales: Scales) -> float:
        """Return (1-beta) distance / (sqrt(2) M)."""
        return (1.0 - self.momentum) * scales.distance / (math.sqrt(2.0) * scales.subgradient)


@dataclass(frozen=True)
class AdaHB(ProjectedMethod):
    """The adaptive heavy ball for nonsmooth problems, whose last iterate is optimal.

    References
    ----------
    .. [1] W. Tao, S. Long, G. Wu, Q. Tao, "The role of momentum parameters in the optimal convergence of adaptive
       Polyak's heavy-ball methods", ICLR 2021, Algorithm 1 and Theorems 5 and 6.
    """

    gamma: options.Gamma = 0.9
    delta: options.Delta = "auto"
    momentum: options.Momentum = "varying"
    form: options.Form = "auto"
    projection: options.Metric = "weighted"
    schedule: options.Schedule = "sqrt"
    horizon: options.Horizon = None
    output: options.Output = "last"

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

    delta: options.Delta = "auto"
    projection: options.Metric = "weighted"
    output: options.Output = "last"

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

    variant: Annotated[str, options.choice(_VARIANTS, "torch", "mukkamala-hein")] = "torch"
    memory: options.FractionOrGamma = 0.9
    delta: options.Delta = "auto"
    projection: options.Metric = "weighted"
    schedule: options.RootOrConstant = "sqrt"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory = check_fraction if self.variant == "torch" else options.check_gamma
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

    beta1: options.Fraction = 0.9
    beta2: options.Fraction = 0.999
    delta: options.Delta = "auto"
    projection: options.Metric = "weighted"
    schedule: options.RootOrConstant = "sqrt"

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
