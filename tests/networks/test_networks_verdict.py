import math

import pytest

pytest.importorskip("torch.optim")

from finitesum.papers.networks.grid import GridError, Row, best_alphas, final_rows, read_rows, write_rows
from finitesum.papers.networks.settings import Grid, Training
from finitesum.papers.networks.verdict import Claim, Finding, Results, Statement, claims, find, judge


def row(method, alpha, seed, loss, accuracy, epoch=2):
    return Row("f", method, alpha, seed, epoch, loss, loss, accuracy, 1.0, "cpu", "2")


def results(rows, name="mnist", n_test=1000):
    seeds = tuple(sorted({r.seed for r in rows}))
    return Results(Grid(Training(name, epochs=2), seeds=seeds), rows, n_test)


LOSS = Claim("paper", "adahb", "adam", "loss", "train_loss")
ACCURACY = Claim("paper", "adahb", "adam", "accuracy", "test_accuracy")


def test_rows_survive_the_file_to_the_bit(tmp_path):
    rows = [row("adahb", 0.1, 0, 1 / 3, 0.9), row("a,b", 1e-4, 1, math.nan, 0.1)]
    file = tmp_path / "rows.csv"
    write_rows(file, rows)
    back = read_rows(file)
    assert back[0] == rows[0]
    assert math.isnan(back[1].train_loss)
    assert back[1][:5] == rows[1][:5]
    assert read_rows(tmp_path / "absent.csv") == []


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", ",".join(Row._fields) + "\nf,adam,0.1,0\n"])
def test_a_damaged_file_of_rows_is_named(tmp_path, text):
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(GridError, match=r"rows\.csv"):
        read_rows(file)


def test_the_last_epoch_counts():
    rows = [row("adam", 0.1, 0, 0.5, 0.9, epoch=2), row("adam", 0.1, 0, 0.9, 0.99, epoch=1)]
    assert final_rows(rows) == {("adam", 0.1, 0): rows[0]}


def test_the_best_alpha_is_chosen_for_each_repeat():
    rows = [
        row("adam", 0.1, 0, 0.1, 0.90),
        row("adam", 0.01, 0, 0.2, 0.95),
        row("adam", 0.1, 1, 0.1, 0.97),
        row("adam", 0.01, 1, 0.05, 0.96),
    ]
    assert best_alphas(rows) == {("adam", 0): 0.01, ("adam", 1): 0.1}
    assert best_alphas(rows, "train_loss") == {("adam", 0): 0.1, ("adam", 1): 0.01}


def test_equal_accuracies_are_told_apart_by_the_loss():
    rows = [row("adam", 0.1, 0, 0.2, 0.9), row("adam", 0.01, 0, 0.1, 0.9), row("adam", 0.001, 0, math.nan, 0.9)]
    assert best_alphas(rows) == {("adam", 0): 0.01}


def test_a_loss_that_is_no_number_is_the_worst():
    rows = [row("adam", 0.1, 0, math.nan, 0.99), row("adam", 0.01, 0, 9.0, 0.1)]
    assert best_alphas(rows, "train_loss") == {("adam", 0): 0.01}


@pytest.mark.parametrize(
    ("mine", "theirs", "holds", "n_wins"),
    [
        ((0.1, 0.2), (0.2, 0.3), True, 2),
        ((0.2, 0.3), (0.1, 0.2), False, 0),
        ((0.1, 0.3), (0.2, 0.2), None, 1),
        ((0.1, 0.1), (0.1, 0.1), False, 0),  # "lower" is meant
        ((0.1, 0.1), (math.nan, math.inf), True, 2),
        ((math.nan, 0.1), (0.2, 0.2), None, 1),
    ],
)
def test_a_loss_claim(mine, theirs, holds, n_wins):
    rows = [row("adahb", 0.01, seed, loss, 0.5) for seed, loss in enumerate(mine)]
    rows += [row("adam", 0.01, seed, loss, 0.5) for seed, loss in enumerate(theirs)]
    finding = find(LOSS, results(rows))
    assert (finding.holds, finding.n_wins, finding.n_seeds) == (holds, n_wins, 2)


@pytest.mark.parametrize(
    ("mine", "theirs", "holds"), [(0.95, 0.95, True), (0.95, 0.94, True), (0.949, 0.951, None), (0.90, 0.95, False)]
)
def test_an_accuracy_claim_knows_the_noise_of_a_finite_test_set(mine, theirs, holds):
    rows = [row("adahb", 0.01, 0, 0.5, mine), row("adam", 0.01, 0, 0.5, theirs)]
    assert find(ACCURACY, results(rows)).holds is holds


def test_each_method_has_its_best_alpha():
    rows = [row("adahb", 0.1, 0, 9.0, 0.1), row("adahb", 0.01, 0, 0.1, 0.9), row("adam", 0.001, 0, 0.2, 0.9)]
    finding = find(LOSS, results(rows))
    assert (finding.mine, finding.theirs) == (0.1, 0.2)


def test_a_claim_about_a_method_that_was_not_run_is_left_out():
    rows = [row("adahb", 0.1, 0, 0.1, 0.9), row("adam", 0.1, 0, 0.2, 0.9)]
    statements = judge([results(rows)])
    assert {s.claim.theirs for s in statements} == {"adam"}
    assert len(statements) == 3
    assert judge([results(rows[:1])]) == []


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ((True, True), "holds"),
        ((False, False), "does not hold"),
        ((None, None), "undecided"),
        ((True, False), "holds only for a (not for b)"),
        ((True, None), "holds only for a (undecided for b)"),
        ((False, None), "does not hold for a, undecided for b"),
    ],
)
def test_outcomes_over_several_sets_of_images(verdicts, outcome):
    findings = tuple(Finding(name, v, 0.1, 0.2, 1, 1) for name, v in zip("ab", verdicts, strict=True))
    assert Statement(LOSS, findings).outcome == outcome


def test_all_claims_are_there():
    topics = [claim.topic for claim in claims()]
    assert {topic: topics.count(topic) for topic in topics} == {"paper": 15, "schedule": 2, "control": 10}
    assert claims()[0].sentence == "AdaHB reaches a lower training loss than Adam"
