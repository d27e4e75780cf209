"""Smoothness constants are upper bounds, and not by much."""

import numpy as np
import pytest
import scipy.sparse
from contracts.problems import as_format, make_pair

from finitesum import METHODS, Problem, minimize
from finitesum.evaluation import smoothness
from finitesum.evaluation.smoothness import (
    component_smoothness,
    full_smoothness,
    gram_eigenvalue,
    momentum_limit,
    strong_convexity,
)
from finitesum.methods import SAGA
from finitesum.methods.base import is_suited


def data(n, d, seed=0, decay=1.0):
    """Columns of falling size, so that the largest eigenvalue stands alone (decay < 1) or not."""
    return np.random.default_rng(seed).standard_normal((n, d)) * decay ** np.arange(d)


def largest_eigenvalue(Z, weights=None):
    weights = np.full(Z.shape[0], 1.0 / Z.shape[0]) if weights is None else weights / weights.sum()
    return np.linalg.eigvalsh((Z.T * weights) @ Z)[-1]


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("d", [1, 2, 3, 50])
@pytest.mark.parametrize("decay", [0.8, 1.0])
def test_the_largest_eigenvalue_is_bounded_from_above_within_two_percent(form, d, decay):
    for seed in range(3):
        X = data(30, d, seed, decay)
        found = gram_eigenvalue(Problem.linear(as_format(X, form), np.arange(30.0), loss="squared"))
        exact = largest_eigenvalue(X)
        assert exact * (1.0 - 1e-14) <= found <= 1.02 * exact


def test_intercept_and_weights_take_part():
    X, weights = data(20, 4), np.arange(20.0)
    problem = Problem.linear(X, np.arange(20.0), loss="squared", fit_intercept=True, sample_weight=weights)
    exact = largest_eigenvalue(np.hstack([X, np.ones((20, 1))]), weights)
    assert exact <= gram_eigenvalue(problem) <= 1.02 * exact


@pytest.mark.parametrize(
    "X",
    [
        np.tile(data(20, 1), 6),
        np.hstack([data(20, 3), -data(20, 3)]),
        np.eye(5),
        np.vstack([np.eye(5)[:1] * 1e-12, np.zeros((4, 5))]),
        np.outer(np.ones(6), [1.0, -1.0, 0.0, 0.0]),
    ],
    ids=["duplicated", "opposite", "identity", "tiny", "rank one"],
)
def test_matrices_with_equal_and_opposite_columns(X):
    exact = largest_eigenvalue(X)
    found = gram_eigenvalue(Problem.linear(X, np.arange(float(X.shape[0])), loss="squared"))
    assert exact * (1.0 - 1e-14) <= found <= 1.02 * exact


@pytest.mark.parametrize("d", [1, 2, 3, 50])
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_of_a_zero_matrix_any_bound_will_do(d, kind):
    problem = Problem.linear(kind(np.zeros((4, d))), [0, 1, 0, 1])
    assert gram_eigenvalue(problem) == 0.0
    assert full_smoothness(problem) == component_smoothness(problem) == 1.0
    ridged = Problem.linear(kind(np.zeros((4, d))), [0, 1, 0, 1], alpha=0.25)
    assert full_smoothness(ridged) == component_smoothness(ridged) == 0.25


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_constant_objective_is_solved(name):
    if problem_refused(name):
        pytest.skip("treats other problems")
    result = minimize(Problem.linear(np.zeros((4, 3)), [0, 1, 0, 1]), method=name)
    assert result.success, result.message
    np.testing.assert_array_equal(result.x, 0.0)
    assert result.fun == pytest.approx(np.log(2.0), rel=1e-15)


def problem_refused(name):
    """Whether a method cannot treat smooth problems of one output without a constraint."""
    return not is_suited(METHODS[name](), Problem.linear([[1.0], [2.0]], [0, 1]))


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared-hinge", "huber", "smoothed-hinge"])
def test_the_constants_bound_all_hessians(form, loss):
    problem, oracle = make_pair(form, loss, alpha=0.3, l1_ratio=0.2, batch_size=4, weighted=True, intercept=True)
    full, component = full_smoothness(problem), component_smoothness(problem)
    assert full <= component
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal(problem.dim) * 0.5**seed
        assert np.linalg.eigvalsh(oracle.hessian(x))[-1] <= full * (1.0 + 1e-12)
        for j in range(oracle.m):
            hessian = oracle.loss_hessian(j, x) + np.diag(oracle.l2)
            assert np.linalg.eigvalsh(hessian)[-1] <= component * (1.0 + 1e-12)


