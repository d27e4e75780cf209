"""A-CIAG and CIAG without a step size: converge from anywhere, in few passes, whatever the order and the batch."""

import math

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.core.jit import COMPILED
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import ACIAG
from finitesum.methods.curvature.taylor_model import full_hessian
from finitesum.running.sampling import SAMPLINGS, order_of_pass


def needs_speed(test):
    """Run the test with compiled kernels, or not at all: it takes minutes when they run as Python."""
    return pytest.mark.compiled(pytest.mark.skipif(not COMPILED, reason="takes minutes when kernels run as Python")(test))


def generated(kind, n=1000, d=31, seed=0):
    """Return X, y, alpha and a start; conditioning, tails, separability, order and start as the name says."""
    rng = np.random.default_rng(seed)
    scales = np.logspace(0, -3, d - 1) if kind == "ill-conditioned" else np.ones(d - 1)
    X = rng.standard_normal((n, d - 1)) * scales
    if kind == "heavy-tails":
        X *= rng.standard_t(2, size=(n, 1))
    X = np.column_stack([X, np.ones(n)])
    scores = X @ rng.standard_normal(d)
    noisy = rng.random(n) < 1 / (1 + np.exp(-np.clip(scores, -50, 50)))
    y = np.where(scores > 0 if kind == "separable" else noisy, 1, -1)
    if kind == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    alpha = {"ill-conditioned": 1e-2, "separable": 1e-4, "sorted": 1e-3, "heavy-tails": 1e-3}.get(kind, 1.0) / n
    return X, y, alpha, 10 * rng.standard_normal(d) if kind == "far" else np.zeros(d)


KINDS = ["plain", "ill-conditioned", "heavy-tails", "separable", "sorted", "far"]


@needs_speed
@pytest.mark.parametrize("kind", KINDS)
def test_needs_few_passes_at_the_default_batch(kind):
    X, y, alpha, x0 = generated(kind)
    result = minimize(Problem.linear(X, y, alpha=alpha), x0, method="a-ciag", tol=1e-10, max_iter=60)
    assert result.success, result.message
    assert result.trace.passes_to(1e-10) <= {"heavy-tails": 14.5, "separable": 14.5}.get(kind, 10.5)


@needs_speed
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("batch_size", [1, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_converges_in_any_order_with_any_batch_and_never_climbs(kind, batch_size, sampling):
    X, y, alpha, x0 = generated(kind)
    problem = Problem.linear(X, y, alpha=alpha, batch_size=batch_size)
    result = minimize(problem, x0, method="a-ciag", tol=1e-10, max_iter=80, sampling=sampling)
    assert result.success, result.message
    optimality = result.trace.column("optimality")
    assert optimality.max() <= 2 * optimality[0]  # the first pass of sorted labels sees one class


@pytest.mark.slow
@needs_speed
@pytest.mark.parametrize("loss", ["squared", "squared-hinge", "huber", "smoothed-hinge", "poisson"])
@pytest.mark.parametrize("method", ["a-ciag", "ciag"])
def test_every_loss_converges_without_a_step_size(loss, method):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 8))
    scores = X @ rng.standard_normal(8) * 0.5
    if loss == "poisson":
        y = rng.poisson(np.exp(scores))
    else:
        y = scores + rng.standard_normal(400) if loss in ("squared", "huber") else np.where(scores > 0, 1, -1)
    problem = Problem.linear(X, y, loss=loss, alpha=1e-2, fit_intercept=True)
    result = minimize(problem, rng.standard_normal(9), method=method, tol=1e-10, max_iter=300)
    assert result.success, result.message


@pytest.mark.slow
@needs_speed
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_poisson_converges_from_starts_that_predict_far_too_little_or_too_much(scale):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 3)) * 0.3
    y = rng.poisson(scale * np.exp(X @ np.ones(3)))
    problem = Problem.linear(X, y, loss="poisson", alpha=1e-3, fit_intercept=True)
    result = minimize(problem, np.array([0.0, 0.0, 0.0, 5.0]), method="a-ciag", tol=1e-9 * max(1, scale), max_iter=300)
    assert result.success, result.message


def test_the_running_bound_lies_above_the_largest_eigenvalue():
    X, y, alpha, _ = generated("plain", n=200, d=8)
    problem = Problem.linear(X, y, alpha=alpha, batch_size=4)
    method = ACIAG()
    state = method.init(problem, np.zeros(8))
    for k in range(5):
        state = method.run_pass(problem, state, order_of_pass("shuffled-once", 0, k, problem.n_components))
        largest = np.linalg.eigvalsh(full_hessian(state.model))[-1]
        assert largest <= state.control.eigenvalue <= 1.2 * largest


def test_the_revisits_of_the_first_pass_are_counted():
    X, y, alpha, _ = generated("plain", n=200, d=5)
    problem = Problem.linear(X, y, alpha=alpha, batch_size=2)
    m = problem.n_components
    method = ACIAG()
    state = method.run_pass(problem, method.init(problem, np.zeros(5)), np.arange(m))
    assert state.n_gradients == state.n_hessians == m + math.ceil(0.1 * m)
    assert method.run_pass(problem, state, np.arange(m)).n_gradients == 2 * m + math.ceil(0.1 * m)


def test_the_estimate_is_of_the_size_of_the_exact_optimality():
    X, y, alpha, _ = generated("plain", n=300, d=6)
    problem = Problem.linear(X, y, alpha=alpha, batch_size=5)
    method = ACIAG()
    state = method.init(problem, np.zeros(6))
    for k in range(4):
        state = method.run_pass(problem, state, order_of_pass("shuffled-once", 0, k, problem.n_components))
        assert evaluate(problem, state.x).optimality <= 5 * method.estimate(problem, state) + 1e-14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": -1.0}, "step_size must be > 0"),
        ({"step_size": "fast"}, "step_size must be"),
        ({"extrapolation": 0.9}, "goes with a constant step"),
        ({"step_size": 0.1, "extrapolation": 1.0}, r"extrapolation must lie in \[0, 1\)"),
        ({"warm_start_method": "self"}, "warm_start_method must be one of none, full, sag"),
        ({"restart": 3}, "restart goes with a constant step"),
        ({"step_size": 0.1, "restart": -1}, "restart must be a whole number"),
        ({"step_size": 0.1, "restart": 1.5}, "restart must be a whole number"),
        ({"model_steps": 0}, "model_steps must be"),
    ],
)
def test_impossible_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ACIAG(**options)
