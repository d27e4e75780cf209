"""What is said of problems that cannot be solved to tol: the size of columns, collinear ones, rounding errors."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.evaluation.conditioning import conditioning_at, why_hard


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_sizes_and_condition_are_those_of_the_matrix(form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) * [1.0, 1e3, 1e-2, 1.0]
    X[:, 3] = X[:, 0] + 1e-3 * X[:, 3]
    weights = rng.random(200) + 0.5
    problem = Problem.linear(form(X), rng.standard_normal(200), loss="squared", sample_weight=weights)
    found = conditioning_at(problem, np.zeros(4))
    H = (X * (weights / weights.sum())[:, None]).T @ X
    scale = 1.0 / np.sqrt(np.diagonal(H))
    assert found.sizes == pytest.approx(scale.max() / scale.min(), rel=1e-10)
    assert found.condition == pytest.approx(np.linalg.cond(H * scale[:, None] * scale), rel=1e-6)


@pytest.mark.parametrize("cap", ["MOST_COLUMNS", "MOST_WORK"])
def test_the_hessian_is_left_alone_where_it_has_too_many_columns_or_rows(cap, monkeypatch):
    X = np.random.default_rng(4).standard_normal((40, 3)) * [1.0, 1e4, 1.0]
    problem = Problem.linear(X, X[:, 0] > 0, alpha=1e-3)
    monkeypatch.setattr(f"finitesum.evaluation.conditioning.{cap}", {"MOST_COLUMNS": 3, "MOST_WORK": 40 * 3**2}[cap])
    assert np.isfinite(conditioning_at(problem, np.zeros(3)).condition)
    monkeypatch.setattr(f"finitesum.evaluation.conditioning.{cap}", {"MOST_COLUMNS": 2, "MOST_WORK": 40 * 3**2 - 1}[cap])
    assert np.isnan(conditioning_at(problem, np.zeros(3)).condition)
    assert "columns differ in size" in why_hard(problem, np.zeros(3), 1.0)


def test_rounding_errors_of_the_gradient_are_within_their_bound():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 5)) * 1e6
    x = rng.standard_normal(5)
    y = np.array([math.fsum(row * x) for row in X])  # predictions cancel with y, up to rounding
    problem = Problem.linear(X, y, loss="squared")
    gradient = X.T @ (X @ x - y) / 300
    rounding = conditioning_at(problem, x).rounding
    assert 0.0 < np.linalg.norm(gradient) <= rounding <= 1e6 * np.linalg.norm(gradient)


@pytest.mark.as_chosen
def test_a_run_that_stalls_names_the_conditioning_and_what_to_do():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100, 6)) * 10.0 ** np.linspace(-6, 6, 6)
    X[:, 5] = X[:, 4] * (1 + 1e-9 * rng.standard_normal(100))
    problem = Problem.linear(X, rng.standard_normal(100) > 0, alpha=1e-12)
    result = minimize(problem, tol=1e-14, max_iter=1000, measure_every=0)
    assert not result.success
    assert "ill-conditioned: columns differ in size by a factor of 4e+09" in result.message
    assert "condition number is beyond 1e15" in result.message
    near = why_hard(problem, result.x, 1e-16)
    assert "rounding errors alone may be" in near
    assert "coefficients rounded to float64 leave about" in near
    assert "Scale the columns of X" in result.message


def test_nothing_is_said_where_the_problem_is_not_to_blame():
    rng = np.random.default_rng(3)
    problem = Problem.linear(rng.standard_normal((50, 3)), rng.standard_normal(50), loss="squared", alpha=0.1)
    assert why_hard(problem, np.zeros(3), 1e-3) == ""
    assert why_hard(problem, np.full(3, np.nan), 1e-3) == ""
    result = minimize(problem, method="fg", options={"step_size": 1e-6}, tol=1e-10, max_iter=150)
    assert "Raise max_iter" in result.message


def test_singular_and_empty_columns_are_no_error():
    X = np.zeros((4, 3))
    X[:, 0] = [1.0, 2.0, 3.0, 4.0]
    X[:, 1] = X[:, 0]
    found = conditioning_at(Problem.linear(X, [0.0, 1.0, 0.0, 1.0]), np.zeros(3))
    assert found.sizes == 1.0
    assert found.condition == np.inf
