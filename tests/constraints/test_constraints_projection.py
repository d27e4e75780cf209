"""Projections: against the sorting reference, a general solver, and the conditions that make a point the projection."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracles import projections as oracle
from scipy.optimize import minimize

from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Simplex, Unconstrained
from finitesum.constraints.projections import project_euclidean, project_in_metric
from finitesum.core.jit import COMPILED, Kernel

DIMS = (1, 2, 3, 5, 7, 10, 16, 25, 40, 64)
EPS = np.finfo(float).eps
SPREADS = (0.0, 1.0, 5.0)  # powers of ten: the metrics lie in [10^-spread, 10^spread]


@pytest.fixture(autouse=True, scope="module", params=["python", pytest.param("compiled", marks=pytest.mark.slow)])
def kernels(request):
    """Run each test twice: on few points with kernels as Python, and on many, up to 100,000 variables, compiled."""
    return request.param


def is_interpreted():
    return Kernel.as_python or not COMPILED


def cases_per_dim():
    return 20 if is_interpreted() else 1000


def points(rng, dim, count):
    """Points of all sizes: a quarter with ties, a quarter with zeros."""
    x = rng.standard_normal((count, dim)) * 10.0 ** rng.uniform(-3, 3, (count, 1))
    x[: count // 4] = np.round(rng.standard_normal((count // 4, dim)), 0)
    x[count // 4 : count // 2] *= rng.random((count // 2 - count // 4, dim)) < 0.5
    return x


def metrics(rng, dim, count):
    spreads = np.asarray(SPREADS)[np.arange(count) % 3][:, None]
    return 10.0 ** (spreads * rng.uniform(-1, 1, (count, dim)))


def sizes(rng, norms):
    """Radii from a trillionth of the norm to twice the norm; anything where the norm is 0."""
    factors = np.where(
        rng.random(norms.shape) < 0.1, 10.0 ** rng.uniform(-12, 0, norms.shape), rng.uniform(0.01, 1.2, norms.shape)
    )
    return np.where(norms > 0, norms, 1.0) * factors


def l1_case(rng, x, s):
    radii = sizes(rng, np.abs(x).sum(1))
    return [L1Ball(r) for r in radii], oracle.onto_l1_ball(x, radii, s)


def weighted_l1_case(rng, x, s):
    weights = 10.0 ** rng.uniform(-1, 1, x.shape)
    radii = sizes(rng, (weights * np.abs(x)).sum(1))
    return [L1Ball(r, c) for r, c in zip(radii, weights, strict=True)], oracle.onto_l1_ball(x, radii, s, weights)


def l2_case(rng, x, s):
    radii = sizes(rng, np.linalg.norm(x, axis=1))
    return [L2Ball(r) for r in radii], oracle.onto_l2_ball(x, radii, s)


def simplex_case(rng, x, s):
    totals = sizes(rng, np.abs(x).sum(1))
    return [Simplex(t) for t in totals], oracle.onto_simplex(x, totals, s)


def half_space_case(rng, x, s):
    normals = rng.standard_normal(x.shape)
    offsets = rng.standard_normal(len(x)) * np.abs(x).sum(1)
    return [HalfSpace(a, b) for a, b in zip(normals, offsets, strict=True)], oracle.onto_half_space(x, normals, offsets, s)


def box_case(rng, x, s):
    lower = rng.standard_normal(x.shape)
    upper = lower + rng.exponential(size=x.shape) * (rng.random(x.shape) < 0.9)
    lower[rng.random(x.shape) < 0.1] = -np.inf
    upper[rng.random(x.shape) < 0.1] = np.inf
    return [Box(low, high) for low, high in zip(lower, upper, strict=True)], oracle.onto_box(x, lower, upper)


def linf_case(rng, x, s):
    radii = sizes(rng, np.abs(x).max(1))
    return [LInfBall(r) for r in radii], oracle.onto_box(x, -radii[:, None], radii[:, None])


def orthant_case(rng, x, s):
    return [NonNegative()] * len(x), np.maximum(x, 0.0)


def free_case(rng, x, s):
    return [Unconstrained()] * len(x), x


CASES = {
    "l1": l1_case,
    "weighted l1": weighted_l1_case,
    "l2": l2_case,
    "simplex": simplex_case,
    "half-space": half_space_case,
    "box": box_case,
    "l_inf": linf_case,
    "orthant": orthant_case,
    "free": free_case,
}
SEPARABLE = ("box", "l_inf", "orthant", "free")


def draw(name, dim, count, seed):
    """Return points, metrics, sets and the reference's projections."""
    rng = np.random.default_rng([seed, dim])
    x, s = points(rng, dim, count), metrics(rng, dim, count)
    sets, expected = CASES[name](rng, x, s)
    return x, s, sets, expected


