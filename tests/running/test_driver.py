"""The driver: why runs stop, what they cost and report, and that watching a run does not change it."""

import dataclasses
import math
import re
from typing import get_args

import numpy as np
import pytest
from contracts.problems import make_pair
from scipy.optimize import OptimizeResult

import finitesum.running.run as runs
from finitesum import METHODS, Problem, StopReason, minimize
from finitesum.core.jit import COMPILED
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import CIAG, FG, SAGA
from finitesum.problems.finite_sum import AnyProblem
from finitesum.running.checkpoint import flatten
from finitesum.running.driver import as_seed
from finitesum.running.sampling import SAMPLINGS, order_of_pass

INCREMENTAL = ["saga", "ciag"]
#: A method whose own step size would take products with the data, with one that is given.
GIVEN = {"method": "fg", "options": {"step_size": 0.5}}

SMOOTH = sorted(set(METHODS) & {"fg", "afg", "ig", "iag", "sag", "saga", "svrg", "acc-svrg", "ciag", "a-ciag"})


#: Compiled kernels compute inf and NaN without a word; run as Python, NumPy's scalars warn of them.
may_overflow = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


@pytest.fixture(scope="module")
def problem():
    return make_pair(n=40, d=4, alpha=0.05, batch_size=2)[0]


@pytest.fixture(scope="module")
def optimum(problem):
    result = minimize(problem, method="ciag", tol=1e-14, max_iter=2000)
    assert result.optimality < 1e-13
    return result.x


def slow_problem():
    """Two coordinates of curvatures 1/2 and 4.5e-6: a gradient step gains 1e-5 of what is left."""
    return Problem.linear(np.diag([1.0, 3e-3]), [1.0, 1.0], loss="squared")


# -- stopping


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("name", ["fg", "saga", "ciag"])
def test_success_means_that_the_exact_optimality_was_seen_to_be_at_most_tol(name, form, tol):
    problem, oracle = make_pair(form, n=40, d=4, alpha=0.1, l1_ratio=0.5, intercept=True, batch_size=2)
    result = minimize(problem, method=name, tol=tol, max_iter=3000, measure_every=0)
    assert result.success
    assert (result.reason, result.status) == (StopReason.CONVERGED, 0)
    assert oracle.optimality(result.x) == pytest.approx(result.optimality, rel=1e-4)
    assert result.optimality <= tol
    assert result.nfev >= 1  # the check was charged
    assert result.trace.column("optimality")[-1] == result.optimality


@pytest.mark.parametrize("measure_every", [0, 1, 3])
@pytest.mark.parametrize("name", ["fg", *INCREMENTAL])
def test_max_iter_counts_effective_passes(problem, name, measure_every):
    options = {"step_size": 0.5}
    result = minimize(problem, method=name, options=options, tol=0.0, max_iter=7, measure_every=measure_every)
    assert (result.reason, result.success, result.nit) == (StopReason.MAX_ITER, False, 7)
    assert result.n_passes == 8.0  # and the check of the result
    assert result.njev == 8 * problem.n_components
    np.testing.assert_array_equal(result.trace.column("n_passes"), np.arange(8.0))
    assert result.n_hessian_passes == (7.0 if name == "ciag" else 0.0)
    assert "asked: 0)" in result.message
    assert "Raise max_iter" in result.message


def test_a_full_first_pass_is_charged(problem):
    result = minimize(problem, method=CIAG(warm_start_method="full", step_size=0.5), tol=0.0, max_iter=7)
    assert (result.nit, result.n_passes, result.trace.column("n_passes")[0]) == (6, 8.0, 1.0)


def test_a_fraction_of_a_pass_more_is_a_pass(problem):
    assert minimize(problem, **GIVEN, tol=0.0, max_iter=2.5).nit == 3


@may_overflow
@pytest.mark.parametrize("name", ["fg", *INCREMENTAL])
def test_a_step_far_too_long_diverges_with_advice_and_the_last_finite_iterate(name):
    problem = make_pair(loss="squared", n=40, d=4)[0]
    result = minimize(problem, method=name, options={"step_size": 1e8}, tol=1e-9)
    assert result.reason is StopReason.DIVERGED
    assert not result.success
    assert np.isfinite(result.x).all()
    assert "step size is too long" in result.message
    assert "give a smaller one" in result.message
    assert result.nit <= 60


