"""finitesum: finite sums F(w) = mean of f_i(w) + penalty, minimised to the exact optimum.

The names below are loaded when they are first used, so that `import finitesum` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from finitesum.estimators import (
        HuberRegressor,
        LinearClassifier,
        LinearRegressor,
        LinearSVC,
        LogisticRegression,
        LogisticRegressionCV,
        PoissonRegressor,
        Ridge,
        logistic_path,
    )
    from finitesum.methods import METHODS
    from finitesum.problems.callables import Component
    from finitesum.problems.finite_sum import FiniteSum
    from finitesum.problems.linear import Problem
    from finitesum.problems.multinomial import MultinomialProblem
    from finitesum.running.driver import Result, StopReason, minimize

_HOMES = {
    "Component": "finitesum.problems.callables",
    "FiniteSum": "finitesum.problems.finite_sum",
    "HuberRegressor": "finitesum.estimators",
    "LinearClassifier": "finitesum.estimators",
    "LinearRegressor": "finitesum.estimators",
    "LinearSVC": "finitesum.estimators",
    "LogisticRegression": "finitesum.estimators",
    "LogisticRegressionCV": "finitesum.estimators",
    "METHODS": "finitesum.methods",
    "MultinomialProblem": "finitesum.problems.multinomial",
    "PoissonRegressor": "finitesum.estimators",
    "Problem": "finitesum.problems.linear",
    "Result": "finitesum.running.driver",
    "Ridge": "finitesum.estimators",
    "StopReason": "finitesum.running.driver",
    "logistic_path": "finitesum.estimators",
    "minimize": "finitesum.running.driver",
}

__all__ = [
    "METHODS",
    "Component",
    "FiniteSum",
    "HuberRegressor",
    "LinearClassifier",
    "LinearRegressor",
    "LinearSVC",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MultinomialProblem",
    "PoissonRegressor",
    "Problem",
    "Result",
    "Ridge",
    "StopReason",
    "__version__",
    "logistic_path",
    "minimize",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'finitesum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
