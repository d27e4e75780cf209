import json
from dataclasses import replace

import pytest

pytest.importorskip("torch.optim")

from click.testing import CliRunner

from finitesum.datasets import DataError
from finitesum.papers.networks import experiment, grid
from finitesum.papers.networks.__main__ import main
from finitesum.papers.networks.figures import bands, figure_of
from finitesum.papers.networks.grid import GridError, read_rows, run_grid
from finitesum.papers.networks.settings import SIZES, Grid, Training
from finitesum.papers.networks.training import train
from finitesum.papers.networks.verdict import Results

DIGITS = Training("digits", epochs=2, batch_size=32, n_train=200, n_test=100, bn_momentum=0.1)
SMALL = Grid(DIGITS, methods=("adahb", "adam", "adam/sqrt"), alphas=(0.01, 0.001), seeds=(0, 1))
MADE = Grid(Training("made", epochs=2, batch_size=16), methods=("adahb", "sgd"), alphas=(0.1, 0.01), seeds=(0,))


def without_times(rows):
    return [row._replace(seconds=0.0) for row in rows]


def test_the_whole_experiment(tmp_path):
    outcome = experiment.run([SMALL], tmp_path, verbose=0, command="the command", size="small")
    page = (tmp_path / "networks.md").read_text()
    assert "the command" in page
    assert "size small" in page
    assert "| AdaHB |" in page
    assert "- *The control: test accuracy*: " in page
    assert "0.01*" in page  # an end of the grid
    assert "lower training loss than Adam / √epoch" in page
    assert (tmp_path / "digits-cnn.png").read_bytes().startswith(b"\x89PNG")
    assert len(read_rows(tmp_path / "digits-cnn.csv")) == SMALL.n_runs * 2
    assert {s["outcome"] for s in json.loads((tmp_path / "statements.json").read_text())} <= {
        "holds",
        "does not hold",
        "undecided",
    }
    assert all(file.is_file() for file in outcome.files)
    assert not any((tmp_path / "checkpoints").iterdir())


def test_an_interrupted_grid_goes_on(images, tmp_path, monkeypatch):
    whole = run_grid(MADE, images, tmp_path / "whole", verbose=0)
    calls = []

    def interrupted(run, used, **options):
        calls.append(run)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train(run, used, **options)

    monkeypatch.setattr(grid, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_grid(MADE, images, tmp_path / "cut", verbose=0)
    assert len(read_rows(tmp_path / "cut" / "made-cnn.csv")) == 2 * 2
    rows = run_grid(MADE, images, tmp_path / "cut", verbose=0)
    assert len(calls) == 3 + 2
    assert without_times(rows) == without_times(whole)


def test_a_finished_grid_is_not_run_again(images, tmp_path, monkeypatch):
    rows = run_grid(MADE, images, tmp_path, verbose=0)
    monkeypatch.setattr(grid, "train", None)
    assert run_grid(MADE, images, tmp_path, verbose=0) == rows
    smaller = replace(MADE, methods=("sgd",))
    assert {row.method for row in run_grid(smaller, images, tmp_path, verbose=0)} == {"sgd"}
    assert len(read_rows(tmp_path / "made-cnn.csv")) == len(rows)


def test_rows_of_another_training_are_refused(images, tmp_path):
    run_grid(replace(MADE, methods=("sgd",), alphas=(0.1,)), images, tmp_path, verbose=0)
    with pytest.raises(GridError, match="another training"):
        run_grid(replace(MADE, training=replace(MADE.training, epochs=3)), images, tmp_path, verbose=0)


def test_progress_is_told_on_stderr(images, tmp_path, capsys):
    run_grid(replace(MADE, methods=("sgd",), alphas=(0.1,)), images, tmp_path, verbose=2)
    out, err = capsys.readouterr()
    assert not out
    assert "made-cnn: 2 of 2 epochs; sgd, alpha 0.1, seed 0: loss" in err


def test_figures_draw_means_over_the_repeats(images, tmp_path):
    two = replace(MADE, seeds=(0, 1), alphas=(0.1,))
    rows = run_grid(two, images, tmp_path, verbose=0)
    band = bands(rows, "adahb", "train_loss")
    assert list(band.epochs) == [1, 2]
    assert (band.low < band.mean).all()
    assert (band.mean < band.high).all()
    assert bands(rows, "adam", "train_loss") is None
    figure = figure_of(Results(two, rows, 40), "title")
    assert len(figure.axes) == 2  # no control was run
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["AdaHB", "SGD"]


def test_absent_images_are_left_out_with_advice(own_folders, tmp_path):
    tiny = replace(SMALL, methods=("adahb",), alphas=(0.01,), seeds=(0,))
    outcome = experiment.run([Grid(Training("cifar10")), tiny], tmp_path, data_dir=own_folders, verbose=0)
    assert "www.cs.toronto.edu" in outcome.absent["cifar10-cnn"]
    assert "Left out: **cifar10-cnn**" in (tmp_path / "networks.md").read_text()
    with pytest.raises(DataError, match="toronto"):
        experiment.run([Grid(Training("cifar10"))], tmp_path, data_dir=own_folders, verbose=0)


def test_command(tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", (replace(SMALL, alphas=(0.01,), seeds=(0,)),))
    arguments = ["--size", "quick", "--out", str(tmp_path), "--method", "adahb", "--method", "adam", "-q"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "AdaHB reaches a lower training loss than Adam (paper)" in result.output
    assert (
        "`python -m finitesum.papers.networks --size quick --method adahb --method adam`"
        in (tmp_path / "networks.md").read_text()
    )


def test_command_without_data(own_folders, tmp_path):
    arguments = ["--size", "full", "--only", "cifar100-cnn", "--data", str(own_folders), "--out", str(tmp_path / "o")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "cifar-100-binary.tar.gz" in result.output
    result = CliRunner().invoke(main, ["--size", "quick", "--only", "cifar100-cnn", "--out", str(tmp_path / "o")])
    assert result.exit_code == 2
    assert "digits-cnn" in result.output


def test_sizes():
    for training in (entry.training for entry in SIZES["full"]):
        assert (training.epochs, training.batch_size, training.bn_momentum) == (100, 512, 0.01)
    assert all(entry.alphas == (0.1, 0.01, 0.001, 0.0001) for entry in SIZES["full"] + SIZES["cpu"])
    assert len({entry.training.fingerprint() for size in SIZES.values() for entry in size}) == 8
