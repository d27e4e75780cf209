"""Penalties, weights of coefficients, groups and bounds as estimators take them."""

import numpy as np
import pandas as pd
import pytest

from finitesum import (
    METHODS,
    LinearClassifier,
    LinearRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Problem,
    Ridge,
    estimators,
    logistic_path,
    minimize,
)
from finitesum.constraints import Box, L1Ball, NonNegative
from finitesum.estimators.elsewhere import PARAMETERS, SOLVERS
from finitesum.problems.penalties import MCP, SCAD

N, D = 80, 4


def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((N, D)), columns=list("abcd"))
    signal = X.to_numpy() @ [1.5, -0.8, 0.1, 0.0]
    return X, signal + rng.standard_normal(N), rng


def solution(X, y, loss, **term):
    problem = Problem.linear(X.to_numpy(), y, loss=loss, fit_intercept=True, **term)
    return minimize(problem, tol=1e-9).x


WEIGHTS = [1.0, 0.0, 2.0, 0.5]
TERMS = {
    "weights": ({"penalty_weights": WEIGHTS}, {"alpha": 0.1, "penalty_weights": WEIGHTS}),
    "adaptive lasso": (
        {"penalty_weights": WEIGHTS, "l1_ratio": 1.0},
        {"alpha": 0.1, "l1_ratio": 1.0, "penalty_weights": WEIGHTS},
    ),
    "groups": ({"groups": [0, 0, 1, 1], "l1_ratio": 0.2}, {"alpha": 0.1, "l1_ratio": 0.2, "groups": [0, 0, 1, 1]}),
    "mcp": ({"penalty": "mcp"}, {"penalty": MCP(0.1)}),
    "scad": ({"penalty": SCAD(0.2)}, {"penalty": SCAD(0.2)}),
    "bounds by name": (
        {"bounds": {"a": (None, 0.5), "b": (0.0, None)}},
        {"alpha": 0.1, "constraint": Box([-np.inf, 0.0, -np.inf, -np.inf], [0.5, np.inf, np.inf, np.inf])},
    ),
    "bounds by number": (
        {"bounds": {3: (0.2, 0.3)}},
        {"alpha": 0.1, "constraint": Box([-np.inf] * 3 + [0.2], [np.inf] * 3 + [0.3])},
    ),
    "one pair of bounds": ({"bounds": (0.0, None)}, {"alpha": 0.1, "constraint": Box(0.0, np.inf)}),
}


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("model", ["squared", "poisson", "logistic", "C"])
def test_estimators_solve_the_problem_of_these_words(model, term):
    X, y, rng = data()
    own, known = TERMS[term]
    signs = np.where(y > 0.0, 1, -1)
    estimator, target, loss = {
        "squared": (LinearRegressor(alpha=0.1, **own), y, "squared"),
        "poisson": (PoissonRegressor(alpha=0.1, **own), rng.poisson(np.exp(0.3 * y)), "poisson"),
        "logistic": (LinearClassifier(alpha=0.1, **own), signs, "logistic"),
        "C": (LogisticRegression(C=1.0 / (0.1 * N), **own), signs, "logistic"),
    }[model]
    estimator.fit(X, target)
    expected = solution(X, target, loss, **known)
    assert np.append(estimator.coef_, estimator.intercept_) == pytest.approx(expected, abs=2e-6)


def test_several_classes_have_weights_and_groups():
    X, y, _ = data()
    classes = np.digitize(y, [-0.7, 0.7])
    for own, known in (TERMS["weights"], TERMS["groups"]):
        model = LogisticRegression(C=1.0 / (0.1 * N), **own).fit(X, classes)
        problem = Problem.linear(X.to_numpy(), classes, loss="multinomial", fit_intercept=True, **known)
        assert float(model.objective_) == pytest.approx(minimize(problem, tol=1e-9).fun, rel=1e-9)
    model = LogisticRegression(C=1.0 / (0.1 * N), bounds=(0.0, None)).fit(X, classes)
    problem = Problem.linear(
        X.to_numpy(), classes, loss="multinomial", alpha=0.1, fit_intercept=True, constraint=NonNegative()
    )
    assert model.coef_.min() == 0.0
    assert float(model.objective_) == pytest.approx(minimize(problem, tol=1e-9).fun, rel=1e-9)


