"""`finitesum predict`: original labels, probabilities, scores, and rows that do not fit."""

import csv
import io
import json

import numpy as np
import pytest

from finitesum.datasets import load
from finitesum.estimators.model import LinearModel, ModelError, load_model


@pytest.fixture
def fitted(run, svm, tmp_path):
    """Return the folder of a fit to the svmlight file."""
    assert run("fit", svm, "--out", tmp_path / "run", "-q").exit_code == 0
    return tmp_path / "run"


@pytest.fixture
def fitted_csv(run, csv_file, tmp_path):
    """Return the folder of a fit to the CSV file."""
    assert run("fit", csv_file, "--out", tmp_path / "run-csv", "-q").exit_code == 0
    return tmp_path / "run-csv"


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_labels_of_the_file(run, svm, fitted):
    for path in (fitted, fitted / "model.npz"):
        result = run("predict", path, svm)
        assert result.exit_code == 0, result.output
    labels = [row["prediction"] for row in table(result.stdout)]
    assert set(labels) == {"1", "2"}
    data, model = load(svm), load_model(fitted)
    right = np.where(data.rows @ model.coef + model.intercept > 0.0, 2, 1)
    np.testing.assert_array_equal(np.array(labels, dtype=int), right)
    assert result.stderr == f"accuracy {np.mean(right == data.labels):.6g} on 60 rows\n"


def test_text_labels_and_probabilities(run, csv_file, fitted_csv):
    result = run("predict", fitted_csv, csv_file, "--proba", "-q")
    rows = table(result.stdout)
    assert list(rows[0]) == ["prediction", "probability_no", "probability_yes"]
    for row in rows:
        no, yes = float(row["probability_no"]), float(row["probability_yes"])
        assert no + yes == pytest.approx(1.0, abs=1e-15)
        assert row["prediction"] == ("yes" if yes > no else "no")
    assert result.stderr == ""


def test_file_and_json(run, svm, fitted, tmp_path):
    out = tmp_path / "predictions.csv"
    result = run("predict", fitted, svm, "--out", out)
    assert result.stdout == ""
    assert len(table(out.read_text())) == 60
    assert "wrote" in result.stderr
    refused = run("predict", fitted, svm, "--out", out)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert run("predict", fitted, svm, "--out", out, "--force").exit_code == 0
    report = json.loads(run("predict", fitted, svm, "--json", "--proba").stdout)
    assert report["n_rows"] == len(report["prediction"]) == len(report["probability_2"]) == 60
    assert 0.5 < report["accuracy"] <= 1.0


def test_sparse_rows_with_fewer_features_are_padded(run, svm, fitted, tmp_path):
    few = tmp_path / "few.svm"
    few.write_text("1 1:0.5\n2 2:1.5\n")
    result = run("predict", fitted, few)
    assert result.exit_code == 0, result.output
    assert len(table(result.stdout)) == 2


def test_sparse_rows_with_more_features_are_refused(run, fitted, tmp_path):
    many = tmp_path / "many.svm"
    many.write_text("1 1:0.5\n2 9:1.5\n")
    result = run("predict", fitted, many)
    assert result.exit_code == 2
    assert "many has 9 features, but the model was fitted to 5" in result.stderr


def test_columns_are_found_by_their_names(run, csv_file, fitted_csv, tmp_path):
    expected, header = run("predict", fitted_csv, csv_file).stdout, "a,b,c,answer"
    rows = [line.split(",") for line in csv_file.read_text().splitlines()[1:]]

    def predict(names, of, *options):
        file = tmp_path / f"{names}.csv"
        file.write_text("\n".join([names, *(",".join(row[k] for k in of) for row in rows)]))
        return run("predict", fitted_csv, file, *options)

    for names, of, says in [
        ("c,answer,a,b", [2, 3, 0, 1], "accuracy "),
        ("a,b,c", [0, 1, 2], ""),
        ("more,a,b,c,answer", [3, 0, 1, 2, 3], "column 'more' ignored"),
    ]:
        result = predict(names, of)
        assert result.stdout == expected
        assert result.stderr.startswith(says)
    result = predict("a,c,answer", [0, 2, 3])
    assert result.exit_code == 2
    assert "lacks the column 'b'" in result.stderr
    assert predict(header, [0, 1, 2, 3], "--no-labels").stdout == expected
    text = predict("a,b,answer,c", [0, 1, 2, 3])
    assert text.exit_code == 2
    assert f"column 'c': {rows[0][3]!r} is no number" in text.stderr


