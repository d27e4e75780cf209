"""Negative log-likelihoods of families of targets, as losses of a linear prediction u, but for constants.

============================  ===================  ========================  ==================================
loss                          mean                 targets y                 variance of y, by the mean m
============================  ===================  ========================  ==================================
`Poisson`                     exp(u)               y >= 0                    m
`Gamma`                       exp(u)               y > 0                     m^2 times a dispersion
`Tweedie` (1 < power < 2)     exp(u)               y >= 0                    m^power times a dispersion
`Tweedie` (power > 2)         exp(u)               y > 0                     m^power times a dispersion
`InverseGaussian`             exp(u)               y > 0                     m^3 times a dispersion
`NegativeBinomial`            exp(u)               y >= 0                    m + m^2 / theta
============================  ===================  ========================  ==================================

All are convex in u [1], but for `InverseGaussian` and `Tweedie` with a power p > 2: log m is not their canonical link, and
rows with y < m (p - 2) / (p - 1) have a negative curvature. These losses, and `finitesum.losses.links.Binomial`, also have
`mean_at(prediction)`, `link_of(mean)`, `variance_of(mean)` and `deviance_from(target, mean)`, twice what the loss is above
that of the best prediction, of arrays and for Python alone; `information_at(mean)`, the mean of d2 over targets, where it
is not d2, and `constant_information()`, that mean where it is the same for all means; and `has_dispersion()`, whether the
variance has an unknown factor.

References
----------
.. [1] P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition, 1989.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compilable, kernel_part
from finitesum.losses.base import Curved, Scaled
from finitesum.losses.exponential import LARGEST_EXPONENT, exp, exponential, log1p, share
from finitesum.losses.margins import logistic_majorant


class OfMean(Curved):
    """Losses of a mean exp(u), for targets >= 0."""

    def target_kind(self) -> str:
        """Return "count"."""
        return "count"

    def mean_at(self, prediction: Any) -> Any:
        """Return exp(u)."""
        return np.exp(prediction)

    def link_of(self, mean: Any) -> Any:
        """Return log m, the prediction of a mean."""
        return np.log(mean)

    def has_dispersion(self) -> bool:
        """Return whether the variance has an unknown factor."""
        return False


@compilable
class Poisson(Scaled, OfMean):
    """exp(u) - y u, the Poisson negative log-likelihood with log link, for targets >= 0 (infinite for u > 709)."""

    def value(self, prediction: Any, target: Any) -> Any:
        return self.scale * (exponential(prediction) - target * prediction)

    def d1(self, prediction: Any, target: Any) -> Any:
        return self.scale * (exponential(prediction) - target)

    def d2(self, prediction: Any, target: Any) -> Any:
        return self.scale * exponential(prediction)

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        mean = exponential(prediction)
        return self.scale * (mean - target), self.scale * mean

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        mean = exponential(prediction)
        return self.scale * (mean - target * prediction), self.scale * (mean - target), self.scale * mean

    def variance_of(self, mean: Any) -> Any:
        """Return m."""
        return mean

    def deviance_from(self, target: Any, mean: Any) -> Any:
        """Return 2 (y log(y / m) - y + m)."""
        return 2.0 * (xlogy(target, target) - xlogy(target, mean) - target + mean)


@compilable
class Gamma(Scaled, OfMean):
    """u + y exp(-u), the gamma negative log-likelihood with log link, for targets > 0 (infinite for u < -709).

    Examples
    --------
    >>> Gamma().value(0.0, 2.0), Gamma().d1(0.0, 2.0), Gamma().d2(0.0, 2.0)
    (2.0, -1.0, 2.0)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        return self.scale * (prediction + target * exponential(-prediction))

    def d1(self, prediction: Any, target: Any) -> Any:
        return self.scale * (1.0 - target * exponential(-prediction))

    def d2(self, prediction: Any, target: Any) -> Any:
        return self.scale * (target * exponential(-prediction))

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        ratio = target * exponential(-prediction)
        return self.scale * (1.0 - ratio), self.scale * ratio

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        ratio = target * exponential(-prediction)
        return self.scale * (prediction + ratio), self.scale * (1.0 - ratio), self.scale * ratio

    def target_kind(self) -> str:
        """Return "positive"."""
        return "positive"

    def information_at(self, mean: Any) -> Any:
        """Return 1, the mean of d2."""
        return np.ones_like(mean)

    def constant_information(self) -> float:
        """Return 1, the mean of d2 whatever the mean is."""
        return 1.0

    def variance_of(self, mean: Any) -> Any:
        """Return m^2, the variance of a target by the dispersion."""
        return mean * mean

    def has_dispersion(self) -> bool:
        """Return whether the variance has an unknown factor."""
        return True

    def deviance_from(self, target: Any, mean: Any) -> Any:
        """Return 2 (y / m - 1 - log(y / m))."""
        return 2.0 * (target / mean - 1.0 - np.log(target / mean))


