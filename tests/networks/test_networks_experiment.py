import csv
import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from click.testing import CliRunner

from finitesum.papers import experiment as registry
from finitesum.papers.experiment import Context
from finitesum.papers.networks import experiment
from finitesum.papers.networks.__main__ import main
from finitesum.papers.networks.claims import Row
from finitesum.papers.networks.experiment import run
from finitesum.papers.networks.settings import SIZES, Grid, Training

DIGITS = Training("digits", epochs=2, batch_size=32, n_train=200, n_test=100, bn_momentum=0.1)
SMALL = Grid(DIGITS, methods=("adahb", "adam", "adam/sqrt"), alphas=(0.01, 0.001), seeds=(0, 1))
MADE = Grid(Training("made", epochs=2, batch_size=16), methods=("adahb", "sgd"), alphas=(0.1, 0.01), seeds=(0,))


@pytest.fixture
def made(images, monkeypatch):
    """The small images under the name "made"; experiments find them."""
    monkeypatch.setattr(experiment, "load_images", lambda name, data_dir: images)
    return images


@pytest.fixture
def context(tmp_path):
    return Context("quick", tmp_path)


def rows_of(outcome, name="made-cnn"):
    (table,) = (table for table in outcome.tables if table.name == name)
    return [Row._make(row)._replace(seconds=0.0) for row in table.rows]


def test_figures_tables_and_claims(context):
    outcome = run(context, [SMALL])
    assert [drawing.name for drawing in outcome.drawings] == ["digits-cnn", "digits-cnn-control"]
    above, below = (drawing.figure.axes[0] for drawing in outcome.drawings)
    assert [line.get_label() for line in above.get_lines()] == ["AdaHB", "Adam"]
    assert [line.get_label() for line in below.get_lines()] == ["AdaHB", "Adam / √epoch"]
    table, rows = outcome.tables
    assert [line[:2] for line in table.rows] == [["digits-cnn", m] for m in ("AdaHB", "Adam", "Adam / √epoch")]
    assert "*" in table.rows[0][2]  # an end of the grid
    assert len(rows.rows) == len(SMALL.methods) * len(SMALL.alphas) * len(SMALL.seeds) * 2
    assert not rows.on_page
    assert len(outcome.verdicts) == 3 + 2
    assert list(outcome.values) == ["final training loss, AdaHB, digits-cnn"]
    assert "200 training images, 100 test images" in outcome.notes[0]
    assert not any((context.folder / "checkpoints").iterdir())


def test_an_interrupted_grid_continues_in_the_middle_of_a_run(made, tmp_path, monkeypatch):
    whole = run(Context("quick", tmp_path / "whole"), [MADE])
    monkeypatch.setattr(experiment, "CHECKPOINT_SECONDS", 0.0)
    cut = Context("quick", tmp_path / "cut")
    calls = []

    def interrupted(started, *args, train=experiment.train, **options):
        calls.append(started)
        for row in train(started, *args, **options):
            yield row
            if len(calls) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(cut, [MADE])
    assert len(list((cut.folder / "units").iterdir())) == 2
    assert len(list((cut.folder / "checkpoints").iterdir())) == 1
    resumed = run(cut, [MADE])
    assert len(calls) == 3 + 2
    assert rows_of(resumed) == rows_of(whole)
    monkeypatch.setattr(experiment, "train", None)
    assert rows_of(run(cut, [replace(MADE, methods=("sgd",))])) == rows_of(whole)[4:]


