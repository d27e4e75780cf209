"""The methods, by the names that users write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from finitesum.methods.base import Method, State
from finitesum.methods.registry import METHODS, as_method
from finitesum.methods.table import HOMES, Card

if TYPE_CHECKING:
    from finitesum.methods.curvature.ciag import ACIAG, CIAG
    from finitesum.methods.curvature.iqn import IQN
    from finitesum.methods.curvature.nim import NIM
    from finitesum.methods.curvature.svrg2 import SVRG2
    from finitesum.methods.first_order.aggregated import IAG, SAG, SAGA
    from finitesum.methods.first_order.full_gradient import AFG, FG
    from finitesum.methods.first_order.incremental_gradient import IG
    from finitesum.methods.first_order.sarah import SARAH
    from finitesum.methods.first_order.svrg import SVRG, AccSVRG
    from finitesum.methods.newton.interior_point import InteriorPoint
    from finitesum.methods.newton.lazy_newton import LazyNewton
    from finitesum.methods.newton.linear_program import LinearProgram
    from finitesum.methods.newton.multinomial_newton import MultinomialNewton
    from finitesum.methods.newton.newton import Newton
    from finitesum.methods.newton.newton_cg import NewtonCG
    from finitesum.methods.newton.working_set_newton import WorkingSetNewton
    from finitesum.methods.projected.methods import (
        HB,
        NAG,
        PSG,
        SGD,
        AdaGrad,
        AdaHB,
        Adam,
        AMSGrad,
        RMSProp,
        SGDMomentum,
    )

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
    "SARAH",
    "SGD",
    "SVRG",
    "SVRG2",
    "AMSGrad",
    "AccSVRG",
    "AdaGrad",
    "AdaHB",
    "Adam",
    "Card",
    "InteriorPoint",
    "LazyNewton",
    "LinearProgram",
    "Method",
    "MultinomialNewton",
    "Newton",
    "NewtonCG",
    "RMSProp",
    "SGDMomentum",
    "State",
    "WorkingSetNewton",
    "as_method",
]

_NAMES = {place.rpartition(".")[2]: name for name, place in HOMES.items()}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return METHODS[_NAMES[name]]
    raise AttributeError(f"module 'finitesum.methods' has no attribute {name!r}")