@kernel_part
def _with_power(power: float, prediction: Any, target: Any) -> Any:
    """Return y exp((1 - p) u), 0 for y = 0 wherever u is."""
    return where(target > 0.0, target * exponential((1.0 - power) * prediction), 0.0 * prediction)


@kernel_part
def _mean_part(power: float, prediction: Any) -> Any:
    """Return exp((2 - p) u): finite for p > 2, where the part of the target, which is infinite sooner, must prevail."""
    exponent = (2.0 - power) * prediction
    return exponential(exponent) if power < 2.0 else exp(minimum(exponent, LARGEST_EXPONENT))


class _Power(NamedTuple):
    power: float = 1.5
    scale: float = 1.0


@compilable
class Tweedie(_Power, OfMean):
    """exp((2 - p) u) / (2 - p) + y exp((1 - p) u) / (p - 1) with a power p > 1, but 2: the variance is like mean^p.

    For 1 < p < 2 targets are sums of gamma variables, often 0; for p > 2 they are > 0, and the loss is not convex. At p = 1
    it would be `Poisson`, at p = 2 `Gamma`; p = 3 is `InverseGaussian`.
    """

    def value(self, prediction: Any, target: Any) -> Any:
        rest, more = 2.0 - self.power, self.power - 1.0
        of_target = _with_power(self.power, prediction, target) / more
        return self.scale * (_mean_part(self.power, prediction) / rest + of_target)

    def d1(self, prediction: Any, target: Any) -> Any:
        return self.scale * (_mean_part(self.power, prediction) - _with_power(self.power, prediction, target))

    def d2(self, prediction: Any, target: Any) -> Any:
        rest, more = 2.0 - self.power, self.power - 1.0
        of_target = more * _with_power(self.power, prediction, target)
        return self.scale * (rest * _mean_part(self.power, prediction) + of_target)

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        rest, more = 2.0 - self.power, self.power - 1.0
        of_mean, of_target = _mean_part(self.power, prediction), _with_power(self.power, prediction, target)
        value, slope, curvature = of_mean / rest + of_target / more, of_mean - of_target, rest * of_mean + more * of_target
        return self.scale * value, self.scale * slope, self.scale * curvature

    def is_convex(self) -> bool:
        """Return whether p < 2."""
        return self.power < 2.0

    def target_kind(self) -> str:
        """Return "count" for p < 2, "positive" beyond."""
        return "count" if self.power < 2.0 else "positive"

    def information_at(self, mean: Any) -> Any:
        """Return m^(2-p), the mean of d2."""
        return mean ** (2.0 - self.power)

    def variance_of(self, mean: Any) -> Any:
        """Return m^p, the variance of a target by the dispersion."""
        return mean**self.power

    def has_dispersion(self) -> bool:
        """Return whether the variance has an unknown factor."""
        return True

    def deviance_from(self, target: Any, mean: Any) -> Any:
        """Return 2 (y^(2-p) / ((1-p) (2-p)) - y m^(1-p) / (1-p) + m^(2-p) / (2-p))."""
        rest, less = 2.0 - self.power, 1.0 - self.power
        return 2.0 * (target**rest / (less * rest) - target * mean**less / less + mean**rest / rest)


