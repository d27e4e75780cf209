"""The prox-gradient mapping against rational arithmetic, also where w is so large that w - g is w."""

from fractions import Fraction

import numpy as np
import pytest

from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Simplex, Unconstrained
from finitesum.problems.penalties import MCP, ElasticNet
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import as_penalty

WEIGHTS = np.array([1.0, 2.0, 0.5, 1.5])


def rational(values):
    return [Fraction(float(v)) for v in np.atleast_1d(values)]


def shrunk(value, threshold):
    return max(abs(value) - threshold, Fraction(0)) * (1 if value > 0 else -1)


def with_sum(z, weights, total):
    """Return the projection onto weights'|y| <= total, or = total for y >= 0, by trying every number of nonzeros."""
    order = sorted(range(len(z)), key=lambda j: -abs(z[j]) / weights[j])
    for k in range(1, len(z) + 1):
        kept = order[:k]
        square = sum(weights[j] ** 2 for j in kept)
        theta = (sum(weights[j] * abs(z[j]) for j in kept) - total) / square
        if k == len(z) or abs(z[order[k]]) <= theta * weights[order[k]]:
            return [shrunk(v, theta * c) for v, c in zip(z, weights, strict=True)]
    raise AssertionError


def exact(term, w, g):
    """Return w - prox(w - g) in rational numbers."""
    w, g = rational(w), rational(g)
    z = [a - b for a, b in zip(w, g, strict=True)]
    c = term.constraint
    if isinstance(c, Unconstrained):
        p = [shrunk(v, t) for v, t in zip(z, rational(term.thresholds), strict=True)]
    elif isinstance(c, Box | LInfBall | NonNegative):
        low, high = (np.broadcast_to(b, len(z)) for b in c.bounds())
        p = [max(v, Fraction(float(a))) if np.isfinite(a) else v for v, a in zip(z, low, strict=True)]
        p = [min(v, Fraction(float(b))) if np.isfinite(b) else v for v, b in zip(p, high, strict=True)]
    elif isinstance(c, HalfSpace):
        a = rational(c.normal)
        excess = max(sum(x * y for x, y in zip(a, z, strict=True)) - Fraction(c.offset), 0) / sum(x * x for x in a)
        p = [v - excess * x for v, x in zip(z, a, strict=True)]
    elif isinstance(c, Simplex):
        shift = 1 - min(z)
        p = with_sum([v + shift for v in z], [Fraction(1)] * len(z), Fraction(c.total))
    else:
        weights = rational(np.ones(len(z)) if c.weights is None else c.weights)
        total = Fraction(c.radius)
        inside = sum(x * abs(v) for x, v in zip(weights, z, strict=True)) <= total
        p = z if inside else with_sum(z, weights, total)
    return np.array([float(a - b) for a, b in zip(w, p, strict=True)])


TERMS = {
    "l1": lambda size: (ElasticNet(0.3, 0.0), Unconstrained()),
    "weighted l1": lambda size: (as_penalty(ElasticNet(0.3, 0.0), 4, WEIGHTS), Unconstrained()),
    "box": lambda size: (ElasticNet(0.0, 0.0), Box(-size, 2.0 * size)),
    "linf": lambda size: (ElasticNet(0.0, 0.0), LInfBall(size)),
    "orthant": lambda size: (ElasticNet(0.0, 0.0), NonNegative()),
    "half-space": lambda size: (ElasticNet(0.0, 0.0), HalfSpace(WEIGHTS, size)),
    "l1-ball": lambda size: (ElasticNet(0.0, 0.0), L1Ball(size)),
    "weighted l1-ball": lambda size: (ElasticNet(0.0, 0.0), L1Ball(size, WEIGHTS)),
    "simplex": lambda size: (ElasticNet(0.0, 0.0), Simplex(size)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", TERMS)
def test_mappings_are_those_of_rational_arithmetic(name, seed):
    rng = np.random.default_rng(seed)
    term = ConvexTerm(*TERMS[name](1.0), n_columns=4)
    w = term.project(rng.standard_normal(4) * (rng.random(4) < 0.8))
    g = rng.standard_normal(4)
    np.testing.assert_allclose(term.mapping(w, g), exact(term, w, g), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1e20, 1e40])
@pytest.mark.parametrize("name", sorted(TERMS.keys() - {"simplex"}))
def test_mappings_keep_the_gradients_digits_at_any_size_of_w(name, size, seed):
    """On the boundary of a ball or a half-space of this size the digits of a sum are lost in w itself: w lies inside."""
    rng = np.random.default_rng(seed)
    term = ConvexTerm(*TERMS[name](size), n_columns=4)
    w = term.project(size * rng.standard_normal(4) * (rng.random(4) < 0.8))
    w *= 0.5 if "ball" in name or name == "half-space" else 1.0
    g = rng.standard_normal(4)
    np.testing.assert_allclose(term.mapping(w, g), exact(term, w, g), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1e20])
def test_the_l2_ball_keeps_the_tangent_part(size):
    ball = ConvexTerm(ElasticNet(0.0, 0.0), L2Ball(size), n_columns=3)
    w, g = np.array([size, 0.0, 0.0]), np.array([-5.0, 2.0, 0.0])
    np.testing.assert_allclose(ball.mapping(w, g)[1], 2.0 * size / np.hypot(size + 5.0, 2.0), rtol=1e-12)
    inside = np.array([0.25 * size, 0.0, 0.0])
    g *= min(1.0, size) / 10.0
    np.testing.assert_array_equal(ball.mapping(inside, g), g)


def test_penalties_known_by_their_prox_keep_the_gradient_where_they_are_flat():
    term = ConvexTerm(as_penalty(MCP(0.1, 3.0), 2), Unconstrained(), n_columns=2)
    np.testing.assert_allclose(term.mapping(np.array([1e30, -1e30]), np.array([0.5, -2.0])), [0.5, -2.0])


def test_a_large_point_is_not_a_minimum():
    """F(w) = log(1 + exp(-w)) + 0.001 |w| at w = -1e30: w - g is w, but the gradient is not 0."""
    term = ConvexTerm(ElasticNet(1e-3, 0.0), Unconstrained(), n_columns=1)
    assert term.optimality(np.array([-1e30]), np.array([-1.0])) == pytest.approx(1.001)
