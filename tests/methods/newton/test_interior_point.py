import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import LinearConstraint, minimize as scipy_minimize
from sklearn.datasets import load_breast_cancer

from finitesum import Problem, minimize
from finitesum.constraints import Box, L1Ball, Simplex
from finitesum.evaluation.certificates import dual_minorant, lower_bound
from finitesum.losses import Hinge, as_loss
from finitesum.methods.newton.hinge_rows import hinges_of, n_hinges, offsets_of_hinges, totals_of
from finitesum.methods.newton.interior_point import InteriorPoint
from finitesum.methods.newton.linear_program import LinearProgram


def data(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.3, 1.0, -1.0)
    return X, y, rng.integers(0, 5, n).astype(float)


def by_scipy(X, y, s, alpha):
    """The quadratic program in (w, b, xi), by SLSQP: an oracle of low accuracy."""
    n, d = X.shape
    p = s / s.sum()
    rows = np.hstack([y[:, None] * X, y[:, None], np.eye(n)])
    result = scipy_minimize(
        lambda v: 0.5 * alpha * v[:d] @ v[:d] + p @ v[d + 1 :],
        np.concatenate([np.zeros(d + 1), np.ones(n)]),
        jac=lambda v: np.concatenate([alpha * v[:d], [0.0], p]),
        bounds=[(None, None)] * (d + 1) + [(0.0, None)] * n,
        constraints=LinearConstraint(rows, 1.0),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return result.x[: d + 1], result.fun


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_finds_the_solution_of_the_quadratic_program(form):
    X, y, s = data()
    matrix = X if form == "dense" else scipy.sparse.csr_array(X)
    problem = Problem.linear(matrix, y, loss="hinge", alpha=0.05, fit_intercept=True, sample_weight=s)
    result = minimize(problem, method=InteriorPoint(), tol=1e-12)
    x, value = by_scipy(X, y, s, 0.05)
    assert result.success
    assert result.fun == pytest.approx(value, abs=1e-9)
    assert np.abs(result.x - x).max() < 1e-4


def test_its_multipliers_prove_the_gap():
    X, y, s = data()
    problem = Problem.linear(X, y, loss="hinge", alpha=0.01, fit_intercept=True, sample_weight=s)
    result = minimize(problem, method=InteriorPoint(), tol=1e-11)
    assert result.fun - lower_bound(problem, dual_minorant(problem, result.state.multipliers)) <= 1e-11
    assert np.array_equal(result.state.multipliers + result.state.complements, np.ones(60)) or np.allclose(
        result.state.multipliers + result.state.complements, 1.0, atol=1e-14
    )


@pytest.mark.parametrize("seed", [9, 41, 150, 244])
def test_the_gap_is_proved_where_rounding_errors_of_a_step_hide_it(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2)) * 10.0 ** rng.uniform(-6, 6, 2)
    y = np.where(X @ (rng.standard_normal(2) / np.abs(X).max(axis=0)) + 0.3 * rng.standard_normal(60) > 0.0, 1.0, -1.0)
    of_set = {"alpha": 0.1, "fit_intercept": True, "constraint": Simplex(0.1)}
    problem = Problem.linear(X, y, loss="hinge", sample_weight=10.0 ** rng.uniform(-6, 0, 60), **of_set)
    result = minimize(problem, method=InteriorPoint(), tol=1e-10)
    assert result.success, result.message
    assert result.nit <= 40


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_columns_of_any_scale(C):
    X, y = load_breast_cancer(return_X_y=True)
    problem = Problem.linear(X, y, loss="hinge", alpha=1 / (C * y.size), fit_intercept=True)
    result = minimize(problem, method=InteriorPoint(), tol=1e-10)
    assert result.success
    assert result.nit < 60


def test_weights_mean_repetition_and_weight_zero_counts_for_nothing():
    X, y, s = data()
    X[s == 0] = 1e8
    weighted = Problem.linear(X, y, loss="hinge", alpha=0.03, fit_intercept=True, sample_weight=s)
    rows = np.repeat(np.arange(60), s.astype(int))
    repeated = Problem.linear(X[rows], y[rows], loss="hinge", alpha=0.03, fit_intercept=True)
    ends = [minimize(problem, method=InteriorPoint(), tol=1e-13).x for problem in (weighted, repeated)]
    assert np.abs(ends[0] - ends[1]).max() < 1e-8


def test_offsets_and_no_intercept():
    X, y, _ = data()
    offset = 0.3 * np.arange(60) / 60
    problem = Problem.linear(X, y, loss="hinge", alpha=0.05, offset=offset)
    result = minimize(problem, method=InteriorPoint(), tol=1e-11)
    assert result.success
    rng = np.random.default_rng(0)
    from finitesum.evaluation.optimality import evaluate

    for _ in range(20):
        assert evaluate(problem, result.x + 1e-3 * rng.standard_normal(4)).objective > result.fun


def test_refuses_other_losses():
    X, y, _ = data()
    problem = Problem.linear(X, y, alpha=0.1)
    with pytest.raises(ValueError, match="interior-point needs the hinge loss or another one with corners"):
        minimize(problem, method=InteriorPoint())


