"""The projected methods against their equations, step by step."""

import numpy as np
import pytest
import scipy.sparse
from oracles import heavy_ball as oracle, projections
from oracles.sums import Sum

from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, NonNegative, Simplex, Unconstrained
from finitesum.core.jit import COMPILED
from finitesum.methods import HB, NAG, PSG, SGD, AdaGrad, AdaHB, Adam, AMSGrad, RMSProp, SGDMomentum
from finitesum.methods.projected import base
from finitesum.methods.projected.base import advanced
from finitesum.methods.projected.sparse_steps import domain_for
from finitesum.problems.linear import Problem
from finitesum.running.sampling import order_of_pass

NORMAL = np.array([1.0, -2.0, 0.5, 0.0, 1.0])
SETS = {
    "free": (Unconstrained(), lambda x, s: x),
    "l1-ball": (L1Ball(0.7), lambda x, s: projections.onto_l1_ball(x, 0.7, s)),
    "l2-ball": (L2Ball(0.5), lambda x, s: projections.onto_l2_ball(x, 0.5, s)),
    "box": (Box(-0.2, 0.3), lambda x, s: np.clip(x, -0.2, 0.3)),
    "half-space": (HalfSpace(NORMAL, 0.1), lambda x, s: projections.onto_half_space(x, NORMAL, 0.1, s)),
}
N, D, T = 12, 5, 60  # the displacement form is chaotic on the l1 ball: no more steps than that


def data(seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < (0.4 if sparse else 0.9))
    y = np.where(X @ rng.standard_normal(D) + 0.3 * rng.standard_normal(N) > 0, 1.0, -1.0)
    y[:2] = [-1.0, 1.0]
    return X, y


def pair(which, *, loss="hinge", alpha=0.0, batch_size=1, intercept=False, form="dense", seed=0):
    X, y = data(seed, form != "dense")
    constraint, project = SETS[which]
    problem = Problem.linear(
        scipy.sparse.csr_array(X) if form == "csr" else X,
        y,
        loss=loss,
        alpha=alpha,
        constraint=constraint,
        batch_size=batch_size,
        fit_intercept=intercept,
    )
    F = Sum(X, y, loss, l2=alpha, batch_size=batch_size, intercept=intercept)

    def onto(x, s):
        return np.concatenate([project(x[:D], s[:D]), x[D:]])

    return problem, lambda x, j: F.loss_gradient(j, x) + F.l2 * x, onto


def orders(m, n_steps=T, seed=4):
    return order_of_pass("with-replacement", seed, 0, 10 * n_steps)[:n_steps] % m


