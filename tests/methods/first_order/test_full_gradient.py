"""Full gradients where the loss has no bound on its curvature, or is not convex: backtracking, whatever the penalty."""

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.constraints import Box
from finitesum.estimators import PoissonRegressor
from finitesum.problems.penalties import MCP, SCAD

LOSSES = "poisson", "gamma", "tweedie", "negative-binomial", "complementary-log-log", "inverse-gaussian"


def problem_of(loss, *, size=1.0, **term):
    rng = np.random.default_rng(4)
    X = size * rng.standard_normal((120, 6))
    signal = X @ rng.standard_normal(6) / (3.0 * size)
    y = rng.poisson(np.exp(signal)) + (0.2 if loss in ("gamma", "inverse-gaussian") else 0.0)
    if loss == "complementary-log-log":
        y = np.where(signal + rng.standard_normal(120) > 0.0, 1, -1)
    return Problem.linear(X, y, loss=loss, fit_intercept=True, **term)


@pytest.mark.parametrize("penalty", [MCP(0.05), SCAD(0.05)], ids=["mcp", "scad"])
@pytest.mark.parametrize("loss", LOSSES)
def test_penalties_that_are_not_convex_go_with_any_smooth_loss(loss, penalty):
    problem, values = problem_of(loss, penalty=penalty), []
    result = minimize(problem, method="fg", tol=1e-7, callback=lambda state: values.append(state.fun))
    assert result.success
    assert np.all(np.diff(values) <= 1e-12 * np.abs(values[1:]))


def test_estimators_have_such_penalties_too():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 5))
    model = PoissonRegressor(penalty="mcp", alpha=0.05).fit(X, rng.poisson(np.exp(X[:, 0])))
    assert model.coef_[0] > 0.8
    assert np.count_nonzero(model.coef_) < 5


@pytest.mark.parametrize("term", [{"alpha": 0.05, "groups": [0, 0, 1, 1, 2, 2]}, {"constraint": Box(-0.2, 0.1)}])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_accelerated_steps_need_no_bound_on_the_curvature(term, size):
    problem = problem_of("poisson", size=size, **term)
    assert minimize(problem, method="afg", tol=1e-8, max_iter=20_000).success


def test_a_group_lasso_goes_with_a_loss_that_is_not_convex():
    problem = problem_of("inverse-gaussian", alpha=0.05, groups=[0, 0, 1, 1, 2, 2])
    found, by_default = minimize(problem, method="fg", tol=1e-7), minimize(problem, tol=1e-7)
    assert found.success
    assert by_default.success
    assert found.fun == pytest.approx(by_default.fun, rel=1e-9)
