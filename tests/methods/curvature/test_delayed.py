"""Visits that are asked for ahead: the recursion by a recorded order of events, bounded ages, the same bits, the choice."""

import functools

import numpy as np
import pytest
from oracles.methods import delayed_ciag, delayed_saga
from oracles.sums import Sum

from finitesum import FiniteSum, Problem, minimize
from finitesum.constraints import Box
from finitesum.core.engine import Threads
from finitesum.evaluation.part_components import parts_as_components
from finitesum.methods import ACIAG, CIAG, SAGA
from finitesum.methods.delayed_visits import ASYNCHRONOUS, SYNCHRONOUS, Limits, Visits, seconds_of_visits

M, SIZE = 8, 20

SETTINGS = {
    "l2": {"alpha": 0.05},
    "elastic net": {"alpha": 0.05, "l1_ratio": 0.5},
    "intercept": {"alpha": 0.05, "fit_intercept": True},
}


class Adversary(Threads):
    """An engine whose results come in an order of its own: by lot, or the newest first."""

    def __init__(self, seed=None):
        super().__init__(4)
        self.rng = None if seed is None else np.random.default_rng(seed)

    def as_completed(self, futures):
        for k in range(len(futures))[::-1] if self.rng is None else self.rng.permutation(len(futures)):
            futures[k].exception()  # waits for it
            yield futures[k]


@functools.cache
def rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((M * SIZE, 4)) * [1.0, 2.0, 0.5, 1.0]
    return X, np.where(rng.random(M * SIZE) < 1.0 / (1.0 + np.exp(-X @ [1.0, -1.0, 2.0, 0.0])), 1.0, -1.0)


def parted(engine=None, **settings):
    X, y = rows()
    y = np.digitize(X[:, 0], [-0.5, 0.5]) if settings.get("loss") == "multinomial" else y
    parts = [(X[k : k + SIZE], y[k : k + SIZE]) for k in range(0, M * SIZE, SIZE)]
    return Problem.partitioned(parts, engine=engine, **{"loss": "logistic", "alpha": 0.01, **settings})


@pytest.fixture
def events(monkeypatch):
    """What a run asks for (True) and takes (False), with the component, in their order."""
    recorded, ask, take = [], Visits.ask, Visits.take

    def asking(self, w):
        n = len(self.waiting)
        ask(self, w)
        recorded.extend((True, visit.component) for visit in self.waiting[n:])

    def taking(self):
        visit = take(self)
        recorded.append((False, visit[0]))
        return visit

    monkeypatch.setattr(Visits, "ask", asking)
    monkeypatch.setattr(Visits, "take", taking)
    return recorded


@pytest.mark.parametrize("max_delay", [1, 3, 30])
@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_iterates_are_those_of_the_recorded_events(asynchronous, setting, seed, max_delay, events):
    problem = parted(Adversary(seed), **SETTINGS[setting])
    method = ACIAG(step_size=0.2, extrapolation=0.5, max_delay=max_delay, asynchronous=asynchronous)
    found = []
    minimize(problem, method=method, tol=0.0, max_iter=5, measure_every=0, callback=lambda report: found.append(report.x))
    settings = SETTINGS[setting]
    alpha, l1_ratio = settings["alpha"], settings.get("l1_ratio", 0.0)
    F = Sum(*rows(), l1=alpha * l1_ratio, l2=alpha * (1 - l1_ratio), intercept="fit_intercept" in settings, batch_size=SIZE)
    expected = list(delayed_ciag(F, np.zeros(F.dim), events, 0.2, 0.5))[M - 1 :: M]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("max_delay", [1, 3, 30])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_iterates_of_saga_are_those_of_the_recorded_events(asynchronous, setting, max_delay, events):
    problem, settings, found = parted(Adversary(0), **SETTINGS[setting]), SETTINGS[setting], []
    method = SAGA(step_size=0.2, max_delay=max_delay, asynchronous=asynchronous)
    minimize(problem, method=method, tol=0.0, max_iter=5, measure_every=0, callback=lambda report: found.append(report.x))
    alpha, l1_ratio = settings["alpha"], settings.get("l1_ratio", 0.0)
    F = Sum(*rows(), l1=alpha * l1_ratio, l2=alpha * (1 - l1_ratio), intercept="fit_intercept" in settings, batch_size=SIZE)
    expected = list(delayed_saga(F, np.zeros(F.dim), events, 0.2))[M - 1 :: M]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("cls", [ACIAG, SAGA])