@may_overflow
def test_nan_within_a_pass_is_a_divergence_and_the_iterate_before_is_kept():
    problem, oracle = make_pair(loss="squared", n=40, d=4)
    x0 = np.linspace(-1.0, 1.0, 4)
    result = minimize(problem, x0, method="saga", options={"step_size": 1e200})
    assert (result.reason, result.nit) == (StopReason.DIVERGED, 0)
    np.testing.assert_array_equal(result.x, x0)
    assert result.optimality == pytest.approx(oracle.optimality(x0), rel=1e-12)


@may_overflow
@pytest.mark.parametrize("step_size", [300.0, 1e8])
@pytest.mark.parametrize("name", ["fg", "iag", *INCREMENTAL])
def test_an_explosion_returns_the_best_iterate_that_is_known(name, step_size):
    problem, oracle = make_pair(loss="squared", n=40, d=4)
    x0 = np.linspace(-1.0, 1.0, 4)
    told = {0: x0}
    result = minimize(
        problem,
        x0,
        method=name,
        options={"step_size": step_size},
        tol=1e-9,
        callback=lambda report: told.__setitem__(report.nit, report.x),
    )
    assert result.reason is StopReason.DIVERGED
    assert not result.success
    with np.errstate(over="ignore"):
        objectives = {k: oracle.objective(x) for k, x in told.items()}
    assert oracle.objective(result.x) <= min(objectives[0], objectives[1])
    assert oracle.objective(result.x) < 1e-9 * objectives[max(told)]
    assert (result.fun, result.optimality) == pytest.approx(
        (oracle.objective(result.x), oracle.optimality(result.x)), rel=1e-9
    )
    of_x, n_passes = re.search(r" known: that after (\d+) of (\d+) passes\.$", result.message).groups()
    assert int(n_passes) == result.nit
    np.testing.assert_array_equal(result.x, told[int(of_x)])


@pytest.mark.parametrize("options", [{"decay": "constant"}, {"decay": "constant", "step_size": 0.3}])
def test_a_constant_incremental_step_that_stalls_is_told_what_to_do(problem, options):
    result = minimize(problem, method="ig", options=options, tol=1e-9, max_iter=20_000, measure_every=0)
    assert result.reason is StopReason.STALLED
    assert 'leave decay at "1/pass"' in result.message
    assert "rounding" not in result.message


def test_advice_fits_the_method():
    def message(reason, method):
        return reason.message(1e-9, 1.0, 2.0, method)

    assert "step size" not in message(StopReason.STALLED, CIAG())
    assert "Or the step size is too long" in message(StopReason.STALLED, SAGA(step_size=0.1))
    assert "The step size is too long" in message(StopReason.DIVERGED, SAGA(step_size=0.1))
    assert "give a smaller step_size" in message(StopReason.DIVERGED, SAGA())
    assert "falling steps" in message(StopReason.STALLED, METHODS["ig"]())


@pytest.mark.parametrize("name", ["fg", *INCREMENTAL])
def test_a_tol_below_rounding_stalls(problem, name):
    result = minimize(problem, method=name, tol=1e-300, max_iter=20_000, measure_every=0)
    if result.success:  # the gradient may be exactly zero
        assert result.optimality == 0.0
    else:
        assert result.reason is StopReason.STALLED
        assert "loosen tol" in result.message
        assert result.optimality < 1e-14


def test_a_method_in_single_precision_has_not_stalled_while_the_objective_falls(monkeypatch):
    rng, method = np.random.default_rng(0), METHODS["multinomial-lbfgs"]
    problem = Problem.linear(rng.standard_normal((60, 5)), rng.integers(0, 3, 60), loss="multinomial", alpha=1e-3)
    sizes = method.estimate
    monkeypatch.setattr(method, "patience", 2)
    monkeypatch.setattr(method, "exact_measures", lambda *_: None)
    monkeypatch.setattr(method, "estimate", lambda *given: size if (size := sizes(*given)) <= 1e-8 else 1.0)
    result = minimize(problem, method=method(preconditioner="none"), tol=1e-8, measure_every=0)
    assert result.success, result.message
    assert result.nit > 8


