"""Penalties beside the elastic net: weights, groups, MCP and SCAD, by every method on rows and on functions.

A method works to its optimality, or refuses in one sentence that says what it cannot treat.
"""

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse
from oracles import prox_gradient as oracle

from finitesum import METHODS, FiniteSum, Problem, minimize
from finitesum.core.jit import COMPILED
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import as_method
from finitesum.methods.auto import choose
from finitesum.methods.base import require_suited
from finitesum.problems.penalties import MCP, SCAD

N, D = 24, 6
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.7)
TRUTH = np.array([2.0, -1.5, 0.0, 0.0, 0.8, 0.0])
NUMBERS = X @ TRUTH + 0.4 + 0.3 * RNG.standard_normal(N)
SIGNS = np.where(NUMBERS + RNG.standard_normal(N) > 0.4, 1.0, -1.0)
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 1.5, 1.0])
SAMPLE_WEIGHT = RNG.random(N) + 0.5
LABELS = ["a", "b", "a", "c", "c", "c"]
MEMBERS = [[0, 2], [1], [3, 4, 5]]

SETTINGS = {
    "weighted": (
        {"alpha": 0.1, "l1_ratio": 0.5, "penalty_weights": WEIGHTS},
        oracle.weighted(0.05, 0.05, WEIGHTS),
        {"weights", "l1"},
    ),
    "weighted-l1": (
        {"alpha": 0.1, "l1_ratio": 1.0, "penalty_weights": WEIGHTS},
        oracle.weighted(0.1, 0.0, WEIGHTS),
        {"weights", "l1"},
    ),
    "weighted-l2": ({"alpha": 0.1, "penalty_weights": WEIGHTS}, oracle.weighted(0.0, 0.1, WEIGHTS), {"weights"}),
    "groups": ({"alpha": 0.1, "groups": LABELS}, oracle.groups(0.0, 0.1 * np.sqrt([2, 1, 3]), MEMBERS), {"groups"}),
    "sparse-groups": (
        {"alpha": 0.1, "l1_ratio": 0.3, "groups": LABELS},
        oracle.groups(0.03, 0.07 * np.sqrt([2, 1, 3]), MEMBERS),
        {"groups"},
    ),
    "mcp": ({"penalty": MCP(0.1)}, oracle.mcp(0.1, 3.0, np.ones(D)), {"prox", "nonconvex"}),
    "mcp-weighted": (
        {"penalty": MCP(0.1, 2), "penalty_weights": WEIGHTS},
        oracle.mcp(0.1, 2.0, WEIGHTS),
        {"prox", "nonconvex"},
    ),
    "scad": ({"penalty": SCAD(0.1)}, oracle.scad(0.1, 3.7, np.ones(D)), {"prox", "nonconvex"}),
}
LOSSES = {
    "squared": (NUMBERS, lambda u, y: u - y, lambda u, y: 0.5 * (u - y) ** 2),
    "logistic": (SIGNS, lambda u, y: -y / (1.0 + np.exp(y * u)), lambda u, y: np.log1p(np.exp(-y * u))),
}
#: Each pair is compiled by itself: all of them run as Python, and one loss compiled.
SOME_LOSSES = ["squared"] if COMPILED else list(LOSSES)
STEP = 0.3
P = SAMPLE_WEIGHT / SAMPLE_WEIGHT.sum()


def problem_of(setting, loss="squared", rows=X):
    return Problem.linear(
        rows, LOSSES[loss][0], loss=loss, fit_intercept=True, sample_weight=SAMPLE_WEIGHT, **SETTINGS[setting][0]
    )


def quadratic(setting):
    """Return the strength of the quadratic part of each coefficient: that of an elastic net with weights alone."""
    options = SETTINGS[setting][0]
    is_weighted = "penalty_weights" in options and "penalty" not in options
    return options["alpha"] * (1.0 - options.get("l1_ratio", 0.0)) * WEIGHTS if is_weighted else np.zeros(D)


@functools.cache
def slow_minimum(setting, loss, n_steps=2000):
    y, slope, _ = LOSSES[loss]
    start, prox = np.zeros(D + 1), SETTINGS[setting][1][1]
    return oracle.minimum(X, lambda u: P * slope(u, y), start, quadratic(setting), prox, STEP, n_steps)


def convex(setting):
    return "nonconvex" not in SETTINGS[setting][2]


