"""Paths of several classes by Hessians, to parts of a standard error: against minimisers, and where a strength begins."""

import numpy as np
import pytest
from running.path_problems import ACCURACY, CASES
from running.test_class_products import classes_of, errors_of

from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS
from finitesum.running import class_paths
from finitesum.running.class_paths import solve_classes, solve_classes_roughly


@pytest.mark.parametrize("case", [case for case in CASES if "wide" not in case])  # which are solved in the span of the rows
def test_solutions_are_right_to_parts_of_a_standard_error(case):
    X, problems = classes_of(**CASES[case])
    found = solve_classes(problems, float(len(X)), 1e-12)
    assert found.is_solved.all()
    for problem, point in zip(problems, found.points, strict=True):
        assert max(errors_of(X, problem, point)) < 2.0 * ACCURACY


@pytest.mark.parametrize("solve", [solve_classes, solve_classes_roughly])
def test_a_strength_of_separated_classes_begins_where_solutions_lead(solve, monkeypatch):
    X, problems = classes_of(**CASES["separated"])
    found = solve(problems, float(len(X)), 1e-12)
    monkeypatch.setattr(class_paths, "point_ahead", lambda problems, points: None)
    from_the_last = solve(problems, float(len(X)), 1e-12)
    assert found.n_passes.sum() < from_the_last.n_passes.sum()


@pytest.mark.parametrize("far", [1.0, 1e6, 1e300])
def test_a_point_at_which_F_is_larger_is_not_taken(far):
    _, problems = classes_of()
    state = MultinomialLBFGS("none").init(problems[2], np.zeros(problems[2].dim), 1e-9)
    points = np.zeros((2, problems[2].dim))
    points[1] = far * state.gradient  # uphill
    after = class_paths._further(problems[:3], state, points)
    assert after.objective == state.objective
    np.testing.assert_array_equal(after.x, state.x)
    assert after.n_gradients > state.n_gradients
