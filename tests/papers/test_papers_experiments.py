"""The experiments themselves: quick ones against recorded values, and what holds whatever the machine."""

import math

import numpy as np
import pytest

from finitesum import Problem
from finitesum.papers.adahb import fig6
from finitesum.papers.ciag import fig1
from finitesum.papers.runs import Trial, as_run, find_minimum, gap_curve, run_trial


def test_psg_on_harveys_function_has_its_closed_form():
    """w_{t+1,j} = c b_j / sqrt j - c a_j sum_{k=j+1..t} 1 / sqrt k for j <= t, so that f(w_T) is known."""
    n, c = 200, fig6.C
    found = fig6.trajectory(fig6.PSG, n, 1)
    i = np.arange(1.0, n + 1)
    a, b = 1 / (8 * c * (n - i + 1)), np.sqrt(i) / (2 * c * math.sqrt(n))
    steps = 1 / np.sqrt(i)
    for t, value in ((n - 1, found["value"][-1]), (n, found["after"])):
        w = np.array(
            [c * b[j] / math.sqrt(j + 1) - c * a[j] * steps[j + 1 : t].sum() if j < t else 0 for j in range(n)]
        )
        assert value == pytest.approx(fig6.problem_of(n).value(w), rel=1e-12)
    assert found["after"] >= fig6.lower_bound(n)


def test_the_points_of_a_trajectory_are_those_of_longer_ones():
    short, long = (fig6.trajectory(fig6.HB, 60, k) for k in (3, 60))
    assert short["t"] == [20, 40, 60]
    assert short["value"] == [long["value"][t - 1] for t in short["t"]]
    assert long["value"][0] == 0.0


def test_a_trial_counts_passes_and_ends_at_tol():
    problem = fig1.problem_of(60, 5, 0)
    found = as_run(run_trial(problem, Trial("x", "a-ciag", {}, 3), max_passes=40, tol=1e-8))
    assert found.batch_size == 3
    assert found.columns["largest"][-1] <= 1e-8 < found.columns["largest"][-2]
    assert found.columns["passes"][0] == 0.0
    assert found.first("largest", 1e-8) == found.columns["passes"][-1]
    assert math.isnan(found.first("largest", 0.0))
    assert np.all(np.diff(found.columns["seconds"]) >= 0.0)


def test_a_trial_that_diverges_ends():
    problem = Problem.linear([[1.0], [2.0]], [0.0, 1.0], loss="squared", batch_size=1)
    found = as_run(run_trial(problem, Trial("x", "fg", {"step_size": 100.0}), max_passes=1000))
    assert found.columns["passes"][-1] < 20


def test_gaps_end_at_rounding_errors():
    problem = fig1.problem_of(60, 5, 0)
    minimum = find_minimum(problem)
    assert minimum["optimality"] < 1e-14
    found = as_run(run_trial(problem, Trial("x", "newton"), max_passes=30))
    curve = gap_curve(found, minimum["minimum"])
    assert curve.optimality[-1] <= 1e-15 < curve.optimality[-2]
    assert curve.n_passes.size == curve.optimality.size < found.columns["passes"].size


@pytest.mark.parametrize("name", ["adahb/fig6"])
def test_quick_experiments_agree_with_recorded_values(run, tmp_path, name):
    result = run("reproduce", name, "--quick", "--check", "--out", tmp_path)
    assert result.exit_code == 0, result.output
