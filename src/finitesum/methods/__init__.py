"""The methods, by the names that users write."""

from typing import TYPE_CHECKING, Any

from finitesum.methods.base import Method as Method
from finitesum.methods.base import State as State
from finitesum.methods.registry import METHODS as METHODS
from finitesum.methods.registry import as_method as as_method
from finitesum.methods.table import HOMES
from finitesum.methods.table import Card as Card

if TYPE_CHECKING:
    from finitesum.methods.curvature.ciag import ACIAG as ACIAG
    from finitesum.methods.curvature.ciag import CIAG as CIAG
    from finitesum.methods.curvature.iqn import IQN as IQN
    from finitesum.methods.curvature.nim import NIM as NIM
    from finitesum.methods.curvature.svrg2 import SVRG2 as SVRG2
    from finitesum.methods.first_order.aggregated import IAG as IAG
    from finitesum.methods.first_order.aggregated import SAG as SAG
    from finitesum.methods.first_order.aggregated import SAGA as SAGA
    from finitesum.methods.first_order.full_gradient import AFG as AFG
    from finitesum.methods.first_order.full_gradient import FG as FG
    from finitesum.methods.first_order.incremental_gradient import IG as IG
    from finitesum.methods.first_order.sarah import SARAH as SARAH
    from finitesum.methods.first_order.svrg import SVRG as SVRG
    from finitesum.methods.first_order.svrg import AccSVRG as AccSVRG
    from finitesum.methods.newton.interior_point import InteriorPoint as InteriorPoint
    from finitesum.methods.newton.lazy_newton import LazyNewton as LazyNewton
    from finitesum.methods.newton.linear_program import LinearProgram as LinearProgram
    from finitesum.methods.newton.multinomial_newton import MultinomialNewton as MultinomialNewton
    from finitesum.methods.newton.newton import Newton as Newton
    from finitesum.methods.newton.newton_cg import NewtonCG as NewtonCG
    from finitesum.methods.newton.working_set_newton import WorkingSetNewton as WorkingSetNewton
    from finitesum.methods.projected.methods import HB as HB
    from finitesum.methods.projected.methods import NAG as NAG
    from finitesum.methods.projected.methods import PSG as PSG
    from finitesum.methods.projected.methods import SGD as SGD
    from finitesum.methods.projected.methods import AdaGrad as AdaGrad
    from finitesum.methods.projected.methods import AdaHB as AdaHB
    from finitesum.methods.projected.methods import Adam as Adam
    from finitesum.methods.projected.methods import AMSGrad as AMSGrad
    from finitesum.methods.projected.methods import RMSProp as RMSProp
    from finitesum.methods.projected.methods import SGDMomentum as SGDMomentum

_NAMES = {place.rpartition(".")[2]: name for name, place in HOMES.items()}

__all__ = ["METHODS", "Card", "Method", "State", "as_method", *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return METHODS[_NAMES[name]]
    raise AttributeError(f"module 'finitesum.methods' has no attribute {name!r}")