@pytest.mark.parametrize("name", ["fg", "iag"])
def test_slow_progress_is_no_stall(name):
    result = minimize(slow_problem(), method=name, tol=1e-9, max_iter=1500, measure_every=0, scale_columns=False)
    assert result.reason is StopReason.MAX_ITER
    assert (np.diff(result.trace.column("estimate")[5:]) < 0.0).all()


def test_the_waves_of_acceleration_are_no_stall():
    result = minimize(slow_problem(), method="afg", tol=1e-9, max_iter=6000, measure_every=0, scale_columns=False)
    assert result.success, result.message
    estimates = result.trace.column("estimate")[1:]
    best = np.minimum.accumulate(estimates)
    assert (estimates > 1.01 * best).any()  # there were waves


@pytest.mark.parametrize("answer", [True, np.True_, np.array([2.0])[0] > 1.0])
def test_a_callback_stops_by_returning_true(problem, answer):
    result = minimize(problem, method="fg", tol=1e-12, callback=lambda r: answer if r.nit == 4 else None)
    assert (result.reason, result.status, result.nit, result.success) == (StopReason.CALLBACK, 4, 4, False)
    assert result.message.startswith("Stopped by the callback: optimality ")


def test_success_after_a_stop_by_the_callback_tells_whether_tol_is_fulfilled(problem, optimum):
    near = minimize(problem, optimum + 1e-7, method="saga", tol=1e-5, callback=lambda _: True)
    assert near.nit == 0  # it was good enough to begin with: nothing was there to stop
    arguments = {"method": "saga", "callback": lambda report: report.optimality <= 1e-3, "max_iter": 500}
    done = minimize(problem, tol=1e-3, **arguments)
    assert (done.reason, done.status, done.success) == (StopReason.CALLBACK, 4, True)
    assert done.optimality <= 1e-3
    early = minimize(problem, tol=1e-6, **arguments)
    assert (early.reason, early.status, early.success) == (StopReason.CALLBACK, 4, False)


def test_a_callback_stops_by_stop_iteration(problem):
    def callback(result):
        if result.nit == 3:
            raise StopIteration

    assert minimize(problem, method="saga", tol=1e-12, callback=callback).nit == 3


@pytest.mark.parametrize("answer", [None, False, np.False_, 0, 1, "stop", [True]])
def test_other_answers_of_a_callback_do_not_stop(problem, answer):
    assert minimize(problem, **GIVEN, tol=0.0, max_iter=3, callback=lambda _: answer).nit == 3


def test_other_errors_of_a_callback_pass_through(problem):
    with pytest.raises(ZeroDivisionError):
        minimize(problem, method="fg", callback=lambda _: 1 / 0)


def test_what_a_callback_is_told(problem):
    told = []
    result = minimize(problem, method="saga", tol=0.0, max_iter=6, measure_every=3, callback=told.append)
    assert [report.nit for report in told] == [1, 2, 3, 4, 5, 6]
    assert [report.n_passes for report in told] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert all(isinstance(report, OptimizeResult) for report in told)
    for report, row in zip(told, result.trace.rows[1:], strict=True):
        if report.nit % 3 == 0:
            exact = evaluate(problem, report.x)
            assert (report.fun, report.optimality) == (exact.objective, exact.optimality)
        else:
            assert math.isnan(report.fun)
            assert report.optimality == row.estimate


def test_what_a_callback_does_to_the_iterate_does_not_count(problem):
    def spoil(result):
        result.x[:] = np.nan

    spoiled = minimize(problem, method="saga", tol=0.0, max_iter=4, callback=spoil)
    assert spoiled.x.tobytes() == minimize(problem, method="saga", tol=0.0, max_iter=4).x.tobytes()


