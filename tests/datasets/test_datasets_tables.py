"""Tables as people have them: what is read of their columns, and what these become."""

import json

import numpy as np
import pandas as pd
import pytest

from finitesum.datasets import DataError
from finitesum.datasets.formats.tables import HeaderError, as_table, read_table
from finitesum.datasets.tables import TablePreparation


def table_of(tmp_path, lines, **options):
    file = tmp_path / "table.csv"
    file.write_text(lines)
    return read_table(file, **options).columns


TABLE = {
    "age": [31.0, np.nan, 45.0, 52.0, 28.0, 60.0],
    "town": ["B", "A", "B", None, "A", "C"],
    "code": [1, 2, 1, 2, 1, 2],
    "times": [1.0, 2.0, 1.0, 1.0, 1.0, 3.0],
    "y": ["no", "yes", "yes", "no", "no", "yes"],
}


# -- reading


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_separators_and_missing_values(tmp_path, delimiter):
    lines = ["a,town,y", "1.5,A,0", "NA,,1", "# a comment", ",none,?", "2e3, B ,1", ""]
    found = table_of(tmp_path, "\n".join(lines).replace(",", delimiter))
    np.testing.assert_array_equal(found["a"], [1.5, np.nan, np.nan, 2000.0])
    assert found["town"].tolist() == ["A", None, "none", "B"]
    np.testing.assert_array_equal(found["y"], [0.0, 1.0, np.nan, 1.0])


@pytest.mark.parametrize(
    ("cells", "decimal", "expected"),
    [
        (["1,5", "-2,25", "3"], None, [1.5, -2.25, 3.0]),
        (["1.234,5", "12", ""], None, [1234.5, 12.0, np.nan]),
        (["1,234.5", "1,000,000"], None, [1234.5, 1e6]),
        (["1,234", "5,678"], ".", [1234.0, 5678.0]),
        (["1,234", "5,678"], ",", [1.234, 5.678]),
        (["1,5e3", "1e-1"], None, [1500.0, 0.1]),
    ],
)
def test_decimals(tmp_path, cells, decimal, expected):
    found = table_of(tmp_path, "\n".join(["x;town", *(f"{cell};A" for cell in cells)]), decimal=decimal)
    np.testing.assert_array_equal(found["x"], expected)
    quoted = table_of(tmp_path, "\n".join(["x,town", *(f'"{cell}",A' for cell in cells)]), decimal=decimal)
    np.testing.assert_array_equal(quoted["x"], expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x;t\n1,234;A\n5,678;B\n", "'x': commas may stand before decimals or between thousands"),
        ("x;z;t\n1,5;1,234.5;A\n", "commas may stand before decimals"),
        ("x;z;t\n1,5;1.25;A\n", "'z': '1.25' is no number where decimals are written with a comma"),
        ("a,a,t\n1,2,A\n", "two columns are called 'a'"),
        ("a,t\n1,A,2\n", "line 2: the row has 3 cells, the header 2"),
        ("a,t\n", "no rows below its header"),
        ("a,t\n1,\x00\n", "null character"),
    ],
)
def test_what_cannot_be_read(tmp_path, text, says):
    with pytest.raises(DataError, match=says):
        table_of(tmp_path, text)


def test_points_group_thousands_where_commas_are_decimals(tmp_path):
    found = table_of(tmp_path, "x;z;t\n1,5;1.250;A\n2;3.000.000;B\n")
    np.testing.assert_array_equal(found["z"], [1250.0, 3e6])


def test_a_header_is_needed(tmp_path):
    with pytest.raises(HeaderError, match="has no header"):
        table_of(tmp_path, "1,2,A\n3,4,B\n")
    assert list(table_of(tmp_path, "u,1,A\nx,2,B\n", known=["A"])) == ["u", "1", "A"]


