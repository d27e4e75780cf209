"""`fit`, `show` and `predict` on tables with text, missing values, dates, weights and offsets."""

import csv
import io
import json

import numpy as np
import pytest

from finitesum import LogisticRegression, PoissonRegressor
from finitesum.estimators.model import LinearModel, load_model

N = 120


def columns(seed=0):
    rng = np.random.default_rng(seed)
    age, region = rng.integers(20, 80, N), rng.choice(["East", "North", "West"], N)
    u = 0.05 * (age - 50) + np.where(region == "North", 1.0, -0.5)
    return {
        "id": [f"c{k}" for k in range(N)],
        "age": ["" if k % 17 == 3 else str(age[k]) for k in range(N)],
        "income": [f"{value:.2f}" for value in rng.lognormal(10, 0.5, N)],
        "region": ["NA" if k % 29 == 5 else region[k] for k in range(N)],
        "since": [f"2020-{1 + k % 12:02d}-01" for k in range(N)],
        "times": [str(value) for value in rng.integers(1, 4, N)],
        "churn": ["yes" if value else "no" for value in rng.random(N) < 1.0 / (1.0 + np.exp(-u))],
    }


def write(path, table, delimiter=",", decimal="."):
    cells = [[cell.replace(".", decimal) if name == "income" else cell for cell in table[name]] for name in table]
    path.write_text("\n".join(delimiter.join(row) for row in [tuple(table), *zip(*cells, strict=True)]) + "\n")
    return path


OPTIONS = ("--drop", "id,since", "--missing", "indicator", "--weights", "times", "--tol", "1e-10")


@pytest.fixture
def people(tmp_path):
    return write(tmp_path / "people.csv", columns())


