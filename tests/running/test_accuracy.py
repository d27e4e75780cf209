"""What is small enough: parts of a standard error, and of 1 or of the decisions."""

import numpy as np
import pytest

from finitesum.problems.linear import Problem
from finitesum.running.accuracy import decrement_of, is_near, size_of_decisions


def of_labels(y, loss):
    X = np.column_stack([np.ones(4), np.arange(4.0)])
    return Problem.linear(
        X, y, loss=loss, alpha=1.0, sample_weight=[1.0, 1.0, 2.0, 0.0], offset=50.0 * np.ones(np.shape(y))
    )


PROBLEMS = [of_labels([1.0, -1.0, 1.0, -1.0], "logistic"), of_labels(np.ones((4, 2)), "squared")]


@pytest.mark.parametrize("problem", PROBLEMS, ids=["one output", "two"])
@pytest.mark.parametrize(("at", "allowed"), [(0.0, 1e-3), (0.5, 1e-3), (3.0, 3e-3), (1e4, 10.0)])
def test_decisions_may_move_by_a_part_of_1_or_of_their_size(problem, at, allowed):
    """Their size is 1 for w = (1, 0): rows of weight 0 count for nothing, offsets neither."""
    x, step = np.zeros(problem.dim), np.zeros(problem.dim)
    x[0], step[0] = at, 0.999 * allowed
    assert is_near(problem, x, step, 1e-3)
    assert not is_near(problem, x, 1.01 * step, 1e-3)


def test_sizes_of_several_outputs_are_those_of_all_of_them():
    decisions = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [9.0, 9.0]])
    assert size_of_decisions(PROBLEMS[1], decisions) == pytest.approx(2.5)
    assert size_of_decisions(PROBLEMS[0], decisions[:, 0]) == pytest.approx(1.5)


@pytest.mark.parametrize(("total", "expected"), [(100.0, 1e-4), (0.5, 1e-3 / np.sqrt(3.0))])
def test_rows_of_small_weights_count_as_one(total, expected):
    assert decrement_of(PROBLEMS[0], total, 1e-3) == pytest.approx(expected)


def test_steps_that_are_not_finite_are_not_small():
    problem = PROBLEMS[0]
    assert not is_near(problem, np.ones(problem.dim), np.full(problem.dim, np.nan), 1e-3)
