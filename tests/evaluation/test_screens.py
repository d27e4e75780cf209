"""Screens and duality gaps: no column that has a coefficient at the exact minimum is ever put out."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.constraints import Box
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.screens import certified_zeros, column_spreads, gap_at, has_gap, has_screen, screened
from finitesum.losses import Huber, Logistic, Poisson

N, D = 60, 30
LOSSES = [
    "logistic",
    "squared",
    "huber",
    "squared-hinge",
    "smoothed-hinge",
    "log-cosh",
    "pseudo-huber",
    "probit",
    "squared-epsilon-insensitive",
]


def family(seed, loss, kind):
    """Return a random problem with an l1 penalty between where it leaves nothing and a fiftieth of that."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * np.exp(rng.normal(0.0, 1.0, D))
    X[:, 1::3] += 0.8 * X[:, ::3]
    if kind == "csr":
        X = sp.csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0))
    elif rng.random() < 0.5:
        X += 20.0 * rng.standard_normal(D)
    scores = X @ (rng.standard_normal(D) * (rng.random(D) < 0.2))
    scores = (scores - scores.mean()) / (scores.std() or 1.0)
    real = loss in ("squared", "huber", "log-cosh", "pseudo-huber", "squared-epsilon-insensitive")
    y = 3.0 * scores + rng.standard_normal(N) + 2.0 if real else (scores + rng.logistic(size=N) > 0.2).astype(int)
    given = {"fit_intercept": bool(rng.random() < 0.6), "l1_ratio": float(rng.choice([0.3, 0.9, 1.0]))}
    if rng.random() < 0.5:
        given["sample_weight"] = rng.integers(0, 4, N) + 0.0
    if rng.random() < 0.3:
        given["offset"] = rng.standard_normal(N)
    if rng.random() < 0.3:
        given["penalty_weights"] = rng.uniform(0.5, 2.0, D)
    problem = Problem.linear(X, y, loss=loss, alpha=1.0, **given)
    slopes = np.abs(evaluate(problem, np.zeros(problem.dim)).gradient[:D])
    alpha = float((slopes / problem.term.thresholds[:D]).max()) * np.exp(rng.uniform(np.log(0.02), 0.0))
    return Problem.linear(X, y, loss=loss, alpha=alpha, **given), X, rng


def gap_of(problem, X, w):
    """Return the gap at a point, from sums that are written out here."""
    predictions = X @ w[:D] + (w[D] if problem.has_intercept else 0.0) + problem.offsets
    slopes, values = (
        np.array([of(float(u), float(y)) for u, y in zip(predictions, problem.targets, strict=True)]) * problem.weights
        for of in (problem.loss.d1, problem.loss.value)
    )
    gradient = np.append(X.T @ slopes, slopes.sum() if problem.has_intercept else [])
    return gap_at(problem, w, predictions, slopes, values, gradient)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES)
def test_screens_are_safe_and_gaps_bound_what_is_left(loss, kind):
    most = []
    for seed in range(6):
        problem, X, rng = family(seed, loss, kind)
        assert has_screen(problem)
        exact = minimize(problem, method="newton", tol=1e-11, measure_every=0)
        assert exact.optimality <= 1e-9
        is_in = np.abs(exact.x[:D]) > 1e-7 * np.abs(exact.x).max(initial=1e-300)
        for distance in (1.0, 1e-2, 1e-4, 1e-6, 1e-8, 0.0):
            step = rng.standard_normal(problem.dim) * np.append(
                1.0 / column_spreads(problem), np.ones(int(problem.has_intercept))
            )
            w = exact.x + distance * step * (rng.random(problem.dim) < 0.5)
            known = gap_of(problem, X, w)
            value = evaluate(problem, w).objective
            assert known.size >= value - exact.fun - 1e-12 * abs(value)
            is_out = screened(problem, known)
            assert not (is_out & is_in).any()
        most.append(np.mean(is_out[~is_in]) if not is_in.all() else 1.0)
    assert np.mean(most) > 0.9  # at the minimum, nearly all that are not in are out


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber"])
def test_the_minimum_without_what_is_out_is_the_minimum(loss):
    for seed in range(4):
        problem, X, _ = family(100 + seed, loss, "dense")
        exact = minimize(problem, method="newton", tol=1e-11, measure_every=0)
        rough = minimize(problem, method="coordinate-descent", tol=1e-3, measure_every=0)
        left = np.flatnonzero(~screened(problem, gap_of(problem, X, rough.x)))
        term = problem.term.on_columns(left)
        inside = np.append(left, np.arange(D, problem.dim))
        rows = problem.rows._replace(values=np.ascontiguousarray(problem.rows.values[:, left]), n_columns=left.size)
        part = replace(problem, rows=rows, penalty=term.penalty)
        found = np.zeros(problem.dim)
        found[inside] = minimize(part, method="newton", tol=1e-11, measure_every=0).x
        assert evaluate(problem, found).objective == pytest.approx(exact.fun, rel=1e-12)
        assert evaluate(problem, found).optimality <= 1e-8