@pytest.mark.parametrize("constraint", [L1Ball(0.7), Box(-0.2, 0.3)])
def test_the_linear_program_is_proved_by_its_dual_variables(constraint):
    X, y, s = data()
    problem = Problem.linear(X, y, loss="hinge", constraint=constraint, fit_intercept=True, sample_weight=s)
    result = minimize(problem, method=LinearProgram(), tol=1e-10)
    assert result.success
    assert result.nit == 1


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_more_columns_than_rows(form, intercept):
    X, y, s = data(n=30, d=80)
    matrix = X if form == "dense" else scipy.sparse.csr_array(X)
    problem = Problem.linear(matrix, y, loss="hinge", alpha=0.2, fit_intercept=intercept, sample_weight=s)
    result = minimize(problem, method=InteriorPoint(), tol=1e-12)
    assert result.success
    span = np.linalg.qr(X.T)[0]  # the same problem in n columns is not wide
    small = Problem.linear(X @ span, y, loss="hinge", alpha=0.2, fit_intercept=intercept, sample_weight=s)
    other = minimize(small, method=InteriorPoint(), tol=1e-12)
    assert np.abs(result.x[:80] - span @ other.x[:30]).max() < 1e-9
    warm = minimize(problem, np.ones(problem.dim), method=InteriorPoint(), tol=1e-12)  # a start outside of the span
    assert np.abs(warm.x[:80] - result.x[:80]).max() < 1e-9


LOSSES = {"hinge": 1, "absolute": 2, "quantile": 2, "epsilon-insensitive": 2}


def with_corners(loss, n=40):
    """A problem, and its rows, targets, weights and offsets."""
    rng = np.random.default_rng(7)
    X, weights, offset = rng.standard_normal((n, 3)), rng.integers(0, 4, n).astype(float), 0.3 * rng.standard_normal(n)
    y = X @ rng.standard_normal(3) + rng.standard_normal(n)
    y = np.where(y > 0.0, 1.0, -1.0) if loss == "hinge" else y
    given = {"loss": loss, "alpha": 0.05, "fit_intercept": True}
    return Problem.linear(X, y, sample_weight=weights, offset=offset, **given), (X, y, weights / weights.sum(), offset)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_with_corners_are_sums_of_hinges(loss):
    problem, (_, y, p, offset) = with_corners(loss)
    hinges, offsets, rng = hinges_of(problem), offsets_of_hinges(problem), np.random.default_rng(1)
    n, J = y.size, LOSSES[loss]
    assert n_hinges(problem) == J
    signs, costs = np.broadcast_to(hinges.signs, (J, n)), hinges.costs
    for u in 3.0 * rng.standard_normal((20, n)):
        expected = [p[i] * as_loss(loss).value(u[i] + offset[i], y[i]) for i in range(n)]
        each = [sum(costs[j, i] * max(0.0, 1.0 - signs[j, i] * (u[i] + offsets[j, i])) for j in range(J)) for i in range(n)]
        np.testing.assert_allclose(each, expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(hinges.of_rows(u), [signs[j, i] * u[i] for j in range(J) for i in range(n)])
    loads = rng.standard_normal(J * n)
    by_row = [[loads[j * n + i] for j in range(J)] for i in range(n)]
    np.testing.assert_allclose(hinges.total(loads), [sum(row) for row in by_row], atol=1e-15)
    signed = [sum(signs[j, i] * row[j] for j in range(J)) for i, row in enumerate(by_row)]
    np.testing.assert_allclose(hinges.signed_total(loads), signed, atol=1e-15)
    np.testing.assert_array_equal(hinges.of_sign(1.0, loads) + hinges.of_sign(-1.0, loads), loads.reshape(J, n))
    assert totals_of(problem) == (pytest.approx(costs.sum()), np.count_nonzero(costs))


@pytest.mark.parametrize("loss", ["absolute", "quantile", "epsilon-insensitive"])
def test_steps_are_those_of_the_hinge_loss_of_all_hinges_as_rows(loss):
    problem, (X, *_) = with_corners(loss)
    hinges, offsets = hinges_of(problem), offsets_of_hinges(problem)
    y, costs = (np.broadcast_to(numbers, offsets.shape).ravel() for numbers in (hinges.signs, hinges.costs))
    as_rows = Problem.linear(
        np.vstack([X, X]),
        y,
        loss=Hinge(costs.sum()),
        alpha=0.05,
        fit_intercept=True,
        sample_weight=costs,
        offset=offsets.ravel(),
    )
    method, x0 = InteriorPoint(), 0.2 * np.arange(4.0)
    states = [method.init(one, x0, 1e-9) for one in (problem, as_rows)]
    for _ in range(6):
        states = [method.run_pass(one, state, np.arange(40)) for one, state in zip((problem, as_rows), states, strict=True)]
        np.testing.assert_allclose(states[0].x, states[1].x, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(states[0].multipliers, states[1].multipliers, atol=1e-6)
        gaps = [method.estimate(one, state) for one, state in zip((problem, as_rows), states, strict=True)]
        assert gaps[0] == pytest.approx(gaps[1], rel=1e-6, abs=1e-12)
