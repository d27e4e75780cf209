"""Cross-validation and paths: scores that are missing, metrics without weights, parameters that mean nothing there."""

import numpy as np
import pytest
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold

from finitesum import LogisticRegression, LogisticRegressionCV, logistic_path
from finitesum.constraints import L1Ball

CHEAP = {"solver": "newton"}


def data(n=80, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(int)


def test_a_C_without_a_score_is_not_chosen():
    X, y = data()
    Cs = [1e-3, 0.1, 10.0]

    def size_if_small(estimator, X, y):
        size = float(np.abs(estimator.coef_).max())
        return size if size < 1.0 else np.nan

    with pytest.warns(UserWarning, match="1 of 3 Cs have no score in some fold"):
        model = LogisticRegressionCV(Cs, cv=3, scoring=size_if_small, **CHEAP).fit(X, y)
    assert np.isnan(model.scores_[:, 2]).any()
    assert model.C_ == 0.1
    with pytest.raises(ValueError, match="no C has a score in every fold"):
        LogisticRegressionCV(Cs, cv=3, scoring=lambda *_: np.nan, **CHEAP).fit(X, y)


def test_standard_errors_that_are_not_known_are_refused_before_the_folds():
    def never(*_):
        raise AssertionError("a fold was scored")

    model = LogisticRegressionCV([1.0], scoring=never, constraint=L1Ball(1.0), standard_errors=True, **CHEAP)
    with pytest.raises(ValueError, match="standard errors are not known with a constraint"):
        model.fit(*data())


def test_a_metric_without_weights_is_not_given_any():
    X, y = data()
    s = np.random.default_rng(0).uniform(0.5, 2.0, y.size)

    def share_right(truth, predicted):
        return float((truth == predicted).mean())

    model = LogisticRegressionCV([0.01, 1.0], cv=3, scoring=make_scorer(share_right), **CHEAP)
    model.fit(X, y, sample_weight=s)
    for k, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        for m, C in enumerate(model.Cs_):
            one = LogisticRegression(C, **CHEAP).fit(X[train], y[train], sample_weight=s[train])
            assert model.scores_[k, m] == share_right(y[test], one.predict(X[test]))
    assert model.score(X, y, sample_weight=s) == share_right(y, model.predict(X))


@pytest.mark.parametrize(
    "parameter", [{"C": 2.0}, {"callback": print}, {"measure_every": 1}, {"standard_errors": True}, {"warm_start": True}]
)
def test_a_path_refuses_what_it_would_ignore(parameter):
    (name,) = parameter
    with pytest.raises(TypeError, match=f"logistic_path has no {name}"):
        logistic_path(*data(), Cs=[1.0], **parameter)


@pytest.mark.compiled
def test_a_path_uses_threads():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 3))
    y = X.sum(axis=1) + rng.standard_normal(20_000) > 0
    one, two = (logistic_path(X, y, Cs=[0.1, 1.0], solver="auto", n_threads=k) for k in (1, 2))
    assert [result.method.n_threads for result in two.results] == [2, 2]
    assert np.allclose(one.coefs, two.coefs, atol=1e-8)
