"""What every registered method must do. A new method adds a row to COUNTS and, with its oracle, one to ORACLES.

The product of methods and settings runs as Python; compiled code is compared with Python's on a covering subset.
"""

import copy
from itertools import islice

import numpy as np
import pytest
from contracts.problems import FORMATS, as_format, make_pair
from oracles import heavy_ball, hinge, iqn, lazy_newton, methods as oracles, newton_type, svrg, svrg2

from finitesum import METHODS, Problem, minimize
from finitesum.constraints import Box
from finitesum.core.jit import as_python
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import InverseGaussian, Tweedie
from finitesum.methods.base import is_suited
from finitesum.methods.newton.newton_cg import FEW_PRODUCTS
from finitesum.running.checkpoint import flatten, unflatten
from finitesum.running.sampling import order_of_pass


def projected(recursion, output="last"):
    """Return an oracle like the others from one of the projected methods, which count steps, not passes."""

    def run(F, x, orders):
        order, ends = np.concatenate(orders), np.cumsum([len(order) for order in orders])
        start = F.prox_in(x, np.ones(F.dim))
        iterates = recursion(lambda w, j: F.loss_gradient(j, w) + F.l2 * w, F.prox_in, start, order)
        yield from (heavy_ball.output(iterates[: end + 1], output) for end in ends)

    return run


ROOT = heavy_ball.lengths(0.2, "sqrt", None)
CONSTANT = heavy_ball.lengths(0.2, "constant", None)
METRIC = {"step_size": 0.2, "delta": 1e-3}

#: Options under which a method runs the recursion of its oracle, and the oracle's own.
ORACLES = {
    "fg": ({"step_size": 0.8}, lambda F, x, orders: oracles.fg(F, x, orders, 0.8)),
    "afg": ({"step_size": 0.5, "momentum": 0.6}, lambda F, x, orders: oracles.afg(F, x, orders, 0.5, 0.6)),
    "ig": ({"step_size": 0.2}, lambda F, x, orders: oracles.ig(F, x, orders, 0.2)),
    "iag": ({"step_size": 0.05}, lambda F, x, orders: oracles.aggregated(F, x, orders, 0.05)),
    "sag": ({"step_size": 0.1}, lambda F, x, orders: oracles.aggregated(F, x, orders, 0.1)),
    "saga": ({"step_size": 0.07}, lambda F, x, orders: oracles.saga(F, x, orders, 0.07)),
    "ciag": ({"step_size": 0.3}, lambda F, x, orders: oracles.ciag(F, x, orders, 0.3, 0.0)),
    "a-ciag": ({"step_size": 0.2, "extrapolation": 0.5}, lambda F, x, orders: oracles.ciag(F, x, orders, 0.2, 0.5)),
    "svrg": ({"step_size": 0.07}, lambda F, x, orders: svrg.svrg(F, x, orders, 0.07)),
    "acc-svrg": ({"step_size": 0.07, "momentum": 0.6}, lambda F, x, orders: svrg.acc_svrg(F, x, orders, 0.07, 0.6)),
    "sarah": ({"step_size": 0.1}, lambda F, x, orders: oracles.sarah(F, x, orders, 0.1)),
    "svrg2": ({"step_size": 0.1}, lambda F, x, orders: svrg2.svrg2(F, x, orders, 0.1, "full")),
    "nim": (
        {"step_size": 0.8, "solver": "exact", "warm_start_method": "full"},
        lambda F, x, orders: newton_type.nim(F, x, orders, 0.8, full=True),
    ),
    "iqn": (
        {"step_size": 0.6, "initial": 0.7},
        lambda F, x, orders: (state[0] for state in iqn.iqn(F, x, orders, 0.7, 0.6)),
    ),
    "newton": ({"step_size": 0.7}, lambda F, x, orders: newton_type.newton(F, x, len(orders), 0.7)),
    "lazy-newton": (
        {"first_rows": 1000},  # all rows from the start
        lambda F, x, orders: (x for x, _ in lazy_newton.lazy_newton(F, F.loss_name, x, len(orders), F.costs, target=1e-14)),
    ),
    "newton-cg": (
        {"first_rows": 1000},
        lambda F, x, orders: islice(
            lazy_newton.by_passes(lazy_newton.newton_cg(F, F.loss_name, x, len(orders), 1e-14), FEW_PRODUCTS), len(orders)
        ),
    ),
    "lbfgs": ({"first_rows": 1000}, lambda F, x, orders: lazy_newton.lbfgs(F, F.loss_name, x, len(orders))),
    "working-set-newton": (
        {"first_columns": 1000},  # all columns
        lambda F, x, orders: islice(lazy_newton.working_set_newton(F, F.loss_name, x, F.costs, 1e-14), len(orders)),
    ),
    "coordinate-descent": ({"first_columns": 1000}, newton_type.newton_to_the_end),  # in one pass, where rows are few
    "interior-point": ({}, hinge.interior_points),
    "dual-ascent": ({"epochs": 2}, lambda F, x, orders: hinge.dual_ascent(F, x, orders, 2)),
    "semismooth-newton": ({}, hinge.semismooth_newton),
    "linear-program": ({}, hinge.linear_program),
    "psg": ({"step_size": 0.2}, projected(lambda *p: heavy_ball.displacement(*p, ROOT, beta=0.0))),
    "hb": ({"step_size": 0.2}, projected(lambda *p: heavy_ball.displacement(*p, ROOT))),
    "nag": ({"step_size": 0.2}, projected(lambda *p: heavy_ball.extrapolation(*p, 0.2))),
    "adahb": (METRIC, projected(lambda *p: heavy_ball.displacement(*p, ROOT, heavy_ball.MeanSquare(0.9, 1e-3)))),
    "adagrad": (METRIC, projected(lambda *p: heavy_ball.displacement(*p, CONSTANT, heavy_ball.SquareSum(1e-3), 0.0))),
    "rmsprop": (METRIC, projected(lambda *p: heavy_ball.displacement(*p, ROOT, heavy_ball.Forgetting(0.9, 1e-3), 0.0))),
    "adam": (
        METRIC,
        projected(lambda *p: heavy_ball.moments(*p, ROOT, heavy_ball.Forgetting(0.999, 1e-3, True), 0.9, True)),
    ),
    "amsgrad": (
        METRIC,
        projected(lambda *p: heavy_ball.moments(*p, ROOT, heavy_ball.Forgetting(0.999, 1e-3, largest=True), 0.9, False)),
    ),
    "sgd": ({"step_size": 0.2}, projected(lambda *p: heavy_ball.displacement(*p, ROOT, beta=0.0))),
    "sgd-momentum": (
        {"step_size": 0.2, "momentum": 0.5},
        projected(lambda *p: heavy_ball.displacement(*p, ROOT, beta=0.5)),
    ),
}

