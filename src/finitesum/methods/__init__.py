"""The methods, by the names that users write."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from finitesum.methods.base import Card, Method, State

if TYPE_CHECKING:
    from finitesum.methods.adaptive import AdaGrad, AdaHB, RMSProp
    from finitesum.methods.ciag import ACIAG, CIAG
    from finitesum.methods.gradient import AFG, FG
    from finitesum.methods.iag import IAG
    from finitesum.methods.incremental_gradient import IG
    from finitesum.methods.iqn import IQN
    from finitesum.methods.lazy_newton import LazyNewton
    from finitesum.methods.moments import SGD, Adam, AMSGrad, SGDMomentum
    from finitesum.methods.newton import Newton
    from finitesum.methods.newton_cg import NewtonCG
    from finitesum.methods.nim import NIM
    from finitesum.methods.sag import SAG
    from finitesum.methods.saga import SAGA
    from finitesum.methods.subgradient import HB, NAG, PSG
    from finitesum.methods.svrg import SVRG, AccSVRG
    from finitesum.methods.svrg2 import SVRG2
    from finitesum.methods.working_set_newton import WorkingSetNewton

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
    "SVRG2",
    "AMSGrad",
    "AccSVRG",
    "AdaGrad",
    "AdaHB",
    "Adam",
    "Card",
    "LazyNewton",
    "Method",
    "Newton",
    "NewtonCG",
    "RMSProp",
    "SGDMomentum",
    "State",
    "WorkingSetNewton",
    "as_method",
]

#: name: (module, class). A method is loaded when it is first asked for: a fit needs one of them.
_HOMES = {
    "fg": ("gradient", "FG"),
    "afg": ("gradient", "AFG"),
    "ig": ("incremental_gradient", "IG"),
    "iag": ("iag", "IAG"),
    "sag": ("sag", "SAG"),
    "saga": ("saga", "SAGA"),
    "svrg": ("svrg", "SVRG"),
    "acc-svrg": ("svrg", "AccSVRG"),
    "svrg2": ("svrg2", "SVRG2"),
    "ciag": ("ciag", "CIAG"),
    "a-ciag": ("ciag", "ACIAG"),
    "iqn": ("iqn", "IQN"),
    "nim": ("nim", "NIM"),
    "newton": ("newton", "Newton"),
    "lazy-newton": ("lazy_newton", "LazyNewton"),
    "newton-cg": ("newton_cg", "NewtonCG"),
    "working-set-newton": ("working_set_newton", "WorkingSetNewton"),
    "psg": ("subgradient", "PSG"),
    "hb": ("subgradient", "HB"),
    "nag": ("subgradient", "NAG"),
    "adahb": ("adaptive", "AdaHB"),
    "adagrad": ("adaptive", "AdaGrad"),
    "rmsprop": ("adaptive", "RMSProp"),
    "adam": ("moments", "Adam"),
    "amsgrad": ("moments", "AMSGrad"),
    "sgd": ("moments", "SGD"),
    "sgd-momentum": ("moments", "SGDMomentum"),
}
_MODULES = {name: module for module, name in _HOMES.values()}


class _Registry(Mapping[str, type[Any]]):
    """The classes by name, each loaded at its first use."""

    def __getitem__(self, name: str) -> type[Any]:
        module, cls = _HOMES[name]
        found: type[Any] = getattr(importlib.import_module(f"finitesum.methods.{module}"), cls)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


METHODS: Mapping[str, type[Any]] = _Registry()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"finitesum.methods.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'finitesum.methods' has no attribute {name!r}")


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
    >>> as_method("saga", {"step_size": 0.1})
    SAGA(step_size=0.1)
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not isinstance(method, Method):
            raise TypeError(f'method must be a name such as "saga" or a method such as SAGA(), got {method!r}.')
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
