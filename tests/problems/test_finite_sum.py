"""`FiniteSum`: what it takes and refuses, measures, checks of derivatives, automatic steps, checkpoints, the example."""

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from contracts.problems import make_pair
from scipy.special import expit

from finitesum import METHODS, Component, FiniteSum, minimize
from finitesum.constraints import L1Ball, L2Ball
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import FG
from finitesum.methods.auto import choose
from finitesum.methods.constants import Constant, smoothness_at
from finitesum.reporting.report import run_methods
from finitesum.running.checkpoint import CheckpointError

RNG = np.random.default_rng(8)
DIM = 4
POINTS = RNG.standard_normal((30, DIM))


def softplus(a, c):
    """log(1 + exp(a'x)) - c a'x: smooth and convex, with constant |a|^2 / 4."""
    return Component(
        lambda x: np.logaddexp(0.0, a @ x) - c * (a @ x),
        lambda x: (expit(a @ x) - c) * a,
        lambda x: expit(a @ x) * expit(-a @ x) * np.outer(a, a),
    )


def sum_of(**settings):
    shares = np.random.default_rng(1).random(len(POINTS))
    return FiniteSum([softplus(a, c) for a, c in zip(POINTS, shares, strict=True)], dim=DIM, **settings)


class Quadratic:
    """1/2 (x - c)'A (x - c), by a product with A alone."""

    def __init__(self, matrix, centre):
        self.matrix, self.centre = matrix, centre

    def value(self, x):
        return 0.5 * (x - self.centre) @ self.matrix @ (x - self.centre)

    def gradient(self, x):
        return self.matrix @ (x - self.centre)

    def hessian_product(self, x, v):
        return self.matrix @ v


def quadratics(n=6):
    rng = np.random.default_rng(2)
    parts = []
    for _ in range(n):
        root = rng.standard_normal((DIM, 2))
        parts.append(Quadratic(root @ root.T + 0.1 * np.eye(DIM), rng.standard_normal(DIM)))
    return parts


# -- measures


def test_measures_are_those_of_the_definition():
    problem = sum_of(alpha=0.3, l1_ratio=0.4, has_intercept=True)
    x = np.array([0.5, -1.0, 0.0, 2.0])
    value = np.mean([c.value(x) for c in problem.components])
    gradient = np.mean([c.gradient(x) for c in problem.components], axis=0)
    found = evaluate(problem, x)
    assert found.objective == pytest.approx(value + 0.12 * 1.5 + 0.5 * 0.18 * 1.25, rel=1e-14)
    np.testing.assert_allclose(found.gradient, gradient + 0.18 * x * [1, 1, 1, 0], rtol=1e-13)
    moved = x - found.gradient
    moved[:3] = np.sign(moved[:3]) * np.maximum(np.abs(moved[:3]) - 0.12, 0.0)
    assert found.optimality == pytest.approx(np.linalg.norm(x - moved), rel=1e-13)
    expected = np.mean([c.hessian(x) for c in problem.components], axis=0) + np.diag([0.18, 0.18, 0.18, 0.0])
    np.testing.assert_allclose(problem.hessian(x), expected, rtol=1e-13)


def test_a_linear_model_taken_apart_has_the_same_measures():
    problem, oracle = make_pair("csr32", batch_size=5, weighted=True, intercept=True, l1_ratio=0.5)
    general = FiniteSum.from_linear(problem)
    x = np.random.default_rng(0).standard_normal(problem.dim)
    assert general.n_components == problem.n_components == 5
    assert evaluate(general, x).objective == pytest.approx(oracle.objective(x), rel=1e-13)
    assert evaluate(general, x).optimality == pytest.approx(oracle.optimality(x), rel=1e-12)
    np.testing.assert_allclose(general.hessian(x), oracle.hessian(x), rtol=1e-12, atol=1e-15)
    for j in range(5):
        assert np.linalg.eigvalsh(oracle.loss_hessian(j, x))[-1] <= general.smoothness[j]


def test_nonsmooth_losses_cannot_be_components():
    problem, _ = make_pair(loss="hinge")
    with pytest.raises(ValueError, match="Hinge is nonsmooth"):
        FiniteSum.from_linear(problem)


# -- second derivatives in three forms