def each(name, seed, share=1.0, dims=DIMS):
    """Yield x, s, the set and the reference's projection, one by one."""
    for dim in dims:
        yield from zip(*draw(name, dim, max(6, int(cases_per_dim() * share)), seed), strict=True)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(name):
    for x, s, constraint, expected in each(name, 0):
        before = x.copy()
        p = constraint.project(x, s)
        assert np.array_equal(x, before)
        assert p is not x
        assert p.dtype == np.float64
        assert np.all(np.abs(p - expected) <= 1e-12 * (np.abs(x) + np.abs(expected)))


@pytest.mark.parametrize("name", CASES)
def test_no_metric_is_the_metric_of_ones(name):
    for x, _, constraint, _ in each(name, 1, share=0.1):
        p, q = constraint.project(x), constraint.project(x, np.ones(x.size))
        if name in SEPARABLE:
            assert np.array_equal(p, q)
        # sums are taken in another order: the threshold differs by a rounding of what the active coordinates share
        shared = np.abs(x).sum() / max(np.count_nonzero(p), 1)
        assert np.all(np.abs(p - q) <= 4 * EPS * (np.abs(x) + np.abs(p)) + 2 * EPS * shared)


@pytest.mark.parametrize("name", SEPARABLE)
def test_separable_sets_ignore_the_metric_to_the_bit(name):
    for x, s, constraint, _ in each(name, 2, share=0.1):
        assert constraint.is_separable
        assert np.array_equal(constraint.project(x, s), constraint.project(x))


@pytest.mark.parametrize("name", CASES)
def test_result_is_feasible(name):
    for x, s, constraint, _ in each(name, 3, share=0.3):
        p = constraint.project(x, s)
        assert constraint.contains(p, tolerance=4 * EPS * (math.sqrt(x.size) if name == "half-space" else 1))
        if name in ("l1", "weighted l1"):
            c = 1.0 if constraint.weights is None else constraint.weights
            if math.fsum(c * np.abs(x)) > constraint.radius:
                n_ulps = 1 if constraint.weights is None else 2
                excess = math.fsum([*(c * np.abs(p)), -constraint.radius])
                assert abs(excess) <= n_ulps * np.spacing(constraint.radius)
            else:
                assert np.array_equal(p, x)
        if name == "simplex":
            assert np.all(p >= 0)
            assert abs(math.fsum([*p, -constraint.total])) <= np.spacing(constraint.total)
        if name == "l2" and np.linalg.norm(x) > constraint.radius * (1 + 4 * EPS):
            assert abs(math.sqrt(math.fsum(p * p)) - constraint.radius) <= 4 * EPS * constraint.radius


def gap(constraint, x, s, p):
    """Return sigma(s (x - p)) - <s (x - p), p>, the size of the two, and their size before x and p cancel."""
    g = s * (x - p)
    value = constraint.support(g)
    terms = s * (np.abs(x) + np.abs(p))
    bound = np.abs(value) if isinstance(constraint, Box) else constraint.support(terms)
    return abs(value - g @ p), abs(value) + np.abs(g) @ np.abs(p), bound + terms @ np.abs(p)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("half-space", "orthant", "free")])
def test_optimality_condition(name):
    """p is the projection exactly if sigma(s (x - p)) = <s (x - p), p>: right to the rounding of x and p."""
    for x, s, constraint, _ in each(name, 4, share=0.5):
        residual, _, terms = gap(constraint, x, s, constraint.project(x, s))
        assert residual <= 16 * EPS * terms


@pytest.mark.parametrize(("spread", "limit"), [(0.0, 1e-12), (1.0, 1e-12), (4.0, 1e-7)])
@pytest.mark.parametrize("make", [L1Ball, L2Ball, Simplex, LInfBall])
def test_optimality_condition_well_outside(make, spread, limit):
    """There x and p do not cancel much, and the condition holds relative to its own terms."""
    rng = np.random.default_rng(6)
    for _ in range(cases_per_dim()):
        x = rng.standard_normal(int(rng.integers(2, 60)))
        s = 10.0 ** (spread * rng.uniform(-1, 1, x.size))
        constraint = make(0.3 * np.linalg.norm(x, 1 if make in (L1Ball, Simplex) else 2))
        residual, size, _ = gap(constraint, x, s, constraint.project(x, s))
        assert residual <= limit * size


