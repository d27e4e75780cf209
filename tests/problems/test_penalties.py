"""Penalties: the prox is the argmin that it says it is."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from finitesum import Problem
from finitesum.constraints import L1Ball
from finitesum.problems.penalties import L1, L2, MCP, PENALTIES, SCAD, ElasticNet, GroupLasso, Penalty, Zero, elastic_net
from finitesum.problems.term_penalties import ElasticNetByProx, as_penalty

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


SEPARABLE = [MCP(1.0, 3.0), MCP(0.7, 0.5), MCP(0.0, 2.0), SCAD(1.0, 3.7), SCAD(0.4, 2.1), ElasticNetByProx(0.5, 2.0)]


@pytest.mark.parametrize("step", [0.05, 0.5, 1.0, 1.1, 3.0, 10.0])
@pytest.mark.parametrize("penalty", SEPARABLE, ids=repr)
def test_each_prox_is_no_worse_than_any_point_of_a_fine_grid(penalty, step):
    grid = np.arange(-8_000, 8_001) / 1_000.0
    values = np.array([penalty.penalty_value(w) for w in grid])
    for v in (-7.0, -3.7, -2.0, -1.04, -0.3, 0.0, 0.2, 0.9, 1.5, 2.5, 3.3, 6.0):
        costs = values + (grid - v) ** 2 / (2.0 * step)
        w = penalty.prox_at(v, step)
        cost = penalty.penalty_value(w) + (w - v) ** 2 / (2.0 * step)
        assert cost <= costs.min() + 1e-12
        assert penalty.prox_at(-v, step) == -w
    assert math.isnan(penalty.prox_at(math.nan, step))


@pytest.mark.parametrize("penalty", [MCP(1.0, 3.0), MCP(0.7, 0.5), SCAD(1.0, 3.7), SCAD(0.4, 2.1)], ids=repr)
def test_weak_convexity_is_the_least_that_makes_a_penalty_convex(penalty):
    grid = np.linspace(-6.0, 6.0, 4001)
    values = np.array([penalty.penalty_value(w) for w in grid])

    def least_bend(curvature):
        return np.diff(values + 0.5 * curvature * grid**2, 2).min()

    assert least_bend(penalty.weak_convexity()) >= -1e-12
    assert least_bend(0.99 * penalty.weak_convexity()) < -1e-9


@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_the_prox_of_groups_is_no_worse_than_points_around_it(l1):
    groups = as_penalty(GroupLasso(1.0, [2, 1, 2, 1, 2], l1), 5)
    rng = np.random.default_rng(0)
    for _ in range(20):
        v, step = 2.0 * rng.standard_normal(5), float(rng.random() + 0.1)
        w = v.copy()
        groups.apply_prox(w, step)

        def cost(u, v=v, step=step):
            return groups.penalty_total(u, 0.0) + (u - v) @ (u - v) / (2.0 * step)

        tries = w + rng.standard_normal((200, 5)) * 10.0 ** rng.uniform(-6, 0, (200, 1))
        assert cost(w) <= min(cost(u) for u in [*tries, v, np.zeros(5), w * [1, 0, 1, 0, 1], w * [0, 1, 0, 1, 0]]) + 1e-13
    assert groups.penalty_total(np.array([3.0, 0.0, 4.0, 2.0, 0.0]), 0.0) == pytest.approx(
        (1.0 - l1) * (math.sqrt(3) * 5.0 + math.sqrt(2) * 2.0) + l1 * 9.0
    )


REFUSED = {
    "gamma of MCP": ({"penalty": MCP(0.1, 0.0)}, ValueError, r"gamma of MCP must be > 0 and finite, got 0\.0"),
    "gamma of SCAD": ({"penalty": SCAD(0.1, 2.0)}, ValueError, r"gamma of SCAD must be > 2 and finite, got 2\.0"),
    "NaN": ({"penalty": MCP(math.nan)}, ValueError, "alpha of MCP must be a finite number, got nan"),
    "strength": ({"penalty": SCAD(-1.0)}, ValueError, r"alpha of SCAD must be >= 0, got -1\.0\. 0 is no penalty"),
    "text": ({"penalty": "mcp"}, TypeError, r"penalty must be one such as MCP\(0\.1\) .*, got 'mcp'"),
    "two penalties": ({"penalty": MCP(0.1), "alpha": 1.0}, ValueError, "penalty goes without alpha, l1_ratio and groups"),
    "weights of another length": (
        {"alpha": 1.0, "penalty_weights": [1.0]},
        ValueError,
        r"penalty_weights must have shape \(2,\), a weight a column, got \(1,\)",
    ),
    "negative weights": (
        {"alpha": 1.0, "penalty_weights": [1.0, -1.0]},
        ValueError,
        r"penalty_weights must be >= 0 and finite, got -1\.0\. 0 leaves a coefficient free",
    ),
    "text as weights": ({"penalty_weights": ["a", "b"]}, ValueError, "penalty_weights must hold 2 numbers: "),
    "groups of another length": ({"groups": [1]}, ValueError, r"groups must have shape \(2,\), a label a column"),
    "weights with groups": (
        {"groups": [1, 2], "penalty_weights": [1.0, 1.0]},
        ValueError,
        "penalty_weights must be left out with groups",
    ),
    "a set": ({"penalty": MCP(0.1), "constraint": L1Ball(1.0)}, ValueError, "a constraint goes with an l2 penalty alone"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_penalty_is_refused(what):
    arguments, error, message = REFUSED[what]
    with pytest.raises(error, match=f"^{message}"):
        Problem.linear(np.eye(2), [0.0, 1.0], loss="squared", **arguments)


def test_fingerprints_tell_penalties_apart():
    def fingerprint(**arguments):
        return Problem.linear(np.eye(3), np.arange(3.0), loss="squared", **arguments).fingerprint

    ones = np.ones(3)
    found = [
        fingerprint(alpha=1.0),
        fingerprint(alpha=1.0, penalty_weights=ones),
        fingerprint(alpha=1.0, penalty_weights=[1.0, 2.0, 1.0]),
        fingerprint(penalty=MCP(1.0)),
        fingerprint(penalty=SCAD(1.0)),
        fingerprint(alpha=1.0, groups=[0, 0, 1]),
        fingerprint(alpha=1.0, groups=[0, 1, 1]),
    ]
    assert len(set(found)) == len(found)
    assert fingerprint(penalty=MCP(1)) == fingerprint(penalty=MCP(1.0))


def test_every_penalty_of_the_table_is_made_by_its_name():
    for name, (cls, bounds) in PENALTIES.items():
        assert cls.__name__ == name
        assert set(bounds) <= set(cls._fields)
