"""Paths of several classes by products, to parts of a standard error: against minimisers, on rows of both kinds."""

import numpy as np
import pytest
from running.path_problems import ACCURACY, CASES, problems_of

from finitesum import minimize
from finitesum.methods.newton.class_factor import class_hessian
from finitesum.methods.newton.multinomial_newton import state_at
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import elastic_net
from finitesum.running import class_products
from finitesum.running.class_products import solve_classes_by_products


def classes_of(**more):
    return problems_of(loss="multinomial", **more)


def errors_of(X, problem, point):
    """Return by how many standard errors any decision is off at most, and by what in the mean, of 1 or of decisions."""
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
    size = max(1.0, np.sqrt(problem.weights @ ((scores - problem.offsets) ** 2).sum(axis=1)))
    moved -= moved.mean(axis=1, keepdims=True)
    return np.sqrt(len(X) * squared), np.sqrt(problem.weights @ (moved**2).sum(axis=1)) / size


@pytest.mark.parametrize("case", CASES)
def test_solutions_are_right_to_parts_of_a_standard_error(case):
    X, problems = classes_of(**CASES[case])
    start = np.zeros(problems[0].dim)
    found = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    assert not start.any()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY


@pytest.mark.parametrize("case", CASES)
def test_one_factor_of_all_classes_leads_to_the_same_with_fewer_products(case, monkeypatch):
    monkeypatch.setattr(class_products, "MOST_VARIABLES", 0)
    X, problems = classes_of(**CASES[case])
    start = np.zeros(problems[0].dim)
    found = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY, is_shared=True)
    assert found.is_solved.all()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY
    by_diagonals = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY)
    assert found.n_passes.sum() < by_diagonals.n_passes.sum()


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_factor_of_a_hessian_leads_to_the_same_with_few_products(case, is_shared, monkeypatch):
    """It is made after the first step here, and serves weaker penalties, too."""
    X, problems = classes_of(**CASES[case])
    start, made = np.zeros(problems[0].dim), []
    monkeypatch.setattr(class_products, "SOLVE", 0.0)
    monkeypatch.setattr(class_products, "FEW_PRODUCTS", 0)
    monkeypatch.setattr(class_products, "DOUBLE", 0.0)
    found = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY, is_shared=is_shared)
    monkeypatch.undo()
    monkeypatch.setattr(class_products, "DOUBLE", 1e-3)

    def noted(*given):
        made.append(given)
        return class_hessian(*given)

    monkeypatch.setattr(class_products, "class_hessian", noted)
    less = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY, is_shared=is_shared)
    monkeypatch.setattr(class_products, "MOST_VARIABLES", 0)
    none = solve_classes_by_products(problems, start, float(len(X)), 1e-12, ACCURACY, is_shared=is_shared)
    for path in (found, less):
        assert path.is_solved.all()
        for problem, point in zip(problems, path.points, strict=True):
            assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY
    assert found.n_passes.sum() < none.n_passes.sum()
    assert made or is_shared  # where two products are enough none is made
    assert len(made) < 2 * len(problems)


def test_a_hessian_that_is_not_finite_is_none():
    X, problems = classes_of()
    huge = Problem.linear(1e160 * X, problems[0].classes[problems[0].targets], loss="multinomial", alpha=1.0)
    state = state_at(huge, np.zeros(huge.dim), huge.n_components, 0)
    assert not class_products._after(huge, state, class_products._Metric(), 10**6).factor.lower.size


def test_a_path_takes_less_than_fits_of_their_own():
    X, problems = classes_of(n=300, d=20)
    found = solve_classes_by_products(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    alone = [
        minimize(problem, method="multinomial-newton", options={"solver": "cg"}, tol=1e-8, measure_every=0)
        for problem in problems
    ]
    assert found.n_passes.sum() < 0.7 * sum(result.n_passes for result in alone)


@pytest.mark.parametrize("alphas", [[1.0, np.nextafter(1.0, 0.0), 0.1, 0.01], [1.0, 0.1, 0.0]], ids=["equal", "to 0"])
def test_strengths_that_no_line_leads_along(alphas):
    X, problems = classes_of()
    problems = [problems[0].with_penalty(elastic_net(alpha, 0.0)) for alpha in alphas]
    found = solve_classes_by_products(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, ACCURACY)
    assert found.is_solved.all()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY


def test_a_solution_with_a_small_optimality_is_one():
    X, problems = classes_of()
    exact = minimize(problems[0], method="multinomial-newton", tol=1e-13).x
    found = solve_classes_by_products(problems[:1], exact, float(len(X)), 1e-8, ACCURACY)
    assert found.is_solved.all()
    assert found.points[0] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(("steps", "products"), [(0, 1000), (2, 1000), (50, 3)])
def test_what_is_not_solved_is_said(steps, products, monkeypatch):
    X, problems = classes_of()
    monkeypatch.setattr(class_products, "MOST_STEPS", steps)
    monkeypatch.setattr(class_products, "MOST_PRODUCTS", products)
    found = solve_classes_by_products(problems, np.zeros(problems[0].dim), float(len(X)), 1e-12, 1e-6)
    n_solved = int(found.is_solved.sum())
    assert n_solved < len(problems)
    assert found.is_solved[:n_solved].all()
    assert not found.points[n_solved:].any()