def test_nothing_is_known_where_the_rule_has_no_bound():
    X, y = np.ones((4, 2)), np.array([0.0, 1.0, 2.0, 1.0])
    of_counts = Problem.linear(X, y, loss=Poisson(), alpha=0.1, l1_ratio=1.0)
    assert has_gap(of_counts)
    assert not has_screen(of_counts)
    for given in (
        {"l1_ratio": 0.0},
        {"l1_ratio": 1.0, "penalty_weights": [0.0, 1.0]},
        {"constraint": Box(0.0, 1.0), "l1_ratio": 0.0},
    ):
        assert not has_gap(Problem.linear(X, y, loss=Huber(), alpha=0.1, **given))
    assert not has_gap(Problem.linear(X, [0, 1, 0, 1], loss="hinge", alpha=0.1, l1_ratio=1.0))
    assert not has_gap(Problem.linear(X, [0, 1, 2, 1], loss="multinomial", alpha=0.1, l1_ratio=1.0))

    class Another(Logistic):
        """A loss that might be below 0."""

    assert not has_gap(Problem.linear(X, [0, 1, 0, 1], loss=Another(), alpha=0.1, l1_ratio=1.0))
    problem = Problem.linear(X, [0, 1, 0, 1], alpha=0.1, l1_ratio=1.0)
    with np.errstate(all="ignore"):
        known = gap_of_nothing(problem)
    assert known.size == np.inf
    assert not screened(problem, known).any()


def gap_of_nothing(problem):
    numbers = np.full(problem.n_rows, np.nan)
    return gap_at(problem, np.zeros(problem.dim), numbers, numbers, numbers, np.full(problem.dim, np.nan))


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_zeros_are_certified_at_a_point_by_the_same_rule(kind):
    for seed in range(6):
        problem, X, _ = family(200 + seed, "logistic", kind)
        near = minimize(problem, tol=1e-4, measure_every=0).x
        expected = screened(problem, gap_of(problem, X, near))
        np.testing.assert_array_equal(certified_zeros(problem, near), expected)
        assert not near[:D][expected].any()


@pytest.mark.parametrize("given", [{"loss": "poisson"}, {"l1_ratio": 0.0}, {"constraint": Box(0.0, 1.0), "l1_ratio": 0.0}])
def test_zeros_of_other_problems_are_not_certified(given):
    problem = Problem.linear(np.eye(3), [0, 1, 1], **({"loss": "logistic", "alpha": 0.1, "l1_ratio": 0.5} | given))
    with pytest.raises(ValueError, match="zeros are certified for one output, an l1 penalty on every column"):
        certified_zeros(problem, np.zeros(problem.dim))


@pytest.mark.parametrize("w", [np.zeros(2), np.zeros(5), ["a", "b", "c"]])
def test_a_point_of_another_shape_certifies_nothing(w):
    problem = Problem.linear(np.eye(3), [0, 1, 1], alpha=0.1, l1_ratio=0.5)
    with pytest.raises(ValueError, match="w must h"):
        certified_zeros(problem, w)
    assert certified_zeros(problem, [0, 0, 0]).shape == (3,)
