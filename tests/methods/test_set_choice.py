"""What "auto" takes for smooth losses on sets: by forecasts, and by how the first method gets on."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L2Ball, NonNegative, Simplex
from finitesum.methods import as_method
from finitesum.methods.auto import LATE, choose
from finitesum.methods.base import Alternative, Choice
from finitesum.methods.forecasts import Counts
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
