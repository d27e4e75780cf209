"""The methods with dual variables on each loss with corners: certified minima, and those of scikit-learn's solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVR

from finitesum import LinearRegressor, Problem, minimize
from finitesum.losses import EpsilonInsensitive, Hinge, Quantile
from finitesum.methods.auto import choose
from finitesum.methods.newton import dual_arrays
from finitesum.methods.newton.dual_ascent import DualAscent

LOSSES = [Hinge(), Hinge(3.0), EpsilonInsensitive(), EpsilonInsensitive(0.7), Quantile(), Quantile(0.85)]
METHODS = ["dual-ascent", "semismooth-newton"]


def generated(loss, seed, n=80):
    """Return rows of any density, weights with zeros among them, offsets, any alpha."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 12))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) * 10.0 ** rng.uniform(-1, 1, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n) * 10.0 ** rng.uniform(-1, 1)
    y = np.where(y > 0.0, 1.0, -1.0) if loss.target_kind() == "sign" else y
    more = {"alpha": 10.0 ** rng.uniform(-4, 0), "fit_intercept": seed % 2 == 0}
    if seed % 3 == 0:
        more["sample_weight"] = 10.0 ** rng.uniform(-2, 0, n) * (rng.random(n) < 0.9)
    if seed % 4 == 0:
        more["offset"] = 0.3 * rng.standard_normal(n)
    return Problem.linear(sp.csr_array(X) if seed % 2 else X, y, loss=loss, **more)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.usefixtures("kernels_as_python")
def test_both_methods_find_the_minimum(loss, seed, monkeypatch):
    both_find_the_minimum(loss, seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 24))
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_both_methods_find_the_minimum_of_more_problems(loss, seed, monkeypatch):
    both_find_the_minimum(loss, seed, monkeypatch)


def both_find_the_minimum(loss, seed, monkeypatch):
    """Assert that both methods for corners end at the minimum, or say how far from it they are."""
    monkeypatch.setattr("finitesum.methods.newton.semismooth_newton.FEW_ROWS", 20)
    problem = generated(loss, seed)
    scale = minimize(problem, method="dual-ascent", max_iter=1, measure_every=0).fun
    ascent, newton = (
        minimize(problem, method=name, tol=1e-9 * scale, max_iter=20_000, measure_every=0) for name in METHODS
    )
    assert newton.success, newton.message
    if ascent.success:
        assert abs(ascent.fun - newton.fun) <= 2e-9 * scale
    else:  # an intercept with many more rows than columns can take thousands of passes: then it is said how far it is
        assert problem.has_intercept, ascent.message
        assert 0.0 <= ascent.fun - newton.fun + 1e-9 * scale <= ascent.optimality + 2e-9 * scale
        assert minimize(problem, tol=1e-9 * scale, max_iter=20_000, measure_every=0).success


