"""What type checkers see of the library from outside: mypy and pyright read this file, nobody runs it.

Each `type: ignore` is a mistake that both must find, each `pyright: ignore` one that mypy cannot find because the base
class of estimators, scikit-learn's, has no types. A mistake that is not found is an error.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import finitesum
from finitesum import (
    FiniteSum,
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    OrdinalLogisticRegression,
    PoissonRegressor,
    Problem,
    Result,
    Ridge,
    RidgeCV,
    linear_path,
    logistic_path,
    minimize,
)
from finitesum.constraints import Box, L1Ball
from finitesum.datasets import Dataset, load
from finitesum.datasets.parts import FileParts
from finitesum.estimators.inference import Inference
from finitesum.methods import ACIAG
from finitesum.plots import CoefficientDisplay, CVDisplay, PathDisplay, ResidualDisplay, TraceDisplay

X, y = np.ones((3, 2)), np.array([0, 1, 1])

# -- estimators

model = LogisticRegression(C=1.0, solver="newton", constraint=L1Ball(1.0)).fit(X, y, sample_weight=[1.0, 2.0, 1.0])
assert_type(model, LogisticRegression)
assert_type(model.coef_, NDArray[Any])
assert_type(model.classes_, NDArray[Any])
assert_type(model.feature_names_in_, NDArray[Any])
assert_type(model.standard_errors_, NDArray[Any])
assert_type(model.predict(X), NDArray[Any])
assert_type(model.predict_proba(X), NDArray[Any])
assert_type(model.score(X, y), float)
assert_type(model.optimality_, float)
assert_type(model.summary(), Inference)
assert_type(model.summary().confint(0.9), NDArray[np.float64])
assert_type(LogisticRegression.from_formula("y ~ a", {}), LogisticRegression)
assert_type(LogisticRegressionCV(Cs=5).fit(X, y), LogisticRegressionCV)
assert_type(LogisticRegressionCV(Cs=5).fit(X, y).C_, float)
assert_type(OrdinalLogisticRegression().fit(X, y).thresholds_, NDArray[np.float64])
assert_type(LinearClassifier(loss="hinge", solver=ACIAG()).fit(X, y), LinearClassifier)
assert_type(LinearRegressor("huber").fit(X, y).predict(X), NDArray[Any])
assert_type(PoissonRegressor(alpha=0.0).fit(X, y, offset=[0.0, 0.0, 0.0]), PoissonRegressor)
assert_type(HuberRegressor().fit(X, y).scale_, float)
assert_type(HuberRegressor().fit(X, y).outliers_, NDArray[np.bool_])
assert_type(Ridge(1.0).fit(X, y).coef_, NDArray[Any])
assert_type(RidgeCV().fit(X, y).alpha_, float)
assert_type(linear_path(X, y).alphas, NDArray[np.float64])
assert_type(logistic_path(X, y).coefs, NDArray[Any])
model.trace_.to_frame()

print(model.coeff_)  # pyright: ignore[reportAttributeAccessIssue]
model.fit(X, y, sample_weights=y)  # type: ignore[call-arg]
LogisticRegression(CC=1.0)  # pyright: ignore[reportCallIssue]
LogisticRegression(solver="newtn")  # type: ignore[arg-type]
LinearClassifier(loss="hing")  # type: ignore[arg-type]
LinearRegressor(loss="hubr")  # type: ignore[arg-type]

# -- problems and runs

problem = Problem.linear(X, y, loss="logistic", alpha=0.1, constraint=Box(0.0, 1.0))
assert_type(problem, Problem)
result = minimize(problem, method="a-ciag", sampling="cyclic")
assert_type(result, Result)
assert_type(result.x, NDArray[np.float64])
assert_type(result.fun, float)
assert_type(result.success, bool)
minimize(FiniteSum.from_function(lambda w, batch: batch, (X, y), dim=2, backend="numpy"), tol=1e-8)
finitesum.compare(problem, ["newton", "saga"]).to_frame()

minimize(problem, method="newtn")  # type: ignore[arg-type]
minimize(problem, sampling="cycle")  # type: ignore[arg-type]
Problem.linear(X, y, loss="logit")  # type: ignore[arg-type]

# -- data

data = load("file.svm", task="classification")
assert_type(data, Dataset)
assert_type(data.labels, NDArray[Any] | None)
assert_type(data.n_rows, int)
assert_type(data.rows, NDArray[Any] | Any)
assert_type(data.X, NDArray[Any] | Any)
assert_type(load(["data/*.parquet"]), FileParts)

load("file.svm", task="classify")  # type: ignore[call-overload]

# -- pictures

assert_type(CoefficientDisplay.from_estimator(model), CoefficientDisplay)
assert_type(CVDisplay.from_estimator(model), CVDisplay)
assert_type(PathDisplay.from_estimator(model), PathDisplay)
assert_type(ResidualDisplay.from_estimator(model, X, y), ResidualDisplay)
assert_type(TraceDisplay.from_estimator(model), TraceDisplay)