@compilable
class InverseGaussian(Scaled, OfMean):
    """y exp(-2 u) / 2 - exp(-u), the inverse Gaussian negative log-likelihood with log link, for targets > 0; not convex.

    Examples
    --------
    >>> InverseGaussian().value(0.0, 2.0), InverseGaussian().d1(0.0, 2.0), InverseGaussian().d2(0.0, 2.0)
    (0.0, -1.0, 3.0)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        inverse = exponential(-prediction)
        return self.scale * inverse * (0.5 * target * inverse - 1.0)

    def d1(self, prediction: Any, target: Any) -> Any:
        inverse = exponential(-prediction)
        return self.scale * inverse * (1.0 - target * inverse)

    def d2(self, prediction: Any, target: Any) -> Any:
        inverse = exponential(-prediction)
        return self.scale * inverse * (2.0 * target * inverse - 1.0)

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        inverse = exponential(-prediction)
        ratio, size = target * inverse, self.scale * inverse
        return size * (1.0 - ratio), size * (2.0 * ratio - 1.0)

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        inverse = exponential(-prediction)
        ratio, size = target * inverse, self.scale * inverse
        return size * (0.5 * ratio - 1.0), size * (1.0 - ratio), size * (2.0 * ratio - 1.0)

    def is_convex(self) -> bool:
        """Return False."""
        return False

    def target_kind(self) -> str:
        """Return "positive"."""
        return "positive"

    def information_at(self, mean: Any) -> Any:
        """Return 1 / m, the mean of d2."""
        return 1.0 / mean

    def variance_of(self, mean: Any) -> Any:
        """Return m^3, the variance of a target by the dispersion."""
        return mean**3

    def has_dispersion(self) -> bool:
        """Return whether the variance has an unknown factor."""
        return True

    def deviance_from(self, target: Any, mean: Any) -> Any:
        """Return (y - m)^2 / (y m^2)."""
        return (target - mean) ** 2 / (target * mean * mean)


class _Theta(NamedTuple):
    theta: float = 1.0
    scale: float = 1.0


@compilable
class NegativeBinomial(_Theta, OfMean):
    """(y + theta) log(theta + exp(u)) - y u, less theta log theta ..., of counts with the variance mean + mean^2 / theta.

    It is written as (y + theta) log(1 + exp(v)) - y v with v = u - log theta, which differs by a constant of the target.
    """

    def value(self, prediction: Any, target: Any) -> Any:
        shifted = prediction - math.log(self.theta)
        softplus = maximum(shifted, 0.0) + log1p(exp(-abs(shifted)))
        return self.scale * (self.theta * softplus + target * (softplus - shifted))

    def d1(self, prediction: Any, target: Any) -> Any:
        shifted = prediction - math.log(self.theta)
        return self.scale * (self.theta * share(shifted) - target * share(-shifted))

    def d2(self, prediction: Any, target: Any) -> Any:
        shifted = prediction - math.log(self.theta)
        return self.scale * (self.theta + target) * share(shifted) * share(-shifted)

    def value_d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any, Any]:
        shifted = prediction - math.log(self.theta)
        decay = exp(-abs(shifted))
        softplus, above = maximum(shifted, 0.0) + log1p(decay), 1.0 * (shifted >= 0.0)
        of_mean, of_theta = (maximum(decay, part) / (1.0 + decay) for part in (above, 1.0 - above))  # as `share` has them
        value = self.theta * softplus + target * (softplus - shifted)
        slope, curvature = self.theta * of_mean - target * of_theta, (self.theta + target) * of_mean * of_theta
        return self.scale * value, self.scale * slope, self.scale * curvature

    def majorant(self, prediction: Any, target: Any) -> Any:
        """Return y + theta times the majorant of the logistic loss."""
        shifted = prediction - math.log(self.theta)
        return self.scale * (self.theta + target) * logistic_majorant(shifted)

    def information_at(self, mean: Any) -> Any:
        """Return m / (1 + m / theta), the mean of d2."""
        return mean / (1.0 + mean / self.theta)

    def variance_of(self, mean: Any) -> Any:
        """Return m + m^2 / theta."""
        return mean + mean * mean / self.theta

    def deviance_from(self, target: Any, mean: Any) -> Any:
        """Return 2 (y log(y / m) - (y + theta) log((y + theta) / (m + theta)))."""
        of_counts = xlogy(target, target) - xlogy(target, mean)
        return 2.0 * (of_counts - (target + self.theta) * np.log((target + self.theta) / (mean + self.theta)))