#: Options that make another recursion of a method, by method and name, and its oracle.
FORMS = {
    **{
        ("svrg2", kind): (
            {"step_size": 0.1, "hessian": kind, "rank": 3, "seed": 11},
            lambda F, x, orders, kind=kind: svrg2.svrg2(F, x, orders, 0.1, kind, seed=11),
        )
        for kind in ("2D", "2Dsec", "CM", "AM")
    },
    ("nim", "inexact"): ({"step_size": 0.8}, lambda F, x, orders: newton_type.nim(F, x, orders, 0.8, solver="inexact")),
    **{
        ("psg", output): (
            {"step_size": 0.2, "output": output},
            projected(lambda *p: heavy_ball.displacement(*p, ROOT, beta=0.0), output),
        )
        for output in ("average", "suffix", "polynomial")
    },
    **{
        ("hb", f"averaging, {output}"): (
            {"step_size": 0.2, "momentum": 0.6, "form": "averaging", "output": output},
            projected(lambda *p: heavy_ball.averaging(*p, ROOT, beta=0.6)[0], output),
        )
        for output in ("last", "average", "suffix", "polynomial")
    },
    **{
        ("adahb", f"averaging, {output}"): (
            {**METRIC, "form": "averaging", "output": output},
            projected(lambda *p: heavy_ball.averaging(*p, ROOT, heavy_ball.MeanSquare(0.9, 1e-3))[0], output),
        )
        for output in ("last", "average", "suffix", "polynomial")
    },
}

#: Methods whose iterates amplify rounding errors where a constraint acts: how far they may be from their oracle.
CLOSE = dict.fromkeys(sorted(name for name, cls in METHODS.items() if "nonsmooth" in cls.handles), 1e-9)

