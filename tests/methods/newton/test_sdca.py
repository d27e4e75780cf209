"""SDCA: its oracle epoch by epoch, where it is begun, problems on which it must be left out."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import make_pair
from oracles import dual_ascent as oracle

from finitesum import Problem, minimize
from finitesum.core.jit import _kinds_of, as_python, kernel
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import Logistic
from finitesum.methods.newton import sdca
from finitesum.methods.newton.newton_cg import NewtonCG
from finitesum.methods.newton.sdca import _solved, first_epoch, next_epoch


@kernel
def root_of(linear_sum, i, coupling, prediction, slope, v, curvature):
    return _solved(linear_sum, i, coupling, prediction, slope, v, curvature)


def epochs(problem, seed):
    """Yield the iterate and the change after each epoch from 0."""
    x, memory = np.zeros(problem.dim), first_epoch(problem)
    while True:
        x, memory = next_epoch(problem, x, memory, seed)
        yield x, memory.change


def draws(seed):
    """What the orders of an epoch's visits are made of: Park and Miller's numbers in [0, 1)."""

    def numbers(x):
        while True:
            x = x * 48271 % (2**31 - 1)
            yield x / (2**31 - 1)

    for k in itertools.count():
        yield numbers(sdca.first_draw(seed, k))


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize("loss", ["logistic", "squared-hinge", "huber", "smoothed-hinge", "squared-epsilon-insensitive"])
@pytest.mark.parametrize(
    "more",
    [{}, {"intercept": True, "weighted": True}, {"form": "csr64", "weighted": True}, {"form": "dense", "intercept": True}],
    ids=["", "b", "64", "dense"],
)
def test_each_epoch_is_the_oracle_s(loss, more, monkeypatch):
    monkeypatch.setattr(sdca, "_are_few", lambda problem, tol: True)
    intercept = more.get("intercept", False)
    problem, F = make_pair(**{"form": "csr32", **more}, loss=loss, n=150, alpha=0.5)
    assert first_epoch(problem).slopes.size > 0
    for (x, change), _, (expected, expected_change) in zip(
        epochs(problem, 3),
        range(12),
        oracle.epochs(F, draws(3), intercept, alike=np.inf if more.get("form") == "dense" else 8),
        strict=False,
    ):
        np.testing.assert_allclose(x, expected, rtol=1e-7, atol=1e-9)
        assert change == pytest.approx(expected_change, rel=1e-6, abs=1e-10)
    at_start = evaluate(problem, np.zeros(problem.dim)).optimality
    assert evaluate(problem, x).optimality < (0.1 if intercept else 0.01) * at_start


def test_the_squared_loss_has_no_epochs():
    X = sp.random_array((40, 80), density=0.2, format="csr", rng=np.random.default_rng(0))
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    assert first_epoch(Problem.linear(X, y, loss="squared", alpha=0.1)).slopes.size == 0
    assert first_epoch(Problem.linear(X, y, alpha=0.1)).slopes.size > 0


def text_like(n=3000, d=8000, seed=0, *, intercept=False, alpha_n=1.0, repeats=1, skew=4, **more):
    """Rows of length 1 with frequent and rare columns."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.random((n, 30)) ** skew).astype(int), d - 1)
    X = sp.csr_matrix((rng.random(n * 30) + 0.1, columns.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    X = sp.csr_matrix(sp.diags(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    y = np.where(
        X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.1, 1.0, 0.0 if more.get("loss") == "poisson" else -1.0
    )
    if repeats > 1:
        X, y = sp.csr_matrix(sp.vstack([X[[i]] for i in range(n) for _ in range(repeats)])), np.repeat(y, repeats)
    return Problem.linear(X, y, alpha=alpha_n / X.shape[0], fit_intercept=intercept, **more)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss", ["logistic", *(pytest.param(s, marks=pytest.mark.slow) for s in ("squared-hinge", "smoothed-hinge"))]
)
@pytest.mark.parametrize("alpha_n", [0.5, 8.0])
def test_minima_are_those_that_conjugate_gradients_find(intercept, loss, alpha_n):
    problem = text_like(intercept=intercept, loss=loss, alpha_n=alpha_n)
    by_epochs, without = (
        minimize(problem, method="newton-cg", options={"first_rows": rows}, tol=1e-9, measure_every=0)
        for rows in ("auto", 2000)
    )
    assert by_epochs.success, by_epochs.message
    assert without.success, without.message
    np.testing.assert_allclose(by_epochs.x, without.x, atol=1e-5)
    assert by_epochs.fun == pytest.approx(without.fun, rel=1e-12)


def test_a_target_is_met_by_epochs_alone_in_few_passes():
    problem = text_like(skew=1)
    result = minimize(problem, method="newton-cg", tol=1e-8, measure_every=0)
    assert result.success
    assert result.nit <= 18  # epochs alone: a pass is one of them
    assert result.n_passes <= 20


def embeddings(*, decay=0.7, rows=1500, loss="logistic", alpha_n=10.0):
    """Dense rows with singular values k^-decay."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 800)) * np.arange(1, 801) ** -decay
    X *= np.sqrt(rows) * 5.0 / np.linalg.norm(X)
    return Problem.linear(X, X @ rng.standard_normal(800) > 0.0, loss=loss, alpha=alpha_n / rows, fit_intercept=True)


def test_few_digits_on_dense_rows_are_met_by_epochs_alone():
    result = minimize(embeddings(), method="newton-cg", tol=1e-3, measure_every=0)
    assert result.success
    assert result.n_hessian_passes == 0  # which a preconditioner by rows would have cost
    assert result.n_passes <= 12
    assert evaluate(embeddings(), result.x).optimality <= 1e-3


@pytest.mark.parametrize(
    ("more", "tol"),
    [({"decay": 0.0}, 1e-3), ({}, 1e-9), ({"alpha_n": 0.1}, 1e-3), ({"loss": "squared"}, 1e-3), ({"rows": 800}, 1e-3)],
    ids=["flat", "many digits", "coupled", "quadratic", "small"],
)
def test_on_other_dense_rows_there_are_no_epochs(more, tol):
    assert first_epoch(embeddings(), 1e-3).slopes.size > 0
    assert first_epoch(embeddings(**more), tol).slopes.size == 0


def counts(n, d, seed=0, **more):
    """How often words occur in documents: some are long, some words frequent, and both are so in bursts."""
    rng = np.random.default_rng(seed)
    lengths = np.maximum(rng.lognormal(4.0, 0.9, n).astype(int), 3)
    words = np.minimum((d ** rng.random(lengths.sum())).astype(int), d - 1)
    X = sp.csr_matrix((1.0 + rng.geometric(0.5, words.size), words, np.append(0, lengths.cumsum())), shape=(n, d))
    X.sum_duplicates()
    y = np.sign(X @ rng.standard_normal(d) / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()) + 1e-9)
    return Problem.linear(X, y, **more)


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
@pytest.mark.parametrize("intercept", [False, True])
def test_raw_counts_are_fitted_by_epochs_of_which_most_visits_go_to_rows_that_change(loss, alpha, intercept):
    problem = counts(300, 3000, loss=loss, alpha=alpha, fit_intercept=intercept)
    result = minimize(problem, method="newton-cg", tol=1e-7, measure_every=0)
    assert result.success, result.message
    assert result.n_passes <= 200  # 300 to 1,000 without epochs
    if alpha == 1e-2:
        expected = minimize(problem, method="newton", tol=1e-9)
        assert expected.success
        assert result.fun == pytest.approx(expected.fun, rel=1e-9)


@pytest.mark.parametrize("repeats", [4, 16])
def test_from_blocks_of_equal_rows_a_run_soon_goes_on_by_newton_s_steps(repeats):
    problem = text_like(n=200, repeats=repeats, alpha_n=0.2)
    assert first_epoch(problem).slopes.size > 0
    result = minimize(problem, method="newton-cg", tol=1e-10, measure_every=0)
    assert result.success
    assert result.n_passes <= 150


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared-hinge", "huber", "smoothed-hinge"])
@pytest.mark.parametrize("coupling", [0.1, 4.5, 1e4, 1e9])
def test_a_row_s_equation_is_solved_from_anywhere(loss, coupling):
    problem = Problem.linear(sp.csr_array(np.eye(2)), [0.0, 1.0], loss=loss, alpha=1.0)
    F = make_pair("csr32", loss, n=4)[1]

    def slope_and_curvature(v, target):
        return F.d1(np.array([v]), target)[0], F.d2(np.array([v]), target)[0]

    for i, prediction, slope, start in itertools.product((0, 1), np.linspace(-9, 9, 19), (0.0, 0.3), (-5.0, 0.0, 20.0)):
        target = problem.targets[i]
        # a slope from anywhere, whose curvature is not known, and that at the start
        for old, curvature in (slope * F.d1(np.array([-target]), target)[0], -1.0), slope_and_curvature(start, target):
            v, *found = root_of(problem.view, i, coupling, prediction, old, start, curvature)
            assert found == pytest.approx(slope_and_curvature(v, target), abs=1e-12)
            left = abs(v + coupling * (found[0] - old) - prediction)
            assert left <= 0.101 * abs(v - prediction) + 2e-15 * abs(prediction + coupling * old) + 1e-12


def test_most_visits_evaluate_the_loss_once():
    problem, n_seen = text_like(n=200, d=600), []

    class Counted(Logistic):
        def d1_d2(self, prediction, target):
            n_seen.append(1)
            return super().d1_d2(prediction, target)

    with as_python():
        problem = replace(problem, loss=Counted())
        w, memory, counted = np.zeros(problem.dim), first_epoch(problem), []
        for _ in range(6):
            n_before = len(n_seen)
            w, memory = next_epoch(problem, w, memory, 0)
            counted.append(len(n_seen) - n_before)
    assert counted[0] >= 2 * problem.n_rows  # nothing is known of a row before its first visit
    assert counted[-1] <= 1.2 * problem.n_rows


def test_rows_of_zeros_and_without_weight_change_nothing():
    problem = text_like(n=400)
    rows = problem.rows
    matrix = sp.csr_matrix((rows.values, rows.columns, rows.starts), shape=(400, rows.n_columns)).tolil()
    matrix[5] = 0.0
    matrix = sp.csr_matrix(matrix)
    labels = np.where(np.asarray(problem.targets) > 0, 1.0, -1.0)
    counts = np.arange(400) % 7 > 0
    some = Problem.linear(matrix, labels, alpha=1.0 / 400, sample_weight=counts.astype(float))
    without = Problem.linear(sp.csr_matrix(matrix[counts]), labels[counts], alpha=1.0 / 400)
    results = [minimize(p, method="newton-cg", tol=1e-10, measure_every=0) for p in (some, without)]
    assert all(result.success for result in results)
    np.testing.assert_allclose(results[0].x, results[1].x, atol=1e-7)
    far = [list(zip(epochs(p, 0), range(40), strict=False))[-1][0][0] for p in (some, without)]
    np.testing.assert_allclose(far[0], far[1], atol=1e-4)


@pytest.mark.parametrize(
    "problem",
    [
        text_like(n=200, d=150, skew=1, alpha_n=0.01),
        text_like(n=200, alpha_n=100.0, intercept=True),
        text_like(n=200, loss="poisson"),
        text_like(n=200, l1_ratio=0.5),
        Problem.linear(np.eye(4), [0, 1, 0, 1], alpha=1.0),
        Problem.linear(sp.csr_array(np.eye(4)), [0, 1, 0, 1], alpha=0.0),
        Problem.linear(sp.csr_array((4, 3)), [0, 1, 0, 1], alpha=1.0),
    ],
    ids=["coupled", "intercept", "poisson", "l1", "dense", "no penalty", "no entries"],
)
def test_where_epochs_are_not_worth_it_there_are_none(problem):
    assert first_epoch(problem).slopes.size == 0


@pytest.mark.parametrize(("entries", "tol", "expected"), [(30, 1e-3, True), (30, 1e-9, False), (6, 1e-3, False)])
def test_rows_that_outnumber_columns_have_epochs_to_few_digits_and_with_many_entries(entries, tol, expected):
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(500 * entries), rng.integers(0, 200, 500 * entries), np.arange(0, 501) * entries), (500, 200))
    X.sum_duplicates()
    X.data = np.sqrt(1.0 / np.repeat(np.diff(X.indptr), np.diff(X.indptr)))
    problem = Problem.linear(X, rng.integers(0, 2, 500), alpha=1.0 / 500)
    assert (first_epoch(problem, tol).slopes.size > 0) == expected
    assert first_epoch(Problem.linear(X[:200], np.arange(200) % 2, alpha=1.0 / 500), tol).slopes.size == 200


def test_a_start_from_elsewhere_is_kept():
    problem = text_like()
    near = minimize(problem, method="newton-cg", tol=1e-4, measure_every=0)
    assert 1e-9 < near.optimality <= 1e-4
    method = NewtonCG()
    state = method.run_pass(problem, method.init(problem, near.x, 1e-10), np.arange(problem.n_components))
    assert state.dual.slopes.size == 0
    while state.n_sampled < problem.n_components:
        state = method.run_pass(problem, state, np.arange(problem.n_components))
    assert state.n_gradients <= 12 * problem.n_components  # samples, and no epochs
    assert minimize(problem, near.x, method="newton-cg", tol=1e-9, measure_every=0).success


def test_orders_of_visits_are_spread_over_all_permutations():
    seen = {}
    for seed, k in itertools.product(range(60), range(60)):
        order = np.empty(4, dtype=np.int64)
        sdca._shuffle(order, 4, sdca.first_draw(seed, k))
        assert sorted(order) == [0, 1, 2, 3]
        seen[tuple(order)] = seen.get(tuple(order), 0) + 1
    assert len(seen) == 24
    assert min(seen.values()) >= 100  # of 150
    assert max(seen.values()) <= 200


def test_rows_of_one_length_rest_less_than_those_of_which_few_are_long():
    alike, others = text_like(n=400, d=1200), counts(400, 1200, alpha=1e-3)
    assert first_epoch(alike).likeness == pytest.approx(1.0)
    assert first_epoch(others).likeness < 0.01
    longest = []
    for likeness in 0.0, 1.0:
        x, memory = np.zeros(alike.dim), first_epoch(alike)._replace(likeness=likeness)
        for _ in range(8):
            x, memory = next_epoch(alike, x, memory, 0)
        longest.append(int((memory.rests >= 15).sum()))
    assert longest[1] < 0.5 * longest[0]


@pytest.mark.as_chosen
def test_epochs_are_asked_for_by_the_arguments_that_they_are_made_with(monkeypatch):
    asked, given = [], []
    visit_rows = sdca.visit_rows
    monkeypatch.setattr(sdca, "has_machine_code", lambda kernel, *args: asked.append(_kinds_of(args)) or True)
    monkeypatch.setattr(sdca, "visit_rows", lambda *args: given.append(_kinds_of(args)) or visit_rows(*args))
    X = sp.random_array((60, 200), density=0.1, rng=np.random.default_rng(0), format="csr")
    problem = Problem.linear(X, np.arange(60) % 2, alpha=0.1, fit_intercept=True)
    minimize(problem, method="newton-cg", tol=1e-6)
    assert asked
    assert set(given) == set(asked)
