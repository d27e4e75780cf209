"""Lazy Newton: its oracle step by step, what it promises of any problem, its choices, and `auto`."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import make_pair
from oracles import lazy_newton as oracle

from finitesum import Problem, minimize
from finitesum.constraints import L1Ball
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.lines import line_through, objective, slope_along
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_sums import Majorize, loss_sums
from finitesum.evaluation.samples import sample_of
from finitesum.methods.auto import choose
from finitesum.methods.cost_model import Costs, costs_of, hessian_sample, is_sample_too_small
from finitesum.methods.newton import stale_hessian
from finitesum.methods.newton.lazy_newton import LazyNewton, _is_worth_reading_again, refactored
from finitesum.methods.newton.stale_hessian import enlarged, moved_fraction, no_hessian, refreshed
from finitesum.methods.newton.subsampling import first_rows
from finitesum.methods.subproblems.lbfgs import no_pairs, solve, with_pair

LOSSES = ("logistic", "squared", "squared-hinge", "huber", "poisson", "smoothed-hinge")


@pytest.fixture(autouse=True)
def _every_row_is_thought_about(monkeypatch):
    """Choose which rows of a Hessian to replace, though these problems are so small that all of them could be."""
    monkeypatch.setattr(stale_hessian, "NO_THOUGHT", 0.0)


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize(
    ("form", "loss", "more"),
    [
        ("dense", "logistic", {}),
        ("csr32", "logistic", {"weighted": True, "intercept": True, "alpha": 1e-3, "far": 5.0}),  # a step is cut short
        ("csr32", "logistic", {"weighted": True, "intercept": True}),
        ("csr64", "poisson", {"alpha": 0.3}),
        ("dense", "squared-hinge", {"intercept": True}),
        ("csr32", "huber", {}),
        ("dense", "smoothed-hinge", {}),
        ("dense", "squared", {"weighted": True}),
    ],
)
@pytest.mark.parametrize("no_thought", [0.0, stale_hessian.NO_THOUGHT])
def test_each_step_is_the_oracle_s(form, loss, more, no_thought, monkeypatch):
    monkeypatch.setattr(stale_hessian, "NO_THOUGHT", no_thought)
    start = 2.0 * more.get("far", 1.0)
    problem, F = make_pair(form, loss, n=120, batch_size=7, **{k: more[k] for k in more if k != "far"})
    method = LazyNewton(first_rows=problem.n_rows)
    x0 = start * np.random.default_rng(1).standard_normal(problem.dim) * (loss != "poisson")
    state = method.init(problem, x0, 1e-10)
    n_steps = 0
    for expected, n_refreshed in oracle.lazy_newton(F, loss, x0, 9, costs_of(problem), no_thought=no_thought):
        state = method.run_pass(problem, state, np.arange(problem.n_components))
        assert state.optimality == pytest.approx(F.optimality(state.x), rel=1e-6)
        np.testing.assert_allclose(state.x, expected, rtol=1e-7, atol=1e-8)
        assert state.n_hessians * 7 == pytest.approx(n_refreshed, abs=0.5)
        n_steps += 1
        if state.optimality < 1e-7:  # beyond, rounding errors choose what is refreshed
            break
    assert n_steps >= 2
    assert state.optimality < 1e-3


def wild_problem(seed):
    """Return a problem of any conditioning: scales, weights and penalties over decades, collinear, separable, wide."""
    rng = np.random.default_rng(seed)
    n, d = int(10 ** rng.uniform(1, 3)), int(10 ** rng.uniform(0, 1.6))
    if rng.random() < 0.2:
        n, d = min(n, 40), int(min(n, 40) * rng.uniform(1, 3)) + 1
    X = rng.standard_normal((n, d))
    kind = rng.integers(4)
    if kind == 1:
        X = X @ rng.standard_normal((d, d)) / np.sqrt(d)
    if kind == 2 and d > 1:
        X[:, 1:] = X[:, :1] + 10.0 ** rng.uniform(-8, -1) * X[:, 1:]
    if kind == 3:
        X = rng.standard_t(2, size=(n, d))
    signal = X @ rng.standard_normal(d) / np.sqrt(d) * rng.choice([0.3, 3.0])
    noise = rng.choice([0.0, 0.5, 2.0])
    loss = str(rng.choice(["logistic", "logistic", "squared", "huber"]))
    y = signal + noise * rng.standard_normal(n)
    if loss == "logistic":
        y = np.where(y > 0, 1.0, -1.0)
        y[0] = -y[1]
    scale = 10.0 ** rng.uniform(-6, 6, d) if rng.random() < 0.5 else np.full(d, 10.0 ** rng.uniform(-6, 6))
    weights = 10.0 ** rng.uniform(-3, 3, n) if rng.random() < 0.3 else None
    X = sp.csr_array(X * scale) if rng.random() < 0.5 else X * scale
    alpha = 10.0 ** rng.uniform(-12, 2)
    intercept = bool(rng.random() < 0.5)
    return Problem.linear(X, y, loss=loss, alpha=alpha, fit_intercept=intercept, sample_weight=weights)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_ends_at_tol_or_where_rounding_errors_end_it(seed):
    problem = wild_problem(seed)
    steepness = np.linalg.norm(evaluate(problem, np.zeros(problem.dim)).gradient)
    result = minimize(problem, method="lazy-newton", tol=1e-8, max_iter=500, measure_every=0)
    assert result.success or result.optimality <= 1e-10 * steepness, result.message
    exact = evaluate(problem, result.x).optimality
    assert exact == pytest.approx(result.optimality, rel=1e-2, abs=1e-12 * steepness)
    if not result.success:
        assert "rounding" in result.message or "ill-conditioned" in result.message


@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_two_threads_agree_with_one_and_with_themselves(form, monkeypatch):
    monkeypatch.setattr("finitesum.core.threads.NUMBERS_OF_A_THREAD", 10_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 6)) * (rng.random((40_000, 6)) < 0.6)
    y = np.where(X @ np.arange(1.0, 7.0) + rng.standard_normal(40_000) > 0, 1.0, -1.0)
    problem = Problem.linear(sp.csr_array(X) if form == "csr32" else X, y, alpha=1e-4)
    one, two, again = (
        minimize(problem, method="lazy-newton", options={"n_threads": k}, tol=1e-11, measure_every=0) for k in (1, 2, 2)
    )
    assert two.x.tobytes() == again.x.tobytes()
    np.testing.assert_allclose(one.x, two.x, rtol=0, atol=1e-8)


def test_samples_grow_and_cost_less_than_passes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 5))
    y = np.where(X.sum(axis=1) + rng.standard_normal(60_000) > 0, 1.0, -1.0)
    problem = Problem.linear(X, y, alpha=1e-5).batched(58)
    method = LazyNewton()
    state = method.init(problem, np.zeros(5), 1e-10)
    order = np.random.default_rng(0).permutation(problem.n_components)
    sizes = []
    while state.n_sampled < problem.n_components:
        assert math.isnan(method.estimate(problem, state))
        assert method.exact_measures(problem, state) is None
        state = method.run_pass(problem, state, order)
        sizes.append(state.n_sampled)
    assert len(sizes) > len(set(sizes)) > 1  # a pass is a sample, or a step on one
    assert state.n_gradients < 2.5 * problem.n_components
    assert state.optimality < 0.05 * evaluate(problem, np.zeros(5)).optimality
    np.testing.assert_allclose(state.optimality, evaluate(problem, state.x).optimality, rtol=1e-10)


@pytest.mark.parametrize(
    ("n", "d", "first"), [(5_000, 3, 5_000), (10_000, 3, 900), (40_000, 3, 2_000), (10_000, 300, 1_800)]
)
def test_first_samples_leave_room_for_a_second_one_where_they_can_or_are_everything(n, d, first):
    problem = Problem.linear(sp.csr_array((n, d)), np.where(np.arange(n) % 2, 1.0, -1.0))
    assert first_rows(problem) == first


def test_the_check_of_the_result_is_not_charged_twice():
    problem, _ = make_pair(n=60)
    result = minimize(problem, method="lazy-newton", tol=1e-9)
    assert result.n_passes == result.state.n_gradients / result.state.n_sampled
    assert result.optimality == result.state.optimality


@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_the_stale_hessian_is_the_sum_that_it_says(form):
    problem, _ = make_pair(form, n=50, weighted=True, intercept=True, batch_size=5)
    rng = np.random.default_rng(0)
    memory = no_hessian(problem)._replace(members=np.arange(problem.n_components), weight=1.0)
    for _ in range(4):
        now = rng.random(problem.n_rows).astype(np.float32)
        memory, n_replaced = refreshed(problem, memory, now, n_read=50, digits=8.0)
        expected = hessian_of(problem, memory.curvatures.astype(float)) - np.diag(
            [problem.penalty.ridge()] * problem.rows.n_columns + [0.0]
        )
        np.testing.assert_allclose(np.tril(memory.sums), np.tril(expected), atol=1e-14)
        assert 0 < n_replaced <= 50


def test_pairs_make_the_bfgs_inverse():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    matrix, start = root @ root.T + np.eye(6), np.diag(rng.uniform(0.5, 2.0, 6))
    known, pairs = no_pairs(6), []
    for _ in range(4):
        step = rng.standard_normal(6)
        known = with_pair(known, step, matrix @ step)
        pairs.append((step, matrix @ step))
    right = rng.standard_normal(6)
    expected = oracle.bfgs_inverse(start, pairs) @ right
    np.testing.assert_allclose(solve(known, lambda v: start @ v, right), expected, rtol=1e-11)
    assert with_pair(known, np.ones(6), -np.ones(6)) is known  # no curvature


def test_sums_over_some_components():
    problem, F = make_pair("csr32", n=50, weighted=True, batch_size=4)
    x, direction = np.random.default_rng(0).standard_normal((2, problem.dim))
    some = np.array([1, 3, 12])
    rows = np.concatenate([F.blocks[j] for j in some])
    slopes = F.p[rows] * F.d1(F.predictions(x, rows), F.y[rows])
    curvatures = np.zeros(50, dtype=np.float32)
    sums = loss_sums(problem, x, some, curvatures=curvatures)
    gradient, squares, loss = sums.gradient, sums.squared_slopes, sums.value
    np.testing.assert_allclose(gradient, F.Z[rows].T @ slopes, atol=1e-14)
    assert squares == pytest.approx(slopes @ F.d1(F.predictions(x, rows), F.y[rows]))
    np.testing.assert_allclose(curvatures[rows], F.d2(F.predictions(x, rows), F.y[rows]), rtol=1e-6)
    assert not np.delete(curvatures, rows).any()
    first = np.empty(50)
    everything = loss_sums(problem, x, curvatures=curvatures, slopes=first)
    np.testing.assert_allclose(first, F.d1(F.predictions(x), F.y), rtol=1e-12)
    assert everything.value + problem.term.value(x) == pytest.approx(F.objective(x), rel=1e-13)
    others = loss_sums(problem, x, np.delete(np.arange(problem.n_components), some), curvatures=curvatures)
    assert loss + others.value == pytest.approx(everything.value, rel=1e-13)
    line = line_through(problem, x, direction, some)
    there = F.p[rows] * F.d1(F.predictions(x + 0.7 * direction, rows), F.y[rows])
    assert slope_along(problem, line, 0.7) == pytest.approx(there @ (F.Z[rows] @ direction), rel=1e-12)
    assert objective(problem, x) == pytest.approx(F.objective(x), rel=1e-13)


def test_costs_choose_samples_of_hessians():
    rng = np.random.default_rng(0)
    wide = Problem.linear(rng.standard_normal((20_000, 300)).astype(np.float32), np.sign(rng.standard_normal(20_000)))
    narrow = Problem.linear(rng.standard_normal((200, 3)), np.sign(rng.standard_normal(200)))
    assert 8 * 300 <= hessian_sample(wide) < 20_000
    assert hessian_sample(narrow) == 200
    costs = costs_of(wide)
    assert is_sample_too_small(20_000, 2_400, costs, 0.9, 10.0)
    assert not is_sample_too_small(20_000, 2_400, costs, 0.02, 10.0)


def test_hessians_of_data_with_rare_columns_take_all_rows():
    rng = np.random.default_rng(0)
    n = 40_000
    dense = np.round(rng.standard_normal((n, 20)), 2) * (rng.random((n, 20)) < 0.5)
    y = np.sign(rng.standard_normal(n))
    rare = dense.copy()
    rare[:, :2] *= rng.random((n, 2)) < 1e-3
    assert hessian_sample(Problem.linear(sp.csr_array(dense), y)) < n
    assert hessian_sample(Problem.linear(sp.csr_array(rare), y)) == n
    assert hessian_sample(Problem.linear(rare, y)) < n  # dense rows cost less


@pytest.mark.parametrize(("collinear", "least", "most"), [(False, 1e-10, 1e-6), (True, 0.0, 1e-14)])
def test_well_conditioned_hessians_of_wide_dense_rows_are_summed_in_single_precision(collinear, least, most):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 40))
    if collinear:
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    problem = Problem.linear(X, np.sign(X[:, 2] + rng.standard_normal(600)), alpha=1e-3, batch_size=1)
    method = LazyNewton(first_rows=600)
    order = np.arange(600)
    start = method.run_pass(problem, method.init(problem, np.zeros(40), 1e-10), order)
    state = method.run_pass(problem, start, order)
    exact = (X.T * (problem.weights * state.hessian.curvatures)) @ X
    error = np.abs(np.tril(state.hessian.sums - exact)).max() / np.abs(exact).max()
    assert least <= error <= most
    assert state.n_hessians == (1200 if collinear else 600)  # those that were not good enough are charged, too


def test_sums_in_single_precision_are_made_again_once_the_penalty_no_longer_hides_that_columns_are_collinear():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 40))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    y = np.sign(X[:, 2] + rng.standard_normal(600))
    strong, weak = (Problem.linear(X, y, alpha=alpha, batch_size=1) for alpha in (1.0, 1e-8))
    method, order = LazyNewton(first_rows=600), np.arange(600)
    state = method.run_pass(strong, method.init(strong, np.zeros(40), 1e-10), order)
    state = method.run_pass(strong, state, order)
    assert state.hessian.largest_float32.any()
    state = method.run_pass(weak, refactored(weak, state, sample_of(weak, order), 0.0), order)
    assert not state.hessian.largest_float32.any()
    exact = (X.T * (weak.weights * state.hessian.curvatures)) @ X
    np.testing.assert_allclose(np.tril(state.hessian.sums), np.tril(exact), rtol=0, atol=1e-14 * np.abs(exact).max())


def test_sums_in_single_precision_are_made_again_once_the_curvature_has_fallen_far_below_what_it_was():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 40))
    problem = Problem.linear(X, np.sign(X[:, 0]), alpha=1e-9, batch_size=1)
    method, order = LazyNewton(first_rows=4_000), np.arange(4_000)
    state = method.init(problem, np.zeros(40), 1e-10)
    largest, least = np.zeros(40), math.inf
    for _ in range(40):
        state = method.run_pass(problem, state, order)
        largest, least = np.maximum(largest, state.hessian.largest_float32), min(least, state.hessian.sums[0, 0])
        exact = (X.T * (problem.weights * state.hessian.curvatures)) @ X
        np.testing.assert_allclose(np.diagonal(state.hessian.sums), np.diagonal(exact), rtol=5e-3)
    assert least < 1e-4 * largest[0]  # the classes are separated


def test_a_pass_reads_again_only_where_it_would_find_something_else():
    signs, reals, counts = (make_pair("csr32", loss)[0] for loss in ("logistic", "huber", "poisson"))
    assert [_is_worth_reading_again(signs, majorize) for majorize in Majorize] == [True, True, False]
    assert [_is_worth_reading_again(reals, majorize) for majorize in Majorize] == [True, False, False]
    assert not any(_is_worth_reading_again(counts, majorize) for majorize in Majorize)


def test_steps_with_single_precision_are_the_oracle_s_to_that_precision():
    problem, F = make_pair("dense", "logistic", n=300, d=40)
    method = LazyNewton(first_rows=300)
    state = method.init(problem, np.zeros(40), 1e-10)
    for expected, n_refreshed in oracle.lazy_newton(F, "logistic", np.zeros(40), 7, costs_of(problem), no_thought=0.0):
        state = method.run_pass(problem, state, np.arange(300))
        np.testing.assert_allclose(state.x, expected, rtol=0, atol=1e-6)
        assert state.n_hessians == n_refreshed


def test_auto_says_what_and_why(capsys):
    problem, _ = make_pair(n=3000, d=60)
    result = minimize(problem, tol=1e-9, verbose=1)
    assert "3,000 rows x 60 columns: the fastest by its forecast" in result.choice
    assert result.choice in capsys.readouterr().err
    choice = choose(problem, n_threads=2)
    methods = (choice.method, *(other.method for other in choice.others))
    assert [method.n_threads for method in methods if method.name != "newton"] == [2, 2, 2]
    assert choose(make_pair(loss="squared-hinge")[0]).method.name == "newton"
    assert choose(make_pair(loss="squared-hinge", constraint="l1-ball")[0]).method.name == "newton"
    hinge, _ = make_pair(loss="hinge", constraint="l1-ball")
    assert choose(hinge).method.name != "lazy-newton"
    with pytest.raises(TypeError, match="auto has n_threads alone"):
        minimize(problem, options={"step_size": 0.1})


@pytest.mark.parametrize(("n_columns", "name"), [(400, "newton"), (700, "working-set-newton")])
def test_auto_seeks_zeros_on_sets_where_many_are_likely(n_columns, name):
    X = np.random.default_rng(0).standard_normal((30, n_columns))
    problem = Problem.linear(X, np.repeat([-1.0, 1.0], 15), alpha=1e-3, constraint=L1Ball(1.0))
    choice = choose(problem)
    assert name in (choice.method.name, *(other.method.name for other in choice.others))


@pytest.mark.parametrize("options", [{"hessian_rows": 0}, {"first_rows": 1.5}, {"n_threads": 0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must be"):
        LazyNewton(**options)


def sampled_memory(n=4000, d=20):
    """A problem, the memory of a Hessian over a quarter of its rows, and curvatures that moved a little since."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    problem = Problem.linear(X, np.sign(X[:, 0] + rng.standard_normal(n)), alpha=1e-3, batch_size=1)
    problem.derived["costs_of"] = Costs(20.0, 600.0, 1e4)
    held = np.full(n, 0.2, dtype=np.float32)
    memory = no_hessian(problem)._replace(members=np.arange(0, n, 4), weight=0.25)
    memory, n_replaced = refreshed(problem, memory, held, n_read=n, digits=6.0)
    assert n_replaced == n // 4
    now = held.copy()
    now[::40] = 0.1
    return problem, memory, now