#: Methods whose oracle has smooth problems alone, and single-precision curvatures that rounding errors may decide about.
SMOOTH = ("lazy-newton", "newton-cg", "lbfgs", "working-set-newton")
CLOSE |= dict.fromkeys((*SMOOTH, "coordinate-descent"), 1e-7)

#: Methods for one kind of problem alone: a problem of this kind, what they say of others, and what they go on to treat.
OWN = {
    "interior-point": {"loss": "hinge", "alpha": 0.05},
    "dual-ascent": {"loss": "hinge", "alpha": 0.05},
    "semismooth-newton": {"loss": "hinge", "alpha": 0.05},
    "linear-program": {"loss": "hinge", "alpha": 0.0, "constraint": "l1-ball"},
}
SAYS = {name: f"{name} needs the hinge" for name in OWN}
SAYS |= {name: f"{name} needs a loss with corners" for name in ("dual-ascent", "semismooth-newton")}
FITS = {
    "interior-point": lambda loss="logistic", **more: loss == "hinge",
    "dual-ascent": lambda loss="logistic", alpha=0.05, **more: loss.endswith("hinge") and alpha > 0.0,
    "semismooth-newton": lambda loss="logistic", alpha=0.05, **more: loss == "hinge" and alpha > 0.0,
    "linear-program": lambda loss="logistic", alpha=0.05, constraint=None, **more: (
        loss == "hinge" and alpha == 0.0 and constraint in ("l1-ball", "box")
    ),
}

SAYS["coordinate-descent"] = "coordinate-descent needs a separable penalty"
FITS["coordinate-descent"] = lambda constraint=None, **more: constraint in (None, "box")

#: Methods that read all rows, in any order.
WITHOUT_VISITS = {*SMOOTH, "coordinate-descent"}

#: Projected methods, which end far from the minimum.
PROJECTED = sorted(set(CLOSE) - set(OWN) - WITHOUT_VISITS)

#: Component gradients and Hessians that k passes over m components cost.
COUNTS = {
    "fg": lambda k, m: (k * m, 0),
    "afg": lambda k, m: (k * m, 0),
    "ig": lambda k, m: (k * m, 0),
    "iag": lambda k, m: (k * m, 0),
    "sag": lambda k, m: (k * m, 0),
    "saga": lambda k, m: (k * m, 0),
    "ciag": lambda k, m: (k * m, k * m),
    "a-ciag": lambda k, m: (k * m, k * m),
    "svrg": lambda k, m: ((1 + 2 * k) * m, 0),
    "acc-svrg": lambda k, m: ((1 + 2 * k) * m, 0),
    "sarah": lambda k, m: (3 * k * m, 0),
    "svrg2": lambda k, m: ((1 + 2 * k) * m, (1 + k) * m),
    "nim": lambda k, m: ((1 + k) * m, (1 + k) * m),
    "iqn": lambda k, m: ((1 + k) * m, 0),
    "newton": lambda k, m: ((1 + k) * m, k * m),
    "interior-point": lambda k, m: ((1 + 5 * k) * m, k * m),
    "linear-program": lambda k, m: (k * m, 0),
    **dict.fromkeys(PROJECTED, lambda k, m: (k * m, 0)),
}

#: Methods that do not reach high accuracy: their tolerance in the stopping test.
LOOSE = {"ig": 2e-2, "iag": 1e-5, **dict.fromkeys(PROJECTED, 4e-2)}

#: All that treat one output: the others have their rows in the table of several outputs.
ALL = sorted(set(METHODS) - {"multinomial-newton", "multinomial-lbfgs", "multinomial-working-set"})
WITH_ORACLE = sorted(ORACLES)


@pytest.fixture(autouse=True)
def _oracles_of_whole_runs(monkeypatch):
    """Let the first pass of coordinate descent reach the minimum, where its oracle is: that says nothing of its models."""
    monkeypatch.setattr("finitesum.methods.newton.coordinate_descent.SOME_PASSES", 1000)


def run(method, problem, x0, orders):
    state = method.init(problem, x0)
    for order in orders:
        state = method.run_pass(problem, state, order)
        yield state


