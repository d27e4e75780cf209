"""Degrees of freedom: against the trace in all coordinates, with the Hessian as it is."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import Problem, minimize
from finitesum.estimators import freedom
from finitesum.estimators.freedom import active_in, degrees_of_freedom
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.outputs import full_hessian, loss_of, scores_at


def expected(problem, x):
    if problem.n_outputs == 1:
        hessian = hessian_at(problem, x)
    else:
        hessian = full_hessian(problem, loss_of(problem).curvatures(scores_at(problem, x)))
    active, _ = active_in(problem, x)
    hessian = hessian[np.ix_(active, active)]
    bare = hessian - np.diag(problem.term.quadratic[active])
    return np.trace(np.linalg.lstsq(hessian, bare, rcond=None)[0])


@pytest.mark.parametrize("loss", ["squared", "poisson", "logistic", "multinomial"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rows", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("d", [6, 60])
@pytest.mark.parametrize("with_weights", [False, True])
def test_it_is_the_trace_in_all_coordinates(loss, l1_ratio, rows, d, with_weights):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, d)) + 3.0
    y = {"logistic": X[:, 0] > 3.0, "poisson": rng.poisson(2.0, 30)}.get(loss, X[:, 0] + rng.standard_normal(30))
    if loss == "multinomial":
        y = rng.integers(0, 3, 30)
    if rows == "sparse":
        X = scipy.sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    X = X.astype(np.float32) if rows == "float32" else X
    more = {"penalty_weights": rng.uniform(0.5, 2.0, d)} if with_weights else {}
    given = {"alpha": 0.1, "l1_ratio": l1_ratio, "fit_intercept": loss != "poisson"}
    problem = Problem.linear(X, y, loss=loss, sample_weight=rng.integers(0, 3, 30), **given, **more)
    x = minimize(problem, tol=1e-10).x
    assert degrees_of_freedom(problem, x) == pytest.approx(expected(problem, x), rel=1e-6)
    assert degrees_of_freedom(problem, x) <= active_in(problem, x)[0].sum() + 1e-9
    if l1_ratio == 0.0 and loss != "multinomial" and d == 60:
        assert freedom._is_by_rows(problem) != with_weights


def test_no_coefficient_is_one_degree_for_the_intercept():
    problem = Problem.linear(
        [[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0], loss="squared", alpha=10.0, l1_ratio=1.0, fit_intercept=True
    )
    assert degrees_of_freedom(problem, np.array([0.0, 4.0 / 3.0])) == pytest.approx(1.0)
