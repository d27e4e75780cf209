"""Forecasts of the seconds that Newton's methods take: they follow prices, counts and features."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from tests.contracts.problems import make_pair

from finitesum import Problem
from finitesum.constraints import Box
from finitesum.evaluation.conditioning import redundancy_of
from finitesum.methods import forecasts
from finitesum.methods.auto import choose, corner_costs
from finitesum.methods.base import is_suited
from finitesum.methods.class_costs import steps_before_whole
from finitesum.methods.forecasts import Counts


def problem_of(n=3000, d=60, form="dense", seed=0, **more):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    y = np.where(X[:, 0] + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return Problem.linear(sp.csr_array(X) if form == "csr" else X, y, **{"alpha": 1e-2, **more})


CASES = [
    {},
    {"form": "csr"},
    {"l1_ratio": 1.0},
    {"l1_ratio": 0.5, "form": "csr", "fit_intercept": True},
    {"loss": "squared-hinge"},
    {"loss": "huber", "alpha": 0.0},
    {"n": 30, "d": 400},
    {"l1_ratio": 1.0, "alpha": 1e3},  # all coefficients are 0
]


@pytest.mark.parametrize("more", CASES)
def test_every_method_that_is_compared_is_suited_and_has_a_forecast(more):
    problem = problem_of(**more)
    choice = choose(problem, 1e-6)
    names = {choice.method.name, *(other.method.name for other in choice.others)}
    assert names == set(forecasts.known_methods(problem))
    assert all(is_suited(method, problem) for method in (choice.method, *(other.method for other in choice.others)))
    seconds = [other.seconds for other in choice.others]
    assert seconds == sorted(seconds)
    assert all(0.0 < value < math.inf for value in (choice.seconds, *seconds))
    assert choose(problem_of(**more), 1e-6) == choice  # nothing is drawn, and no clock is read
    assert choose(problem, 1e-6, begun="newton").method.name == "newton"


@pytest.mark.parametrize("more", CASES)
def test_a_price_is_linear_in_the_counts(more):
    problem = problem_of(**more)
    for name in forecasts.known_methods(problem):
        unit = [forecasts.price(name, problem, Counts(*row)) for row in np.eye(3)]
        assert forecasts.price(name, problem, Counts(2.0, 3.0, 5.0)) == pytest.approx(np.dot(unit, [2.0, 3.0, 5.0]))


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_some_rows_say_nearly_what_all_do(form, monkeypatch):
    problem = problem_of(n=5000, form=form)
    of_all = forecasts.traits_of(problem)
    monkeypatch.setattr(forecasts, "MOST_NUMBERS", 1000.0)
    of_some = forecasts.traits_of(problem_of(n=5000, form=form))
    np.testing.assert_allclose(of_some[1:], of_all[1:], rtol=0.3)
    assert 0.3 < of_some.optimality / of_all.optimality < 3.0
    assert of_some.coupling != of_all.coupling


def test_conjugate_gradients_are_not_compared_where_they_have_no_rate():
    flat = {"n": 40, "d": 300, "l1_ratio": 1.0, "form": "csr"}
    assert "newton-cg" not in forecasts.known_methods(problem_of(**flat))
    assert "newton-cg" in forecasts.known_methods(problem_of(**{**flat, "l1_ratio": 0.5}))
    assert "newton-cg" in forecasts.known_methods(problem_of(**{**flat, "n": 400}))


@pytest.mark.parametrize(("n", "has_factor"), [(30, True), (220, False), (260, True)])
def test_large_factors_of_classes_on_few_rows_are_not_compared(n, has_factor):
    X = np.random.default_rng(0).standard_normal((n, 240))
    problem = Problem.linear(X, np.arange(n) % 3, loss="multinomial", alpha=0.1)
    assert ("multinomial-newton exact" in forecasts.known_methods(problem)) == has_factor
    assert {"multinomial-newton cg", "multinomial-lbfgs"} <= set(forecasts.known_methods(problem))


def test_least_squares_have_figures_of_their_own():
    squares = problem_of(loss="squared")
    assert forecasts.known_methods(squares) == ["newton", "newton-cg"]
    counts = [forecasts.usual_counts("newton", squares, forecasts.features_of(squares, tol)) for tol in (1e-2, 1e-10)]
    assert all(count.hessians == pytest.approx(1.0) for count in counts)
    products = [forecasts.usual_counts("newton-cg", squares, forecasts.features_of(squares, tol)) for tol in (1e-2, 1e-10)]
    assert products[0].passes < products[1].passes


def test_targets_that_share_a_factor_take_it_sooner():
    X = sp.random(12_000, 1300, 0.02, format="csr", random_state=0)
    y = np.random.default_rng(0).standard_normal(12_000)
    alone, shared = (Problem.linear(X, y, loss="squared", alpha=1e-4) for _ in range(2))
    shared.of_rows["n_sharing"] = 100
    assert choose(alone, 1e-6).method.name == "newton-cg"
    assert choose(shared, 1e-6).method.name == "newton"


def test_the_squared_loss_with_an_l1_penalty_has_figures_of_its_own():
    lasso = problem_of(l1_ratio=1.0, loss="squared")
    features = forecasts.features_of(lasso, 1e-6)
    counts = [forecasts.usual_counts("newton", lasso, forecasts.features_of(lasso, tol)) for tol in (1e-2, 1e-10)]
    assert all(1.0 <= count.hessians <= 1.2 for count in counts)  # the model is F, whatever tol is
    other = problem_of(l1_ratio=1.0)
    assert forecasts.usual_counts("newton", other, features).hessians > 2.0


def test_forecasts_grow_with_rows_and_digits():
    few, many = problem_of(n=500, d=30), problem_of(n=50_000, d=30)
    for name in forecasts.known_methods(few):
        assert forecasts.forecast(name, few, 1e-4) < forecasts.forecast(name, many, 1e-4)
    assert forecasts.forecast("newton-cg", few, 1e-4) < forecasts.forecast("newton-cg", few, 1e-8)


def test_features_beyond_those_seen_count_as_the_last_one_seen():
    low, lower = problem_of(alpha=1e-14), problem_of(alpha=1e-18)
    assert forecasts.forecast("newton-cg", low, 1e-6) == forecasts.forecast("newton-cg", lower, 1e-6)


def test_every_figure_is_that_of_a_feature():
    for l1_ratio, loss in ((0.0, "logistic"), (1.0, "logistic"), (0.0, "squared"), (1.0, "squared")):
        problem, _ = make_pair(loss=loss, l1_ratio=l1_ratio)
        features = forecasts.features_of(problem, 1e-6)
        for name in forecasts.known_methods(problem):
            figures = forecasts._figures(name, problem)
            is_left_out = name != "lbfgs" and (l1_ratio == 0.0 or loss != "squared")
            assert set(figures["effects"]) == set(features) - ({"redundancy"} if is_left_out else set())
            assert len(figures["prices"]) == len(forecasts.terms_of(name, problem, Counts(1.0, 1.0, 1.0)))
            assert min(figures["prices"]) > 0.0


def test_every_figure_of_losses_with_corners_is_that_of_a_feature():
    problem, _ = make_pair(loss="hinge")
    features = corner_costs.features_of(problem, 1e-6)
    assert set(forecasts._table()["corners"]) == set(corner_costs.typical_seconds(problem, 3, fits=True))
    for figures in forecasts._table()["corners"].values():
        assert set(figures["effects"]) == set(features)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize(("unit", "dtype"), [(1e30, np.float32), (1e200, np.float64)])
@pytest.mark.usefixtures("kernels_as_python")
def test_rows_whose_squares_overflow_leave_a_choice(unit, dtype, loss):
    rng = np.random.default_rng(0)
    X, y = (unit * rng.standard_normal((2000, 300))).astype(dtype), np.arange(2000) % 2
    choice = choose(Problem.linear(X, y, loss=loss, alpha=0.01, fit_intercept=True))
    if loss == "logistic":
        assert all(0.0 < seconds < math.inf for seconds in (choice.seconds, *(other.seconds for other in choice.others)))


@pytest.mark.parametrize(("n", "d", "density", "expected"), [(6000, 2500, 0.002, "newton-cg"), (6000, 200, 0.02, "newton")])
def test_least_squares_in_many_sparse_columns_go_by_products_and_have_a_factor_beside_them(n, d, density, expected):
    X = sp.random(n, d, density, format="csr", random_state=0)
    problem = Problem.linear(X, X @ np.ones(d), loss="squared", alpha=1e-3)
    choice = choose(problem, 1e-6)
    assert choice.method.name == expected
    assert [other.method.name for other in choice.others] == ["newton"] * (expected == "newton-cg")
    for begun in ("newton", "newton-cg") if expected == "newton-cg" else ():
        assert choose(problem, 1e-6, begun=begun).method.name == begun


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n", [100, 3000])
def test_redundancy_is_1_of_independent_columns_and_their_number_of_equal_ones(form, n):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 40)) * np.exp(rng.standard_normal(40)), rng.integers(0, 3, n)
    X[:, 3] = 0.0
    equal = np.outer(rng.standard_normal(n), np.exp(rng.standard_normal(40)))
    halves = np.repeat(X[:, 10:30], 2, axis=1)
    for table, expected in ((X, 1.0), (equal, 40.0), (halves, 2.0)):
        found = redundancy_of(Problem.linear(form(table), y, loss="multinomial", alpha=0.1))
        assert found == pytest.approx(expected, rel=0.3), expected


@pytest.mark.parametrize("X", [np.ones((2, 2)), np.zeros((9, 2)), 1e200 * np.ones((9, 2))])
def test_redundancy_is_a_number_whatever_the_rows(X):
    problem = Problem.linear(np.asarray(X), np.arange(len(X)) % 2, alpha=0.1)
    assert 1.0 <= redundancy_of(problem) < math.inf


@pytest.mark.parametrize(
    ("n", "d", "loss", "waits"),
    [
        (150, 300, "multinomial", False),
        (500, 60, "multinomial", True),
        (500, 60, "squared", False),
        (30, 60, "squared", False),
    ],
)
def test_a_diagonal_stands_for_all_columns_where_rows_are_enough_to_tell(n, d, loss, waits):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.integers(0, 3, n) if loss == "multinomial" else rng.standard_normal((n, 3))
    problem = Problem.linear(X, y, loss=loss, alpha=0.1)
    assert redundancy_of(problem) < 1.1  # as of many more rows
    assert (steps_before_whole(problem) > 0) == waits


def test_redundancy_leaves_out_rows_of_weight_0():
    X = np.outer(np.random.default_rng(0).standard_normal(500), np.ones(9))
    X[0], weights = 1e200, np.ones(500)
    weights[0] = 0.0
    problem = Problem.linear(X, np.arange(500) % 3, loss="multinomial", alpha=0.1, sample_weight=weights)
    assert redundancy_of(problem) == pytest.approx(9.0, rel=0.1)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("constraint", [None, Box(-0.2, 0.3)])
def test_several_classes_in_parts_have_a_choice(form, constraint):
    """Wide enough for forecasts to be asked."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((900, 120)), rng.integers(0, 6, 900)
    parts = [(form(X[:400]), y[:400]), (form(X[400:]), y[400:])]
    problem = Problem.partitioned(parts, loss="multinomial", alpha=1e-3, constraint=constraint)
    assert choose(problem, 1e-6).method.name