@pytest.mark.parametrize("name", ["l1", "weighted l1", "simplex"])
def test_extreme_metrics_are_as_exact_as_float64_can_hold(name):
    """The metric spans ten orders of magnitude. The exact projection itself, rounded, fulfils its condition to about

    1e-5 of its own terms there, because s (x - p) = lam is a small difference of large numbers. So what is asked for is
    (1) every coordinate within 1e-7 of what s (x - p) = lam moves it by, or else within an ulp of the exact one;
    (2) a residual of a few roundings of the terms that cancel in it; and relative to its size, of at most 1e-7 beyond three
    times that of the exact projection, rounded.
    """
    n_acting = 0
    for seed in range(30 if is_interpreted() else 3000):
        rng = np.random.default_rng([12, seed])
        x = rng.standard_normal((1, int(rng.integers(2, 60))))
        s = 10.0 ** rng.uniform(-5, 5, x.shape)
        (constraint,), (exact,) = CASES[name](rng, x, s)
        x, s = x[0], s[0]
        p = constraint.project(x, s)
        slack = 1e-7 * np.abs(exact - x) + 2 * np.spacing(np.abs(x)) * (exact != 0) + 1e-15 * np.abs(x)
        assert np.all(np.abs(p - exact) <= np.maximum(slack, 2 * np.spacing(np.abs(exact))))
        if np.array_equal(exact, x):
            continue
        n_acting += 1
        (residual, size, terms), (best, best_size, _) = (gap(constraint, x, s, y) for y in (p, exact))
        assert residual <= 4 * EPS * terms
        assert residual / size <= 3 * best / best_size + 1e-7
    assert n_acting >= (15 if is_interpreted() else 1500)


def test_optimality_condition_of_the_half_space():
    """s (x - p) is a multiple >= 0 of the normal, and 0 inside."""
    for x, s, half, _ in each("half-space", 5, share=0.5):
        p = half.project(x, s)
        if half.contains(x, tolerance=1e-14):
            continue
        slope = half.normal @ (half.normal / s)
        noise = EPS * (np.abs(x) + np.abs(p))
        multiple, multiple_noise = half.normal @ (x - p) / slope, np.abs(half.normal) @ noise / slope
        assert multiple > 0
        assert np.all(
            np.abs((x - p) - multiple * half.normal / s) <= 8 * (noise + multiple_noise * np.abs(half.normal) / s)
        )


def solve(constraint, x, s):
    """Minimise 1/2 sum s (y - x)^2 over the set by a general solver; the l1 ball as y = u - v, u, v >= 0."""
    dim = x.size
    options = {"ftol": 1e-13, "maxiter": 500}
    bounds, rules, maps = None, [], (np.eye(dim),)
    if isinstance(constraint, L1Ball):
        c = np.ones(dim) if constraint.weights is None else constraint.weights
        maps, bounds = (np.hstack([np.eye(dim), -np.eye(dim)]),), [(0, None)] * (2 * dim)
        rules = [{"type": "ineq", "fun": lambda y: constraint.radius - np.r_[c, c] @ y}]
    elif isinstance(constraint, Simplex):
        bounds, rules = [(0, None)] * dim, [{"type": "eq", "fun": lambda y: y.sum() - constraint.total}]
    elif isinstance(constraint, L2Ball):
        rules = [{"type": "ineq", "fun": lambda y: constraint.radius**2 - y @ y}]
    elif isinstance(constraint, HalfSpace):
        rules = [{"type": "ineq", "fun": lambda y: constraint.offset - constraint.normal @ y}]
    else:
        bounds = list(zip(*np.broadcast_arrays(constraint.compiled.lower, constraint.compiled.upper, x)[:2], strict=True))
    to_y = maps[0]
    found = minimize(
        lambda v: 0.5 * s @ (to_y @ v - x) ** 2,
        np.full(to_y.shape[1], 0.01),
        jac=lambda v: to_y.T @ (s * (to_y @ v - x)),
        bounds=bounds,
        constraints=rules,
        method="SLSQP",
        options=options,
    )
    return to_y @ found.x if found.success else None


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("orthant", "free")])
def test_agrees_with_a_general_solver(name):
    n_solved = 0
    for seed in range(10 if is_interpreted() else 60):
        rng = np.random.default_rng([7, seed])
        dim = int(rng.integers(1, 7))
        x, s = rng.standard_normal((1, dim)), rng.uniform(0.2, 5, (1, dim))
        (constraint,), _ = CASES[name](rng, x, s)
        found = solve(constraint, x[0], s[0])
        if found is None:
            continue
        n_solved += 1
        p = constraint.project(x[0], s[0])
        assert s[0] @ (p - x[0]) ** 2 <= s[0] @ (found - x[0]) ** 2 + 1e-8
        assert np.allclose(p, found, atol=2e-4)
    assert n_solved >= (6 if is_interpreted() else 40)


