"""`finitesum fit`: its files, its exit codes, what it says where."""

import csv
import json

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.datasets import load
from finitesum.estimators.model import load_model
from finitesum.running.checkpoint import load as load_checkpoint


def reference(path, **options):
    data = load(path)
    problem = Problem.linear(data.rows, data.targets(), alpha=1.0 / data.n_rows, **options)
    return minimize(problem, tol=1e-12), problem


def test_the_model_is_that_of_the_library(run, svm, tmp_path):
    out = tmp_path / "run"
    result = run("fit", svm, "--no-intercept", "--tol", "1e-12", "--out", out)
    assert result.exit_code == 0, result.output
    expected, _ = reference(svm)
    model = load_model(out)
    np.testing.assert_array_equal(model.coef, expected.x)
    assert model.classes == (1, 2)
    assert (model.intercept, model.fit_intercept, model.n_features, model.n_rows) == (0.0, False, 5, 60)
    assert (model.loss, model.alpha, model.tol, model.seed) == ("logistic", 1 / 60, 1e-12, 0)
    assert model.optimality <= 1e-12
    assert model.method == repr(expected.method)


def test_files_and_report(run, svm, tmp_path):
    out = tmp_path / "run"
    result = run("fit", svm, "--tol", "1e-9", "--out", out, "--json")
    report = json.loads(result.stdout)
    assert report == json.loads((out / "result.json").read_text())
    assert report["success"] is True
    assert report["status"] == "converged"
    assert report["optimality"] <= report["tol"] == 1e-9
    assert report["data"]["n_rows"] == 60
    assert report["settings"]["alpha"] == "1/n"
    assert sorted(file.name for file in out.iterdir()) == ["model.npz", "result.json", "settings.json", "trace.csv"]
    with (out / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["objective"]) == pytest.approx(np.log(2))
    assert float(rows[-1]["optimality"]) == report["optimality"]


def test_data_on_stdout_and_the_rest_on_stderr(run, svm):
    result = run("fit", svm)
    assert result.stdout.startswith("Converged: optimality ")
    assert "--out" in result.stderr
    assert "--out" not in result.stdout
    quiet = run("fit", svm, "-q")
    assert quiet.stdout.startswith("Converged: ")
    assert quiet.stderr == ""
    wordy = run("fit", svm, "-v")
    assert wordy.stderr.count("pass ") >= 3
    json.loads(run("fit", svm, "-v", "--json").stdout)


