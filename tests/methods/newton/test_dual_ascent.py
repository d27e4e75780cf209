"""Dual ascent for the hinge loss: minima against interior points, the equations of the free loads, what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.core.jit import _kinds_of
from finitesum.evaluation.certificates import slopes_bound
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_products import combination, predictions
from finitesum.methods.auto import choose
from finitesum.methods.newton import dual_arrays, dual_ascent
from finitesum.methods.newton.dual_ascent import DualAscent
from finitesum.methods.newton.dual_faces import advance, find_face, take_step
from finitesum.methods.newton.dual_points import (
    count_at_corners,
    loss_of,
    measures_within,
    point_of,
    solved_at_corners,
    value_at,
    with_best_factor,
    with_best_intercept,
)
from finitesum.methods.newton.dual_sweeps import sweep


def generated_hinge(seed, loss="hinge"):
    """Return rows of any shape and density, weights over two decades with zeros among them, offsets, any alpha."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 200)), int(rng.integers(1, 60))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5) * 10.0 ** rng.uniform(-1, 1, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    if "epsilon" not in loss:
        y = np.where(y > 0.0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
    more = {"alpha": 10.0 ** rng.uniform(-4, 0), "fit_intercept": bool(rng.random() < 0.6)}
    if rng.random() < 0.5:
        more["sample_weight"] = 10.0 ** rng.uniform(-2, 0, n) * (rng.random(n) < 0.9) + 1e-3 * (np.arange(n) < 2)
    if rng.random() < 0.3:
        more["offset"] = 0.3 * rng.standard_normal(n)
    return Problem.linear(sp.csr_array(X) if rng.random() < 0.5 else X, y, loss=loss, **more)


def text(n=2000, d=3000):
    """Return rows of length 1 with frequent and rare columns."""
    rng = np.random.default_rng(0)
    columns = np.minimum((d * rng.random((n, 30)) ** 4).astype(int), d - 1)
    X = sp.csr_array((rng.random(n * 30) + 0.1, columns.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    X = sp.csr_array(sp.diags_array(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.1, 1.0, -1.0)
    return Problem.linear(X, y, loss="hinge", alpha=1.0 / n)


def ends_at_the_minimum(seed):
    """Assert that a hinge problem has the minimum of another method."""
    problem = generated_hinge(seed)
    result = minimize(problem, method="dual-ascent", tol=1e-9, max_iter=5000, measure_every=0)
    other = minimize(problem, method="interior-point", tol=1e-9, measure_every=0)
    assert result.success, result.message
    assert abs(result.fun - other.fun) <= 2e-9


def rounded_ends_at_the_minimum(seed, loss):
    """Assert that a problem of rounded corners has the minimum of another method."""
    problem = generated_hinge(seed, loss)
    result = minimize(problem, method="dual-ascent", tol=1e-8, max_iter=10_000, measure_every=0)
    other = minimize(problem, method="newton", tol=1e-9, measure_every=0)
    assert result.success, result.message
    assert np.linalg.norm(result.jac) <= 1e-8
    assert result.nfev == 0  # a round ends with the gradient at its point, which no check computes again
    np.testing.assert_allclose(result.jac, evaluate(problem, result.x).gradient, atol=1e-12)
    assert result.fun == pytest.approx(other.fun, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("kernels_as_python")
def test_hinge_problems_of_any_shape_end_at_the_minimum(seed):
    ends_at_the_minimum(seed)


@pytest.mark.parametrize("loss", ["squared-hinge", "smoothed-hinge", "squared-epsilon-insensitive"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.as_chosen
def test_rounded_corners_end_at_the_minimum(seed, loss):
    rounded_ends_at_the_minimum(seed, loss)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 60))
def test_more_hinge_problems_end_at_the_minimum(seed):
    ends_at_the_minimum(seed)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared-hinge", "smoothed-hinge", "squared-epsilon-insensitive"])
@pytest.mark.parametrize("seed", range(3, 40))
def test_more_rounded_corners_end_at_the_minimum(seed, loss):
    rounded_ends_at_the_minimum(seed, loss)


def test_the_free_loads_of_text_are_solved_for_in_few_rounds():
    problem = text()
    result = minimize(problem, method="dual-ascent", tol=1e-12, measure_every=0)
    assert result.success
    assert result.state.n_rounds <= 20
    multipliers = -problem.targets * result.state.slopes
    free = (multipliers > 0.0) & (multipliers < 1.0)
    excesses = problem.targets * predictions(problem, result.x) - 1.0
    assert 10 <= free.sum() < 2000
    assert np.abs(excesses[free]).max() <= 1e-8
    assert excesses[multipliers == 0.0].min() >= -1e-8
    assert excesses[multipliers == 1.0].max() <= 1e-8


@pytest.mark.parametrize(
    ("n", "d", "more", "has_code", "is_taken"),
    [
        (600, 2000, {}, False, True),
        (600, 2000, {"alpha": 0.1}, False, False),  # rows that hardly see each other
        (600, 2000, {"alpha": 0.1}, True, True),
        (600, 2000, {"fit_intercept": True}, False, True),
        (600, 2000, {"l1_ratio": 0.5}, False, False),
        (3000, 2200, {}, False, True),
        (6000, 500, {}, False, False),
    ],
)
def test_rounded_corners_go_to_dual_ascent_where_rows_are_few_by_columns(n, d, more, has_code, is_taken, monkeypatch):
    monkeypatch.setattr(dual_arrays, "have_machine_code", lambda _: has_code)
    X = sp.random_array((n, d), density=0.02, rng=np.random.default_rng(0), format="csr")
    y = np.where(np.arange(n) % 3 > 0, 1.0, -1.0)
    problem = Problem.linear(X, y, loss="squared-hinge", **{"alpha": 1.0 / n, **more})
    assert (choose(problem).method.name == "dual-ascent") == is_taken
    if problem.term.is_smooth and n <= 3 * d:
        assert choose(problem, begun="dual-ascent").method.name == "dual-ascent"  # with another kernel folder, too


@pytest.mark.as_chosen
@pytest.mark.parametrize("is_compiled", [True, False])
def test_rounded_corners_of_small_data_go_to_newtons_steps_where_visits_would_be_pythons(is_compiled, monkeypatch):
    monkeypatch.setattr(dual_arrays, "have_machine_code", lambda _: is_compiled)
    X = sp.random_array((1000, 4000), density=0.01, rng=np.random.default_rng(0), format="csr")
    problem = Problem.linear(X, np.arange(1000) % 2, loss="squared-hinge", alpha=1e-2, fit_intercept=True)
    choice = choose(problem, 1e-6)
    assert (choice.method.name == "dual-ascent") == is_compiled
    (dual,) = [other for other in (choice, *choice.others) if other.method.name == "dual-ascent"]
    assert dual.seconds > min(other.seconds for other in (choice, *choice.others)) or is_compiled


def test_machine_code_for_another_loss_is_none_for_this_one(monkeypatch):
    kinds = []
    monkeypatch.setattr(dual_arrays, "has_machine_code", lambda kernel, *args: kinds.append(_kinds_of(args)) or False)
    X, y = sp.csr_array(np.eye(6)), np.arange(6) % 2
    for given in ({}, {"loss": "squared-hinge"}, {"alpha": 2.0}, {"X": np.eye(6)}):
        dual_arrays.have_machine_code(Problem.linear(**{"X": X, "y": y, "loss": "hinge", "alpha": 1.0, **given}))
    assert kinds[0] != kinds[1]
    assert kinds[0] == kinds[2]
    assert kinds[0] != kinds[3]


@pytest.mark.as_chosen
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_visits_are_asked_for_by_the_arguments_that_they_are_made_with(form, monkeypatch):
    asked, given = [], []
    monkeypatch.setattr(dual_arrays, "has_machine_code", lambda kernel, *args: asked.append(_kinds_of(args)) or True)
    monkeypatch.setattr(dual_ascent, "sweep", lambda *args: given.append(_kinds_of(args)) or sweep(*args))
    X = np.random.default_rng(0).standard_normal((40, 60))
    problem = Problem.linear(sp.csr_array(X) if form == "csr" else X, X[:, 0] > 0.0, loss="squared-hinge", alpha=0.1)
    minimize(problem, method="dual-ascent", tol=1e-6)
    dual_arrays.have_machine_code(problem)
    assert set(given) == set(asked)


def test_what_newtons_steps_are_too_many_for_goes_on_with_dual_ascent():
    rng = np.random.default_rng(0)
    problem = Problem.linear(rng.standard_normal((2500, 900)), np.arange(2500) % 2, loss="squared-hinge", alpha=1e-4)
    choice = choose(problem, 1e-8)
    assert choice.method.name != "dual-ascent"
    assert choice.others[0].method.name == "dual-ascent"


def test_rows_at_corners_have_slopes_between_the_ends():
    hinge = Problem.linear(np.eye(5), [1.0, 1.0, 1.0, 0.0, 0.0], loss="hinge", alpha=0.1)
    assert count_at_corners(hinge, np.array([0.0, -0.2, -0.7, 1.0, 0.3])) == 3
    squared = Problem.linear(np.eye(3), [1.0, 1.0, 0.0], loss="squared-hinge", alpha=0.1)
    assert count_at_corners(squared, np.array([0.0, -20.0, 0.7])) == 2
    tube = Problem.linear(np.eye(3), [1.0, 2.0, 3.0], loss="epsilon-insensitive", alpha=0.1)
    assert count_at_corners(tube, np.array([-1.0, 0.4, 1.0])) == 1


@pytest.mark.parametrize("loss", ["squared-hinge", "smoothed-hinge"])
@pytest.mark.parametrize("far", [0.0, 3.0, 1e6])
def test_the_intercept_of_a_point_is_the_best_one_of_smooth_losses(loss, far):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(80) < 0.3, 1.0, -1.0)
    more = {"sample_weight": rng.random(80), "fit_intercept": True}
    problem = Problem.linear(rng.standard_normal((80, 3)), y, loss=loss, alpha=0.1, **more)
    w = np.append(rng.standard_normal(3), far)
    best, u = with_best_intercept(problem, w, predictions(problem, w))
    np.testing.assert_allclose(u, predictions(problem, best), atol=1e-9)
    assert abs(problem.weights @ problem.loss.d1(u, y)) <= 1e-12 * max(far, 1.0)
    np.testing.assert_array_equal(best[:-1], w[:-1])


def face_of(seed, n=12, d=8):
    """Return a problem, slopes within the interval, and the face of all rows: its matrix and right-hand side."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)) * np.logspace(0, -1, d), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    problem = Problem.linear(X, y, loss="hinge", alpha=0.05, sample_weight=rng.uniform(0.5, 2.0, n))
    slopes = -y * rng.uniform(0.05, 0.95, n)
    w = -X.T @ (problem.weights * slopes) / 0.05
    return problem, slopes, w, X @ X.T / 0.05, X @ w - y


def within_by_numpy(Q, right, low, high, n_products):
    """Return the changes after so many products of conjugate gradients within intervals, with the whole matrix."""
    metric, x, rests, k = np.diagonal(Q), np.zeros(right.size), np.zeros(right.size, dtype=bool), 0
    direction = right / metric
    size = right @ direction
    while k < n_products:
        step, before = size / (direction @ Q @ direction), size
        x, k = x + step * direction, k + 1
        residual = right - Q @ x
        beyond = float((metric * (x - np.clip(x, low, high)) ** 2).sum())
        scaled = np.where(rests, 0.0, residual / metric)
        size = residual @ scaled
        if beyond > step * before:
            x, k = np.clip(x, low, high), k + 1
            residual = right - Q @ x
            rests = ((x == low) & (residual < 0.0)) | ((x == high) & (residual > 0.0))
            direction = np.where(rests, 0.0, residual / metric)
            size = residual @ direction
        else:
            direction = direction * size / before + scaled
    return x, k


@pytest.mark.parametrize("seed", range(4))
def test_steps_on_faces_are_conjugate_gradients_within_intervals(seed):
    problem, slopes, w, Q, right = face_of(seed)
    face, p = np.arange(slopes.size), problem.weights
    low = np.where(problem.targets > 0.0, -1.0, 0.0)
    low, high = p * (low - slopes), p * (low + 1.0 - slopes)
    found, excesses = np.empty(slopes.size, dtype=np.int64), np.empty(slopes.size)
    assert find_face(problem.view_of_rows, face, w, slopes, found, excesses) == slopes.size
    np.testing.assert_allclose(excesses, right, atol=1e-12)
    terms, n_clipped = (np.diagonal(Q).copy(), 0.05, np.inf), 0
    for most in range(1, 9):
        run = np.zeros(right.size), right.copy(), right / np.diagonal(Q)
        sizes = float(right @ run[2]), 0.0
        _, n_products, _ = advance(problem.view_of_rows, face, slopes, run, sizes, terms, (most, 10**6))
        expected, n_expected = within_by_numpy(Q, right, low, high, most)
        assert n_products == n_expected
        np.testing.assert_allclose(run[0], expected, rtol=1e-7, atol=1e-9)
        n_clipped += n_products > most
    assert n_clipped > 0


def test_a_face_within_its_intervals_ends_at_the_best_changes():
    problem, slopes, w, Q, right = face_of(7, n=6)
    face, p = np.arange(slopes.size), problem.weights
    low = np.where(problem.targets > 0.0, -1.0, 0.0)
    low, high = p * (low - slopes), p * (low + 1.0 - slopes)
    run = np.zeros(right.size), right.copy(), right / np.diagonal(Q)
    terms, sizes = (np.diagonal(Q).copy(), 0.05, np.inf), (float(right @ run[2]), 1e-20)
    _, n_products, is_over = advance(problem.view_of_rows, face, slopes, run, sizes, terms, (1000, 10**6))
    assert is_over
    assert n_products < 100
    assert (run[0] >= low).all()
    assert (run[0] <= high).all()
    is_inside = (run[0] > low) & (run[0] < high)
    np.testing.assert_allclose((right - Q @ run[0])[is_inside], 0.0, atol=1e-8)
    before = w.copy()
    length, n_inside = take_step(problem.view_of_rows, face, run[0], w, slopes, terms, 1e-3)
    assert (length, n_inside) == (1.0, is_inside.sum())
    np.testing.assert_allclose(w - before, -problem.rows.values.T @ run[0] / 0.05, atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "slope"), [("hinge", -0.3), ("quantile", 0.2), ("epsilon-insensitive", -0.4), ("absolute", 0.5)]
)
def test_a_sweep_adds_up_the_parts_of_the_gap_that_it_meets(loss, slope):
    problem = Problem.linear([[1.0, 2.0], [0.5, -1.0]], [1.0, -1.0], loss=loss, alpha=0.1)
    w, slopes = np.array([1.5, 0.7]), np.array([slope, 0.0])
    u = 1.5 + 1.4
    conjugate = sum(k * np.clip(slope, low, high) for low, high, k in problem.loss.corners(1.0))
    gap = 0.5 * (problem.loss.value(u, 1.0) + conjugate - slope * u)
    assert gap > 0.1
    couplings = np.array([5.0, 1.25]) / 0.1
    for small, is_enough in ((1.001 * gap, True), (0.999 * gap, False)):
        active, order = np.zeros(1, dtype=np.int64), np.empty(2, dtype=np.int64)
        limits = np.inf, (0.0, np.inf, small), 1, (0, 10)
        given = np.zeros(2), w.copy(), slopes.copy(), (active, order, 4), (couplings, 0.1, np.inf), limits
        _, violation, is_accurate, n_sweeps, n_visits = sweep(problem.view_of_rows, *given)
        assert violation > 0.0
        assert (is_accurate, n_sweeps, n_visits) == (is_enough, 1, 1)


def test_rounds_end_where_the_gap_is_within_tol(monkeypatch):
    spent = []
    for part in (dual_ascent.SEEN_OF_TOL, -1.0):
        monkeypatch.setattr(dual_ascent, "SEEN_OF_TOL", part)
        results = [
            minimize(text(), method="dual-ascent", tol=tol, measure_every=0) for tol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-8)
        ]
        assert all(result.success for result in results)
        spent.append(sum(result.n_passes for result in results))
    assert spent[0] < spent[1]


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
def test_the_gap_that_ends_a_run_is_that_of_its_point_and_its_bound(loss, has_intercept):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((300, 12)), rng.standard_normal(300)
    y = np.where(y > 0.0, 1.0, -1.0) if loss == "hinge" else y
    problem = Problem.linear(X, y, loss=loss, alpha=0.01, fit_intercept=has_intercept)
    result = minimize(problem, method=DualAscent(), tol=1e-9)
    there = evaluate(problem, result.x)
    least = minimize(problem, method="interior-point", tol=1e-13).fun
    assert result.success
    assert result.nfev == 0  # the end of the last round is the check
    np.testing.assert_allclose(result.fun, there.objective, rtol=1e-13)
    for z in result.x + 0.1 * rng.standard_normal((20, problem.dim)):  # jac is a subgradient there
        assert evaluate(problem, z).objective >= result.fun + result.jac @ (z - result.x) - 1e-13
    assert there.objective - least <= result.optimality + 1e-13
    assert measures_within(problem, result.x, result.fun - 2e-9, 1e-9) is None
    assert measures_within(problem, result.x, result.fun, 1e-9).optimality > 0.0  # rounding errors of F


def test_bounds_are_those_of_the_w_that_the_slopes_make():
    problem = text()
    state = DualAscent().init(problem, np.zeros(problem.dim), 1e-5)
    while state.n_rounds < 2:
        state = DualAscent().run_pass(problem, state, np.arange(problem.n_rows))
    made = combination(problem, -problem.weights * state.slopes) / problem.term.ridge
    np.testing.assert_array_equal(state.w, made)
    assert state.bound == slopes_bound(problem, state.slopes, made)


@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive"])
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.usefixtures("kernels_as_python")
def test_the_factor_of_a_point_is_the_best_one(loss, has_intercept):
    rng = np.random.default_rng(3)
    X, targets = rng.standard_normal((60, 90)), rng.standard_normal(60)
    y = np.sign(targets) if loss == "hinge" else targets
    more = {"offset": 0.2 * rng.standard_normal(60), "sample_weight": rng.random(60), "fit_intercept": has_intercept}
    problem = Problem.linear(X, y, loss=loss, alpha=1e-3, **more)
    for scale in (1e-3, 0.03, 0.3, 3.0):
        w = scale * rng.standard_normal(problem.dim)
        u = predictions(problem, w) + problem.offsets
        end, there = with_best_factor(problem, w, u)
        np.testing.assert_allclose(there, predictions(problem, end) + problem.offsets, rtol=1e-9, atol=1e-9)
        found = value_at(problem, end, there)
        for t in np.append(np.linspace(0.0, 3.0, 300), 1.0 + np.linspace(-1e-3, 1e-3, 21)):
            scaled = np.append(t * w[:90], w[90:])
            at_scaled = X @ scaled[:90] + scaled[90:].sum() + problem.offsets
            assert found <= value_at(problem, scaled, at_scaled) + 1e-12


@pytest.mark.usefixtures("kernels_as_python")
def test_rows_that_are_nearly_separable_cost_little_at_the_best_factor():
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(300, 900, 0.05, random_state=rng, data_rvs=rng.standard_normal))
    problem = Problem.linear(X, np.sign(X @ rng.standard_normal(900) + 1e-9), loss="hinge", alpha=1e-5)
    result = minimize(problem, method="dual-ascent", tol=1e-5, measure_every=0)
    for t in (0.99, 0.999, 0.9999, 1.0001, 1.001, 1.01):
        assert result.fun <= evaluate(problem, t * result.x).objective


def few_rows(loss, has_intercept, form=np.asarray, seed=0):
    """Return fewer rows than columns, two of them the same and one of weight 0, in single precision."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((16, 30)).astype(np.float32)
    X[5] = X[4]
    y = X @ rng.standard_normal(30)
    y = np.where(y > 0.0, 1.0, -1.0) if loss == "hinge" else y
    weights = np.append(0.0, rng.integers(1, 3, 15))
    return Problem.linear(form(X), y, loss=loss, alpha=0.1, fit_intercept=has_intercept, sample_weight=weights)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "absolute", "epsilon-insensitive"])
@pytest.mark.usefixtures("kernels_as_python")
def test_rows_at_corners_are_solved_for(loss, has_intercept, form):
    problem = few_rows(loss, has_intercept, form)
    corners = [c for c in loss_of(problem).corners(problem.targets) if np.any(np.less(c[0], c[1]))]
    by_turns = np.argsort(np.argsort(problem.targets)) % len(corners)  # the corner that a row is at, where there are two
    low, high, point = (np.choose(by_turns, [np.broadcast_to(c[j], problem.n_rows) for c in corners]) for j in range(3))
    slopes = 0.5 * (low + high)
    w = point_of(problem, slopes, 0.0)
    found, w, u = solved_at_corners(problem, slopes, w, predictions(problem, w), 1e9)
    assert np.all((low <= found) & (found <= high))
    np.testing.assert_allclose(w, point_of(problem, found, w[-1]), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(u, predictions(problem, w), rtol=1e-9, atol=1e-12)
    inside = (low < found) & (found < high) & (problem.weights > 0.0)
    assert inside.any()
    np.testing.assert_allclose(u[inside], point[inside], atol=1e-9)
    if has_intercept:
        assert abs(problem.weights @ found) <= 1e-12
    unchanged = solved_at_corners(problem, slopes, w, u, 10.0)  # there is no time for a factor
    assert unchanged[0] is slopes
    assert unchanged[1] is w


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "absolute", "quantile", "epsilon-insensitive"])
@pytest.mark.usefixtures("kernels_as_python")
def test_few_rows_end_exactly_and_their_weights_are_repetitions(loss, has_intercept):
    for seed in range(3):
        problem = few_rows(loss, has_intercept, seed=seed)
        times = np.rint(problem.weights / problem.weights[1:].min()).astype(int)
        X, y = problem.rows.values.repeat(times, axis=0), problem.targets.repeat(times)
        repeated = Problem.linear(X, y, loss=loss, alpha=0.1, fit_intercept=has_intercept)
        ours, theirs = (minimize(p, method="dual-ascent", tol=1e-6, measure_every=0) for p in (problem, repeated))
        assert ours.success
        assert ours.optimality <= 1e-12
        assert problem.n_rows < repeated.n_rows <= repeated.dim
        np.testing.assert_allclose(ours.x[:30], theirs.x[:30], atol=1e-8)


def test_products_on_faces_count_as_parts_of_a_round(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 60))
    problem = Problem.linear(X, X[:, 0] + rng.standard_normal(400) > 0.0, loss="hinge", alpha=1e-4)
    method, parts = DualAscent(), {}
    monkeypatch.setattr(dual_ascent, "NUMBERS_OF_A_PASS", 0.0)
    for many in (1, 10**9):
        monkeypatch.setattr(dual_ascent, "OF_PRODUCTS", many)
        state = method.init(problem, np.zeros(problem.dim), 1e-9)
        while state.face.size == 0:
            state = method.run_pass(problem, state, np.array([0]))
        size, before = state.face.size, state.n_parts
        state, is_over = dual_ascent._after_products(problem, state)
        while not is_over:
            state, is_over = dual_ascent._after_products(problem, state)
        parts[many] = state.n_parts - before
        assert parts[many] == dual_ascent.PARTS * state.cg.n_products * size // (many * problem.n_rows)
    assert parts[1] > 0
    assert parts[10**9] == 0