@pytest.mark.parametrize("loss", SOME_LOSSES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_objective_and_optimality_are_those_of_the_formula(setting, loss):
    problem, (value, prox) = problem_of(setting, loss), SETTINGS[setting][1]
    y, slope, of_loss = LOSSES[loss]
    w = np.array([0.5, -0.02, 0.0, 1.0, -0.3, 0.1, 0.2])
    u = X @ w[:-1] + w[-1]
    found = evaluate(problem, w)
    assert found.objective == pytest.approx(P @ of_loss(u, y) + value(w[:-1]), rel=1e-13)
    assert problem.term.value(w) == pytest.approx(value(w[:-1]), rel=1e-13)
    pull = P * slope(u, y)
    gradient = np.append(X.T @ pull + quadratic(setting) * w[:-1], pull.sum())
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-13)
    s = problem.term.mapping_step
    moved = w - s * gradient
    mapping = (w - np.append(prox(moved[:-1], s), moved[-1])) / s
    assert found.optimality == pytest.approx(np.linalg.norm(mapping), rel=1e-12)


@pytest.mark.parametrize("loss", SOME_LOSSES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_full_gradient_steps_are_those_of_the_oracle(setting, loss):
    problem = problem_of(setting, loss, scipy.sparse.csr_array(X))
    result = minimize(problem, method="fg", options={"step_size": STEP}, tol=0.0, max_iter=7, measure_every=0)
    np.testing.assert_allclose(result.x, slow_minimum(setting, loss, 7), atol=1e-12)


#: Methods for problems of another kind, whose penalties are those of other tests, and what they say.
OF_OTHERS = {"interior-point": "needs the hinge loss", "multinomial-working-set": "needs several outputs"}

FORMS = {"dense": Problem, "csr": Problem, "functions": FiniteSum}


def as_form(form, setting, loss):
    problem = problem_of(setting, loss, scipy.sparse.csr_array(X) if form == "csr" else X)
    return FiniteSum.from_linear(problem) if form == "functions" else problem


def cases():
    """Yield all settings with all methods and forms of rows; compiled, each method and each setting once."""
    for setting in SETTINGS:
        for k, (method, form) in enumerate(itertools.product(sorted(METHODS), FORMS)):
            if not COMPILED or k % len(SETTINGS) == list(SETTINGS).index(setting):
                yield setting, method, form


@pytest.mark.parametrize(("setting", "method", "form"), list(cases()))
def test_every_method_finds_the_minimum_or_says_what_it_cannot_treat(setting, method, form):
    slow = method in ("iag", "sag", "saga") or not convex(setting)
    loss = "squared" if slow or COMPILED else "logistic"
    problem = as_form(form, setting, loss)
    needed = SETTINGS[setting][2] | ({"components"} if form == "functions" else set())
    if not needed <= METHODS[method].handles:
        with pytest.raises(ValueError, match=rf"^{method} cannot treat [^.]*(\.\d[^.]*)*\. Choose another method"):
            require_suited(as_method(method), problem)
        return
    if method in OF_OTHERS:
        with pytest.raises(ValueError, match=OF_OTHERS[method]):
            require_suited(as_method(method), problem)
        return
    if method == "ig":  # sublinear
        return
    result = minimize(problem, method=method, tol=1e-7, max_iter=4000, measure_every=0)
    assert result.success, result.message
    if convex(setting):
        np.testing.assert_allclose(result.x, slow_minimum(setting, loss), atol=1e-5)
    else:
        assert "stationary point" in result.message
        assert_stationary(setting, loss, result.x)


def assert_stationary(setting, loss, w, width=1e-6):
    """Check that no small move of one coordinate lowers F: 0 lies in its subdifferential, to first order."""
    value, _ = SETTINGS[setting][1]
    y, _, of_loss = LOSSES[loss]

    def objective(v):
        return P @ of_loss(X @ v[:-1] + v[-1], y) + value(v[:-1])

    for unit in width * np.eye(D + 1):
        for end in (w + unit, w - unit):
            assert objective(end) >= objective(w) - 1e-5 * width


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_method_that_is_chosen_can_treat_the_penalty(setting, form):
    problem = as_form(form, setting, "squared")
    require_suited(choose(problem).method, problem)
    result = minimize(problem, tol=1e-8, measure_every=0)
    assert result.success
    if convex(setting):
        np.testing.assert_allclose(result.x, slow_minimum(setting, "squared"), atol=1e-6)


@pytest.mark.parametrize(("l1_ratio", "why"), [(0.0, "penalty weights"), (0.5, "an l1 penalty")])
def test_the_reason_names_the_penalty_of_several_outputs(l1_ratio, why):
    classes = np.arange(len(NUMBERS)) % 3
    problem = Problem.linear(X, classes, loss="multinomial", alpha=0.1, l1_ratio=l1_ratio, penalty_weights=WEIGHTS)
    assert f"3 outputs at once with {why}, in" in choose(problem).reason


def test_squares_of_several_outputs_are_one_system_with_penalty_weights_too():
    targets = np.column_stack([NUMBERS, NUMBERS[::-1]])
    problem = Problem.linear(X, targets, loss="squared", alpha=0.1, penalty_weights=WEIGHTS)
    result = minimize(problem, tol=1e-12)
    assert (result.method.name, result.n_hessian_passes) == ("newton", 1.0)
    for k, target in enumerate(targets.T):
        one = Problem.linear(X, target, loss="squared", alpha=0.1, penalty_weights=WEIGHTS)
        np.testing.assert_allclose(result.x.reshape(2, -1)[k], minimize(one, tol=1e-12).x, rtol=1e-10)


@pytest.mark.parametrize("setting", SETTINGS)
def test_several_outputs_go_to_a_method_that_can_treat_the_penalty(setting):
    targets = np.column_stack([NUMBERS, NUMBERS[::-1]])
    problem = Problem.linear(X, targets, loss="squared", fit_intercept=True, **SETTINGS[setting][0])
    result = minimize(problem, tol=1e-6, max_iter=5000, measure_every=0)
    assert result.success, result.message


def test_groups_are_zero_together():
    problem = Problem.linear(X, NUMBERS, loss="squared", alpha=0.6, groups=LABELS)
    w = minimize(problem, tol=1e-9).x
    zero = [bool((w[group] == 0.0).all()) for group in MEMBERS]
    assert any(zero)
    assert all(bool((w[group] != 0.0).all()) for group, is_zero in zip(MEMBERS, zero, strict=True) if not is_zero)


@pytest.mark.parametrize(
    "method", ["fg", "saga", "newton", "lazy-newton", "newton-cg", "working-set-newton", "coordinate-descent"]
)
def test_weights_of_one_are_the_elastic_net(method):
    plain = {"loss": "squared", "alpha": 0.2, "l1_ratio": 0.4, "fit_intercept": True}
    one, other = (
        minimize(Problem.linear(X, NUMBERS, penalty_weights=weights, **plain), method=method, tol=1e-11).x
        for weights in (None, np.ones(D))
    )
    np.testing.assert_allclose(one, other, atol=1e-10)


def test_a_smooth_problem_stays_smooth_with_weights():
    problem = problem_of("weighted-l2")
    assert problem.is_smooth
    np.testing.assert_array_equal(problem.term.quadratic, np.append(0.1 * WEIGHTS, 0.0))
    result = minimize(problem, method="newton", tol=1e-12)
    assert result.success
    assert result.n_hessian_passes == 1


@pytest.mark.parametrize("options", [{}, {"penalty_weights": WEIGHTS}, {"groups": LABELS}])
def test_a_sum_of_functions_takes_the_penalties_of_linear_models(options):
    linear = Problem.linear(X, NUMBERS, loss="squared", alpha=0.1, l1_ratio=0.3, **options)
    components = FiniteSum.from_linear(linear).components
    same = FiniteSum(components, D, alpha=0.1, l1_ratio=0.3, **options)
    w = np.random.default_rng(0).standard_normal(D)
    assert same.term.value(w) == pytest.approx(linear.term.value(w), rel=1e-14)
    np.testing.assert_array_equal(same.term.prox(w, 0.5), linear.term.prox(w, 0.5))
    mcp = FiniteSum(components, D, penalty=MCP(0.1))
    assert mcp.term.value(w) == pytest.approx(Problem.linear(X, NUMBERS, penalty=MCP(0.1), loss="squared").term.value(w))
    with pytest.raises(ValueError, match="penalty goes without alpha"):
        FiniteSum(components, D, alpha=0.1, penalty=MCP(0.1))


@pytest.mark.parametrize(
    ("method", "setting", "reason"),
    [
        ("hb", "weighted-l2", "hb cannot treat penalty_weights: it knows penalties of one strength for all"),
        ("newton", "mcp", r"newton cannot treat MCP\(alpha=0.1, gamma=3.0\): it knows penalties as an l2 part"),
        ("newton-cg", "mcp", r"newton-cg cannot treat MCP\(alpha=0.1, gamma=3.0\)"),
        ("afg", "scad", r"afg cannot treat SCAD\(alpha=0.1, gamma=3.7\), which is not convex"),
        ("saga", "groups", "saga cannot treat a group lasso, whose prox takes whole groups at once"),
    ],
)
def test_a_method_that_cannot_says_why(method, setting, reason):
    with pytest.raises(ValueError, match=reason):
        minimize(problem_of(setting), method=method)
