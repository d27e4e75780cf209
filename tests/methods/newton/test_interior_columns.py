"""Interior points on working sets of columns: the minimum of all columns, by few of them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.constraints import L1Ball
from finitesum.methods.auto import choose
from finitesum.methods.newton import interior_columns, interior_point
from finitesum.methods.newton.interior_point import InteriorPoint


def sparse_signal(loss="quantile", n=1200, d=1500, *, form="dense", share=0.3, seed=0, **more):
    """Return a problem whose solution has few coefficients, at a share of the least alpha with none."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1)
    y = X[:, :10] @ rng.choice([-1.0, 1.0], 10) + 0.3 * rng.standard_normal(n)
    if loss == "hinge":
        y = np.where(y > 0.0, 1.0, -1.0)
    alpha = share * float(np.abs(X.T @ (0.5 * np.sign(y))).max()) / n
    settings = {"alpha": alpha, "l1_ratio": 1.0, **more}
    return Problem.linear(sp.csr_array(X) if form == "csr" else X, y, loss=loss, **settings)


def in_all_columns(problem):
    return minimize(problem, method=InteriorPoint(first_columns=problem.rows.n_columns), tol=1e-10, measure_every=0)


@pytest.mark.as_chosen
@pytest.mark.parametrize("loss", ["quantile", "hinge", "absolute", "epsilon-insensitive"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("has_intercept", [False, True])
def test_the_minimum_is_that_of_all_columns(loss, form, has_intercept):
    problem = sparse_signal(loss, form=form, share=0.6, fit_intercept=has_intercept)
    found = minimize(problem, method="interior-point", tol=1e-9)
    assert found.success
    assert found.fun == pytest.approx(in_all_columns(problem).fun, abs=2e-9)
    assert 0 < np.count_nonzero(found.x) < 300


@pytest.mark.as_chosen
@pytest.mark.parametrize(
    "more",
    [
        {"l1_ratio": 0.5},
        {"offset": np.linspace(-1.0, 1.0, 1200)},
        {"sample_weight": np.where(np.arange(1200) % 5, 1.0, 0.0)},
        {"penalty_weights": np.linspace(0.5, 2.0, 1500)},
    ],
    ids=["elastic net", "offsets", "weights of rows", "weights of columns"],
)
def test_terms_and_rows_of_every_kind(more):
    problem = sparse_signal(**more)
    assert interior_columns.takes_columns(problem)
    found = minimize(problem, method="interior-point", tol=1e-9)
    assert found.success
    assert found.fun == pytest.approx(in_all_columns(problem).fun, abs=2e-9)


def test_a_working_set_that_is_too_small_grows(monkeypatch):
    sizes, part_on = [], interior_point.part_on
    monkeypatch.setattr(
        interior_point, "part_on", lambda problem, columns: sizes.append(columns.size) or part_on(problem, columns)
    )
    problem = sparse_signal(share=0.6)
    found = minimize(problem, method=InteriorPoint(first_columns=2), tol=1e-9)
    assert found.success
    assert found.fun == pytest.approx(in_all_columns(problem).fun, abs=2e-9)
    assert sizes[0] == 2
    assert len(set(sizes)) > 2


def test_all_columns_are_taken_where_many_matter():
    problem = sparse_signal(share=1e-3)
    found = minimize(problem, method="interior-point", tol=1e-8)
    assert found.success
    assert found.fun == pytest.approx(in_all_columns(problem).fun, abs=2e-8)
    assert np.count_nonzero(found.x) > 0.25 * 1200


def test_auto_takes_them_beyond_3000_columns_and_rows():
    X = sp.random_array((4000, 5000), density=0.002, rng=np.random.default_rng(0), format="csr")
    y = X @ np.where(np.arange(5000) < 5, 3.0, 0.0) + 0.01 * np.random.default_rng(1).standard_normal(4000)
    alpha = 0.6 * float(np.abs(X.T @ (0.5 * np.sign(y))).max()) / 4000
    problem = Problem.linear(X, y, loss="quantile", alpha=alpha, l1_ratio=1.0)
    assert choose(problem, 1e-8).method.name == "linear-program"  # whose factors are sparse
    dense = Problem.linear(X.toarray(), y, loss="quantile", alpha=alpha, l1_ratio=1.0)
    assert choose(dense, 1e-8).method.name == "interior-point"
    assert minimize(problem, method="interior-point", tol=1e-8).success
    assert choose(sparse_signal(d=4000, n=3500, constraint=L1Ball(1.0), alpha=0.0), 1e-8).method.name != "interior-point"


def test_a_run_is_resumed_to_the_same_bits(tmp_path):
    """On working sets, and after they were given up for all columns."""
    rng, path = np.random.default_rng(0), tmp_path / "run.npz"
    X = rng.standard_normal((60, 30))
    y = X[:, 0] + rng.standard_normal(60)
    problem = Problem.linear(X, y, loss="absolute", alpha=0.003, l1_ratio=1.0)
    settings = {"method": InteriorPoint(first_columns=2), "tol": 1e-9, "random_state": 0}
    whole = minimize(problem, **settings)
    for limit in range(2, 16):
        minimize(problem, max_iter=limit, checkpoint=path, resume=limit > 2, **settings)
    resumed = minimize(problem, checkpoint=path, resume=True, **settings)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.n_passes == whole.n_passes


def test_targets_of_one_sign_have_a_first_working_set():
    """At 0 all slopes have one sign; those at the best intercept tell which columns matter."""
    problem = sparse_signal(share=0.6, fit_intercept=True)
    higher = replace(problem, targets=problem.targets + 100.0)
    expected, _ = interior_columns.first_columns(problem, np.zeros(problem.dim), 20)
    found, _ = interior_columns.first_columns(higher, np.zeros(problem.dim), 20)
    assert set(range(10)) <= set(expected.tolist())
    assert set(range(10)) <= set(found.tolist())


def test_all_columns_are_not_taken_where_their_matrix_may_not_fit():
    X = sp.csr_array((np.ones(4), (np.arange(4), np.arange(4))), shape=(50_000, 60_000))
    problem = Problem.linear(X, np.arange(50_000.0) - 25_000.0, loss="quantile", alpha=1e-9, l1_ratio=1.0)
    assert interior_columns.takes_columns(problem)
    assert not interior_columns.working_sets_fit(problem)
    assert not interior_columns.is_for_all(problem, np.arange(20_000))
    assert interior_columns.is_for_all(sparse_signal(), np.arange(400))


@pytest.mark.parametrize("has_intercept", [False, True])
def test_columns_that_move_nothing(has_intercept):
    """Columns of zeros make no working set; a start that is not 0 belongs to the first one."""
    X, y = np.zeros((30, 20)), np.random.default_rng(0).standard_normal(30)
    settings = {"loss": "absolute", "alpha": 0.1, "l1_ratio": 1.0, "fit_intercept": has_intercept}
    found = minimize(Problem.linear(X, y, **settings), method=InteriorPoint(first_columns=2), tol=1e-9)
    assert found.success
    assert not found.x[:20].any()
    X[:, 3] = y
    start = np.ones(20 + has_intercept)
    found = minimize(Problem.linear(X, y, **settings), method=InteriorPoint(first_columns=2), x0=start, tol=1e-9)
    assert found.success
    assert found.x[3] == pytest.approx(1.0, abs=1e-6)
    assert abs(np.delete(found.x[:20], 3)).max() <= 1e-6
