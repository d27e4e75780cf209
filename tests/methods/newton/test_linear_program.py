"""The linear program: every loss with corners, penalty and polyhedron against interior points, and where it is chosen."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, QuantileRegressor, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Polyhedron, Simplex
from finitesum.losses import EpsilonInsensitive, Hinge, Quantile
from finitesum.methods.auto import choose
from finitesum.methods.newton import linear_program
from finitesum.methods.newton.linear_program import LinearProgram, reference_optimum

N, D = 90, 7
SIZES = 10.0 ** np.array([-14.0, -10.0, -7.0, 0.0, 4.0, 8.0, 12.0])
LOSSES = {"hinge": Hinge(2.5), "absolute": "absolute", "quantile": Quantile(0.8), "tube": EpsilonInsensitive(0.3)}
TERMS = {
    "nothing": {},
    "l1": {"alpha": 0.02, "l1_ratio": 1.0},
    "weighted l1": {"alpha": 0.02, "l1_ratio": 1.0, "penalty_weights": np.arange(D)},
    "l1 ball": {"constraint": L1Ball(0.5)},
    "weighted l1 ball": {"constraint": L1Ball(1.0, weights=np.arange(1.0, D + 1))},
    "box": {"constraint": Box(-0.1, [0.3] * D)},
    "box with a point": {"constraint": Box([-0.1] * (D - 1) + [0.2], [0.3] * (D - 1) + [0.2])},
    "linf ball": {"constraint": LInfBall(0.2)},
    "orthant": {"constraint": NonNegative()},
    "simplex": {"constraint": Simplex(0.5)},
    "half-space": {"constraint": HalfSpace(np.ones(D), -0.2)},
    "polyhedron": {"constraint": Polyhedron.increasing(range(4), D)},
}


def problem_of(loss, term, form, *, fit_intercept):
    """Return rows with offsets and weights, some 0."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    y = X @ rng.standard_normal(D) + rng.standard_normal(N)
    data = {"sample_weight": rng.integers(0, 4, N), "offset": 0.3 * rng.standard_normal(N), "fit_intercept": fit_intercept}
    targets = np.where(y > 0.0, 1.0, -1.0) if loss == "hinge" else y
    return Problem.linear(sp.csr_array(X) if form == "csr" else X, targets, loss=LOSSES[loss], **data, **TERMS[term])


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize(("form", "fit_intercept"), [("dense", True), ("csr", False)])
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_corners_penalty_and_set_ends_at_the_minimum(loss, term, form, fit_intercept):
    problem = problem_of(loss, term, form, fit_intercept=fit_intercept)
    result = minimize(problem, method="linear-program", tol=1e-10)
    other = minimize(problem, method="interior-point", tol=1e-9)
    assert result.success, result.message
    assert result.nit == 1
    assert result.fun == pytest.approx(other.fun, abs=2e-9)
    assert problem.constraint.contains(result.x[:D], 1e-9)


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("distance", [0.0, 0.05, 1.0])
def test_rows_that_a_start_puts_on_a_wrong_side_are_freed(loss, distance, monkeypatch):
    monkeypatch.setattr(linear_program, "N_NEAR", 5)
    problem = problem_of(loss, "box", "dense", fit_intercept=False)
    found = reference_optimum(problem)
    again = reference_optimum(problem, start=found.x + distance * np.random.default_rng(0).standard_normal(D))
    assert again.value == pytest.approx(found.value, abs=1e-9)
    assert again.value - again.lower_bound == pytest.approx(0.0, abs=1e-9)


def test_a_polyhedron_without_interior_points_is_solved_exactly():
    problem = problem_of("absolute", "nothing", "dense", fit_intercept=True)
    flat = Polyhedron(np.vstack([np.ones(D), -np.ones(D)]), [0.3, -0.3])
    problem = Problem.linear(problem.rows.values, problem.targets, loss="absolute", constraint=flat, fit_intercept=True)
    result = minimize(problem, tol=1e-10)
    assert result.success
    assert isinstance(choose(problem, 1e-10).method, LinearProgram)
    assert result.x[:D].sum() == pytest.approx(0.3, abs=1e-12)


def one_hot(n=1500, d=1500, fields=5, loss="absolute", **more):
    rng = np.random.default_rng(0)
    levels = d // fields
    columns = (rng.integers(0, levels, (n, fields)) + levels * np.arange(fields)).ravel()
    X = sp.csr_array((np.ones(n * fields), columns, np.arange(0, n * fields + 1, fields)), shape=(n, d))
    y = X @ np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0) + 0.3 * rng.standard_normal(n)
    return Problem.linear(X, np.sign(y) if loss == "hinge" else y, loss=loss, fit_intercept=True, **more)


