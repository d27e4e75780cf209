"""Searches along a line: where they end, and how many slopes they ask for."""

import math

import numpy as np
import pytest

from finitesum.methods.subproblems.line_search import with_gentler_slope

#: Slopes of convex functions along a line, by t: smooth, with pieces, with an overflow, and that of a far minimum.
SLOPES = {
    "quadratic": lambda t: 3.0 * t - 1.0,
    "exponential": lambda t: math.exp(4.0 * t) - 5.0,
    "steep": lambda t: math.exp(min(60.0 * t, 700.0)) - 2.0,
    "overflow": lambda t: math.inf if t > 1e-3 else 1e3 * t - 0.5,
    "very steep": lambda t: math.exp(min(1e5 * t, 700.0)) - 2.0,
    "very far off": lambda t: 1e40 * t - 1.0,
    "of another size": lambda t: -1.0 if t < 7e-29 else min(1e28 * (t - 7e-29), 3.0) - 0.5,
    "undefined": lambda t: math.nan if t > 0.5 else t - 0.4,
    "undefined within": lambda t: math.nan if 0.45 < t < 0.9 else math.exp(4.0 * t) - 5.0,
    "pieces": lambda t: -1.0 + 0.2 * t + 3.0 * max(t - 0.3, 0.0) + 9.0 * max(t - 0.35, 0.0),
    "jump": lambda t: -1.0 if t < 0.2 else -1e-9,
    "far": lambda t: 1e-4 * t - 1.0,
    "saturated": lambda t: math.tanh(40.0 * (t - 0.9)),
}


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("fraction", [0.5, 0.01])
@pytest.mark.parametrize("is_known", [False, True])
def test_searches_end_at_a_slope_between_their_bounds(name, fraction, is_known):
    slope, asked = SLOPES[name], []
    first = slope(0.0)
    t = with_gentler_slope(lambda t: asked.append(t) or slope(t), first, fraction, slope(1.0) if is_known else None)
    assert fraction * first <= slope(t) <= 0.0
    assert (1.0 in asked) is not is_known
    assert len(asked) <= 30


@pytest.mark.parametrize("seed", range(20))
def test_slopes_of_a_newton_step_that_is_somewhat_long_take_few(seed):
    """The slope at t = 1, which is known, and two or three more."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.5, 3.0), rng.uniform(1.1, 3.0)
    asked = []
    slope = lambda t: math.expm1(a * t) - math.expm1(a / b)  # noqa: E731 - 0 at 1 / b
    t = with_gentler_slope(lambda t: asked.append(t) or slope(t), slope(0.0), 0.01, slope(1.0))
    assert 0.01 * slope(0.0) <= slope(t) <= 0.0
    assert len(asked) <= 5


def test_a_slope_with_a_jump_at_0_leaves_the_search_in_front_of_it():
    t = with_gentler_slope(lambda t: -1.0 if t < 0.3 else 1.0, -1.0, 0.01)
    assert 0.29 < t < 0.3