def refused(name, setting):
    """What is said of a setting that a method cannot treat; empty where it can."""
    asked = {
        "constraint": ("constraint" in setting, "a constraint"),
        "l1": (setting.get("l1_ratio", 0.0) > 0.0, "an l1 penalty"),
        "nonsmooth": (setting.get("loss") == "hinge", "the nonsmooth loss Hinge"),
    }
    what = next((what for key, (is_so, what) in asked.items() if is_so and key not in METHODS[name].handles), "")
    if what:
        return f"{name} cannot treat {what}"
    return "" if name not in FITS or FITS[name](**setting) else SAYS[name]


def orders_of(method, m, n_passes=4, seed=3, sampling="with-replacement"):
    return [order_of_pass(sampling, seed, k, m) for k in range(n_passes)]


def start(problem, seed=5):
    return np.random.default_rng(seed).standard_normal(problem.dim)


#: (format, problem): the common problems in every format, the others in one each.
SETTINGS = [
    *((form, {}) for form in FORMATS),
    *((form, {"batch_size": 4, "intercept": True, "weighted": True}) for form in FORMATS),
    *((form, {"l1_ratio": 0.7, "alpha": 0.1, "intercept": True}) for form in FORMATS),
    *((form, {"batch_size": 23, "l1_ratio": 0.3}) for form in FORMATS),
    ("csr32", {"loss": "squared", "alpha": 0.0, "batch_size": 2}),
    ("dense", {"loss": "poisson", "weighted": True, "intercept": True}),
    ("csr32", {"loss": "huber", "batch_size": 3}),
    ("dense", {"loss": "squared-hinge", "l1_ratio": 0.5}),
    ("csr32", {"loss": "smoothed-hinge", "weighted": True, "batch_size": 5}),
    ("csr32", {"constraint": "l1-ball", "intercept": True, "batch_size": 2}),
    ("dense", {"constraint": "box"}),
    ("csr32", {"loss": "hinge", "alpha": 0.0, "constraint": "l1-ball", "weighted": True}),
    ("dense", {"loss": "hinge", "intercept": True, "constraint": "l2-ball", "batch_size": 23}),
    ("csr32", {"loss": "hinge", "intercept": True, "weighted": True, "batch_size": 4}),
]

#: (format, type, problem) beside the plain one: the methods of a module, which share kernels, are compiled for one of those
#: that they treat, in turn.
COMPILED = [
    ("csr32", np.float64, {"batch_size": 4, "intercept": True, "weighted": True}),
    ("csr64", np.float32, {"l1_ratio": 0.7, "alpha": 0.1, "intercept": True}),
    ("dense", np.float32, {"constraint": "l2-ball", "intercept": True, "batch_size": 2}),
    ("csr32", np.float64, {"loss": "hinge", "constraint": "l1-ball", "batch_size": 23}),
]
MODULES = sorted({METHODS[name].__module__ for name in ALL})


def covering():
    """Return a small set of (method, format, type, problem) in which every value of each is compiled."""
    for name in ALL:
        yield name, "dense", np.float64, OWN.get(name, {})
        k = MODULES.index(METHODS[name].__module__) % len(COMPILED)
        others = [row for row in [*COMPILED[k:], *COMPILED[:k]] if not (name in OWN or refused(name, row[2]))]
        yield from ((name, *row) for row in others[:1])


def setting_id(value):
    if isinstance(value, type):
        return value.__name__
    return value if isinstance(value, str) else "-".join(f"{k}={v}" for k, v in value.items()) or "plain"


@pytest.mark.parametrize("name", WITH_ORACLE)
@pytest.mark.parametrize(("form", "setting"), SETTINGS, ids=setting_id)
def test_equals_its_oracle_pass_by_pass(name, form, setting):
    problem, oracle = make_pair(form, **setting)
    if said := refused(name, setting):
        with pytest.raises(ValueError, match=said):
            minimize(problem, method=name)
        return
    if (name in SMOOTH and not problem.is_smooth) or (name == "interior-point" and problem.is_constrained):
        pytest.skip("its oracle has no sets, and but for interior points smooth problems alone")
    options, recursion = ORACLES[name]
    method = METHODS[name](**options)
    orders = orders_of(method, problem.n_components)
    x0 = 0.3 * start(problem)
    for state, expected in zip(run(method, problem, x0, orders), recursion(oracle, x0, orders), strict=True):
        np.testing.assert_allclose(state.x, expected, rtol=CLOSE.get(name, 1e-12), atol=CLOSE.get(name, 1e-12))


