"""SVRG2 against its transcription with explicit matrices, and what its approximations are meant to do."""

import numpy as np
import pytest
from contracts.problems import ident, make_pair, passes_of, start
from oracles import svrg2 as oracle

from finitesum import minimize
from finitesum.methods import FG, SVRG2
from finitesum.methods.curvature.snapshot_curvature import sketched_hessian
from finitesum.methods.curvature.svrg2 import SVRG2State
from finitesum.methods.snapshot import take_snapshot

FORMATS = ("dense", "csr32")  # other losses, index types and constraints go through the contract table
KINDS = ("full", "2D", "2Dsec", "CM", "AM")
SETTINGS = [
    {},
    {"batch_size": 3, "intercept": True, "weighted": True},
    {"batch_size": 2, "weighted": True},
    {"l1_ratio": 0.5, "batch_size": 3, "intercept": True},
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize(("kind", "sketch"), [*((kind, "gauss") for kind in KINDS), ("CM", "prev"), ("AM", "prev")])
def test_equals_its_equations(form, setting, kind, sketch):
    problem, F = make_pair(form, **setting)
    x0 = start(problem)
    method = SVRG2(hessian=kind, step_size=0.1, rank=3, sketch=sketch, seed=11)
    orders, states = passes_of(method, problem, x0)
    expected = oracle.svrg2(F, x0, orders, 0.1, kind, sketch=sketch, seed=11)
    tolerance = 1e-12 if sketch == "gauss" else 1e-8  # stretches of an epoch have nearly the same direction
    for state, x in zip(states, expected, strict=True):
        np.testing.assert_allclose(state.x, x, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_approximations_average_to_the_whole(kind):
    _, F = make_pair(batch_size=4, intercept=True, weighted=True)
    rng = np.random.default_rng(2)
    w, step, S = rng.standard_normal(F.dim), rng.standard_normal(F.dim), rng.standard_normal((F.dim, 3))
    parts, A = oracle.approximations(F, w, kind, step, S)
    np.testing.assert_allclose(sum(parts) / F.m, A, atol=1e-14)


def test_action_matching_is_symmetric_and_acts_exactly_on_the_sketch():
    _, F = make_pair(batch_size=4)
    rng = np.random.default_rng(2)
    w, S = rng.standard_normal(F.dim), rng.standard_normal((F.dim, 3))
    parts, _ = oracle.approximations(F, w, "AM", None, S)
    for A, H in zip(parts, oracle.component_hessians(F, w), strict=True):
        np.testing.assert_allclose(A, A.T, atol=1e-13)
        np.testing.assert_allclose(A @ S, H @ S, atol=1e-13)


def test_a_sketch_is_a_root_and_leaves_vanishing_directions_out():
    problem, F = make_pair("csr32", weighted=True, intercept=True)
    x = start(problem)
    columns = np.random.default_rng(3).standard_normal((3, problem.dim))
    columns = np.vstack([columns, columns[:1] - columns[1:2], columns[:1]])  # five that span three dimensions
    curvature = sketched_hessian(problem, take_snapshot(problem, x), columns)
    H = F.hessian(x)
    np.testing.assert_allclose(curvature.image, curvature.sketch @ H, atol=1e-12)
    products = curvature.sketch @ H @ curvature.sketch.T
    np.testing.assert_allclose(products, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_one_component_is_the_gradient_method(kind):
    problem, _ = make_pair(batch_size=23, intercept=True)
    x0 = start(problem)
    _, reduced = passes_of(SVRG2(hessian=kind, step_size=0.3), problem, x0)
    _, full = passes_of(FG(step_size=0.3), problem, x0)
    np.testing.assert_allclose(reduced[-1].x, full[-1].x, rtol=1e-11, atol=1e-13)


def test_full_hessians_leave_no_noise_on_quadratics():
    problem, F = make_pair(loss="squared", alpha=0.1, weighted=True)
    x = x0 = start(problem)
    _, states = passes_of(SVRG2(step_size=0.2), problem, x0, n_passes=1)
    for _ in range(F.m):
        x = x - 0.2 * F.gradient(x)
    np.testing.assert_allclose(states[0].x, x, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, 20.0])
def test_converges_without_a_step_to_tune(kind, scale):
    problem, F = make_pair("csr32", n=80, d=5, alpha=0.01, intercept=True)
    result = minimize(problem, start(problem, scale), method="svrg2", options={"hessian": kind}, tol=1e-9, max_iter=2000)
    assert result.success, result.message
    assert F.optimality(result.x) <= 1.01e-9


def test_the_step_of_full_hessians_follows_their_largest_eigenvalue():
    problem, F = make_pair(n=80, alpha=0.01)
    _, states = passes_of(SVRG2(), problem, np.zeros(problem.dim), n_passes=6)
    for state in states:
        largest = np.linalg.eigvalsh(F.hessian(state.x))[-1]
        assert state.curvature.eigenvalue == pytest.approx(largest, rel=1e-10)
        assert state.step_size <= 1.0 / largest * (1 + 1e-12)


def test_sketches_depend_on_seed_and_snapshot_only():
    problem, _ = make_pair(batch_size=2)
    x0 = start(problem)
    _, first = passes_of(SVRG2(hessian="AM", rank=2, seed=1), problem, x0)
    _, again = passes_of(SVRG2(hessian="AM", rank=2, seed=1), problem, x0)
    _, other = passes_of(SVRG2(hessian="AM", rank=2, seed=2), problem, x0)
    assert first[-1].x.tobytes() == again[-1].x.tobytes()
    assert np.abs(first[-1].x - other[-1].x).max() > 1e-6
    assert np.abs(first[0].curvature.sketch - first[1].curvature.sketch).max() > 1e-3


def test_counts_and_estimate():
    problem, F = make_pair(batch_size=3)
    m = problem.n_components
    _, states = passes_of(SVRG2(hessian="2D", step_size=0.1), problem, start(problem), n_passes=3)
    assert [(state.n_gradients, state.n_hessians) for state in states] == [(m + 2 * m * k, m + m * k) for k in (1, 2, 3)]
    assert isinstance(states[0], SVRG2State)
    assert SVRG2().estimate(problem, states[-1]) == pytest.approx(F.optimality(states[-1].x), rel=1e-11)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hessian": "half"}, "hessian must be one of full, 2D, 2Dsec, CM, AM"),
        ({"rank": 0}, "rank must be a whole number >= 1"),
        ({"sketch": "magic"}, "sketch must be one of gauss, prev"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"step_size": -0.1}, "step_size must be > 0"),
    ],
)
def test_refuses_parameters_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        SVRG2(**options)


def test_a_step_that_is_too_long_ends_as_divergence():
    """The Hessian of a diverged iterate is not finite: no eigenvalue is asked of it."""
    problem, _ = make_pair("dense", "poisson", n=30)
    with np.errstate(over="ignore", invalid="ignore"):
        result = minimize(problem, method=SVRG2(step_size=1e3), max_iter=50)
    assert result.reason.name == "DIVERGED"
