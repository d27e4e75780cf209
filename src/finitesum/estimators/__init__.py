"""Estimators with the contracts of scikit-learn, all on `finitesum.minimize`.

They are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finitesum.estimators.classifiers import LinearClassifier as LinearClassifier, LinearSVC as LinearSVC
    from finitesum.estimators.huber import HuberRegressor as HuberRegressor
    from finitesum.estimators.logistic import LogisticRegression as LogisticRegression
    from finitesum.estimators.logistic_cv import LogisticRegressionCV as LogisticRegressionCV
    from finitesum.estimators.means import (
        GammaRegressor as GammaRegressor,
        NegativeBinomialRegressor as NegativeBinomialRegressor,
        PoissonRegressor as PoissonRegressor,
        TweedieRegressor as TweedieRegressor,
    )
    from finitesum.estimators.ordinal import OrdinalLogisticRegression as OrdinalLogisticRegression
    from finitesum.estimators.path import logistic_path as logistic_path
    from finitesum.estimators.quantiles import QuantileRegressor as QuantileRegressor
    from finitesum.estimators.regression_cv import (
        LinearRegressorCV as LinearRegressorCV,
        PoissonRegressorCV as PoissonRegressorCV,
        RidgeCV as RidgeCV,
    )
    from finitesum.estimators.regression_path import linear_path as linear_path
    from finitesum.estimators.regressors import LinearRegressor as LinearRegressor
    from finitesum.estimators.ridge import Ridge as Ridge

_HOMES = {
    "GammaRegressor": "means",
    "HuberRegressor": "huber",
    "LinearClassifier": "classifiers",
    "LinearRegressor": "regressors",
    "LinearRegressorCV": "regression_cv",
    "LinearSVC": "classifiers",
    "LogisticRegression": "logistic",
    "LogisticRegressionCV": "logistic_cv",
    "NegativeBinomialRegressor": "means",
    "OrdinalLogisticRegression": "ordinal",
    "PoissonRegressor": "means",
    "PoissonRegressorCV": "regression_cv",
    "QuantileRegressor": "quantiles",
    "Ridge": "ridge",
    "RidgeCV": "regression_cv",
    "TweedieRegressor": "means",
    "linear_path": "regression_path",
    "logistic_path": "path",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"finitesum.estimators.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'finitesum.estimators' has no attribute {name!r}")