def test_all_reasons_have_a_sentence_with_both_figures():
    for reason in StopReason:
        text = reason.message(1e-9, 2.5e-7, 12.0)
        assert "optimality 2.5e-07 (asked: 1e-09) after 12 effective passes" in text
    assert [reason.value for reason in StopReason] == [0, 1, 2, 3, 4]


# -- the start


@pytest.mark.parametrize("name", SMOOTH)
def test_a_start_at_the_optimum_is_returned_as_it_is(problem, optimum, name):
    result = minimize(problem, optimum, method=name, tol=1e-8)
    assert result.success
    assert result.nit == 0
    assert result.n_passes == result.trace.column("n_passes")[0] + 1.0  # what the method itself takes, and the check
    assert result.x.tobytes() == optimum.tobytes()
    assert len(result.trace) == 1


def test_the_default_start_is_zero_and_not_checked(problem):
    result = minimize(problem, method="fg", tol=1e3)
    assert (result.success, result.nit) == (True, 1)
    np.testing.assert_array_equal(minimize(problem, method="fg", tol=0.0, max_iter=1).state.step_size > 0, True)


def test_a_given_start_leaves_room_for_a_pass(problem):
    x = np.ones(4)
    for _ in range(3):
        moved = minimize(problem, x, method="fg", tol=0.0, max_iter=1).x
        assert np.abs(moved - x).max() > 1e-6
        x = moved


@pytest.mark.parametrize("kind", [list, tuple, np.float32, int])
def test_starts_of_other_kinds_are_converted(problem, kind):
    x0 = [1, 0, -1, 2]
    given = kind(x0) if kind in (list, tuple) else np.array(x0, dtype=kind)
    expected = minimize(problem, np.array(x0, dtype=float), method="fg", tol=0.0, max_iter=2).x
    np.testing.assert_array_equal(minimize(problem, given, method="fg", tol=0.0, max_iter=2).x, expected)


