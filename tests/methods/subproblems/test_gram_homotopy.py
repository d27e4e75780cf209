"""Minimisers along the path of the strengths: against the conditions of the minimum."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from finitesum.methods.subproblems import gram_homotopy
from finitesum.methods.subproblems.gram_homotopy import Lost, Path


def model(n, d, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    return rows.T @ rows / n, rows.T @ rng.standard_normal(n) / n, rng.uniform(0.5, 2.0, d)


def require_minimum(gram, right, quadratic, thresholds, w, tolerance=1e-12):
    """The slopes of what is not 0 are those of the penalty, those of the rest within it."""
    left = right - gram @ w - quadratic * w
    scale = np.abs(right).max()
    on = w != 0.0
    assert np.abs(left - thresholds * np.sign(w))[on].max(initial=0.0) <= tolerance * scale
    assert (np.abs(left[~on]) <= thresholds[~on] + tolerance * scale).all()


@given(st.integers(2, 12), st.integers(1, 20), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3]))
@settings(max_examples=40)
def test_each_strength_is_solved(n, d, seed, l2):
    """More and fewer coordinates than rows, with and without squares, each with a weight of its own."""
    gram, right, weights = model(n, d, seed)
    quadratic, thresholds = l2 * weights, weights
    highest = float(np.abs(right / thresholds).max())
    path = Path(gram, right, quadratic, thresholds, highest, np.zeros(d))
    for strength in highest * np.logspace(0.0, -2.0, 7):
        w = path.at(strength)
        require_minimum(gram, right, strength * quadratic, strength * thresholds, w)
        assert l2 > 0.0 or np.count_nonzero(w) <= n
    assert w.any()


def test_from_a_point_near_a_minimum():
    gram, right, weights = model(50, 8)
    zero = np.zeros(8)
    first = Path(gram, right, zero, weights, 5.0, zero).at(0.1)
    start = np.where(first != 0.0, first * (1.0 + 1e-6), 0.0)
    before = start.copy()
    w = Path(gram, right, zero, weights, 0.1, start).at(0.01)
    require_minimum(gram, right, zero, 0.01 * weights, w)
    np.testing.assert_array_equal(start, before)


def test_a_coordinate_without_threshold_never_leaves():
    gram, right, weights = model(50, 8)
    weights[3] = 0.0
    start = np.zeros(8)
    start[3] = right[3] / gram[3, 3]
    path = Path(gram, right, np.full(8, 1e-3), weights, 10.0, start)
    for strength in (1.0, 0.1, 0.01):
        w = path.at(strength)
        assert w[3] != 0.0
        require_minimum(gram, right, strength * np.full(8, 1e-3), strength * weights, w)


def test_a_column_that_depends_on_the_others_stays_at_0():
    """A duplicate reaches its threshold with the other; from a point at which both are not 0 there is no path."""
    gram, right, weights = model(50, 8)
    twice = np.r_[0:8, 2]
    gram, right, weights = gram[np.ix_(twice, twice)], right[twice], weights[twice]
    path = Path(gram, right, np.zeros(9), weights, 5.0, np.zeros(9))
    for strength in (1e-1, 1e-2, 1e-3):
        w = path.at(strength)
        assert w[2] == 0.0 or w[8] == 0.0
        require_minimum(gram, right, np.zeros(9), strength * weights, w)
    assert w[2] + w[8] != 0.0
    both = w.copy()
    both[2] = both[8] = 0.5 * (w[2] + w[8])
    with pytest.raises(Lost):
        Path(gram, right, np.zeros(9), weights, 1e-3, both)


def test_columns_of_categories():
    """Products of columns of zeros and ones less their means, which depend on each other: most are followed."""
    assert sum(categories_are_followed(seed) for seed in range(40)) >= 20


def categories_are_followed(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(3, 13), rng.integers(2, 9)
    codes = rng.integers(0, 3, (n, d))
    rows = np.concatenate([codes == k for k in range(3)], axis=1) + 0.0
    rows -= rows.mean(axis=0)
    gram, right, zero = rows.T @ rows / n, rows.T @ rng.standard_normal(n) / n, np.zeros(3 * d)
    highest = float(np.abs(right).max())
    try:
        path = Path(gram, right, zero, zero + 1.0, highest, zero)
        for strength in highest * np.logspace(0.0, -2.0, 7):
            require_minimum(gram, right, zero, zero + strength, path.at(strength), 1e-8)
    except Lost:  # never a wrong point
        return False
    return True


def test_what_is_no_minimum_ends_the_path(monkeypatch):
    gram, right, weights = model(50, 8)
    path = Path(gram, right, np.zeros(8), weights, 5.0, np.zeros(8))
    monkeypatch.setattr(gram_homotopy, "LACKING", -1.0)
    with pytest.raises(Lost):
        path.at(0.1)


def test_a_circle_ends_the_path(monkeypatch):
    gram, right, weights = model(50, 8)
    monkeypatch.setattr(gram_homotopy, "MOST_PIECES", -20)
    with pytest.raises(Lost):
        Path(gram, right, np.zeros(8), weights, 5.0, np.zeros(8)).at(0.1)
