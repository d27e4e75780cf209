"""Lagged updates equal the steps taken one by one."""

import numpy as np
import pytest

from finitesum import Problem
from finitesum.core.jit import kernel
from finitesum.methods.first_order.lagged_updates import TABLE_SIZE, LaggedSteps, lagged_steps, tabulate


@kernel
def _tabulate(lagged):
    tabulate(lagged)


@kernel
def _lagged_steps(linear_sum, lagged, value, drift, n_steps):
    return lagged_steps(linear_sum, lagged, 0, value, drift, n_steps)


def made_up(problem, step_size, value, drift, n_steps, table=40):
    decay = 1.0 - step_size * problem.penalty.ridge()
    lagged = LaggedSteps(step_size, decay, np.empty(table + 1), np.empty(table + 1), np.zeros(1, dtype=np.int64))
    _tabulate(lagged)
    return _lagged_steps(problem.view, lagged, value, drift, n_steps)


def one_by_one(problem, step_size, value, drift, n_steps):
    decay = 1.0 - step_size * problem.penalty.ridge()
    for _ in range(n_steps):
        value = problem.penalty.prox_at(decay * value - drift, step_size)
    return value


VALUES = (5.0, -3.0, 0.2, 0.0, 0.011, -1e-9)
DRIFTS = (0.0, 0.05, -0.05, 0.5, -0.3, 0.0101, -0.11)
COUNTS = (0, 1, 2, 3, 7, 40, 41, 250)


def worst_difference(l1, l2, step_size, table=40):
    problem = Problem.linear(np.eye(2), [0, 1], alpha=l1 + l2, l1_ratio=l1 / (l1 + l2) if l1 else 0.0)
    return max(
        abs(made_up(problem, step_size, *case, table) - one_by_one(problem, step_size, *case))
        for case in ((value, drift, n) for value in VALUES for drift in DRIFTS for n in COUNTS)
    )


@pytest.mark.parametrize("l1", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("l2", "step_size"), [(0.0, 0.3), (0.9, 0.01), (0.9, 0.5), (0.9, 1.0), (1.0, 1.0)])
def test_steps_that_are_made_up_for_are_the_steps(l1, l2, step_size):
    assert worst_difference(l1, l2, step_size) < 1e-12


@pytest.mark.parametrize("table", [1, 2, 13, 300])
def test_a_short_table_takes_several_turns(table):
    assert worst_difference(0.1, 0.9, 0.3, table) < 1e-12
    assert 1 <= TABLE_SIZE < 100_000


def test_without_l1_a_step_beyond_1_over_l2_is_made_up_for_too():
    assert worst_difference(0.0, 0.9, 1.9) < 1e-12


def test_with_l1_a_step_beyond_1_over_l2_is_made_up_for_too():
    assert worst_difference(0.1, 0.9, 1.9) < 1e-12
