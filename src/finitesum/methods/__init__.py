"""The methods by the names that users write: their classes, and the method of a name with its options."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from finitesum.methods.base import HOMES, METHODS as METHODS, Card as Card, Method as Method, State as State, SumMethod

if TYPE_CHECKING:
    from finitesum.methods.curvature.ciag import ACIAG as ACIAG, CIAG as CIAG
    from finitesum.methods.curvature.iqn import IQN as IQN
    from finitesum.methods.curvature.nim import NIM as NIM
    from finitesum.methods.curvature.svrg2 import SVRG2 as SVRG2
    from finitesum.methods.first_order.aggregated import IAG as IAG, SAG as SAG, SAGA as SAGA
    from finitesum.methods.first_order.full_gradient import AFG as AFG, FG as FG
    from finitesum.methods.first_order.incremental_gradient import IG as IG
    from finitesum.methods.first_order.sarah import SARAH as SARAH
    from finitesum.methods.first_order.svrg import SVRG as SVRG, AccSVRG as AccSVRG
    from finitesum.methods.newton.coordinate_descent import CoordinateDescent as CoordinateDescent
    from finitesum.methods.newton.dual_ascent import DualAscent as DualAscent
    from finitesum.methods.newton.interior_point import InteriorPoint as InteriorPoint
    from finitesum.methods.newton.lazy_newton import LazyNewton as LazyNewton
    from finitesum.methods.newton.lbfgs import LBFGS as LBFGS
    from finitesum.methods.newton.linear_program import LinearProgram as LinearProgram
    from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS as MultinomialLBFGS
    from finitesum.methods.newton.multinomial_newton import MultinomialNewton as MultinomialNewton
    from finitesum.methods.newton.multinomial_working_set import MultinomialWorkingSet as MultinomialWorkingSet
    from finitesum.methods.newton.newton import Newton as Newton
    from finitesum.methods.newton.newton_cg import NewtonCG as NewtonCG
    from finitesum.methods.newton.semismooth_newton import SemismoothNewton as SemismoothNewton
    from finitesum.methods.newton.working_set_newton import WorkingSetNewton as WorkingSetNewton
    from finitesum.methods.projected.methods import (
        HB as HB,
        NAG as NAG,
        PSG as PSG,
        SGD as SGD,
        AdaGrad as AdaGrad,
        AdaHB as AdaHB,
        Adam as Adam,
        AMSGrad as AMSGrad,
        RMSProp as RMSProp,
        SGDMomentum as SGDMomentum,
    )

#: The names of methods: an editor completes them, a type checker finds the wrong ones.
MethodName = Literal[
    "auto",
    "fg",
    "afg",
    "ig",
    "iag",
    "sag",
    "saga",
    "svrg",
    "acc-svrg",
    "sarah",
    "svrg2",
    "ciag",
    "a-ciag",
    "iqn",
    "nim",
    "newton",
    "multinomial-newton",
    "multinomial-lbfgs",
    "multinomial-working-set",
    "lazy-newton",
    "newton-cg",
    "lbfgs",
    "working-set-newton",
    "coordinate-descent",
    "interior-point",
    "dual-ascent",
    "semismooth-newton",
    "linear-program",
    "psg",
    "hb",
    "nag",
    "adahb",
    "adagrad",
    "rmsprop",
    "adam",
    "amsgrad",
    "sgd",
    "sgd-momentum",
]

_NAMES = {place.rpartition(".")[2]: name for name, place in HOMES.items()}

__all__ = ["METHODS", "Card", "Method", "MethodName", "State", "as_method", *_NAMES]


def options_of(cls: type[Any]) -> list[str]:
    """Return the names of a method's options: the fields of its class, without what all its instances share."""
    return [field.name for field in fields(cls)]


def as_method(method: str | Method, options: dict[str, Any] | None = None) -> Method:
    """Return the method of a name with its options, or the method itself.

    Raises
    ------
    ValueError
        The name is unknown.
    TypeError
        It is neither a name nor a method, or an option is unknown to the method.

    Examples
    --------
    >>> as_method("sag", {"step_size": 0.1})
    SAG(step_size=0.1)
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not isinstance(method, SumMethod | Method):
            raise TypeError(f'method must be a name such as "saga" or a method such as SAGA(), got {method!r}.')
        if options:
            raise TypeError("options go with a method's name; give them to the method itself instead.")
        return method
    key = method.lower().replace("_", "-")
    if key not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    cls = METHODS[key]
    if options and (unknown := sorted(set(options) - set(known := options_of(cls)))):
        raise TypeError(f"{key} has no option {', '.join(unknown)}; it has: {', '.join(known)}.")
    made: Method = cls(**(options or {}))
    return made


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return METHODS[_NAMES[name]]
    raise AttributeError(f"module 'finitesum.methods' has no attribute {name!r}")
