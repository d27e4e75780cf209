"""finitesum: finite sums F(w) = mean of f_i(w) + penalty, minimised to the exact optimum.

The names below are loaded when they are first used, so that `import finitesum` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from finitesum.estimators import (
        GammaRegressor as GammaRegressor,
        HuberRegressor as HuberRegressor,
        LinearClassifier as LinearClassifier,
        LinearRegressor as LinearRegressor,
        LinearRegressorCV as LinearRegressorCV,
        LinearSVC as LinearSVC,
        LogisticRegression as LogisticRegression,
        LogisticRegressionCV as LogisticRegressionCV,
        NegativeBinomialRegressor as NegativeBinomialRegressor,
        OrdinalLogisticRegression as OrdinalLogisticRegression,
        PoissonRegressor as PoissonRegressor,
        PoissonRegressorCV as PoissonRegressorCV,
        QuantileRegressor as QuantileRegressor,
        Ridge as Ridge,
        RidgeCV as RidgeCV,
        TweedieRegressor as TweedieRegressor,
        linear_path as linear_path,
        logistic_path as logistic_path,
    )
    from finitesum.methods import METHODS as METHODS
    from finitesum.problems.callables import Component as Component
    from finitesum.problems.finite_sum import FiniteSum as FiniteSum
    from finitesum.problems.linear import Problem as Problem
    from finitesum.problems.multinomial import MultinomialProblem as MultinomialProblem
    from finitesum.reporting.comparing import compare as compare
    from finitesum.running.driver import Result as Result, StopReason as StopReason, minimize as minimize

_PLACES = {
    "finitesum.estimators": "GammaRegressor HuberRegressor LinearClassifier LinearRegressor LinearRegressorCV LinearSVC "
    "LogisticRegression LogisticRegressionCV NegativeBinomialRegressor OrdinalLogisticRegression PoissonRegressor "
    "PoissonRegressorCV QuantileRegressor Ridge RidgeCV TweedieRegressor linear_path logistic_path",
    "finitesum.methods": "METHODS",
    "finitesum.problems.callables": "Component",
    "finitesum.problems.finite_sum": "FiniteSum",
    "finitesum.problems.linear": "Problem",
    "finitesum.problems.multinomial": "MultinomialProblem",
    "finitesum.reporting.comparing": "compare",
    "finitesum.running.driver": "Result StopReason minimize",
}
_HOMES = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'finitesum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
