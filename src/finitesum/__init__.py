"""finitesum: finite sums F(w) = mean of f_i(w) + penalty, minimised to the exact optimum.

The names below are loaded when they are first used, so that `import finitesum` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from finitesum.components import Component
    from finitesum.driver import Result, StopReason, minimize
    from finitesum.finite_sum import FiniteSum
    from finitesum.methods import METHODS
    from finitesum.problem import Problem

_HOMES = {
    "Component": "finitesum.components",
    "FiniteSum": "finitesum.finite_sum",
    "METHODS": "finitesum.methods",
    "Problem": "finitesum.problem",
    "Result": "finitesum.driver",
    "StopReason": "finitesum.driver",
    "minimize": "finitesum.driver",
}

__all__ = ["METHODS", "Component", "FiniteSum", "Problem", "Result", "StopReason", "__version__", "minimize"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'finitesum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
