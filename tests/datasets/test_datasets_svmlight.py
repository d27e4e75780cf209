"""svmlight text: what is read, and what is said about lines that are broken."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.sparse import csr_array

from finitesum.datasets import DataError, load
from finitesum.datasets.formats import streams, svmlight as reader

TEXT = b"+1 1:0.5 3:2e-3\n-1 2:1\n+1\n-1 4:-7\n"
ROWS = np.array([[0.5, 0, 2e-3, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, -7.0]])
LABELS = [1, -1, 1, -1]
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def read(tmp_path, text, name="t.svm", **kwargs):
    path = tmp_path / name
    path.write_bytes(text)
    return load(path, cache=False, **kwargs)


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressions(tmp_path, suffix):
    data = read(tmp_path, PACKERS[suffix](TEXT), f"t.svm{suffix}")
    assert isinstance(data.rows, csr_array)
    np.testing.assert_array_equal(data.rows.toarray(), ROWS)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert data.name == "t"
    assert data.source == tmp_path / f"t.svm{suffix}"


def test_compression_is_found_by_content(tmp_path):
    data = read(tmp_path, gzip.compress(TEXT), "t.svm")
    np.testing.assert_array_equal(data.rows.toarray(), ROWS)


def test_types_are_narrow_and_canonical(tmp_path):
    rows = read(tmp_path, TEXT).rows
    assert rows.dtype == np.float64
    assert rows.indices.dtype == np.int32
    assert rows.indptr.dtype == np.int32
    assert rows.data.flags.writeable
    assert rows.has_canonical_format
    rows.check_format(full_check=True)
    again = csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    assert again.has_canonical_format


@pytest.mark.parametrize(
    "text",
    [
        b"# head\n\n" + TEXT,
        TEXT.replace(b"\n", b"\r\n"),
        TEXT.removesuffix(b"\n"),
        TEXT.replace(b"2:1", b"2:1 # a comment with 3:4"),
        TEXT.replace(b"+1 1", b"+1 qid:3 1"),
        b"\xef\xbb\xbf" + TEXT,
        TEXT.replace(b" ", b"\t "),
    ],
    ids=["comment", "crlf", "no last newline", "trailing comment", "qid", "byte order mark", "tabs"],
)
def test_variants_read_the_same(tmp_path, text):
    data = read(tmp_path, text)
    np.testing.assert_array_equal(data.rows.toarray(), ROWS)
    np.testing.assert_array_equal(data.labels, LABELS)


def test_zero_based(tmp_path):
    data = read(tmp_path, b"1 0:5 2:1\n2 1:1\n", zero_based=True)
    np.testing.assert_array_equal(data.rows.toarray(), [[5, 0, 1], [0, 1, 0]])


def test_written_zeros_stay_stored(tmp_path):
    assert read(tmp_path, b"1 1:0 2:1\n2 1:3\n").nnz == 3


def test_n_features(tmp_path):
    assert read(tmp_path, TEXT, n_features=9).n_features == 9
    with pytest.raises(DataError, match=r"row 1 has feature 3 \(both from 1\), but n_features=2.*has 4 features"):
        read(tmp_path, TEXT, n_features=2)
    with pytest.raises(DataError, match="n_features must be at least 1, got 0"):
        read(tmp_path, TEXT, n_features=0)


def test_index_beyond_32_bits(tmp_path):
    data = read(tmp_path, b"1 1:1 5000000000:2\n2 3:1\n")
    assert data.n_features == 5_000_000_000
    assert data.rows.indices.dtype == np.int64
    assert data.rows.indptr.dtype == np.int64
    assert data.rows.indices.tolist() == [0, 4_999_999_999, 2]


BROKEN = {
    "label": (b"1 1:1\nx 1:2\n", "line 2: the label 'x' is not a number"),
    "no label": (b"1 1:1\n1:2 2:3\n", "line 2: the label is missing: the line begins with '1:2'"),
    "several labels": (b"1,4 1:1\n", "line 1: '1,4' gives several labels to one row"),
    "label nan": (b"1 1:1\n\nnan 1:2\n", "line 3: the label is 'nan', which is not finite"),
    "no colon": (b"# c\n1 1:1 7\n", "line 2: '7' has no colon"),
    "index no number": (b"1 1:1\n1 a:1\n", "line 2: the index 'a' is not a whole number"),
    "index with a mark": (b"1 1:1\n1 1_0:1\n", "line 2: the index '1_0' is not a whole number"),
    "value with a mark": (b"1 1:1_000\n", "line 1: the value '1_000' of index 1 is not a number"),
    "label with a mark": (b"1_0 1:1\n", "line 1: the label '1_0' is not a number"),
    "index real": (b"1 1.5:1\n", "line 1: the index '1.5' is not a whole number"),
    "index zero": (b"1 1:1\n1 0:1\n", "line 2: index 0 is less than 1. If the file counts from 0, use zero_based=True"),
    "index negative": (b"1 -3:1\n", "line 1: index -3 is less than 1"),
    "index huge": (b"1 99999999999999999999:1\n", "line 1: index 99999999999999999999 does not fit 64 bits"),
    "order": (b"1 1:1\n1 3:1 2:1\n", "line 2: index 2 follows index 3. Sort"),
    "twice": (b"1 3:1 3:1\n", "line 1: index 3 occurs twice"),
    "value": (b"1 1:x\n", "line 1: the value 'x' of index 1 is not a number"),
    "no value": (b"1 1:\n", "line 1: the value '' of index 1 is not a number"),
    "two colons": (b"1 1:2:3\n", "line 1: the value '2:3' of index 1 is not a number"),
    "inf": (b"1 1:1\n1 2:1\n1 1:1 2:-inf\n", "line 3: the value of index 2 is '-inf', which is not finite"),
    "nan": (b"1 1:nan\n", "line 1: the value of index 1 is 'nan', which is not finite"),
    "utf-16": ("1 1:1\n".encode("utf-16"), "line 1: the text is UTF-16 or UTF-32. Save it as UTF-8"),
    "binary": (b"\x00\x01\x02\n", "line 1: the file holds binary data, not svmlight text"),
    "empty": (b"", "holds no rows"),
    "only comments": (b"# nothing\n\n", "holds no rows"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_lines_are_named(tmp_path, case):
    text, message = BROKEN[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "t.svm") in str(caught.value)


def test_negative_index_when_counting_from_zero(tmp_path):
    with pytest.raises(DataError, match="line 1: index -1 is less than 0"):
        read(tmp_path, b"1 -1:1\n", zero_based=True)


def test_lines_are_counted_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 100)
    good = b"".join(b"%d %d:1\n" % (i % 2, i + 1) for i in range(500))
    data = read(tmp_path, good)
    assert data.rows.shape == (500, 500)
    np.testing.assert_array_equal(data.rows.toarray(), np.eye(500))
    with pytest.raises(DataError, match="line 501: the label 'oops'"):
        read(tmp_path, good + b"oops 1:1\n" + good)


def test_a_line_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    text = b"1 " + b" ".join(b"%d:1" % i for i in range(1, 200)) + b"\n2 1:1"
    assert read(tmp_path, text).rows.toarray().sum() == 200


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_damaged_compression(tmp_path, suffix):
    packed = PACKERS[suffix](TEXT * 1000)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path, packed[: len(packed) // 2], f"t.svm{suffix}")


def test_archives_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(DataError, match="a zip archive"):
        read(tmp_path, b"PK\x03\x04 and so on")
    with pytest.raises(DataError, match="zstd"):
        read(tmp_path, b"\x28\xb5\x2f\xfd and so on")


def test_paths_that_are_no_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "none.svm")
    with pytest.raises(DataError, match="is a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"target": "y"}, "target='y': the rows of an svmlight file begin with their labels"),
        ({"part": "test"}, 'part="test" is for npz archives'),
        ({"part": "valid"}, 'part must be "train" or "test", got \'valid\''),
        ({"task": "ranking"}, "task must be"),
        ({"format": "excel"}, "format must be one of svmlight, csv, npz, npy, parquet, got 'excel'"),
        ({"target": True}, "target"),
        ({"memmap": True}, r"Use cache=True"),
    ],
)
def test_arguments_that_do_not_suit(tmp_path, kwargs, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, TEXT, **kwargs)


finite = st.floats(allow_nan=False, allow_infinity=False)
entries = st.dictionaries(st.integers(1, 40), finite, max_size=8)
tables = st.lists(st.tuples(finite, entries), min_size=1, max_size=20)


@given(table=tables, slow=st.booleans(), block=st.integers(5, 300))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_round_trip(tmp_path, table, slow, block):
    lines = [" ".join([repr(y), *(f"{j}:{row[j]!r}" for j in sorted(row))]) for y, row in table]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", block)
        if slow:
            patch.setattr(reader, "_parse_fast", lambda *_: None)
        data = read(tmp_path, "\n".join(lines).encode(), n_features=40)
    expected = np.zeros((len(table), 40))
    for i, (_, row) in enumerate(table):
        for j, value in row.items():
            expected[i, j - 1] = value
    np.testing.assert_array_equal(data.rows.toarray(), expected)
    np.testing.assert_array_equal(data.labels, [y for y, _ in table])
    assert data.nnz == sum(len(row) for _, row in table)