def test_products_and_sparse_matrices_serve_as_hessians():
    parts = quadratics()
    dense = [Component(p.value, p.gradient, hessian=lambda x, p=p: p.matrix) for p in parts]
    sparse = [Component(p.value, p.gradient, hessian=lambda x, p=p: scipy.sparse.csr_array(p.matrix)) for p in parts]
    expected = minimize(FiniteSum(dense, dim=DIM), method="a-ciag", tol=1e-12)
    for components in (parts, sparse):
        found = minimize(FiniteSum(components, dim=DIM), method="a-ciag", tol=1e-12)
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-12)
        assert found.n_passes == expected.n_passes


@pytest.mark.parametrize("name", ["nim", "newton"])
def test_quadratics_are_solved_by_one_model(name):
    parts = quadratics()
    total = sum(p.matrix for p in parts)
    expected = np.linalg.solve(total, sum(p.matrix @ p.centre for p in parts))
    problem = FiniteSum(parts, dim=DIM)
    method = METHODS[name](solver="exact", step_size=1.0) if name == "nim" else METHODS[name]()
    state = method.run_pass(problem, method.init(problem, np.zeros(DIM)), np.arange(len(parts)))
    np.testing.assert_allclose(state.x, expected, rtol=1e-10)


# -- automatic steps


def without_hessians(problem):
    return replace(problem, components=[Component(c.value, c.gradient) for c in problem.components])


def test_constants_by_hessians_and_by_differences_bound_the_curvature_at_the_start():
    problem, x = sum_of(), 0.3 * np.ones(DIM)
    exact = np.array([np.linalg.norm(c.hessian(x), 2) for c in problem.components])
    by_hessians = smoothness_at(problem, x, Constant.LARGEST)
    np.testing.assert_allclose(by_hessians.bounds, exact, rtol=1e-12)
    assert (by_hessians.n_gradients, by_hessians.n_hessians) == (0, 30)
    by_differences = smoothness_at(without_hessians(problem), x, Constant.LARGEST)
    np.testing.assert_allclose(by_differences.bounds, exact, rtol=1e-4)
    assert (by_differences.n_gradients, by_differences.n_hessians) == (4 * 30, 0)
    given = smoothness_at(replace(problem, smoothness=2.0), x, Constant.LARGEST)
    assert (given.value, given.bounds.size, given.n_gradients, given.n_hessians) == (2.0, 0, 0, 0)


@pytest.mark.parametrize("name", ["saga", "sag", "iag"])
def test_an_estimate_that_proves_too_small_is_raised_and_shortens_the_step(name):
    problem = sum_of()
    far = 40.0 * np.ones(DIM)  # nearly flat there
    method = METHODS[name]()
    state = method.init(problem, far)
    low = state.table.bounds.copy()
    for k in range(3):
        previous = state
        state = method.run_pass(problem, state._replace(x=0.1 * k * np.ones(DIM)), np.arange(30))
        assert (state.table.bounds >= previous.table.bounds).all()
        assert state.step_size <= previous.step_size
    truth = (POINTS**2).sum(axis=1) / 4
    assert (state.table.bounds > low).any()
    assert (state.table.bounds <= 1.001 * np.maximum(truth, low)).all()


