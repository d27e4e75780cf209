"""Models of large working sets: minimisers between bounds, and with sums of outputs that differ in their coefficients."""

import numpy as np
import pytest

from finitesum.constraints import Box, L1Ball, Simplex
from finitesum.methods.subproblems import active_set, sums_models
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.term import ConvexTerm

D, K = 30, 3


def optimality(intervals, slope, w):
    """Return by how much a step along a slope moves w in each output's part of the set, at most."""
    sum_of, moved = np.asarray(intervals.spread(np.arange(intervals.n_sums))), w - slope
    for k in range(intervals.n_sums):
        here = np.flatnonzero((sum_of == k) & (intervals.sizes > 0.0))
        low, high, v = -10.0 - np.abs(moved[here]).max(), 10.0 + np.abs(moved[here]).max(), moved[here].copy()
        if not intervals.is_equal:
            low = 0.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            if intervals.is_equal:
                moved[here] = np.maximum(v - middle, 0.0)
            else:
                moved[here] = np.sign(v) * np.maximum(np.abs(v) - middle, 0.0)
            low, high = (middle, high) if np.abs(moved[here]).sum() > intervals.total else (low, middle)
    return np.abs(moved - w).max()


@pytest.mark.parametrize("rank", [20, 200])
@pytest.mark.parametrize("constraint", [L1Ball(1.0), L1Ball(40.0), Simplex(1.0)], ids=repr)
def test_the_minimiser_with_ragged_outputs(constraint, rank):
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(K * (D + 1))[:50])
    chosen = np.union1d(chosen, np.arange(K) * (D + 1) + D)  # intercepts
    intervals = ConvexTerm(ElasticNet(0.0, 0.0), constraint, D, 1, K).intervals.on(chosen)
    rows = rng.standard_normal((rank, chosen.size)) * 10.0 ** rng.uniform(-1.0, 1.0, chosen.size)
    hessian, gradient = rows.T @ rows / rank, rows.T @ rng.standard_normal(rank)
    y = np.zeros(chosen.size)
    if intervals.is_equal:
        sum_of = intervals.sum_of
        counted = intervals.sizes > 0.0
        y = np.where(counted, 1.0 / np.bincount(sum_of, counted)[sum_of], 0.0)
    w = sums_models.minimised(intervals, hessian, gradient, y, 1e-10)
    assert optimality(intervals, gradient + hessian @ (w - y), w) <= 1e-8 * np.abs(gradient).max()
    other = active_set.minimised(intervals, hessian, gradient, y, y, 1e-10)

    def value(end):
        return gradient @ (end - y) + 0.5 * (end - y) @ hessian @ (end - y)

    assert value(w) == pytest.approx(value(other), rel=1e-9)


def test_the_minimiser_between_bounds():
    rng = np.random.default_rng(1)
    intervals = ConvexTerm(ElasticNet(0.0, 0.0), Box(-0.3, 0.2), D, 0, K).intervals.on(np.arange(0, K * D, 2))
    rows = rng.standard_normal((100, intervals.lower.size))
    hessian, gradient = rows.T @ rows / 100, rng.standard_normal(intervals.lower.size)
    y = np.zeros(gradient.size)
    w = sums_models.minimised(intervals, hessian, gradient, y, 1e-10)
    slope = gradient + hessian @ w
    assert np.abs(np.clip(w - slope, -0.3, 0.2) - w).max() <= 1e-12
