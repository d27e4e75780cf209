"""CSV tables: layout, labels, and what is said about cells that are broken."""

import bz2
import gzip
import lzma

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from finitesum.datasets import DataError, load
from finitesum.datasets.formats import csv as reader, streams

TEXT = "a,b,y\n1,2.5,0\n-3,4e2,1\n5,6,1\n"
ROWS = np.array([[1, 2.5], [-3, 400], [5, 6]])
LABELS = [0, 1, 1]
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def read(tmp_path, text, name="t.csv", **kwargs):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path, cache=False, **kwargs)


def check(data, rows=ROWS, labels=LABELS):
    np.testing.assert_array_equal(data.rows, rows)
    np.testing.assert_array_equal(data.labels, labels)
    assert data.rows.flags.c_contiguous
    assert data.rows.dtype == np.float64


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressions(tmp_path, suffix):
    data = read(tmp_path, PACKERS[suffix](TEXT.encode()), f"t.csv{suffix}")
    check(data)
    assert data.feature_names == ("a", "b")
    assert data.target_name == "y"
    assert data.name == "t"


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace(",", ";"),
        TEXT.replace(",", "\t"),
        TEXT.replace(",", "|"),
        TEXT.replace("\n", "\r\n"),
        TEXT.removesuffix("\n"),
        "# a comment\n" + TEXT.replace("\n5,", "\n# another\n\n5,"),
        TEXT.replace("a,b,y", '"a","b","y"').replace("2.5", '"2.5"'),
        TEXT.replace(",", ", "),
        "\ufeff" + TEXT,
    ],
    ids=["semicolon", "tab", "bar", "crlf", "no last newline", "comments", "quotes", "spaces", "byte order mark"],
)
def test_variants_read_the_same(tmp_path, text):
    data = read(tmp_path, text)
    check(data)
    assert data.feature_names == ("a", "b")


def test_without_header(tmp_path):
    data = read(tmp_path, TEXT.removeprefix("a,b,y\n"))
    check(data)
    assert data.feature_names is None
    assert data.target_name is None


def test_text_labels_make_no_header(tmp_path):
    data = read(tmp_path, "1,2,cat\n3,4,dog\n")
    check(data, [[1, 2], [3, 4]], ["cat", "dog"])
    assert data.label_map().classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("header", "target", "column"),
    [
        ("a,b,c", None, 2),
        ("a,target,c", None, 1),
        ("Label,b,c", None, 0),
        ("y,b,c", None, 0),
        ("x,y,z", None, 2),
        ("a,b,c", "b", 1),
        ("a,b,c", 0, 0),
        ("a,b,c", -1, 2),
        ("a,target,c", "a", 0),
    ],
)
def test_which_column_holds_the_labels(tmp_path, header, target, column):
    data = read(tmp_path, f"{header}\n1,2,3\n4,5,6\n", target=target)
    table = np.array([[1, 2, 3], [4, 5, 6]])
    check(data, np.delete(table, column, axis=1), table[:, column])
    assert data.target_name == header.split(",")[column]


def test_no_labels(tmp_path):
    data = read(tmp_path, TEXT, target=False)
    assert data.labels is None
    assert data.rows.shape == (3, 3)
    assert read(tmp_path, "x\n1\n2\n", target=False).rows.shape == (2, 1)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (TEXT, "alpha", "target='alpha' names no column. Did you mean one of 'a'"),
        (TEXT, 3, "target=3 names no column: there are 3, counted from 0"),
        ("1,2\n3,4\n", "y", "the file has no header"),
        ("a,a,b\n1,2,3\n", "a", "is the name of 2 columns"),
        ("label,b,class\n1,2,3\n", None, "the columns 'label', 'class' may each hold the labels"),
        ("a\n1\n", None, "no comma, semicolon, tab or bar"),
    ],
)
def test_targets_that_do_not_exist(tmp_path, text, target, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, target=target)