@pytest.mark.parametrize("scale", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("name", ["fg", "afg"])
def test_backtracking_needs_no_constant(name, scale):
    problem = without_hessians(sum_of(alpha=0.01))
    result = minimize(problem, scale * np.ones(DIM), method=name, tol=1e-8, max_iter=2000)
    assert result.success, result.message
    assert result.njev == pytest.approx(30 * result.n_passes)


def test_backtracking_never_raises_the_objective():
    problem = without_hessians(sum_of(alpha=0.001))
    method, state = FG(), FG().init(problem, 20.0 * np.ones(DIM))
    values = [state.objective]
    for _ in range(40):
        state = method.run_pass(problem, state, np.arange(30))
        values.append(state.objective)
    assert (np.diff(values) <= 1e-13).all()
    assert values[-1] < 0.5 * values[0]


def hyperbolic(a):
    return Component(
        lambda x: np.cosh(a @ x - 1.0), lambda x: np.sinh(a @ x - 1.0) * a, lambda x: np.cosh(a @ x - 1.0) * np.outer(a, a)
    )


def quartic(a):
    return Component(
        lambda x: 0.25 * (a @ x - 1.0) ** 4,
        lambda x: (a @ x - 1.0) ** 3 * a,
        lambda x: 3.0 * (a @ x - 1.0) ** 2 * np.outer(a, a),
    )


CONVEX = {
    "softplus, constants known": lambda: sum_of(alpha=1e-3, smoothness=(POINTS**2).sum(axis=1) / 4),
    "softplus": lambda: sum_of(alpha=1e-3),
    "cosh": lambda: FiniteSum([hyperbolic(a) for a in POINTS], dim=DIM),
    "quartic": lambda: FiniteSum([quartic(a) for a in POINTS], dim=DIM, alpha=1e-3),
}


@pytest.mark.compiled
@pytest.mark.parametrize("scale", [0.0, 1.0, pytest.param(5.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["a-ciag", "nim", "newton", "svrg"])
@pytest.mark.parametrize("kind", CONVEX)
def test_automatic_steps_converge_on_convex_sums_from_far_away(kind, name, scale):
    problem = CONVEX[kind]()
    x0 = scale * np.array([1.0, -1.0, 0.5, 2.0])
    tol = 1e-5 if name == "svrg" else 1e-9
    result = minimize(problem, x0, method=name, tol=tol, max_iter=3000 if name == "svrg" else 200)
    assert result.success, result.message
    start = evaluate(problem, x0).objective
    assert result.fun <= start


def test_one_component_is_newtons_method_for_nim():
    problem = FiniteSum([softplus(POINTS[0], 0.3)], dim=DIM, alpha=0.1)
    x0 = 0.2 * np.ones(DIM)
    nim = METHODS["nim"](step_size=1.0, solver="exact")
    newton = METHODS["newton"](step_size=1.0)
    a = nim.run_pass(problem, nim.init(problem, x0), np.arange(1))
    b = newton.run_pass(problem, newton.init(problem, x0), np.arange(1))
    np.testing.assert_allclose(a.x, b.x, rtol=1e-12)


def test_newton_goes_down_where_the_hessian_is_indefinite():
    def wave(c):
        return Component(lambda x: -np.cos(x[0] - c), lambda x: np.sin(x - c), lambda x: [[np.cos(x[0] - c)]])

    problem = FiniteSum([wave(0.1), wave(-0.1)], dim=1)
    result = minimize(problem, [2.5], method="newton", tol=1e-10)
    assert result.success
    assert result.fun == pytest.approx(-np.cos(0.1), rel=1e-12)


@pytest.mark.parametrize("constraint", [L1Ball(0.3), L2Ball(0.4)])
def test_constrained_minima_are_stationary_and_inside(constraint):
    problem = sum_of(constraint=constraint)
    points = [
        minimize(problem, method=m, tol=1e-9, max_iter=2000).x for m in ("a-ciag", "nim", "newton", "afg", "acc-svrg")
    ]
    for x in points:
        assert constraint.contains(x, 1e-9)
        np.testing.assert_allclose(x, points[0], atol=1e-7)


def test_auto_chooses_by_what_components_offer():
    problem = sum_of()
    assert choose(problem).method.name == "a-ciag"
    assert choose(without_hessians(problem)).method.name == "svrg"
    assert choose(without_hessians(sum_of(constraint=L2Ball(1.0)))).method.name == "acc-svrg"


# -- what is refused


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"components": []}, ValueError, "one function at least"),
        ({"components": 3}, TypeError, "components must be a sequence"),
        ({"components": [softplus(POINTS[0], 0.0), object()]}, TypeError, r"component 1 must have value\(w\)"),
        ({"dim": 0}, ValueError, "dim must be a whole number >= 1, got 0"),
        ({"dim": 2.0}, ValueError, "dim must be a whole number"),
        ({"alpha": -1.0}, ValueError, "alpha must be a number >= 0"),
        ({"l1_ratio": 2.0}, ValueError, "l1_ratio must be a number in"),
        ({"constraint": "ball"}, TypeError, "constraint must be a set"),
        ({"constraint": L2Ball(1.0), "alpha": 1.0, "l1_ratio": 0.5}, ValueError, "but with no other set"),
        ({"smoothness": [1.0, 2.0]}, ValueError, r"smoothness must be a number or 1 numbers, got shape \(2,\)"),
        ({"smoothness": -1.0}, ValueError, "smoothness must be >= 0"),
        ({"smoothness": "much"}, ValueError, "smoothness must be a number"),
        ({"mean_smoothness": np.nan}, ValueError, "mean_smoothness must be a number >= 0"),
        ({"strong_convexity": -0.1}, ValueError, "strong_convexity must be a number >= 0"),
    ],
)
def test_refuses_what_makes_no_sum(settings, error, message):
    with pytest.raises(error, match=message):
        FiniteSum(**{"components": [softplus(POINTS[0], 0.0)], "dim": DIM, **settings})