def test_curvatures_wait_longer_while_steps_are_good():
    problem, memory, now = sampled_memory()
    assert moved_fraction(problem, memory, now) == pytest.approx(0.1 * 0.1 / (0.9 * 0.2 + 0.1 * 0.1), rel=1e-5)
    replaced = [refreshed(problem, memory, now, n_read=4000, digits=6.0, is_good=is_good)[1] for is_good in (False, True)]
    assert replaced == [100, 0]


def test_a_hessian_s_sample_grows_only_where_the_missing_rows_are_to_blame():
    problem, memory, now = sampled_memory()
    order = np.arange(problem.n_components)
    for curvatures, n_members in ((memory.curvatures, 4000), (0.2 * now, 1000)):
        after = enlarged(problem, memory, order, curvatures, ratio=0.9, digits=10.0)
        assert after.members.size == n_members


@pytest.mark.parametrize("name", ["lazy-newton", "working-set-newton"])
@pytest.mark.usefixtures("kernels_as_python")
def test_rows_that_all_start_on_a_linear_piece_of_their_loss(name):
    """The Hessian at 0 is 0, and with an l1 penalty no step comes of it: majorants make one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    y = X[:, 0] + rng.standard_normal(40) > 0.0
    problem = Problem.linear(X, y, loss="smoothed-hinge", alpha=0.02, l1_ratio=1.0)
    result = minimize(problem, method=name, tol=1e-9, max_iter=200)
    assert result.success, result.message