def end(method, problem, order, x0):
    """Run the order in three pieces, so that states are passed on."""
    state = method.init(problem, x0)
    for piece in np.split(order, [1, 1 + order.size // 3]):
        state = method.run_pass(problem, state, piece)
    assert state.n_gradients == order.size
    return state


def mean_square():
    return oracle.MeanSquare(0.7, 1e-3)


A = 0.3
SQRT = oracle.lengths(A, "sqrt", None)
CONSTANT = oracle.lengths(A, "constant", None)
MS = {"gamma": 0.7, "delta": 1e-3}
#: method, and its oracle as (g, project, x, order) -> list of iterates.
CASES = {
    "psg": (PSG(A), lambda *p: oracle.displacement(*p, SQRT, beta=0.0)),
    "hb": (HB(A, form="displacement"), lambda *p: oracle.displacement(*p, SQRT)),
    "hb-constant": (HB(A, momentum=0.6, form="displacement"), lambda *p: oracle.displacement(*p, SQRT, beta=0.6)),
    "hb-averaging": (HB(A, form="averaging"), lambda *p: oracle.averaging(*p, SQRT)[0]),
    "hb-averaging-constant": (HB(A, momentum=0.6, form="averaging"), lambda *p: oracle.averaging(*p, SQRT, beta=0.6)[0]),
    "nag": (NAG(A), lambda *p: oracle.extrapolation(*p, A)),
    "adahb": (AdaHB(A, form="displacement", **MS), lambda *p: oracle.displacement(*p, SQRT, mean_square())),
    "adahb-constant": (
        AdaHB(A, momentum=0.6, form="displacement", **MS),
        lambda *p: oracle.displacement(*p, SQRT, mean_square(), 0.6),
    ),
    "adahb-euclidean": (
        AdaHB(A, form="displacement", projection="euclidean", **MS),
        lambda *p: oracle.displacement(*p, SQRT, mean_square(), weighted=False),
    ),
    "adahb-averaging": (AdaHB(A, form="averaging", **MS), lambda *p: oracle.averaging(*p, SQRT, mean_square())[0]),
    "adahb-averaging-constant": (
        AdaHB(A, momentum=0.6, form="averaging", **MS),
        lambda *p: oracle.averaging(*p, SQRT, mean_square(), 0.6)[0],
    ),
    "adahb-averaging-euclidean": (
        AdaHB(A, form="averaging", projection="euclidean", **MS),
        lambda *p: oracle.averaging(*p, SQRT, mean_square(), weighted=False)[0],
    ),
    "adagrad": (AdaGrad(A, delta=1e-3), lambda *p: oracle.displacement(*p, CONSTANT, oracle.SquareSum(1e-3), 0.0)),
    "rmsprop": (
        RMSProp(A, memory=0.8, delta=1e-3),
        lambda *p: oracle.displacement(*p, SQRT, oracle.Forgetting(0.8, 1e-3), 0.0),
    ),
    "rmsprop-mukkamala-hein": (
        RMSProp(A, variant="mukkamala-hein", memory=0.7, delta=1e-3),
        lambda *p: oracle.displacement(*p, SQRT, mean_square(), 0.0),
    ),
    "adam": (
        Adam(A, delta=1e-3),
        lambda *p: oracle.moments(*p, SQRT, oracle.Forgetting(0.999, 1e-3, corrected=True), 0.9, True),
    ),
    "amsgrad": (
        AMSGrad(A, beta2=0.9, delta=1e-3),
        lambda *p: oracle.moments(*p, SQRT, oracle.Forgetting(0.9, 1e-3, largest=True), 0.9, False),
    ),
    "sgd": (SGD(A, schedule="constant"), lambda *p: oracle.displacement(*p, CONSTANT, beta=0.0)),
    "sgd-momentum": (SGDMomentum(A, momentum=0.6), lambda *p: oracle.displacement(*p, SQRT, beta=0.6)),
    "sgd-momentum-torch": (SGDMomentum(A, momentum=0.6, variant="torch"), lambda *p: oracle.torch_momentum(*p, SQRT, 0.6)),
}
SETTINGS = [
    {"which": "l1-ball"},
    {"which": "l2-ball", "alpha": 0.1, "intercept": True},
    {"which": "box", "batch_size": 5, "intercept": True},
    {"which": "free", "batch_size": 12},
    {"which": "half-space"},
    {"which": "l1-ball", "form": "csr", "batch_size": 3, "intercept": True},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: "-".join(map(str, setting.values())))
@pytest.mark.parametrize("name", CASES)
def test_equals_its_equations_step_by_step(name, setting):
    problem, g, project = pair(**setting)
    method, recursion = CASES[name]
    order = orders(problem.n_components)
    x0 = project(0.1 * np.ones(problem.dim), np.ones(problem.dim))
    expected = recursion(g, project, x0, order)
    state = method.init(problem, x0)
    np.testing.assert_allclose(state.x, x0, atol=1e-15)
    for t in range(order.size):
        state = method.run_pass(problem, state, order[t : t + 1])
        np.testing.assert_allclose(state.x, expected[t + 1], rtol=1e-9, atol=1e-11, err_msg=f"step {t + 1}")


@pytest.mark.parametrize("kind", ["average", "suffix", "polynomial"])
@pytest.mark.parametrize("make", [PSG, HB, AdaHB, AdaGrad, SGD])
def test_outputs_are_the_means_of_the_points_where_subgradients_were_taken(make, kind):
    problem, _, _ = pair("l2-ball")
    order = orders(problem.n_components, 37)
    last, mean = make(A), make(A, output=kind)
    iterates = [last.init(problem, np.zeros(D))]
    state = mean.init(problem, np.zeros(D))
    for t in range(order.size):
        iterates.append(last.run_pass(problem, iterates[-1], order[t : t + 1]))
        state = mean.run_pass(problem, state, order[t : t + 1])
        expected = oracle.output([s.x for s in iterates], kind)
        np.testing.assert_allclose(state.x, expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(state.memory.iterate, iterates[-1].x)


@pytest.mark.parametrize("schedule", ["horizon", "linear", "constant"])
def test_schedules(schedule):
    problem, g, project = pair("l2-ball")
    order = orders(problem.n_components, 24)
    horizon = None if schedule == "constant" else 2
    x0 = np.zeros(D)
    length = oracle.lengths(A, schedule, 24)
    expected = {
        PSG: oracle.displacement(g, project, x0, order, length, beta=0.0),
        HB: oracle.displacement(g, project, x0, order, length),
        AdaHB: oracle.displacement(g, project, x0, order, length, oracle.MeanSquare(0.9, 1e-8)),
    }
    for make, iterates in expected.items():
        state = end(make(A, schedule=schedule, horizon=horizon), problem, order, x0)
        np.testing.assert_allclose(state.x, iterates[-1], rtol=1e-10, atol=1e-12)
    if schedule == "horizon":
        state = end(NAG(A, schedule=schedule, horizon=horizon), problem, order, x0)
        np.testing.assert_allclose(state.x, oracle.extrapolation(g, project, x0, order, A, 24)[-1], atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_start_outside_of_the_set_is_projected_and_all_iterates_are_feasible(name):
    problem, _, _ = pair("l1-ball", intercept=True)
    method, _ = CASES[name]
    state = method.init(problem, 5.0 * np.ones(D + 1))
    assert state.x[-1] == 5.0
    for j in orders(problem.n_components, 20):
        assert problem.constraint.contains(state.x[:D], 1e-9)
        if "averaging" in name:
            assert problem.constraint.contains(state.memory.companion[:D], 1e-9)
        state = method.run_pass(problem, state, np.array([j]))


DEFERRED_METHODS = {
    "psg": PSG(A),
    "psg-average": PSG(A, output="average"),
    "hb": HB(A, form="averaging"),
    "adahb": AdaHB(A, delta=1e-12, form="averaging"),  # between touches delta falls like t^(-gamma/2), not t^(-1/2)
    "adahb-1": AdaHB(0.05, gamma=1.0, form="averaging"),
    "adahb-euclidean": AdaHB(A, delta=1e-12, form="averaging", projection="euclidean"),
    "adagrad": AdaGrad(A),
    "rmsprop": RMSProp(A, variant="mukkamala-hein", delta=1e-12),
}
DEFERRED_SETS = {
    "free": None,
    "l1-ball": L1Ball(1.5),
    "l2-ball": L2Ball(0.8),
    "box": Box(-0.1, 0.2),
    "orthant": NonNegative(),
}


def wide_problem(constraint, batch_size=1, intercept=False, n=40, d=100, seed=1):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((n, d), density=9 / d, rng=rng, data_sampler=rng.standard_normal, format="csr")
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return Problem.linear(X, y, loss="hinge", constraint=constraint, batch_size=batch_size, fit_intercept=intercept)


@pytest.mark.parametrize(
    "which", [pytest.param(which, marks=[pytest.mark.compiled] * (which == "l1-ball")) for which in DEFERRED_SETS]
)
@pytest.mark.parametrize("name", DEFERRED_METHODS)
def test_deferred_projections_equal_those_of_each_step(name, which, monkeypatch):
    monkeypatch.setattr(base, "STEPS_TO_REBUILD", 1)
    compiled = COMPILED and which == "l1-ball"
    method = DEFERRED_METHODS[name]
    for batch_size, intercept in ((1, False), (3, True)):
        problem = wide_problem(DEFERRED_SETS[which], batch_size, intercept, d=300 if compiled else 100)
        rule = method.rule(problem)
        if domain_for(problem, rule) is None:
            assert which == "l2-ball"
            assert rule.is_weighted
            continue
        x0 = 0.01 * np.random.default_rng(0).standard_normal(problem.dim)
        deferred = plain = method.init(problem, x0)
        for k, n_steps in enumerate((700, 100) if compiled else (90, 30)):
            order = order_of_pass("with-replacement", 0, k, 1000)[:n_steps] % problem.n_components
            deferred = advanced(problem, rule, deferred, order, is_deferred=True)
            plain = advanced(problem, rule, plain, order, is_deferred=False)
            assert deferred.n_gradients == plain.n_gradients
            for one, other in zip(deferred.memory, plain.memory, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(deferred.x, plain.x, rtol=1e-9, atol=1e-9)
        assert np.abs(plain.x).max() > 1e-3  # something happened


def test_the_scale_of_the_deferred_l2_ball_may_fall_by_any_factor():
    problem = wide_problem(L2Ball(1e-8))
    order = order_of_pass("with-replacement", 0, 0, 400) % problem.n_components
    state = {}
    for is_deferred in (False, True):
        start = PSG(1.0, schedule="constant").init(problem, np.zeros(problem.dim))
        state[is_deferred] = advanced(
            problem, PSG(1.0, schedule="constant").rule(problem), start, order, is_deferred=is_deferred
        )
    np.testing.assert_allclose(state[True].x, state[False].x, rtol=1e-7, atol=1e-16)


def test_auto_form_averages_on_wide_sparse_rows_only():
    wide = wide_problem(L1Ball(1.0), d=5001)
    assert HB().rule(wide).form != HB().rule(wide_problem(L1Ball(1.0))).form
    assert HB().rule(wide) == HB(form="averaging").rule(wide)
    assert HB(momentum=0.5).rule(wide) == HB(momentum=0.5, form="displacement").rule(wide)


def test_delta_must_be_given_where_the_metric_would_be_degenerate():
    X, y = data()
    problem = Problem.linear(X, y, loss="hinge", constraint=Simplex(1.0))
    for method in (AdaHB(), AdaGrad(), RMSProp(), Adam(), AMSGrad()):
        with pytest.raises(ValueError, match="delta must be given on a Simplex"):
            method.init(problem, np.zeros(D))
    assert AdaHB(delta=1e-3).init(problem, np.zeros(D)).x.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: PSG(-1.0), "step_size must be > 0"),
        (lambda: PSG(schedule="linear"), "needs horizon"),
        (lambda: HB(horizon=5), "horizon goes with"),
        (lambda: HB(momentum=1.0), "momentum must be"),
        (lambda: HB(momentum="fast"), "momentum must be one of"),
        (lambda: HB(form="both"), "form must be one of"),
        (lambda: NAG(schedule="horizon", horizon=-1), "horizon must be > 0"),
        (lambda: AdaHB(gamma=1.5), "gamma must lie in"),
        (lambda: AdaHB(gamma=0.0), "gamma must lie in"),
        (lambda: AdaHB(delta=-1.0), "delta must be"),
        (lambda: AdaHB(projection="none"), "projection must be one of"),
        (lambda: AdaHB(output="first"), "output must be one of"),
        (lambda: RMSProp(variant="keras"), "variant must be one of"),
        (lambda: RMSProp(memory=1.0), "memory must lie in"),
        (lambda: RMSProp(variant="mukkamala-hein", memory=2.0), "gamma must lie in"),
        (lambda: Adam(beta1=1.0), "beta1 must lie in"),
        (lambda: Adam(beta2=1.0), "beta2 must lie in"),
        (lambda: SGDMomentum(variant="nesterov"), "variant must be one of"),
    ],
)
def test_refuses_what_is_out_of_range(make, match):
    with pytest.raises(ValueError, match=match):
        make()
