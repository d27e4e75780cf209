"""Arrays of other libraries, formulas, and models in other forms."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone

from finitesum import Ridge, estimators
from finitesum.estimators.onnx import as_scikit_learn, register_converters

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


class OnDevice:
    """An array that is not converted by itself, as CuPy's are: `get` brings it over."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __dlpack__(self, **_options):
        raise BufferError("on another device")

    def __array__(self, *_types, **_options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self.values


def test_arrays_that_are_brought_over_by_asking_for_them():
    rng = np.random.default_rng(0)
    X, y, weights = rng.standard_normal((40, 3)), rng.integers(0, 2, 40), rng.integers(1, 3, 40)
    expected = estimators.LogisticRegression().fit(X, y, sample_weight=weights)
    model = estimators.LogisticRegression().fit(OnDevice(X), OnDevice(y), sample_weight=OnDevice(weights))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict_proba(OnDevice(X)), expected.predict_proba(X))


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


def fitted(kind, n_classes=3):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, n_classes, 60)
    is_classifier = hasattr(kind, "class_weight")
    y = np.array(["a", "b", "c"])[y] if is_classifier else y + 1.0
    return kind().fit(X, y), X, y, is_classifier


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_models_of_scikit_learn_with_the_same_coefficients(kind, n_classes):
    model, X, _, is_classifier = fitted(kind, n_classes)
    if kind is estimators.OrdinalLogisticRegression and n_classes > 2:
        with pytest.raises(ValueError, match="no classifier of ordered classes"):
            as_scikit_learn(model)
        return
    twin = as_scikit_learn(model)
    assert type(twin).__module__.startswith("sklearn.")
    if not is_classifier:
        np.testing.assert_allclose(twin.predict(X), model.predict(X), rtol=1e-12)
        return
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    np.testing.assert_allclose(twin.decision_function(X), model.decision_function(X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_onnx(kind, n_classes, dtype):
    skl2onnx, runtime = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    register_converters()
    model, X, y, is_classifier = fitted(kind, n_classes)
    if kind is estimators.OrdinalLogisticRegression and n_classes > 2:
        pytest.skip("scikit-learn has no classifier of ordered classes")
    if kind is estimators.LinearSVC and dtype is np.float64:
        pytest.skip("skl2onnx converts no LinearSVC in double precision")
    scaled = make_pipeline(StandardScaler(), model)
    scaled.fit(X, y)
    options = {id(model): {"zipmap": False}} if is_classifier else None
    made = skl2onnx.to_onnx(scaled, X[:1].astype(dtype), options=options)
    found = runtime.InferenceSession(made.SerializeToString()).run(None, {"X": X.astype(dtype)})
    tol = 1e-5 if dtype is np.float32 else 1e-12
    if not is_classifier:
        np.testing.assert_allclose(found[0].ravel(), scaled.predict(X), rtol=tol, atol=tol)
        return
    np.testing.assert_array_equal(found[0], scaled.predict(X))
    scores = scaled.predict_proba(X) if hasattr(model, "predict_proba") else scaled.decision_function(X).reshape(60, -1)
    np.testing.assert_allclose(found[1], scores, rtol=100 * tol, atol=tol)


def test_models_that_scikit_learn_has_not():
    X, y = np.arange(8.0).reshape(-1, 1), np.array([0, 0, 1, 0, 1, 0, 1, 1])
    with pytest.raises(ValueError, match="no classifier with the probabilities of the loss 'probit'"):
        as_scikit_learn(estimators.LinearClassifier(loss="probit").fit(X, y))
    with pytest.raises(ValueError, match="no regressor whose means are those of Binomial"):
        as_scikit_learn(estimators.LinearRegressor(loss="binomial").fit(X, y))
