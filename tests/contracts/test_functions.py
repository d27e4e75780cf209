"""On a `FiniteSum` every method makes the iterates that it makes on the linear model of the same components."""

from dataclasses import replace

import numpy as np
import pytest
from contracts.problems import make_pair

from finitesum import METHODS, FiniteSum, minimize
from finitesum.evaluation.smoothness import full_smoothness
from finitesum.problems.batches import BACKENDS
from finitesum.running.checkpoint import flatten, unflatten
from finitesum.running.sampling import order_of_pass

#: Options with which both forms run one recursion: a row a method, or several.
ROWS = {
    "fg": [{"step_size": 0.8}, {}],
    "afg": [{"step_size": 0.5, "momentum": 0.6}, {}],
    "ig": [{"step_size": 0.2}, {"decay": "constant"}],
    "iag": [{"step_size": 0.05}, {}],
    "sag": [{"step_size": 0.1}, {}],
    "saga": [{"step_size": 0.07}, {}],
    "svrg": [{"step_size": 0.07, "inner_passes": 2}],
    "acc-svrg": [{"step_size": 0.07, "momentum": 0.6}, {"step_size": 0.07, "inner_passes": 2}],
    "sarah": [{"step_size": 0.1}, {}],
    "svrg2": [*({"step_size": 0.1, "hessian": kind} for kind in ("full", "2D", "2Dsec", "CM", "AM")), {}],
    "ciag": [
        {"step_size": 0.3},
        {"step_size": 0.3, "warm_start_method": "full"},
        {"step_size": "theory"},
        {"step_size": 0.05, "restart": 1, "warm_start_method": "sag"},
    ],
    "a-ciag": [{"step_size": 0.2, "extrapolation": 0.5}, {"step_size": "theory"}, {"step_size": "theory", "restart": 1}],
    "nim": [{"step_size": 0.8}, {"step_size": 1.0, "solver": "exact", "warm_start_method": "full"}],
    "iqn": [{"initial": 0.7}, {"initial": 0.7, "step_size": 0.6}],
    "newton": [{}, {"step_size": 0.7}],
}

#: Methods with a recursion of their own on functions: see `tests/methods/newton/test_component_newton.py`.
OWN = ("lazy-newton", "newton-cg")

#: Methods that are charged the same gradients for functions; of the others, a linear model remembers slopes, a number each.
SAME_COUNTS = set(ROWS) - {"newton"}

CASES = [(name, options) for name, rows in ROWS.items() for options in rows]

SETTINGS = [
    {},
    {"batch_size": 4, "intercept": True, "weighted": True},
    {"l1_ratio": 0.7, "alpha": 0.1, "intercept": True},
    {"constraint": "l1-ball", "intercept": True, "batch_size": 2},
    {"loss": "squared", "alpha": 0.0, "batch_size": 2},
]


def ident(value):
    return value if isinstance(value, str) else "-".join(f"{k}={v}" for k, v in value.items()) or "plain"


def both(setting):
    """A linear model, and the general sum of the same components with the same constants."""
    problem, _ = make_pair(**setting)
    general = FiniteSum.from_linear(problem)
    return problem, replace(general, mean_smoothness=full_smoothness(problem) - problem.penalty.ridge())


def losses_and_slopes(w, batch):
    """The logistic losses and their gradients, in NumPy."""
    X, y = batch
    slopes = -y / (1.0 + np.exp(y * (X @ w)))
    return np.logaddexp(0.0, -y * (X @ w)), slopes[:, None] * X


def hessian(w, batch):
    X, y = batch
    p = 1.0 / (1.0 + np.exp(y * (X @ w)))
    return (X.T * (p * (1.0 - p))) @ X


def function_of(backend):
    """The logistic loss of rows as `FiniteSum.from_function` takes it; skips where the backend is not installed."""
    if backend == "numpy":
        return losses_and_slopes, {"hessian": hessian}
    library = pytest.importorskip(backend, reason=f"{backend} is not installed")
    if getattr(library, "__file__", None) is None:
        pytest.skip(f"{backend} is not installed")
    softplus = library.nn.functional.softplus if backend == "torch" else library.nn.softplus
    return lambda w, batch: softplus(-batch[1] * (batch[0] @ w)), {}


def of_batches(backend, problem):
    """A linear model of the logistic loss as the mean of a function's losses, with the same constants."""
    f, more = function_of(backend)
    constants = FiniteSum.from_linear(problem).smoothness, full_smoothness(problem) - problem.penalty.ridge()
    options = (
        dict(zip(("smoothness", "mean_smoothness"), constants, strict=True)) | more | {"alpha": problem.penalty.ridge()}
    )
    data = problem.rows.values, problem.targets
    return FiniteSum.from_function(f, data, dim=problem.dim, batch_size=problem.batch_size, backend=backend, **options)


def treats(name, setting):
    handles = METHODS[name].handles
    return ("l1_ratio" not in setting or "l1" in handles) and ("constraint" not in setting or "constraint" in handles)


def test_every_method_that_takes_functions_has_a_row():
    assert set(ROWS) | set(OWN) == {name for name, cls in METHODS.items() if "components" in cls.handles}


