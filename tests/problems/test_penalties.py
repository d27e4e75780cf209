"""Penalties: the prox is the argmin that it says it is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finitesum.problems.penalties import L1, L2, ElasticNet, Penalty, Zero, elastic_net

numbers = st.floats(-1e3, 1e3)
strengths = st.floats(0.0, 50.0)
steps = st.floats(1e-6, 1e3)


@given(x=numbers, l1=strengths, l2=strengths, step=steps)
def test_the_prox_fulfils_the_optimality_condition(x, l1, l2, step):
    v = ElasticNet(l1, l2).prox_at(x, step)  # of the part that is not quadratic
    if v == 0.0:
        assert abs(x) <= step * l1
    else:
        assert math.copysign(1.0, v) == math.copysign(1.0, x)
        assert step * l1 * math.copysign(1.0, v) + (v - x) == pytest.approx(0.0, abs=1e-12 * (abs(x) + step * l1))


@pytest.mark.parametrize("x", [-3.0, -0.4, 0.0, 0.1, 0.5, 2.0])
@pytest.mark.parametrize(("l1", "step"), [(0.0, 0.7), (0.5, 1.0), (2.0, 0.25), (1.0, 10.0)])
def test_the_prox_is_the_best_point_of_a_fine_grid(x, l1, step):
    grid = np.arange(-4_000, 4_001) / 1_000.0
    costs = l1 * np.abs(grid) + (grid - x) ** 2 / (2.0 * step)
    assert ElasticNet(l1, 9.0).prox_at(x, step) == pytest.approx(grid[np.argmin(costs)], abs=5.1e-4)


def test_without_l1_the_prox_is_the_identity_to_the_last_bit():
    for x in (-1e300, -0.1, 0.0, 1 / 3, 5e-324):
        assert ElasticNet(0.0, 3.0).prox_at(x, 0.3) == x


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_a_divergence_is_not_hidden_by_the_prox(l1):
    assert math.isnan(ElasticNet(l1, 1.0).prox_at(math.nan, 0.5))
    assert ElasticNet(l1, 1.0).prox_at(-math.inf, 0.5) == -math.inf


def test_values_and_strengths():
    penalty = elastic_net(0.8, 0.25)
    assert (penalty.lasso(), penalty.ridge()) == pytest.approx((0.2, 0.6), rel=1e-15)
    assert penalty.penalty_value(-3.0) == pytest.approx(0.2 * 3.0 + 0.3 * 9.0, rel=1e-15)
    assert (Zero(), L1(0.3), L2(0.3)) == (ElasticNet(), ElasticNet(0.3, 0.0), ElasticNet(0.0, 0.3))
    assert isinstance(penalty, Penalty)
    assert elastic_net(2, 1) == ElasticNet(2.0, 0.0)
    assert type(elastic_net(2, 1).l1) is float


@pytest.mark.parametrize("alpha", [-1e-9, math.nan, math.inf, -math.inf, "1", None])
def test_bad_strengths_are_refused(alpha):
    for make in (L1, L2, elastic_net):
        with pytest.raises(ValueError, match=f"^alpha must be a number >= 0 and finite, got {alpha!r}"):
            make(alpha)


@pytest.mark.parametrize("l1_ratio", [-0.1, 1.0000001, math.nan, "l1", None])
def test_bad_ratios_are_refused(l1_ratio):
    with pytest.raises(ValueError, match=rf"^l1_ratio must be a number in \[0, 1\], got {l1_ratio!r}"):
        elastic_net(1.0, l1_ratio)