def test_paths_and_folds_have_them_at_each_strength():
    X, y, _ = data()
    signs = y > 0.0
    path = logistic_path(X, signs, Cs=[0.1, 1.0], penalty_weights=WEIGHTS)
    for C, coef in zip(path.Cs, path.coefs[:, 0], strict=True):
        alone = LogisticRegression(C=C, penalty_weights=WEIGHTS).fit(X, signs)
        assert coef == pytest.approx(alone.coef_[0], abs=1e-6)
    chosen = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, groups=[0, 0, 1, 1]).fit(X, signs)
    alone = LogisticRegression(C=chosen.C_, groups=[0, 0, 1, 1]).fit(X, signs)
    assert chosen.coef_[0] == pytest.approx(alone.coef_[0], abs=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"penalty": "l1"}, 'penalty="l1" is written as l1_ratio=1 here'),
        ({"penalty": "elasticnet"}, 'penalty="elasticnet" is written as l1_ratio between 0 and 1 here'),
        ({"penalty": "elasticnet", "l1_ratio": 0.5}, 'penalty="elasticnet" is written as l1_ratio between 0 and 1 here'),
        (
            {"solver": "newton-cholesky"},
            'solver="newton-cholesky" is one of another library: leave solver at "auto", which chooses',
        ),
        ({"penalty": "ridge"}, 'penalty must be "mcp", "scad" or one of finitesum.problems.penalties'),
        ({"penalty": "mcp", "l1_ratio": 0.5}, "penalty goes without l1_ratio"),
        ({"penalty": "mcp", "groups": [0, 0, 1, 1]}, "penalty goes without alpha, l1_ratio and groups"),
        ({"bounds": (0.0, None), "constraint": L1Ball(1.0)}, "bounds and constraint cannot be combined"),
        ({"bounds": {"e": (0.0, 1.0)}}, "bounds has a column 'e', but the columns are a, b, c, d"),
        ({"bounds": {7: (0.0, 1.0)}}, "bounds has a column 7"),
        ({"bounds": {"a": 1.0}}, r"bounds of 'a' must be a pair \(lower, upper\), got 1.0"),
        ({"bounds": 3.0}, r"bounds must be a dict by column, or a pair \(lower, upper\), got 3.0"),
        ({"constraint": L1Ball(1.0), "l1_ratio": 1.0}, "an l1 penalty goes with bounds of coefficients"),
    ],
)
def test_words_that_mean_nothing_here_are_refused_with_what_to_write(given, message):
    X, y, _ = data()
    with pytest.raises(ValueError, match=message):
        LinearRegressor(alpha=0.1, **given).fit(X, y)


def test_parameters_of_other_libraries_are_answered_with_what_to_write():
    for name, answer in (("n_jobs", "n_threads"), ("positive", "bounds"), ("A_ineq", "constraint=Polyhedron")):
        with pytest.raises(TypeError, match=f"LinearRegressor has no parameter {name}: here it is {answer}"):
            LinearRegressor(alpha=0.1, **{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing_known'"):
        LinearRegressor(nothing_known=1)
    own = {name for cls in vars(estimators).values() for name in getattr(cls, "__dataclass_fields__", ())}
    assert not own & set(PARAMETERS)  # no parameter is answered by another name for itself
    assert not SOLVERS & set(METHODS)


def test_the_normal_equations_know_no_weights():
    X, y, _ = data()
    with pytest.raises(ValueError, match="partial_fit needs"):
        Ridge(penalty_weights=WEIGHTS).partial_fit(X, y)