def test_intercept_is_stored_apart(run, csv_file, tmp_path):
    result = run("fit", csv_file, "--tol", "1e-10", "--alpha", "0.05", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    model = load_model(tmp_path / "run")
    data = load(csv_file)
    problem = Problem.linear(data.rows, data.targets(), alpha=0.05, fit_intercept=True)
    expected = minimize(problem, tol=1e-10).x
    np.testing.assert_array_equal([*model.coef, model.intercept], expected)
    assert model.classes == ("no", "yes")
    assert model.feature_names == ("a", "b", "c")


def test_penalty_loss_and_target(run, csv_file, tmp_path):
    args = ("--target", "c", "--loss", "squared", "--alpha", "0.1", "--l1-ratio", "0.5", "--tol", "1e-9")
    table = tmp_path / "numbers.csv"
    text = csv_file.read_text().replace("yes", "1").replace("no", "0")
    table.write_text(text)
    result = run("fit", table, *args, "--solver", "saga", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    model = load_model(tmp_path / "run")
    assert model.feature_names == ("a", "b", "answer")
    assert model.classes is None
    assert (model.alpha, model.l1_ratio) == (pytest.approx(0.1), 0.5)
    by_number = run("fit", table, *args, "--target", "2", "--solver", "saga", "--out", tmp_path / "again")
    assert by_number.exit_code == 0
    np.testing.assert_array_equal(load_model(tmp_path / "again").coef, model.coef)


def test_a_fit_that_has_not_converged(run, svm, tmp_path):
    slow = ("fit", svm, "--solver", "ig", "--tol", "1e-14", "--max-iter", "3")
    result = run(*slow, "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "Stopped at max_iter" in result.stdout
    assert "warning: the fit has not converged" in result.stderr
    assert (tmp_path / "run" / "checkpoint.npz").exists()
    assert run(*slow, "--strict").exit_code == 3
    assert json.loads(run(*slow, "--strict", "--json").stdout)["success"] is False


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # NumPy's of what is infinite
def test_json_of_a_diverged_fit_has_no_nan(run, svm):
    result = run("fit", svm, "--solver", "ig", "--step-size", "1e300", "--json")
    report = json.loads(result.stdout, parse_constant=pytest.fail)
    assert report["status"] == "diverged"


def test_a_model_is_not_overwritten(run, svm, tmp_path):
    out = tmp_path / "run"
    assert run("fit", svm, "--out", out).exit_code == 0
    before = (out / "model.npz").read_bytes()
    refused = run("fit", svm, "--alpha", "0.5", "--out", out)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert (out / "model.npz").read_bytes() == before
    assert run("fit", svm, "--alpha", "0.5", "--out", out, "--force").exit_code == 0
    assert load_model(out).alpha == 0.5


def test_an_unfinished_fit_is_not_overwritten(run, svm, tmp_path):
    out = tmp_path / "run"
    run("fit", svm, "--solver", "saga", "--tol", "1e-12", "--max-iter", "5", "--out", out)
    (out / "model.npz").unlink()
    refused = run("fit", svm, "--out", out)
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    assert "--force" in refused.stderr


def test_force_does_not_destroy_before_the_data_are_read(run, svm, tmp_path):
    out = tmp_path / "run"
    run("fit", svm, "--out", out)
    assert run("fit", tmp_path / "missing.svm", "--out", out, "--force").exit_code == 2
    assert (out / "model.npz").exists()


def test_resume_takes_the_settings_along(run, svm, tmp_path):
    settings = ("--solver", "saga", "--alpha", "0.01", "--no-intercept", "--tol", "1e-10", "--seed", "3")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("fit", svm, *settings, "--out", whole).exit_code == 0
    run("fit", svm, *settings, "--max-iter", "7", "--out", parts)
    assert load_checkpoint(parts / "checkpoint.npz").header["seed"] == 3
    result = run("fit", "--resume", parts, "--max-iter", "1000")
    assert result.exit_code == 0, result.output
    a, b = load_model(whole), load_model(parts)
    np.testing.assert_array_equal(a.coef, b.coef)
    assert a.optimality == b.optimality
    assert not (parts / "checkpoint.npz").exists()
    assert load_model(parts).seed == 3


def test_resuming_a_finished_fit(run, svm, tmp_path):
    out = tmp_path / "run"
    first = run("fit", svm, "--tol", "1e-9", "--out", out, "--json")
    again = run("fit", "--resume", out, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert "finished" in again.stderr
    other = run("fit", "--resume", out, "--tol", "1e-12")
    assert other.exit_code == 2
    assert "other settings" in other.stderr


def test_resume_without_a_checkpoint(run, svm, tmp_path):
    missing = run("fit", "--resume", tmp_path / "none")
    assert missing.exit_code == 2
    assert "holds no fit" in missing.stderr
    begun = run("fit", svm, "--resume", tmp_path / "none")
    assert begun.exit_code == 0
    assert "starts again" in begun.stderr
    assert (tmp_path / "none" / "model.npz").exists()


def test_resume_refuses_another_problem(run, svm, tmp_path):
    out = tmp_path / "run"
    run("fit", svm, "--solver", "saga", "--tol", "1e-12", "--max-iter", "5", "--out", out)
    result = run("fit", "--resume", out, "--alpha", "0.5")
    assert result.exit_code == 2
    assert "belongs to another problem" in result.stderr
    both = run("fit", svm, "--resume", out, "--out", out)
    assert both.exit_code == 2


@pytest.mark.parametrize("file", ["checkpoint.npz", "settings.json"])
def test_resume_refuses_damaged_files(run, svm, tmp_path, file):
    out = tmp_path / "run"
    run("fit", svm, "--solver", "saga", "--tol", "1e-12", "--max-iter", "5", "--out", out)
    content = (out / file).read_bytes()
    (out / file).write_bytes(content[: len(content) // 2])
    result = run("fit", "--resume", out)
    assert result.exit_code == 2
    assert "damaged" in result.stderr
    assert result.stderr.count("\n") == 1


def test_memmap_threads_and_batches_change_no_bit_of_the_first_two(run, svm, tmp_path):
    plain = tmp_path / "plain"
    run("fit", svm, "--out", plain)
    for name, extra in (("map", ["--memmap"]), ("one", ["--threads", "1"])):
        assert run("fit", svm, *extra, "--out", tmp_path / name).exit_code == 0
        np.testing.assert_array_equal(load_model(tmp_path / name).coef, load_model(plain).coef)
    batched = run("fit", svm, "--batch-size", "7", "--sampling", "shuffled", "--json")
    assert json.loads(batched.stdout)["batch_size"] == 7


def test_files_in_parts_have_the_model_of_one_file(run, csv_file, tmp_path):
    header, *lines = csv_file.read_text().splitlines()
    folder = tmp_path / "several"
    folder.mkdir()
    for k in range(3):
        (folder / f"{k}.csv").write_text("\n".join([header, *lines[k::3]]) + "\n")
    asked = ["--target", "answer", "--tol", "1e-10"]
    run("fit", csv_file, *asked, "--out", tmp_path / "one")
    expected = load_model(tmp_path / "one")
    for name, data in (("pattern", folder / "*.csv"), ("folder", folder), ("file", csv_file)):
        done = run("fit", data, *asked, "--memory", "400MB", "--out", tmp_path / name, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["data"]["parts"] == (1 if name == "file" else 3)
        found = load_model(tmp_path / name)
        np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-8)
        assert (found.classes, found.feature_names) == (expected.classes, expected.feature_names)
    several = run("fit", *sorted(folder.glob("*.csv")), *asked, "--out", tmp_path / "by shell")  # as it expands a pattern
    assert several.exit_code == 0, several.output
    np.testing.assert_array_equal(load_model(tmp_path / "by shell").coef, load_model(tmp_path / "pattern").coef)
    shipped = run("fit", "breast_cancer", "--memory", "1GB")
    assert (shipped.exit_code, "Leave --memory and other DATA out" in shipped.stderr) == (2, True)
    again = run("fit", "--resume", tmp_path / "pattern", "--json")
    assert again.exit_code == 0


@pytest.mark.parametrize("n_files", [1, 2])
def test_files_whose_names_have_line_breaks_are_found_again(n_files, run, csv_file, tmp_path):
    header, *lines = csv_file.read_text().splitlines()
    files = [tmp_path / f"two\nlines {k}.csv" for k in range(n_files)]
    for k, file in enumerate(files):
        file.write_text("\n".join([header, *lines[k::n_files]]) + "\n")
    asked, out = ["--target", "answer", "--tol", "1e-10"], tmp_path / "run"
    run("fit", *files, *asked, "--out", tmp_path / "whole")
    run("fit", *files, *asked, "--max-iter", "1", "--out", out)
    assert (out / "checkpoint.npz").exists()
    assert json.loads((out / "settings.json").read_text())["settings"]["data"] == [str(file) for file in files]
    resumed = run("fit", "--resume", out, "--max-iter", "1000")
    assert resumed.exit_code == 0, resumed.output
    np.testing.assert_array_equal(load_model(out).coef, load_model(tmp_path / "whole").coef)


@pytest.mark.parametrize("data", ['"a.csv"', "[]", '["a.csv", 1]'])
def test_settings_whose_files_are_no_list_are_damaged(data, run, svm, tmp_path):
    run("fit", svm, "--max-iter", "1", "--out", tmp_path)
    settings = tmp_path / "settings.json"
    content = json.loads(settings.read_text())
    content["settings"]["data"] = json.loads(data)
    settings.write_text(json.dumps(content))
    result = run("fit", "--resume", tmp_path)
    assert (result.exit_code, "damaged (data is" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--memory", "much"], "a size must be a number of bytes such as 2GB"),
        (["--memory", "100MB"], "a fit takes some 300 MB for itself. Give --memory 300MB or more"),
        (["--memory", "300MB"], "a fit takes some 300 MB by newton on"),
        (["--memory", "1GB", "--memmap"], "--memmap is for one file"),
    ],
)
def test_a_memory_that_cannot_be_kept_to_is_an_error(run, csv_file, options, says):
    done = run("fit", csv_file, "--target", "answer", *options)
    assert done.exit_code == 2
    assert says in done.stderr


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """800 rows of 1,500 columns, whose matrix of all columns has 18 MB: more than 330 MB leave room for, several times."""
    folder, rng = tmp_path_factory.mktemp("wide"), np.random.default_rng(0)
    X = rng.standard_normal((800, 1500))
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", np.where(X[:, 0] + rng.standard_normal(800) > 0.0, 1.0, -1.0))
    return folder


@pytest.mark.as_chosen
def test_auto_takes_the_first_of_its_choices_that_the_memory_has_room_for(run, wide, tmp_path):
    asked = [wide / "X.npy", "--target", wide / "y.npy", "--alpha", "1", "--tol", "1e-8", "--json"]
    free, kept = (json.loads(run("fit", *asked, *more).stdout) for more in ([], ["--memory", "330MB"]))
    assert kept["success"]
    assert kept["method"].startswith("NewtonCG")
    assert kept["objective"] == pytest.approx(free["objective"], rel=1e-8)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--solver", "newton"], "MB by newton on 800 rows x 1,500 columns (--solver newton-cg or afg takes less)"),
        (["--solver", "lazy-newton"], "MB by lazy-newton on"),
        (["--loss", "hinge"], "(--solver dual-ascent takes less)"),
    ],
)
def test_a_method_without_room_is_refused_before_it_runs(run, wide, options, says):
    done = run("fit", wide / "X.npy", "--target", wide / "y.npy", "--alpha", "1", "--memory", "330MB", *options)
    assert done.exit_code == 2
    assert says in done.stderr


def test_names_of_data_sets(run, svm, tmp_path, monkeypatch):
    assert json.loads(run("fit", "breast_cancer", "--max-iter", "2", "--json").stdout)["data"]["n_rows"] == 569
    monkeypatch.setenv("FINITESUM_DATA", str(svm.parent))
    assert json.loads(run("fit", "small", "--json").stdout)["data"]["n_rows"] == 60
    missing = run("fit", "a9a")
    assert missing.exit_code == 2
    assert "finitesum data fetch a9a" in missing.stderr
