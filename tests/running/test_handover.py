"""Runs that "auto" chose change their method where they do worse than the forecast, and go on from the same point."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from tests.contracts.problems import make_pair

from finitesum import LogisticRegression, Problem, minimize
from finitesum.methods import as_method
from finitesum.methods.auto import choose
from finitesum.methods.auto.outputs import with_label
from finitesum.methods.base import Alternative, Choice, is_suited, label_of
from finitesum.methods.forecasts import OF_CLASSES, Counts, known_methods, price
from finitesum.methods.newton.newton_cg import NewtonCG
from finitesum.running.handover import LATE, fraction_done, is_changed
from finitesum.running.results import StopReason
from finitesum.running.run_memory import Loop

NAMES = ("newton", "lazy-newton", "newton-cg", "lbfgs", "working-set-newton", "coordinate-descent")


def the_problem(l1_ratio=0.0):
    return make_pair(n=80, d=6, alpha=1e-3, l1_ratio=l1_ratio)[0]


def choice_of(first, *others, seconds=1e-9, of_others=1e-9):
    """A choice whose forecast is far too low, as that of the others is, unless they are given."""
    made = [
        as_method(name, {} if name in ("newton", "working-set-newton", "coordinate-descent") else {"first_rows": 80})
        for name in others
    ]
    return Choice(as_method(first), "a guess", seconds, 1.0, tuple(Alternative(method, of_others) for method in made))


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("second", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_a_late_run_goes_on_with_another_method_from_its_point(first, second, l1_ratio):
    problem = the_problem(l1_ratio)
    if first not in known_methods(problem) or not is_suited(as_method(second), problem):
        pytest.skip("working sets are for l1 penalties, lbfgs for none")
    seen = []
    late = minimize(problem, method=choice_of(first, second), tol=1e-9, callback=lambda r: seen.append(r.x))
    assert late.success
    assert late.method.name == second
    assert second in late.choice
    assert second in late.message
    np.testing.assert_allclose(late.x, minimize(problem, method="newton", tol=1e-12).x, atol=1e-6)
    alone = minimize(problem, method=first, tol=1e-9, callback=lambda r: r.nit == 1)
    np.testing.assert_array_equal(seen[0], alone.x)  # it begins as a run of the first method
    trace = np.array([row.n_passes for row in late.trace.rows])
    assert (np.diff(trace) >= 0).all()  # counts go on


def test_a_run_within_its_forecast_is_that_of_the_method_alone():
    problem = the_problem()
    for choice in (choice_of("newton-cg", "newton", seconds=1e3), choice_of("newton-cg", "newton", of_others=1e3)):
        watched = minimize(problem, method=choice, tol=1e-9)
        assert watched.method.name == "newton-cg"
        assert watched.x.tobytes() == minimize(problem, method="newton-cg", tol=1e-9).x.tobytes()


@pytest.mark.parametrize("second", NAMES)
def test_a_run_that_is_resumed_around_its_change_has_the_same_bits(second, tmp_path):
    problem, choice = the_problem(), choice_of("lazy-newton", second)
    straight = minimize(problem, method=choice, tol=1e-9)
    assert straight.method.name == second
    stops = iter(range(1, 100))
    parts = []
    while not parts or not parts[-1].success:
        stop = next(stops)
        file = tmp_path / "run.npz"
        settings = {"checkpoint": file, "resume": file.exists(), "callback": lambda report, stop=stop: report.nit == stop}
        parts.append(minimize(problem, method=choice, tol=1e-9, **settings))
    assert len(parts) > 2
    assert parts[-1].x.tobytes() == straight.x.tobytes()
    assert (parts[-1].n_passes, parts[-1].n_hessian_passes) == (straight.n_passes, straight.n_hessian_passes)
    assert parts[-1].method.name == second


def classes_problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5))
    y = (X @ rng.standard_normal((5, 4)) + rng.gumbel(size=(120, 4))).argmax(axis=1)
    return Problem.linear(X, y, loss="multinomial", alpha=1e-3, fit_intercept=True)


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(OF_CLASSES, 2)])
def test_a_late_run_on_classes_goes_on_with_another_method_and_is_resumed_around_its_change(first, second, tmp_path):
    problem = classes_problem()
    choice = Choice(with_label(first), "a guess", 1e-9, 1.0, (Alternative(with_label(second), 1e-9),))
    straight = minimize(problem, method=choice, tol=1e-9)
    assert straight.success
    assert label_of(straight.method) == second
    assert straight.fun == pytest.approx(minimize(problem, method="newton", tol=1e-11).fun, rel=1e-12)
    stops, parts = iter(range(1, 400)), []
    while not parts or not parts[-1].success:
        stop, file = next(stops), tmp_path / "run.npz"
        settings = {"checkpoint": file, "resume": file.exists(), "callback": lambda report, stop=stop: report.nit == stop}
        parts.append(minimize(problem, method=choice, tol=1e-9, **settings))
    assert len(parts) > 2
    assert parts[-1].x.tobytes() == straight.x.tobytes()
    assert (parts[-1].n_passes, parts[-1].n_hessian_passes) == (straight.n_passes, straight.n_hessian_passes)
    assert label_of(parts[-1].method) == second
    assert f"{second} went on" in straight.choice


def test_a_change_that_another_tol_would_have_made_otherwise_is_resumed(tmp_path, monkeypatch):
    problem, (first, second, third) = classes_problem(), map(with_label, OF_CLASSES)
    others, file = (Alternative(second, 1e-9), Alternative(third, 1.0)), tmp_path / "run.npz"
    begun = minimize(problem, method=Choice(first, "a guess", 1e-9, 1.0, others), tol=1e-3, max_iter=4, checkpoint=file)
    assert label_of(begun.method) == OF_CLASSES[1]
    later, seen = Choice(first, "a guess", 1e-9, 1.0, others[::-1]), []

    def watched(choice, *_):
        seen.append(tuple(label_of(other.method) for other in choice.others))

    monkeypatch.setattr("finitesum.running.run.is_changed", watched)
    found = minimize(problem, method=later, tol=1e-9, checkpoint=file, resume=True)
    assert found.success
    assert label_of(found.method) == OF_CLASSES[1]
    assert set(seen) == {OF_CLASSES[1:]}  # the one that runs, and the one that may be next


def test_what_auto_begins_on_classes_is_resumed_with_its_solver(tmp_path, monkeypatch):
    problem, file = classes_problem(), tmp_path / "run.npz"
    seconds = dict(zip(OF_CLASSES, (3.0, 2.0, 1.0), strict=True))
    monkeypatch.setattr("finitesum.methods.forecasts.forecast", lambda name, *_: seconds[name])
    monkeypatch.setattr("finitesum.methods.auto.outputs.LITTLE", 0.0)
    first = minimize(problem, tol=1e-2, checkpoint=file)
    assert label_of(first.method) == "multinomial-newton cg"
    seconds["multinomial-newton cg"] = 4.0
    assert label_of(choose(problem, 1e-9).method) == "multinomial-newton exact"
    again = minimize(problem, tol=1e-9, checkpoint=file, resume=True)
    assert label_of(again.method) == "multinomial-newton cg"
    assert again.success


def test_a_later_run_goes_on_with_the_method_that_the_earlier_one_ended_with():
    problem, choice = the_problem(), choice_of("lazy-newton", "newton-cg")
    earlier = minimize(problem, method=choice, tol=1e-3)
    assert earlier.method.name == "newton-cg"
    assert minimize(problem, method=choice, tol=1e-9, earlier=earlier).success


def test_what_auto_begins_is_resumed_though_another_tol_would_choose_otherwise(tmp_path, monkeypatch):
    problem, file = make_pair(n=3000, d=60)[0], tmp_path / "run.npz"
    seconds = {"newton": 3.0, "lazy-newton": 1.0, "newton-cg": 2.0, "lbfgs": 4.0}
    monkeypatch.setattr("finitesum.methods.forecasts.forecast", lambda name, *_: seconds[name])
    first = minimize(problem, tol=1e-2, checkpoint=file)
    assert first.method.name == "lazy-newton"
    seconds["lazy-newton"] = 4.0
    again = minimize(problem, tol=1e-9, checkpoint=file, resume=True)
    assert again.method.name == "lazy-newton"
    assert again.success


@pytest.mark.parametrize("reason", [StopReason.STALLED, StopReason.DIVERGED])
def test_a_run_that_ends_short_of_tol_changes_unless_the_other_method_is_expensive(reason):
    problem, counts = the_problem(), Counts(10.0, 10.0, 10.0)
    cheap, expensive = (choice_of("lazy-newton", "newton", of_others=seconds) for seconds in (0.01, 1e6))
    assert is_changed(cheap, Loop(), counts, problem, 1e-9, reason)
    assert not is_changed(expensive, Loop(), counts, problem, 1e-9, reason)
    assert not is_changed(cheap, Loop(n_changes=1), counts, problem, 1e-9, reason)
    assert not is_changed(cheap, Loop(), counts, problem, 1e-9, StopReason.CALLBACK)


def test_the_fraction_that_is_done_delays_a_change():
    problem, counts = the_problem(), Counts(100.0, 0.0, 100.0)
    spent = price("newton-cg", problem, counts)
    choice = choice_of("newton-cg", "newton", seconds=spent / (1.1 * LATE), of_others=0.2 * spent)
    early, late = Loop(best_estimate=1e-2), Loop(best_estimate=1e-8)
    assert is_changed(choice, early, counts, problem, 1e-9, None)
    assert not is_changed(choice, late, counts, problem, 1e-9, None)
    assert not is_changed(choice, early, Counts(10.0, 0.0, 10.0), problem, 1e-9, None)
    assert 0.0 < fraction_done(1.0, math.inf, 1e-9) == fraction_done(1.0, 2.0, 1e-9) < 1.0


def test_what_a_step_leads_to_delays_a_change():
    X = sp.random_array((60, 200), density=0.05, format="csr", rng=np.random.default_rng(0))
    problem = Problem.linear(X, np.arange(60.0), loss="squared", alpha=1e-6)
    method = NewtonCG()
    counts = Counts(20.0, 0.0, 20.0)
    choice = choice_of("newton-cg", "newton", of_others=0.5 * price("newton-cg", problem, counts))
    state = method.init(problem, np.zeros(problem.dim), 1e-9)
    assert is_changed(choice, Loop(best_estimate=1.0), counts, problem, 1e-9, None, state)
    while not method.foreseen(problem, state) < 1e-7:
        state = method.run_pass(problem, state, np.arange(problem.n_components))
    assert not is_changed(choice, Loop(best_estimate=1.0), counts, problem, 1e-9, None, state)


def test_a_second_method_is_judged_by_what_it_has_spent_itself():
    problem, counts = the_problem(), Counts(200.0, 0.0, 200.0)
    spent = price("newton-cg", problem, counts)
    others = tuple(Alternative(as_method(name), 0.2 * spent) for name in ("newton-cg", "newton"))
    choice = Choice(as_method("lazy-newton"), "", 0.01 * spent, 1.0, others)
    later = Loop(k=200, best_estimate=1e-1, n_changes=1)
    assert is_changed(choice, later, counts, problem, 1e-9, None)
    later.changed_passes, later.changed_k = 195.0, 195
    assert not is_changed(choice, later, counts, problem, 1e-9, None)


def test_a_second_method_is_not_changed_for_being_late():
    problem, counts = the_problem(), Counts(90.0, 0.0, 90.0)
    others = tuple(Alternative(as_method(name), 1e-6) for name in ("newton-cg", "newton"))
    choice = Choice(as_method("lazy-newton"), "", 1e-6, 1.0, others)
    for n_changes in (0, 1):
        loop = Loop(k=90, best_estimate=1e-2, n_changes=n_changes)
        assert is_changed(choice, loop, counts, problem, 1e-9, None) == (n_changes == 0)


def test_dual_ascent_that_stands_still_is_ended_by_interior_points():
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((400, 60)), rng.standard_normal(60)
    problem = Problem.linear(X, np.sign(X @ weights + 3.0 * rng.standard_normal(400)), loss="hinge", alpha=1e-6)
    choice = Choice(as_method("dual-ascent"), "a guess", 1e-9, others=(Alternative(as_method("interior-point"), 1e-9),))
    late = minimize(problem, method=choice, tol=1e-9)
    assert late.success
    assert late.method.name == "interior-point"
    assert late.fun == pytest.approx(minimize(problem, method="interior-point", tol=1e-10).fun, abs=1e-8)


@pytest.mark.parametrize(
    ("passes", "estimate", "times", "changes"),
    [(400.0, 1e-1, 8.0, True), (400.0, 1e-1, 12.0, False), (400.0, 1e-6, 8.0, False), (50.0, 1e-1, 8.0, False)],
)
def test_a_run_that_needs_too_many_passes_changes_before_they_are_over(passes, estimate, times, changes):
    problem, counts = the_problem(), Counts(passes, 0.0, passes)
    spent = price("newton-cg", problem, counts)
    choice = choice_of("newton-cg", "newton", seconds=spent, of_others=times * spent)
    assert is_changed(choice, Loop(best_estimate=estimate), counts, problem, 1e-9, None) == changes


def test_estimators_give_the_whole_choice_to_the_run(monkeypatch):
    monkeypatch.setattr("finitesum.estimators.solvers.choose", lambda *_: choice_of("lazy-newton", "newton-cg"))
    X = np.random.default_rng(0).standard_normal((60, 3))
    model = LogisticRegression(tol=1e-9, verbose=0).fit(X, X[:, 0] > 0.3 * X[:, 1] ** 2)
    assert model.optimality_ <= 1e-9


def test_dual_ascent_is_left_to_end_while_rows_at_corners_are_no_more_than_columns():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    problem = Problem.linear(rng.standard_normal((60, 20)), y, loss="squared-hinge", alpha=1e-3)
    method = as_method("dual-ascent")
    counts = Counts(600.0, 0.0, 600.0)
    choice = Choice(method, "a guess", 1e-9, 1.0, (Alternative(as_method("newton"), 1e-9),))
    state = method.init(problem, np.zeros(20))
    for n_inside, is_over in ((20, False), (21, True)):
        at_corners = state._replace(slopes=np.where(np.arange(60) < n_inside, -0.5 * y, 0.0))
        assert is_changed(choice, Loop(k=600), counts, problem, 1e-9, None, at_corners) == is_over
    beyond = state._replace(slopes=-0.5 * y)
    few = Counts(1.0, 0.0, 1.0)
    patient = choice._replace(seconds=1e-9, others=(Alternative(as_method("newton"), 1e3),))
    assert not is_changed(patient, Loop(k=1), few, problem, 1e-9, None, beyond)  # the other one takes longer
