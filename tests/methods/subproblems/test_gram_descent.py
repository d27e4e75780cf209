"""Coordinate descent for several strengths: against the conditions of the minimum."""

import numpy as np
import pytest

from finitesum.methods.subproblems.gram_descent import minimisers

TOL = 1e-9


def model(d=7):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, d))
    rows[:, -1] = 0.0  # a coordinate without curvature
    return rows.T @ rows / 30.0, rows.T @ rng.standard_normal(30) / 30.0, rng.random(d)


def test_each_strength_is_solved():
    gram, right, weights = model()
    quadratic, thresholds = 0.3 * weights, 0.7 * weights
    strengths = np.array([0.5, 0.1, 0.01])
    points, n_solved = minimisers(gram, right, strengths, quadratic, thresholds, TOL)
    assert n_solved == 3
    for strength, w in zip(strengths, points, strict=True):
        slopes = gram @ w - right + strength * quadratic * w
        size = strength * thresholds
        assert np.abs(slopes + size * np.sign(w))[w != 0.0].max(initial=0.0) <= TOL
        assert (np.abs(slopes)[w == 0.0] <= size[w == 0.0] + TOL).all()
    assert np.count_nonzero(points[0]) < np.count_nonzero(points[-1])


@pytest.mark.parametrize("strength", [0.7, 0.02])
def test_sweeps_on_a_part_of_the_matrix_end_at_the_minimum(strength):
    """Few coordinates are not 0, of which sweeps see a part of the matrix, or most are."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 40))
    gram, right = rows.T @ rows / 300.0, rows.T @ rng.standard_normal(300) / 300.0
    largest = np.abs(right).max()
    (w,), _ = minimisers(gram, right, np.array([strength * largest]), np.zeros(40), np.ones(40), TOL)
    slopes, size = gram @ w - right, strength * largest
    assert (np.count_nonzero(w) < 20) == (strength > 0.1)
    assert np.abs(slopes + size * np.sign(w))[w != 0.0].max() <= TOL
    assert (np.abs(slopes)[w == 0.0] <= size + TOL).all()


def test_what_takes_many_sweeps_is_the_last_one():
    """Rows that are fewer than coordinates: weak penalties take thousands of sweeps, and are left to others."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((20, 60))
    gram, right = rows.T @ rows / 20.0, rows.T @ rng.standard_normal(20) / 20.0
    strengths = np.abs(right).max() * np.logspace(0.0, -4.0, 10)
    points, n_solved = minimisers(gram, right, strengths, np.zeros(60), np.ones(60), TOL)
    assert 0 < n_solved < 9
    assert np.isfinite(points[: n_solved + 1]).all()
    assert np.isnan(points[n_solved + 1 :]).all()
