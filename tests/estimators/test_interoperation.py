"""Arrays of other libraries, formulas, and models in other forms."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone

from finitesum import Ridge, estimators

ESTIMATORS = [getattr(estimators, name) for name in estimators.__all__ if not name.endswith("path")]


@pytest.fixture
def dispatching(monkeypatch):
    """Let scikit-learn return arrays of the library that X is of; SciPy is asked at its import only, and not needed."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_tensors(dispatching, kind):
    torch = pytest.importorskip("torch")
    from sklearn.utils.estimator_checks import check_array_api_input

    check = {"array_namespace": "torch", "device_name": "cpu", "dtype_name": "float64", "check_values": True}
    check_array_api_input(kind.__name__, kind(), check_sample_weight=True, **check)
    assert torch.get_default_dtype() == torch.float32


def test_kinds_of_results(monkeypatch):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 2, 40)
    expected = estimators.LogisticRegression().fit(X, y)
    tensor, labels = torch.tensor(X, requires_grad=True), torch.tensor(y)
    model = estimators.LogisticRegression().fit(tensor, labels)
    assert type(model.coef_) is type(model.predict(tensor)) is np.ndarray  # without dispatch, as scikit-learn has it
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        model = estimators.LogisticRegression(warm_start=True).fit(tensor, labels)
        assert isinstance(model.coef_, torch.Tensor)
        assert isinstance(model.predict_proba(tensor), torch.Tensor)
        assert model.fit(tensor, labels).n_iter_.item() == 1
        assert model.score(tensor, labels) == expected.score(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    text = estimators.LogisticRegression().fit(tensor, np.array(["a", "b"])[y])
    assert set(text.predict(tensor)) == {"a", "b"}


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    n = 80
    found = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.standard_normal(n), "town": rng.choice(["A", "B", "C"], n)})
    found["y"] = found.a - 2.0 * found.a * found.b + (found.town == "B") + 0.1 * rng.standard_normal(n)
    found["kind"], found["times"] = np.where(found.y > 0, "high", "low"), rng.integers(1, 4, n)
    return found.set_index(np.arange(n)[::-1])


def design(frame):
    columns = {"town[T.B]": (frame.town == "B") * 1.0, "town[T.C]": (frame.town == "C") * 1.0, "a:b": frame.a * frame.b}
    return pd.DataFrame({"a": frame.a, "b": frame.b, **columns})


def test_formulas(frame):
    pytest.importorskip("formulaic")
    X = design(frame)
    by_hand = Ridge(alpha=0.5).fit(X, frame.y, sample_weight=frame.times)
    model = Ridge.from_formula("y ~ a * b + town", frame, alpha=0.5, sample_weight="times")
    order = [list(model.feature_names_in_).index(name) for name in X.columns]
    np.testing.assert_allclose(model.coef_[order], by_hand.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(frame[["b", "town", "a"]]), by_hand.predict(X), atol=1e-9)
    few = frame[frame.town == "C"]  # the levels are those of the fit
    np.testing.assert_allclose(model.predict(few), by_hand.predict(design(few)), atol=1e-9)
    assert model.score(frame, frame.y) == pytest.approx(by_hand.score(X, frame.y))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert not hasattr(clone(model), "formula_")
    assert not hasattr(model.fit(X, frame.y), "formula_")


def test_formulas_of_labels_expressions_and_without_intercept(frame):
    pytest.importorskip("formulaic")
    model = estimators.LogisticRegression.from_formula("kind ~ a + C(town)", frame, standard_errors=True)
    assert model.classes_.tolist() == ["high", "low"]
    assert "C(town)[T.B]" in repr(model.summary())
    logged = Ridge.from_formula("np.exp(y) ~ a - 1", frame)
    assert (logged.fit_intercept, logged.n_features_in_) == (False, 1)
    np.testing.assert_array_equal(logged.coef_, Ridge(fit_intercept=False).fit(frame[["a"]], np.exp(frame.y)).coef_)


def test_formulas_and_missing_values(frame):
    pytest.importorskip("formulaic")
    gaps = frame.copy()
    gaps.iloc[3, gaps.columns.get_loc("a")] = np.nan
    gaps.iloc[5, gaps.columns.get_loc("y")] = np.nan
    offset = np.arange(80.0)
    kept = np.delete(np.arange(80), [3, 5])
    model = Ridge.from_formula("y ~ a", gaps, offset=offset)
    expected = Ridge().fit(frame.iloc[kept][["a"]], frame.y.iloc[kept], offset=offset[kept])
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    with pytest.raises(ValueError, match=r'the formula "y ~ a" cannot be evaluated: .* null'):
        model.predict(gaps)


@pytest.mark.parametrize(
    ("formula", "parameters", "says"),
    [
        ("a + b", {}, "must have a target and features"),
        ("y ~ missing", {}, 'the formula "y ~ missing" cannot be evaluated'),
        ("y + a ~ b", {}, "must have one target on the left, got 2"),
        ("y ~ a", {"fit_intercept": False}, "fit_intercept is what the formula says"),
    ],
)
def test_formulas_that_cannot_be(frame, formula, parameters, says):
    pytest.importorskip("formulaic")
    with pytest.raises(ValueError, match=says):
        Ridge.from_formula(formula, frame, **parameters)
