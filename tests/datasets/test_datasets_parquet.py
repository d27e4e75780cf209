"""Parquet tables, through pyarrow."""

import builtins

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from finitesum.datasets import DataError, load
from finitesum.datasets.formats import parquet

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'finitesum[data]'")
pq = pytest.importorskip("pyarrow.parquet")


def write(tmp_path, columns):
    path = tmp_path / "t.parquet"
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
    return path


def test_columns_of_numbers(tmp_path):
    columns = {"a": [1.5, 2.5], "b": [1, 2], "c": [True, False], "label": ["u", "v"]}
    data = load(write(tmp_path, columns))
    np.testing.assert_array_equal(data.rows, [[1.5, 1, 1], [2.5, 2, 0]])
    assert data.rows.dtype == np.float64
    assert data.labels.tolist() == ["u", "v"]
    assert data.feature_names == ("a", "b", "c")
    assert data.target_name == "label"


def test_single_precision_is_kept(tmp_path):
    data = load(write(tmp_path, {"a": pa.array([1.5, 2.5], pa.float32()), "y": [1, 2]}))
    assert data.rows.dtype == np.float32
    assert data.labels.tolist() == [1, 2]


@pytest.mark.parametrize(("target", "labels"), [("b", [3, 4]), (0, [1, 2]), (-1, [5, 6]), (False, None)])
def test_target(tmp_path, target, labels):
    data = load(write(tmp_path, {"a": [1, 2], "b": [3, 4], "c": [5, 6]}), target=target)
    assert (None if data.labels is None else data.labels.tolist()) == labels


def test_what_pandas_writes(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": pd.Categorical(["u", "v"])}, index=pd.Index([5, 7], name=None))
    path = tmp_path / "frame.parquet"
    frame.to_parquet(path)
    data = load(path)
    np.testing.assert_array_equal(data.rows, [[1], [2]])
    assert data.labels.tolist() == ["u", "v"]


@pytest.mark.parametrize("target", [None, "y", False])
@pytest.mark.parametrize("labels_first", [False, True])
def test_lists_of_entries(tmp_path, target, labels_first, monkeypatch):
    monkeypatch.setattr(parquet, "N_ROWS", 2)
    indices = pa.array([[0, 3], [], [2, 1], [0]], pa.list_(pa.int64()))
    columns = {"indices": indices, "values": [[1.0, 2.0], [], [3.0, 4.0], [5.0]]}
    labels = {"y": [1.0, 2.0, 1.0, 2.0]}
    data = load(write(tmp_path, {**labels, **columns} if labels_first else {**columns, **labels}), target=target)
    assert isinstance(data.rows, csr_array)
    assert data.rows.indices.dtype == np.int32
    assert data.rows.indices.tolist() == [0, 3, 1, 2, 0]
    np.testing.assert_array_equal(data.rows.toarray(), [[1, 0, 0, 2], [0] * 4, [0, 4, 3, 0], [5, 0, 0, 0]])
    assert data.labels is None if target is False else data.labels.tolist() == [1, 2, 1, 2]


def test_lists_without_labels(tmp_path):
    data = load(write(tmp_path, {"i": [[0, 1], [2]], "v": [[1.0, 2.0], [3.0]]}))
    assert data.labels is None
    assert data.rows.shape == (2, 3)


BROKEN = {
    "null": ({"a": [1.0, None], "y": [1, 2]}, r"column 'a': row 1 \(from 0\) has no value"),
    "nan": ({"a": [1.0, float("nan")], "y": [1, 2]}, r"column 'a': row 1 \(from 0\) is nan"),
    "text": ({"a": ["x", "z"], "y": [1, 2]}, "column 'a': string is no type of numbers"),
    "null label": ({"a": [1.0, 2.0], "y": ["u", None]}, r"column 'y': row 1 \(from 0\) has no value"),
    "label type": ({"a": [1.0], "y": [pd.Timestamp(2020, 1, 1)]}, "labels must be numbers or text, got timestamp"),
    "one column": ({"a": [1.0]}, "one column only"),
    "no rows": ({"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}, "holds no rows"),
    "lists and more": ({"i": [[1]], "v": [[1.0]], "a": [1.0], "y": [1]}, "sparse rows need one column of lists"),
    "one list": ({"v": [[1.0]], "y": [1]}, "sparse rows need one column of lists"),
    "lengths": ({"i": [[1], [1, 2]], "v": [[1.0], [1.0]], "y": [1, 2]}, r"row 1 \(from 0\) has 2 indices and 1 values"),
    "twice": ({"i": [[1], [2, 2]], "v": [[1.0], [1.0, 2.0]], "y": [1, 2]}, r"row 1 \(from 0\) has index 2 twice"),
    "negative": ({"i": [[-1]], "v": [[1.0]], "y": [1]}, "index -1 is negative"),
    "inside": ({"i": [[1, None]], "v": [[1.0, 2.0]], "y": [1]}, "inside the list of indices"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_tables_that_cannot_be_used(tmp_path, case):
    columns, message = BROKEN[case]
    with pytest.raises(DataError, match=message):
        load(write(tmp_path, columns))


def test_names_must_differ(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(DataError, match="the columns need names, each its own"):
        load(write(tmp_path, table))


def test_damaged(tmp_path):
    path = write(tmp_path, {"a": [1.0], "y": [1]})
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load(path)


def test_mapped(tmp_path):
    path = write(tmp_path, {"a": [1.0, 2.0], "y": [1, 2]})
    data = load(path, memmap=True)
    assert data.is_memmapped
    np.testing.assert_array_equal(data.rows, load(path).rows)


def test_without_pyarrow(tmp_path, monkeypatch):
    path = write(tmp_path, {"a": [1.0], "y": [1]})
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=r"needs pyarrow.*pip install 'finitesum\[data\]'"):
        load(path)
