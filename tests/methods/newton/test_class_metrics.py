"""The metrics of L-BFGS for several classes, when they are made, and the length of its steps."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import Problem, minimize
from finitesum.evaluation import outputs
from finitesum.methods import MultinomialLBFGS
from finitesum.methods.newton import class_factor, kronecker_factors, multinomial_lbfgs
from finitesum.methods.newton.class_factor import ClassFactor, rows_wanted, steps_left
from finitesum.methods.subproblems.line_search import Trial, between

NO_ORDER = np.zeros(0, dtype=np.int64)


def labels(X, n_classes, rng, scale=4.0):
    scores = X @ rng.standard_normal((X.shape[1], n_classes))
    return np.argmax(scale * scores / scores.std() + rng.gumbel(size=scores.shape), axis=1)


def separated(n=200, d=100, n_classes=10, seed=0):
    """Return rows with common factors that nearly separate classes: whole steps go far beyond the minimum."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1) + rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
    X /= X.std(axis=0)
    return X, labels(X, n_classes, rng)


@pytest.mark.parametrize("preconditioner", ["kronecker", "diagonal", "none", "low-rank"])
@pytest.mark.parametrize("is_single", [False, True])
def test_no_step_raises_the_objective(preconditioner, is_single, monkeypatch):
    monkeypatch.setattr(outputs, "has_single_rows", lambda problem: is_single)
    X, y = separated()
    problem = Problem.linear(X, y, loss="multinomial", alpha=1e-6, fit_intercept=True)
    method = MultinomialLBFGS(preconditioner)
    state = method.init(problem, np.zeros(problem.dim), 1e-8)
    rounding = problem.n_rows * np.finfo(np.float32 if is_single else np.float64).eps
    for _ in range(25):
        before = state.objective
        state = method.run_pass(problem, state, NO_ORDER)
        assert state.objective <= before * (1.0 + rounding)
    assert state.objective < 0.6 * np.log(10)


def test_a_search_ends_where_f_has_come_down_although_slopes_beyond_the_minimum_are_gentle():
    X, y = np.append(np.ones(60), -8.0)[:, None], np.append(np.zeros(60, dtype=int), 0)  # the last row loses what 60 gain
    y[0] = 1
    problem = Problem.linear(X, y, loss="multinomial", alpha=1e-6)
    method = MultinomialLBFGS("none")
    state = method.init(problem, np.zeros(problem.dim))
    direction = -100.0 * state.gradient
    first = float(state.gradient @ direction)
    whole = multinomial_lbfgs.state_at(problem, state._replace(x=state.x + direction))
    assert whole.objective > 2.0 * state.objective
    assert abs(float(whole.gradient @ direction)) < 0.8 * -first
    t = multinomial_lbfgs._length(problem, state, whole, direction, first)
    end = multinomial_lbfgs.state_at(problem, state._replace(x=state.x + t * direction))
    assert 0.0 < t < 0.5
    assert end.objective < state.objective
    assert abs(float(end.gradient @ direction)) <= 0.5 * -first


