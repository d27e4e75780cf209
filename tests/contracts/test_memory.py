"""What a fit has made goes with it: no problem, and so no copy of the rows, waits for the collection of garbage."""

import gc

import numpy as np
import pytest
import scipy.sparse

import finitesum
from finitesum import METHODS, FiniteSum, Problem, minimize

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 5))
SIGNAL = X @ rng.standard_normal(5) + rng.standard_normal(400)

#: A loss, targets and a penalty by method; else the logistic loss with an l2 penalty.
OTHERS = {
    "multinomial-newton": ("multinomial", np.digitize(SIGNAL, [-1.0, 1.0]), {"alpha": 0.1}),
    "multinomial-lbfgs": ("multinomial", np.digitize(SIGNAL, [-1.0, 1.0]), {"alpha": 0.1}),
    "multinomial-working-set": ("multinomial", np.digitize(SIGNAL, [-1.0, 1.0]), {"alpha": 0.01, "l1_ratio": 1.0}),
    "dual-ascent": ("hinge", SIGNAL > 0.0, {"alpha": 0.1}),
    "semismooth-newton": ("hinge", SIGNAL > 0.0, {"alpha": 0.1}),
    "interior-point": ("hinge", SIGNAL > 0.0, {"alpha": 0.1}),
    "linear-program": ("hinge", SIGNAL > 0.0, {"constraint": finitesum.constraints.L1Ball(1.0)}),
    "working-set-newton": ("logistic", SIGNAL > 0.0, {"alpha": 0.01, "l1_ratio": 1.0}),
    "coordinate-descent": ("logistic", SIGNAL > 0.0, {"alpha": 0.01, "l1_ratio": 1.0}),
}

ESTIMATORS = {
    "logistic": (finitesum.LogisticRegression(), SIGNAL > 0.0),
    "l1": (finitesum.LogisticRegression(l1_ratio=1.0, C=0.1), SIGNAL > 0.0),
    "classes": (finitesum.LogisticRegression(), np.digitize(SIGNAL, [-1.0, 1.0])),
    "hinge": (finitesum.LinearSVC(loss="hinge"), SIGNAL > 0.0),
    "squared hinge": (finitesum.LinearSVC(), SIGNAL > 0.0),
    "ridge": (finitesum.Ridge(), SIGNAL),
    "poisson": (finitesum.PoissonRegressor(), rng.poisson(1.0, 400)),
    "huber": (finitesum.HuberRegressor(), SIGNAL),
}


@pytest.fixture
def left():
    """What counts the problems that there are beyond those before, while no garbage is collected."""

    def count():
        return sum(issubclass(type(one), Problem | FiniteSum) for one in gc.get_objects())

    gc.freeze()  # what there is already is not looked through
    gc.disable()
    yield count
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize("method", METHODS)
def test_a_run_leaves_no_problem(method, left):
    loss, y, term = OTHERS.get(method, ("logistic", SIGNAL > 0.0, {"alpha": 0.1}))
    result = minimize(Problem.linear(X, y, loss=loss, **term), method=method, tol=1e-3, max_iter=3, measure_every=0)
    assert np.isfinite(result.x).all()
    assert left() <= 0


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_leaves_no_problem(name, form, left):
    model, y = ESTIMATORS[name]
    model.fit(form(X), y)
    assert np.isfinite(model.coef_).all()
    assert left() <= 0


@pytest.mark.parametrize("method", ["saga", "svrg", "newton", "a-ciag", "iqn"])
def test_a_run_on_functions_leaves_no_problem(method, left):
    problem = FiniteSum.from_linear(Problem.linear(X[:9], SIGNAL[:9], loss="squared", alpha=0.1))
    result = minimize(problem, method=method, tol=1e-3, max_iter=3, measure_every=0)
    assert np.isfinite(result.x).all()
    del problem
    assert left() <= 0


@pytest.mark.parametrize("method", ["newton", "lazy-newton", "newton-cg", "working-set-newton", "saga", "auto"])
def test_a_run_on_parts_leaves_no_problem(method, left):
    y, weight = np.where(SIGNAL > 0.0, 1.0, -1.0), rng.uniform(0.5, 1.0, len(SIGNAL))
    parts = [(X[rows], y[rows], weight[rows]) for rows in (slice(150), slice(150, 400))]
    problem = Problem.partitioned(parts, alpha=0.1)
    result = minimize(problem, method=method, tol=1e-3, max_iter=3, measure_every=0)
    np.testing.assert_array_equal(problem.targets, y)
    assert np.isfinite(result.x).all()
    del problem
    assert left() <= 0
