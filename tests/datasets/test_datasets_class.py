"""The data set itself."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from finitesum.datasets import DataError, Dataset, LabelMap
from finitesum.datasets.errors import preview


def data(labels=(1, 2, 2), **kwargs):
    return Dataset(np.eye(3), None if labels is None else np.array(labels), **kwargs)


def test_import_is_light():
    code = "import finitesum.datasets, sys; print([m for m in ('sklearn', 'scipy', 'numba', 'pooch') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_sizes():
    dense = data()
    sparse = dense.to_sparse()
    assert (dense.n_rows, dense.n_features, dense.nnz, dense.density) == (3, 3, 9, 1.0)
    assert (sparse.n_rows, sparse.n_features, sparse.nnz, sparse.density) == (3, 3, 3, 1 / 3)
    assert sparse.is_sparse
    assert not dense.is_sparse
    assert not dense.is_memmapped
    assert isinstance(sparse.rows, csr_array)
    np.testing.assert_array_equal(sparse.to_dense().rows, dense.rows)
    assert dense.to_dense() is dense
    assert sparse.to_sparse() is sparse


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ([1, 2, 2], "classification"),
        ([0.5, 0.7, 0.5], "classification"),
        ([0.5, 0.7, 0.9], "regression"),
        ([1, 2, 3], "classification"),
        (["a", "b", "c"], "classification"),
        ([True, False, True], "classification"),
    ],
)
def test_task_is_inferred(labels, task):
    assert data(labels).inferred_task == task


def test_many_whole_numbers_are_a_regression():
    rows = np.zeros((30, 1))
    assert Dataset(rows, np.arange(30)).inferred_task == "regression"
    assert Dataset(rows, np.arange(30), task="classification").inferred_task == "classification"


def test_targets():
    np.testing.assert_array_equal(data().targets(), [-1.0, 1.0, 1.0])
    np.testing.assert_array_equal(data([3, 1, 2]).targets(), [2, 0, 1])
    regression = data([3, 1, 2], task="regression").targets()
    np.testing.assert_array_equal(regression, [3.0, 1.0, 2.0])
    assert regression.dtype == np.float64
    np.testing.assert_array_equal(data([1, 1, 1]).targets(LabelMap((0, 1))), [1.0, 1.0, 1.0])


def test_targets_that_do_not_suit():
    with pytest.raises(DataError, match="iris: classes must be at least two"):
        data([1, 1, 1], name="iris").targets()
    with pytest.raises(DataError, match="a regression needs numbers as labels, got 'a'"):
        data(["a", "b", "c"], task="regression").targets()
    with pytest.raises(DataError, match="has no labels"):
        data(None).targets()


def test_take_and_astype():
    some = data().take([2, 0])
    np.testing.assert_array_equal(some.labels, [2, 1])
    np.testing.assert_array_equal(some.rows, np.eye(3)[[2, 0]])
    assert data().to_sparse().take(slice(0, 2)).n_rows == 2
    assert data(None).take([0]).labels is None
    assert data().astype("float32").rows.dtype == np.float32
    with pytest.raises(DataError, match="must be float32 or float64, got int64"):
        data().astype(int)


def test_summary_is_json():
    summary = json.loads(json.dumps(data(name="tiny").summary()))
    assert summary["classes"] == {"1": 1, "2": 2}
    assert summary["n_features"] == 3
    assert data(None).summary()["task"] is None


def test_repr():
    assert repr(data(name="t")) == "Dataset('t': 3 rows, 3 features, dense float64, classification)"
    assert repr(data(None).to_sparse()) == "Dataset('': 3 rows, 3 features, sparse float64, 3 entries, no labels)"


def test_parts_must_fit():
    with pytest.raises(DataError, match=r"labels have shape \(2,\), but there are 3 rows"):
        data([1, 2])
    with pytest.raises(DataError, match="1 names for 3 features"):
        data(feature_names=("a",))
    with pytest.raises(DataError, match="task must be"):
        data(task="ranking")
    with pytest.raises(DataError, match=r"two axes, got shape \(3,\)"):
        Dataset(np.zeros(3), None)


def test_previews_are_short():
    assert preview("x" * 100, width=10) == "'xxxxxx..."
    assert preview(b"\xff") == repr("\\xff")
