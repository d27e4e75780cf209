"""Hessians of classes in differences to the last one, and the rows that stand for all."""

import numpy as np
import pytest
from contracts.test_outputs import make_pair, start

from finitesum import Problem
from finitesum.evaluation import class_hessians, outputs as several


def of(problem, w):
    return several.loss_of(problem).curvatures(several.scores_at(problem, w))


@pytest.mark.parametrize("joint", [0, 100])
@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_the_hessian_in_differences_is_that_of_the_sum(form, joint, monkeypatch):
    monkeypatch.setattr(class_hessians, "MOST_JOINT", joint)
    monkeypatch.setattr(class_hessians, "BLOCK_SIZE", 1)  # of several blocks
    problem, oracle = make_pair(form, intercept=True, weighted=True, n=40)
    w = start(problem)
    rows = np.flatnonzero(problem.weights)
    found = class_hessians.hessian_of_differences(problem, of(problem, w), rows, problem.weights[rows], np.float64)
    changes = np.kron((np.eye(3) - 1.0 / 3.0)[:, :2], np.eye(5))  # of w, by differences, with its mean kept
    np.testing.assert_allclose(np.tril(found), np.tril(changes.T @ oracle.hessian(w) @ changes), atol=1e-13)


def test_rows_that_count_stand_for_all():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3)) * np.exp(rng.standard_normal((4000, 1)))
    problem = Problem.linear(X, rng.integers(0, 3, 4000), loss="multinomial", alpha=1e-6)
    chances = of(problem, 2.0 * rng.standard_normal(9))
    sizes = (1.0 - (chances**2).sum(axis=1)) * ((X**2).sum(axis=1) + 1.0)
    rows, weights = class_hessians.rows_that_count(problem, chances, 500)
    assert abs(rows.size - 500) <= 5
    assert (np.diff(rows) > 0).all()
    assert (weights >= problem.weights[rows] * (1.0 - 1e-12)).all()
    assert np.isin(np.argsort(sizes)[-20:], rows).all()  # the largest are taken for certain
    assert (weights * sizes[rows]).sum() == pytest.approx((problem.weights * sizes).sum(), rel=0.02)
    whole, all_weights = class_hessians.rows_that_count(problem, chances, 4000)
    assert whole.size == 4000
    assert (all_weights == problem.weights).all()
