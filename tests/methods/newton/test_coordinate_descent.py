"""Coordinate descent on working sets of columns: optimality, the columns it reads, what it refuses, when it is chosen."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.constraints import Box, L1Ball, NonNegative, Simplex
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.auto import choose
from finitesum.methods.newton import working_columns
from finitesum.methods.newton.coordinate_descent import CoordinateDescent
from finitesum.methods.subproblems import column_costs, column_models
from finitesum.methods.subproblems.column_models import ENOUGH_ROUNDS, PASSES, column_model, minimised
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.subproblems.scaled_columns import scaled
from finitesum.problems.rows import CSRRows, DenseRows
from finitesum.problems.term import ConvexTerm

pytestmark = pytest.mark.usefixtures("kernels_as_python")


def wide(form=np.asarray, *, n=60, d=300, loss="logistic", offset=0.0, **more):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3) + offset
    y = np.where(X[:, :5].sum(axis=1) - 5.0 * offset + 0.1 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return Problem.linear(form(X), y, loss=loss, **more)


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


def test_a_working_set_holds_the_coefficients_of_the_start():
    problem, x0 = wide(alpha=0.02, l1_ratio=1.0), np.zeros(300)
    x0[[7, 290]] = 0.3, -0.2
    method = CoordinateDescent(first_columns=1)
    state = method.run_pass(problem, method.init(problem, x0, 1e-8), np.arange(60))
    assert {7, 290} <= set(state.columns.tolist())
    result = minimize(problem, x0, method=method, tol=1e-10, max_iter=2000)
    np.testing.assert_allclose(result.x, minimize(problem, method="newton", tol=1e-11).x, atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_two_runs_on_one_problem_take_turns(form):
    """What is known of the columns of one run does not get into the other's."""
    problem = wide(form, alpha=0.02, l1_ratio=1.0)
    starts = [np.zeros(300), np.where(np.arange(300) >= 290, 1.0, 0.0)]
    method, ends = CoordinateDescent(first_columns=3), []
    states = [method.init(problem, start, 1e-9) for start in starts]
    for _ in range(60):
        states = [method.run_pass(problem, state, np.arange(60)) for state in states]
    for start, state in zip(starts, states, strict=True):
        alone = wide(form, alpha=0.02, l1_ratio=1.0)
        other = method.init(alone, start, 1e-9)
        for _ in range(60):
            other = method.run_pass(alone, other, np.arange(60))
        assert np.array_equal(state.x, other.x)
        ends.append(evaluate(problem, state.x).optimality)
    assert max(ends) <= 1e-9


def test_two_runs_that_extend_the_same_columns_at_once_have_memories_of_their_own(monkeypatch):
    problem, others = wide(alpha=0.02, l1_ratio=1.0), []
    copy_columns = working_columns.copy_columns

    def interrupted(*arguments):
        monkeypatch.setattr(working_columns, "copy_columns", copy_columns)
        others.append(working_columns.of_columns(problem, np.array([3, 1, 7])))
        copy_columns(*arguments)

    working_columns.of_columns(problem, np.array([3, 1]))
    monkeypatch.setattr(working_columns, "copy_columns", interrupted)
    found = working_columns.of_columns(problem, np.array([3, 1, 5]))
    for here, columns in ((found, [3, 1, 5]), (others[0], [3, 1, 7])):
        np.testing.assert_array_equal(here.rows.values, np.asarray(problem.rows.values).T[columns])