def test_the_component_bound_is_attained_by_single_rows():
    problem, oracle = make_pair(loss="squared", alpha=0.3, weighted=True)
    exact = max(np.linalg.eigvalsh(oracle.loss_hessian(j, np.zeros(6)))[-1] for j in range(oracle.m))
    assert component_smoothness(problem) == pytest.approx(exact + 0.3, rel=1e-13)


def test_the_component_bound_of_blocks_is_their_trace():
    problem, oracle = make_pair(loss="squared", alpha=0.3, weighted=True, batch_size=4)
    traces = [np.trace(oracle.loss_hessian(j, np.zeros(6))) for j in range(oracle.m)]
    assert component_smoothness(problem) == pytest.approx(max(traces) + 0.3, rel=1e-13)


def test_float32_rows_with_large_entries_have_finite_constants():
    X = np.array([[1e25, 0.0], [0.0, 1e20]], dtype=np.float32)
    problem = Problem.linear(X, [1.0, 2.0], loss="squared")
    assert component_smoothness(problem) == pytest.approx(2 * 0.5 * float(X[0, 0]) ** 2, rel=1e-14)
    assert full_smoothness(problem) == pytest.approx(0.5 * float(X[0, 0]) ** 2, rel=1e-14)


def test_strong_convexity_is_that_of_the_penalty_and_none_with_a_free_intercept():
    assert strong_convexity(make_pair(alpha=0.3, l1_ratio=0.25)[0]) == pytest.approx(0.225, rel=1e-15)
    assert strong_convexity(make_pair(alpha=0.3, intercept=True)[0]) == 0.0


@pytest.mark.parametrize("constant", [full_smoothness, component_smoothness])
def test_an_unbounded_curvature_is_refused_with_advice(constant):
    problem, _ = make_pair(loss="poisson")
    message = r"^Poisson has no bound on its second derivative, so no constant step size is safe\. Give step_size"
    with pytest.raises(ValueError, match=message):
        constant(problem)


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["dense", pytest.param("csr32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "options"),
    [("fg", {}), ("afg", {}), ("iag", {}), ("ciag", {"step_size": "theory"}), ("a-ciag", {"step_size": "theory"})],
)
def test_a_run_is_charged_for_the_products_that_its_step_size_took(name, options, form, monkeypatch):
    problem = make_pair(form, n=40, d=30, alpha=0.1, batch_size=3)[0]
    n_products, original = 0, smoothness.gram_product

    def counted(*args):
        nonlocal n_products
        n_products += 1
        return original(*args)

    monkeypatch.setattr(smoothness, "gram_product", counted)
    result = minimize(problem, method=name, options=options, tol=0.0, max_iter=100)
    assert 15 <= n_products <= 60
    assert result.trace.column("n_passes")[0] == n_products
    assert result.n_passes == 101.0  # and the check of the result
    assert result.nit == 100 - n_products
    given = minimize(problem, method=name, options={"step_size": 0.01}, tol=0.0, max_iter=100)
    assert (given.trace.column("n_passes")[0], given.nit) == (0.0, 100)


@pytest.mark.parametrize("name", ["iag", "ciag"])
def test_what_a_step_size_has_cost_is_not_taken_for_visits(name):
    problem = make_pair(n=40, d=6, alpha=0.1, batch_size=1)[0]
    method = METHODS[name](step_size="theory" if name == "ciag" else "auto")
    state = method.init(problem, np.zeros(problem.dim))
    assert state.n_gradients > 0
    assert np.isnan(method.estimate(problem, method.run_pass(problem, state, np.arange(20))))
    assert np.isfinite(method.estimate(problem, method.run_pass(problem, state, np.arange(40))))


def test_momentum_limit():
    assert momentum_limit(0.0, 3.0) == 1.0
    assert momentum_limit(1.0, 1.0) == 0.0
    assert momentum_limit(4.0, 1.0) == 0.0  # a step beyond 1 / mu
    assert momentum_limit(0.01, 1.0) == pytest.approx(0.9 / 1.1, rel=1e-15)


@pytest.mark.parametrize(("alpha", "intercept"), [(1e-3, False), (10.0, False), (1e-3, True)])
def test_saga_takes_the_longer_of_its_two_proven_steps(alpha, intercept):
    X = np.random.default_rng(0).standard_normal((30, 4))
    problem = Problem.linear(X, np.sign(X[:, 0]), alpha=alpha, fit_intercept=intercept, batch_size=1)
    largest = component_smoothness(problem)
    candidates = [1 / (3 * largest)] + ([] if intercept else [1 / (2 * (30 * alpha + largest))])
    assert SAGA().init(problem, np.zeros(problem.dim)).step_size == max(candidates)