@pytest.mark.parametrize("seed", [None, 0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("max_delay", [1, 2, 5, 20])
def test_no_change_is_older_than_max_delay(max_delay, seed, cls, events):
    method = cls(max_delay=max_delay, asynchronous=True)
    assert minimize(parted(Adversary(seed)), method=method, tol=1e-9, measure_every=0).success
    step, since, ages = 0, {}, []
    for asks, j in events:
        if asks:
            since[j] = step
        else:
            ages.append(step - since[j])
            step += 1
    assert max(ages) <= max_delay
    assert max(ages) >= min(max_delay, 3)  # the adversary makes use of it


@pytest.mark.parametrize("cls", [CIAG, ACIAG, SAGA])
@pytest.mark.parametrize("max_delay", [2, "auto"])
@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared"])
def test_taken_in_order_the_bits_do_not_depend_on_the_workers(loss, max_delay, cls):
    method = cls(max_delay=max_delay, asynchronous=False)
    problems = (parted(Threads(n), loss=loss, alpha=0.1) for n in (1, 2, 7))
    runs = [minimize(problem, method=method, tol=1e-9, measure_every=0) for problem in problems]
    assert all(run.success for run in runs)
    assert len({run.x.tobytes() for run in runs}) == 1
    assert "synchronous" in runs[0].message


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (ACIAG, {"alpha": 0.05, "l1_ratio": 1.0}),
        (ACIAG, {"constraint": Box(-0.2, 0.3)}),
        (ACIAG, {"groups": [0, 0, 1, 1]}),
        (SAGA, {"alpha": 0.05, "l1_ratio": 1.0}),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_optima_are_those_of_other_methods(cls, asynchronous, settings):
    in_memory = Problem.linear(*rows(), **{"alpha": 0.01, **settings})
    expected = minimize(in_memory, tol=1e-10, max_iter=20_000, measure_every=0)
    method = cls(max_delay="auto", asynchronous=asynchronous)
    found = minimize(parted(Adversary(0), **settings), method=method, tol=1e-9, measure_every=0)
    assert found.success
    np.testing.assert_allclose(found.x, expected.x, atol=1e-6)


@pytest.mark.parametrize("cls", [ACIAG, SAGA])
def test_functions_are_visited_as_parts_are(cls):
    problem = parts_as_components(parted())
    as_functions = FiniteSum([_Plain(part) for part in problem.components], problem.dim, penalty=problem.penalty)
    method = cls(max_delay=3, asynchronous=False)
    runs = [minimize(one, method=method, tol=1e-10, measure_every=0) for one in (problem, as_functions)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-9)
    assert runs[0].n_passes == runs[1].n_passes


class _Plain:
    """A component without an engine."""

    def __init__(self, part):
        self.value, self.gradient, self.hessian = part.value, part.gradient, part.hessian


@pytest.mark.parametrize("cls", [ACIAG, SAGA])
@pytest.mark.parametrize("cut", [1, 2, 4])
def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted(cut, cls, tmp_path):
    settings = {"method": cls(max_delay=3, asynchronous=False), "tol": 1e-10, "measure_every": 0}
    whole = minimize(parted(), **settings)
    file = tmp_path / "run.ckpt"
    minimize(parted(Threads(1)), max_iter=cut, checkpoint=file, **settings)
    resumed = minimize(parted(Threads(3)), checkpoint=file, resume=True, **settings)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.n_passes == whole.n_passes


def test_a_slow_part_is_visited_less_often_and_holds_up_nobody():
    seconds = np.ones(32)
    seconds[3] = 20.0
    limits = Limits(8, 128)
    both = [seconds_of_visits(seconds, 4, limits, mode) for mode in (SYNCHRONOUS, ASYNCHRONOUS)]
    assert both[0] > 1.5 * both[1]
    assert both[1] == pytest.approx(3 * 32 / 4, rel=0.35)
    even = [seconds_of_visits(np.ones(32), 4, limits, mode) for mode in (SYNCHRONOUS, ASYNCHRONOUS)]
    assert even[0] == pytest.approx(even[1])


@pytest.mark.parametrize(("slow", "how"), [(1.0, "(synchronous)"), (30.0, "(asynchronous)")])
def test_what_the_first_pass_took_decides(slow, how, monkeypatch):
    take = Visits.take

    def timed(self):
        visit = take(self)
        self.seconds[visit[0]] = slow if visit[0] == 3 else 1.0
        return visit

    monkeypatch.setattr(Visits, "take", timed)
    result = minimize(parted(Threads(2)), method=ACIAG(max_delay="auto"), tol=1e-9, measure_every=0)
    assert result.success
    assert how in result.message


def test_functions_that_overflow_are_stepped_back_from():
    X, y = rows()
    settings = {"loss": "poisson", "alpha": 0.01}
    parts = [(20.0 * X[k : k + SIZE], np.abs(y[k : k + SIZE])) for k in range(0, M * SIZE, SIZE)]
    method = ACIAG(max_delay=3, asynchronous=False)
    result = minimize(Problem.partitioned(parts, **settings), method=method, tol=1e-8, measure_every=0)
    assert result.success


def test_what_does_not_go_is_said():
    with pytest.raises(ValueError, match="max_delay is for rows in parts and for components given as functions"):
        minimize(Problem.linear(*rows()), method=ACIAG(max_delay=3))
    with pytest.raises(ValueError, match="max_delay is for rows in parts and for components given as functions"):
        minimize(Problem.linear(*rows()), method=SAGA(max_delay=3))
    with pytest.raises(ValueError, match="max_delay goes without restart and warm_start_method"):
        ACIAG(max_delay=3, warm_start_method="full")
    with pytest.raises(ValueError, match="max_delay must be"):
        ACIAG(max_delay=-1)
    with pytest.raises(ValueError, match="asynchronous must be one of"):
        ACIAG(max_delay=1, asynchronous="yes")
