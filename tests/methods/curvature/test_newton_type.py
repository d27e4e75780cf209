"""NIM and Newton's method: against their transcriptions, as each other's special cases, and their rates."""

from functools import partial

import numpy as np
import pytest
from contracts import problems
from contracts.problems import ident, make_pair, start
from oracles import newton_type as oracle

from finitesum import Problem, minimize
from finitesum.methods import NIM, Newton
from finitesum.methods.curvature.trust import ALL

FORMATS = ("dense", "csr32")  # other losses, index types and constraints go through the contract table
SETTINGS = [{}, {"batch_size": 3, "intercept": True, "weighted": True}, {"batch_size": 13, "weighted": True}]
passes_of = partial(problems.passes_of, n_passes=3, sampling="with-replacement")
L1 = [{"l1_ratio": 0.7, "alpha": 0.1}, {"l1_ratio": 0.5, "batch_size": 3, "intercept": True, "weighted": True}]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize("warm_start", ["none", "full"])
@pytest.mark.parametrize("damping", [1.0, 0.6])
def test_nim_equals_its_equations(form, setting, warm_start, damping):
    problem, F = make_pair(form, n=13, **setting)
    x0 = start(problem)
    method = NIM(step_size=damping, solver="exact", warm_start_method=warm_start)
    orders, states = passes_of(method, problem, x0)
    expected = oracle.nim(F, x0, orders, damping, full=warm_start == "full")
    for state, x in zip(states, expected, strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", L1, ids=ident)
def test_proximal_nim_equals_its_equations(form, setting):
    problem, F = make_pair(form, n=13, d=4, **setting)
    x0 = start(problem)
    orders, states = passes_of(NIM(step_size=0.8, solver="exact", warm_start_method="full"), problem, x0)
    for state, x in zip(states, oracle.nim(F, x0, orders, 0.8, full=True), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize("damping", [1.0, 0.6])
def test_inexact_nim_equals_its_equations(form, setting, damping):
    problem, F = make_pair(form, n=13, **setting)
    x0 = start(problem)
    orders, states = passes_of(NIM(step_size=damping), problem, x0)
    expected = oracle.nim(F, x0, orders, damping, solver="inexact")
    for state, x in zip(states, expected, strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", [*L1, {"constraint": "l1-ball", "batch_size": 2, "intercept": True}], ids=ident)
def test_inexact_proximal_nim_minimises_every_model_to_its_tolerance(form, setting):
    """Visit by visit, the step of the model that is left is at most min(1, sqrt(G)) G, with G that at the old point."""
    problem, F = make_pair(form, n=13, d=4, **setting)
    method, x = NIM(step_size=1.0), start(problem)
    state, models = method.init(problem, x), oracle.Models(F, F.prox(x, 1.0), False)
    state = state._replace(x=F.prox(x, 1.0))
    for j in np.random.default_rng(0).permutation(np.repeat(np.arange(F.m), 3)):
        x = state.x
        state = method.run_pass(problem, state, np.array([j]))
        models.move(j, x)
        gradient, H = models.gradient(x), models.hessian()

        def left(v, g=gradient, H=H, x=x):
            return np.linalg.norm(v - F.prox(v - g - H @ (v - x), 1.0))

        size = left(x)
        assert left(state.x) <= min(1.0, np.sqrt(size)) * size + 1e-12


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("damping", [1.0, 0.6])
@pytest.mark.parametrize("setting", [{}, {"weighted": True, "intercept": True}], ids=ident)
def test_the_inverse_kept_up_gives_the_exact_minimisers(form, damping, setting):
    problem, F = make_pair(form, n=13, **setting)
    x0 = start(problem)
    full = "intercept" in setting
    method = NIM(step_size=damping, solver="inverse", warm_start_method="full" if full else "none")
    orders, states = passes_of(method, problem, x0)
    for state, x in zip(states, oracle.nim(F, x0, orders, damping, full=full), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("scale", [0.3, 4.0])
@pytest.mark.parametrize("setting", [{}, {"batch_size": 3, "intercept": True, "weighted": True, "alpha": 1e-3}], ids=ident)
def test_trust_equals_its_rule(scale, setting):
    problem, F = make_pair("csr32", **setting)
    x0 = start(problem, scale)
    orders, states = passes_of(NIM(solver="exact"), problem, x0, n_passes=8, sampling="shuffled")
    for state, (x, residual, predicted, majorizes) in zip(states, oracle.trusted_nim(F, x0, orders), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.comparison.residual, residual, rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(state.comparison.predicted, predicted, rtol=1e-8, atol=1e-14)
        assert (state.trust.majorize == ALL) == majorizes


@pytest.mark.parametrize("solver", ["inexact", "exact", "inverse"])
def test_a_pass_that_raised_f_is_undone(solver):
    """The second derivatives of smoothed hinges at 0 lead far up, where all are there from the start."""
    problem, F = make_pair(loss="smoothed-hinge", alpha=1e-2)
    method = NIM(solver=solver, warm_start_method="full")
    _, states = passes_of(method, problem, np.zeros(problem.dim), n_passes=6, sampling="shuffled")
    objectives = np.array([F.objective(state.x) for state in states])
    assert (np.diff(objectives) <= 1e-12).all()
    is_on = np.isfinite([state.guard.objective for state in states])
    assert is_on.any()
    np.testing.assert_allclose([s.guard.objective for s in states if np.isfinite(s.guard.objective)], objectives[is_on])


def test_the_guard_rests_where_models_are_good():
    problem, _ = make_pair(weighted=True)
    _, states = passes_of(NIM(), problem, np.zeros(problem.dim), n_passes=4, sampling="shuffled-once")
    assert np.isnan([state.guard.objective for state in states]).all()
    assert [state.n_gradients for state in states] == [problem.n_components * k for k in (1, 2, 3, 4)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS + L1, ids=ident)
@pytest.mark.parametrize("scale", [0.3, 5.0])
def test_newton_equals_its_equations(form, setting, scale):
    problem, F = make_pair(form, n=13, **setting)
    x0 = start(problem, scale)
    _, states = passes_of(Newton(), problem, x0, n_passes=4)
    for state, x in zip(states, oracle.newton(F, x0, 4), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-10, atol=1e-11)


def test_newton_with_a_number_takes_it_as_the_step():
    problem, F = make_pair(weighted=True)
    x0 = start(problem)
    _, states = passes_of(Newton(step_size=0.5), problem, x0)
    for state, x in zip(states, oracle.newton(F, x0, 3, damping=0.5), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("warm_start", ["none", "full"])
def test_nim_with_one_component_is_newton(warm_start):
    problem, _ = make_pair(batch_size=23, intercept=True)
    x0 = start(problem)
    _, incremental = passes_of(NIM(step_size=1.0, solver="exact", warm_start_method=warm_start), problem, x0)
    _, full = passes_of(Newton(step_size=1.0), problem, x0)
    np.testing.assert_allclose(incremental[-1].x, full[-1].x, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("method", [NIM(solver="exact"), NIM(solver="inverse"), NIM(step_size=1.0, solver="exact")])
def test_nim_solves_quadratics_once_every_component_was_visited(method):
    problem, F = make_pair(loss="squared", alpha=0.01, weighted=True)
    _, states = passes_of(method, problem, start(problem), n_passes=1, sampling="shuffled")
    assert F.optimality(states[0].x) < 1e-13


@pytest.mark.parametrize("setting", [{}, {"l1_ratio": 0.8, "alpha": 0.2}], ids=ident)
def test_newton_solves_quadratics_at_once(setting):
    problem, F = make_pair(loss="squared", intercept=True, weighted=True, **setting)
    _, states = passes_of(Newton(), problem, start(problem), n_passes=1)
    assert F.optimality(states[0].x) < 1e-13
    assert states[0].step_size == 1.0


@pytest.mark.parametrize("solver", ["inexact", "exact"])
def test_nim_converges_superlinearly(solver):
    problem, F = make_pair(n=100, d=5, alpha=1e-4, batch_size=25)
    _, states = passes_of(NIM(step_size=1.0, solver=solver), problem, np.zeros(5), n_passes=9, sampling="shuffled-once")
    sizes = np.array([F.optimality(state.x) for state in states])
    last = sizes[sizes > 1e-14][-4:]
    ratios = last[1:] / last[:-1]
    assert (np.diff(np.log(ratios)) < 0).all(), ratios
    assert ratios[-1] < 0.05 * ratios[-2]


def test_newton_converges_quadratically():
    problem, F = make_pair(n=200, d=5, alpha=0.01)
    _, states = passes_of(Newton(), problem, np.zeros(5), n_passes=5)
    sizes = [F.optimality(state.x) for state in states]
    assert sizes[2] <= 10 * sizes[1] ** 2
    assert sizes[3] <= max(10 * sizes[2] ** 2, 1e-15)


def far_problem(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 8))
    if kind == "separable":
        return Problem.linear(X, np.sign(X @ rng.standard_normal(8)), alpha=1e-4 / 100), 30.0
    if kind == "heavy tails":
        X = rng.standard_t(3, (100, 8))
        return Problem.linear(X, np.sign(X @ rng.standard_normal(8) + rng.standard_normal(100)), alpha=1e-3), 10.0
    return Problem.linear(0.5 * X, rng.poisson(np.exp(0.3 * X[:, 0])).astype(float), loss="poisson", alpha=1e-3), 4.0


@pytest.mark.parametrize("kind", ["separable", "heavy tails", "poisson"])
@pytest.mark.parametrize("name", ["nim", "newton"])
def test_converges_from_far_away_without_a_step_to_tune(kind, name):
    problem, scale = far_problem(kind)
    for seed in range(2):
        x0 = scale * np.random.default_rng(seed).standard_normal(8)
        result = minimize(problem, x0, method=name, tol=1e-9, max_iter=100)
        assert result.success, result.message


@pytest.mark.parametrize(("method", "hessians"), [(NIM(), [3, 6, 9]), (NIM(warm_start_method="full"), [6, 9, 12])])
def test_nim_counts(method, hessians):
    problem, _ = make_pair(batch_size=9)
    _, states = passes_of(method, problem, start(problem))
    assert [state.n_hessians for state in states] == hessians
    assert [state.n_gradients for state in states] == hessians


def test_newton_counts_a_second_gradient_where_the_line_search_shortens_the_step():
    problem, F = make_pair(n=60)
    _, states = passes_of(Newton(), problem, np.zeros(problem.dim), n_passes=3)
    assert [(state.n_gradients, state.n_hessians) for state in states] == [(60 * (k + 2), 60 * (k + 1)) for k in range(3)]
    assert Newton().estimate(problem, states[-1]) == pytest.approx(F.optimality(states[-1].x), rel=1e-6)
    far, _ = far_problem("separable")
    _, states = passes_of(Newton(), far, 30.0 * np.ones(8), n_passes=1)
    assert states[0].step_size < 1.0
    assert states[0].n_gradients == 3 * 100


def test_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="step_size must be at most 1"):
        NIM(step_size=1.5)
    with pytest.raises(ValueError, match="solver must be one of"):
        NIM(solver="magic")
    problem, _ = make_pair(batch_size=2)
    with pytest.raises(ValueError, match=r'solver "inverse" needs batch_size=1, got 2'):
        NIM(solver="inverse").init(problem, np.zeros(problem.dim))
    problem, _ = make_pair(l1_ratio=0.5)
    with pytest.raises(ValueError, match=r'solver "inverse" needs a smooth problem'):
        NIM(solver="inverse").init(problem, np.zeros(problem.dim))
    problem, _ = make_pair(intercept=True)
    with pytest.raises(ValueError, match="needs an H that has an inverse"):
        minimize(problem, method=NIM(solver="inverse"))


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_nim_takes_steps_with_groups_from_where_the_optimality_is_large(scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    y = scale * (X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(60))
    problem = Problem.linear(X, y, loss="squared", alpha=0.1 * scale, l1_ratio=0.5, groups=[0, 0, 1, 1, 2, 2])
    result = minimize(problem, method="nim", tol=1e-9, max_iter=60)
    assert result.success, result.message
    assert result.fun == pytest.approx(minimize(problem, method="newton", tol=1e-10).fun, rel=1e-9)
