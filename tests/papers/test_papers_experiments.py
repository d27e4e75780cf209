"""The experiments themselves: quick ones against recorded values, and what holds whatever the machine."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from finitesum import Problem
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods import AFG, CIAG, FG
from finitesum.papers import experiment as registry, which_method
from finitesum.papers.adahb import fig1 as hinge_figure, fig6, networks, theorems
from finitesum.papers.ciag import fig1, phases, real_data, restart, table2
from finitesum.papers.experiment import Context
from finitesum.papers.runs import Trial, as_run, find_minimum, follow, run_trial


def test_psg_on_harveys_function_has_its_closed_form():
    """w_{t+1,j} = c b_j / sqrt j - c a_j sum_{k=j+1..t} 1 / sqrt k for j <= t, so that f(w_T) is known."""
    n, c = 200, fig6.C
    found = fig6.trajectory(fig6.PSG, n, 1)
    i = np.arange(1.0, n + 1)
    a, b = 1 / (8 * c * (n - i + 1)), np.sqrt(i) / (2 * c * math.sqrt(n))
    steps = 1 / np.sqrt(i)
    for t, value in ((n - 1, found["value"][-1]), (n, found["after"])):
        w = np.array([c * b[j] / math.sqrt(j + 1) - c * a[j] * steps[j + 1 : t].sum() if j < t else 0 for j in range(n)])
        assert value == pytest.approx(fig6.problem_of(n).value(w), rel=1e-12)
    assert found["after"] >= fig6.lower_bound(n)


def test_the_points_of_a_trajectory_are_those_of_longer_ones():
    short, long = (fig6.trajectory(fig6.HB, 60, k) for k in (3, 60))
    assert short["t"] == [20, 40, 60]
    assert short["value"] == [long["value"][t - 1] for t in short["t"]]
    assert long["value"][0] == 0.0


@pytest.mark.parametrize("name", theorems.SETS)
def test_the_problems_of_the_theorems_have_their_minimum_where_they_say(name):
    case, rng = theorems.case_of(name, 0), np.random.default_rng(1)
    problem = case.problem
    assert problem.constraint.contains(case.solution)
    assert problem.value(case.solution) == pytest.approx(0.0, abs=1e-13)
    for size in (0.01, 0.1, 1.0):
        for _ in range(100):
            w = problem.constraint.project(case.solution + size * rng.standard_normal(theorems.DIM))
            assert problem.value(w) >= -1e-13
            assert np.linalg.norm(problem.subgradient(w)) <= case.M * (1 + 1e-12)


@pytest.mark.parametrize("name", theorems.THEOREMS)
def test_the_bounds_of_the_theorems_are_least_at_their_steps_and_hold(name):
    theorem, case = theorems.THEOREMS[name], theorems.case_of("l1 ball", 3)
    alpha, size = theorems.best_step(theorem, case), case.size[theorem.is_adaptive]
    at = [theorems.bound(theorem, case, factor * alpha, 50, size, 7.0, (1.0, 0.5)) for factor in (0.99, 1.0, 1.01)]
    assert at[1] == min(at)
    for form in (theorems.AVERAGING, theorems.PRINTED):
        run = theorems.followed(theorem, form, case, alpha, 40)
        assert (run["gap"] <= run["bound"]).all()
        assert (run["gap"] >= 0.0).all()
    short = theorems.followed(theorem, theorems.AVERAGING, case, alpha, 10)
    np.testing.assert_array_equal(short["gap"], theorems.followed(theorem, theorems.AVERAGING, case, alpha, 40)["gap"][:10])


def test_a_trial_counts_passes_and_ends_at_tol():
    problem = fig1.problem_of(60, 5, 0)
    figures = run_trial(problem, Trial("a-ciag", {}, 3), max_passes=40, tol=1e-8)
    found = as_run(figures)
    assert figures["batch_size"] == 3
    assert found.columns["largest"][-1] <= 1e-8 < found.columns["largest"][-2]
    assert found.columns["passes"][0] == 0.0
    assert found.first("largest", 1e-8) == found.columns["passes"][-1]
    assert math.isnan(found.first("largest", 0.0))
    assert np.all(np.diff(found.columns["seconds"]) >= 0.0)


def test_what_finding_constants_costs_is_counted_or_not():
    problem = fig1.problem_of(60, 5, 0)
    first = {
        counts: as_run(run_trial(problem, Trial("ciag", {"step_size": "theory"}, 1, counts_start=counts), max_passes=1))
        for counts in (True, False)
    }
    assert first[False].columns["passes"].tolist() == [0.0, 1.0]
    assert first[True].columns["passes"][1] > 1.0
    assert first[True].columns["objective"][1] == first[False].columns["objective"][1]


def test_a_trial_that_diverges_ends():
    problem = Problem.linear([[1.0], [2.0]], [0.0, 1.0], loss="squared", batch_size=1)
    found = as_run(run_trial(problem, Trial("fg", {"step_size": 100.0}), max_passes=1000))
    assert found.columns["passes"][-1] < 20
    assert found.diverged
    good = as_run(run_trial(problem, Trial("fg"), max_passes=3))
    assert not good.diverged


def test_gaps_end_at_rounding_errors():
    problem = fig1.problem_of(60, 5, 0)
    minimum = find_minimum(problem)
    assert minimum["optimality"] < 1e-14
    found = as_run(run_trial(problem, Trial("newton"), max_passes=30), minimum["minimum"])
    passes, gaps = found.gap_curve()
    assert gaps[-1] <= 1e-15 < gaps[-2]
    assert passes.size == gaps.size < found.columns["passes"].size


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adahb/fig6", "adahb/theorems", "ciag/phases"])
def test_quick_experiments_agree_with_recorded_values(run, tmp_path, name):
    result = run("reproduce", name, "--quick", "--check", "--out", tmp_path)
    assert result.exit_code == 0, result.output


def test_a_run_in_parts_is_the_run_in_whole():
    problem = fig1.problem_of(60, 5, 0)
    for name in ("a-ciag", "ciag", "nim", "sag"):
        whole, parts = (as_run(run_trial(problem, Trial(name, {}, 3, parts=k), max_passes=6.0)).columns for k in (1, 4))
        assert parts["passes"][1] == whole["passes"][1]
        ends = parts["objective"][1::4]
        np.testing.assert_allclose(ends, whole["objective"][1 : 1 + ends.size], atol=1e-12)
        assert parts["passes"].size > 2 * whole["passes"].size


def test_following_a_run_counts_visits_and_measures_distances():
    problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared", batch_size=1)
    method = CIAG(step_size=0.5, warm_start_method="full")
    visits, squared = follow(problem, method, np.array([3.0]), np.array([1.0]), every=1, max_visits=3)
    assert visits.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(squared, [4.0, 1.0, 0.25, 0.0625], rtol=1e-12)


def test_the_condition_of_theorem_1_allows_longer_steps_nearer_to_the_optimum():
    factors = [phases.allowed_factor(distance) for distance in (1e-1, 1e-3, 1e-6)]
    assert factors == sorted(factors)
    assert all(phases.promised(d, c) < 1.0 for d, c in zip((1e-1, 1e-3, 1e-6), factors, strict=True))


def test_asymptotic_rates_are_those_of_the_gradient_methods():
    """The full gradient methods themselves, run for long, shrink V by these ratios."""
    mu, big, _, _, optimum = phases.constants()
    step = 0.5 / big
    methods = {"CIAG": FG(step_size=2.0 / (mu + big)), "A-CIAG": AFG(step_size=step, momentum=momentum_limit(mu, step))}
    problem = phases.problem_of()
    for name, method in methods.items():
        start = optimum + 1e-3
        _, squared = follow(problem, method, start, optimum, every=phases.M, max_visits=phases.M * 200, until=1e-20)
        late = np.log(squared[len(squared) // 2 :])
        rate = np.polyfit(np.arange(late.size), late, 1)[0]
        assert rate == pytest.approx(math.log(phases.asymptotic_rate(name)), rel=0.1)


@pytest.mark.parametrize("name", ["adahb/fig1", "ciag/table2"])
def test_without_data_nothing_is_run_and_all_is_named(run, tmp_path, monkeypatch, name):
    monkeypatch.setattr(table2, "SETS", [entry for entry in table2.SETS if not entry.has_stand_in])
    result = run("reproduce", name, "--quick", "--check", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "'finitesum data fetch a9a' gets it" in result.stderr
    assert "a9a" in (tmp_path / "reproduce.html").read_text()


def test_figure_1_takes_the_whole_of_rcv1_where_it_is(monkeypatch):
    """The data sets that steps were not tuned on have settings, too."""
    there = {"rcv1.subset"}
    monkeypatch.setattr(hinge_figure, "find", lambda name, data_dir: name if name in there else None)
    assert [name for name in hinge_figure._in_full(None) if "rcv1" in name] == ["rcv1.subset"]
    there.add("rcv1")
    assert hinge_figure._in_full(None) == hinge_figure.IN_PAPER
    there.clear()
    assert hinge_figure._in_full(None) == hinge_figure.IN_PAPER
    context = Context("full", Path())
    units = list(hinge_figure._units(hinge_figure.IN_PAPER, context))
    assert len({unit.file_name for unit in units}) == len(units)
    for name in hinge_figure.IN_PAPER:
        runs = [unit for unit in units if unit.name.startswith(f"{name}-tuned-PSG, last-")]
        assert len(runs) == 5
        assert runs[0].work.args[3] > 0.0
    assert "Steps for real-sim are those of rcv1.subset" in hinge_figure._note(hinge_figure.IN_PAPER, 5)


def test_the_data_that_are_listed_are_those_that_are_used():
    assert registry.experiment("adahb/fig1").data == hinge_figure.IN_PAPER
    assert registry.experiment("ciag/table2").data == tuple(entry.name for entry in real_data.SETS)
    assert registry.experiment("ciag/restart").data == tuple(case.data for case in restart.CASES if case.data)


def test_networks_without_torch_are_skipped_with_a_sentence(run, tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "find_spec", lambda name: None)
    result = run("reproduce", "adahb/networks", "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "pip install 'finitesum[torch]'" in result.stderr


def test_a_stand_in_takes_the_place_of_absent_data_and_of_no_other():
    entry = next(entry for entry in table2.SETS if entry.name == "SUSY")
    assert entry.title(True, None) == "SUSY stand-in (50,000 rows)"
    problem = real_data.problem_of(entry, True, None)
    assert (problem.n_rows, problem.dim) == (50_000, 18)
    assert problem.penalty.ridge() == pytest.approx(1 / 50_000)


def test_trace_bound_of_the_authors_program():
    """A quarter of the mean squared row length, and the penalty."""
    X = np.random.default_rng(0).standard_normal((30, 4))
    problem = Problem.linear(X, np.sign(X[:, 0]), alpha=0.1)
    found = real_data.smoothness_of(problem)
    assert found["trace"] == pytest.approx(0.25 * np.mean(np.sum(X**2, axis=1)) + 0.1)
    assert found["tight"] == pytest.approx(0.25 * np.linalg.eigvalsh(X.T @ X / 30)[-1] + 0.1, rel=0.02)


def test_columns_are_scaled_to_one():
    scaled = real_data._scaled(np.array([[0.0, 5.0], [2.0, 5.0], [1.0, 5.0]]))
    np.testing.assert_allclose(scaled, [[-1.0, -1.0], [1.0, -1.0], [0.0, -1.0]])


def test_which_method_names_what_it_lacks_and_draws_from_what_is_there(run, tmp_path):
    lacking = run("reproduce", "which-method", "--quick", "--out", tmp_path)
    assert lacking.exit_code == 0, lacking.output
    assert "finitesum reproduce ciag/table2 --quick" in lacking.stderr
    labels = real_data.LABELS[real_data.AUTOMATIC]
    folder = tmp_path / "ciag-table2"
    folder.mkdir()
    seconds = {label: 1.0 + k for k, label in enumerate(reversed(labels))}  # lazy Newton first
    content = {
        "size": "quick",
        "verdicts": [],
        "absent": {},
        "values": {f"passes, {label}, toy, automatic": None if label == "IAG" else 5.0 for label in labels},
        "timings": {
            f"seconds to {level:.0e}, {label}, toy, automatic": s
            for level in (real_data.MODERATE, real_data.TOL)
            for label, s in seconds.items()
        },
    }
    (folder / "result.json").write_text(json.dumps(content))
    found = run("reproduce", "which-method", "--quick", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    with (tmp_path / "which-method" / "which-method.csv").open(newline="") as file:
        advice = {row["your problem"]: row["take"] for row in csv.DictReader(file)}
    assert advice["smooth loss, the exact optimum (1e-10), in the least time"] == "lazy-newton"
    with (tmp_path / "which-method" / "smooth.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["IAG: passes / s"] == "–"


def test_which_method_compares_no_count_of_data_sets_where_some_are_absent(run, tmp_path):
    labels = real_data.LABELS[real_data.AUTOMATIC]
    seconds = {f"seconds to {level:.0e}, {label}, toy, automatic": 1.0 for level in (1e-3, 1e-10) for label in labels}
    content = {"size": "quick", "verdicts": [], "absent": {"a9a": "Get it."}, "timings": seconds}
    content["values"] = {f"passes, {label}, toy, automatic": 5.0 for label in labels}
    (tmp_path / "ciag-table2").mkdir()
    (tmp_path / "ciag-table2" / "result.json").write_text(json.dumps(content))
    found = run("reproduce", "which-method", "--quick", "--check", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert "more could not be compared" in found.stdout


def test_which_method_rests_its_worst_case_on_the_growth_with_t(run, tmp_path):
    folder = tmp_path / "adahb-fig6"
    folder.mkdir()
    evidence = {fig6.HB_HAS_NO_LOGARITHM: "HB's rise", fig6.PSG_HAS_A_LOGARITHM: "PSG's rise"}
    verdicts = [{"claim": c, "findings": [{"case": "", "holds": True, "evidence": e}]} for c, e in evidence.items()]
    content = {"size": "quick", "verdicts": verdicts, "absent": {}, "values": {}, "timings": {}}
    (folder / "result.json").write_text(json.dumps(content))
    found = run("reproduce", "which-method", "--quick", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    with (tmp_path / "which-method" / "which-method.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["take"] == "hb"
    assert all(text in row["because"] for text in evidence.values())


def test_rankings_compare_by_the_mean_ratio():
    ranking = which_method.Ranking({"x": {"a": 1.0, "b": 4.0}, "y": {"a": 2.0, "b": 2.0}, "z": {"a": 3.0, "b": 3.0}})
    assert ranking.ratios() == pytest.approx({"a": 1.0, "b": 4.0 ** (1 / 3)})
    assert (ranking.best(), ranking.wins("a"), ranking.wins("b")) == ("a", 3, 2)
    failed = which_method.Ranking({"x": {"a": math.inf, "b": math.inf}})
    assert failed.ratios() == {"a": math.inf, "b": math.inf}
    assert failed.wins("a") == 0
    assert failed.failures("a") == 1
    some = which_method.Ranking({"x": {"a": 1.0, "b": 2.0}, "y": {"a": math.inf, "b": math.inf}})
    assert which_method._reason(some) == "first on 1 of 2 data sets, though it failed on 1; then b (failed on 1)"
    assert which_method._reason(ranking) == ("first on 3 of 3 data sets, 1 times the best in the mean; then b 1.6")
