"""Interior points with fewer rows than coefficients, whose system is one of the rows, against HiGHS and dense solutions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, NonNegative, Polyhedron, Simplex
from finitesum.losses import EpsilonInsensitive, Quantile
from finitesum.methods.auto import choose
from finitesum.methods.newton.hinge_rows import hinges_of, offsets_of_hinges
from finitesum.methods.newton.interior_point import InteriorPoint, _pieces, _quadratic, _right
from finitesum.methods.newton.interior_rows import goes_by_rows, takes_one_thread
from finitesum.methods.newton.interior_systems import SystemOfRows, system_at

LOSSES = {
    "hinge": "hinge",
    "absolute": "absolute",
    "quantile": Quantile(0.8),
    "epsilon-insensitive": EpsilonInsensitive(0.2),
}


def wide(loss, constraint=None, form="dense", seed=0, n=20, d=60, **more):
    """A problem with fewer rows than columns, some rows of weight 0, and its rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    w = np.where(rng.random(d) < 0.2, rng.standard_normal(d), 0.0)
    y = X @ w + 0.1 * rng.standard_normal(n)
    y = np.where(y > np.median(y), 1.0, -1.0) if loss == "hinge" else y
    weights = rng.exponential(size=n) * (rng.random(n) < 0.9)
    given = {"loss": LOSSES[loss], "constraint": constraint, "sample_weight": weights, **more}
    return Problem.linear(sp.csr_array(X) if form == "csr" else X, y, **given), X


def by_highs(problem, X):
    """Return the minimum, by the program in (p, q, b, xi) with w = p - q, by the simplex method."""
    (n, d), hinges, offsets, last = X.shape, hinges_of(problem), offsets_of_hinges(problem), int(problem.has_intercept)
    signs, costs = np.broadcast_to(hinges.signs, offsets.shape), hinges.costs
    J, b = len(costs), np.ones((n, last))
    rows = np.vstack([-signs[j][:, None] * np.hstack([X, -X, b]) for j in range(J)])
    program, right = np.hstack([rows, -np.eye(J * n)]), (signs * offsets - 1.0).ravel()
    most = None
    if isinstance(problem.constraint, L1Ball):
        program = np.vstack([program, np.concatenate([np.ones(2 * d), np.zeros(last + J * n)])])
        right = np.append(right, problem.constraint.radius)
    else:
        most = float(problem.constraint.upper)
    bounds = [(0.0, most)] * (2 * d) + [(None, None)] * last + [(0.0, None)] * (J * n)
    price = np.concatenate([np.zeros(2 * d + last), costs.ravel()])
    return linprog(price, program, right, bounds=bounds, method="highs-ds").fun


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("constraint", [L1Ball(1.0), Box(-0.1, 0.1)], ids=["ball", "box"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.usefixtures("kernels_as_python")
def test_the_minimum_is_that_of_the_simplex_method(loss, form, constraint, intercept, monkeypatch):
    if intercept:  # beyond a number of multiplications the factor is that of a sum
        monkeypatch.setattr("finitesum.methods.newton.interior_rows.MOST_WORK", 0.0)
    problem, X = wide(loss, constraint, form, fit_intercept=intercept)
    assert goes_by_rows(problem)
    expected = by_highs(problem, X)
    result = minimize(problem, method="interior-point", tol=1e-9 * max(expected, 1e-3))
    assert result.success, result.message
    assert result.fun == pytest.approx(expected, rel=1e-8, abs=1e-11)


SETS = {
    "ball": L1Ball(0.7),
    "weighted ball": L1Ball(0.7, weights=np.linspace(0.5, 2.0, 60)),
    "box": Box(np.where(np.arange(60) == 3, 0.05, -0.1), np.where(np.arange(60) == 3, 0.05, 0.2)),  # one coefficient stays
    "signs": NonNegative(),
    "simplex": Simplex(2.0),
    "l2 ball": L2Ball(0.4),
}


def terms():
    yield from ((name, {"constraint": constraint}) for name, constraint in SETS.items())
    rng = np.random.default_rng(5)
    yield "half-space", {"constraint": HalfSpace(rng.standard_normal(60), -0.1), "alpha": 0.1}
    yield "planes", {"constraint": Polyhedron(rng.standard_normal((3, 60)), rng.random(3)), "alpha": 0.1}
    yield "ball and l2", {"constraint": L1Ball(0.7), "alpha": 0.1}
    yield "l1", {"alpha": 0.05, "l1_ratio": 1.0}
    yield "elastic net", {"alpha": 0.05, "l1_ratio": 0.5}


@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
@pytest.mark.parametrize("by_sum", [False, True], ids=["triangle", "sum"])
@pytest.mark.parametrize(("name", "more"), [pytest.param(*pair, id=pair[0]) for pair in terms()])
@pytest.mark.usefixtures("kernels_as_python")
def test_a_step_solves_the_equations_of_all_coefficients(name, more, by_sum, loss, monkeypatch):
    if by_sum:
        monkeypatch.setattr("finitesum.methods.newton.interior_rows.MOST_WORK", 0.0)
    problem, _ = wide(loss, fit_intercept=True, **more)
    method = InteriorPoint()
    state = method.init(problem, np.zeros(problem.dim), 1e-9)
    for _ in range(3):
        state = method.run_pass(problem, state, np.arange(20))
    pieces, quadratic = _pieces(problem, state), _quadratic(_pieces(problem, state), state)
    system = system_at(pieces, quadratic, (state.basis, state.coordinates))
    assert isinstance(system, SystemOfRows)
    right, size = _right(pieces, state, system.pull), state.z.size
    step = system.solution(right)
    here = pieces.here
    rows = np.zeros((here.numbers.gaps.size, size))
    for j, unit in enumerate(np.eye(size)):
        rows[:, j] = here.changes(unit)
    matrix = np.diag(quadratic) + rows.T @ (here.loads(corrects=False)[:, None] * rows)
    free = pieces.sides.free
    if pieces.sides.total.size:  # the multiplier of the plane
        total = pieces.sides.total
        matrix = np.block([[matrix, total[:, None]], [total[None, :], np.zeros((1, 1))]])
        right, free = np.append(right, 0.0), np.append(free, True)
    expected = np.zeros(right.size)
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix)[free], 1e-3))
    expected[free] = scale * np.linalg.solve(matrix[np.ix_(free, free)] * scale * scale[:, None], scale * right[free])
    np.testing.assert_allclose(step[:size], expected[:size], rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(
        here.scaled_changes(step, here.changes(step)), here.theta * here.changes(step), rtol=1e-5, atol=1e-6
    )


def stalled_once(seed, n=100, d=700):
    """Sparse wide rows on an l1 ball, with random weights."""
    rng = np.random.default_rng(seed)
    density = rng.choice([0.02, 0.05, 0.1, 0.3])
    X = sp.random_array((n, d), density=density, rng=rng, format="csr", data_sampler=rng.standard_normal)
    w, k = np.zeros(d), int(rng.integers(3, 40))
    w[rng.choice(d, k, replace=False)] = rng.standard_normal(k)
    y = X @ w + rng.choice([0.01, 0.1, 0.5]) * rng.standard_normal(n)
    weights = rng.exponential(size=n) if seed % 2 else rng.uniform(size=n)
    epsilon = [0.0, 0.01, 0.1, 0.5][seed % 4] if seed % 4 else 0.05
    radius = rng.choice([0.05, 0.3, 0.7, 0.95]) * np.abs(w).sum()
    given = {"sample_weight": weights, "fit_intercept": seed % 3 == 0}
    return Problem.linear(X, y, loss=EpsilonInsensitive(epsilon), constraint=L1Ball(radius), **given)


@pytest.mark.parametrize("seed", [65, 97])
@pytest.mark.usefixtures("kernels_as_python")
def test_steps_stay_long_on_an_l1_ball_of_wide_data(seed):
    result = minimize(stalled_once(seed), method="interior-point", tol=1e-10)
    assert result.success, result.message
    assert result.nit <= 45


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3.0, 60)])
@pytest.mark.usefixtures("kernels_as_python")
def test_bounds_of_absolute_values_begin_where_their_multipliers_meet(weights):
    problem, _ = wide("absolute", L1Ball(0.7, weights=weights))
    x0 = 0.01 * np.random.default_rng(3).standard_normal(60)
    state = InteriorPoint().init(problem, x0, 1e-9)
    pull = _right(_pieces(problem, state), state, _pieces(problem, state).here.pulled(state.multipliers))
    np.testing.assert_allclose(pull[60:], 0.0, atol=1e-9 * np.abs(state.multipliers[40:]).max())
    assert (np.abs(state.z[:60]) < state.z[60:]).all()