@pytest.mark.parametrize(("name", "kind"), FORMS, ids=setting_id)
@pytest.mark.parametrize(("form", "setting"), SETTINGS, ids=setting_id)
def test_other_forms_equal_their_oracles_pass_by_pass(name, kind, form, setting):
    problem, oracle = make_pair(form, **setting)
    if refused(name, setting):
        pytest.skip("what it says of this is checked with the method's first form")
    if kind == "inexact" and not problem.is_smooth:
        pytest.skip("what an inexact minimiser may be is checked with the Newton-type methods")
    options, recursion = FORMS[name, kind]
    method, orders, x0 = METHODS[name](**options), orders_of(None, problem.n_components), 0.3 * start(problem)
    close = CLOSE.get(name, 1e-9 if kind == "inexact" else 1e-12)  # conjugate gradients amplify rounding errors
    for state, expected in zip(run(method, problem, x0, orders), recursion(oracle, x0, orders), strict=True):
        np.testing.assert_allclose(state.x, expected, rtol=close, atol=close)


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "form", "dtype", "setting"), list(covering()), ids=setting_id)
def test_compiled_code_makes_the_iterates_of_python(name, form, dtype, setting):
    problem, _ = make_pair(form, dtype=dtype, **setting)
    method = METHODS[name](**ORACLES.get(name, ({},))[0])
    orders, x0 = orders_of(method, problem.n_components), 0.3 * start(problem)
    compiled = list(run(method, problem, x0, orders))
    with as_python():
        expected = list(run(method, make_pair(form, dtype=dtype, **setting)[0], x0, orders))
    for one, other in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(one.x, other.x, rtol=CLOSE.get(name, 1e-12), atol=CLOSE.get(name, 1e-12))
    state = unflatten(method.state_type, {key: np.array(value) for key, value in flatten(compiled[1]).items()})
    for order in orders[2:]:
        state = method.run_pass(problem, state, order)
    assert state.x.tobytes() == compiled[-1].x.tobytes()


@pytest.mark.parametrize("name", WITH_ORACLE)
def test_float32_rows_are_summed_in_float64(name):
    problem, oracle = make_pair("dense", dtype=np.float32, batch_size=3, **OWN.get(name, {}))
    assert problem.rows.values.dtype == np.float32
    options, recursion = ORACLES[name]
    method = METHODS[name](**options)
    orders = orders_of(method, problem.n_components)
    x0 = start(problem)
    for state, expected in zip(run(method, problem, x0, orders), recursion(oracle, x0, orders), strict=True):
        np.testing.assert_allclose(state.x, expected, rtol=CLOSE.get(name, 1e-12), atol=CLOSE.get(name, 1e-12))


@pytest.mark.parametrize("name", ALL)
def test_leaves_the_start_and_earlier_states_alone(name):
    problem, _ = make_pair(batch_size=2, **OWN.get(name, {}))
    method = METHODS[name]()
    x0 = start(problem)
    kept = x0.copy()
    state = method.init(problem, x0)
    for order in orders_of(method, problem.n_components):
        before = copy.deepcopy(state)
        after = method.run_pass(problem, state, order)
        for key, value in flatten(before).items():
            np.testing.assert_array_equal(flatten(state)[key], value, err_msg=key)
        state = after
    np.testing.assert_array_equal(x0, kept)


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("name", ALL)
def test_goes_on_from_a_stored_state_to_the_same_bits(name, form):
    problem, _ = make_pair(form, batch_size=2, **OWN.get(name, {}))
    method = METHODS[name]()
    orders = orders_of(method, problem.n_components, n_passes=6)
    whole = list(run(method, problem, start(problem), orders))
    for stop in range(1, 6):
        stored = {key: np.array(value) for key, value in flatten(whole[stop - 1]).items()}
        state = unflatten(method.state_type, stored)
        for order in orders[stop:]:
            state = method.run_pass(problem, state, order)
        assert state.x.tobytes() == whole[-1].x.tobytes()
        assert state.n_gradients == whole[-1].n_gradients


def known(result):
    """All that a result says, but for the seconds."""
    numbers = (result.fun, result.optimality, result.rounding, result.n_passes, result.n_hessian_passes)
    counts = (result.nit, result.nfev, result.njev, result.nhev, result.reason, result.message)
    trace = {name: column.tobytes() for name, column in result.trace.to_dict().items() if name != "seconds"}
    return result.x.tobytes(), result.jac.tobytes(), np.array(numbers).tobytes(), counts, trace


