import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from finitesum.papers.networks import training
from finitesum.papers.networks.settings import METHODS, Training
from finitesum.papers.networks.training import Run, images_for, train
from finitesum.running.checkpoint import CheckpointError

TRAINING = Training("made", epochs=3, batch_size=16, bn_momentum=0.1)
CPU = torch.device("cpu")


class Recorder:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.n_calls = function, 0

    def __call__(self, *args):
        self.n_calls += 1
        return self.function(*args)


def figures(rows):
    return [row._replace(seconds=0.0) for row in rows]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(images, method):
    run = Run(replace(TRAINING, epochs=6), method, 0.1 if "sgd" in method or method == "hb" else 0.01, 0)
    rows = list(train(run, images, device=CPU))
    assert [row.epoch for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[-1].train_loss < 0.75 * rows[0].train_loss
    assert rows[-1].test_accuracy > 0.8
    assert all(row.seconds > 0 for row in rows)


def test_a_run_is_a_function_of_its_seed(images):
    run = Run(TRAINING, "adahb", 0.01, 3)
    torch.manual_seed(1)
    first = figures(train(run, images, device=CPU))
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    assert figures(train(run, images, device=CPU)) == first
    assert torch.equal(torch.random.get_rng_state(), before)  # the caller's randomness is left alone
    assert figures(train(replace(run, seed=4), images, device=CPU)) != first


def test_runs_of_one_seed_share_their_start_and_their_batches(images):
    a, b = (next(train(Run(TRAINING, method, 0.0, 0), images, device=CPU)) for method in ("sgd", "adam"))
    assert a.train_loss == b.train_loss


@pytest.mark.parametrize("method", ["adahb", "hb", "adam", "sgd-momentum/sqrt"])
@pytest.mark.parametrize("epoch", [1, 2])
def test_a_resumed_run_gives_the_same_numbers(images, tmp_path, monkeypatch, method, epoch):
    run = Run(TRAINING, method, 0.01, 0)
    whole = figures(train(run, images, device=CPU))
    file = tmp_path / "run.pt"
    begun = list(islice(train(run, images, device=CPU, checkpoint=file), epoch))
    monkeypatch.setattr(training, "_start", started := Recorder(training._start))
    monkeypatch.setattr(training, "_epoch", trained := Recorder(training._epoch))
    rows = list(train(run, images, device=CPU, checkpoint=file))
    assert rows[:epoch] == begun
    assert figures(rows) == whole
    assert (started.n_calls, trained.n_calls) == (1, 3 - epoch)


def test_checkpoints_are_spaced(images, tmp_path):
    file = tmp_path / "run.pt"
    run = Run(TRAINING, "sgd", 0.01, 0)
    list(islice(train(run, images, device=CPU, checkpoint=file, checkpoint_seconds=1e6), 2))
    assert len(torch.load(file, weights_only=True)["rows"]) == 1


def test_a_checkpoint_of_another_run_is_refused(images, tmp_path):
    file = tmp_path / "run.pt"
    run = Run(TRAINING, "sgd", 0.01, 0)
    list(train(run, images, device=CPU, checkpoint=file))
    with pytest.raises(CheckpointError, match="alpha, seed"):
        list(train(replace(run, alpha=0.1, seed=1), images, device=CPU, checkpoint=file))
    with pytest.raises(CheckpointError, match="training"):
        list(train(replace(run, training=replace(TRAINING, epochs=4)), images, device=CPU, checkpoint=file))


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04 nor an archive"])
def test_a_damaged_checkpoint_is_named(images, tmp_path, content):
    file = tmp_path / "run.pt"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"run\.pt"):
        list(train(Run(TRAINING, "sgd", 0.01, 0), images, device=CPU, checkpoint=file))


def test_a_run_that_diverges_ends_early_with_all_its_rows(images, monkeypatch):
    monkeypatch.setattr(training, "_epoch", trained := Recorder(training._epoch))
    rows = list(train(Run(TRAINING, "sgd", 1e30, 0), images, device=CPU))
    assert [row.epoch for row in rows] == [1, 2, 3]
    assert trained.n_calls < 3
    assert all(math.isnan(row.train_loss) for row in rows[trained.n_calls :])


def test_one_image_alone_joins_the_batch_before(images):
    rows = list(train(Run(replace(TRAINING, epochs=1), "adahb", 0.01, 0), images.first(33, None), device=CPU))
    assert math.isfinite(rows[0].train_loss)


def test_the_training_loss_is_the_mean_over_the_batches(images, monkeypatch):
    losses = []

    def recording(trainee, batch, labels, step=training._step):
        losses.append(step(trainee, batch, labels))
        return losses[-1]

    monkeypatch.setattr(training, "_step", recording)
    row = next(train(Run(replace(TRAINING, epochs=1), "adam", 0.01, 0), images, device=CPU))
    assert len(losses) == 5
    assert row.train_loss == pytest.approx(np.mean([float(loss) for loss in losses]), rel=1e-6)


def test_adahb_counts_epochs_or_steps(images):
    epochs = training._start(Run(TRAINING, "adahb", 0.01, 0), images, CPU).optimizer
    steps = training._start(Run(TRAINING, "adahb-step", 0.01, 0), images, CPU).optimizer
    assert epochs.param_groups[0]["steps_per_epoch"] == 5
    assert steps.param_groups[0]["steps_per_epoch"] == 1
    assert epochs.param_groups[0]["gamma"] == 0.1
    assert epochs.param_groups[0]["delta"] == 1e-8


def test_the_control_divides_alpha_by_the_root_of_the_epoch():
    assert METHODS["adam"].alpha_in(4, 0.1) == 0.1
    assert METHODS["adam/sqrt"].alpha_in(1, 0.1) == 0.1
    assert METHODS["adam/sqrt"].alpha_in(4, 0.1) == pytest.approx(0.05)


def test_the_residual_network_gets_centred_images_and_trains(images):
    residual = Training("made", model="resnet20", epochs=1, batch_size=40, n_train=40, n_test=20, bn_momentum=0.1)
    used = images_for(residual, images)
    np.testing.assert_allclose(used.train_images.mean(axis=0), 0.0, atol=1e-6)
    rows = list(train(Run(residual, "adahb", 0.01, 0), used, device=CPU))
    assert math.isfinite(rows[0].train_loss)