@pytest.mark.parametrize("name", ["fg", *INCREMENTAL])
def test_the_start_is_not_written_to(problem, name):
    x0 = np.linspace(-1.0, 1.0, 4)
    x0.flags.writeable = False
    result = minimize(problem, x0, method=name, tol=0.0, max_iter=3)
    np.testing.assert_array_equal(x0, np.linspace(-1.0, 1.0, 4))
    assert not np.shares_memory(result.x, x0)


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        (np.zeros(3), r"x0 must have shape \(4,\), got \(3,\)"),
        (np.zeros((4, 1)), r"x0 must have shape \(4,\), got \(4, 1\)"),
        (0.0, r"x0 must have shape \(4,\), got \(\)"),
        ([0.0, np.nan, 0.0, 0.0], r"x0 must be finite\. Leave it out"),
        ([np.inf] * 4, r"x0 must be finite\. Leave it out"),
        (["a"] * 4, r"x0 must hold 4 numbers: "),
        ([1.0, [2.0], 3.0, 4.0], r"x0 must hold 4 numbers: "),
        ([1j, 0, 0, 0], r"x0 must hold 4 numbers: Cannot cast array data from dtype\('complex128'\)"),
    ],
)
def test_a_bad_start_is_refused(problem, x0, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        minimize(problem, x0)


# -- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tol": -1e-9}, r"tol must be >= 0 and finite, got -1e-09"),
        ({"tol": math.nan}, r"tol must be >= 0 and finite, got nan"),
        ({"tol": math.inf}, r"tol must be >= 0 and finite, got inf"),
        ({"tol": "small"}, r"tol must be >= 0 and finite, got 'small'"),
        ({"max_iter": 0}, r"max_iter must be >= 1 effective pass, got 0"),
        ({"max_iter": math.nan}, r"max_iter must be >= 1 effective pass, got nan"),
        ({"max_iter": None}, r"max_iter must be >= 1 effective pass, got None"),
        ({"sampling": "random"}, r"sampling must be one of cyclic, .*, got 'random'"),
        ({"measure_every": -1}, r"measure_every must be a whole number >= 0, got -1\. 0 measures at the end only"),
        ({"measure_every": 0.5}, r"measure_every must be a whole number >= 0, got 0\.5"),
        ({"checkpoint_seconds": -1.0}, r"checkpoint_seconds must be >= 0, got -1\.0"),
        ({"method": "sdca"}, r"method must be one of .*, got 'sdca'"),
        ({"method": "a-ciag", "options": {"step_size": -1.0}}, r"step_size must be > 0, got -1\.0"),
        ({"random_state": -1}, r"random_state must be a whole number >= 0, a numpy generator or None, got -1"),
        ({"random_state": "3"}, r"random_state must be .*, got '3'"),
        ({"random_state": 1.5}, r"random_state must be .*, got 1\.5"),
    ],
)
def test_bad_settings_are_refused(problem, settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        minimize(problem, **settings)


def test_wrong_kinds_of_settings_are_type_errors(problem):
    with pytest.raises(TypeError, match=r"^sag has no option stepsize; it has: step_size\.$"):
        minimize(problem, method="sag", options={"stepsize": 0.1})
    with pytest.raises(TypeError, match=r"^options go with a method's name"):
        minimize(problem, method=SAGA(), options={"step_size": 0.1})
    with pytest.raises(TypeError, match=r"^callback must be callable, got 5"):
        minimize(problem, callback=5)


@pytest.mark.parametrize("method", [3, None, FG, FG.run_pass, object()])
def test_what_is_no_method_is_a_type_error(problem, method):
    with pytest.raises(TypeError, match=r'^method must be a name such as "saga" or a method such as SAGA\(\), got '):
        minimize(problem, method=method)


@pytest.mark.parametrize("given", [np.ones((4, 2)), None, "a9a", Problem, lambda x: x @ x])
def test_what_is_no_problem_is_a_type_error(given):
    with pytest.raises(TypeError, match=rf"^problem must be a .*, got a {type(given).__name__}\.$") as caught:
        minimize(given)
    for known in get_args(AnyProblem):
        assert f" a {known.__name__}" in str(caught.value)


def test_a_name_with_options_is_the_method_itself(problem):
    arguments = {"tol": 0.0, "max_iter": 4, "random_state": 5}
    named = minimize(problem, method="SAGA", options={"step_size": 0.03}, **arguments)
    made = minimize(problem, method=SAGA(step_size=0.03), **arguments)
    assert named.method == made.method == SAGA(step_size=0.03)
    assert named.x.tobytes() == made.x.tobytes()
    assert minimize(problem, method="a_ciag", **arguments).method.name == "a-ciag"


@pytest.mark.parametrize("sampling", sorted(SAMPLINGS))
def test_the_order_of_visits_can_be_chosen(problem, sampling):
    result = minimize(problem, method="saga", sampling=sampling, random_state=9, tol=0.0, max_iter=2)
    state = SAGA().init(problem, np.zeros(4))
    for k in range(2):
        state = SAGA().run_pass(problem, state, order_of_pass(sampling, 9, k, problem.n_components))
    assert result.x.tobytes() == state.x.tobytes()


def test_the_methods_own_order_and_batch_size_are_the_defaults():
    problem = make_pair(n=40, d=4)[0]
    free = dataclasses.replace(problem, batch_size=None)
    result = minimize(free, method="saga", tol=0.0, max_iter=2, random_state=9)
    own = minimize(free, method="saga", tol=0.0, max_iter=2, random_state=9, sampling=SAGA.default_sampling)
    assert result.x.tobytes() == own.x.tobytes()
    assert result.batch_size == SAGA().default_batch_size(free)
    assert minimize(problem.batched(5), method="saga", tol=0.0, max_iter=2).batch_size == 5
    assert free.batch_size is None


# -- random states


def test_random_states():
    assert as_seed(5) == as_seed(np.int64(5)) == 5
    assert as_seed(2**100) == 2**100
    assert as_seed(np.random.default_rng(0)) == as_seed(np.random.default_rng(0))
    assert as_seed(np.random.RandomState(0)) == as_seed(np.random.RandomState(0))
    assert as_seed(np.random.default_rng(0)) != as_seed(np.random.default_rng(1))
    generator = np.random.default_rng(0)
    assert as_seed(generator) != as_seed(generator)  # it goes on, as generators do
    assert as_seed(None) != as_seed(None)
    assert all(isinstance(as_seed(state), int) for state in (None, 3, np.uint8(3), np.random.default_rng(0)))


def test_equal_seeds_equal_bits_and_other_seeds_other_iterates(problem):
    def run(random_state):
        return minimize(problem, method="saga", tol=0.0, max_iter=3, random_state=random_state)

    assert run(4).x.tobytes() == run(np.int32(4)).x.tobytes()
    assert run(np.random.default_rng(1)).x.tobytes() == run(np.random.default_rng(1)).x.tobytes()
    assert np.abs(run(4).x - run(5).x).max() > 1e-6
    drawn = run(None)
    assert run(drawn.seed).x.tobytes() == drawn.x.tobytes()


# -- watching does not change a run


@pytest.mark.parametrize("name", SMOOTH)
def test_measuring_changes_neither_iterates_nor_what_they_cost(problem, name):
    found = []
    for measure_every in (0, 1, 3):
        result = minimize(problem, method=name, tol=1e-5, max_iter=25, measure_every=measure_every)
        found.append((result.x.tobytes(), result.nit, result.n_passes, result.reason, result.fun, result.optimality))
        found[-1] += (result.trace.column("n_passes").tobytes(), result.trace.column("estimate").tobytes())
    assert found[0] == found[1] == found[2]


def test_what_is_measured_is_what_was_asked_for(problem):
    def measured(measure_every):
        trace = minimize(problem, method="saga", tol=0.0, max_iter=7, measure_every=measure_every).trace
        assert (np.isnan(trace.column("objective")) == np.isnan(trace.column("optimality"))).all()
        return np.flatnonzero(np.isfinite(trace.column("objective"))).tolist()

    assert measured(0) == []
    assert measured(1) == list(range(8))
    assert measured(3) == [0, 3, 6]


class Clock:
    """A clock that only moves when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("measure_every", [0, 1, 2])
def test_seconds_are_those_of_passes_and_charged_checks(problem, monkeypatch, measure_every):
    clock, original = Clock(), runs.evaluate
    monkeypatch.setattr(runs.time, "perf_counter", clock)

    class Timed(FG):
        def run_pass(self, *args):
            clock.now += 1.0
            return super().run_pass(*args)

    def slow_evaluate(*args):
        clock.now += 1000.0
        return original(*args)

    def slow_callback(_result):
        clock.now += 50_000.0

    monkeypatch.setattr(runs, "evaluate", slow_evaluate)
    arguments = {"method": Timed(step_size=0.5), "measure_every": measure_every, "callback": slow_callback}
    result = minimize(problem, tol=0.0, max_iter=6, **arguments)
    np.testing.assert_array_equal(result.trace.column("seconds"), np.arange(7.0))
    assert result.seconds == 6.0
    result = minimize(problem, tol=1e-2, **arguments)
    assert result.success
    checks = result.n_passes - result.nit
    assert checks >= 1
    assert result.seconds == result.nit + 1000.0 * checks
    assert result.trace.column("seconds")[-1] == result.seconds - 1000.0  # what the iterate cost, its check not included


@pytest.mark.parametrize("name", SMOOTH)
def test_the_trace_is_in_order(problem, name):
    result = minimize(problem, method=name, tol=1e-7, max_iter=40)
    columns = result.trace.to_dict()
    assert list(columns) == ["n_passes", "n_hessian_passes", "seconds", "objective", "optimality", "estimate"]
    assert len(result.trace) == result.nit + 1
    assert (np.diff(columns["n_passes"]) > 0.0).all()
    assert (np.diff(columns["n_hessian_passes"]) >= 0.0).all()
    assert (np.diff(columns["seconds"]) >= 0.0).all()
    assert columns["n_passes"][-1] <= result.n_passes
    assert columns["objective"][0] == evaluate(problem, np.zeros(4)).objective
    assert columns["objective"][-1] == result.fun
    assert math.isnan(columns["estimate"][0])


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 1), (2, 5), (9, 5)])
def test_verbose(problem, capsys, verbose, lines):
    minimize(problem, **GIVEN, tol=0.0, max_iter=5, verbose=verbose)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == lines
    assert captured.err.count("optimality") == lines


# -- results


def test_the_result_is_scipys_with_all_that_the_run_found(problem):
    result = minimize(problem, method="saga", tol=1e-6)
    exact = evaluate(problem, result.x)
    assert isinstance(result, OptimizeResult)
    assert (result.fun, result.optimality) == (exact.objective, exact.optimality)
    np.testing.assert_array_equal(result.jac, exact.gradient)
    assert (result.success, result.status) == (True, 0)
    assert result.nit == len(result.trace) - 1
    assert result.n_passes == result.nit + result.nfev
    assert result.njev == result.n_passes * problem.n_components
    assert (result.nhev, result.n_hessian_passes) == (0, 0.0)
    assert [type(n) for n in (result.nit, result.nfev, result.njev, result.nhev)] == [int] * 4
    assert (result.method, result.seed, result.batch_size) == (SAGA(), 0, 2)
    assert set(flatten(result.state)) >= {"state.x", "state.table.slopes", "state.table.mean_gradient"}
    assert result.state.x.tobytes() == result.x.tobytes()
    assert f"{result.optimality:.3g}" in result.message


def test_max_iter_reached_at_the_optimum_is_success(problem, optimum):
    result = minimize(problem, optimum + 1e-12, method="ciag", options={"step_size": 1e-9}, tol=1e-10, max_iter=1)
    assert result.success


@pytest.mark.compiled
@pytest.mark.filterwarnings("error" if COMPILED else "ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", ["fg", *(pytest.param(name, marks=pytest.mark.slow) for name in ("iag", *INCREMENTAL))])
def test_a_divergence_is_reported_and_not_warned_of(problem, name):
    with np.errstate(all="warn"):
        assert minimize(problem, method=name, options={"step_size": 1e300}).reason is StopReason.DIVERGED


# -- going on


@pytest.mark.parametrize("name", ["a-ciag", "saga", "newton"])
def test_going_on_from_an_earlier_run_is_one_longer_run(name):
    problem = make_pair(n=40, d=4, alpha=0.05)[0]
    whole = minimize(problem, method=name, tol=0.0, max_iter=9, random_state=3)
    first = minimize(problem, method=name, tol=0.0, max_iter=4, random_state=3)
    rest = minimize(problem, method=name, tol=0.0, max_iter=whole.nit - first.nit + 1, earlier=first)
    assert rest.nit == whole.nit - first.nit
    assert np.array_equal(rest.x, whole.x)
    n_checks = 0 if hasattr(whole.method, "exact_measures") else 2  # at both ends
    assert rest.n_passes == pytest.approx(whole.n_passes - first.n_passes + n_checks)
    assert rest.trace.column("n_passes")[0] == 0.0


def test_an_earlier_run_has_to_fit():
    problem = make_pair(n=40, d=4, alpha=0.05)[0]
    earlier = minimize(problem, method="newton", max_iter=1)
    with pytest.raises(ValueError, match="earlier must be a result of SAGA"):
        minimize(problem, method="saga", earlier=earlier)
    with pytest.raises(ValueError, match="earlier goes without x0"):
        minimize(problem, np.zeros(problem.dim), method="newton", earlier=earlier)
    with pytest.raises(ValueError, match="earlier must be a result on this problem"):
        minimize(make_pair(n=40, d=3, alpha=0.05)[0], method="newton", earlier=earlier)


def test_a_result_is_shown_in_ten_lines_at_most():
    problem, _ = make_pair()
    result = minimize(problem, method="newton", tol=1e-8)
    lines = repr(result).splitlines()
    assert len(lines) <= 10
    assert lines[0].strip().startswith("message: Converged")
    assert max(map(len, lines)) < 160
    assert str(result) == repr(result)
    assert any("shape (6,)" in line for line in lines)