def test_text_that_comes_late_and_codes(tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.datasets.formats.tables.N_ROWS", 2)
    found = table_of(tmp_path, "a,zip,y\n1,01,0\n2,02,1\n3,01,0\nx,02,1\n", text=["zip"])
    assert found["a"].tolist() == ["1", "2", "3", "x"]
    assert found["zip"].tolist() == ["01", "02", "01", "02"]
    assert found["y"].dtype == np.float64


def test_parquet_and_frames(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(TABLE)
    frame["town"] = frame["town"].astype("category")
    frame["flag"] = pd.array([True, None, False, True, True, False], dtype="boolean")
    frame["since"] = pd.to_datetime(["2020-01-01"] * 6)
    frame.to_parquet(tmp_path / "t.parquet")
    read, given = read_table(tmp_path / "t.parquet").columns, as_table(frame).columns
    assert list(read) == list(given)
    for name in read:
        assert read[name].dtype.kind == given[name].dtype.kind, name
        np.testing.assert_array_equal(read[name], given[name].astype(read[name].dtype), name)
    np.testing.assert_array_equal(read["flag"], [1.0, np.nan, 0.0, 1.0, 1.0, 0.0])


# -- preparation


def test_one_hot_with_a_reference_and_numbers_as_categories():
    prepared = TablePreparation.fit(TABLE, missing="indicator", categorical={"code": "2", "town": "B"})
    assert prepared.feature_names == ("age", "age missing", "town=A", "town=C", "town=(missing)", "code=1", "times")
    rows, labels = prepared.transform(TABLE).data
    mean = np.nanmean(TABLE["age"])
    np.testing.assert_allclose(rows[:, 0], [31.0, mean, 45.0, 52.0, 28.0, 60.0])
    np.testing.assert_array_equal(rows[:, 1:6].argmax(axis=1)[1], 0)
    np.testing.assert_array_equal(
        rows[:, 2:6], [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]]
    )
    assert labels.tolist() == TABLE["y"]


@pytest.mark.parametrize("missing", ["drop", "mean", "indicator"])
def test_missing_values(missing):
    prepared = TablePreparation.fit(TABLE, missing=missing, drop=["code"])
    found = prepared.transform(TABLE)
    assert found.is_complete.tolist() == ([True, False, True, False, True, True] if missing == "drop" else [True] * 6)
    town = [name for name in prepared.feature_names if name.startswith("town")]
    assert town == ["town=B", "town=C", *(["town=(missing)"] if missing == "indicator" else [])]
    assert ("age missing" in prepared.feature_names) == (missing == "indicator")
    assert prepared.transform({**TABLE, "town": [None] * 6}, labels=False).is_complete.sum() == (
        0 if missing == "drop" else 6
    )


def test_weights_count_as_repetition():
    repeated = {name: np.repeat(values, np.array(TABLE["times"], dtype=int)) for name, values in TABLE.items()}
    options = {"target": "y", "missing": "mean", "standardise": True, "drop": ["code"]}
    weighted = TablePreparation.fit(TABLE, weights="times", **options).columns[0]
    plain = TablePreparation.fit(repeated, **{**options, "drop": ["code", "times"]}).columns[0]
    np.testing.assert_allclose(weighted[1:4], plain[1:4], rtol=1e-13)
    prepared = TablePreparation.fit(TABLE, weights="times", offset="log(code)", **{**options, "drop": []})
    data = prepared.transform(TABLE).data
    np.testing.assert_array_equal(data.sample_weight, TABLE["times"])
    np.testing.assert_array_equal(data.offset, np.log(TABLE["code"]))
    assert prepared.transform({**TABLE, "times": [1.0] * 6}, labels=False).data.sample_weight is None


def test_rare_levels_are_pooled_and_new_ones_counted_among_them():
    towns = ["A"] * 50 + ["B"] * 45 + ["C", "C", "D", "E", "E"]
    table = {"town": towns, "y": [0.0, 1.0] * 50}
    prepared = TablePreparation.fit(table, min_frequency=0.03)
    assert prepared.feature_names == ("town=B", "town=(other)")
    assert "3 rare ones pooled as '(other)'" in prepared.notes[-1]
    found = prepared.transform({"town": ["A", "B", "D", "Z"]})
    np.testing.assert_array_equal(found.data.to_dense().rows, [[0, 0], [1, 0], [0, 1], [0, 1]])
    assert found.notes == ("town: 'Z' did not occur in the fit, and count as '(other)'",)
    kept = TablePreparation.fit(table, min_frequency=3, categorical={"town": "D"})
    assert kept.feature_names == ("town=A", "town=B", "town=(other)")
    assert TablePreparation.fit(table, min_frequency=0).feature_names == tuple(f"town={level}" for level in "BCDE")
    sparse = TablePreparation.fit({"town": [f"t{k}" for k in range(20)] * 3, "y": [0.0, 1.0] * 30}, min_frequency=0)
    assert sparse.transform({"town": ["t1", "t0"]}).data.is_sparse


def test_columns_in_any_order_others_ignored_and_absent_ones_refused():
    prepared = TablePreparation.fit(TABLE, missing="mean")
    expected = prepared.transform(TABLE).data.rows
    turned = {"new": [0.0] * 6, **dict(reversed(TABLE.items()))}
    found = prepared.transform(turned)
    np.testing.assert_array_equal(found.data.rows, expected)
    assert found.notes[0] == "column 'new' ignored: the model does not use them"
    with pytest.raises(DataError, match="lacks the columns 'age', 'town' that the model was fitted to"):
        prepared.transform({"code": [1], "times": [2]})
    with pytest.raises(DataError, match="'age': 'old' is no number"):
        prepared.transform({**TABLE, "age": ["old"] * 6})


def test_a_file_keeps_all_of_it():
    prepared = TablePreparation.fit(TABLE, missing="indicator", weights="times", offset="log(code)", standardise=True)
    again = TablePreparation.from_json(json.loads(json.dumps(prepared.to_json())))
    assert again == prepared
    np.testing.assert_array_equal(again.transform(TABLE).data.rows, prepared.transform(TABLE).data.rows)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["missing"], "zero"),
        (["target"], 3),
        (["notes"], "text"),
        (["columns", 0, "mean"], float("nan")),
        (["columns", 0, "scale"], 0.0),
        (["columns", 0, "kind"], "date"),
        (["columns", 1, "levels"], []),
        (["columns", 1, "levels"], [1, 2]),
        (["columns", 1, "fill"], "Z"),
        (["columns", 1, "name"], None),
    ],
)
def test_damaged_content_is_refused(path, value):
    content = json.loads(json.dumps(TablePreparation.fit(TABLE, missing="mean").to_json()))
    part = content
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(ValueError):
        TablePreparation.from_json(content)


