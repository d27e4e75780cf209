"""Quadratic models with thresholds beside an intercept: columns far from 0 take no more passes than centred ones."""

import numpy as np
import pytest

from finitesum import Problem
from finitesum.methods.subproblems import quadratic_models
from finitesum.methods.subproblems.quadratic_models import minimise_model


def model_of(shift, seed=0, n=400, d=90):
    """Return the term of an elastic net, H and g at 0 of least squares, with columns at a distance from 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + shift
    y = X[:, :10] @ rng.standard_normal(10) + rng.standard_normal(n)
    table = np.column_stack([X, np.ones(n)])
    problem = Problem.linear(X, y, loss="squared", alpha=0.1, l1_ratio=0.9, fit_intercept=True)
    hessian = table.T @ table / n + np.diag(problem.term.quadratic)
    return problem.term, hessian, -table.T @ y / n


@pytest.mark.parametrize("shift", [0.0, 10.0])
@pytest.mark.parametrize("has_code", [True, False])
def test_models_beside_an_intercept_are_minimised_by_coordinate_descent(shift, has_code, monkeypatch):
    term, hessian, gradient = model_of(shift)
    if has_code:
        monkeypatch.setattr(quadratic_models.descend, "array_form", None)
    faces = []
    monkeypatch.setattr(quadratic_models, "minimised", lambda *given: faces.append(given) or given[4])
    y = np.zeros(gradient.size)
    w = minimise_model(term, hessian, gradient, y, 1e-7)
    assert term.optimality(w, gradient + hessian @ w) <= 1e-7
    assert not faces  # no active set is looked for


def test_an_intercept_that_follows_is_the_best_one():
    term, hessian, gradient = model_of(10.0)
    assert quadratic_models._is_far_from_centred(hessian)
    assert not quadratic_models._is_far_from_centred(model_of(0.0)[1])
    w, limits = np.zeros(gradient.size), term.intervals
    limits = limits.thresholds, limits.lower, limits.upper
    quadratic_models._descend_beside_intercept(hessian, w, gradient.copy(), *limits, (1, 1, 0.0))
    slope = gradient + hessian @ w
    assert abs(slope[-1]) <= 1e-10 * np.abs(gradient[-1])
    assert w[:-1].any()
