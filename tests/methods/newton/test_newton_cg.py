"""Newton-CG: its oracle step by step, wide data, its counts."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import make_pair
from oracles import lazy_newton as oracle

from finitesum import Problem, minimize
from finitesum.constraints import L1Ball, L2Ball
from finitesum.evaluation import row_products
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_products import copy_for_products, gram_product, rounded_gram_product
from finitesum.methods.auto import choose
from finitesum.methods.base import require_suited
from finitesum.methods.newton.newton_cg import FEW_PRODUCTS, NewtonCG


def step_of(method, problem, state):
    """Return the state after the next whole step, or the next sample."""
    while True:
        state = method.run_pass(problem, state, np.arange(problem.n_components))
        if not math.isnan(method.estimate(problem, state)):
            return state


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize(
    ("form", "loss", "more"),
    [
        ("dense", "logistic", {}),
        ("csr32", "logistic", {"weighted": True, "intercept": True}),
        ("csr64", "poisson", {"alpha": 0.3}),
        ("dense", "squared", {"weighted": True}),
    ],
)
def test_each_step_is_the_oracle_s(form, loss, more):
    problem, F = make_pair(form, loss, n=120, batch_size=7, **more)
    method = NewtonCG(first_rows=problem.n_rows)
    x0 = 2.0 * np.random.default_rng(1).standard_normal(problem.dim) * (loss != "poisson")
    state = method.init(problem, x0, 1e-10)
    for expected, _ in oracle.newton_cg(F, loss, x0, 9):
        state = step_of(method, problem, state)
        np.testing.assert_allclose(state.x, expected, rtol=1e-6, atol=1e-7)
        assert state.optimality == pytest.approx(F.optimality(state.x), rel=1e-6)
        if state.optimality < 1e-7:  # beyond, single-precision curvatures part the two
            break
    assert state.optimality < 1e-3


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_quadratic_takes_one_step_from_all_rows(is_sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 40)) * (rng.random((6000, 40)) < 0.3) * np.geomspace(0.1, 10.0, 40)
    y = X @ rng.standard_normal(40) + rng.standard_normal(6000)
    problem = Problem.linear(sp.csr_array(X) if is_sparse else X, y, loss="squared", alpha=1e-3, fit_intercept=True)
    result = minimize(problem, method="newton-cg", tol=1e-9, measure_every=0)
    assert result.success
    assert result.state.n_steps == 1
    assert result.state.n_sampled == problem.batched(result.batch_size).n_components
    Z = np.column_stack([X, np.ones(6000)])
    exact = np.linalg.solve(Z.T @ Z / 6000 + 1e-3 * np.diag([1.0] * 40 + [0.0]), Z.T @ y / 6000)
    assert result.x == pytest.approx(exact, abs=1e-5)


def test_solves_wide_sparse_problems_and_is_taken_for_them(monkeypatch):
    monkeypatch.setattr("finitesum.core.threads.NUMBERS_OF_A_THREAD", 10_000)
    X = sp.random_array((3000, 20_000), density=2e-3, rng=np.random.default_rng(0), format="csr")
    signal = X @ np.random.default_rng(1).standard_normal(20_000)
    problem = Problem.linear(X, np.where(signal > 0, 1.0, -1.0), alpha=1.0 / 3000)
    assert choose(problem).method.name == "newton-cg"
    one, two = (minimize(problem, options={"n_threads": k}, tol=1e-10, measure_every=0) for k in (1, 2))
    assert one.success
    assert two.success
    np.testing.assert_allclose(one.x, two.x, atol=1e-6)
    slopes = -problem.targets / (1.0 + np.exp(problem.targets * (X @ one.x)))
    gradient = (X.T @ slopes + one.x) / 3000
    assert np.linalg.norm(gradient) <= 2e-10  # F is 1/3000-strongly convex: within 6e-7 of the minimum


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "huber"])
@pytest.mark.parametrize("more", [{}, {"weighted": True, "intercept": True, "form": "csr32"}])
def test_l1_penalties_are_minimised_to_their_optimality_conditions(seed, loss, more):
    problem, F = make_pair(loss=loss, n=60, d=15, alpha=0.1, l1_ratio=0.6, seed=seed, **more)
    result = minimize(problem, method="newton-cg", tol=1e-11, max_iter=3000)
    assert result.success
    slope = F.gradient(result.x)
    assert np.abs(result.x - F.prox(result.x - slope, 1.0)).max() <= 1e-11
    assert np.count_nonzero(result.x) < problem.dim  # some are exactly 0


def test_with_an_l1_penalty_f_never_rises():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((40, 100)) * np.logspace(0, 3, 100)  # separable, and badly scaled
    problem = Problem.linear(X, np.sign(X[:, 0]), alpha=1e-4, l1_ratio=0.9)
    method = NewtonCG(first_rows=40)
    state = method.init(problem, np.zeros(100), 1e-10)
    values = []
    for _ in range(40):
        state = step_of(method, problem, state)
        values.append(evaluate(problem, state.x).objective)
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(values))
    assert values[-1] < 0.1 * values[0]


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"l1_ratio": 0.5, "alpha": 1e-3}, "coordinate-descent"),
        ({"constraint": L1Ball(1.0)}, "working-set-newton"),
        ({"constraint": L2Ball(1.0)}, "afg"),
    ],
)
def test_penalties_and_sets_on_wide_data_go_to_methods_that_treat_them(more, name):
    X = sp.random_array((100, 30_000), density=1e-3, rng=np.random.default_rng(0), format="csr")
    problem = Problem.linear(X, np.repeat([-1.0, 1.0], 50), **more)
    method = choose(problem).method
    assert method.name == name
    require_suited(method, problem)


@pytest.mark.as_chosen
@pytest.mark.parametrize("offset", [1e5, 1e6])
def test_columns_far_from_0_beside_an_intercept_are_no_end(offset):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 100))
    y = X[:, 0] + rng.standard_normal(60) > 0.0
    problem = Problem.linear(X + offset, y, alpha=1e-6, fit_intercept=True)
    result = minimize(problem, method="newton-cg", tol=1e-6, max_iter=3000)
    assert result.success
    assert result.fun < 1e-4


def test_a_pass_over_small_data_takes_some_products_and_ends_with_the_step():
    problem, _ = make_pair(n=400, d=60, batch_size=1)
    result = minimize(problem, method=NewtonCG(first_rows=400), tol=1e-9, measure_every=0)
    assert result.success
    assert result.nit < 0.7 * result.n_passes
    method = NewtonCG(first_rows=400)
    state = method.run_pass(problem, method.init(problem, np.zeros(problem.dim), 1e-9), np.arange(400))
    for _ in range(8):
        before = state
        state = method.run_pass(problem, state, np.arange(400))
        if state.n_steps > before.n_steps:
            assert state.n_gradients == before.n_gradients + 400  # the gradient at its end alone
            break
        assert state.x is before.x
        assert 1 <= state.cg.n_products - before.cg.n_products <= FEW_PRODUCTS
    else:
        pytest.fail("no step has ended")


def test_products_are_charged_as_passes():
    problem, _ = make_pair(n=60, batch_size=1)
    method = NewtonCG(first_rows=60)
    state = method.run_pass(problem, method.init(problem, np.zeros(problem.dim), 1e-10), np.arange(60))
    assert state.n_gradients == 60
    first = method.run_pass(problem, state, np.arange(60))
    assert first.n_gradients == 60 * 3  # the diagonal, a product
    assert first.x is state.x
    assert math.isnan(method.estimate(problem, first))
    after = step_of(method, problem, first)
    assert after.n_gradients >= 60 * 4  # the new gradient
    assert after.n_gradients % 60 == 0


@pytest.mark.parametrize("max_iter", [5, 50, 200])
def test_max_iter_ends_a_run_within_a_step(max_iter):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.standard_normal((300, 200)) * np.logspace(0, 4, 200))
    problem = Problem.linear(X, np.sign(X @ rng.standard_normal(200)), alpha=1e-8)
    result = minimize(problem, method="newton-cg", tol=1e-15, max_iter=max_iter, measure_every=0)
    assert max_iter <= result.n_passes <= max_iter + 11


def test_impossible_options_are_refused():
    with pytest.raises(ValueError, match="first_rows must be a whole number >= 1"):
        NewtonCG(first_rows=0)


@pytest.mark.parametrize("is_even", [True, False])
def test_copies_bring_columns_in_another_order_where_few_have_most_entries(is_even, monkeypatch):
    monkeypatch.setattr(row_products, "MOST_NUMBERS", 1000.0)
    monkeypatch.setattr(row_products, "N_IN_CACHE", 50)
    rng = np.random.default_rng(0)
    places = rng.random((200, 20)) if is_even else rng.random((200, 20)) ** 4
    columns = 399 - (400 * places).astype(np.int64)
    X = sp.csr_array((rng.standard_normal(4000), columns.ravel(), np.arange(0, 4001, 20)), shape=(200, 400))
    problem = Problem.linear(X, rng.choice([-1.0, 1.0], 200), alpha=0.1)
    copied, order = copy_for_products(problem)
    assert isinstance(order, slice) == is_even
    w, curvatures = rng.standard_normal(400), rng.random(200)
    product = np.empty(400)
    product[order] = gram_product(copied, curvatures, w[order])
    np.testing.assert_allclose(product, gram_product(problem, curvatures, w), rtol=1e-4, atol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("is_parted", [False, True])
def test_long_directions_are_read_in_single_precision_of_any_size(is_parted, monkeypatch):
    monkeypatch.setattr(row_products, "MOST_IN_CACHE", 100)
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 60), density=0.2, rng=rng, format="csr")
    y, curvatures, v = rng.choice([-1.0, 1.0], 300), rng.random(300), rng.standard_normal(60)
    problem = Problem.partitioned([(X[:100], y[:100]), (X[100:], y[100:])]) if is_parted else Problem.linear(X, y)
    exact = X.T @ (curvatures / 300.0 * (X @ v))
    for size in (1.0, 1e200, 1e-200, 0.0):  # beyond what single precision holds
        product = rounded_gram_product(problem, curvatures, size * v)
        assert product.dtype == np.float64
        np.testing.assert_allclose(product, size * exact, rtol=0.0, atol=1e-6 * size * np.abs(exact).max())
    is_rounded = (rounded_gram_product(problem, curvatures, v) != gram_product(problem, curvatures, v)).any()
    monkeypatch.setattr(row_products, "MOST_IN_CACHE", 480)
    assert is_rounded
    np.testing.assert_array_equal(rounded_gram_product(problem, curvatures, v), gram_product(problem, curvatures, v))


def test_dense_rows_are_multiplied_with_exact_directions(monkeypatch):
    monkeypatch.setattr(row_products, "MOST_IN_CACHE", 0)
    rng = np.random.default_rng(0)
    problem, curvatures = Problem.linear(rng.standard_normal((50, 8)), rng.choice([-1.0, 1.0], 50)), rng.random(50)
    v = rng.standard_normal(8)
    np.testing.assert_array_equal(rounded_gram_product(problem, curvatures, v), gram_product(problem, curvatures, v))


def test_single_precision_of_directions_ends_at_the_same_minimum(monkeypatch):
    rng = np.random.default_rng(2)
    X = sp.random_array((2000, 90), density=0.1, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(90) + 0.3 * rng.logistic(size=2000) > 0.0, 1.0, -1.0)
    problem = Problem.linear(X, y, alpha=1e-4)
    exact = minimize(problem, method=NewtonCG(), tol=1e-10)
    monkeypatch.setattr(row_products, "MOST_IN_CACHE", 0)
    rounded = minimize(problem, method=NewtonCG(), tol=1e-10)
    assert rounded.success
    assert (rounded.x != exact.x).any()
    np.testing.assert_allclose(rounded.x, exact.x, rtol=0.0, atol=1e-6)
