"""Methods on working sets of columns: optimality, the sets it chooses, what it charges, when it is chosen."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import make_pair

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, NonNegative, Unconstrained
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.newton.working_set_newton import WorkingSetNewton, on_columns, working_set


def wide(form="csr", *, n=400, d=3000, seed=0, **more):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.02, rng=rng, format="csr")
    truth = np.where(rng.random(d) < 0.01, 3.0 * rng.standard_normal(d), 0.0)
    y = np.where(X @ truth + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Problem.linear(X if form == "csr" else X.toarray(), y, **more)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("more", [{"l1_ratio": 1.0, "alpha": 2e-3}, {"l1_ratio": 0.9, "alpha": 2e-3}])
def test_wide_problems_are_solved_to_the_optimum_of_another_method(form, intercept, more):
    problem = wide(form, n=250, d=800, fit_intercept=intercept, **more)
    result = minimize(problem, method="working-set-newton", options={"first_columns": 10}, tol=1e-11)
    assert result.success
    assert 0 < np.count_nonzero(result.x) < 250
    reference = minimize(problem, method="newton", tol=1e-11)
    np.testing.assert_allclose(result.x, reference.x, atol=1e-6)


METHODS_ON_COLUMNS = "working-set-newton", "coordinate-descent"


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared-hinge", "smoothed-hinge", "poisson", "huber"])
@pytest.mark.parametrize(
    ("method", "more"),
    [(name, more) for name in METHODS_ON_COLUMNS for more in ({"l1_ratio": 1.0}, {"l1_ratio": 0.4}, {"constraint": "box"})]
    + [("working-set-newton", {"constraint": name}) for name in ("l1-ball", "l2-ball")],
)
def test_all_losses_and_terms_meet_their_optimality_conditions(loss, method, more):
    problem, F = make_pair(loss=loss, n=50, d=12, alpha=0.05, weighted=True, intercept=True, **more)
    result = minimize(problem, method=method, options={"first_columns": 2}, tol=1e-10, max_iter=500)
    assert result.success
    assert F.optimality(result.x) <= 2e-10


def test_the_l1_ball_s_optimum_is_that_of_the_penalty_with_its_multiplier():
    problem = wide(l1_ratio=1.0, alpha=2e-3)
    penalised = minimize(problem, method="working-set-newton", tol=1e-12)
    radius = float(np.abs(penalised.x).sum())
    ball = minimize(wide(constraint=L1Ball(radius)), method="working-set-newton", tol=1e-12, max_iter=500)
    assert ball.success
    np.testing.assert_allclose(ball.x, penalised.x, atol=1e-6)


@pytest.mark.parametrize("method", METHODS_ON_COLUMNS)
def test_the_nonnegative_orthant_is_solved_on_the_columns_that_it_leaves(method):
    problem = wide(constraint=NonNegative(), alpha=0.01)
    result = minimize(problem, method=method, tol=1e-10)
    assert result.success
    slope = evaluate(problem, result.x).gradient
    assert result.x.min() >= 0.0
    assert slope[result.x == 0.0].min() >= -1e-9
    assert np.abs(slope[result.x > 0.0]).max() <= 1e-9


def test_working_sets_have_all_coefficients_and_the_worst_violations():
    problem = Problem.linear(np.eye(5), [1.0, -1.0, 1.0, -1.0, 1.0], loss="squared", alpha=0.1, l1_ratio=1.0)
    x, gradient = np.array([0.0, 2.0, 0.0, 0.0, 0.0]), np.array([0.5, 0.0, -0.3, 0.05, 0.2])
    assert working_set(problem, x, gradient, 1).tolist() == [0, 1]
    assert working_set(problem, x, gradient, 2).tolist() == [0, 1, 2]
    assert working_set(problem, x, gradient, 9).tolist() == [0, 1, 2, 4]  # column 3 keeps its 0


@pytest.mark.usefixtures("kernels_as_python")
def test_problems_on_columns_are_those_with_the_other_coefficients_0():
    rng = np.random.default_rng(2)
    weights = rng.random(6) + 0.5
    columns = np.array([1, 2, 5])
    for form in (np.asarray, sp.csr_array):
        X = rng.standard_normal((20, 6)) * (rng.random((20, 6)) < 0.5)
        y = rng.standard_normal(20)
        whole = Problem.linear(form(X), y, loss="squared", fit_intercept=True, constraint=L1Ball(2.0, weights))
        part = on_columns(whole, columns)
        x = np.zeros(7)
        x[[1, 2, 5, 6]] = [0.1, -0.2, 0.3, 0.7]
        there, here = evaluate(whole, x), evaluate(part, x[[1, 2, 5, 6]])
        assert here.objective == pytest.approx(there.objective, rel=1e-14)
        np.testing.assert_allclose(here.gradient, there.gradient[[1, 2, 5, 6]], rtol=1e-12)
        assert part.constraint == L1Ball(2.0, weights[columns])


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        (L1Ball(1.0), L1Ball(1.0)),
        (L2Ball(2.0), L2Ball(2.0)),
        (NonNegative(), NonNegative()),
        (Box([-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]), Box([-1.0, -3.0], [1.0, 3.0])),
        (HalfSpace([1.0, 2.0, 3.0], 1.0), HalfSpace([1.0, 3.0], 1.0)),
        (HalfSpace([0.0, 2.0, 0.0], 1.0), Unconstrained()),
        (HalfSpace([0.0, 2.0, 0.0], 0.0), Unconstrained()),
    ],
)
def test_sets_on_columns(whole, part):
    assert whole.on_columns(np.array([0, 2])) == part


def test_a_half_space_without_a_point_on_the_columns_is_refused():
    with pytest.raises(ValueError, match="is < 0: no point of the half-space is 0 everywhere else"):
        HalfSpace([0.0, 2.0, 0.0], -1.0).on_columns(np.array([0, 2]))


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize("offset", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_half_spaces_that_confine_few_columns_are_no_obstacle(loss, offset):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 8))
    X[:, 7] *= 1e-3  # where the normal is not 0, and the last that working sets take
    half = HalfSpace(np.eye(8)[7], offset)
    problem = Problem.linear(X, np.sign(X[:, 0] + X[:, 1]), loss=loss, alpha=0.01, constraint=half)
    result = minimize(
        problem, method="working-set-newton", options={"first_columns": 1}, tol=1e-10, random_state=0, max_iter=500
    )
    assert result.success
    assert half.contains(result.x)
    reference = minimize(problem, method="lazy-newton", tol=1e-10, max_iter=500)
    np.testing.assert_allclose(result.x, reference.x, atol=1e-7)


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        {"alpha": 10.0, "l1_ratio": 1.0},
        {"constraint": Box(np.zeros(6), np.zeros(6))},
        {"constraint": Box(0.0, 0.0)},
        {"constraint": HalfSpace(np.ones(6), 0.0), "alpha": 0.1},
    ],
)
def test_working_sets_may_be_empty(more, intercept):
    rng = np.random.default_rng(6)
    X = np.zeros((30, 6)) if isinstance(more.get("constraint"), HalfSpace) else rng.standard_normal((30, 6))
    problem = Problem.linear(X, np.where(np.arange(30) < 10, 1.0, -1.0), fit_intercept=intercept, **more)
    method = WorkingSetNewton()
    state = method.init(problem, np.zeros(problem.dim), 1e-10)
    for _ in range(40):
        state = method.run_pass(problem, state, np.arange(problem.n_components))
    assert not state.x[:6].any()
    assert state.optimality <= 1e-10
    if intercept:
        assert state.x[6] == pytest.approx(np.log(0.5), rel=1e-8)


def test_a_pass_over_some_columns_is_charged_by_its_entries():
    problem = wide(l1_ratio=1.0, alpha=5e-3)
    result = minimize(problem, method="working-set-newton", tol=1e-10, measure_every=0)
    assert result.success
    n_sets = sum(not math.isnan(row.estimate) for row in result.trace.rows)  # all columns were read
    assert n_sets <= result.n_passes < 3 * n_sets


def test_it_resumes_to_the_same_bits(tmp_path):
    problem = wide(l1_ratio=1.0, alpha=1e-3)
    settings = {"method": "working-set-newton", "options": {"first_columns": 5}, "tol": 1e-12, "random_state": 0}
    whole = minimize(problem, **settings)
    assert whole.nit > 3
    path = tmp_path / "run.npz"
    minimize(problem, **settings, checkpoint=path, callback=lambda intermediate_result: intermediate_result.nit == 4)
    rest = minimize(problem, **settings, checkpoint=path, resume=True)
    np.testing.assert_array_equal(rest.x, whole.x)


def test_nothing_to_fit_is_the_zero_vector():
    problem = wide(l1_ratio=1.0, alpha=10.0)
    result = minimize(problem, method="working-set-newton", tol=1e-10)
    assert result.success
    assert not result.x.any()


def test_impossible_options_are_refused():
    with pytest.raises(ValueError, match="first_columns must be a whole number >= 1"):
        WorkingSetNewton(first_columns=0)
