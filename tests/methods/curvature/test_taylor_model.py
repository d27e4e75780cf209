"""The Taylor model equals exact sums over its anchors, whatever the visits were."""

from typing import NamedTuple

import numpy as np
import pytest
from contracts.problems import FORMATS, make_pair

from finitesum.core.jit import COMPILED, kernel
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.curvature import taylor_model as taylor
from finitesum.methods.curvature.taylor_model import (
    TaylorModel,
    empty_model,
    full_hessian,
    full_model,
    model_gradient,
    rebuilt,
)

SETTINGS = [
    {},
    {"batch_size": 4, "intercept": True, "weighted": True},
    {"loss": "poisson", "weighted": True, "batch_size": 3},
    {"loss": "squared-hinge", "intercept": True, "alpha": 0.3, "l1_ratio": 0.4},
    {"loss": "huber", "weighted": True},
    {"d": 33, "n": 40, "intercept": True, "weighted": True, "batch_size": 3},
]
formats = pytest.mark.parametrize("form", FORMATS)
settings = pytest.mark.parametrize("setting", SETTINGS, ids=str)


@kernel
def _visit_each(linear_sum, model, order, points):
    """Anchor component order[k] at points[k]."""
    for k in range(order.size):
        taylor.visit(linear_sum, model, order[k], points[k])
    taylor.finish_visits(model)


class Visited(NamedTuple):
    model: TaylorModel
    anchors: dict  # component -> point


def visited(problem, n_visits, seed=0):
    rng = np.random.default_rng(seed)
    model = empty_model(problem)
    order = rng.integers(0, problem.n_components, n_visits)
    points = rng.standard_normal((n_visits, problem.dim))
    _visit_each(problem.view, taylor.opened(model), order, points)
    return Visited(model, dict(zip(order.tolist(), points, strict=True)))


def exact_sums(oracle, anchors):
    """b and H from their definition: one Taylor model per visited component, and the quadratic penalty."""
    b, H = np.zeros(oracle.dim), np.diag(oracle.l2).astype(float)
    for j, anchor in anchors.items():
        hessian = oracle.loss_hessian(j, anchor) / oracle.m
        b += oracle.loss_gradient(j, anchor) / oracle.m - hessian @ anchor
        H += hessian
    return b, H


