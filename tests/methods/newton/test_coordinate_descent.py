"""Coordinate descent on working sets of columns: optimality, the columns it reads, what it refuses, when it is chosen."""

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import make_pair

from finitesum import Problem, minimize
from finitesum.constraints import Box, L1Ball, NonNegative, Simplex
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.auto import choose
from finitesum.methods.newton.coordinate_descent import CoordinateDescent
from finitesum.methods.subproblems.column_models import column_model, minimised, scaled
from finitesum.problems.rows import DenseRows
from finitesum.problems.term import ConvexTerm

pytestmark = pytest.mark.usefixtures("kernels_as_python")


def wide(form=np.asarray, *, n=60, d=300, loss="logistic", offset=0.0, **more):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3) + offset
    y = np.where(X[:, :5].sum(axis=1) - 5.0 * offset + 0.1 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return Problem.linear(form(X), y, loss=loss, **more)


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared-hinge", "smoothed-hinge", "poisson", "huber"])
@pytest.mark.parametrize("more", [{"l1_ratio": 1.0}, {"l1_ratio": 0.4}, {"constraint": "box"}])
def test_all_losses_and_terms_meet_their_optimality_conditions(loss, more):
    problem, F = make_pair(loss=loss, n=50, d=12, alpha=0.05, weighted=True, intercept=True, **more)
    result = minimize(problem, method="coordinate-descent", options={"first_columns": 2}, tol=1e-10, max_iter=500)
    assert result.success
    assert F.optimality(result.x) <= 2e-10


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_columns_far_from_0_cost_an_intercept_no_passes(form, offset):
    counts = []
    for shift in (0.0, offset):
        problem = wide(form, loss="squared", offset=shift, alpha=0.02, l1_ratio=1.0, fit_intercept=True)
        counts.append(minimize(problem, method="coordinate-descent", tol=1e-9))
    assert all(result.success for result in counts)
    np.testing.assert_allclose(counts[0].x[:-1], counts[1].x[:-1], atol=1e-7)
    assert counts[1].n_passes <= counts[0].n_passes + 4.0


def test_penalty_weights_leave_columns_free_or_out():
    weights = np.ones(300)
    weights[:2], weights[2] = 0.0, 1e6
    problem = wide(alpha=0.02, l1_ratio=1.0, penalty_weights=weights)
    result = minimize(problem, method="coordinate-descent", tol=1e-10)
    assert result.success
    assert (result.x[:2] != 0.0).all()
    assert result.x[2] == 0.0


def test_the_nonnegative_orthant_is_solved_on_the_columns_that_it_leaves():
    problem = wide(constraint=NonNegative(), alpha=0.01)
    result = minimize(problem, method="coordinate-descent", tol=1e-10)
    assert result.success
    slope = evaluate(problem, result.x).gradient
    assert result.x.min() >= 0.0
    assert slope[result.x == 0.0].min() >= -1e-9
    assert np.abs(slope[result.x > 0.0]).max() <= 1e-9


def test_a_working_set_holds_the_coefficients_of_the_start():
    problem, x0 = wide(alpha=0.02, l1_ratio=1.0), np.zeros(300)
    x0[[7, 290]] = 0.3, -0.2
    method = CoordinateDescent(first_columns=1)
    state = method.run_pass(problem, method.init(problem, x0, 1e-8), np.arange(60))
    assert {7, 290} <= set(state.columns.tolist())
    result = minimize(problem, x0, method=method, tol=1e-10, max_iter=2000)
    np.testing.assert_allclose(result.x, minimize(problem, method="newton", tol=1e-11).x, atol=1e-7)


@pytest.mark.parametrize("constraint", [L1Ball(1.0), Simplex(1.0)])
def test_sets_that_couple_coordinates_are_refused(constraint):
    with pytest.raises(ValueError, match="coordinate-descent needs an elastic net, a box or signs"):
        minimize(wide(constraint=constraint), method="coordinate-descent")


@pytest.mark.parametrize("box", [None, Box(-0.1, 0.2)])
def test_gram_matrices_take_over_where_passes_gain_little(box, monkeypatch):
    """Nearly parallel columns: the minimiser is exact to the tolerance, by fewer passes than without Gram matrices."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + 0.1 * rng.standard_normal((40, 15))
    y = X @ (0.15 * (-1.0) ** np.arange(15))
    more = {"alpha": 1e-6, "l1_ratio": 1.0} if box is None else {"constraint": box}
    term: ConvexTerm = Problem.linear(X, y, loss="squared", **more).term
    rows, gradient, start = DenseRows(np.ascontiguousarray(X.T), 15, 40, 0), -X.T @ y / 40.0, np.zeros(15)
    model = column_model(scaled(rows, np.full(40, 40.0**-0.5)), 1.0, 1.0, gradient, start, term)
    counts = []
    for cost in (0.0, np.inf):
        monkeypatch.setattr("finitesum.methods.subproblems.column_models._nanoseconds_of_face", lambda *_, c=cost: c)
        end = minimised(model, start, 1e-10)
        counts.append(end.n_passes)
        if cost == 0.0:
            assert term.optimality(end.w, gradient + X.T @ (X @ end.w) / 40.0) <= 2e-10
    assert counts[0] < 0.5 * counts[1]


def test_auto_takes_it_for_l1_penalties_on_many_columns():
    for form in (np.asarray, sp.csr_array):
        assert choose(wide(form, d=2000, alpha=0.02, l1_ratio=1.0), 1e-8).method.name == "coordinate-descent"
    assert choose(wide(d=2000, constraint=NonNegative()), 1e-8).method.name == "coordinate-descent"
    assert choose(wide(d=2000, constraint=L1Ball(1.0)), 1e-8).method.name == "working-set-newton"
