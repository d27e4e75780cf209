"""IQN against its transcription, its special cases and its rate."""

import numpy as np
import pytest
from contracts.problems import ident, make_pair, passes_of, start
from oracles import iqn as oracle

from finitesum import Problem, minimize
from finitesum.methods import IQN
from finitesum.methods.curvature.iqn import _visits

FORMATS = ("dense", "csr32")  # other losses and index types go through the contract table
SETTINGS = [
    {},
    {"batch_size": 3, "intercept": True, "weighted": True},
    {"batch_size": 23, "weighted": True},
    {"alpha": 0.0, "batch_size": 8, "intercept": True},
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize("initial", ["hessian", 0.7])
@pytest.mark.parametrize("damping", [1.0, 0.6])
def test_equals_its_equations(form, setting, initial, damping):
    problem, F = make_pair(form, **setting)
    x0 = start(problem)
    orders, states = passes_of(IQN(step_size=damping, initial=initial), problem, x0)
    for state, (x, matrices) in zip(states, oracle.iqn(F, x0, orders, initial, damping), strict=True):
        np.testing.assert_allclose(state.x, x, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(state.matrices, matrices, rtol=1e-6, atol=1e-6)  # short steps: rounding in y / |s|


def test_one_pass_equals_its_equations_to_rounding():
    problem, F = make_pair(batch_size=3, weighted=True, intercept=True)
    x0 = start(problem)
    orders, states = passes_of(IQN(), problem, x0, n_passes=1)
    ((x, matrices),) = oracle.iqn(F, x0, orders, "hessian")
    np.testing.assert_allclose(states[0].x, x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(states[0].matrices, matrices, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
def test_the_inverse_kept_up_is_the_inverse_of_the_mean_matrix(setting):
    problem, _ = make_pair(n=40, **setting)
    x0, m = start(problem), problem.n_components
    state = IQN().init(problem, x0)
    mean = state.matrices.mean(axis=0)
    inverse = np.linalg.inv(mean)
    order = np.random.default_rng(1).integers(0, m, 3 * m)
    matrices = state.matrices
    _visits(problem.view, order, state, mean, inverse, problem.term.quadratic, 1.0)
    np.testing.assert_allclose(mean, matrices.mean(axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(inverse @ matrices.mean(axis=0), np.eye(problem.dim), atol=1e-9)
    assert np.linalg.eigvalsh(matrices).min() > 0


def test_the_gradient_kept_up_is_that_of_the_mean_model():
    problem, F = make_pair(batch_size=3, intercept=True, weighted=True)
    _, states = passes_of(IQN(), problem, start(problem))
    state = states[-1]
    models = [
        F.loss_gradient(i, z) + F.l2 * z + B @ (state.x - z)
        for i, (z, B) in enumerate(zip(state.anchors, state.matrices, strict=True))
    ]
    np.testing.assert_allclose(state.gradient, np.mean(models, axis=0), atol=1e-13)


def test_one_component_is_bfgs():
    problem, F = make_pair(batch_size=23)
    x = start(problem)
    _, states = passes_of(IQN(initial=1.3), problem, x, n_passes=6)
    B = 1.3 * np.eye(problem.dim)
    for state in states:
        moved = x - np.linalg.solve(B, F.gradient(x))
        s, y = moved - x, F.gradient(moved) - F.gradient(x)
        B = B + np.outer(y, y) / (y @ s) - np.outer(B @ s, B @ s) / (s @ B @ s)
        x = moved
        np.testing.assert_allclose(state.x, x, rtol=1e-10)


def test_every_matrix_meets_its_secant_equation():
    problem, F = make_pair(batch_size=4)
    method = IQN()
    state = method.init(problem, start(problem))
    last = method.run_pass(problem, state, np.arange(problem.n_components))
    after = method.run_pass(problem, last, np.arange(problem.n_components))
    for i, B in enumerate(after.matrices):
        z, w = last.anchors[i], after.anchors[i]
        y = F.loss_gradient(i, w) - F.loss_gradient(i, z) + F.l2 * (w - z)
        np.testing.assert_allclose(B @ (w - z), y, rtol=1e-8, atol=1e-12)


def test_a_component_seen_twice_at_one_point_keeps_its_matrix():
    problem, F = make_pair(loss="squared", batch_size=23)
    x = minimize(problem, method="newton", tol=1e-14).x
    state = IQN().init(problem, x)
    after = IQN().run_pass(problem, state._replace(gradient=np.zeros(problem.dim)), np.zeros(1, dtype=np.int64))
    np.testing.assert_array_equal(after.matrices, state.matrices)
    assert F.optimality(after.x) < 1e-13


def test_converges_superlinearly():
    problem, F = make_pair(n=100, d=4, alpha=0.01, batch_size=10)
    _, states = passes_of(IQN(), problem, np.zeros(4), n_passes=25, sampling="shuffled-once")
    sizes = np.array([F.optimality(state.x) for state in states])
    last = sizes[sizes > 1e-13]
    ratios = last[1:] / last[:-1]
    assert np.median(ratios[-3:]) < 0.5 * np.median(ratios[:3])
    assert ratios.min() < 0.05


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_converges_from_far_away_without_a_step_to_tune(scale, alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6))
    problem = Problem.linear(X, np.sign(X @ rng.standard_normal(6)), alpha=alpha)
    result = minimize(problem, scale * rng.standard_normal(6), method="iqn", tol=1e-9, max_iter=200)
    assert result.success, result.message


def test_counts():
    problem, _ = make_pair(batch_size=9)
    _, states = passes_of(IQN(), problem, start(problem))
    assert [(state.n_gradients, state.n_hessians) for state in states] == [(3 * k, 3) for k in (2, 3, 4, 5)]
    _, states = passes_of(IQN(initial=1.0), problem, start(problem), n_passes=1)
    assert states[0].n_hessians == 0


def test_refuses_matrices_that_do_not_fit():
    problem, _ = make_pair(n=1000, d=10)
    method = IQN(max_gigabytes=1e-4)
    message = r"iqn needs 0.0008 GB for a 10 x 10 matrix for each of 1000 components.*at least 8"
    with pytest.raises(ValueError, match=message):
        method.init(problem, np.zeros(10))
    assert method.default_batch_size(problem) == 8
    method.init(problem.batched(8), np.zeros(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 1.5}, "step_size must be at most 1"),
        ({"initial": 0.0}, "initial must be > 0"),
        ({"max_gigabytes": -1.0}, "max_gigabytes must be > 0"),
    ],
)
def test_refuses_parameters_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        IQN(**options)