def test_a_trial_between_two_is_the_minimum_of_their_cubic():
    low, high = (Trial(t, t**3 - 3.0 * t, 3.0 * t**2 - 3.0) for t in (0.0, 2.0))
    assert between(low, high) == pytest.approx(1.0)
    assert between(low, high, rounding=10.0) == pytest.approx(0.5)  # where a line through the slopes is 0
    assert between(Trial(0.0, 1.0, -1.0), Trial(1.0, np.inf, np.nan)) == pytest.approx(0.1)
    assert 0.0 < between(Trial(0.0, 1.0, -1e-9), Trial(1.0, 1e9, 1e9)) <= 0.05 + 1e-9


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array], ids=["dense", "csr"])
def test_columns_absent_from_the_chosen_rows_have_the_curvature_of_all_rows(make, monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 500, 6  # 56 rows are chosen
    X, weights = rng.standard_normal((n, d)), rng.integers(1, 4, n).astype(float)
    chosen = np.linspace(0, n - 1, kronecker_factors.ROWS_FOR_EACH * (d + 1)).astype(int)
    X[chosen, 2] = 0.0
    problem = Problem.linear(
        make(X), rng.integers(0, 3, n), loss="multinomial", alpha=1e-9, fit_intercept=True, sample_weight=weights
    )
    rare = np.zeros((3, d + 1))
    rare[0, 2], rare[1, 2] = 1.0, -1.0
    hessian = outputs.full_hessian(problem, np.full((n, 3), 1 / 3)).reshape(3, d + 1, 3, d + 1)
    monkeypatch.setattr(kronecker_factors, "DIAGONAL_ROWS", chosen.size)
    for factors in (kronecker_factors.whole_factors, kronecker_factors.diagonal_factors):
        known = factors(problem, np.zeros((n, 3)))
        inverse = kronecker_factors.solved(known, rare.reshape(-1)).reshape(3, d + 1)
        expected = 1.0 / (hessian[0, 2, 0, 2] - hessian[0, 2, 1, 2])
        assert inverse[0, 2] == pytest.approx(expected, rel=0.3)


def test_products_of_low_rank_wait_until_many_steps_are_left():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 900)) * np.arange(1, 901) ** -0.8
    problem = Problem.linear(X, labels(X, 4, rng), loss="multinomial", alpha=1e-4, fit_intercept=True)
    assert multinomial_lbfgs._kind_at(problem, 0) == "low-rank"
    method = MultinomialLBFGS()
    state, made = method.init(problem, np.zeros(problem.dim), 1e-10), []
    for _ in range(40):
        left = steps_left(state.factor, state.tol)
        before, state = state, method.run_pass(problem, state, NO_ORDER)
        if state.kronecker.values.size and not before.kronecker.values.size:
            made.append((before.n_steps, left))
    assert len(made) == 1
    assert made[0][0] >= class_factor.LEAST_STEPS
    asked = MultinomialLBFGS("low-rank")
    assert asked.directed(problem, asked.init(problem, np.zeros(problem.dim)))[0].kronecker.values.size
    loose = minimize(problem, method=method, tol=0.3)
    assert loose.success
    assert not loose.state.kronecker.values.size


def test_a_hessian_waits_until_a_run_has_taken_a_part_of_its_time():
    X, y = separated(n=600, d=40)
    problem = Problem.linear(X, y, loss="multinomial", alpha=1e-6)
    slow = ClassFactor(sizes=np.geomspace(1.0, 0.99, class_factor.MOST_STEPS + 1))
    assert rows_wanted(problem, slow, 1e-10, 1.0, is_single=False) == 0
    assert rows_wanted(problem, slow, 1e-10, 1e6, is_single=False) > 0
    assert steps_left(ClassFactor(), 1e-10) == 0.0


def test_one_product_for_all_pairs_of_classes_is_the_hessian_of_one_for_each(monkeypatch):
    rng = np.random.default_rng(1)
    X, y, weights = rng.standard_normal((60, 5)), rng.integers(0, 4, 60), rng.integers(0, 3, 60).astype(float)
    problem = Problem.linear(X, y, loss="multinomial", alpha=0.1, fit_intercept=True, sample_weight=weights)
    chances = outputs.loss_of(problem).curvatures(outputs.scores_at(problem, 3.0 * rng.standard_normal(problem.dim)))
    together = outputs.full_hessian(problem, chances)
    np.testing.assert_array_equal(together, together.T)
    monkeypatch.setattr(outputs, "MOST_JOINT", 0)
    np.testing.assert_allclose(together, outputs.full_hessian(problem, chances), rtol=1e-12, atol=1e-15)


def test_rows_chosen_stand_for_columns_far_from_0():
    X = np.random.default_rng(0).standard_normal((3000, 4)) + 100.0
    problem = Problem.linear(X, np.arange(3000) % 3, loss="multinomial", alpha=1e-3, fit_intercept=True)
    chosen = np.linspace(0, 2999, 40).astype(int)
    assert not kronecker_factors._left_out(problem, chosen).any()


def test_a_step_that_leads_nowhere_is_not_tried_again_with_the_same_factors():
    X, y = separated()
    problem = Problem.linear(X, y, loss="multinomial", alpha=1e-3)
    method = MultinomialLBFGS("hessian")
    state = method.init(problem, np.zeros(problem.dim), 1e-6)
    state, direction = method.directed(problem, state)
    assert state.factor.lower.size
    after = multinomial_lbfgs.stepped(problem, state, -direction)  # uphill, as after rounding errors of a factor
    np.testing.assert_array_equal(after.x, state.x)
    assert after.factor.lower.size == 0
    assert method.run_pass(problem, after._replace(n_steps=9), NO_ORDER).objective < state.objective
