"""Paths to parts of a standard error, by factors and by Newton-CG: against minimisers, on rows of both kinds."""

import numpy as np
import pytest
import scipy.sparse as sp
from running.path_problems import ACCURACY, CASES as BASIC, problems_of

from finitesum import minimize
from finitesum.evaluation.hessian import gram
from finitesum.methods.cost_model import Costs
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import elastic_net
from finitesum.running import factor_paths, rough_paths

SOLVERS = [factor_paths.solve_by_factors, rough_paths.solve_roughly]

#: What may differ between problems.
CASES = BASIC | {
    "Poisson": {"loss": "poisson", "offsets": True},
    "weights of the penalty": {"penalty_weights": [0.5, 2.0] * 4},
}


def error_of(X, problem, point):
    """Return by how many standard errors any decision is off at most, and by what in the mean, of 1 or of decisions."""
    exact = minimize(problem, method="newton", tol=1e-13, measure_every=0).x
    Z = np.column_stack([X, np.ones(len(X))]) if problem.has_intercept else X
    curvatures = problem.weights * np.array(
        [problem.loss.d2(p, y) for p, y in zip(Z @ exact + problem.offsets, problem.targets, strict=True)]
    )
    off = point - exact
    moved = Z @ off
    squared = curvatures @ moved**2 + problem.term.ridge * (problem.term.weights @ off**2)
    size = max(1.0, np.sqrt(problem.weights @ (Z @ exact) ** 2))
    return np.sqrt(len(X) * squared), np.sqrt(problem.weights @ moved**2) / size


@pytest.mark.parametrize("solve", SOLVERS)
@pytest.mark.parametrize("case", CASES)
def test_solutions_are_right_to_parts_of_a_standard_error(case, solve):
    X, problems = problems_of(**CASES[case])
    start = np.zeros(problems[0].dim)
    found = solve(problems, start, float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    assert not start.any()
    for problem, point in zip(problems, found.points, strict=True):
        in_errors, of_decisions = error_of(X, problem, point)
        assert in_errors < 2.0 * ACCURACY
        assert of_decisions < 2.0 * ACCURACY


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_weak_penalty_alone_is_solved_from_0(solve):
    """The model before the first step is not one that the next is compared with."""
    X, problems = problems_of(n=45)
    found = solve(problems[-1:], np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    assert max(error_of(X, problems[-1], found.points[0])) < 2.0 * ACCURACY


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_path_takes_less_than_fits_of_their_own(solve):
    X, problems = problems_of(n=300, d=20)
    found = solve(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    alone = [minimize(problem, method="newton-cg", tol=1e-8, measure_every=0) for problem in problems]
    assert found.n_passes.sum() < 0.9 * sum(result.n_passes for result in alone)


@pytest.mark.parametrize("solve", SOLVERS)
@pytest.mark.parametrize("alphas", [[1.0, np.nextafter(1.0, 0.0), 0.1, 0.01], [1.0, 0.1, 0.0]], ids=["equal", "to 0"])
def test_strengths_that_no_line_leads_along(alphas, solve):
    X, problems = problems_of()
    problems = [problems[0].with_penalty(elastic_net(alpha, 0.0)) for alpha in alphas]
    found = solve(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(error_of(X, problem, point)) < 2.0 * ACCURACY


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_solution_with_a_small_optimality_is_one(solve):
    X, problems = problems_of()
    exact = minimize(problems[0], method="newton", tol=1e-13).x
    found = solve(problems[:1], exact, float(len(X)), 1e-8, ACCURACY)
    assert found.is_solved.all()
    assert found.points[0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("module", "what", "most"),
    [
        (rough_paths, "MOST_PASSES", 0),
        (rough_paths, "MOST_PASSES", 2),
        (factor_paths, "MOST_STEPS", 0),
        (factor_paths, "MOST_STEPS", 2),
        (factor_paths, "MOST_PRODUCTS", 5),
    ],
)
def test_what_is_not_solved_is_said(module, what, most, monkeypatch):
    X, problems = problems_of()
    monkeypatch.setattr(module, what, most)
    solve = rough_paths.solve_roughly if module is rough_paths else factor_paths.solve_by_factors
    found = solve(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, 1e-6)
    n_solved = int(found.is_solved.sum())
    assert n_solved < len(problems)
    assert found.is_solved[:n_solved].all()
    assert not found.points[n_solved:].any()


def test_hessians_are_for_few_columns():
    _, (few, *_) = problems_of()
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 3000), density=0.01, format="csr", rng=rng)
    many = Problem.linear(X, np.sign(rng.standard_normal(300)), alpha=1.0)
    assert factor_paths.has_hessians(few)
    assert not factor_paths.has_hessians(many)


def test_few_factors_serve_all_strengths(monkeypatch):
    """The costs decide: one factor where it costs infinitely much, one for each step where it costs less than nothing."""
    X, problems = problems_of(n=40, d=30)
    made = []

    def noted(*given):
        made.append(given)
        return gram(*given)

    monkeypatch.setattr(factor_paths, "gram", noted)
    counts, passes = [], []
    for excess in (np.inf, 0.0, -np.inf):
        monkeypatch.setattr(factor_paths, "costs_of", lambda _problem, excess=excess: Costs(1.0, excess, 0.0))
        found = factor_paths.solve_by_factors(problems, np.zeros(31), 40.0, 1e-12, ACCURACY)
        assert found.is_solved.all()
        counts.append(len(made))
        passes.append(found.n_passes.sum())
        made.clear()
        for problem, point in zip(problems, found.points, strict=True):
            assert max(error_of(X, problem, point)) < 2.0 * ACCURACY
    assert counts[0] == 1 < counts[1] < counts[2]
    assert passes[0] > passes[1] > passes[2]


def test_rows_that_are_too_large_have_no_path():
    X, problems = problems_of()
    huge = Problem.linear(1e200 * X, problems[0].targets, alpha=1.0)
    found = factor_paths.solve_by_factors([huge], np.zeros(huge.dim), float(len(X)), 1e-12, ACCURACY)
    assert not found.is_solved.any()
