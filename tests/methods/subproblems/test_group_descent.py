"""Coordinate descent by groups of columns: its passes, its ends by Gram matrices, and when it is chosen."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.constraints import Unconstrained
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.auto import choose
from finitesum.methods.subproblems import group_descent, prox_models
from finitesum.methods.subproblems.scaled_columns import scaled
from finitesum.problems.penalties import GroupLasso
from finitesum.problems.rows import CSRRows, DenseRows
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import as_penalty

pytestmark = pytest.mark.usefixtures("kernels_as_python")

K, N = 8, 30
LABELS = np.array([0, 1, 1, 0, 2, 2, 2, 3])


def model_of(form, l1_ratio, *, has_intercept, unit=1.0):
    rng = np.random.default_rng(0)
    X, h, w = rng.standard_normal((N, K)) + 0.5, rng.random(N) + 0.2, np.zeros(K)
    w[[0, 3, 4, 5]] = rng.standard_normal(4)
    gradient = rng.standard_normal(K + has_intercept)
    columns = DenseRows(X.T.copy(), K, N, 0)
    if form == "csr":
        of = sp.csr_array(X.T)
        columns = CSRRows(of.data, of.indices.astype(np.int32), of.indptr.astype(np.int32), K, N, 0)
    term = ConvexTerm(as_penalty(GroupLasso(0.3, LABELS, l1_ratio), K), Unconstrained(), K, int(has_intercept))
    total = float(h.sum()) / unit
    model = prox_models.prox_model(scaled(columns, np.sqrt(h / unit)), total, unit, gradient, np.append(w, 0.0), term)
    return model, (X, h, gradient, w)


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
def test_a_pass_is_a_step_of_the_prox_for_each_group(l1_ratio, form, has_intercept, monkeypatch):
    monkeypatch.setattr(group_descent, "PASSES", 1)
    model, (X, h, gradient, start) = model_of(form, l1_ratio, has_intercept=has_intercept, unit=0.2)
    w, r, shift = start.copy(), np.zeros(N), np.array([prox_models._intercept(model, np.zeros(K))])
    history = np.empty((1, K))
    group_descent.descend(model.columns, model.term.penalty, model.figures, model.total, w, r, shift, history, 0.0)

    z = np.column_stack([X, np.ones(N)]) if has_intercept else X
    hessian, at = z.T @ (h[:, None] * z), np.append(start, 0.0)[: z.shape[1]]
    before = at.copy()
    for g in range(4):
        inside = np.flatnonzero(g == LABELS)
        slope = gradient + hessian @ (at - before)
        block = hessian[np.ix_(inside, inside)].copy()
        if has_intercept:
            at[-1] -= slope[-1] / hessian[-1, -1]
            slope = gradient + hessian @ (at - before)
            block -= np.outer(hessian[inside, -1], hessian[inside, -1]) / hessian[-1, -1]
        largest = np.linalg.eigvalsh(block)[-1]
        end = at[inside] - slope[inside] / largest
        end = np.sign(end) * np.maximum(np.abs(end) - 0.3 * l1_ratio / largest, 0.0)
        threshold = 0.3 * (1.0 - l1_ratio) * np.sqrt(inside.size) / largest
        size = np.linalg.norm(end)
        at[inside] = end * max(1.0 - threshold / size, 0.0) if size > 0.0 else 0.0
    np.testing.assert_allclose(w, at[:K], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber"])
def test_it_ends_where_newton_s_method_does(loss, l1_ratio, form):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 30)) * (rng.random((40, 30)) < 0.6) * np.geomspace(0.3, 3.0, 30)
    u = X[:, 12:16].sum(axis=1) / 2.0 + rng.standard_normal(40)
    y = {"logistic": u > 0.0, "poisson": rng.poisson(np.exp(np.clip(u, -3.0, 2.0)))}.get(loss, u)
    own = {"alpha": 0.03, "l1_ratio": l1_ratio, "groups": rng.integers(0, 10, 30), "sample_weight": rng.random(40) + 0.1}
    problem = Problem.linear(form(X), y, loss=loss, fit_intercept=True, **own)
    found, wanted = (minimize(problem, method=name, tol=1e-9) for name in ("coordinate-descent", "newton"))
    assert found.success
    assert evaluate(problem, found.x).optimality <= 1e-9
    assert found.fun == pytest.approx(wanted.fun, rel=1e-10)


def test_gram_matrices_end_models_whose_passes_gain_little(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 24)) + 3.0 * rng.standard_normal((60, 1))
    y, counts = X @ rng.standard_normal(24) + rng.standard_normal(60), []
    labels = np.arange(24) // 3
    for is_allowed in (True, False):
        if not is_allowed:
            monkeypatch.setattr(prox_models, "_by_gram", lambda model, w, *_: w)
        problem = Problem.linear(X, y, loss="squared", alpha=0.01, groups=labels)
        counts.append(minimize(problem, method="coordinate-descent", tol=1e-9, max_iter=200).n_hessian_passes)
    assert counts[0] < 0.5 * counts[1]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_an_intercept_without_groups_that_move_is_found(loss):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 4)), np.arange(20) % 3 == 0
    problem = Problem.linear(X, y, loss=loss, alpha=100.0, groups=[0, 0, 1, 1], fit_intercept=True)
    found = minimize(problem, method="coordinate-descent", tol=1e-9)
    assert found.success
    assert not found.x[:4].any()


@pytest.mark.parametrize(("n", "d", "name"), [(5000, 600, "coordinate-descent"), (4000, 600, "working-set-newton")])
def test_it_is_chosen_from_three_million_entries_on(n, d, name):
    X = sp.csr_array(([1.0], ([0], [0])), shape=(n, d))
    problem = Problem.linear(X, np.arange(n) % 2, loss="logistic", alpha=0.1, groups=np.arange(d) // 4)
    assert choose(problem).method.name == name
