"""Paths of several classes by products, to parts of a standard error: against minimisers, on rows of both kinds."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import minimize
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import elastic_net
from finitesum.running import class_products
from finitesum.running.class_products import solve_classes_by_products

ACCURACY = 1e-3
ALPHAS = np.logspace(0, -5, 6)

#: What may differ between problems.
CASES = {
    "dense": {},
    "csr, no intercept": {"is_sparse": True, "fit_intercept": False},
    "weights and offsets": {"weighted": True, "offsets": True},
    "separated": {"n": 40, "d": 30},
    "wide, csr": {"n": 30, "d": 50, "is_sparse": True},
}


def problems_of(n=120, d=8, is_sparse=False, fit_intercept=True, weighted=False, offsets=False):
    """Return problems with falling strengths, on columns of several sizes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.geomspace(0.3, 3.0, d)
    if is_sparse:
        X *= rng.random((n, d)) < 0.4
    scores = X @ rng.standard_normal((d, 3)) / np.sqrt(d)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    problem = Problem.linear(
        sp.csr_array(X) if is_sparse else X,
        y,
        loss="multinomial",
        alpha=1.0,
        fit_intercept=fit_intercept,
        sample_weight=rng.uniform(0.2, 3.0, n) * (rng.random(n) < 0.9) if weighted else None,
        offset=0.3 * rng.standard_normal((n, 3)) if offsets else None,
    )
    return X, [problem.with_penalty(elastic_net(alpha, 0.0)) for alpha in ALPHAS]


def errors_of(X, problem, point):
    """Return by how many standard errors any decision is off at most, and the root of their mean square."""
    exact = minimize(problem, method="multinomial-newton", options={"solver": "exact"}, tol=1e-13, measure_every=0).x
    Z = np.column_stack([X, np.ones(len(X))]) if problem.has_intercept else X
    scores = Z @ exact.reshape(3, -1).T + problem.offsets
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    off = (point - exact).reshape(3, -1)
    moved = Z @ off.T
    penalty = np.diag(problem.term.quadratic[: Z.shape[1]])
    squared = problem.weights @ ((p * moved**2).sum(axis=1) - (p * moved).sum(axis=1) ** 2)
    squared += sum(row @ penalty @ row for row in off)
    return np.sqrt(len(X) * squared), np.sqrt(
        problem.weights @ ((moved - moved.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    )


@pytest.mark.parametrize("case", CASES)
def test_solutions_are_right_to_parts_of_a_standard_error(case):
    X, problems = problems_of(**CASES[case])
    start = np.zeros(problems[0].dim)
    found = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    assert not start.any()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY


def test_a_path_takes_less_than_fits_of_their_own():
    X, problems = problems_of(n=300, d=20)
    found = solve_classes_by_products(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    alone = [
        minimize(problem, method="multinomial-newton", options={"solver": "cg"}, tol=1e-8, measure_every=0)
        for problem in problems
    ]
    assert found.n_passes.sum() < 0.7 * sum(result.n_passes for result in alone)


@pytest.mark.parametrize("alphas", [[1.0, np.nextafter(1.0, 0.0), 0.1, 0.01], [1.0, 0.1, 0.0]], ids=["equal", "to 0"])
def test_strengths_that_no_line_leads_along(alphas):
    X, problems = problems_of()
    problems = [problems[0].with_penalty(elastic_net(alpha, 0.0)) for alpha in alphas]
    found = solve_classes_by_products(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY


def test_a_solution_with_a_small_optimality_is_one():
    X, problems = problems_of()
    exact = minimize(problems[0], method="multinomial-newton", tol=1e-13).x
    found = solve_classes_by_products(problems[:1], exact, float(len(X)), 1e-8, ACCURACY)
    assert found.is_solved.all()
    assert found.points[0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(("steps", "products"), [(0, 1000), (2, 1000), (50, 3)])
def test_what_is_not_solved_is_said(steps, products, monkeypatch):
    X, problems = problems_of()
    monkeypatch.setattr(class_products, "MOST_STEPS", steps)
    monkeypatch.setattr(class_products, "MOST_PRODUCTS", products)
    found = solve_classes_by_products(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, 1e-6)
    n_solved = int(found.is_solved.sum())
    assert n_solved < len(problems)
    assert found.is_solved[:n_solved].all()
    assert not found.points[n_solved:].any()
