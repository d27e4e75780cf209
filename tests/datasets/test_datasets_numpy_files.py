"""NumPy's own files: archives and arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum.datasets import DataError, load

ROWS = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
LABELS = np.array([1, 2, 1])


def save(tmp_path, **arrays):
    path = tmp_path / "t.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("names", [("X", "y"), ("x", "target"), ("rows", "labels"), ("X_train", "y_train")])
def test_dense(tmp_path, names):
    data = load(save(tmp_path, **{names[0]: ROWS, names[1]: LABELS}))
    np.testing.assert_array_equal(data.rows, ROWS)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert data.target_name == names[1]


@pytest.mark.parametrize(
    ("given", "read"), [("f4", "f4"), ("f2", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8"), (">f8", "f8")]
)
def test_types(tmp_path, given, read):
    data = load(save(tmp_path, X=ROWS.astype(given), y=LABELS))
    assert data.rows.dtype == np.dtype(read)
    np.testing.assert_array_equal(data.rows, ROWS.astype(given))
    assert data.rows.flags.c_contiguous


def test_order_becomes_c(tmp_path):
    assert load(save(tmp_path, X=np.asfortranarray(ROWS), y=LABELS)).rows.flags.c_contiguous


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_as_scipy_saves_it(tmp_path, kind):
    path = tmp_path / "t.npz"
    sp.save_npz(path, sp.coo_array(ROWS).asformat(kind))
    data = load(path)
    assert data.labels is None
    with np.load(path) as archive:
        np.savez(path, y=LABELS, **archive)
    data = load(path)
    assert isinstance(data.rows, sp.csr_array)
    np.testing.assert_array_equal(data.rows.toarray(), ROWS)
    np.testing.assert_array_equal(data.labels, LABELS)


def test_sparse_by_its_arrays_is_narrowed_and_sorted(tmp_path):
    path = save(
        tmp_path,
        data=np.array([2.0, 1.0, 3.0]),
        indices=np.array([2, 0, 1], dtype=np.int64),
        indptr=np.array([0, 2, 2, 3], dtype=np.int64),
        shape=np.array([3, 5]),
        y=LABELS,
    )
    data = load(path)
    assert data.rows.indices.dtype == np.int32
    assert data.rows.indices.tolist() == [0, 2, 1]
    assert data.rows.shape == (3, 5)
    np.testing.assert_array_equal(data.rows.toarray()[:, :3], ROWS)
    assert load(path, n_features=8).n_features == 8
    with pytest.raises(DataError, match=r"n_features=4.*has 5 features"):
        load(path, n_features=4)


@pytest.mark.parametrize("memmap", [False, True])
def test_images_in_two_parts(tmp_path, memmap):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(5, 2, 3), dtype=np.uint8)
    path = save(tmp_path, x_train=images[:3], y_train=[0, 1, 2], x_test=images[3:], y_test=[[3], [4]])
    train, test = load(path, memmap=memmap), load(path, part="test", memmap=memmap)
    np.testing.assert_array_equal(train.rows, images[:3].reshape(3, 6) / 255.0)
    np.testing.assert_array_equal(test.rows, images[3:].reshape(2, 6) / 255.0)
    assert test.labels.tolist() == [3, 4]
    assert train.is_memmapped == memmap


def test_labels_by_name(tmp_path):
    path = save(tmp_path, X=ROWS, y=LABELS, other=LABELS + 5)
    assert load(path, target="other").labels.tolist() == [6, 7, 6]
    assert load(path, target=False).labels is None
    with pytest.raises(DataError, match=r"target='none' names no array\. The archive has 'X', 'y', 'other'"):
        load(path, target="none")
    with pytest.raises(DataError, match="it must be the name of an array"):
        load(path, target=0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": ROWS, "y": LABELS[:2]}, "there are 3 rows and 2 labels"),
        ({"X": ROWS[0], "y": LABELS}, r"rows need two axes, got shape \(3,\)"),
        ({"X": np.where(ROWS == 3, np.nan, ROWS), "y": LABELS}, r"row 2, column 1 \(from 0\) is nan"),
        ({"X": ROWS.astype(str), "y": LABELS}, "must hold real numbers, got dtype <U32"),
        ({"X": ROWS.astype(object), "y": LABELS}, "holds Python objects, which are not read"),
        ({"A": ROWS}, "has the arrays 'A', and none of them is known to hold rows"),
        ({"X": ROWS[:0], "y": LABELS[:0]}, "holds no rows"),
        ({"data": [np.inf], "indices": [0], "indptr": [0, 1], "shape": [1, 1]}, r"entry 0 \(from 0\) is inf"),
        ({"data": [1.0], "indices": [5], "indptr": [0, 1], "shape": [1, 1]}, "cannot be read as an .npz archive"),
    ],
)
def test_archives_that_cannot_be_used(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message.replace("holds Python", "[Hh]olds Python")):
        load(save(tmp_path, **arrays))


FILES = {
    "index of a column": lambda file: sp.save_npz(file, _with_index(sp.csc_array(ROWS), 10**8)),
    "shape of a fraction": lambda file: np.savez(file, data=[1.0], indices=[0], indptr=[0, 1], shape=[1, 2.5]),
    "one array": lambda file: np.save(file, ROWS),
    "no archive": lambda file: file.write(b"PK\x03\x04" + b"a" * 50),
    "header": lambda file: file.write(b"\x93NUMPY\x01\x00\x10\x00{'descr': ((((((\n"),
}


def _with_index(rows, index):
    rows.indices[1] = index
    return rows


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("case", FILES)
def test_files_that_would_crash(tmp_path, case, suffix):
    path = tmp_path / f"t.{suffix}"
    with path.open("wb") as file:
        FILES[case](file)
    if (case, suffix) == ("one array", "npy"):
        assert load(path).n_rows == 3
        return
    with pytest.raises(DataError, match=r"cannot be read as an|is one array|is an archive of several arrays"):
        load(path)


def test_damaged_archives(tmp_path):
    path = save(tmp_path, X=ROWS, y=LABELS)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"cannot be read as an \.npz archive"):
        load(path)


def test_npy(tmp_path):
    path, labels = tmp_path / "rows.npy", tmp_path / "labels.npy"
    np.save(path, ROWS.astype(np.float32))
    np.save(labels, LABELS)
    assert load(path).labels is None
    data = load(path, target=labels)
    assert data.rows.dtype == np.float32
    assert data.labels.tolist() == [1, 2, 1]
    text = tmp_path / "labels.txt"
    text.write_text("spam\nham\n\nspam\n")
    assert load(path, target=str(text)).labels.tolist() == ["spam", "ham", "spam"]
    text.write_text("1\n2.5\n3\n")
    assert load(path, target=text).labels.tolist() == [1.0, 2.5, 3.0]
    text.write_text("1\n2\n")
    with pytest.raises(DataError, match="3 rows and 2 labels"):
        load(path, target=text)
    with pytest.raises(DataError, match="it must be the path of a file"):
        load(path, target=1)


def test_npy_mapped(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, ROWS)
    data = load(path, memmap=True, cache=False)
    assert data.is_memmapped
    assert type(data.rows) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        data.rows[0, 0] = 99.0


@pytest.mark.parametrize("array", [ROWS.astype(int), np.asfortranarray(ROWS), ROWS.astype(">f8")])
def test_npy_that_cannot_be_mapped(tmp_path, array):
    path = tmp_path / "rows.npy"
    np.save(path, array)
    np.testing.assert_array_equal(load(path).rows, ROWS)
    with pytest.raises(DataError, match="only float32 or float64 in C order can be mapped"):
        load(path, memmap=True)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (ROWS[0], "two axes"),
        (ROWS[:0], "no rows"),
        (np.full((2, 2), np.inf), "row 0, column 0"),
        (ROWS.astype(str), "real numbers"),
    ],
)
def test_npy_that_cannot_be_used(tmp_path, array, message):
    path = tmp_path / "rows.npy"
    np.save(path, array)
    with pytest.raises(DataError, match=message):
        load(path)
