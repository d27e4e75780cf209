"""An l1 penalty, an elastic net or penalty weights beside bounds of the coefficients.

Minima are compared with a long proximal gradient method of NumPy, which shrinks a coefficient and clips it; where the loss
has corners a bound of the minimum is proved. scikit-learn knows the squared loss on w >= 0.
"""

import math

import numpy as np
import pytest
from contracts.problems import FORMATS, as_format
from oracles import projected_gradients
from oracles.outputs import SumOfOutputs
from oracles.sums import Sum
from sklearn.linear_model import ElasticNet

from finitesum import FiniteSum, LinearRegressor, LinearRegressorCV, LogisticRegression, Problem, linear_path, minimize
from finitesum.constraints import Box, L1Ball, NonNegative
from finitesum.methods.subproblems import active_set
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.linear import Problem as Linear
from finitesum.problems.penalties import MCP

N, D, K = 60, 5, 3
ALPHA, L1_RATIO = 0.05, 0.8

#: Bounds of each column: on both sides of 0, from 0 on, on one side of it without 0, on one side without an end, and none.
LOWER = np.array([-0.2, 0.0, 0.1, -math.inf, -math.inf])
UPPER = np.array([0.1, 0.3, 0.6, 0.0, math.inf])

#: Sets by name, with lower and upper bounds.
SETS = {
    "signs": (NonNegative(), 0.0, math.inf),
    "one interval": (Box(-0.1, 0.15), -0.1, 0.15),
    "intervals": (Box(LOWER, UPPER), LOWER, UPPER),
}

WEIGHTS = np.array([0.0, 0.5, 1.0, 2.0, 1.0])


