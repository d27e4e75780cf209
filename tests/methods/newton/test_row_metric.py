"""The preconditioner by some rows: its formula, where it is none, and fewer products with it."""

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.evaluation.row_products import gram_diagonal
from finitesum.evaluation.samples import sample_of
from finitesum.methods.newton import row_metric


def problem_of(decay, *, n=400, d=40, alpha=1e-3, **more):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = 3.0 * (rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -decay) @ basis
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return Problem.linear(X, y, alpha=alpha, sample_weight=rng.uniform(0.5, 1.5, n), fit_intercept=True, **more)


def metric_of(problem, n_sampled=None):
    order = np.random.default_rng(1).permutation(problem.n_components)
    sample = sample_of(problem, order[:n_sampled])
    curvatures = np.linspace(0.1, 0.2, problem.n_rows).astype(np.float32)
    diagonal = gram_diagonal(problem, curvatures, sample.components) / sample.weight
    diagonal += sample.ridge * problem.term.weights
    metric = row_metric.RowMetric()
    if row_metric.has_changed(metric, problem, curvatures, sample):
        metric = row_metric.metric_at(problem, curvatures, sample, order, diagonal)
    return metric, sample, curvatures, order, diagonal


@pytest.mark.parametrize("n_sampled", [400, 300])
def test_it_is_the_inverse_of_its_formula(n_sampled):
    problem = problem_of(1.0)
    metric, sample, curvatures, order, diagonal = metric_of(problem, n_sampled)
    r, dim = row_metric.rows_that_pay(problem, n_sampled), problem.dim
    chosen = np.sort(order[:r])
    X = np.column_stack([problem.rows.values, np.ones(problem.n_rows)])[chosen]
    rows = X * np.sqrt(n_sampled * problem.weights[chosen] * curvatures[chosen] / sample.weight)[:, None]
    of_penalty = sample.ridge * problem.term.weights
    seen = rows[:: row_metric.SEEN] / np.sqrt(diagonal)
    m, S = len(seen), seen.T @ seen / len(seen)
    noise = sum(np.sum((np.outer(z, z) - S) ** 2) for z in seen) / (m * (m - 1))  # of the mean of m
    signal = np.sum((S - np.trace(S) / dim * np.eye(dim)) ** 2) - noise
    shrunk = noise * m / r / (signal + noise * m / r)
    assert 0.05 < shrunk < 0.5
    P = (1.0 - shrunk) * rows.T @ rows / r + np.diag(of_penalty + shrunk * (diagonal - of_penalty))
    right = np.random.default_rng(2).standard_normal(dim)
    np.testing.assert_allclose(row_metric.solved(metric, right), np.linalg.solve(P, right), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "problem", [problem_of(0.0), problem_of(1.0, n=200), problem_of(1.0, alpha=0.0), problem_of(1.0, l1_ratio=0.5)]
)
def test_it_is_none_where_no_direction_is_larger_rows_are_few_or_without_a_plain_l2_penalty(problem):
    assert metric_of(problem)[0].rows.size == 0


def test_newton_cg_needs_fewer_products_with_it(monkeypatch):
    runs = []
    for fewest in (row_metric.FEWEST_ROWS, 10**9):
        monkeypatch.setattr(row_metric, "FEWEST_ROWS", fewest)
        runs.append(minimize(problem_of(0.8, n=2000, d=100), method="newton-cg", tol=1e-8))
    assert all(run.success for run in runs)
    assert runs[0].n_passes < 0.7 * runs[1].n_passes
    assert runs[0].n_hessian_passes > 0.0 == runs[1].n_hessian_passes
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-5)


@pytest.mark.parametrize("curvature", [0.0, 1e-300])
def test_it_is_none_where_no_row_has_curvature(curvature):
    problem = problem_of(1.0, loss="smoothed-hinge")
    order = np.arange(problem.n_components)
    sample, diagonal = sample_of(problem, order), problem.term.quadratic + 1e-3
    metric = row_metric.metric_at(problem, np.full(problem.n_rows, curvature), sample, order, diagonal)
    assert metric.rows.size == 0
