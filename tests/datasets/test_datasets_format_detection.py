"""The format of files whose name does not show it."""

import gzip

import numpy as np
import pytest

from finitesum.datasets import DataError, load
from finitesum.datasets.formats.detect import find_format, plain_name


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a9a", b"-1 3:1 5:2\n", "svmlight"),
        ("a9a.t", b"-1\n-1\n+1 4:1\n", "svmlight"),
        ("ranked.txt", b"2 qid:1 1:3\n", "svmlight"),
        ("empty-rows", b"1\n2\n", "svmlight"),
        ("table.txt", b"# comment\na,b\n1,2\n", "csv"),
        ("table.dat", b"1;2\n", "csv"),
        ("scale.bz2", gzip.compress(b"1 1:1\n", mtime=0), "svmlight"),
        ("parquet.file", b"PAR1....", "parquet"),
        ("T.SVM", b"", "svmlight"),
        ("t.tsv.gz", b"", "csv"),
    ],
)
def test_find_format(tmp_path, name, content, format):
    path = tmp_path / name
    path.write_bytes(content)
    assert find_format(path) == format
    assert find_format(path, "npy") == "npy"


def test_numpy_files_without_suffix(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    np.savez(tmp_path / "b.npz", X=np.eye(2))
    for name, format in (("a.npy", "npy"), ("b.npz", "npz")):
        path = (tmp_path / name).rename(tmp_path / name[0])
        assert find_format(path) == format
        assert load(path).n_rows == 2


@pytest.mark.parametrize("content", [b"", b"some words\n", b"\x89PNG\r\n"])
def test_formats_that_are_not_recognised(tmp_path, content):
    path = tmp_path / "unknown"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"the format is not recognised\. Give format= as one of svmlight, csv"):
        find_format(path)


@pytest.mark.parametrize(
    ("name", "plain"),
    [("a9a.svm.xz", "a9a"), ("a9a.t.svm", "a9a.t"), ("rcv1_train.binary.bz2", "rcv1_train.binary"), ("x.npz", "x")],
)
def test_plain_name(tmp_path, name, plain):
    assert plain_name(tmp_path / name) == plain
