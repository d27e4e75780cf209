"""finitesum: finite sums F(w) = mean of f_i(w) + penalty, minimised to the exact optimum.

The names below are loaded when they are first used, so that `import finitesum` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from finitesum.estimators import HuberRegressor as HuberRegressor
    from finitesum.estimators import LinearClassifier as LinearClassifier
    from finitesum.estimators import LinearRegressor as LinearRegressor
    from finitesum.estimators import LinearSVC as LinearSVC
    from finitesum.estimators import LogisticRegression as LogisticRegression
    from finitesum.estimators import LogisticRegressionCV as LogisticRegressionCV
    from finitesum.estimators import PoissonRegressor as PoissonRegressor
    from finitesum.estimators import Ridge as Ridge
    from finitesum.estimators import logistic_path as logistic_path
    from finitesum.methods import METHODS as METHODS
    from finitesum.problems.callables import Component as Component
    from finitesum.problems.finite_sum import FiniteSum as FiniteSum
    from finitesum.problems.linear import MultinomialProblem as MultinomialProblem
    from finitesum.problems.linear import Problem as Problem
    from finitesum.running.driver import Result as Result
    from finitesum.running.driver import StopReason as StopReason
    from finitesum.running.driver import minimize as minimize

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
    "MultinomialProblem": "finitesum.problems.linear",
    "PoissonRegressor": "finitesum.estimators",
    "Problem": "finitesum.problems.linear",
    "Result": "finitesum.running.driver",
    "Ridge": "finitesum.estimators",
    "StopReason": "finitesum.running.driver",
    "logistic_path": "finitesum.estimators",
    "minimize": "finitesum.running.driver",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'finitesum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
