"""Wrong input ends in one clear line on stderr and exit code 2, never in a traceback."""

import sys

import click
import pytest

from finitesum.cli import main
from finitesum.cli.errors import CommandLine


def one_line(result):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("finitesum: error: ")
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["fit"], "Missing argument 'DATA'"),
        (["fit", "missing.svm"], "missing.svm does not exist"),
        (["fit", "{svm}", "--solver", "newtons"], "method must be one of"),
        (["fit", "{svm}", "--loss", "log"], "loss must be one of"),
        (["fit", "{svm}", "--alpha", "-1"], "alpha must be a number >= 0"),
        (["fit", "{svm}", "--alpha", "1/m"], "alpha must be a number >= 0"),
        (["fit", "{svm}", "--alpha", "nan"], "alpha must be a number >= 0"),
        (["fit", "{svm}", "--l1-ratio", "2"], "--l1-ratio"),
        (["fit", "{svm}", "--tol", "-1"], "--tol"),
        (["fit", "{svm}", "--tol", "inf"], "tol must be"),
        (["fit", "{svm}", "--max-iter", "0"], "--max-iter"),
        (["fit", "{svm}", "--step-size", "fast"], "step size must be a number > 0"),
        (["fit", "{svm}", "--sampling", "sorted"], "--sampling must be one of cyclic"),
        (["fit", "{svm}", "--seed", "-1"], "--seed"),
        (["fit", "{svm}", "--target", "2"], "target=2"),
        (["fit", "{svm}", "--n-features", "3"], "n_features=3"),
        (["fit", "{svm}", "--format", "arff"], "format must be one of"),
        (["fit", "{svm}", "--loss", "hinge", "--solver", "saga"], "smoothed-hinge"),
        (["fit", "{svm}", "--zero-based", "--format", "csv"], "zero_based"),
        (["predict", "missing", "{svm}"], "missing does not exist"),
        (["predict", "{svm}", "{svm}"], "damaged or no model"),
        (["compare", "{svm}", "--solvers", "saga,sgadget"], "sgadget"),
        (["compare", "{svm}", "--solvers", ","], "--solvers must be names"),
        (["compare", "{svm}", "--sampling", "sorted"], "--sampling must be one of"),
        (["warmup", "--loss", "log"], "loss must be one of"),
        (["data", "path", "a9"], "a9"),
        (["data", "fetch", "nothing-like-it"], "no data set of the registry"),
    ],
)
def test_bad_arguments(run, svm, tmp_path, monkeypatch, args, says):
    monkeypatch.chdir(tmp_path)
    assert says in one_line(run(*(arg.format(svm=svm) for arg in args)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no rows"),
        ("1 1:2\n1 1:x\n", "line 2"),
        ("1 1:2\n1 2:1\n", "at least two"),
        ("0.5 1:2\n1.25 1:1\n3.5 1:0.5\n", "Use --loss squared"),
        ("1 1:nan\n2 1:1\n", "line 1"),
    ],
)
def test_bad_files(run, tmp_path, text, says):
    file = tmp_path / "bad.svm"
    file.write_text(text)
    assert says in one_line(run("fit", file))


def test_losses_of_two_classes(run, tmp_path):
    file = tmp_path / "three.svm"
    file.write_text("1 1:2\n2 1:1\n3 1:0.5\n")
    assert "two classes, but the labels have 3: 1, 2, 3" in one_line(run("fit", file, "--loss", "hinge"))


def test_text_labels_suit_no_regression(run, csv_file):
    assert "regression" in one_line(run("fit", csv_file, "--loss", "squared"))


def test_folders_and_files_that_cannot_be_written(run, svm, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in one_line(run("fit", svm, "--out", tmp_path / "file"))
    assert "file" in one_line(run("fit", svm, "--out", tmp_path / "file" / "inside"))


def test_without_a_command_the_help_is_shown(run):
    result = run()
    assert result.exit_code in (0, 2)
    assert "Commands:" in result.output


def test_debug_shows_the_traceback(run, monkeypatch):
    monkeypatch.setenv("FINITESUM_DEBUG", "1")
    assert run("fit", "missing.svm").exception is not None


def failing(error):
    group = CommandLine("finitesum")

    @group.command()
    def fail():
        raise error

    return group


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (MemoryError("Unable to allocate 9 TiB"), 2, "not enough memory (Unable to allocate 9 TiB)"),
        (PermissionError(13, "Permission denied", "/x"), 2, "/x: Permission denied."),
        (OSError("odd"), 2, "odd"),
        (ValueError("two\nlines"), 2, "two lines"),
        (click.FileError("x", "is odd"), 2, "is odd"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_of_other_kinds(capsys, error, code, says):
    with pytest.raises(SystemExit) as end:
        failing(error).main(["fail"], prog_name="finitesum")
    assert end.value.code == code
    assert says in capsys.readouterr().err


def test_errors_of_ours_are_not_hidden(capsys):
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError()).main(["fail"], prog_name="finitesum")


def test_not_standalone(run):
    assert main.main(["--version"], standalone_mode=False) in (0, None)
    with pytest.raises(click.UsageError):
        main.main(["bogus"], standalone_mode=False)
    assert "click" in sys.modules