@pytest.fixture
def fitted(run, people, tmp_path):
    result = run("fit", people, *OPTIONS, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    return tmp_path / "run"


def test_from_a_file_to_the_table_of_coefficients(run, people, fitted):
    import pandas as pd

    frame = pd.read_csv(people)
    X = pd.DataFrame({"age": frame.age.fillna(np.average(frame.age.dropna(), weights=frame.times[frame.age.notna()]))})
    X["age missing"], X["income"] = frame.age.isna() * 1.0, frame.income
    for level in ("North", "West"):
        X[f"region={level}"] = (frame.region == level) * 1.0
    X["region=(missing)"] = frame.region.isna() * 1.0
    reference = LogisticRegression(standard_errors=True).fit(X, frame.churn, sample_weight=frame.times)
    model = load_model(fitted)
    assert model.feature_names == tuple(X.columns)
    np.testing.assert_allclose(model.coef, reference.coef_[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.inference.standard_errors, reference.standard_errors_, rtol=1e-6)
    shown = run("show", fitted)
    assert shown.exit_code == 0, shown.output
    assert "logistic model of 'churn' (no, yes): 120 rows, 6 features" in shown.stdout
    assert "age: 7 missing, which get the mean" in shown.stdout
    assert "std err" in shown.stdout
    assert "region=North" in shown.stdout
    content = json.loads(run("show", fitted, "--json").stdout)
    assert [row["name"] for row in content["coefficients"]] == [*X.columns, "intercept"]
    assert content["coefficients"][0]["std err"] == pytest.approx(reference.standard_errors_[0], rel=1e-6)
    assert [column["name"] for column in content["preparation"]["columns"]] == ["age", "income", "region"]
    assert json.loads((fitted / "result.json").read_text())["coefficients"] == content["coefficients"]


def test_a_page_of_the_model(run, fitted, tmp_path):
    page = tmp_path / "page.html"
    assert run("show", fitted, "--out", page, "-q").exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 1
    for part in ("region=North", "std err", "age: 7 missing", "weights: times", "log-likelihood", "&#39;churn&#39;"):
        assert part in text
    assert "http" not in text
    again = run("show", fitted, "--out", page)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    LinearModel(np.ones(2), feature_names=("<b>", "c")).save(tmp_path / "plain.npz")
    assert run("show", tmp_path / "plain.npz", "--out", page, "--force").exit_code == 0
    assert "&lt;b&gt;" in page.read_text(encoding="utf-8")


def test_predict_does_the_same_to_the_columns(run, people, fitted, tmp_path):
    expected = run("predict", fitted, people, "--proba")
    assert expected.exit_code == 0, expected.output
    assert "accuracy 0." in expected.stderr
    rows = list(csv.DictReader(io.StringIO(expected.stdout)))
    assert len(rows) == N
    table = columns()
    del table["times"], table["churn"]
    turned = write(tmp_path / "turned.csv", dict(reversed(table.items())), ";", ",")
    again = run("predict", fitted, turned, "--proba")
    assert again.stdout == expected.stdout
    assert "columns 'since', 'id' ignored" in again.stderr
    named = write(tmp_path / "named.csv", {"gone": columns()["churn"], **table})
    for target in ("gone", "0"):
        scored = run("predict", fitted, named, "--target", target)
        assert scored.stderr.splitlines()[-1] == expected.stderr.splitlines()[-1]
    unknown = run("predict", fitted, named, "--target", "churned")
    assert unknown.exit_code == 2
    assert "names no column" in unknown.stderr
    table["region"][0] = "South"
    unseen = run("predict", fitted, write(tmp_path / "unseen.csv", table))
    assert "region: 'South' did not occur in the fit, and count as 'East'" in unseen.stderr
    del table["age"], table["region"]
    refused = run("predict", fitted, write(tmp_path / "few.csv", table))
    assert refused.exit_code == 2
    assert refused.stderr.endswith("lacks the columns 'age', 'region' that the model was fitted to.\n")


def test_the_form_of_the_file_does_not_matter(run, fitted, tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    model = load_model(fitted)
    german = write(tmp_path / "leute.csv", columns(), ";", ",")
    parquet = tmp_path / "people.parquet"
    pd.read_csv(tmp_path / "people.csv").to_parquet(parquet)
    for file in (german, parquet):
        assert run("fit", file, *OPTIONS, "--out", tmp_path / file.suffix, "-q").exit_code == 0
        np.testing.assert_array_equal(load_model(tmp_path / file.suffix).coef, model.coef)


def test_rows_with_missing_values_get_no_prediction(run, people, tmp_path):
    options = ("--drop", "id,since,times", "--missing", "drop", "--standardise", "--out", tmp_path / "run")
    result = run("fit", people, *options)
    assert "rows left out, with missing values" in result.stderr
    predicted = run("predict", tmp_path / "run", people, "--proba")
    rows = list(csv.DictReader(io.StringIO(predicted.stdout)))
    gaps = [not age or region == "NA" for age, region in zip(columns()["age"], columns()["region"], strict=True)]
    assert [row["prediction"] == "" for row in rows] == gaps
    assert f"{sum(gaps)} of {N} rows have missing values, and no prediction" in predicted.stderr
    content = json.loads(run("predict", tmp_path / "run", people, "--json", "-q").stdout)
    assert [value is None for value in content["prediction"]] == gaps
    assert content["n_rows"] == N


def test_text_is_found_without_options_and_resumed(run, tmp_path):
    table = columns()
    kept = write(tmp_path / "kept.csv", {name: table[name] for name in ("income", "region", "churn")})
    result = run("fit", kept, "--max-iter", "2", "--solver", "a-ciag", "--missing", "mean", "--out", tmp_path / "run")
    assert "region: text of 3 levels, against 'East'" in result.stderr
    resumed = run("fit", "--resume", tmp_path / "run", "--max-iter", "3")
    assert resumed.exit_code == 0, resumed.output
    assert load_model(tmp_path / "run").preparation.missing == "mean"


def test_counts_with_exposures(run, tmp_path):
    rng = np.random.default_rng(1)
    months, region = rng.integers(1, 13, N), rng.choice(["A", "B"], N)
    counts = rng.poisson(months * np.where(region == "B", 0.3, 0.1))
    table = {"months": [str(m) for m in months], "region": list(region), "claims": [str(c) for c in counts]}
    file = write(tmp_path / "claims.csv", table)
    options = ("--loss", "poisson", "--offset", "log(months)", "--alpha", "0", "--tol", "1e-10")
    assert run("fit", file, *options, "--out", tmp_path / "run").exit_code == 0
    X, offset = (region == "B")[:, None] * 1.0, np.log(months)
    reference = PoissonRegressor(alpha=0.0).fit(X, counts, offset=offset)
    np.testing.assert_allclose(load_model(tmp_path / "run").coef, reference.coef_, atol=1e-8)
    predicted = json.loads(run("predict", tmp_path / "run", file, "--json").stdout)["prediction"]
    np.testing.assert_allclose(predicted, reference.predict(X, offset), rtol=1e-7)


def test_several_classes(run, tmp_path):
    rng = np.random.default_rng(2)
    kinds, x = rng.choice(["cat", "dog", "eel"], N), rng.standard_normal(N)
    table = {"x": [f"{v:.6f}" for v in x + (kinds == "dog") - (kinds == "eel")], "home": list(rng.choice(["in", "out"], N))}
    file = write(tmp_path / "pets.csv", {**table, "kind": list(kinds)})
    result = run("fit", file, "--tol", "1e-10", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "dog: home=out" in result.stdout
    X = np.column_stack([np.array(table["x"], dtype=float), np.array(table["home"]) == "out"])
    reference = LogisticRegression(C=1.0).fit(X, kinds)
    model = load_model(tmp_path / "run")
    np.testing.assert_allclose(model.coef, reference.coef_, atol=1e-7)
    np.testing.assert_allclose(model.intercept, reference.intercept_, atol=1e-7)
    found = json.loads(run("predict", tmp_path / "run", file, "--json", "--proba").stdout)
    assert found["prediction"] == reference.predict(X).tolist()
    np.testing.assert_allclose(found["probability_eel"], reference.predict_proba(X)[:, 2], atol=1e-7)
    assert "eel: intercept" in run("show", tmp_path / "run").stdout


def test_no_errors_with_an_l1_penalty(run, people, tmp_path):
    assert run("fit", people, *OPTIONS, "--l1-ratio", "1", "--out", tmp_path / "run").exit_code == 0
    shown = run("show", tmp_path / "run").stdout
    assert "std err" not in shown
    assert "region=North" in shown


def test_models_of_the_first_format_are_read(run, people, fitted):
    model, path = load_model(fitted), fitted / "model.npz"
    with np.load(path) as archive:
        header, coef = json.loads(str(archive["header"])), archive["coef"]
    for name in ("target_name", "preparation", "inference"):
        del header[name]
    np.savez(path, header=np.array(json.dumps({**header, "format": "finitesum-model-1"})), coef=coef)
    old = load_model(path)
    np.testing.assert_array_equal(old.coef, model.coef)
    assert (old.classes, old.preparation, old.inference) == (model.classes, None, None)


@pytest.mark.parametrize("weight", ["0", "-1"])
def test_weights_that_cannot_be(run, tmp_path, weight):
    file = write(tmp_path / "t.csv", {**columns(), "times": [weight] * N})
    result = run("fit", file, *OPTIONS)
    assert result.exit_code == 2
    assert result.stderr.endswith("column 'times': weights must be >= 0 and have a positive sum.\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "Use --drop id --missing indicator"),
        (("--drop", "id,since", "--missing", "mean", "--loss", "squared"), "a regression needs numbers as labels"),
        (("--drop", "idd"), "Did you mean one of 'id'"),
        (("--missing", "mean", "--memory", "1GB"), "--missing is for one CSV or Parquet file"),
        (("--missing", "mean", "--memmap"), "--memmap and --n-features are for tables of numbers"),
    ],
)
def test_refusals_are_one_sentence(run, people, args, says):
    result = run("fit", people, *args)
    assert result.exit_code == 2
    assert result.stderr.startswith("finitesum: error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr or says.replace("--drop id ", "--drop id,since ") in result.stderr