@formats
@settings
@pytest.mark.parametrize("n_visits", [0, 5, 150])
def test_the_aggregates_are_exact_sums_over_the_anchors(form, setting, n_visits):
    problem, oracle = make_pair(form, **setting)
    model, anchors = visited(problem, n_visits)
    b, H = exact_sums(oracle, anchors)
    np.testing.assert_allclose(model.linear, b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(full_hessian(model), H, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.triu(model.hessian, 1), 0.0)
    y = np.random.default_rng(9).standard_normal(problem.dim)
    np.testing.assert_allclose(model_gradient(model, y), b + H @ y, rtol=1e-12, atol=1e-12)


@formats
def test_what_is_kept_of_a_row_is_that_of_its_last_anchor(form):
    problem, oracle = make_pair(form, weighted=True, intercept=True, batch_size=4)
    model, anchors = visited(problem, 9, seed=4)
    assert 1 < len(anchors) < problem.n_components
    for j, block in enumerate(oracle.blocks):
        if j in anchors:
            u = oracle.Z[block] @ anchors[j]
            at = u + oracle.offsets[block], oracle.y[block]
            np.testing.assert_allclose(model.margins[block], u, rtol=1e-13, atol=1e-14)
            np.testing.assert_allclose(model.slopes[block], oracle.d1(*at), rtol=1e-13)
            np.testing.assert_allclose(model.curvatures[block], oracle.d2(*at), rtol=1e-13)
        else:
            for part in (model.margins, model.slopes, model.curvatures):
                np.testing.assert_array_equal(part[block], 0.0)


@formats
@settings
def test_rebuilt_sums_are_the_same_up_to_rounding(form, setting):
    problem, _ = make_pair(form, **setting)
    model, _ = visited(problem, 300)
    fresh, n_hessians = rebuilt(problem, model)
    assert n_hessians == 0
    np.testing.assert_allclose(fresh.linear, model.linear, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(full_hessian(fresh), full_hessian(model), rtol=1e-11, atol=1e-11)
    for name in ("margins", "slopes", "curvatures"):
        np.testing.assert_array_equal(getattr(fresh, name), getattr(model, name))
    assert not np.shares_memory(fresh.hessian, model.hessian)


@formats
def test_rebuilding_takes_the_errors_of_large_old_terms_away(form):
    problem, oracle = make_pair(form, loss="poisson")
    model = empty_model(problem)
    order = np.tile(np.arange(problem.n_components), 2)
    points = np.zeros((order.size, problem.dim))
    points[: problem.n_components] = 20.0  # means up to exp(20) and far beyond, replaced by means of 1
    _visit_each(problem.view, taylor.opened(model), order, points)
    b, H = exact_sums(oracle, dict.fromkeys(range(oracle.m), np.zeros(oracle.dim)))
    fresh, _ = rebuilt(problem, model)
    np.testing.assert_allclose(fresh.linear, b, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(full_hessian(fresh), H, rtol=1e-13, atol=1e-14)
    assert np.abs(full_hessian(model) - H).max() > 1e-9  # so that there was something to take away


@formats
@settings
def test_a_visit_changes_the_model_gradient_by_the_residual_of_the_prediction(form, setting):
    problem, oracle = make_pair(form, **setting)
    model, anchors = visited(problem, 4 * problem.n_components, seed=1)
    rng = np.random.default_rng(2)
    for j in list(anchors)[:4]:
        y = rng.standard_normal(problem.dim)
        true = oracle.loss_gradient(j, y) / oracle.m
        predicted = (oracle.loss_gradient(j, anchors[j]) + oracle.loss_hessian(j, anchors[j]) @ (y - anchors[j])) / oracle.m
        before = model_gradient(model, y)
        _visit_each(problem.view, taylor.opened(model), np.array([j]), y[None, :])
        anchors[j] = y
        np.testing.assert_allclose(model_gradient(model, y) - before, true - predicted, rtol=1e-11, atol=1e-12)


@formats
@settings
def test_a_full_model_is_exact_at_its_anchor(form, setting):
    problem, oracle = make_pair(form, **setting)
    x = 0.5 * np.random.default_rng(3).standard_normal(problem.dim)
    model = full_model(problem, x)
    np.testing.assert_allclose(model_gradient(model, x), evaluate(problem, x).gradient, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(full_hessian(model), oracle.hessian(x), rtol=1e-12, atol=1e-13)


def test_the_intercept_is_not_penalised():
    problem, _ = make_pair(intercept=True, alpha=0.7)
    np.testing.assert_array_equal(np.diag(full_hessian(empty_model(problem))), [0.7] * 6 + [0.0])


def test_a_copy_is_its_own():
    problem, _ = make_pair()
    model, _ = visited(problem, 10)
    copy = taylor.copy_model(model)
    for one, other in zip(model, copy, strict=True):
        np.testing.assert_array_equal(one, other)
        assert not np.shares_memory(one, other)


@kernel
def _visit_flag(linear_sum, model, component, y):
    return taylor.visit(linear_sum, model, component, y)


@pytest.mark.compiled
@pytest.mark.filterwarnings("error" if COMPILED else "ignore:.*encountered in:RuntimeWarning")
def test_a_visit_returns_whether_its_derivatives_are_finite():
    problem, _ = make_pair(loss="poisson")
    heavy = int(np.argmax(np.abs(problem.rows.values).sum(axis=1)))
    good = np.zeros(problem.dim)
    bad = 1e4 * np.sign(problem.rows.values[heavy])
    assert _visit_flag(problem.view, taylor.opened(empty_model(problem)), heavy, good)
    assert not _visit_flag(problem.view, taylor.opened(empty_model(problem)), heavy, bad)