@pytest.mark.parametrize(
    ("text", "target", "first"),
    [
        ("0,1,label\n5,6,cat\n7,8,dog\n", None, ("0", "1")),
        (",0,1,label\n0,5,6,cat\n1,7,8,dog\n", None, ("0", "1")),
        ("id,2019,2020,class\n5,6,7,0\n8,9,9,1\n", None, ("id", "2019", "2020")),
        ("1.5,2,y\n5,6,7\n", "y", ("1.5", "2")),
        ("0,1,2\n5,6,7\n", "2", ("0", "1")),
        ("a,,y\n1,2,0\n", None, ("a", "column 2")),
        ("0,1,target\n5,6,other\n7,8,target\n", None, None),
        ("0,1,cat\n5,6,dog\n", None, None),
        ("1.5,2,label\n5,6,other\n", None, None),
        ("0,1,2\n5,6,7\n", None, None),
        ("0,1\n5.5,6\n", None, None),
        ("0,1,2\n5.5,6.0,7\n", "2", ("0", "1")),
        (",0,1,2\n0,5.5,6.0,7\n", None, ("0", "1")),
    ],
)
def test_first_rows_that_may_be_headers(tmp_path, text, target, first):
    data = read(tmp_path, text, target=target)
    assert data.feature_names == first
    assert data.n_rows == text.count("\n") - (first is not None)


QUOTED = {
    "unclosed to the end": 'a,b,y\n1,2,u\n3,4,"v\n5,6,u\n',
    "unclosed to the next quote": 'a,b,y\n1,2,u\n3,4,"v\n5,6,"u"\n',
    "text behind a quote": 'a,b,y\n1,2,u\n3,4,"v"w\n5,6,u\n',
}


@pytest.mark.parametrize("case", QUOTED)
@pytest.mark.parametrize("block", [10, 1 << 20])
def test_quotes_swallow_no_rows(tmp_path, monkeypatch, case, block):
    monkeypatch.setattr(streams, "BLOCK_BYTES", block)
    with pytest.raises(DataError, match=r"line 3: the row that begins here cannot be cut into cells: .* Close each quote"):
        read(tmp_path, QUOTED[case])


def test_quotes_from_some_block_on(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 12)
    rows = "".join(f"{i},u\n" for i in range(10))
    data = read(tmp_path, "a,y\n" + rows + '10,"v\n# no comment\n"\n# a comment\n' + rows)
    assert data.rows[:, 0].tolist() == [*range(11), *range(10)]
    assert data.labels.tolist() == ["u"] * 10 + ["v\n# no comment"] + ["u"] * 10
    with pytest.raises(DataError, match="line 16, column 'a'"):
        read(tmp_path, "a,y\n" + rows + '10,"v\n# no comment\n"\n# a comment\nx,u\n')


def test_index_of_pandas_is_left_out(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "label": ["u", "v"]})
    path = tmp_path / "frame.csv"
    frame.to_csv(path)
    data = load(path)
    check(data, [[1, 3], [2, 4]], ["u", "v"])
    assert data.feature_names == ("a", "b")