@pytest.mark.parametrize("name", CASES)
def test_projecting_again_changes_nothing(name):
    for x, s, constraint, _ in each(name, 8, share=0.1):
        p = constraint.project(x, s)
        q = constraint.project(p, s)
        if name in SEPARABLE:
            assert np.array_equal(p, q)
        scale = np.abs(p).max() * (s.max() / s if name == "half-space" else 1)
        assert np.all(np.abs(q - p) <= 16 * EPS * scale)


@pytest.mark.parametrize("name", CASES)
def test_non_expansive_in_the_metric(name):
    for x, s, constraint, _ in each(name, 9, share=0.2):
        rng = np.random.default_rng(x.size)
        z = x + rng.standard_normal(x.size) * np.abs(x).max()
        p, q = constraint.project(x, s), constraint.project(z, s)
        rounding = 1e-14 * math.sqrt(s @ (np.abs(x) + np.abs(z) + np.abs(p)) ** 2)
        assert math.sqrt(s @ (p - q) ** 2) <= math.sqrt(s @ (x - z) ** 2) + rounding


@pytest.mark.parametrize("name", ["l1", "l2", "simplex", "l_inf", "orthant", "free"])
def test_order_of_the_variables_is_without_effect(name):
    for x, s, constraint, _ in each(name, 10, share=0.1):
        order = np.random.default_rng(x.size).permutation(x.size)
        p, q = constraint.project(x, s)[order], constraint.project(x[order], s[order])
        assert np.all(np.abs(p - q) <= 1e-13 * np.abs(x[order]) + 1e-13 * np.abs(p))


@pytest.mark.parametrize("name", CASES)
def test_in_place(name):
    for x, s, constraint, _ in each(name, 11, share=0.02):
        out = x.copy()
        project_in_metric(constraint.compiled, out, s, out)
        assert np.array_equal(out, constraint.project(x, s))
        out = x.copy()
        project_euclidean(constraint.compiled, out, out)
        assert np.array_equal(out, constraint.project(x))


@pytest.mark.parametrize("name", CASES)
def test_special_points(name):
    for dim in (1, 4):
        rng = np.random.default_rng(dim)
        (constraint,), _ = CASES[name](rng, rng.standard_normal((1, dim)), np.ones((1, dim)))
        zero = constraint.project(np.zeros(dim), np.full(dim, 3.0))
        assert constraint.contains(zero)
        assert np.allclose(zero, constraint.start(dim))
        assert constraint.contains(constraint.project(np.full(dim, 2.5)))  # all tied
        inside = constraint.project(rng.standard_normal(dim) * 1e-3)
        if name in ("l1", "l2", "l_inf"):
            assert np.array_equal(constraint.project(0.5 * inside, np.full(dim, 7.0)), 0.5 * inside)


def test_radii_of_all_sizes():
    x = np.array([1.0, -1.0, 1.0 - EPS / 2, 0.25, 0.0])
    for radius in (1e-100, 1e-30, 1e-20, 1e-16, 1e-8, 1.0, 3.0, 3.5, 1e16, 1e300):
        for s in (np.ones(5), np.array([1e-5, 1.0, 1e5, 1.0, 1e-5])):
            for p in (L1Ball(radius).project(x, s), L1Ball(radius, np.ones(5)).project(x, s)):
                if radius > 3.25:
                    assert np.array_equal(p, x)
                else:
                    assert abs(math.fsum([*np.abs(p), -radius])) <= np.spacing(radius)
                    assert np.all(p * x >= 0)
            p = Simplex(radius).project(x, s)
            assert abs(math.fsum([*p, -radius])) <= np.spacing(radius)
            p = L2Ball(radius).project(x, s)
            assert np.linalg.norm(p / radius) <= 1 + 4 * EPS
    assert np.array_equal(L1Ball(1e-20).project(x), [0.5e-20, -0.5e-20, 0.0, 0.0, 0.0])
    assert np.array_equal(Simplex(1e-20).project(x), [1e-20, 0.0, 0.0, 0.0, 0.0])