NAMES = [f"c{k}" for k in range(6)]


@pytest.mark.parametrize(
    ("changes", "options", "says"),
    [
        ({}, {}, "of 6 values some are missing: 'age' 1, 'town' 1. Use --missing indicator"),
        ({"id": NAMES}, {"missing": "mean"}, "'id' has 6 different texts in 6 rows, such as 'c0'. Use --drop id;"),
        (
            {"since": ["2020-01-31"] * 6},
            {"missing": "mean"},
            "'since' holds dates such as 2020-01-31, .* Use --drop since;",
        ),
        ({"since": ["31.12.2020 12:30"] * 6}, {"missing": "mean"}, "'since' holds dates"),
        ({"since": np.array(["2020-01-31"] * 6, "M8[D]")}, {"missing": "mean"}, "'since' holds dates such as 2020-01-31"),
        ({"n": ["1", "2", "3", "4", "x", "5"]}, {"missing": "mean"}, "'n' has 'x' among numbers. Use --drop n;"),
        ({"empty": [None] * 6}, {"missing": "mean"}, "'empty' has no values. Use --drop empty"),
        ({"x": [np.inf] * 6}, {"missing": "mean"}, "'x' has infinite numbers"),
        ({}, {"missing": "zero"}, "missing must be one of drop, mean, indicator"),
        ({}, {"min_frequency": -1}, "min_frequency must be a number >= 0"),
        ({}, {"min_frequency": 5, "missing": "mean"}, "'town': each of its 3 texts is rare"),
        ({}, {"drop": ["agee"]}, "names no column. Did you mean one of 'age'"),
        ({}, {"drop": ["y"], "target": "y"}, "'y' is the target: it cannot be another column"),
        ({}, {"categorical": {"town": "Z"}, "missing": "mean"}, "'town' has no level 'Z'. It has 'A', 'B', 'C'"),
        ({}, {"weights": "town", "missing": "mean"}, "'town' must hold numbers"),
        ({}, {"offset": "log(z)", "missing": "mean"}, "names no column"),
        ({}, {"keep": ["age"], "drop": ["age"], "missing": "mean"}, "no column is left for the features"),
    ],
)
def test_what_is_refused(changes, options, says):
    with pytest.raises(DataError, match=says):
        TablePreparation.fit({**changes, **TABLE}, **options)


def test_dates_may_be_categories_and_all_complaints_come_at_once():
    table = {"id": NAMES, "since": ["2020-01-31", "2021-01-31"] * 3, **TABLE}
    with pytest.raises(DataError, match=r"'id' .*; 'since' .*; of 6 values .*. Use --drop id,since --missing"):
        TablePreparation.fit(table)
    prepared = TablePreparation.fit(table, drop=["id"], missing="mean", categorical=["since"])
    assert prepared.feature_names[0] == "since=2021-01-31"


def test_a_single_column_that_is_left_is_the_target():
    with pytest.raises(DataError, match="no column is left for the features"):
        TablePreparation.fit({"a": [1.0, 2.0], "y": [0.0, 1.0]}, drop=["a"])
    prepared = TablePreparation.fit({"a": [1.0, 2.0], "y": [0.0, 1.0]}, keep=["a"])
    assert (prepared.target, prepared.feature_names) == ("y", ("a",))


def test_rows_without_a_label_are_left_out():
    prepared = TablePreparation.fit({**TABLE, "y": [1.0, np.nan, 0.0, 1.0, 0.0, 1.0]}, missing="mean")
    assert "1 of 6 rows left out, without a label" in prepared.notes
