import math

import numpy as np
import pytest

pytest.importorskip("torch")

from finitesum.papers.networks.claims import Claim, Results, Row, band, best_rows, claims, find, interval, verdicts
from finitesum.papers.networks.settings import Grid, Training


def row(method, alpha, seed, loss, accuracy, epoch=2):
    return Row("f", method, alpha, seed, epoch, loss, loss, accuracy, 1.0, "cpu", "2")


def best_alphas(rows, *by):
    return {key: best.alpha for key, best in best_rows(rows, *by).items()}


def results(rows, name="mnist", n_test=1000):
    seeds = tuple(sorted({r.seed for r in rows}))
    return Results(Grid(Training(name, epochs=2), seeds=seeds), rows, n_test)


LOSS = Claim("adam", "loss", "train_loss")
ACCURACY = Claim("adam", "accuracy", "test_accuracy")


def test_the_last_epoch_counts():
    rows = [row("adam", 0.1, 0, 0.5, 0.9, epoch=2), row("adam", 0.1, 0, 0.9, 0.99, epoch=1)]
    assert best_rows(rows) == {("adam", 0): rows[0]}


def test_the_best_alpha_is_chosen_for_each_repeat():
    rows = [
        row("adam", 0.1, 0, 0.1, 0.90),
        row("adam", 0.01, 0, 0.2, 0.95),
        row("adam", 0.1, 1, 0.1, 0.97),
        row("adam", 0.01, 1, 0.05, 0.96),
    ]
    assert best_alphas(rows) == {("adam", 0): 0.01, ("adam", 1): 0.1}
    assert best_alphas(rows, "train_loss") == {("adam", 0): 0.1, ("adam", 1): 0.01}


def test_of_equal_accuracies_the_lower_loss_wins():
    rows = [row("adam", 0.1, 0, 0.2, 0.9), row("adam", 0.01, 0, 0.1, 0.9), row("adam", 0.001, 0, math.nan, 0.9)]
    assert best_alphas(rows) == {("adam", 0): 0.01}


def test_a_loss_that_is_no_number_is_the_worst():
    rows = [row("adam", 0.1, 0, math.nan, 0.99), row("adam", 0.01, 0, 9.0, 0.1)]
    assert best_alphas(rows, "train_loss") == {("adam", 0): 0.01}


@pytest.mark.parametrize(
    ("mine", "theirs", "holds", "n_wins"),
    [
        ((0.1, 0.11, 0.105), (0.2, 0.22, 0.21), True, 3),
        ((0.2, 0.22, 0.21), (0.1, 0.11, 0.105), False, 0),
        ((0.1, 0.1, 0.1), (0.11, 0.5, 0.1001), None, 3),  # lower each time, but not by an interval
        ((0.1, 0.3, 0.2), (0.2, 0.2, 0.2), None, 1),
        ((0.1, 0.1), (0.1, 0.1), None, 0),  # a tie
        ((0.1,), (0.5,), None, 1),  # one seed decides nothing
        ((0.1, 0.1), (math.nan, math.inf), True, 2),
        ((math.nan, 0.1), (0.2, 0.2), None, 1),
    ],
)
def test_a_loss_claim_rests_on_the_interval_over_the_seeds(mine, theirs, holds, n_wins):
    rows = [row("adahb", 0.01, seed, loss, 0.5) for seed, loss in enumerate(mine)]
    rows += [row("adam", 0.01, seed, loss, 0.5) for seed, loss in enumerate(theirs)]
    finding = find(LOSS, results(rows))
    assert finding.holds is holds
    assert finding.evidence.endswith(f", {n_wins} of {len(mine)} repeats")


@pytest.mark.parametrize(
    ("mine", "theirs", "holds"),
    [
        ((0.95, 0.95, 0.95), (0.95, 0.95, 0.95), None),  # a tie
        ((0.95, 0.95, 0.95), (0.94, 0.94, 0.94), None),  # within what 1000 images tell
        ((0.95, 0.95, 0.95), (0.90, 0.90, 0.90), True),
        ((0.90, 0.90, 0.90), (0.95, 0.95, 0.95), False),
        ((0.95, 0.90, 0.98), (0.90, 0.90, 0.90), None),  # seeds differ
        ((0.95,), (0.5,), None),
    ],
)
def test_an_accuracy_claim_knows_the_noise_of_a_finite_test_set(mine, theirs, holds):
    rows = [row("adahb", 0.01, seed, 0.5, accuracy) for seed, accuracy in enumerate(mine)]
    rows += [row("adam", 0.01, seed, 0.5, accuracy) for seed, accuracy in enumerate(theirs)]
    assert find(ACCURACY, results(rows)).holds is holds


def test_the_interval_is_students():
    differences = np.array([0.1, 0.3, 0.2])
    low, high = interval(differences, 0.0)
    assert ((low + high) / 2, (high - low) / 2) == pytest.approx((0.2, 4.302653 * 0.1 / math.sqrt(3)), rel=1e-6)
    wider = interval(differences, 0.5)
    assert (wider[1] - wider[0]) / 2 == pytest.approx(math.hypot((high - low) / 2, 0.98), rel=1e-9)


def test_each_method_has_its_best_alpha():
    rows = [row("adahb", 0.1, 0, 9.0, 0.1), row("adahb", 0.01, 0, 0.1, 0.9), row("adam", 0.001, 0, 0.2, 0.9)]
    finding = find(LOSS, results(rows))
    assert finding == ("mnist-cnn", None, "0.1 against 0.2, 1 of 1 repeats")


def test_a_claim_about_a_method_that_was_not_run_is_left_out():
    rows = [row("adahb", 0.1, 0, 0.1, 0.9), row("adam", 0.1, 0, 0.2, 0.9)]
    found = verdicts([results(rows)])
    assert len(found) == 3
    assert all("Adam (" in verdict.claim and verdict.of_paper and verdict.noisy for verdict in found)
    assert verdicts([results(rows[:1])]) == []


def test_all_claims_are_there():
    named = claims()
    assert len(named) == len({claim.sentence for claim in named}) == 27
    assert sum(claim.of_paper for claim in named) == 15
    assert named[0].sentence == "AdaHB reaches a lower training loss than Adam (alpha by final test accuracy)"


def test_a_band_goes_over_the_repeats():
    rows = [
        row("adahb", alpha, seed, alpha + seed, 1 - alpha, epoch)
        for alpha in (0.1, 0.2)
        for seed in (0, 1)
        for epoch in (1, 2)
    ]
    epochs, mean, low, high = band(rows, "adahb", "train_loss")
    assert epochs.tolist() == [1.0, 2.0]
    assert (low[0], mean[0], high[0]) == pytest.approx((0.1, 0.6, 1.1))
    assert band(rows, "adam", "train_loss") is None
