"""Coordinate descent beside a penalty that is known by its prox: its steps, where it ends, and what it leaves alone."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.constraints import Box
from finitesum.core.jit import compilable
from finitesum.estimators import LinearRegressor, LogisticRegression
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.auto import choose
from finitesum.methods.newton import coordinate_descent
from finitesum.methods.subproblems import prox_models
from finitesum.methods.subproblems.scaled_columns import scaled
from finitesum.problems.penalties import MCP, SCAD
from finitesum.problems.rows import CSRRows, DenseRows
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import as_penalty

pytestmark = pytest.mark.usefixtures("kernels_as_python")

K, N = 7, 30
PENALTIES = {"mcp": MCP(0.3, 2.0), "scad": SCAD(0.2, 3.0), "hard": MCP(0.5, 0.05)}


@compilable
class Toward(NamedTuple):
    """alpha (w - 0.7)^2 / 2: least at a point other than 0."""

    alpha: float

    def penalty_value(self, coordinate):
        return 0.5 * self.alpha * (coordinate - 0.7) ** 2

    def prox_at(self, coordinate, step):
        return (coordinate + step * self.alpha * 0.7) / (1.0 + step * self.alpha)


@compilable
class Between(NamedTuple):
    """0 between bounds, infinite beyond."""

    lower: float
    upper: float

    def penalty_value(self, coordinate):
        return 0.0 if self.lower <= coordinate <= self.upper else np.inf

    def prox_at(self, coordinate, step):
        return min(max(coordinate, self.lower), self.upper)


@compilable
class RootPenalty(NamedTuple):
    """alpha sqrt |w|, whose prox is found on a grid: slow, and for tests alone."""

    alpha: float

    def penalty_value(self, coordinate):
        return self.alpha * np.sqrt(abs(coordinate))

    def prox_at(self, coordinate, step):
        grid = np.linspace(0.0, abs(coordinate), 2001)
        best = grid[np.argmin(self.alpha * np.sqrt(grid) + 0.5 * (grid - abs(coordinate)) ** 2 / step)]
        return float(np.copysign(best, coordinate))


def model_of(form, penalty, *, has_intercept, unit=1.0, seed=0):
    """Return a model of 30 rows in 7 columns, with what it was made of: columns, curvatures, gradient, point."""
    rng = np.random.default_rng(seed)
    X, h, w = rng.standard_normal((N, K)) + 0.5, rng.random(N) + 0.2, np.zeros(K)
    X[rng.random((N, K)) < 0.4] = 0.0
    w[:3] = rng.standard_normal(3)
    gradient = rng.standard_normal(K + has_intercept)
    columns = DenseRows(X.T.copy(), K, N, 0)
    if form == "csr":
        of = sp.csr_array(X.T)
        columns = CSRRows(of.data, of.indices.astype(np.int32), of.indptr.astype(np.int32), K, N, 0)
    term = ConvexTerm(as_penalty(penalty, K, np.linspace(0.5, 1.5, K)), choose_nothing(), K, int(has_intercept))
    total = float(h.sum()) / unit
    model = prox_models.prox_model(scaled(columns, np.sqrt(h / unit)), total, unit, gradient, np.append(w, 0.0), term)
    return model, (X, h, gradient, w, term)


def choose_nothing():
    return Problem.linear([[1.0]], [1.0], loss="squared").constraint


def by_hand(parts, n_passes, *, has_intercept):
    """Return the point after passes over all coordinates, with the Hessian of the model and its intercept eliminated."""
    X, h, gradient, w, term = parts
    z = np.column_stack([X, np.ones(N)]) if has_intercept else X
    hessian, at, slope = z.T @ (h[:, None] * z), np.append(w, 0.0)[: z.shape[1]], gradient.copy()
    start = at.copy()
    for _ in range(n_passes):
        for j in range(K):
            if has_intercept:
                at[-1] -= slope[-1] / hessian[-1, -1]
                slope = gradient + hessian @ (at - start)
            curvature = hessian[j, j] - (hessian[j, -1] ** 2 / hessian[-1, -1] if has_intercept else 0.0)
            at[j] = term.penalty.prox_of(at[j] - slope[j] / curvature, 1.0 / curvature, j)
            slope = gradient + hessian @ (at - start)
    return at


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("name", PENALTIES)
def test_a_pass_takes_the_least_value_along_each_coordinate(name, form, has_intercept, monkeypatch):
    monkeypatch.setattr(prox_models, "PASSES", 1)
    for unit in (1.0, 0.2):
        model, parts = model_of(form, PENALTIES[name], has_intercept=has_intercept, unit=unit)
        w, r = parts[3].copy(), np.zeros(N)
        shift = np.array([prox_models._intercept(model, np.zeros(K))])
        history = np.empty((1, K))
        prox_models._descend(model.columns, model.term.penalty, model.figures, model.total, w, r, shift, history, 0.0)
        np.testing.assert_allclose(w, by_hand(parts, 1, has_intercept=has_intercept)[:K], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("name", PENALTIES)
def test_no_coordinate_moves_where_it_ends_and_the_model_has_not_risen(name, has_intercept):
    for seed in range(5):
        model, parts = model_of("dense", PENALTIES[name], has_intercept=has_intercept, seed=seed)
        X, h, gradient, w, term = parts
        end = prox_models.minimised(model, w, 1e-11, is_exact=True)
        step = np.append(end.w - w, end.intercept)[: gradient.size]
        z = np.column_stack([X, np.ones(N)])[:, : gradient.size]

        def value(step, w=w, z=z, h=h, gradient=gradient, term=term):
            return gradient @ step + 0.5 * (h @ (z @ step) ** 2) + term.value(np.append(w, 0.0)[: step.size] + step)

        assert value(step) <= value(np.zeros(step.size)) + 1e-12
        slope = gradient + z.T @ (h * (z @ step))
        assert term.optimality(np.append(end.w, end.intercept)[: step.size], slope) <= 2e-11
        stays = (X, h, slope, end.w, term)
        np.testing.assert_allclose(by_hand(stays, 1, has_intercept=has_intercept)[:K], end.w, atol=1e-9)


@pytest.mark.parametrize("penalty", [MCP(0.3, 2.0), SCAD(0.2, 3.0)])
def test_derivatives_of_penalties_are_those_of_their_values(penalty):
    weights, scale = np.linspace(0.5, 2.0, 40), np.linspace(2.0, 0.7, 40)
    known = as_penalty(penalty, 40, weights)._replace(scale=scale)
    w, h = np.linspace(-1.5, 1.5, 40), 1e-5
    values = [
        [known.on_columns(np.array([j])).penalty_total(np.array([at]), 0.0) for j, at in enumerate(w + t)]
        for t in (-h, 0, h)
    ]
    below, here, above = np.array(values)
    slopes, curvatures = known.derivatives(w)
    np.testing.assert_allclose(slopes, (above - below) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(curvatures, (above - 2 * here + below) / h**2, atol=1e-4)


def test_newton_s_steps_end_where_passes_would_take_long(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 40)) + 3.0 * rng.standard_normal((120, 1))
    y = X @ rng.standard_normal(40) + rng.standard_normal(120)
    counts = {}
    for is_allowed in (True, False):
        if not is_allowed:
            monkeypatch.setattr(prox_models, "_by_newton", lambda *_: None)
        problem = Problem.linear(X, y, loss="squared", penalty=MCP(0.02), fit_intercept=True)
        counts[is_allowed] = minimize(problem, method="coordinate-descent", tol=1e-10).n_hessian_passes
    assert counts[True] < 0.5 * counts[False]


def data(loss, form=np.asarray, *, n=80, d=160, noise=3.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    u = X[:, :4] @ [1.5, -1.0, 0.8, 0.5] + 0.3 * rng.standard_normal(n)
    y = {
        "logistic": u + noise * rng.standard_normal(n) > 0.0,
        "poisson": rng.poisson(np.exp(0.5 * u)),
        "gamma": np.exp(0.5 * u),
    }.get(loss, u)
    return form(X), y


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "poisson", "gamma"])
@pytest.mark.parametrize("penalty", [MCP(0.08), SCAD(0.08), MCP(0.08, 0.5)])
def test_auto_takes_it_and_finds_a_stationary_point(penalty, loss, form):
    X, y = data(loss, form)
    weights = np.random.default_rng(1).random(80) + 0.5
    problem = Problem.linear(X, y, loss=loss, penalty=penalty, fit_intercept=True, sample_weight=weights)
    assert choose(problem).method.name == "coordinate-descent"
    found = minimize(problem, tol=1e-8)
    assert found.success
    assert np.count_nonzero(found.x[:-1]) < 80
    assert evaluate(problem, found.x).optimality <= 1e-8


def test_a_penalty_of_the_users_own_needs_its_prox_alone():
    X, y = data("squared", n=60, d=12)
    problem = Problem.linear(X, y, loss="squared", penalty=RootPenalty(0.05))
    found = minimize(problem, method="coordinate-descent", tol=1e-3)
    assert found.success
    assert np.count_nonzero(found.x) < 12
    w, hessian = found.x, X.T @ X / 60
    for j in range(12):  # the best value along each coordinate, on a grid around it
        slope, curvature = hessian[j] @ w - X[:, j] @ y / 60, hessian[j, j]
        along = np.append(np.linspace(-3.0, 3.0, 6001), w[j])
        values = slope * (along - w[j]) + 0.5 * curvature * (along - w[j]) ** 2 + 0.05 * np.sqrt(np.abs(along))
        assert values[-1] <= values.min() + 1e-5


@pytest.mark.parametrize("penalty", ["mcp", "scad"])
def test_an_intercept_without_columns_that_move_is_found(penalty):
    X, y = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([5.0, 5.1, 5.0, 5.0])
    model = LinearRegressor(penalty=penalty, alpha=1.0).fit(X, y)
    assert model.solver_ == "coordinate-descent"
    assert model.coef_.tolist() == [0.0]
    assert model.intercept_ == pytest.approx(5.025)


def test_columns_of_zeros_go_where_the_penalty_is_least():
    X, y = data("squared", d=5)
    X[:, 3] = 0.0
    problem = Problem.linear(X, y, loss="squared", penalty=Toward(0.1))
    found = minimize(problem, method="coordinate-descent", tol=1e-9)
    assert found.success
    assert found.x[3] == pytest.approx(0.7)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_a_penalty_that_is_infinite_at_0_has_a_start_in_its_domain(loss):
    X, y = data(loss, d=10)
    found = minimize(Problem.linear(X, y, loss=loss, penalty=Between(0.2, 0.5)), method="coordinate-descent", tol=1e-9)
    wanted = minimize(Problem.linear(X, y, loss=loss, constraint=Box(0.2, 0.5)), method="newton", tol=1e-9)
    assert found.success
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-7)


@pytest.mark.parametrize("penalty", [MCP(0.5, 0.01), MCP(0.1, 0.5), SCAD(0.3, 2.1)])
def test_no_column_alone_leads_lower_where_a_squared_loss_ends(penalty):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 90)) * np.geomspace(0.05, 1.0, 90)
        y = X @ np.where(rng.random(90) < 0.1, 2.0 * rng.standard_normal(90), 0.0) + rng.standard_normal(60)
        found = minimize(Problem.linear(X, y, loss="squared", penalty=penalty), method="coordinate-descent", tol=1e-7)
        assert found.success
        slopes, curvatures = X.T @ (X @ found.x - y) / 60, (X * X).sum(axis=0) / 60
        for j in np.flatnonzero(found.x == 0.0):
            end = penalty.prox_at(-slopes[j] / curvatures[j], 1.0 / curvatures[j])
            assert slopes[j] * end + 0.5 * curvatures[j] * end**2 + penalty.penalty_value(end) >= -1e-9


@pytest.mark.parametrize("penalty", [MCP(0.5, 3.0), SCAD(0.5)])
@pytest.mark.parametrize(("n", "d"), [(2, 120), (20, 60), (20, 120)])
def test_directions_without_curvature_lead_nowhere(n, d, penalty):
    """More coefficients that are not 0 than rows: their matrix is singular, and beyond gamma alpha nothing holds them."""
    for seed in range(8):
        rng, values = np.random.default_rng(seed), []
        X = rng.standard_normal((n, d)) * np.geomspace(0.01, 100.0, d)
        y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
        problem = Problem.linear(X, y, loss="squared", penalty=penalty, fit_intercept=True)
        found = minimize(problem, tol=1e-8, callback=lambda result, values=values: values.append(result.fun))
        assert found.success
        assert (np.diff(values) <= 1e-12).all()


def test_auto_leaves_penalties_without_derivatives_to_proximal_gradients():
    X, y = data("squared", d=5)
    assert choose(Problem.linear(X, y, loss="squared", penalty=Toward(0.1))).method.name == "afg"
    assert choose(Problem.linear(X, y, loss="squared", penalty=MCP(0.1))).method.name == "coordinate-descent"


def test_steps_along_which_f_rises_are_not_taken():
    """Of separable classes and a penalty that levels off F falls for ever: by steps that its curvature makes too long."""
    X, y = data("logistic", n=60, d=200, noise=0.0)
    values = []
    problem = Problem.linear(X, y, loss="logistic", penalty=MCP(0.01, 3.0))
    minimize(
        problem, method="coordinate-descent", tol=1e-12, max_iter=60, callback=lambda result: values.append(result.fun)
    )
    assert len(values) > 5
    assert (np.diff(values) <= 1e-14).all()
    assert values[-1] < 0.5 * values[0]


def test_a_step_that_is_not_taken_raises_the_curvatures(monkeypatch):
    X, y = data("logistic", n=60, d=200, noise=0.0)
    problem, thetas = Problem.linear(X, y, loss="logistic", penalty=MCP(0.01, 3.0)), []
    tried = coordinate_descent._tried

    def recorded(problem, here, state, along, values):
        after, known = tried(problem, here, state, along, values)
        is_taken = not np.array_equal(after.x[here.inside], along[0])
        thetas.append((state.theta, after.theta, is_taken))
        return after, known

    monkeypatch.setattr(coordinate_descent, "_tried", recorded)
    minimize(problem, method="coordinate-descent", tol=1e-12, max_iter=60)
    assert {is_taken for *_, is_taken in thetas} == {False, True}
    assert all((after > before) == (not is_taken) for before, after, is_taken in thetas)


@pytest.mark.parametrize("penalty", ["mcp", "scad"])
def test_estimators_solve_wide_data_by_it(penalty):
    X, y = data("squared", n=100, d=400)
    model = LinearRegressor(penalty=penalty, alpha=0.1).fit(X, y)
    assert model.solver_ == "coordinate-descent"
    assert set(np.flatnonzero(model.coef_)) >= {0, 1, 2}
    np.testing.assert_allclose(model.coef_[:2], [1.5, -1.0], atol=0.15)  # large ones are not shrunk
    classes = LogisticRegression(penalty=penalty, C=0.2).fit(X, y > 0)
    assert classes.solver_ == "coordinate-descent"
    assert classes.optimality_ <= 1e-10