#: Problems that between them every method treats, two of several outputs among them, and what a run may ask for.
RESUMED = [
    ({}, {"tol": 1e-14, "max_iter": 6, "measure_every": 1}),
    ({"loss": "huber"}, {"tol": 1e-14, "max_iter": 8, "measure_every": 1}),
    ({"batch_size": 2}, {"tol": 1e-2, "max_iter": 12, "measure_every": 0}),
    ({"l1_ratio": 0.7, "alpha": 0.1}, {"tol": 1e-12, "max_iter": 6, "measure_every": 3}),
    ({"constraint": "l1-ball"}, {"tol": 1e-12, "max_iter": 6, "measure_every": 1}),
    ({"loss": "hinge", "alpha": 0.05}, {"tol": 1e-3, "max_iter": 12, "measure_every": 3}),
    ({"loss": "hinge", "alpha": 0.0, "constraint": "l1-ball"}, {"tol": 1e-3, "max_iter": 12, "measure_every": 0}),
    ("multinomial", {"tol": 1e-12, "max_iter": 5, "measure_every": 3}),
]


@pytest.mark.parametrize(("setting", "asked"), RESUMED, ids=str)
@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_resumed_run_has_the_bits_of_a_whole_one(name, setting, asked, tmp_path):
    """From any pass and from the very end, twice: objective, gradient, optimality, rounding, counts and trace."""
    problem, _ = make_pair(**({} if setting == "multinomial" else setting))
    if setting == "multinomial":
        problem = Problem.linear(problem.rows, np.arange(problem.n_rows) % 3, loss="multinomial", alpha=0.05)
    if not is_suited(METHODS[name], problem):
        pytest.skip("cannot treat it")
    asked = {"method": name, **asked}
    whole = known(minimize(problem, **asked))
    for stop in sorted({1, 2, 4, asked["max_iter"]}):
        arguments = asked | {"checkpoint": tmp_path / f"{stop}.npz"}
        minimize(problem, **(arguments | {"max_iter": stop}))
        for _ in range(2):
            assert known(minimize(problem, resume=True, **arguments)) == whole


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_counts_component_gradients_and_hessians_exactly(name, monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.interior_correctors.LONG", 0.0)  # how many corrections depends on data
    problem, _ = make_pair(batch_size=3, **OWN.get(name, {}))
    method = METHODS[name](**ORACLES.get(name, ({},))[0])
    states = list(run(method, problem, start(problem), orders_of(method, problem.n_components)))
    for k, state in enumerate(states, start=1):
        assert (state.n_gradients, state.n_hessians) == COUNTS[name](k, problem.n_components)


@pytest.mark.parametrize("name", [n for n in WITH_ORACLE if n not in ("fg", "afg", "newton", *OWN, *WITHOUT_VISITS)])
def test_visits_in_the_given_order(name):
    problem, oracle = make_pair("csr32")
    options, recursion = ORACLES[name]
    forward = np.arange(problem.n_components)
    ends = []
    for order in (forward, forward[::-1].copy()):
        (state,) = run(METHODS[name](**options), problem, start(problem), [order])
        (expected,) = recursion(oracle, start(problem), [order])
        np.testing.assert_allclose(state.x, expected, rtol=CLOSE.get(name, 1e-12), atol=CLOSE.get(name, 1e-12))
        ends.append(state.x)
    assert np.abs(ends[0] - ends[1]).max() > 1e-6


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("name", ALL)
def test_stops_once_the_exact_optimality_is_at_most_tol(name, form):
    problem, oracle = make_pair(form, **{"n": 60, "alpha": 0.1, "intercept": True, "batch_size": 2, **OWN.get(name, {})})
    tol = LOOSE.get(name, 1e-9)
    result = minimize(problem, method=name, tol=tol, max_iter=3000)
    assert result.success, result.message
    assert result.optimality <= tol
    if name not in OWN:  # whose optimality is a duality gap
        assert result.optimality == pytest.approx(oracle.optimality(result.x), rel=1e-3, abs=1e-14)
    assert result.fun == pytest.approx(oracle.objective(result.x), rel=1e-12)
    assert result.n_passes <= 3001


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, "l1") for name in ALL if "l1" in METHODS[name].handles]
    + [
        (name, q)
        for name in ALL
        if "constraint" in METHODS[name].handles
        for q in ("l1-ball", "box", "l2-ball")
        if name in OWN or name not in FITS or FITS[name](constraint=q)
    ],
)
def test_solves_what_it_says_it_handles(name, setting):
    special = {"l1_ratio": 0.8} if setting == "l1" else {"constraint": setting}
    if name in OWN:
        solves_with(name, special)
        return
    problem, oracle = make_pair("csr32", n=60, alpha=0.1, intercept=True, batch_size=2, **special)
    tol = LOOSE.get(name, 1e-9)
    result = minimize(problem, method=name, tol=tol, max_iter=3000)
    assert result.success, result.message
    assert oracle.optimality(result.x) <= 1.01 * tol
    assert problem.constraint.contains(result.x[:-1], 1e-9)


