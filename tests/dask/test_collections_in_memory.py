"""Dask collections that are given to what works in memory are refused in one sentence, not brought there."""

import inspect

import numpy as np
import pytest

import finitesum
import finitesum.dask as on_dask
from finitesum import Problem, estimators
from finitesum.core.engine import PartError
from finitesum.estimators.elsewhere import ON_DASK

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((40, 3)), rng.random(40)
    y = (X[:, 0] + rng.standard_normal(40) > 0.0).astype(int)

    def unread(block):
        raise AssertionError("a block was computed")

    lazy = [da.from_array(one, chunks=(10, *one.shape[1:])).map_blocks(unread, meta=one[:0]) for one in (X, y, w)]
    return (X, y, w), lazy


def names():
    made = {name: getattr(estimators, name) for name in estimators.__all__}
    return [name for name, one in made.items() if inspect.isclass(one)]


@pytest.mark.parametrize("name", names())
def test_a_fit_says_which_classes_there_are(name, given):
    (X, y, _), (dX, dy, dw) = given
    model = getattr(estimators, name)()
    go = (
        f"fit finitesum.dask.{name} "
        if name in ON_DASK
        else f"finitesum.dask has no {name}: fit one of GammaRegressor, Hub"
    )
    for argument, call in {
        "X": lambda: model.fit(dX, dy),
        "y": lambda: model.fit(X, dy),
        "sample_weight": lambda: model.fit(X, y, sample_weight=dw),
        "offset": lambda: model.fit(X, y, None, dw),
    }.items():
        with pytest.raises(TypeError) as error:
            call()
        assert str(error.value).startswith(f"{argument} is a Dask collection")
        assert go in str(error.value)
        assert str(error.value).endswith(f"{argument}.compute() where that fits into memory.")


def test_the_classes_that_are_named_are_those_there_are():
    assert set(on_dask.__all__) == {*ON_DASK, "DaskEngine"}
    pytest.importorskip("distributed", reason="distributed is not installed")
    assert all(getattr(on_dask, name).__name__ == name for name in ON_DASK)


def test_what_a_fitted_model_does_with_rows_says_where_to_go(given):
    (X, y, _), (dX, dy, dw) = given
    model = finitesum.LogisticRegression().fit(X, y)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(TypeError, match=f"X is a Dask collection: call {method} for its blocks, by X.map_blocks"):
            getattr(model, method)(dX)
        with pytest.raises(
            TypeError, match=rf"offset is a Dask collection, which {method} does not take: give offset\.comp"
        ):
            getattr(model, method)(X, dw)
    with pytest.raises(TypeError, match=r"X is a Dask collection: score by a fitted finitesum\.dask\.LogisticRegression"):
        model.score(dX, dy)
    with pytest.raises(TypeError, match=r"sample_weight is a Dask collection: score by a fitted finitesum\.dask\.Logist"):
        model.score(X, y, dw)
    with pytest.raises(TypeError, match=r"X is a Dask collection, which inference does not take: give X\.compute\(\)"):
        model.inference(dX, dy)
    with pytest.raises(TypeError, match="X is a Dask collection, which partial_fit does not take"):
        finitesum.Ridge().partial_fit(dX, dy)
    with pytest.raises(TypeError, match="sample_weight is a Dask collection"):
        finitesum.logistic_path(X, y, sample_weight=dw)
    with pytest.raises(TypeError, match=r"y is a Dask collection: fit finitesum\.dask\.LinearRegressor"):
        finitesum.linear_path(X, dy)


def test_problems_say_where_to_go(given):
    (X, y, _), (dX, dy, dw) = given
    go = "is a Dask collection, which would be brought into memory: give its blocks to Problem.partitioned"
    for arguments, named, at in (
        ((dX, dy), {}, "X"),
        ((X, dy), {}, "y"),
        ((X, dy), {"loss": "squared"}, "y"),
        ((X, y), {"sample_weight": dw}, "sample_weight"),
        ((X, y), {"offset": dw}, "offset"),
    ):
        with pytest.raises(TypeError, match=f"^{at} {go}"):
            Problem.linear(*arguments, **named)
    with pytest.raises(TypeError, match=f"^part 1: y {go}"):
        Problem.partitioned([(X, y), (X, dy)])
    with pytest.raises(PartError, match=f"part 0: TypeError: X {go}"):
        Problem.partitioned([lambda: (dX, dy)])
    with pytest.raises(TypeError, match="parts must be a list of parts, got a Dask collection: give each of its blocks"):
        Problem.partitioned(dX)


def test_predictions_of_blocks_are_those_of_a_model_in_memory(given):
    (X, y, _), _ = given
    model = finitesum.LogisticRegression().fit(X, y)
    lazy = da.from_array(X, chunks=(10, 3)).map_blocks(model.predict, drop_axis=1, dtype=int)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), model.predict(X))
    frames = pytest.importorskip("dask.dataframe", reason="dask has no dataframes")
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    model.fit(frame, y)
    with pytest.raises(TypeError, match="X is a Dask collection: call predict"):
        model.predict(frames.from_pandas(frame, npartitions=2))
    lazy = frames.from_pandas(frame, npartitions=2).map_partitions(model.predict)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), model.predict(frame))