@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize(("name", "options"), CASES, ids=ident)
def test_makes_the_iterates_of_the_linear_model(name, options, setting):
    problem, general = both(setting)
    if not treats(name, setting):
        with pytest.raises(ValueError, match=f"{name} cannot treat"):
            minimize(general, method=name)
        return
    method = METHODS[name](**options)
    x0 = 0.3 * np.random.default_rng(5).standard_normal(problem.dim)
    linear, state = method.init(problem, x0), method.init(general, x0)
    for k in range(4):
        order = order_of_pass("with-replacement", 3, k, problem.n_components)
        linear, state = method.run_pass(problem, linear, order), method.run_pass(general, state, order)
        np.testing.assert_allclose(state.x, linear.x, rtol=1e-10, atol=1e-10)
    assert np.abs(state.x - x0).max() > 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_function_of_batches_makes_them_too_with_a_short_last_batch(name, backend):
    problem, _ = make_pair(batch_size=4)
    assert problem.n_rows % 4 != 0
    general = of_batches(backend, problem)
    method = METHODS[name](**ROWS[name][0])
    x0 = 0.3 * np.random.default_rng(5).standard_normal(problem.dim)
    linear, state = method.init(problem, x0), method.init(general, x0)
    objects = FiniteSum.from_linear(problem)
    counted = method.init(objects, x0)
    for k in range(4):
        order = order_of_pass("shuffled", 3, k, problem.n_components)
        linear, state = method.run_pass(problem, linear, order), method.run_pass(general, state, order)
        counted = method.run_pass(objects, counted, order)
        np.testing.assert_allclose(state.x, linear.x, rtol=1e-10, atol=1e-10)
        assert (state.n_gradients, state.n_hessians) == (counted.n_gradients, counted.n_hessians)
        if name in SAME_COUNTS:
            assert state.n_gradients == linear.n_gradients


@pytest.mark.parametrize("name", sorted(ROWS))
def test_visits_in_the_given_order_one_by_one(name):
    problem, general = both({})
    method = METHODS[name](**ROWS[name][0])
    x0 = 0.3 * np.random.default_rng(5).standard_normal(problem.dim)
    linear, state = method.init(problem, x0), method.init(general, x0)
    for j in (4, 0, 4, 7, 0):  # a pass of one visit each
        order = np.array([j])
        linear, state = method.run_pass(problem, linear, order), method.run_pass(general, state, order)
        np.testing.assert_allclose(state.x, linear.x, rtol=1e-10, atol=1e-10)


#: Component gradients and Hessians after k passes over n components in cyclic order, with the options of the first row.
COUNTS = {
    **dict.fromkeys(["fg", "afg", "ig", "iag", "sag", "saga"], lambda k, n: (k * n, 0)),
    "svrg": lambda k, n: ((1 + k + k // 2) * n, 0),
    "acc-svrg": lambda k, n: ((1 + 2 * k) * n, 0),
    "sarah": lambda k, n: (3 * k * n, 0),
    "svrg2": lambda k, n: ((1 + 2 * k) * n, (1 + 2 * k) * n),
    **dict.fromkeys(["ciag", "a-ciag", "nim"], lambda k, n: (k * n, (2 * k - 1) * n)),  # the old Hessian, too
    "iqn": lambda k, n: ((1 + k) * n, 0),
    "newton": lambda k, n: ((1 + k) * n, k * n),
}


class Counted:
    """A component that counts what is asked of it."""

    def __init__(self, component, counts):
        self.component, self.counts = component, counts

    def value(self, x):
        return self.component.value(x)

    def gradient(self, x):
        self.counts[0] += 1
        return self.component.gradient(x)

    def hessian(self, x):
        self.counts[1] += 1
        return self.component.hessian(x)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_counts_what_the_callables_were_asked_for(name):
    _, general = both({"batch_size": 2})
    counts = [0, 0]
    counted = replace(general, components=[Counted(c, counts) for c in general.components])
    method = METHODS[name](**ROWS[name][0])
    n = counted.n_components
    state = method.init(counted, np.full(counted.dim, 0.1))
    for k in range(1, 5):
        state = method.run_pass(counted, state, np.arange(n))
        asked = tuple(counts)
        assert (state.n_gradients, state.n_hessians) == asked
        if name != "newton" or state.step_size == 1.0:
            assert asked == COUNTS[name](k, n)


@pytest.mark.parametrize("name", sorted([*ROWS, *OWN]))
@pytest.mark.parametrize("kind", ["constants given", "constants unknown"])
def test_stops_once_the_exact_optimality_is_at_most_tol(name, kind):
    problem, oracle = make_pair(n=60, alpha=0.1, intercept=True, batch_size=2)
    general = FiniteSum.from_linear(problem)
    if kind == "constants unknown":
        general = replace(general, smoothness=None)
    tol = {"ig": 2e-2, "iag": 1e-5}.get(name, 1e-9)
    result = minimize(general, method=name, tol=tol, max_iter=3000)
    assert result.success, result.message
    assert oracle.optimality(result.x) <= 1.01 * tol
    assert result.fun == pytest.approx(oracle.objective(result.x), rel=1e-12)


@pytest.mark.parametrize("name", sorted([*ROWS, *OWN]))
def test_goes_on_from_a_stored_state_to_the_same_bits_and_leaves_states_alone(name):
    problem, _ = make_pair(batch_size=2)
    general = replace(FiniteSum.from_linear(problem), smoothness=None)
    method = METHODS[name]()
    orders = [order_of_pass("shuffled", 3, k, general.n_components) for k in range(5)]
    x0 = np.random.default_rng(5).standard_normal(general.dim)
    kept = x0.copy()
    states = [method.init(general, x0)]
    for order in orders:
        before = {key: np.array(value) for key, value in flatten(states[-1]).items()}
        states.append(method.run_pass(general, states[-1], order))
        for key, value in flatten(states[-2]).items():
            np.testing.assert_array_equal(value, before[key], err_msg=key)
    np.testing.assert_array_equal(x0, kept)
    stored = {key: np.array(value) for key, value in flatten(states[2]).items()}
    state = unflatten(method.state_type, stored)
    for order in orders[2:]:
        state = method.run_pass(general, state, order)
    for key, value in flatten(state).items():
        np.testing.assert_array_equal(value, flatten(states[-1])[key], err_msg=key)
