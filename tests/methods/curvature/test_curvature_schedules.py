"""CIAG and A-CIAG with the paper's restarts and its warm start, against their equations; and what they are good for."""

import numpy as np
import pytest
from contracts.problems import make_pair
from oracles import methods as oracles

from finitesum import Problem, minimize
from finitesum.evaluation.smoothness import full_smoothness, momentum_limit, strong_convexity
from finitesum.methods import ACIAG, CIAG
from finitesum.running.sampling import order_of_pass

SETTINGS = [
    ("dense", {"batch_size": 2}),
    ("csr32", {"batch_size": 4, "intercept": True, "weighted": True}),
    ("csr64", {"l1_ratio": 0.7, "alpha": 0.1, "intercept": True}),
    ("dense", {"constraint": "box", "batch_size": 3}),
]


def passes_of(method, problem, x0, orders):
    state = method.init(problem, x0)
    for order in orders:
        state = method.run_pass(problem, state, order)
        yield state


def orders_of(m, n_passes, sampling="shuffled"):
    return [order_of_pass(sampling, 4, k, m) for k in range(n_passes)]


def theory_step(problem, extrapolation):
    smoothness = full_smoothness(problem)
    return 2 / (strong_convexity(problem) + smoothness) if extrapolation == 0.0 else 0.5 / smoothness


@pytest.mark.parametrize("extrapolation", [0.0, 0.4])
@pytest.mark.parametrize(("form", "setting"), SETTINGS, ids=str)
def test_a_warm_start_by_sag_equals_its_equations(form, setting, extrapolation):
    problem, oracle = make_pair(form, **setting)
    method = ACIAG(step_size=0.2, extrapolation=extrapolation, warm_start_method="sag")
    orders, x0 = orders_of(problem.n_components, 4), np.ones(problem.dim)
    expected = oracles.ciag(oracle, x0, orders, 0.2, extrapolation, warm_start="sag")
    for state, point in zip(passes_of(method, problem, x0, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-12, atol=1e-12)
    assert state.n_gradients == state.n_hessians == 4 * problem.n_components


@pytest.mark.parametrize("warm_start", ["none", "full", "sag"])
@pytest.mark.parametrize("restart", [1, 2])
@pytest.mark.parametrize(("form", "setting"), SETTINGS, ids=str)
def test_restarts_equal_their_equations(form, setting, restart, warm_start):
    problem, oracle = make_pair(form, **setting)
    method = ACIAG(step_size=0.02, extrapolation="auto", restart=restart, warm_start_method=warm_start)
    orders, x0 = orders_of(problem.n_components, 10), 0.5 * np.ones(problem.dim)
    mu, longest = strong_convexity(problem), theory_step(problem, "auto")

    expected = oracles.ciag(oracle, x0, orders, 0.02, lambda step: momentum_limit(mu, step), warm_start, restart, longest)
    states = list(passes_of(method, problem, x0, orders))
    for state, point in zip(states, expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-11, atol=1e-11)
    assert len({state.schedule.step_size for state in states}) >= 2  # it was changed


def test_plain_ciag_restarts_up_to_the_step_of_its_theory():
    problem, oracle = make_pair("csr32", n=60, batch_size=2)
    longest = theory_step(problem, 0.0)
    method = CIAG(step_size=longest / 50, restart=1)
    orders, x0 = orders_of(problem.n_components, 12, "cyclic"), np.zeros(problem.dim)
    expected = oracles.ciag(oracle, x0, orders, longest / 50, 0.0, restart=1, longest=longest)
    for state, point in zip(passes_of(method, problem, x0, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-11, atol=1e-12)
    assert state.schedule.step_size == longest


def test_a_step_given_longer_than_theory_has_it_is_never_lengthened_but_shortened_where_models_fail():
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((80, 4))
    problem = Problem.linear(X, np.sign(X @ np.ones(4)), alpha=1e-3, batch_size=1)
    given = 3 * theory_step(problem, 0.0)
    method = CIAG(step_size=given, restart=1)
    orders = orders_of(80, 25, "cyclic")
    steps = [state.schedule.step_size for state in passes_of(method, problem, 5 * rng.standard_normal(4), orders)]
    assert max(steps) == given
    assert min(steps) < given


@pytest.mark.parametrize(
    "options", [{"restart": 2}, {"warm_start_method": "sag"}, {"restart": 1, "warm_start_method": "sag"}]
)
@pytest.mark.parametrize("cls", [CIAG, ACIAG])
def test_single_visits_add_up_to_a_pass(cls, options):
    problem, _ = make_pair("dense", batch_size=3)
    method = cls(step_size="theory", **options)
    orders, x0 = orders_of(problem.n_components, 5), np.ones(problem.dim)
    *_, whole = passes_of(method, problem, x0, orders)
    *_, pieces = passes_of(method, problem, x0, [np.array([j]) for order in orders for j in order])
    np.testing.assert_allclose(pieces.x, whole.x, rtol=1e-12, atol=1e-13)
    assert pieces.schedule.step_size == whole.schedule.step_size
    assert pieces.n_gradients == whole.n_gradients


@pytest.mark.parametrize("warm_start", ["full", "sag"])
@pytest.mark.parametrize("method", ["ciag", "a-ciag"])
def test_the_automatic_step_converges_after_any_warm_start(method, warm_start):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 6)) * [1, 1, 1, 1, 1, 5]
    problem = Problem.linear(X, np.sign(X @ np.ones(6) + rng.standard_normal(200)), alpha=1e-2, batch_size=2)
    options = {"warm_start_method": warm_start}
    result = minimize(problem, 3 * rng.standard_normal(6), method=method, options=options, tol=1e-10, max_iter=100)
    assert result.success, result.message
    optimality = result.trace.column("optimality")
    assert optimality.max() <= 2 * optimality[0]


@pytest.mark.compiled
@pytest.mark.parametrize("cls", [CIAG, ACIAG])
def test_restarts_make_up_for_a_first_step_that_is_too_short(cls):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 5))
    problem = Problem.linear(X, np.sign(X @ np.ones(5) + rng.standard_normal(300)), alpha=1e-2, batch_size=1)

    def passes_to_accuracy(**options):
        return minimize(problem, method=cls(**options), tol=1e-10, max_iter=60).trace.passes_to(1e-10)

    best = passes_to_accuracy(step_size="theory")
    short = theory_step(problem, 0.0 if cls is CIAG else "auto") / 2**13
    assert not passes_to_accuracy(step_size=short) <= 45
    assert passes_to_accuracy(step_size=short, restart=1) <= best + 13
