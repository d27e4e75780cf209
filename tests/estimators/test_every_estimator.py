"""The table of estimators in docs/guide/estimators.md: each of its cells is checked for what it says."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import finitesum.estimators as ours
from finitesum.estimators.tasks import HAS_CALLBACKS

PAGE = Path(__file__).parents[2] / "docs/guide/estimators.md"

N, D = 60, 3
SPLITS = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(1, N, 2), np.arange(0, N, 2))]
TIGHT = {"solver": "newton", "tol": 1e-9}
SETTINGS = {
    "LogisticRegressionCV": {"Cs": [0.1, 1.0], "cv": SPLITS, **TIGHT},
    "LinearRegressorCV": {"alphas": [0.01, 0.1], "cv": SPLITS, **TIGHT},
    "RidgeCV": {"alphas": [1.0, 5.0], "cv": SPLITS, **TIGHT},
    "PoissonRegressorCV": {"alphas": [0.01, 0.1], "cv": SPLITS, **TIGHT},
    "LinearRegressor": {"loss": "huber", **TIGHT},
    "TweedieRegressor": {"power": 1.5, **TIGHT},
    "QuantileRegressor": {"alpha": 0.02, "tol": 1e-11},
    "NegativeBinomialRegressor": {"theta": "estimate", **TIGHT},
}
ESTIMATORS = sorted(name for name in ours.__all__ if isinstance(getattr(ours, name), type))


def made(name, **change):
    return getattr(ours, name)(**{**SETTINGS.get(name, TIGHT), **change})


def data(name):
    """Rows, targets that suit any loss, weights, offsets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = rng.integers(0, 2, N) if is_classifier(made(name)) else rng.gamma(2.0, np.exp(0.3 * X[:, 0]))
    y = np.round(y) if name == "NegativeBinomialRegressor" else y
    return X, y, rng.integers(1, 4, N).astype(float), 0.5 * rng.standard_normal(N)


def close(one, other, atol=1e-5):
    np.testing.assert_allclose(one.coef_, other.coef_, atol=atol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=atol)


def weights(name):
    X, y, s, _ = data(name)
    times, starts = s.astype(int), np.concatenate([[0], np.cumsum(s.astype(int))])
    many = [
        tuple(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in part]) for part in split) for split in SPLITS
    ]
    again = made(name, **({"cv": many} if "cv" in SETTINGS.get(name, {}) else {}))
    by_weight = made(name).fit(X, y, sample_weight=s)
    close(by_weight, again.fit(np.repeat(X, times, axis=0), np.repeat(y, times)))
    plain = made(name).fit(X, y)
    assert np.abs(plain.coef_ - by_weight.coef_).max() > 1e-4
    assert by_weight.score(X, y, sample_weight=s) == pytest.approx(
        by_weight.score(np.repeat(X, times, axis=0), np.repeat(y, times)), abs=1e-9
    )


def offset(name):
    X, y, _, o = data(name)
    plain, shifted, other = (
        made(name).fit(X, y),
        made(name).fit(X, y, offset=np.full(N, 0.5)),
        made(name).fit(X, y, offset=o),
    )
    np.testing.assert_allclose(shifted.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(shifted.intercept_, plain.intercept_ - 0.5, atol=1e-5)
    assert np.abs(other.coef_ - plain.coef_).max() > 1e-4
    np.testing.assert_allclose(shifted.predict(X, offset=np.full(N, 0.5)), plain.predict(X), atol=1e-5)


def names_of(name, frame_of):
    X, y, *_ = data(name)
    frame = frame_of(X)
    model = made(name).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    close(model, made(name).fit(X, y), atol=1e-9)
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame[["a", "b", "c"]]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])


def pandas(name):
    library = pytest.importorskip("pandas", reason="pandas is not installed")
    names_of(name, lambda X: library.DataFrame(X, columns=["a", "b", "c"]))


def polars(name):
    library = pytest.importorskip("polars", reason="polars is not installed")
    names_of(name, lambda X: library.DataFrame(X, schema=["a", "b", "c"]))


def warm_start(name):
    X, y, *_ = data(name)
    model = made(name, warm_start=True)
    cold = np.sum(model.fit(X, y).n_passes_)
    first = model.coef_.copy()
    assert np.sum(model.fit(X, y).n_passes_) < cold
    np.testing.assert_allclose(model.coef_, first, atol=1e-6)


def cloned(name):
    X, y, *_ = data(name)
    model = made(name).fit(X, y)
    other = clone(model)
    assert str(other.get_params()) == str(model.get_params())
    assert not hasattr(other, "coef_")
    close(other.fit(X, y), model, atol=1e-12)


def pickled(name):
    X, y, *_ = data(name)
    model = made(name).fit(X, y)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.optimality_ == model.optimality_


def routed(name):
    X, y, s, o = data(name)
    with config_context(enable_metadata_routing=True):
        model = made(name).set_fit_request(sample_weight=True, offset=True)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, sample_weight=s, offset=o)
    close(pipeline[-1], made(name).fit(X, y, sample_weight=s, offset=o), atol=1e-12)


def callbacks(name):
    X, y, *_ = data(name)
    seen, ended = [], []
    made(name, callback=lambda report: seen.append(report.n_passes)).fit(X, y)
    assert seen
    if HAS_CALLBACKS:

        class Recorder:
            def setup(self, estimator, context): ...

            def teardown(self, estimator, context): ...

            def on_fit_task_begin(self, estimator, context): ...

            def on_fit_task_end(self, estimator, context):
                ended.append(context.task_name)

        made(name).set_callbacks(Recorder()).fit(X, y)
        assert "pass" in ended
        assert ended[-1] == "fit"


CHECKS = {
    "weights = repetition": weights,
    "offset": offset,
    "pandas names": pandas,
    "polars names": polars,
    "warm start": warm_start,
    "clone": cloned,
    "pickle": pickled,
    "metadata routing": routed,
    "callbacks": callbacks,
}


def table():
    """The cells of the page by estimator and column."""
    section = PAGE.read_text(encoding="utf-8").partition("## What each of them can do")[2].partition("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    head = rows[0]
    return {
        (re.sub("`", "", row[0]), column): cell for row in rows[2:] for column, cell in zip(head[1:], row[1:], strict=True)
    }


def test_the_table_has_every_estimator_and_every_column():
    assert set(table()) == {(name, column) for name in ESTIMATORS for column in CHECKS}
    assert set(table().values()) == {"y"}  # another cell needs a check of the opposite, and its reason on the page


@pytest.mark.parametrize("column", CHECKS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_cell_is_true(name, column):
    CHECKS[column](name)
