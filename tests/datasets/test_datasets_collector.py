"""Rows gathered block by block, in memory and on disk."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from finitesum.datasets import DataError
from finitesum.datasets.formats import collector
from finitesum.datasets.formats.collector import RowCollector, StorageError


@pytest.fixture(params=["memory", "disk"])
def make(request, tmp_path):
    return lambda: RowCollector(tmp_path if request.param == "disk" else None)


def add(target, rows, labels=None):
    target.add_sparse(rows.data, rows.indices.astype(np.int64), np.diff(rows.indptr), labels)


def test_sparse_blocks(make):
    values = np.random.default_rng(0).normal(size=(50, 30))
    rows = csr_array(np.where(values > 1, values, 0.0))
    target = make()
    for start in range(0, 50, 7):
        add(target, rows[start : start + 7], np.arange(start, min(start + 7, 50)))
    contents = target.finish(target_name="y")
    arrays = contents.arrays
    assert contents.target_name == "y"
    assert arrays["indices"].dtype == arrays["indptr"].dtype == np.int32
    got = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(50, contents.n_features))
    np.testing.assert_array_equal(got.toarray(), rows.toarray()[:, : contents.n_features])
    np.testing.assert_array_equal(arrays["labels"], np.arange(50))


def test_dense_blocks(make):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    target = make()
    for start in range(0, 20, 6):
        target.add_dense(rows[start : start + 6], None)
    contents = target.finish()
    np.testing.assert_array_equal(contents.arrays["rows"], rows)
    assert target.folder is None or [file.name for file in target.folder.iterdir()] == ["rows.npy"]
    assert "labels" not in contents.arrays
    assert contents.n_features == 3


@pytest.mark.parametrize("where", ["first", "later", "in the number of entries"])
def test_indices_that_need_eight_bytes(make, where, monkeypatch):
    monkeypatch.setattr(collector, "LARGEST_INT32", 3 if where == "in the number of entries" else 100)
    blocks = [np.array([1, 2]), np.array([0, 3]), np.array([2])]
    if where != "in the number of entries":
        blocks[0 if where == "first" else 2][-1] = 200
    target = make()
    for block in blocks:
        target.add_sparse(np.ones(len(block)), block, np.array([len(block)]), None)
    arrays = target.finish().arrays
    assert arrays["indices"].dtype == arrays["indptr"].dtype == np.int64
    np.testing.assert_array_equal(arrays["indices"], np.concatenate(blocks))


def test_wider_values_later(make):
    target = make()
    target.add_dense(np.full((3, 2), 1.5, dtype=np.float32), None)
    target.add_dense(np.full((1, 2), 0.1), None)
    rows = target.finish().arrays["rows"]
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows[2:], [[1.5, 1.5], [0.1, 0.1]])


def test_rows_without_entries(make):
    target = make()
    target.add_sparse(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(4, dtype=np.int64), None)
    contents = target.finish()
    assert contents.n_features == 0
    assert contents.arrays["indptr"].tolist() == [0] * 5


def test_labels_of_several_widths(make):
    target = make()
    target.add_dense(np.zeros((1, 1)), np.array(["a"]))
    target.add_dense(np.zeros((1, 1)), np.array(["long"]))
    assert target.finish().arrays["labels"].tolist() == ["a", "long"]
    target.reset()
    assert target.folder is None or not list(target.folder.iterdir())
    target.add_dense(np.zeros((1, 1)), np.array(["a"]))
    with pytest.raises(DataError, match="labels mix numbers with text"):
        target.add_dense(np.zeros((1, 1)), np.array([1.0]))


def test_nothing(make):
    with pytest.raises(DataError, match="holds no rows"):
        make().finish()


def test_a_disk_that_cannot_be_written(tmp_path):
    target = RowCollector(tmp_path / "none")
    with pytest.raises(StorageError):
        target.add_dense(np.zeros((1, 1)), None)
