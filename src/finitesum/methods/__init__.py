"""The methods, by the names that users write."""

from __future__ import annotations

from typing import Any

from finitesum.methods.adaptive import AdaGrad, AdaHB, RMSProp
from finitesum.methods.base import Card, Method, State
from finitesum.methods.ciag import ACIAG, CIAG
from finitesum.methods.gradient import AFG, FG
from finitesum.methods.iag import IAG
from finitesum.methods.incremental_gradient import IG
from finitesum.methods.iqn import IQN
from finitesum.methods.moments import SGD, Adam, AMSGrad, SGDMomentum
from finitesum.methods.newton import Newton
from finitesum.methods.nim import NIM
from finitesum.methods.sag import SAG
from finitesum.methods.saga import SAGA
from finitesum.methods.subgradient import HB, NAG, PSG
from finitesum.methods.svrg import SVRG, AccSVRG

__all__ = [
    "ACIAG",
    "AFG",
    "CIAG",
    "FG",
    "HB",
    "IAG",
    "IG",
    "IQN",
    "METHODS",
    "NAG",
    "NIM",
    "PSG",
    "SAG",
    "SAGA",
    "SGD",
    "SVRG",
    "AMSGrad",
    "AccSVRG",
    "AdaGrad",
    "AdaHB",
    "Adam",
    "Card",
    "Method",
    "Newton",
    "RMSProp",
    "SGDMomentum",
    "State",
    "as_method",
]

METHODS: dict[str, type[Any]] = {
    cls.name: cls
    for cls in (
        *(FG, AFG, IG, IAG, SAG, SAGA, SVRG, AccSVRG, CIAG, ACIAG, IQN, NIM, Newton),
        *(PSG, HB, NAG, AdaHB, AdaGrad, RMSProp, Adam, AMSGrad, SGD, SGDMomentum),
    )
}


def as_method(method: str | Method, options: dict[str, Any] | None = None) -> Method:
    """Return the method of a name with its options, or the method itself.

    Raises
    ------
    ValueError
        The name is unknown.
    TypeError
        An option is unknown to the method.

    Examples
    --------
    >>> as_method("saga", {"step_size": 0.1})
    SAGA(step_size=0.1)
    """
    if not isinstance(method, str):
        if options:
            raise TypeError("options go with a method's name; give them to the method itself instead.")
        return method
    key = method.lower().replace("_", "-")
    if key not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    cls = METHODS[key]
    unknown = sorted(set(options or {}) - set(cls.__dataclass_fields__))
    if unknown:
        known = ", ".join(cls.__dataclass_fields__)
        raise TypeError(f"{key} has no option {', '.join(unknown)}; it has: {known}.")
    made: Method = cls(**(options or {}))
    return made
