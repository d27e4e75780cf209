"""Sparse rows whose columns are mostly without entries: runs are in the others, and what they find has all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import LinearSVC, LogisticRegression, Problem, Ridge, minimize
from finitesum.estimators.path import logistic_path
from finitesum.evaluation.optimality import evaluate
from finitesum.problems.linear import share_rows
from finitesum.problems.used_columns import in_used_columns

D = 50_000


def hashed(seed=0, n=120, d=D, vocabulary=300):
    """Return rows of few words, hashed to many columns."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(d)[:vocabulary]
    X = sp.random_array((n, vocabulary), density=0.05, rng=rng, format="coo")
    X = sp.csr_array((X.data + 0.1, (X.coords[0], places[X.coords[1]])), shape=(n, d))
    scores = X @ rng.standard_normal(d)
    return X, scores + 0.1 * rng.standard_normal(n), rng


def of_loss(loss, u):
    if loss == "multinomial":
        return np.digitize(u, np.quantile(u, [0.3, 0.6]))
    if loss == "poisson":
        return np.round(np.exp(np.clip(u, -2.0, 2.0)))
    return np.where(u > 0.0, 1.0, -1.0) if loss in ("logistic", "hinge") else u


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared", "hinge", "poisson"])
def test_runs_are_those_in_the_used_columns(loss, l1_ratio):
    X, u, rng = hashed()
    used = np.unique(X.indices)
    given = {"y": of_loss(loss, u), "loss": loss, "alpha": 0.02, "l1_ratio": l1_ratio, "fit_intercept": True}
    given |= {"sample_weight": rng.random(len(u)) + 0.1}
    problem, other = Problem.linear(X, **given), Problem.linear(X[:, used], **given)
    seen = []
    result = minimize(problem, tol=1e-7, callback=lambda report: seen.append((report.x.size, report.x[D])))
    expected = minimize(other, tol=1e-7)
    table = result.x.reshape(problem.n_outputs, D + 1)
    of_used = expected.x.reshape(problem.n_outputs, used.size + 1)
    np.testing.assert_array_equal(table[:, used], of_used[:, :-1])
    np.testing.assert_array_equal(table[:, D], of_used[:, -1])
    assert np.count_nonzero(table) == np.count_nonzero(of_used)
    assert result.success
    assert result.jac.shape == result.x.shape
    assert seen[-1] == (problem.dim, table[0, D])
    if loss != "hinge":  # whose gap is known with its dual variables
        assert evaluate(problem, result.x).optimality <= 1.01e-7


def test_what_needs_all_columns_has_them():
    X, u, _ = hashed()
    free = np.ones(D)
    free[:3] = 0.0
    for given in ({"alpha": 0.0}, {"alpha": 0.1, "penalty_weights": free}):
        assert in_used_columns(Problem.linear(X, u, loss="squared", **given)) is None
    assert in_used_columns(Problem.linear(X[:, np.unique(X.indices)], u, loss="squared", alpha=0.1)) is None


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "multinomial"])
@pytest.mark.parametrize("has_intercept", [False, True])
def test_rows_without_any_entry_have_coefficients_of_0(loss, has_intercept):
    y = np.arange(60) % (3 if loss == "multinomial" else 2)
    problem = Problem.linear(sp.csr_array((60, 5000)), y, loss=loss, alpha=0.1, fit_intercept=has_intercept)
    result = minimize(problem, tol=1e-8)
    assert result.success
    assert not result.x.reshape(problem.n_outputs, -1)[:, :5000].any()


@pytest.mark.parametrize("has_others", [False, True])
def test_resumed_runs_have_the_same_bits(tmp_path, has_others):
    X, u, _ = hashed()
    problem, file = Problem.linear(X, of_loss("logistic", u), alpha=1e-4), tmp_path / "run.npz"
    start = None
    if has_others:  # a coefficient of a column without entries, which is left out
        start = np.zeros(D)
        start[np.setdiff1d(np.arange(D), X.indices)[0]] = 1.0
    given = {"method": "saga", "tol": 1e-12}
    whole = minimize(problem, start, **given, max_iter=10)
    first = minimize(problem, start, **given, max_iter=5, checkpoint=file)
    resumed = minimize(problem, **given, max_iter=10, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.state.x.size == np.unique(X.indices).size
    later = minimize(problem, **given, max_iter=6, earlier=first)  # the check of where it begins is a pass
    np.testing.assert_array_equal(later.x, whole.x)


@pytest.mark.parametrize("model", [LogisticRegression(tol=1e-9), LinearSVC(tol=1e-9), Ridge(tol=1e-9)])
def test_estimators_have_all_coefficients(model):
    X, u, _ = hashed()
    used = np.unique(X.indices)
    y = u if isinstance(model, Ridge) else of_loss("logistic", u)
    coef = np.array(model.fit(X, y).coef_).reshape(-1)
    assert coef.size == D
    fewer = np.array(model.fit(X[:, used], y).coef_).reshape(-1)
    np.testing.assert_array_equal(coef[used], fewer)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), model.fit(X[:, used], y).predict(X[:, used]))


def test_warm_starts_go_on():
    X, u, _ = hashed()
    model = LogisticRegression(warm_start=True, max_iter=3, solver="saga", tol=1e-8)
    with pytest.warns(Warning, match="max_iter"):
        model.fit(X, u > 0.0)
    model.max_iter = 5000
    again = model.fit(X, u > 0.0)
    assert again.optimality_ <= 1e-8


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_paths_carry_the_state_of_the_used_columns(l1_ratio):
    X, u, _ = hashed(n=400, vocabulary=60, d=5000)
    used = np.unique(X.indices)
    given = {"Cs": [0.1, 1.0, 10.0], "solver": "lazy-newton", "tol": 1e-8, "l1_ratio": l1_ratio}
    path, other = logistic_path(X, u > 0.0, **given), logistic_path(X[:, used], u > 0.0, **given)
    np.testing.assert_allclose(np.asarray(path.coefs)[..., used], other.coefs, atol=1e-6)


def test_targets_share_the_hessian_of_the_used_columns():
    X, u, rng = hashed()
    problems = [Problem.linear(X, rng.standard_normal(len(u)), loss="squared", alpha=0.1) for _ in range(3)]
    share_rows(problems)
    assert [in_used_columns(one).problem.n_sharing for one in problems] == [3, 3, 3]