@pytest.mark.parametrize("special", [{}, {"l1_ratio": 0.8}, {"constraint": Box(-0.1, 0.3)}], ids=["l2", "l1", "box"])
@pytest.mark.parametrize("power", [2.4, 3.0])
@pytest.mark.parametrize("name", ALL)
def test_with_a_loss_that_is_not_convex_f_never_rises_on_the_way_to_a_stationary_point(name, power, special):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 4))
    y = np.exp(X @ [0.5, -1.0, 0.0, 0.2] + rng.standard_normal(60))
    loss = InverseGaussian() if power == 3.0 else Tweedie(power)
    problem = Problem.linear(X, y, loss=loss, alpha=0.01, fit_intercept=True, **special)
    if "nonconvex-loss" not in METHODS[name].handles:
        with pytest.raises(ValueError, match=f"^{name} cannot treat"):
            minimize(problem, method=name)
        return
    result = minimize(problem, method=name, tol=1e-9, max_iter=20_000, measure_every=1)
    assert result.success, result.message
    assert "not convex: x is near a stationary point" in result.message
    fall = np.diff(result.trace.column("objective"))
    assert (fall <= 1e-13 * abs(result.fun)).all()


def solves_with(name, special):
    problem, oracle = make_pair("csr32", intercept=True, batch_size=2, **{**OWN[name], **special})
    if said := refused(name, {**OWN[name], **special}):
        with pytest.raises(ValueError, match=said):
            minimize(problem, method=name)
        return
    result = minimize(problem, method=name, tol=1e-10)
    assert result.success, result.message
    assert problem.constraint.contains(result.x[:-1], 1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = oracle.prox(result.x + 0.01 * rng.standard_normal(problem.dim), 1.0)
        assert oracle.objective(x) >= result.fun - 1e-12


@pytest.mark.parametrize("name", ALL)
def test_the_estimate_is_close_to_the_exact_optimality_once_it_converges(name):
    problem, oracle = make_pair(**{"n": 60, "alpha": 0.1, "batch_size": 2, **OWN.get(name, {})})
    method = METHODS[name]()
    state = method.init(problem, np.zeros(problem.dim))
    for k in range(60):
        state = method.run_pass(problem, state, order_of_pass(method.default_sampling, 0, k, problem.n_components))
    estimate = method.estimate(problem, state)
    exact = evaluate(problem, state.x).optimality
    if name in OWN:  # their dual variables bound the minimum
        exact = oracle.objective(state.x) - method.bound(problem, state)
    if not np.isnan(estimate):
        assert exact <= max(30 * estimate, 1e-13)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_is_described(name):
    cls = METHODS[name]
    assert cls.name == name
    assert all(isinstance(text, str) and text for text in cls.card)
    assert cls().default_batch_size(make_pair()[0]) >= 1


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("name", ["ig", "iag", "sag", "saga", "ciag", "a-ciag"])
def test_a_row_of_weight_zero_counts_for_nothing_even_where_its_loss_overflows(name, form):
    X, y = np.array([[1.0], [0.5], [2000.0]]), np.array([2.0, 1.0, 0.0])
    problem = Problem.linear(as_format(X, form), y, loss="poisson", alpha=0.1, sample_weight=[1.0, 1.0, 0.0], batch_size=1)
    method = METHODS[name]() if "ciag" in name else METHODS[name](step_size=0.1)
    *_, state = run(method, problem, np.array([0.5]), orders_of(method, 3, n_passes=8, sampling="shuffled"))
    assert np.isfinite(state.x).all()
    assert abs(state.x[0]) < 2.0