@pytest.mark.as_chosen
def test_corrections_are_counted_and_save_steps(monkeypatch):
    problem = stalled_once(2)
    corrected = minimize(problem, method="interior-point", tol=1e-10)
    monkeypatch.setattr("finitesum.methods.newton.interior_correctors.LONG", 0.0)
    plain = minimize(problem, method="interior-point", tol=1e-10)
    assert plain.state.n_gradients == (1 + 5 * plain.nit) * 100
    more = corrected.state.n_gradients - (1 + 5 * corrected.nit) * 100
    assert more > 0
    assert more % 200 == 0
    assert corrected.nit < plain.nit


@pytest.mark.parametrize("constraint", [L1Ball(1.0), Box(-0.1, 0.1), Simplex(1.0), L2Ball(1.0), NonNegative()])
@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_auto_takes_interior_points_for_few_rows_of_many_columns(loss, constraint):
    problem, _ = wide(loss, constraint, "csr", n=30, d=4000)
    assert choose(problem).method.name == "interior-point"


def test_auto_takes_no_rows_where_columns_have_no_bounds():
    lower = np.where(np.arange(4000) < 10, -np.inf, -1.0)
    problem, _ = wide("absolute", Box(lower, np.where(np.isinf(lower), np.inf, 1.0)), "csr", n=30, d=4000)
    assert not goes_by_rows(problem)
    assert choose(problem).method.name == "linear-program"  # which has no matrix of either


@pytest.mark.parametrize(
    ("n", "d", "density", "expected"),
    [(600, 900, 1.0, 1), (600, 8000, 1.0, None), (600, 8000, 0.01, 1), (900, 600, 1.0, None)],
)
def test_systems_of_the_rows_that_are_formed_soon_take_one_thread(n, d, density, expected):
    X = np.zeros((n, d)) if density == 1.0 else sp.random(n, d, density, format="csr", random_state=0)
    problem = Problem.linear(X, np.arange(n) % 7, loss="absolute", alpha=0.1, l1_ratio=1.0)
    assert takes_one_thread(problem) == (expected == 1)
    assert InteriorPoint().blas_threads(problem) == expected