def draw(loss, form="dense", *, bounds="intervals", intercept=True, weights=None, sizes=1.0):
    """Return problem, oracle, and bounds over all coordinates."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.8) * np.geomspace(1.0, sizes, D)
    if loss == "poisson":
        X *= 0.4
    scores = X / np.geomspace(1.0, sizes, D) @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))
    n_outputs, y = 1, {
        "multinomial": lambda: scores.argmax(axis=1),
        "squared of several": lambda: scores,
        "squared": lambda: scores[:, 0],
        "huber": lambda: scores[:, 0],
        "poisson": lambda: rng.poisson(np.exp(np.clip(scores[:, 0], -2.0, 2.0))),
    }.get(loss, lambda: np.sign(scores[:, 0]))()  # fmt: skip
    constraint, lower, upper = SETS[bounds]
    given = {"alpha": ALPHA, "l1_ratio": L1_RATIO, "fit_intercept": intercept, "penalty_weights": weights}
    problem = Problem.linear(as_format(X, form), y, loss=loss.split()[0], constraint=constraint, **given)
    shared = {"l1": ALPHA * L1_RATIO, "l2": ALPHA * (1.0 - L1_RATIO), "intercept": intercept}
    if loss in ("multinomial", "squared of several"):
        n_outputs = K
        oracle = SumOfOutputs(X, y, loss.split()[0], K, weights=None, offsets=None, **shared)
    else:
        oracle = Sum(X, y, loss, **shared)
    ends = [np.tile(np.append(np.full(D, end), free), n_outputs) for end, free in ((lower, -math.inf), (upper, math.inf))]
    if not intercept:
        ends = [end[np.isin(np.arange(end.size) % (D + 1), np.arange(D))] for end in ends]
    if weights is not None:
        factors = np.tile(np.append(weights, np.zeros(int(intercept))), n_outputs)
        oracle.l1, oracle.l2 = oracle.l1 * factors, oracle.l2 * factors
    return problem, oracle, ends


def shrunk(v, thresholds):
    return np.sign(v) * np.maximum(np.abs(v) - thresholds, 0.0)


def lowest(oracle, ends, dim, step):
    return projected_gradients.lowest(oracle, lambda v: np.clip(shrunk(v, step * oracle.l1), *ends), step, dim)


def step_of(oracle, dim):
    return 0.3 / np.linalg.eigvalsh(oracle.hessian(np.zeros(dim)))[-1]


@pytest.mark.as_chosen
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bounds", SETS)
@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "poisson", "squared-hinge"])
def test_methods_find_the_minimum_of_the_oracle(loss, bounds, form):
    problem, oracle, ends = draw(loss, form, bounds=bounds)
    expected = lowest(oracle, ends, problem.dim, step_of(oracle, problem.dim))
    for method in ("auto", "fg", "afg", "newton", "lazy-newton", "working-set-newton", "coordinate-descent"):
        result = minimize(problem, method=method, tol=1e-9, max_iter=20_000)
        assert result.success, result.message
        assert result.fun == pytest.approx(expected, rel=1e-9)
        step = result.x - np.clip(shrunk(result.x - oracle.gradient(result.x), oracle.l1), *ends)
        assert np.linalg.norm(step) <= 1.01e-9
        assert (np.clip(result.x, *ends) == result.x).all()


@pytest.mark.as_chosen
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("bounds", SETS)
@pytest.mark.parametrize("loss", ["logistic", "squared", "multinomial", "squared of several"])
def test_penalty_weights_stand_beside_bounds(loss, bounds, intercept):
    problem, oracle, ends = draw(loss, bounds=bounds, intercept=intercept, weights=WEIGHTS)
    expected = lowest(oracle, ends, problem.dim, step_of(oracle, problem.dim))
    of_one = "lazy-newton", "working-set-newton", "coordinate-descent"
    for method in ("auto", "afg", "newton", *(of_one if problem.n_outputs == 1 else ["multinomial-working-set"])):
        result = minimize(problem, method=method, tol=1e-9, max_iter=20_000)
        assert result.success, result.message
        assert result.fun == pytest.approx(expected, rel=1e-9)


@pytest.mark.as_chosen
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bounds", SETS)
@pytest.mark.parametrize("loss", ["multinomial", "squared of several"])
def test_outputs_have_them_each(loss, bounds, form):
    problem, oracle, ends = draw(loss, form, bounds=bounds)
    expected = lowest(oracle, ends, problem.dim, step_of(oracle, problem.dim))
    for method in ("auto", "fg", "afg", "newton", "multinomial-working-set"):
        result = minimize(problem, method=method, tol=1e-8, max_iter=20_000)
        assert result.success, result.message
        assert result.fun == pytest.approx(expected, rel=1e-8)
        assert (np.clip(result.x, *ends) == result.x).all()


@pytest.mark.parametrize("bounds", SETS)
@pytest.mark.parametrize("loss", ["hinge", "absolute", "quantile"])
def test_losses_with_corners_have_a_certificate(loss, bounds):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = X @ rng.standard_normal(D) + rng.standard_normal(N)
    y = np.sign(y) if loss == "hinge" else y
    problem = Problem.linear(X, y, loss=loss, alpha=ALPHA, l1_ratio=1.0, fit_intercept=True, constraint=SETS[bounds][0])
    interior, linear = (minimize(problem, method=method, tol=1e-9) for method in ("interior-point", "linear-program"))
    assert interior.success
    assert linear.success
    assert interior.fun == pytest.approx(linear.fun, rel=1e-8)
    for result in (interior, linear):
        assert result.optimality <= 1e-9  # by what F may be too large, at most
        assert problem.constraint.contains(result.x[:D], tolerance=1e-12)


@pytest.mark.as_chosen
def test_methods_with_one_step_work_in_columns_of_one_size():
    problem, oracle, ends = draw("squared", sizes=1e4)
    expected = minimize(problem, method="newton", tol=1e-8)
    result = minimize(problem, method="afg", tol=1e-6, max_iter=5_000)
    assert result.success
    assert result.fun == pytest.approx(expected.fun, rel=1e-9)
    step = result.x - np.clip(shrunk(result.x - oracle.gradient(result.x), oracle.l1), *ends)
    assert np.linalg.norm(step) <= 1.01e-6


@pytest.mark.parametrize("seed", range(20))
def test_a_quadratic_model_ends_at_kinks_and_at_bounds(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 25))
    root = rng.standard_normal((int(rng.integers(1, 2 * d)), d))
    hessian, gradient = root.T @ root + 1e-3 * np.eye(d), 3.0 * rng.standard_normal(d)
    lower, upper = -rng.random(d) * (rng.random(d) < 0.6), rng.random(d) * (rng.random(d) < 0.6)  # some are 0 and 0
    given = {"alpha": float(rng.choice([0.1, 1.0])), "l1_ratio": 1.0, "constraint": Box(lower, upper)}
    term = Linear.linear(np.zeros((2, d)), np.zeros(2), loss="squared", **given).term
    y = np.clip(rng.standard_normal(d), lower, upper)
    end = minimise_model(term, hessian, gradient, y, 0.0)
    slope = gradient + hessian @ (end - y)
    np.testing.assert_allclose(end, np.clip(shrunk(end - slope, term.thresholds), lower, upper), atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_coefficients_that_bounds_hold_at_0_do_not_keep_others_from_leaving_it(seed):
    rng = np.random.default_rng(seed)
    d = 60
    root = rng.standard_normal((2 * d, d))
    hessian, gradient = root.T @ root / d, 5.0 * rng.standard_normal(d)
    held = rng.random(d) < 0.3
    gradient[held] *= 20.0
    box = Box(np.where(held, 0.0, -1.0), np.where(held, 0.0, 1.0))
    term = Linear.linear(np.zeros((2, d)), np.zeros(2), loss="squared", alpha=1.0, l1_ratio=1.0, constraint=box).term
    intervals, linear = term.intervals.without_signs(gradient)
    start = np.zeros(d)
    for given in ((intervals, linear), (term.intervals, gradient)):  # those without a sign, and as they are
        end = active_set.minimised(given[0], hessian, given[1], start, start, 0.0)
        moved = end - gradient - hessian @ end
        np.testing.assert_allclose(end, np.clip(shrunk(moved, term.thresholds), box.lower, box.upper), atol=1e-9)


@pytest.mark.parametrize("has_hessians", [True, False])
@pytest.mark.parametrize("given", [{"l1_ratio": 0.5}, {"penalty_weights": [0.0, 1.0, 2.0, 1.0]}])
def test_components_of_ones_own_have_a_method(given, has_hessians):
    class Component:
        def __init__(self, x, target):
            self.x, self.target = x, target
            if has_hessians:
                self.hessian = lambda w: np.outer(self.x, self.x)

        def value(self, w):
            return 0.5 * (self.x @ w - self.target) ** 2

        def gradient(self, w):
            return (self.x @ w - self.target) * self.x

    X = np.random.default_rng(0).standard_normal((40, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0]
    given = {"alpha": 0.02, "constraint": Box(-0.1, 0.3), **given}
    result = minimize(FiniteSum([Component(*row) for row in zip(X, y, strict=True)], 4, **given), tol=1e-8)
    assert result.success, result.message
    same = minimize(Problem.linear(X, y, loss="squared", **given), method="newton", tol=1e-10)
    np.testing.assert_allclose(result.x, same.x, atol=1e-6)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_an_elastic_net_on_the_orthant_is_that_of_scikit_learn(l1_ratio):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 12))
    y = X @ (rng.random(12) - 0.2) + rng.standard_normal(80)
    theirs = ElasticNet(0.1, l1_ratio=l1_ratio, positive=True, tol=1e-13, max_iter=100_000).fit(X, y)
    ours = LinearRegressor(alpha=0.1, l1_ratio=l1_ratio, bounds=(0.0, None)).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-9)
    assert ours.intercept_ == pytest.approx(theirs.intercept_)
    path = linear_path(X, y, alphas=[1.0, 0.1], l1_ratio=l1_ratio, bounds=(0.0, None))
    np.testing.assert_allclose(path.coefs[1], theirs.coef_, atol=1e-7)
    chosen = LinearRegressorCV(alphas=[100.0, 0.1], l1_ratio=l1_ratio, bounds=(0.0, None)).fit(X, y)
    assert chosen.alpha_ == 0.1
    np.testing.assert_allclose(chosen.coef_, theirs.coef_, atol=1e-8)


def test_a_classifier_has_bounds_by_name_beside_an_l1_penalty():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((90, 3))
    y = (X @ [1.0, -1.0, 0.1] + rng.logistic(size=90) > 0.0).astype(int)
    model = LogisticRegression(C=0.2, l1_ratio=1.0, bounds={1: (0.0, None), 0: (None, 0.4)}).fit(X, y)
    assert model.coef_[0, 0] == 0.4
    assert model.coef_[0, 1] == 0.0
    assert model.optimality_ <= model.tol


def test_what_is_not_known_is_refused_in_a_sentence():
    X, y = np.eye(3), [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="an l1 penalty goes with bounds of coefficients, such as NonNegative"):
        Problem.linear(X, y, loss="squared", alpha=0.1, l1_ratio=1.0, constraint=L1Ball(1.0))
    with pytest.raises(ValueError, match="bounds of coefficients go with alpha, l1_ratio and penalty_weights alone"):
        Problem.linear(X, y, loss="squared", penalty=MCP(0.1), constraint=NonNegative())
    problem = Problem.linear(X, y, loss="squared", alpha=0.1, l1_ratio=1.0, constraint=NonNegative())
    with pytest.raises(ValueError, match="acc-svrg cannot treat an l1 penalty or penalty_weights beside bounds"):
        minimize(problem, method="acc-svrg")