@pytest.mark.parametrize(
    ("more", "is_taken"),
    [
        ({}, True),
        ({"loss": "hinge"}, True),
        ({"l1_ratio": 0.5}, False),
        ({"fields": 15, "alpha": 1e-5}, False),  # many entries, few zeros
        ({"fields": 15, "alpha": 1e-3}, True),
        ({"fields": 15, "alpha": 1e-5, "loss": "hinge"}, True),
        ({"n": 20_000, "d": 100}, False),  # a small system
    ],
)
def test_it_is_chosen_on_sparse_rows_with_sparse_factors(more, is_taken):
    problem = one_hot(**{"alpha": 1e-4, "l1_ratio": 1.0} | more)
    assert isinstance(choose(problem, 1e-8).method, LinearProgram) == is_taken


def test_a_program_that_ends_short_of_tol_is_left_for_interior_points(monkeypatch):
    problem, solve = one_hot(600, 600, alpha=1e-3, l1_ratio=1.0), linear_program._solve

    def inexact(*given):
        w, loads = solve(*given)
        return 0.9 * w, 0.9 * loads

    monkeypatch.setattr(linear_program, "_solve", inexact)
    result = minimize(problem, tol=1e-10)
    assert result.success
    assert "interior-point has gone on" in result.message
    calls = list[int]()
    monkeypatch.setattr(linear_program, "_solve", lambda *given: calls.append(1) or inexact(*given))
    assert not minimize(problem, method="linear-program", tol=1e-10).success
    assert len(calls) == 1


def test_interior_points_go_on_with_a_warning_where_highs_finds_nothing(monkeypatch):
    def fails(*_given):
        raise RuntimeError("HiGHS found no optimum: it is ill.")

    monkeypatch.setattr(linear_program, "_solve", fails)
    problem = one_hot(600, 600, alpha=1e-3, l1_ratio=1.0)
    with pytest.warns(RuntimeWarning, match=r"^HiGHS found no optimum: it is ill\. Scale the targets"):
        result = minimize(problem, tol=1e-8)
    assert result.success
    assert "interior-point has gone on" in result.message


@pytest.mark.parametrize(
    "terms",
    [
        ({}, {}),
        (TERMS["orthant"], TERMS["orthant"]),
        (TERMS["l1"], {**TERMS["l1"], "penalty_weights": SIZES}),
        ({"constraint": L1Ball(0.5)}, {"constraint": L1Ball(0.5, weights=SIZES)}),
        ({"constraint": Box(-0.1, 0.3)}, {"constraint": Box(-0.1 / SIZES, 0.3 / SIZES)}),
    ],
    ids=["nothing", "orthant", "l1", "l1 ball", "box"],
)
def test_columns_of_any_size_are_in_the_equations(terms):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    y, values = X @ np.ones(D) + rng.standard_normal(N), []
    for size, term in zip((np.ones(D), SIZES), terms, strict=True):
        problem = Problem.linear(sp.csr_array(X * size), y, loss="absolute", **term)
        result = minimize(problem, method="linear-program", tol=1e-9)
        assert result.success, result.message
        values.append(result.fun)
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_quantiles_on_sparse_rows_are_scikit_learn_s():
    reference = pytest.importorskip("sklearn.linear_model")
    problem = one_hot(500, 300)
    X = sp.csr_matrix((problem.rows.values, problem.rows.columns, problem.rows.starts), shape=(500, 300))
    model = QuantileRegressor(quantile=0.7, alpha=2e-4, l1_ratio=1.0, tol=1e-10, solver="linear-program").fit(
        X, problem.targets
    )
    other = reference.QuantileRegressor(quantile=0.7, alpha=2e-4, solver="highs").fit(X, problem.targets)

    def objective(model):
        r = problem.targets - X @ model.coef_ - model.intercept_
        return np.maximum(0.7 * r, -0.3 * r).mean() + 2e-4 * np.abs(model.coef_).sum()

    assert objective(model) == pytest.approx(objective(other), abs=1e-9)


def test_a_ball_and_a_quadratic_penalty_are_refused():
    X, y = np.eye(3), [1.0, -1.0, 1.0]
    for more in ({"constraint": L2Ball(1.0)}, {"alpha": 0.1}, {"loss": "logistic"}):
        with pytest.raises(
            ValueError, match=r"linear-program needs the hinge loss or another one with corners, no penalty"
        ):
            minimize(Problem.linear(X, y, **{"loss": "hinge"} | more), method="linear-program")