@pytest.mark.parametrize("solver", ["auto", *METHODS])
@pytest.mark.usefixtures("kernels_as_python")
def test_support_vector_regression_is_that_of_scikit_learn(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    y = X @ rng.standard_normal(6) + 0.3 * rng.standard_normal(80)
    other = LinearSVR(epsilon=0.2, C=0.5, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y)
    alpha = 1.0 / (0.5 * 80)
    ours = LinearRegressor(EpsilonInsensitive(0.2), alpha=alpha, fit_intercept=False, solver=solver, tol=1e-12).fit(X, y)
    assert ours.coef_ == pytest.approx(other.coef_, abs=1e-5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("kernels_as_python")
def test_an_intercept_alone_is_the_quantile(name):
    y = np.arange(21.0)
    result = minimize(
        Problem.linear(np.zeros((21, 1)), y, loss=Quantile(0.82), alpha=1.0, fit_intercept=True), method=name, tol=1e-9
    )
    assert result.success
    assert result.x == pytest.approx([0.0, 17.0], abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_they_refuse_what_they_are_not_for(name):
    X, y = np.eye(4), [1, -1, 1, -1]
    for problem in (Problem.linear(X, y, loss="hinge"), Problem.linear(X, y, alpha=0.1)):
        with pytest.raises(ValueError, match=f"{name} needs a loss with corners, such as the hinge, and alpha > 0"):
            minimize(problem, method=name)
    with pytest.raises(ValueError, match=f"{name} cannot treat an l1 penalty"):
        minimize(Problem.linear(X, y, loss="hinge", alpha=0.1, l1_ratio=0.5), method=name)


@pytest.mark.parametrize("loss", [EpsilonInsensitive(), Quantile()])
def test_auto_says_about_how_long_it_takes(loss):
    X = np.random.default_rng(0).standard_normal((100, 3))
    choice = choose(Problem.linear(X, X[:, 0], loss=loss, alpha=0.01))
    assert 0.0 < choice.seconds < 10.0
    assert "(about 0 s)" not in choice.reason


@pytest.mark.as_chosen
@pytest.mark.parametrize("is_compiled", [True, False])
def test_few_numbers_go_to_dual_ascent_where_there_is_machine_code_for_it(is_compiled, monkeypatch):
    monkeypatch.setattr(dual_arrays, "have_machine_code", lambda _: is_compiled)
    X = np.random.default_rng(0).standard_normal((1000, 20))
    problem = Problem.linear(X, X[:, 0] > 0.0, loss="hinge", alpha=1.0)
    choice = choose(problem)
    assert (choice.method.name == "dual-ascent") == is_compiled
    assert len(choice.others) == is_compiled  # which ends what stands still
    assert choose(problem, begun="dual-ascent").method.name == "dual-ascent"  # whatever is compiled now


def test_large_matrices_of_interior_points_stand_beside_dual_ascent(monkeypatch):
    X = np.random.default_rng(0).standard_normal((200, 20))
    problem = Problem.linear(X, X[:, 0] > 0.0, loss="hinge", alpha=0.1)
    monkeypatch.setattr("finitesum.methods.auto.corners.MATRIX_UP_TO", 19)
    seconds = {"dual-ascent": 9.0, "interior-point": 1.0}

    def of_those_that_fit(*_, fits):
        return {name: seconds[name] for name in list(seconds)[: 1 + fits]}

    monkeypatch.setattr("finitesum.methods.auto.corners.seconds_of", of_those_that_fit)
    choice = choose(problem)
    assert (choice.method.name, [other.method.name for other in choice.others]) == ("dual-ascent", ["interior-point"])
    monkeypatch.setattr("finitesum.methods.auto.corners.MOST_ORDER", 19)
    assert choose(problem).others == ()
    monkeypatch.setattr("finitesum.methods.auto.corners.MATRIX_UP_TO", 20)
    monkeypatch.setattr("finitesum.methods.auto.corners.MOST_ORDER", 20)
    assert choose(problem).method.name == "interior-point"


def test_dual_ascent_of_sharp_corners_is_left_for_time_alone():
    X = np.random.default_rng(0).standard_normal((60, 20))
    problem = Problem.linear(X, X[:, 0] > 0.0, loss="hinge", alpha=0.1)
    state = DualAscent().init(problem, np.zeros(20))
    assert not DualAscent().is_about_to_end(problem, state)
    rounded = Problem.linear(X, X[:, 0] > 0.0, loss="squared-hinge", alpha=0.1)
    assert DualAscent().is_about_to_end(rounded, DualAscent().init(rounded, np.zeros(20)))


def test_rounded_corners_of_few_rows_go_to_steps_in_their_span():
    X = np.random.default_rng(0).standard_normal((136, 914))
    choice = choose(Problem.linear(X, X[:, 0] > 0.0, loss="squared-hinge", alpha=0.01, fit_intercept=True))
    assert choice.method.name == "newton"
    assert "dual-ascent" in [other.method.name for other in choice.others]


def test_fewer_rows_than_columns_go_to_dual_ascent():
    X = np.random.default_rng(0).standard_normal((50, 200))
    assert choose(Problem.linear(X, X[:, 0] > 0.0, loss="hinge", alpha=1e-4)).method.name == "dual-ascent"
