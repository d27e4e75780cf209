"""What "auto" takes for smooth losses on sets: by forecasts, and by how the first method gets on."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, NonNegative, Simplex
from finitesum.methods import as_method
from finitesum.methods.auto import LATE, choose
from finitesum.methods.base import Alternative, Choice
from finitesum.methods.forecasts import Counts
from finitesum.methods.set_forecasts import spread_of_eigenvalues
from finitesum.running import handover
from finitesum.running.results import StopReason
from finitesum.running.run_memory import Loop


def problem_of(n, d, constraint, *, density=None, alpha=1e-2, loss="logistic", spread=0.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-spread, 0.0, d)
    if density is not None:
        X = scipy.sparse.csr_array(scipy.sparse.random(n, d, density, random_state=3))
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0.0, 1, -1)
    return Problem.linear(X, y, loss=loss, alpha=alpha, constraint=constraint)


@pytest.mark.parametrize("constraint", [L2Ball(1.0), Simplex(1.0), HalfSpace(np.ones(2000), -1.0)], ids=type)
def test_gradients_come_first_where_columns_are_many(constraint):
    choice = choose(problem_of(60, 2000, constraint, density=0.02), tol=1e-6)
    assert choice.method.name == "afg"
    assert [other.method.name for other in choice.others][:1] != ["afg"]


def test_a_hessian_that_does_not_fit_leaves_gradients_alone():
    choice = choose(problem_of(50, 16_000, L2Ball(1.0), density=0.002), tol=1e-6)
    assert choice.method.name == "afg"
    assert not choice.others


@pytest.mark.parametrize("constraint", [Box(-0.1, 0.2), NonNegative()], ids=type)
def test_columns_with_intervals_of_their_own_go_to_coordinate_descent(constraint):
    assert choose(problem_of(80, 400, constraint)).method.name == "coordinate-descent"
    assert choose(problem_of(6000, 40, constraint)).method.name == "newton"


def test_newton_comes_first_where_rows_are_many_and_columns_are_few():
    assert choose(problem_of(4000, 30, L2Ball(1.0), alpha=0.0)).method.name == "newton"


def test_a_run_that_gradients_begin_is_ended_by_newton_where_they_are_slow():
    problem = problem_of(200, 20, L2Ball(50.0), alpha=1e-6, spread=1.0)
    others = (Alternative(as_method("newton"), 1e-4),)
    result = minimize(problem, method=Choice(as_method("afg"), "by a forecast", 1e-5, 0.3, others), tol=1e-8)
    assert result.success
    assert result.method.name == "newton"
    assert result.choice == "by a forecast; afg did worse than that, and newton went on from its point"


def test_gradients_that_stall_are_followed_by_newton_whatever_it_takes():
    others = (Alternative(as_method("newton"), 1e6),)
    problem, choice = problem_of(50, 8, L2Ball(1.0)), Choice(as_method("afg"), "", 1.0, 0.3, others)
    counts = Counts(120.0, 0.0, 100.0)
    assert handover.is_changed(choice, Loop(k=100), counts, problem, 1e-8, StopReason.STALLED)
    assert not handover.is_changed(choice, Loop(k=100), counts, problem, 1e-8, None)


def test_what_counts_as_late_is_what_the_driver_takes_for_it():
    assert LATE == handover.LATE


def outputs_of(n, d, n_outputs, constraint, *, shift=0.0, alpha=1e-2, loss="multinomial"):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, d)) + shift
    scores = 0.3 * (X - shift) @ rng.standard_normal((d, n_outputs)) + rng.gumbel(size=(n, n_outputs))
    y = scores.argmax(axis=1) if loss == "multinomial" else scores
    return Problem.linear(X, y, loss=loss, alpha=alpha, constraint=constraint)


@pytest.mark.parametrize("constraint", [pytest.param(NonNegative(), marks=pytest.mark.slow), Box(-0.1, 0.1)], ids=type)
def test_several_outputs_begin_with_gradients_where_columns_are_alike(constraint):
    alike = choose(outputs_of(2000, 300, 6, constraint), tol=1e-4)
    assert [alike.method.name, *[other.method.name for other in alike.others]] == ["afg", "multinomial-working-set"]
    far = choose(outputs_of(2000, 300, 6, constraint, shift=3.0, alpha=0.0), tol=1e-8)  # nearly one direction
    assert far.method.name == "multinomial-working-set"
    assert "afg" in [other.method.name for other in far.others]


def test_several_outputs_on_sets_with_many_zeros_go_to_working_sets():
    for constraint in (L1Ball(1.0), Simplex(1.0)):
        choice = choose(outputs_of(500, 40, 4, constraint, shift=2.0), tol=1e-8)
        assert choice.method.name == "multinomial-working-set"
        assert choice.others[0].method.name == "newton"
        assert choose(outputs_of(500, 40, 4, constraint), tol=1e-8, begun="afg").method.name == "multinomial-working-set"
    assert choose(outputs_of(300, 40, 4, L2Ball(1.0), shift=2.0), tol=1e-8).method.name == "newton"
    many = choose(outputs_of(100, 800, 4, L2Ball(1.0)), tol=1e-4)  # too many for Newton's matrix, and at no bound
    assert (many.method.name, many.others) == ("afg", ())


@pytest.mark.parametrize("loss", [pytest.param("multinomial", marks=pytest.mark.slow), "squared"])
def test_what_auto_begins_with_on_several_outputs_ends_at_the_same_minimum(loss):
    for constraint, shift in ((NonNegative(), 0.0), (L1Ball(1.0), 2.0), (Box(-0.05, 0.1), 1.0)):
        problem = outputs_of(150, 120, 5, constraint, shift=shift, alpha=1e-3, loss=loss)
        result = minimize(problem, tol=1e-8)
        assert result.success, result.message
        known = minimize(problem, method="multinomial-working-set", tol=1e-9)
        assert result.fun == pytest.approx(known.fun, rel=1e-9)


def test_the_spread_of_eigenvalues_is_about_that_of_numpy():
    for shift in (0.0, 2.0):
        problem = outputs_of(400, 30, 3, NonNegative(), shift=shift)
        X = problem.rows.values
        exact = np.linalg.eigvalsh(X.T @ X / 400)
        assert spread_of_eigenvalues(problem) == pytest.approx(exact[-1] / exact.mean(), rel=0.3)
    assert spread_of_eigenvalues(Problem.linear(np.zeros((4, 3)), [0, 1, 2, 0], loss="multinomial")) == 1.0


def test_gradients_that_slow_down_are_judged_by_their_later_passes():
    problem = problem_of(50, 8, L2Ball(1.0))
    counts = Counts(64.0, 0.0, 64.0)
    spent = handover.price("afg", problem, counts)
    choice = Choice(as_method("afg"), "", 0.1 * spent, 1.0, (Alternative(as_method("newton"), 2.0 * spent),))
    steady = Loop(k=64, best_estimate=1e-4, middle_k=64, middle_estimate=1e-4, early_k=32, early_estimate=1e-2)
    slow = Loop(k=64, best_estimate=1e-4, middle_k=64, middle_estimate=1e-4, early_k=32, early_estimate=2e-4)
    assert not handover.is_changed(choice, steady, counts, problem, 1e-8, None)
    assert handover.is_changed(choice, slow, counts, problem, 1e-8, None)
    assert handover.to_go_as_of_late(Loop(k=4, best_estimate=1e-4), 1e-8) == 0.0
    loop = Loop()
    for k in range(1, 40):
        loop.k = k
        loop.improves(1.0 / k)
    assert (loop.early_k, loop.early_estimate, loop.middle_k) == (16, 1.0 / 16.0, 32)
    loop.change(39.0, 0.0)
    assert (loop.early_k, loop.middle_k) == (0, 0)