def test_refuses_callables_that_are_none():
    with pytest.raises(TypeError, match="gradient must be a function, got 3"):
        Component(np.sum, 3)
    with pytest.raises(TypeError, match="hessian must be a function or left out"):
        Component(np.sum, np.ones_like, hessian=3)


@pytest.mark.parametrize("name", ["ciag", "a-ciag", "nim", "newton", "svrg2", "iqn"])
def test_a_missing_hessian_is_told_before_anything_is_evaluated(name):
    def never(x):
        raise AssertionError

    whole, part = softplus(POINTS[0], 0.0), Component(never, never)
    with pytest.raises(ValueError, match=rf"{name} needs hessian\(w\) or .* component 1 has neither.*such as saga"):
        minimize(FiniteSum([whole, part], dim=DIM), method=name)


def test_iqn_with_a_number_needs_gradients_only():
    problem = without_hessians(sum_of(alpha=0.1))
    assert minimize(problem, method="iqn", options={"initial": 0.3}, tol=1e-9).success


@pytest.mark.parametrize("name", ["psg", "adahb", "sgd"])
def test_methods_that_take_no_functions_say_so(name):
    with pytest.raises(ValueError, match=f"{name} cannot treat components given as functions"):
        minimize(sum_of(), method=name)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("nim", {"solver": "inverse"}, "needs rows of a linear model"),
        ("iqn", {"max_gigabytes": 1e-8}, "Raise max_gigabytes"),
        ("sag", {"constraint": L2Ball(1.0)}, "sag cannot treat a constraint"),
    ],
)
def test_options_about_linear_models_are_refused(method, options, message):
    constraint = options.pop("constraint", None)
    with pytest.raises(ValueError, match=message):
        minimize(sum_of(constraint=constraint), method=method, options=options)


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (Component(lambda x: 0.0, lambda x: np.ones(3)), r"component 1: gradient must return 4 numbers, got shape \(3,\)"),
        (Component(lambda x: x, lambda x: x), r"component 1: value must return one number, got shape \(4,\)"),
        (Component(lambda x: np.nan, lambda x: x), "component 1: value is not finite at the start"),
        (Component(lambda x: 0.0, lambda x: x / 0.0), "component 1: gradient is not finite at the start"),
    ],
)
def test_what_components_return_is_checked(component, message):
    problem = FiniteSum([softplus(POINTS[0], 0.0), component], dim=DIM)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        minimize(problem, method="saga")


def test_a_hessian_of_another_shape_is_refused():
    problem = FiniteSum([Component(lambda x: x @ x, lambda x: 2 * x, lambda x: 2 * x)], dim=DIM)
    with pytest.raises(ValueError, match=r"component 0: hessian must return 4 x 4 numbers, got shape \(4,\)"):
        minimize(problem, method="newton")


def test_components_may_keep_and_change_what_they_are_given():
    def greedy(a):
        def gradient(x):
            value = (expit(a @ x) - 0.3) * a
            x[:] = np.nan
            return value

        return Component(lambda x: np.logaddexp(0.0, a @ x) - 0.3 * (a @ x), gradient)

    problem = FiniteSum([greedy(a) for a in POINTS], dim=DIM, alpha=0.1)
    assert minimize(problem, method="saga", tol=1e-7).success


# -- derivatives