def test_no_negative_zeros():
    assert not np.signbit(L1Ball(1.0).project([-1e-3, 3.0])[0])
    assert not np.signbit(Simplex(1.0).project([-1e-3, 3.0])[0])


def test_slowest_inputs_known_for_variable_fixing():
    """Each pass over the coordinates loses one coordinate, which takes differences that grow like the factorial."""
    x, level, gap_ = [1.0], 0.0, 1e-150
    for k in range(1, 130):
        x.append(level - gap_)
        level -= gap_ / (k + 1)
        gap_ *= 1.1 * (k + 1)
        if gap_ > 1e150:
            break
    x = np.array(x)
    assert np.allclose(Simplex(1.0).project(x), oracle.onto_simplex(x, 1.0), rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    "shape",
    [
        "heavy tails",
        "sparse",
        pytest.param("normal", marks=pytest.mark.slow),
        pytest.param("sorted", marks=pytest.mark.slow),
    ],
)
def test_many_variables(shape):
    """So many that the search starts from a sample."""
    rng = np.random.default_rng(3)
    dim = 17_000 if is_interpreted() else 100_000
    x = rng.standard_cauchy(dim) if shape == "heavy tails" else rng.standard_normal(dim)
    if shape == "sparse":
        x[rng.random(dim) < 0.999] = 0.0
    if shape == "sorted":
        x = np.sort(x)
    s, c = 10.0 ** rng.uniform(-5, 5, dim), 10.0 ** rng.uniform(-1, 1, dim)
    for fraction in (0.3,) if is_interpreted() else (1e-8, 1e-3, 0.3, 0.999):
        radius = fraction * float(np.abs(x).sum())
        for p, expected in (
            (L1Ball(radius).project(x), oracle.onto_l1_ball(x, radius)),
            (L1Ball(radius).project(x, s), oracle.onto_l1_ball(x, radius, s)),
            (L1Ball(radius, c).project(x, s), oracle.onto_l1_ball(x, radius, s, c)),
            (Simplex(radius).project(x, s), oracle.onto_simplex(x, radius, s)),
            (L2Ball(radius / 300).project(x, s), oracle.onto_l2_ball(x, radius / 300, s)),
        ):
            assert np.all(np.abs(p - expected) <= 1e-11 * (np.abs(x) + np.abs(expected)))
        assert abs(math.fsum([*np.abs(L1Ball(radius).project(x)), -radius])) <= np.spacing(radius)


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_finite_is_seen_by_kernels(name):
    for bad in (np.nan, np.inf):
        x = np.array([[1.0, bad, -3.0]])
        (constraint,), _ = CASES[name](np.random.default_rng(0), np.array([[1.0, 2.0, -3.0]]), np.ones((1, 3)))
        out = np.empty(3)
        project_in_metric(constraint.compiled, x[0], np.ones(3), out)
        if not (constraint.is_separable and np.isinf(bad)):
            assert not np.isfinite(out).all()


finite = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=300 if COMPILED else 30, deadline=None, database=None)
@given(
    st.lists(st.tuples(finite, st.floats(1e-5, 1e5), st.floats(1e-2, 1e2)), min_size=1, max_size=12), st.floats(1e-9, 1e9)
)
def test_l1_ball_and_simplex_for_any_numbers(rows, radius):
    x, s, c = (np.array(column) for column in zip(*rows, strict=True))
    for constraint, expected in (
        (L1Ball(radius), oracle.onto_l1_ball(x, radius, s)),
        (L1Ball(radius, c), oracle.onto_l1_ball(x, radius, s, c)),
        (Simplex(radius), oracle.onto_simplex(x, radius, s)),
    ):
        p = constraint.project(x, s)
        assert constraint.contains(p, tolerance=4 * EPS)
        at_all = np.abs(x) + np.abs(expected)
        assert np.all(np.abs(p - expected) <= 1e-11 * at_all + 1e-13 * (c @ at_all) / c)
