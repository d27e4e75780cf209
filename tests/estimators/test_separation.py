"""Classes that are separated have no best logistic model without a penalty: fits say so, where it is so."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from finitesum import LinearClassifier, LogisticRegression, LogisticRegressionCV
from finitesum.constraints import L2Ball

CHEAP = {"solver": "newton", "tol": 1e-6}
FREE = [
    LogisticRegression(C=np.inf, **CHEAP),
    LogisticRegressionCV(Cs=[np.inf], cv=2, **CHEAP),
    LinearClassifier(alpha=0.0, **CHEAP),
]


def data(n_classes, separated):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    angles = 2.0 * np.pi * np.arange(n_classes) / n_classes
    X[:, :2] += (10.0 if separated else 0.5) * np.column_stack([np.cos(angles), np.sin(angles)])[np.arange(90) % n_classes]
    return X, np.arange(90) % n_classes


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", FREE, ids=lambda model: type(model).__name__)
def test_separated_classes_are_warned_of(model, n_classes):
    with pytest.warns(ConvergenceWarning, match=f"{type(model).__name__}: the classes are separated"):
        model.fit(*data(n_classes, separated=True))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", FREE, ids=lambda model: type(model).__name__)
def test_classes_that_overlap_are_not(model, n_classes):
    model.fit(*data(n_classes, separated=False))  # warnings are errors


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(C=1e6, **CHEAP),
        LinearClassifier(alpha=0.0, constraint=L2Ball(1.0), **CHEAP),
        LinearClassifier(loss="squared-hinge", alpha=0.0, **CHEAP),
    ],
    ids=repr,
)
def test_penalties_constraints_and_other_losses_have_a_best_model(model):
    model.fit(*data(2, separated=True))


def test_rows_of_weight_zero_do_not_overlap():
    X, y = data(2, separated=True)
    y, s = y.copy(), np.ones(y.size)
    y[:4], s[:4] = 1 - y[:4], 0.0
    with pytest.warns(ConvergenceWarning, match="the classes are separated"):
        LogisticRegression(C=np.inf, **CHEAP).fit(X, y, sample_weight=s)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LogisticRegression(C=np.inf, **CHEAP).fit(X, y)