def test_check_finds_the_component_that_is_off():
    good = [softplus(a, 0.2) for a in POINTS[:3]]
    problem = FiniteSum(good, dim=DIM)
    x = np.array([0.3, -0.2, 0.5, 1.0])
    assert problem.check(x).success
    assert problem.check(x).message == "All derivatives agree with differences."
    wrong_gradient = Component(good[1].value, lambda x: 1.01 * good[1].gradient(x), good[1].hessian)
    wrong_hessian = Component(good[2].value, good[2].gradient, lambda x: good[2].hessian(x) + 0.1 * np.eye(DIM))
    found = FiniteSum([good[0], wrong_gradient, wrong_hessian], dim=DIM).check(x)
    assert not found.success
    assert found.gradient_errors[1] == pytest.approx(0.01, rel=1e-3)
    assert (found.gradient_errors[[0, 2]] < 1e-7).all()
    assert found.hessian_errors[2] > 0.01
    assert "component 1: the gradient contradicts" in found.message
    assert "component 2: the Hessian contradicts" in found.message


def test_check_tells_of_many_in_few_words():
    wrong = [Component(c.value, lambda x: 0.0 * x) for c in (softplus(a, 0.2) for a in POINTS[:9])]
    message = FiniteSum(wrong, dim=DIM).check(np.ones(DIM)).message
    assert message.count("component") == 5
    assert message.endswith("And 4 more.")


def test_check_sees_what_is_not_finite():
    with np.errstate(all="ignore"):
        found = FiniteSum([Component(lambda x: np.log(x[0]), lambda x: 1 / x)], dim=1).check([-1.0])
    assert not found.success


def test_check_refuses_a_point_of_another_size():
    with pytest.raises(ValueError, match=r"w must have shape \(4,\)"):
        sum_of().check([1.0])


# -- driver


@pytest.mark.parametrize("name", ["a-ciag", "saga", "svrg2", "nim"])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, name):
    settings = {"method": name, "tol": 0.0, "measure_every": 0, "checkpoint_seconds": 0.0, "random_state": 3}
    whole = minimize(sum_of(alpha=1e-3), max_iter=9, **settings)
    path = tmp_path / "run.npz"
    minimize(sum_of(alpha=1e-3), max_iter=4, checkpoint=path, **settings)
    resumed = minimize(sum_of(alpha=1e-3), max_iter=9, checkpoint=path, resume=True, **settings)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.njev - whole.njev in (0, 30)  # the check at the end of the first run


def test_a_checkpoint_belongs_to_its_components(tmp_path):
    path = tmp_path / "run.npz"
    minimize(sum_of(), method="saga", max_iter=3, checkpoint=path)
    other = sum_of()
    changed = replace(other, components=[*other.components[:-1], softplus(POINTS[-1], 0.9)])
    for problem in (changed, sum_of(alpha=0.1), replace(other, components=other.components[:-1])):
        with pytest.raises(CheckpointError):
            minimize(problem, method="saga", max_iter=5, checkpoint=path, resume=True)
    minimize(sum_of(), method="saga", max_iter=5, checkpoint=path, resume=True)


def test_callbacks_orders_and_traces_work_as_for_linear_models():
    seen = []
    result = minimize(
        sum_of(), method="saga", sampling="cyclic", max_iter=5, tol=0.0, callback=lambda r: seen.append(r.fun)
    )
    assert len(seen) == result.nit
    assert np.isfinite(result.trace.column("objective")).all()


# -- the example


def test_the_conditional_logit_example(capsys, monkeypatch):
    path = Path(__file__).parents[2] / "examples" / "conditional_logit.py"
    spec = importlib.util.spec_from_file_location("conditional_logit", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "travellers", partial(module.travellers, 100))
    results, expected = module.main()
    assert all(result.success for result in results.values())
    for result in results.values():
        np.testing.assert_allclose(result.x, expected, atol=1e-6)
    printed = capsys.readouterr().out
    assert "All derivatives agree with differences." in printed
    assert all(method in printed for method in module.METHODS)


def test_comparisons_of_methods_take_finite_sums():
    outcomes = run_methods(sum_of(alpha=0.01), ["a-ciag", "newton", "psg"], tol=1e-8)
    assert [outcome.success for outcome in outcomes] == [True, True, False]
    assert "cannot treat components" in outcomes[2].message
