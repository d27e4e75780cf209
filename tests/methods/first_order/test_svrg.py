"""SVRG and AccSVRG against their transcription, their special cases, and the rule for their step."""

import itertools

import numpy as np
import pytest
from contracts.problems import make_pair
from oracles import svrg as oracle
from oracles.newton_type import minimise

from finitesum import minimize
from finitesum.methods import FG, METHODS, SVRG, AccSVRG
from finitesum.methods.first_order.lagged_updates import LaggedSteps, lagged_steps, tabulate
from finitesum.methods.snapshot import next_snapshot, take_snapshot
from finitesum.running.sampling import order_of_pass

SETTINGS = [
    {},
    {"batch_size": 3, "intercept": True, "weighted": True},
    {"batch_size": 23},
    {"l1_ratio": 0.7, "alpha": 0.1, "intercept": True},
    {"l1_ratio": 0.5, "batch_size": 3, "weighted": True},
]
FORMATS = ("dense", "csr32")  # other losses, index types and constraints go through the contract table


def ident(setting):
    return "-".join(f"{k}={v}" for k, v in setting.items()) or "plain"


def passes_of(method, problem, x0, n_passes=5, sampling="shuffled", seed=3):
    orders = [order_of_pass(sampling, seed, k, problem.n_components) for k in range(n_passes)]
    state = method.init(problem, x0)
    states = []
    for order in orders:
        state = method.run_pass(problem, state, order)
        states.append(state)
    return orders, states


def start(problem, scale=0.3):
    return scale * np.random.default_rng(5).standard_normal(problem.dim)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize("inner_passes", [1, 2])