@pytest.mark.parametrize("constraint", [L1Ball(1.0), Simplex(1.0)])
def test_sets_that_couple_coordinates_are_refused(constraint):
    with pytest.raises(ValueError, match="coordinate-descent needs a separable penalty, groups, a box or signs"):
        minimize(wide(constraint=constraint), method="coordinate-descent")


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("box", [None, Box(-0.1, 0.2)])
def test_gram_matrices_take_over_where_passes_gain_little(box, has_intercept, form, monkeypatch):
    """Nearly parallel columns: the minimiser is exact to the tolerance; where matrices cost much, passes are few."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + 0.1 * rng.standard_normal((40, 15))
    y = X @ (0.15 * (-1.0) ** np.arange(15)) + has_intercept
    more = {"alpha": 1e-6, "l1_ratio": 1.0} if box is None else {"constraint": box}
    term: ConvexTerm = Problem.linear(X, y, loss="squared", fit_intercept=has_intercept, **more).term
    table = np.column_stack([X, np.ones((40, int(has_intercept)))])
    rows, gradient, start = DenseRows(np.ascontiguousarray(X.T), 15, 40, 0), -table.T @ y / 40.0, np.zeros(15)
    if form == "sparse":
        matrix = sp.csr_array(X.T)
        rows = CSRRows(matrix.data, matrix.indices, matrix.indptr, 15, 40, 0)
    model = column_model(scaled(rows, np.full(40, 40.0**-0.5)), 1.0, 1.0, gradient, np.zeros(table.shape[1]), term)
    ends = []
    for cost in (0.0, np.inf):
        monkeypatch.setattr("finitesum.methods.subproblems.column_models.nanoseconds_of_face", lambda *_, c=cost: c)
        ends.append(minimised(model, start, 1e-10))
    w = np.append(ends[0].w, [ends[0].intercept] * has_intercept)
    assert term.optimality(w, gradient + table.T @ (table @ w) / 40.0) <= 2e-10
    assert ends[0].n_reads < 30
    assert ends[1].n_reads <= ENOUGH_ROUNDS * (PASSES + 1)


@pytest.mark.parametrize("most", [3, 15])
def test_gram_matrices_have_a_bounded_number_of_coefficients(most, monkeypatch):
    sizes = []
    for module in (column_costs, column_models):
        monkeypatch.setattr(module, "MOST_OF_GRAM", most)
    monkeypatch.setattr(column_costs, "OF_CALLS", 0.0)
    monkeypatch.setattr(
        column_models, "minimise_model", lambda *given: sizes.append(given[3].size) or minimise_model(*given)
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + 0.1 * rng.standard_normal((40, 15))
    problem = Problem.linear(X, X @ (0.15 * (-1.0) ** np.arange(15)), loss="squared", alpha=1e-5, l1_ratio=1.0)
    assert minimize(problem, method="coordinate-descent", tol=1e-8, max_iter=1e5).success
    assert all(size <= most for size in sizes)
    assert bool(sizes) == (most > 3)


def test_gram_matrices_of_columns_that_are_nearly_equal_have_few_coefficients(monkeypatch):
    """All slopes are near their thresholds there, and few coefficients are not 0."""
    sizes = []
    monkeypatch.setattr(column_costs, "OF_CALLS", 0.0)
    monkeypatch.setattr(
        column_models, "minimise_model", lambda *given: sizes.append(given[3].size) or minimise_model(*given)
    )
    rng = np.random.default_rng(0)
    common = rng.standard_normal((80, 1))
    X, y = common + 0.3 * rng.standard_normal((80, 200)), common[:, 0] + 0.3 * rng.standard_normal(80)
    alpha = 0.3 * float(np.abs(X.T @ y).max()) / 80.0
    result = minimize(
        Problem.linear(X, y, loss="squared", alpha=alpha, l1_ratio=1.0), method="coordinate-descent", tol=1e-8
    )
    assert result.success
    assert sizes
    assert max(sizes) < 60


@pytest.mark.parametrize("noise", [1e-2, 1e-3])
def test_few_columns_that_are_nearly_equal_take_few_steps(noise):
    """Rounds cost next to nothing there, and gain as little: a Gram matrix ends the model in which they are tried."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 1)) + noise * rng.standard_normal((100, 9))
    y = X @ (10.0 * rng.standard_normal(9)) + rng.standard_normal(100)
    problem = Problem.linear(X, y, loss="squared", alpha=1e-5, l1_ratio=1.0)
    result = minimize(problem, method="coordinate-descent", tol=1e-9)
    assert result.success
    assert result.nit <= 5


def test_models_that_take_many_reads_are_charged_as_more_hessians(monkeypatch):
    charged = []
    for n_reads in (3.0, 18.0):
        monkeypatch.setattr(
            column_models, "minimised", lambda *given, n=n_reads, **more: minimised(*given, **more)._replace(n_reads=n)
        )
        result = minimize(wide(alpha=0.02, l1_ratio=1.0), method=CoordinateDescent(first_columns=300), tol=1e-8)
        charged.append(result.n_hessian_passes)
    assert charged[1] == pytest.approx(4.5 * charged[0])


def test_auto_takes_it_for_l1_penalties_on_many_columns():
    for form in (np.asarray, sp.csr_array):
        assert choose(wide(form, d=2000, alpha=0.02, l1_ratio=1.0), 1e-8).method.name == "coordinate-descent"
    assert choose(wide(d=2000, constraint=NonNegative()), 1e-8).method.name == "coordinate-descent"
    assert choose(wide(d=2000, constraint=L1Ball(1.0)), 1e-8).method.name == "working-set-newton"
