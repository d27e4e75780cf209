"""Steps on a face of a model in columns, by conjugate gradients, against linear systems."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem
from finitesum.methods.subproblems import column_models
from finitesum.methods.subproblems.column_faces import FIRST_LOOK, face_step
from finitesum.methods.subproblems.column_models import column_model, minimised
from finitesum.methods.subproblems.scaled_columns import scaled
from finitesum.problems.rows import CSRRows, DenseRows


def model_at_0(form, has_intercept, n=300, d=40, alpha=0.02, mix=0.5, l1_ratio=0.9):
    """Return the model of least squares at 0 in columns that resemble their neighbours, and the table of its rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7) + has_intercept
    for j in range(1, d):
        X[:, j] = mix * X[:, j] + X[:, j - 1]
    y = X @ rng.choice([-1.0, 1.0], d) + 0.1 * rng.standard_normal(n) + has_intercept
    term = Problem.linear(X, y, loss="squared", alpha=alpha, l1_ratio=l1_ratio, fit_intercept=has_intercept).term
    table = np.column_stack([X, np.ones((n, int(has_intercept)))])
    rows = DenseRows(np.ascontiguousarray(X.T), d, n, 0)
    if form == "sparse":
        matrix = sp.csr_array(X.T)
        rows = CSRRows(matrix.data, matrix.indices, matrix.indptr, d, n, 0)
    roots = np.full(n, n**-0.5)
    return column_model(scaled(rows, roots), 1.0, 1.0, -table.T @ y / n, np.zeros(table.shape[1]), term), table, y


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("has_intercept", [False, True])
def test_a_step_ends_where_the_model_is_least_for_these_signs(form, has_intercept):
    model, table, y = model_at_0(form, has_intercept)
    n, d = len(y), model.figures.shape[1]
    quadratic, thresholds = model.figures[2], model.figures[3]
    hessian = table.T @ table / n + np.diag(np.append(quadratic, np.zeros(int(has_intercept))))
    right = table.T @ y / n
    near = np.linalg.solve(hessian, right)
    w = np.where(near[:d] != 0.0, 0.5 * near[:d], 1.0)  # of the same signs
    right[:d] -= thresholds * np.sign(w)
    exact = np.linalg.solve(hessian, right)[:d]
    assert (np.sign(exact) == np.sign(w)).all()
    intercept = (right - hessian[:, :d] @ w)[-1] / hessian[-1, -1] if has_intercept else 0.0
    slope = hessian[:d, :d] @ w - table.T[:d] @ y / n + has_intercept * intercept * model.figures[6]
    step = face_step(model.columns, model.figures, model.total, slope, w, (1e-10, 500))
    assert step.is_solved
    np.testing.assert_allclose(step.w, exact, rtol=1e-6)


def test_no_step_is_taken_on_a_face_that_is_far_from_the_right_one():
    model, table, y = model_at_0("dense", has_intercept=False)
    w = -np.sign(np.linalg.solve(table.T @ table, table.T @ y))
    slope = table.T @ (table @ w - y) / len(y) + model.figures[2] * w
    step = face_step(model.columns, model.figures, 0.0, slope, w, (0.0, 500))
    assert step.w.size == 0
    assert step.n_products == FIRST_LOOK


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("has_intercept", [False, True])
def test_columns_that_resemble_each_other_take_fewer_reads_by_conjugate_gradients(form, has_intercept, monkeypatch):
    model, table, y = model_at_0(form, has_intercept, alpha=1e-3)
    monkeypatch.setattr(column_models, "nanoseconds_of_face", lambda *_: np.inf)
    monkeypatch.setattr(column_models, "OF_PRODUCT", 0.0)
    monkeypatch.setattr(column_models, "MOST_ROUNDS", 500)
    monkeypatch.setattr(column_models, "FAR", 0.0)
    ends = []
    for fewest in (8, np.inf):
        monkeypatch.setattr(column_models, "FEWEST_PRODUCTS", fewest)
        ends.append(minimised(model, np.zeros(model.figures.shape[1]), 1e-9))
    w = np.append(ends[0].w, [ends[0].intercept] * has_intercept)
    assert model.term.optimality(w, table.T @ (table @ w - y) / len(y) + model.term.quadratic * w) <= 2e-9
    assert ends[0].n_reads < 0.5 * ends[1].n_reads


def rounds_with_tries(monkeypatch, model, solved):
    """Return the rounds after which conjugate gradients were tried where a Gram matrix is out of reach."""
    tries, descended, descend = list[int](), list[int](), column_models._descend

    def on_face(model, _start, _point, _ends):
        tries.append(len(descended))
        return None, 6, solved

    def counted(*given):
        descended.append(descend(*given))
        return descended[-1]

    monkeypatch.setattr(column_models, "nanoseconds_of_face", lambda *_: np.inf)
    monkeypatch.setattr(column_models, "OF_PRODUCT", 0.0)
    monkeypatch.setattr(column_models, "FAR", 0.0)
    monkeypatch.setattr(column_models, "_on_face", on_face)
    monkeypatch.setattr(column_models, "_descend", counted)
    minimised(model, np.zeros(model.figures.shape[1]), 1e-13)
    return tries


def test_conjugate_gradients_come_after_one_round_and_later_where_they_failed(monkeypatch):
    model, *_ = model_at_0("dense", has_intercept=False, alpha=1e-3)
    tries = rounds_with_tries(monkeypatch, model, solved=False)
    assert tries[0] == 1
    assert len(tries) > 1
    assert all(after >= 2 * before for before, after in pairwise(tries))


@pytest.mark.parametrize("l1_ratio", [0.9, 1.0])
def test_with_many_coordinates_an_l2_penalty_lets_them_come_after_two_rounds(l1_ratio, monkeypatch):
    model, *_ = model_at_0("dense", has_intercept=False, n=70, alpha=1e-3, l1_ratio=l1_ratio)
    tries = rounds_with_tries(monkeypatch, model, solved=True)
    assert tries[:1] == ([2] if l1_ratio < 1.0 else [])