@pytest.mark.parametrize("sampling", ["shuffled", "with-replacement"])
def test_svrg_equals_its_equations(form, setting, inner_passes, sampling):
    problem, F = make_pair(form, **setting)
    x0 = start(problem)
    method = SVRG(step_size=0.07, inner_passes=inner_passes)
    orders, states = passes_of(method, problem, x0, sampling=sampling)
    for state, expected in zip(states, oracle.svrg(F, x0, orders, 0.07, inner_passes), strict=True):
        np.testing.assert_allclose(state.x, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize("inner_passes", [1, 2])
def test_acc_svrg_equals_its_equations(form, setting, inner_passes):
    problem, F = make_pair(form, **setting)
    x0 = start(problem)
    method = AccSVRG(step_size=0.07, momentum=0.6, inner_passes=inner_passes)
    orders, states = passes_of(method, problem, x0)
    for state, expected in zip(states, oracle.acc_svrg(F, x0, orders, 0.07, 0.6, inner_passes), strict=True):
        np.testing.assert_allclose(state.x, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize(
    "setting", [{}, {"batch_size": 3, "weighted": True}, {"l1_ratio": 0.5, "intercept": True}], ids=ident
)
def test_the_automatic_step_equals_its_rule(form, setting):
    problem, F = make_pair(form, **setting)
    x0 = start(problem, 3.0)
    orders, states = passes_of(SVRG(), problem, x0, n_passes=12)

    def epoch(F, w, order, step):
        (x,) = oracle.svrg(F, w, [order], step)
        return x

    for state, (x, step) in zip(states, oracle.automatic(F, x0, orders, epoch, 0.25), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-11, atol=1e-11)
        assert state.step_size == pytest.approx(step, rel=1e-12)


def test_momentum_zero_is_svrg():
    problem, _ = make_pair(batch_size=2)
    x0 = start(problem)
    _, plain = passes_of(SVRG(step_size=0.1), problem, x0)
    _, accelerated = passes_of(AccSVRG(step_size=0.1, momentum=0.0), problem, x0)
    np.testing.assert_allclose(accelerated[-1].x, plain[-1].x, rtol=1e-13, atol=1e-14)


def test_one_component_is_the_gradient_method():
    problem, _ = make_pair("csr32", batch_size=23, intercept=True)
    x0 = start(problem)
    _, reduced = passes_of(SVRG(step_size=0.3), problem, x0)
    _, full = passes_of(FG(step_size=0.3), problem, x0)
    np.testing.assert_allclose(reduced[-1].x, full[-1].x, rtol=1e-12)


def test_the_optimum_is_a_fixed_point_of_every_visit():
    problem, _ = make_pair(alpha=0.2, l1_ratio=0.4)
    x = minimize(problem, method="fg", tol=1e-14, max_iter=20000).x
    _, states = passes_of(SVRG(step_size=0.2), problem, x, n_passes=1)
    np.testing.assert_allclose(states[0].x, x, atol=1e-12)


@pytest.mark.parametrize("method", [SVRG(), AccSVRG()])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("setting", [{}, {"intercept": True, "weighted": True}, {"l1_ratio": 0.5}], ids=ident)
def test_snapshots_under_the_rule_never_raise_the_objective(method, scale, setting):
    problem, F = make_pair(n=60, d=5, alpha=1e-3, **setting)
    x0 = start(problem, scale)
    _, states = passes_of(method, problem, x0, n_passes=30)
    values = [F.objective(x0)] + [F.objective(state.x) for state in states]
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(values))
    assert values[-1] < values[0]


def test_a_step_far_too_long_is_cut_until_epochs_help():
    problem, _ = make_pair(n=60, alpha=0.05)
    x0 = start(problem)
    method = SVRG()
    state = method.init(problem, x0)._replace(step_size=1e6)
    for k in range(120):
        state = method.run_pass(problem, state, order_of_pass("shuffled", 0, k, problem.n_components))
    assert state.step_size < 100.0
    assert method.estimate(problem, state) < 1e-6


@pytest.mark.parametrize("name", ["svrg", "acc-svrg"])
def test_counts_and_estimate(name):
    problem, F = make_pair(batch_size=3)
    m = problem.n_components
    _, states = passes_of(METHODS[name](inner_passes=2), problem, start(problem), n_passes=4)
    assert [state.n_gradients for state in states] == [2 * m, 4 * m, 5 * m, 7 * m]
    assert all(state.n_hessians == 0 for state in states)
    last = states[-1]
    assert METHODS[name]().estimate(problem, last) == pytest.approx(F.optimality(last.x), rel=1e-12)


def test_a_snapshot_holds_exact_measures():
    problem, F = make_pair("csr32", weighted=True, intercept=True, l1_ratio=0.5)
    x = start(problem)
    snapshot = take_snapshot(problem, x)
    np.testing.assert_allclose(snapshot.slopes, F.d1(F.predictions(x), F.y), rtol=1e-13)
    np.testing.assert_allclose(snapshot.curvatures, F.d2(F.predictions(x), F.y), rtol=1e-12)
    np.testing.assert_allclose(snapshot.gradient, F.gradient(x) - F.l2 * x, rtol=1e-12, atol=1e-15)
    assert snapshot.objective == pytest.approx(F.objective(x), rel=1e-14)
    assert snapshot.optimality == pytest.approx(F.optimality(x), rel=1e-12)


@pytest.mark.parametrize("value", [-3.0, -0.2, 0.0, 1e-3, 0.4, 5.0])
@pytest.mark.parametrize("drift", [-0.3, -0.02, 0.0, 0.004, 0.5])
@pytest.mark.parametrize("l1", [0.0, 0.1])
@pytest.mark.parametrize("n_steps", [0, 1, 2, 7, 40])
def test_lagged_steps_equal_the_steps_taken_one_by_one(value, drift, l1, n_steps):
    problem, _ = make_pair("csr32", alpha=1.0, l1_ratio=l1)
    step = 0.3
    decay = 1.0 - step * problem.penalty.ridge()
    lagged = LaggedSteps(step, decay, np.empty(41), np.empty(41), np.zeros(1, dtype=np.int64))
    tabulate(lagged)
    expected = value
    for _ in range(n_steps):
        moved = decay * expected - drift
        expected = np.sign(moved) * max(abs(moved) - step * problem.penalty.lasso(), 0.0)
    assert lagged_steps(problem.view, lagged, 0, value, drift, n_steps) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "step_size must be > 0"),
        ({"inner_passes": 0}, "inner_passes must be a whole number >= 1, got 0"),
        ({"inner_passes": 1.5}, "inner_passes must be a whole number"),
        ({"momentum": 1.0}, "momentum must lie in"),
    ],
)
def test_refuses_parameters_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        AccSVRG(**options)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_an_epoch_that_raises_the_objective_below_its_rounding_errors_is_undone(l1_ratio):
    problem, F = make_pair("dense", n=60, d=4, alpha=0.01, l1_ratio=l1_ratio)
    optimum = np.zeros(problem.dim)
    for _ in range(30):
        optimum = minimise(F, F.gradient(optimum), F.hessian(optimum), optimum)
    assert np.abs(optimum).min() > 1e-3  # F is smooth around it
    near, far = optimum + 1e-9, optimum + 2e-9
    assert abs(F.objective(near) - F.objective(far)) < 1e-15
    point, step = next_snapshot(problem, take_snapshot(problem, near), far, 1.0, adapt=True)
    assert step == 0.25
    np.testing.assert_array_equal(point.point, near)
    point, step = next_snapshot(problem, take_snapshot(problem, far), near, 1.0, adapt=True)
    assert step == 1.25
    np.testing.assert_array_equal(point.point, near)
