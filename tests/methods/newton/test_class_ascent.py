"""Dual coordinate ascent for several classes: the start of multinomial-lbfgs on sparse rows."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from oracles import class_ascent as oracle
from oracles.outputs import SumOfOutputs
from scipy.special import wrightomega

from finitesum import Problem, minimize
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import class_costs
from finitesum.methods.newton import class_ascent
from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS


@pytest.fixture(autouse=True)
def epochs_on_small_data(monkeypatch):
    monkeypatch.setattr(class_costs, "WORTH", 1)
    monkeypatch.setattr(class_costs, "MOST_PASSES", math.inf)


def make(*, intercept=True, weighted=False, alpha=0.02, n=60, d=8, K=3, scale=1.0):
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=0.4, rng=rng, format="csr") * scale
    X.data[:] = np.round(X.data * 5.0)
    y = (X @ rng.standard_normal((d, K)) + rng.standard_normal((n, K))).argmax(axis=1)
    weights = rng.integers(0, 4, n).astype(float) if weighted else None
    offsets = rng.standard_normal((n, K)) if weighted else None
    settings = {"fit_intercept": intercept, "sample_weight": weights, "offset": offsets}
    problem = Problem.linear(X, y, loss="multinomial", alpha=alpha, **settings)
    explicit = SumOfOutputs(
        X.toarray(), y, "multinomial", K, l1=0.0, l2=alpha, intercept=intercept, weights=weights, offsets=offsets,
        batch_size=1,
    )  # fmt: skip
    return problem, explicit


def test_omega_is_wrights_function():
    arguments = np.concatenate([np.linspace(-50.0, 50.0, 4001), np.logspace(2, 7, 50)])
    found = np.array([class_ascent._omega(a) for a in arguments])
    np.testing.assert_allclose(found, wrightomega(arguments), rtol=1e-13)


@pytest.mark.parametrize("coupling", [0.0, 1e-8, 0.3, 7.0, 1e3, 1e6])
def test_a_visit_solves_the_rows_equation(coupling):
    rng = np.random.default_rng(1)
    for old in (np.array([0.0, 1.0, 0.0, 0.0]), rng.dirichlet(np.ones(4)), rng.dirichlet(0.05 * np.ones(4))):
        for spread in (0.1, 10.0, 300.0):
            scores, new = spread * rng.standard_normal(4), np.empty(4)
            class_ascent._solve(scores.copy(), coupling, old, new)
            np.testing.assert_allclose(new, oracle.visited(scores, coupling, old), rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("setting", [{}, {"intercept": False}, {"weighted": True}], ids=str)
def test_epochs_equal_their_oracle(setting):
    problem, F = make(**setting)
    memory, w = class_ascent.first_ascent(problem, np.zeros(problem.dim)), np.zeros(problem.dim)
    table, P = np.zeros((3, problem.dim // 3)), memory.chances
    hold = 30.0 * 0.02 / (F.p @ (F.Z[:, :8] ** 2).sum(axis=1))
    for k in range(4):
        if problem.has_intercept:
            table[:, -1] += F.p @ (np.eye(3)[F.y] - P) / hold
        order = np.random.default_rng(k).permutation(problem.n_rows)
        table, P, total = oracle.epoch(F, table, P, order, hold)
        w, memory = class_ascent.next_epoch(problem, w, memory, 0.0)
        np.testing.assert_allclose(w.reshape(3, -1), table, atol=1e-8)
        np.testing.assert_allclose(memory.chances, P, atol=1e-8)
        assert memory.gaps[-1] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("setting", [{}, {"weighted": True}, {"alpha": 1e-3, "scale": 10.0}], ids=str)
def test_a_run_begins_with_epochs_and_ends_at_the_minimum(setting, monkeypatch):
    problem, _ = make(**setting)
    result = minimize(problem, method="multinomial-lbfgs", tol=1e-9)
    state, n_epochs = MultinomialLBFGS().init(problem, np.zeros(problem.dim)), 0
    assert math.isnan(MultinomialLBFGS().estimate(problem, state))
    while state.ascent.chances.size:
        assert MultinomialLBFGS().exact_measures(problem, state) is None
        state, n_epochs = MultinomialLBFGS().run_pass(problem, state, np.arange(60)), n_epochs + 1
    assert n_epochs >= 6
    assert state.n_gradients == 60 * (n_epochs + 1)
    monkeypatch.setattr(class_costs, "WORTH", 10**9)
    without = minimize(problem, method="multinomial-lbfgs", tol=1e-9)
    assert result.success
    assert without.success
    assert np.abs(result.x - without.x).max() < 1e-6 * np.abs(result.x).max()


def test_epochs_end_where_the_gradient_is_at_tol():
    problem, _ = make(intercept=False, alpha=1.0, d=40)
    for tol in (1e-2, 1e-4, 1e-6):
        w, memory = np.zeros(problem.dim), class_ascent.first_ascent(problem, np.zeros(problem.dim))
        while memory.chances.size:
            before = w
            w, memory = class_ascent.next_epoch(problem, w, memory, tol)
        sizes = [evaluate(problem, point).optimality for point in (before, w)]
        assert sizes[1] <= tol < 30.0 * sizes[0]  # neither too early nor much too late


def test_runs_go_on_within_the_epochs_to_the_same_bits(tmp_path):
    problem, _ = make()
    whole = minimize(problem, method="multinomial-lbfgs", tol=1e-9)
    for after in (1, 4, 9):
        file = tmp_path / f"{after}.npz"
        minimize(problem, method="multinomial-lbfgs", tol=1e-9, max_iter=after, checkpoint=file)
        resumed = minimize(problem, method="multinomial-lbfgs", tol=1e-9, checkpoint=file, resume=True)
        assert resumed.x.tobytes() == whole.x.tobytes()


def test_there_are_no_epochs_where_they_cannot_be():
    problem, _ = make()
    dense = Problem.linear(np.eye(4), [0, 1, 2, 0], loss="multinomial", alpha=0.1)
    free = Problem.linear(sp.csr_array(np.eye(4)), [0, 1, 2, 0], loss="multinomial")
    for other in (dense, free):
        assert class_ascent.first_ascent(other, np.zeros(other.dim)).chances.size == 0
    assert class_ascent.first_ascent(problem, np.ones(problem.dim)).chances.size == 0  # no dual variables belong to it
    assert class_ascent.first_ascent(problem, np.zeros(problem.dim)).chances.shape == (60, 3)
