"""Newton's steps for several outputs in the span of few rows, against steps in all columns."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import Problem, minimize
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_space import row_space
from finitesum.methods import MultinomialNewton
from finitesum.methods.class_costs import is_worth_span

SOLVERS = "exact", "cg"


def wide(*, n=30, d=200, n_classes=4, scales=0.0, shift=0.0, repeats=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(scales * rng.standard_normal(d)) + shift
    X[n - repeats :] = X[:repeats] * (1.0 + 1e-9 * rng.standard_normal((repeats, 1)))  # nearly
    return X, rng.integers(0, n_classes, n)


def problem_of(X, y, **settings):
    return Problem.linear(X, y, loss="multinomial", **{"alpha": 1e-2, "fit_intercept": True} | settings)


def run(problem, solver, x0=None, tol=1e-10, **settings):
    return minimize(problem, x0, method=MultinomialNewton(solver), tol=tol, **settings)


def penalised(x, n_outputs=4):
    return x.reshape(n_outputs, -1)[:, :-1]


CASES = [{}, {"scales": 1.5}, {"shift": 5.0}, {"repeats": 10}, {"n_classes": 3, "n": 12, "d": 400}]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("alpha", [1e-5, 1e-2, 1.0])
def test_the_minimum_is_that_of_steps_in_all_columns(case, alpha, solver, monkeypatch):
    problem = problem_of(*wide(**case), alpha=alpha)
    assert is_worth_span(problem)
    found = run(problem, solver)
    assert found.success
    assert found.state.within.size == problem.n_outputs * (row_space(problem).mixed.shape[1] + 1)
    monkeypatch.setattr("finitesum.methods.newton.multinomial_newton.is_worth_span", lambda problem: False)
    monkeypatch.setattr("finitesum.methods.newton.multinomial_newton.is_wide", lambda problem: False)
    expected = run(problem_of(*wide(**case), alpha=alpha), solver, max_iter=10_000)
    assert expected.state.within.size == 0
    assert found.fun == pytest.approx(expected.fun, rel=1e-12)
    np.testing.assert_allclose(*(penalised(one.x, problem.n_outputs) for one in (found, expected)), atol=2e-10 / alpha)


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_offsets_and_single_precision_are_those_of_the_user(solver):
    X, y = wide(seed=1)
    rng = np.random.default_rng(2)
    weights, offsets = rng.integers(0, 3, len(y)).astype(float), rng.standard_normal((len(y), 4))
    kept = np.repeat(np.arange(len(y)), weights.astype(int))
    found = run(problem_of(X.astype(np.float32), y, sample_weight=weights, offset=offsets), solver)
    repeated = run(problem_of(X.astype(np.float32)[kept].astype(float), y[kept], offset=offsets[kept]), solver)
    assert found.success
    np.testing.assert_allclose(penalised(found.x), penalised(repeated.x), atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_out_of_the_span_is_a_start(solver):
    problem = problem_of(*wide())
    x0 = np.random.default_rng(3).standard_normal(problem.dim)
    states = []
    found = run(problem, solver, x0, callback=lambda report: states.append(report.x.copy()))
    assert found.success
    np.testing.assert_allclose(penalised(found.x), penalised(run(problem, solver).x), atol=1e-7)
    assert evaluate(problem, states[-1]).optimality <= 1e-10


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_run_leaves_the_span_for_digits_that_are_lost_there(solver):
    """Gradients in the span of rows that nearly repeat are off by some 1e-12: a check in all columns finds it."""
    problem = problem_of(*wide(repeats=14, shift=3.0), alpha=1e-4)
    found = run(problem, solver, tol=1e-13, max_iter=3000)
    assert found.state.within.size == 0
    assert evaluate(problem, found.x).optimality <= 1e-12


def test_one_factor_of_all_classes_takes_fewer_products_than_a_diagonal(monkeypatch):
    X, y = wide(n=60, d=300, scales=1.5)
    in_span = run(problem_of(X, y), "cg").n_passes
    monkeypatch.setattr("finitesum.methods.newton.multinomial_newton.is_worth_span", lambda problem: False)
    assert in_span < 0.5 * run(problem_of(X, y), "cg").n_passes


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_run_that_stops_within_a_step_goes_on_to_the_same_bits(solver, tmp_path):
    X, y = wide(n=60, d=300, scales=1.0)
    whole = run(problem_of(X, y), solver)
    for most in (3, 10, 17):
        file = tmp_path / f"{most}.npz"
        run(problem_of(X, y), solver, max_iter=most, checkpoint=file)
        found = run(problem_of(X, y), solver, checkpoint=file, resume=True)
        np.testing.assert_array_equal(found.x, whole.x)
        assert found.n_passes == whole.n_passes


def test_what_is_known_of_a_problem_does_not_change_the_method_or_what_it_does():
    X, y = wide(n=30, d=14_000, n_classes=3)
    problem = problem_of(X, y)
    first = minimize(problem, tol=1e-10, max_iter=3)
    again = minimize(problem, tol=1e-10)
    assert first.method == again.method == minimize(problem_of(X, y), tol=1e-10).method
    assert minimize(problem, tol=1e-10, earlier=first).success
    dense, rare = (
        np.random.default_rng(0).standard_normal((200, 200)),
        scipy.sparse.random(200, 50_000, 1e-4, random_state=0),
    )
    rows, labels = scipy.sparse.hstack([dense, rare], format="csr"), np.arange(200) % 3
    known = problem_of(rows, labels)
    run(known, "exact", max_iter=2)
    n_passes = [minimize(one, method="multinomial-newton").n_passes for one in (known, problem_of(rows, labels))]
    assert n_passes[0] == n_passes[1]


@pytest.mark.parametrize(("n", "d", "far"), [(20, 200, 30.0), (20, 200, 1e3), (60, 400, 30.0)])
def test_auto_goes_on_with_another_method_where_steps_end(n, d, far):
    """So far from the solution curvatures are rounding errors."""
    problem = problem_of(wide(n=n, d=d)[0], np.arange(n) % 4)
    found = minimize(problem, far * np.random.default_rng(1).standard_normal(problem.dim), tol=1e-8)
    assert found.success
    assert found.fun == pytest.approx(minimize(problem, tol=1e-8).fun, rel=1e-9)


def test_auto_goes_on_with_another_method_where_a_step_is_not_finite():
    X, y = np.random.default_rng(0).standard_normal((20, 200)), np.arange(20) % 4
    far = minimize(problem_of(X, y, alpha=5e-8), tol=1e-10).x
    found = minimize(problem_of(-100.0 * X, y, alpha=5e-8), far, tol=1e-8)
    assert found.success


def test_sparse_rows_with_few_entries_stay_in_all_columns():
    X = scipy.sparse.random(200, 2000, density=0.002, format="csr", random_state=0)
    assert not is_worth_span(problem_of(X, np.arange(200) % 3))


def test_auto_takes_a_factor_for_few_numbers_and_products_for_more():
    few, more = problem_of(*wide(n=20)), problem_of(*wide(n=150, d=600))
    assert minimize(few, tol=1e-10).method == MultinomialNewton("exact")
    assert minimize(more, tol=1e-10).method == MultinomialNewton("cg")
    assert row_space(more).mixed.shape == (150, 150)