def test_a_run_that_is_out_of_time_goes_on_later_and_counts_what_is_whole(made, tmp_path, monkeypatch):
    context = Context("quick", tmp_path / "parts")
    nothing = run(context, [MADE], seconds=0.0)
    assert not nothing.drawings
    assert not nothing.verdicts
    assert "0 of 4 runs are done" in nothing.notes[0]
    clock = iter(range(1000))
    monkeypatch.setattr(registry.time, "monotonic", lambda: float(next(clock)))
    part = run(context, [MADE], seconds=10.0)
    n_done = len(list((context.folder / "units").iterdir()))
    assert 0 < n_done < 4
    assert {row.method for row in rows_of(part)} <= {"adahb"}  # with all of its alphas, or not at all
    assert f"{n_done} of 4 runs are done" in part.notes[0]
    monkeypatch.undo()
    monkeypatch.setattr(experiment, "load_images", lambda name, data_dir: made)
    assert rows_of(run(context, [MADE])) == rows_of(run(Context("quick", tmp_path / "whole"), [MADE]))


def test_another_training_is_another_unit(made, context):
    one = replace(MADE, methods=("sgd",), alphas=(0.1,))
    longer = replace(one, training=replace(MADE.training, epochs=3))
    assert [len(rows_of(run(context, [grid]))) for grid in (one, longer, one)] == [2, 3, 2]


def test_progress_names_run_and_epoch(made, tmp_path, capsys):
    run(Context("quick", tmp_path, None, 2, "adahb/networks"), [replace(MADE, methods=("sgd",), alphas=(0.1,))])
    out, err = capsys.readouterr()
    assert not out
    assert "adahb/networks: 0 of 1 runs; made-cnn-sgd-0.1-0: epoch 2 of 2, loss" in err


def test_absent_images_are_left_out_with_advice(own_folders, tmp_path):
    tiny = replace(SMALL, methods=("adahb",), alphas=(0.01,), seeds=(0,))
    absent = Grid(Training("cifar10"))
    outcome = run(Context("quick", tmp_path, own_folders), [absent, tiny])
    assert "www.cs.toronto.edu" in outcome.absent["cifar10-cnn"]
    assert len(outcome.drawings) == 1
    alone = run(Context("quick", tmp_path, own_folders), [absent])
    assert list(alone.absent) == ["cifar10-cnn"]
    assert not alone.drawings


def test_command(tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", (replace(SMALL, alphas=(0.01,), seeds=(0,)),))
    arguments = ["--size", "quick", "--out", str(tmp_path), "--method", "adahb", "--method", "adam", "-q"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "AdaHB reaches a lower training loss than Adam (alpha by training loss)" in result.output
    page = (tmp_path / "reproduce.html").read_text()
    assert "python -m finitesum.papers.networks --size quick --method adahb --method adam" in page
    folder = tmp_path / "adahb-networks"
    assert (folder / "digits-cnn.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "digits-cnn.csv").open(newline="") as file:
        assert [row["method"] for row in csv.DictReader(file)] == ["adahb"] * 2 + ["adam"] * 2
    assert len(json.loads((folder / "result.json").read_text())["verdicts"]) == 3


def test_command_without_data(own_folders, tmp_path):
    arguments = ["--size", "full", "--only", "cifar100-cnn", "--data", str(own_folders), "--out", str(tmp_path / "o")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "cifar-100-binary.tar.gz" in result.output
    result = CliRunner().invoke(main, ["--size", "quick", "--only", "cifar100-cnn", "--out", str(tmp_path / "o")])
    assert result.exit_code == 2
    assert "digits-cnn" in result.output


def test_sizes():
    for training in (entry.training for entry in SIZES["large"]):
        assert (training.epochs, training.batch_size, training.n_train) == (20, 512, None)
        assert training.bn_momentum == (0.01 if training.data == "mnist" else 0.1)  # some hundred steps in all
    assert all(len(entry.seeds) == 3 for entry in SIZES["large"])
    for training in (entry.training for entry in SIZES["full"]):
        assert (training.epochs, training.batch_size, training.bn_momentum) == (100, 512, 0.01)
    assert all(entry.alphas == (0.1, 0.01, 0.001, 0.0001) for size in ("full", "large", "cpu") for entry in SIZES[size])
    assert len({entry.training.fingerprint() for size in SIZES.values() for entry in size}) == 11
