"""Several files as one data set: the same optimum as in memory, from any format, and errors that name the file."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from finitesum import Problem, minimize
from finitesum.datasets import DataError, FileParts, load

N, NAMES = 90, ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, len(NAMES))).round(6)
    return X, (X @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(N) > 0).astype(int)


def written(folder, format, X, y, n_files=3):
    """Write rows to several files; return where the labels are."""
    for k, here in enumerate(np.array_split(np.arange(len(y)), n_files)):
        if format == "svm":
            dump_svmlight_file(X[here], y[here], str(folder / f"{k}.svm"), zero_based=False)
        elif format == "npz":
            np.savez(folder / f"{k}.npz", X=X[here], y=y[here])
        elif format == "npy":
            np.save(folder / f"X{k}.npy", X[here])
            np.save(folder / f"y{k}.npy", y[here])
        else:
            pd = pytest.importorskip("pandas")
            frame = pd.DataFrame(X[here], columns=NAMES).assign(y=y[here])
            if format == "csv":
                frame.to_csv(folder / f"{k}.csv", index=False)
            else:
                pytest.importorskip("pyarrow")
                frame.to_parquet(folder / f"{k}.parquet")
    return {"npy": str(folder / "y*.npy"), "csv": "y", "parquet": "y"}.get(format)


@pytest.mark.parametrize("given", ["pattern", "folder", "list"])
@pytest.mark.parametrize("format", ["csv", "parquet", "svm", "npz", "npy"])
def test_files_have_the_optimum_of_their_rows_in_memory(format, given, data, tmp_path):
    target = written(tmp_path, format, *data)
    pattern = "X*.npy" if format == "npy" else f"*.{format}"
    if given == "folder":
        if format == "npy":
            pytest.skip("rows and labels lie in one folder")
        asked = [tmp_path]
    else:
        asked = [tmp_path / pattern] if given == "pattern" else sorted(tmp_path.glob(pattern))
    parts = load(asked, target=target, part_bytes=400)
    assert (parts.n_rows, parts.n_features, len(parts.files)) == (N, len(NAMES), 3)
    assert len(parts) > 6
    expected, found = Problem.linear(*data, alpha=0.1), Problem.partitioned(parts, alpha=0.1)
    np.testing.assert_allclose(minimize(found, tol=1e-12).x, minimize(expected, tol=1e-12).x, rtol=1e-10)


def test_paths_and_fragments_are_parts(data, tmp_path):
    written(tmp_path, "parquet", *data)
    fragments = list(pytest.importorskip("pyarrow.dataset").dataset(tmp_path).get_fragments())
    expected = minimize(Problem.linear(*data, alpha=0.1), tol=1e-12).x
    for parts in (tmp_path / "*.parquet", [str(tmp_path / "0.parquet"), *fragments[1:]], tmp_path):
        np.testing.assert_allclose(minimize(Problem.partitioned(parts, alpha=0.1), tol=1e-12).x, expected, rtol=1e-10)


def test_sparse_files_may_lack_the_last_columns(data, tmp_path):
    X, y = data[0].copy(), data[1]
    X[:30, -1] = 0.0
    written(tmp_path, "svm", X, y)
    found = minimize(Problem.partitioned(load([tmp_path]), alpha=0.1), tol=1e-12)
    np.testing.assert_allclose(found.x, minimize(Problem.linear(X, y, alpha=0.1), tol=1e-12).x, rtol=1e-10)


def test_errors_name_the_file(data, tmp_path):
    written(tmp_path, "csv", *data)
    with pytest.raises(DataError, match=r"no\*\.csv names no data file"):
        FileParts(tmp_path / "no*.csv")
    text = (tmp_path / "1.csv").read_text()
    (tmp_path / "1.csv").write_text(text.replace("a,b,c,d,y", "b,a,c,d,y"))
    with pytest.raises(DataError, match=r"1\.csv: its columns are not those of .*0\.csv"):
        load([tmp_path])
    (tmp_path / "1.csv").write_text(text + "1,2,3\n")
    with pytest.raises(DataError, match=r"1\.csv"):
        load([tmp_path])


def test_one_file_of_labels_does_not_stand_for_several(data, tmp_path):
    written(tmp_path, "npy", *data)
    with pytest.raises(DataError, match=r"names 1 files, and there are 3 of rows"):
        load([tmp_path / "X*.npy"], target=str(tmp_path / "y0.npy"))


@pytest.mark.parametrize("format", ["csv", "parquet", "svm", "npz", "npy"])
def test_files_without_rows_are_left_out(format, data, tmp_path):
    (full := tmp_path / "full").mkdir()
    (empty := tmp_path / "empty").mkdir()
    target, files = written(full, format, *data), sorted(full.glob("X*" if format == "npy" else "*"))
    if format == "svm":
        (empty / "0.svm").write_text("# of nobody\n")
    else:
        written(empty, format, data[0][:0], data[1][:0], n_files=1)
    nothing = empty / files[0].name
    given = [nothing, files[0], nothing, *files[1:]]
    if format == "npy":
        labels = sorted(full.glob("y*"))
        target = [labels[0], labels[0], labels[1], *labels[1:]]
    parts = load(given, target=target)
    assert (parts.n_rows, parts.files, parts.empty_files) == (N, files, [nothing, nothing])
    assert "3 files, 2 without rows" in repr(parts)
    known = minimize(Problem.partitioned(load(files, target=labels if format == "npy" else target)))
    np.testing.assert_array_equal(minimize(Problem.partitioned(parts)).x, known.x)
    with pytest.raises(DataError, match=r"0\.\w+ and 1 others hold no rows"):
        load([nothing] * 2, target=labels[:2] if format == "npy" else target)
    if format != "npy":
        np.testing.assert_array_equal(minimize(Problem.partitioned(given)).x, known.x)
        with pytest.raises(ValueError, match=r"X must have at least one row, got none in all parts \(1\)"):
            Problem.partitioned(empty)


def test_fragments_without_rows_are_left_out(data, tmp_path):
    written(tmp_path, "parquet", *data)
    known = minimize(Problem.partitioned(tmp_path), tol=1e-12)
    pytest.importorskip("pandas").DataFrame({name: [] for name in [*NAMES, "y"]}, dtype=object).to_parquet(
        tmp_path / "0a.parquet"
    )
    fragments = list(pytest.importorskip("pyarrow.dataset").dataset(tmp_path).get_fragments())
    assert len(fragments) == 4
    np.testing.assert_array_equal(minimize(Problem.partitioned(fragments), tol=1e-12).x, known.x)
