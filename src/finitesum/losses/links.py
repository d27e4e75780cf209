"""Negative log-likelihoods of shares and of two classes, as losses of a linear prediction u, by their links.

============================  ===================  ========================
loss                          mean                 targets y
============================  ===================  ========================
`Binomial`                    1 / (1 + exp(-u))    0 <= y <= 1, a share
`Probit`                      Phi(u)               -1 and +1
`ComplementaryLogLog`         1 - exp(-exp(u))     -1 and +1
============================  ===================  ========================

All are convex in u [1]. The variance of a share with the mean m is m (1 - m) by the number of trials; `Binomial` has what
the losses of a mean exp(u) have of it (`finitesum.losses.families`).

References
----------
.. [1] P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition, 1989.
"""

from typing import Any

from scipy.special import expit, logit, xlogy

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compilable, kernel_part
from finitesum.losses.base import OfMargin, Scaled
from finitesum.losses.exponential import exp, expm1, exponential, log, log1p, minus_log_of_rest, share
from finitesum.losses.margins import LogisticCurvature
from finitesum.losses.normal import minus_log_tail, tail_ratio

#: u from which the complementary log-log loss of an event is 0, and the least exp(u) that is divided by.
LARGEST_RATE, LEAST_RATE = 6.5, 1e-300

#: The largest third derivative of -log Phi.
PROBIT_JERK = 0.29571881918

#: exp(u) up to which the complementary log-log curvature is summed as a series, and u below which log(1 - exp(-e^u)) is.
OF_SERIES, FAR_BELOW = 0.03, -30.0


@compilable
class Binomial(Scaled, LogisticCurvature):
    """log(1 + exp(u)) - y u for shares 0 <= y <= 1 of trials that succeeded; the number of trials is the row's weight.

    Examples
    --------
    >>> round(Binomial().value(0.0, 0.3), 6), round(Binomial().d1(0.0, 0.3), 6), Binomial().d2(0.0, 0.3)
    (0.693147, 0.2, 0.25)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        outside = where(prediction > 0.0, (1.0 - target) * prediction, -target * prediction)
        return self.scale * (outside + log1p(exp(-abs(prediction))))

    def d1(self, prediction: Any, target: Any) -> Any:
        return self.scale * ((1.0 - target) * share(prediction) - target * share(-prediction))

    def d2(self, prediction: Any, target: Any) -> Any:
        return self.scale * share(prediction) * share(-prediction)

    def target_kind(self) -> str:
        """Return "share"."""
        return "share"

    def mean_at(self, prediction: Any) -> Any:
        """Return 1 / (1 + exp(-u))."""
        return expit(prediction)

    def link_of(self, mean: Any) -> Any:
        """Return log(m / (1 - m))."""
        return logit(mean)

    def variance_of(self, mean: Any) -> Any:
        """Return m (1 - m)."""
        return mean * (1.0 - mean)

    def has_dispersion(self) -> bool:
        """Return whether the variance has an unknown factor."""
        return False

    def deviance_from(self, target: Any, mean: Any) -> Any:
        """Return 2 (y log(y / m) + (1 - y) log((1 - y) / (1 - m)))."""
        of_both = xlogy(target, target) - xlogy(target, mean) + xlogy(1.0 - target, 1.0 - target)
        return 2.0 * (of_both - xlogy(1.0 - target, 1.0 - mean))


@compilable
class Probit(Scaled, OfMargin):
    """-log Phi(y u) for targets -1 and +1, with the distribution function Phi of the normal distribution.

    Examples
    --------
    >>> round(Probit().value(0.0, 1.0), 6), round(Probit().d1(0.0, 1.0), 6), round(Probit().d2(0.0, 1.0), 6)
    (0.693147, -0.797885, 0.63662)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        return self.scale * minus_log_tail(-target * prediction)

    def d1(self, prediction: Any, target: Any) -> Any:
        ratio, _ = tail_ratio(-target * prediction)
        return -self.scale * target * ratio

    def d2(self, prediction: Any, target: Any) -> Any:
        ratio, excess = tail_ratio(-target * prediction)
        return self.scale * ratio * excess

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        ratio, excess = tail_ratio(-target * prediction)
        return -self.scale * target * ratio, self.scale * ratio * excess

    def curvature_bound(self) -> float:
        """Return 1, which d2 comes close to where u is far on the wrong side."""
        return self.scale

    def d2_lipschitz(self) -> float:
        """Return the largest third derivative, at a margin of 1.0023625."""
        return PROBIT_JERK * self.scale


@kernel_part
def _hazard(prediction: Any) -> tuple[Any, Any]:
    """Return q = a / (exp(a) - 1) and q exp(a) - 1 with a = exp(u)."""
    rate = exp(minimum(prediction, LARGEST_RATE))
    some = maximum(rate, LEAST_RATE)
    ratio = where(prediction > LARGEST_RATE, 0.0, some / expm1(some))
    series = rate * (0.5 + rate * (1.0 / 12.0 - rate * rate / 720.0))
    return ratio, where(rate < OF_SERIES, series, ratio + rate - 1.0)


@compilable
class ComplementaryLogLog(Scaled, OfMargin):
    """-log(1 - exp(-exp(u))) for the target +1, exp(u) for -1: a hazard of exp(u) during one unit of time.

    Examples
    --------
    >>> round(ComplementaryLogLog().value(0.0, 1.0), 6), ComplementaryLogLog().value(0.0, -1.0)
    (0.458675, 1.0)
    """

    def value(self, prediction: Any, target: Any) -> Any:
        rate = exp(minimum(prediction, LARGEST_RATE))
        low = where(prediction < FAR_BELOW, 0.5 * rate - prediction, -log(-expm1(-maximum(rate, LEAST_RATE))))
        event = where(rate > 1.0, where(prediction > LARGEST_RATE, 0.0, minus_log_of_rest(exp(-maximum(rate, 1.0)))), low)
        return self.scale * where(target > 0.0, event, exponential(prediction))

    def d1(self, prediction: Any, target: Any) -> Any:
        ratio, _ = _hazard(prediction)
        return self.scale * where(target > 0.0, -ratio, exponential(prediction))

    def d2(self, prediction: Any, target: Any) -> Any:
        ratio, rest = _hazard(prediction)
        return self.scale * where(target > 0.0, ratio * rest, exponential(prediction))

    def d1_d2(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        ratio, rest = _hazard(prediction)
        rate = exponential(prediction)
        is_event = target > 0.0
        return self.scale * where(is_event, -ratio, rate), self.scale * where(is_event, ratio * rest, rate)