def test_labels_that_turn_out_to_be_text(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    text = "".join(f"{i},{i % 2}\n" for i in range(100))
    data = read(tmp_path, text + "7,none\n")
    assert data.labels.dtype.kind == "U"
    assert set(data.labels.tolist()) == {"0", "1", "none"}
    assert data.n_rows == 101
    with pytest.raises(DataError, match=r"line 101, column 2: the target 'none' of a regression is not a number"):
        read(tmp_path, text + "7,none\n", task="regression")


def test_quoted_cells_may_hold_delimiters_and_line_ends(tmp_path):
    data = read(tmp_path, 'a,y\n1,"u,v"\n2,"w\nx"\n3,"say ""so"""\n')
    check(data, [[1], [2], [3]], ["u,v", "w\nx", 'say "so"'])
    with pytest.raises(DataError, match="line 5, column 'a'"):
        read(tmp_path, 'a,y\n1,"u,v"\n2,"w\nx"\noops,z\n')


BROKEN = {
    "text": ("a,b,y\n1,2,0\n1,red,1\n", "line 3, column 'b' (column 2): 'red' is not a number. Turn text into numbers"),
    "decimal comma": ("a;y\n1,5;0\n2,5;1\n", "line 2, column 'a' (column 1): '1,5' is not a number. Write decimals with"),
    "mark of thousands": ("a,b,y\n1_000,2,0\n", "line 2, column 'a' (column 1): '1_000' is not a number"),
    "first row": ("1.5f,2,1\n3,4,0\n", "line 1: this may be a header or a row: '1.5f' stands above numbers"),
    "first row that counts": ("0,1,2\n5.5,6.0,7\n", "line 1: this may be a header or a row: it counts the columns"),
    "first row of one feature": ("1.5f,u\n3,v\n4,u\n", "line 1, column 1: '1.5f' is not a number"),
    "old line ends": (b"a,b,y\r1,2,1\r3,4,0\r", "line 1: the row that begins here cannot be cut into cells: new-line"),
    "long cell": ("a" * 140_000 + ",b,y\n1,2,1\n", "line 1: the row that begins here cannot be cut into cells: field"),
    "missing": ("a,b,y\n1,2,0\n,2,1\n", "line 3, column 'a' (column 1): the value is missing ('')"),
    "NA": ("a,b,y\n1,2,0\n1,NA,1\n", "line 3, column 'b' (column 2): the value is missing ('NA')"),
    "nan": ("1,2,0\n1,nan,1\n", "line 2, column 2: the value is missing ('nan')"),
    "question mark": ("1,2,0\n1,?,1\n", "line 2, column 2: the value is missing ('?')"),
    "inf": ("1,2,0\n\n1,inf,1\n", "line 3, column 2: the value is 'inf', which is not finite"),
    "missing label": ("a,y\n1,0\n2,\n", "line 3, column 'y' (column 2): the label is missing ('')"),
    "missing text label": ("a,y\n1,u\n2,\n", "line 3, column 'y' (column 2): the label is missing ('')"),
    "label inf": ("a,y\n1,0\n2,inf\n", "line 3, column 'y' (column 2): the label is 'inf'"),
    "short": ("a,b,y\n1,2,0\n1,2\n", "line 3: the row has 2 cells, the first row has 3"),
    "long": ("a,b,y\n1,2,0\n1,2,3,4\n", "line 3: the row has 4 cells, the first row has 3"),
    "short and long": ("1,2,u\n1,2\n1,2,v,4\n", "line 2: the row has 2 cells"),
    "comment before": ("# c\n1,2,0\n# d\n1,x,0\n", "line 4, column 2: 'x' is not a number"),
    "header only": ("a,b,y\n", "holds no rows"),
    "empty": ("", "is empty"),
    "blank": ("\n\n", "holds no rows"),
    "latin-1": (b"a,b,y\n1,2,u\n1,2,\xe9t\xe9\n", "line 3: the text is not UTF-8 (byte 'e9')"),
    "utf-16": ("1,2\n".encode("utf-16"), "line 1: the text is UTF-16"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_cells_are_named(tmp_path, case):
    text, message = BROKEN[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "t.csv") in str(caught.value)


def test_lines_are_counted_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 50)
    good = "".join(f"{i},{i * i},{i % 2}\n" for i in range(200))
    assert read(tmp_path, "a,b,c\n" + good).rows[:, 1].tolist() == [i * i for i in range(200)]
    with pytest.raises(DataError, match="line 202, column 'b'"):
        read(tmp_path, "a,b,c\n" + good + "1,oops,2\n" + good)


def test_wide_rows(tmp_path):
    n = 20_000
    text = ",".join(f"feature{i}" for i in range(n)) + "\n" + ",".join(["0.125"] * n) + "\n"
    data = read(tmp_path, text)
    assert data.rows.shape == (1, n - 1)


def test_n_features_is_checked(tmp_path):
    assert read(tmp_path, TEXT, n_features=2).n_features == 2
    with pytest.raises(DataError, match="has 2 features, but n_features=3"):
        read(tmp_path, TEXT, n_features=3)


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    table=st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(finite, min_size=d, max_size=d), min_size=1, max_size=9)),
    text=st.booleans(),
    slow=st.booleans(),
    block=st.integers(5, 200),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_round_trip(tmp_path, table, text, slow, block):
    labels = [("uv"[i % 2] if text else float(i)) for i in range(len(table))]
    lines = [",".join([*map(repr, row), str(label)]) for row, label in zip(table, labels, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", block)
        if slow:
            patch.setattr(reader, "_plain_table", lambda *_: None)
        data = read(tmp_path, "\n".join(lines))
    check(data, np.array(table), labels)
