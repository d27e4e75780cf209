"""Losses: functions of a row's prediction and its target, with two derivatives in the prediction.

Every loss of one prediction is a NamedTuple whose methods kernels call:

===================  ==================================================================================
``value``            loss(u, y)
``d1``, ``d2``       first and second derivative in u (a subderivative where it is not smooth)
``d1_d2``            both, at the cost of one exponential
``majorant``         a curvature c(u) such that v -> value(u) + d1(u) (v - u) + c(u)/2 (v - u)^2 lies above the loss
                     everywhere; infinite where there is none
``curvature_bound``  sup of d2 over all predictions (infinite: no quadratic lies above the loss)
``d2_lipschitz``       sup of the third derivative's size: the Lipschitz constant of d2 (infinite where d1 is not smooth)
``target_kind``      "sign": targets are -1 or +1; "real"; "count": >= 0; "positive": > 0; "share": from 0 to 1; "class" and
                     "reals" of losses with several predictions a row (`finitesum.losses.classes`)
``is_smooth``        whether d1 is continuous
``is_convex``        whether the loss is convex; left out, it is
===================  ==================================================================================

Losses that are linear but for one or two corners are `Cornered`: they name these, and methods with dual variables treat
them. Those that are quadratic on one side of a corner, or between two, or beyond either of two, are a `RoundedCorner`.

``scale`` multiplies the loss. All formulas hold at margins of +-1000 without overflow, and NaN stays NaN in `value`,
`d1` and the first of `d1_d2`, so that a divergence is seen.
"""

import math
from numbers import Real
from typing import Any, Literal, cast

from finitesum.core.jit import compilable
from finitesum.losses.base import Cornered, Loss, RoundedCorner
from finitesum.losses.classes import Multinomial, SquaredTargets
from finitesum.losses.corners import Absolute, EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from finitesum.losses.exponential import LARGEST_EXPONENT
from finitesum.losses.families import Gamma, InverseGaussian, NegativeBinomial, Poisson, Tweedie
from finitesum.losses.links import Binomial, ComplementaryLogLog, Probit
from finitesum.losses.margins import Hinge, Logistic, SmoothedHinge, SquaredHinge
from finitesum.losses.regression import Huber, LogCosh, PseudoHuber, Squared

__all__ = [
    "LARGEST_EXPONENT",
    "LIKELIHOODS",
    "LOSSES",
    "Absolute",
    "Binomial",
    "ComplementaryLogLog",
    "Cornered",
    "EpsilonInsensitive",
    "Gamma",
    "Hinge",
    "Huber",
    "InverseGaussian",
    "LogCosh",
    "Logistic",
    "Loss",
    "LossName",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Probit",
    "PseudoHuber",
    "Quantile",
    "RoundedCorner",
    "SmoothedHinge",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredTargets",
    "Tweedie",
    "as_loss",
    "is_convex",
]

#: The names of losses: an editor completes them, a type checker finds the wrong ones.
LossName = Literal[
    "logistic",
    "squared",
    "squared-hinge",
    "hinge",
    "smoothed-hinge",
    "huber",
    "log-cosh",
    "pseudo-huber",
    "absolute",
    "epsilon-insensitive",
    "squared-epsilon-insensitive",
    "quantile",
    "poisson",
    "gamma",
    "inverse-gaussian",
    "tweedie",
    "negative-binomial",
    "binomial",
    "probit",
    "complementary-log-log",
    "multinomial",
]

#: The losses of one prediction by the names that users write.
LOSSES: dict[str, type[Loss]] = {
    "logistic": Logistic,
    "squared": Squared,
    "squared-hinge": SquaredHinge,
    "hinge": Hinge,
    "smoothed-hinge": SmoothedHinge,
    "huber": Huber,
    "log-cosh": LogCosh,
    "pseudo-huber": PseudoHuber,
    "absolute": Absolute,
    "epsilon-insensitive": EpsilonInsensitive,
    "squared-epsilon-insensitive": SquaredEpsilonInsensitive,
    "quantile": Quantile,
    "poisson": Poisson,
    "gamma": Gamma,
    "inverse-gaussian": InverseGaussian,
    "tweedie": Tweedie,
    "negative-binomial": NegativeBinomial,
    "binomial": Binomial,
    "probit": Probit,
    "complementary-log-log": ComplementaryLogLog,
}

#: Losses of two classes that are -log P(y | u).
LIKELIHOODS = (Logistic, Probit, ComplementaryLogLog)

#: Fields that must be > 0 and finite,
POSITIVE = frozenset({"scale", "width", "threshold", "theta", "epsilon", "quantile", "power"})

#: Those of several predictions; "squared" with several targets is `SquaredTargets`.
CLASS_LOSSES: dict[str, type[Loss]] = {"multinomial": Multinomial}


def is_convex(loss: Any) -> bool:
    """Return whether a loss is convex, as it is where it does not say otherwise.

    Examples
    --------
    >>> is_convex(as_loss("logistic")), is_convex(as_loss("inverse-gaussian"))
    (True, False)
    """
    return bool(getattr(loss, "is_convex", lambda: True)())


def as_loss(loss: str | Loss) -> Loss:
    """Return the loss of a name, or the loss itself after a check of its methods and parameters.

    Raises
    ------
    ValueError
        The name is unknown or a parameter is out of range.
    TypeError
        It is no loss, or one of its methods has other parameters than in the table above.

    Examples
    --------
    >>> as_loss("huber")
    Huber(threshold=1.35)
    """
    if isinstance(loss, str):
        key = loss.replace("_", "-")
        known_losses = LOSSES | CLASS_LOSSES
        if key not in known_losses:
            raise ValueError(f"loss must be one of {', '.join(sorted(known_losses))}, got {loss!r}.")
        return known_losses[key]()
    is_ours = type(loss) in (*LOSSES.values(), *CLASS_LOSSES.values())
    if not is_ours and not (isinstance(loss, Loss) and isinstance(loss, tuple)):
        raise TypeError(f"loss must be a name or a loss (a NamedTuple with value, d1, d2, ...), got {loss!r}.")
    if not isinstance(loss, Multinomial | SquaredTargets):
        compilable(type(loss))
    known: Any = loss
    for name in POSITIVE.intersection(known._fields):
        number = getattr(known, name)
        if not isinstance(number, Real) or not 0.0 < float(number) < math.inf:
            raise ValueError(f"{name} of {type(loss).__name__} must be > 0 and finite, got {number!r}.")
        known = known._replace(**{name: float(number)})  # one machine code for 2 and 2.0
    if isinstance(known, Tweedie) and not (1.0 < known.power != 2.0):
        raise ValueError(
            f"power of Tweedie must be > 1 and not 2, got {known.power!r}: 1 is loss='poisson', 2 is 'gamma', and no such "
            "distribution exists below 1."
        )
    if isinstance(known, Quantile) and not known.quantile < 1.0:
        raise ValueError(f"quantile of Quantile must be < 1, got {known.quantile!r}.")
    return cast(Loss, known)