def test_rows_without_names_must_fit(run, fitted_csv, csv_file, tmp_path):
    text = csv_file.read_text().splitlines()[1:]
    plain = tmp_path / "plain.csv"
    plain.write_text("\n".join(line.rsplit(",", 1)[0] for line in text))
    result = run("predict", fitted_csv, plain)
    assert result.exit_code == 2
    assert "plain has 2 features, but the model was fitted to 3. The last column was taken for the labels" in result.stderr
    result = run("predict", fitted_csv, plain, "--no-labels")
    assert result.exit_code == 0, result.output
    assert result.stdout == run("predict", fitted_csv, csv_file).stdout


def test_regression(run, tmp_path):
    file = tmp_path / "line.csv"
    file.write_text("x,y\n" + "".join(f"{x},{2 * x + 1}\n" for x in range(10)))
    run("fit", file, "--loss", "squared", "--alpha", "0", "--tol", "1e-10", "--target", "y", "--out", tmp_path / "run")
    result = run("predict", tmp_path / "run", file, "--target", "y")
    assert result.exit_code == 0, result.output
    predictions = [float(row["prediction"]) for row in table(result.stdout)]
    np.testing.assert_allclose(predictions, 2.0 * np.arange(10) + 1.0, atol=1e-8)
    assert result.stderr.startswith("mse ")
    refused = run("predict", tmp_path / "run", file, "--target", "y", "--proba")
    assert refused.exit_code == 2
    assert "no probabilities" in refused.stderr


def test_model_file_round_trip(tmp_path):
    model = LinearModel(
        np.array([1.0, -0.0, np.pi]),
        0.25,
        loss="huber",
        alpha=1e-3,
        l1_ratio=0.5,
        feature_names=("ä", "b", "c"),
        objective=0.1,
        optimality=1e-11,
        tol=1e-10,
        method="SAGA()",
        seed=2**40,
        version="0.1",
    )
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path)
    assert again.coef.tobytes() == model.coef.tobytes()
    for name in ("intercept", "loss", "alpha", "feature_names", "classes", "optimality", "method", "seed", "version"):
        assert getattr(again, name) == getattr(model, name)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as archive:
        assert sorted(archive.files) == ["coef", "header"]


@pytest.mark.parametrize("classes", [(0, 1), (-1, 1), ("ham", "spam"), (1.5, 2.5), (False, True)])
def test_classes_survive_the_file(tmp_path, classes):
    LinearModel(np.ones(1), classes=classes).save(tmp_path / "m.npz")
    model = load_model(tmp_path / "m.npz")
    assert model.classes == classes
    predicted = model.predict(np.array([[1.0], [-1.0]]))
    assert predicted.tolist() == [classes[1], classes[0]]


def test_probabilities_hold_at_large_margins():
    model = LinearModel(np.array([1.0]), classes=(0, 1))
    probabilities = model.probabilities(np.array([[1000.0], [-1000.0], [0.0], [40.0]]))
    np.testing.assert_array_equal(probabilities[0], [0.0, 1.0])
    np.testing.assert_array_equal(probabilities[1], [1.0, 0.0])
    np.testing.assert_array_equal(probabilities[2], [0.5, 0.5])
    assert probabilities[3, 0] == pytest.approx(np.exp(-40.0), rel=1e-13)


def test_poisson_predicts_the_mean():
    model = LinearModel(np.array([2.0]), loss="poisson")
    np.testing.assert_allclose(model.predict(np.array([[1.0]])), [np.exp(2.0)])


@pytest.mark.parametrize(("coef", "intercept"), [(np.nan, 0.0), (1.0, np.inf), (1.0, "abc")])
def test_models_without_numbers_are_refused(tmp_path, coef, intercept):
    LinearModel(np.array([coef]), intercept, classes=("bad", "good")).save(tmp_path / "m.npz")
    with pytest.raises(ModelError, match=r"m.npz is damaged or no model"):
        load_model(tmp_path / "m.npz")


@pytest.mark.parametrize("damage", ["cut", "text", "foreign", "version", "matrix"])
def test_damaged_models_are_refused(run, svm, tmp_path, damage):
    path = tmp_path / "m.npz"
    LinearModel(np.ones(5), classes=(1, 2)).save(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:300])
    elif damage == "text":
        path.write_text("not a zip")
    elif damage == "foreign":
        np.savez(path, x=np.ones(3))
    elif damage == "version":
        np.savez(path, coef=np.ones(5), header=np.array('{"format": "finitesum-model-9"}'))
    else:
        with np.load(path) as archive:
            header = archive["header"]
        np.savez(path, coef=np.ones((5, 1)), header=header)
    result = run("predict", path, svm)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "Fit it again" in result.stderr
