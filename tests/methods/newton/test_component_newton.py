"""Newton-CG and lazy Newton on components that are functions: their oracles, samples, sums that are not convex, charges."""

import numpy as np
import pytest
from oracles import component_newton as oracles

from finitesum import Component, FiniteSum, minimize
from finitesum.constraints import Box
from finitesum.methods import METHODS

NAMES = ("newton-cg", "lazy-newton")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
Y = np.tanh(X @ [2.0, -1.0, 0.5, 0.0] + 0.3 * RNG.standard_normal(40))


class Waves:
    """The mean of (tanh(x_i'w) - y_i)^2 / 2 + l2 / 2 ||w||^2, which is not convex."""

    def __init__(self, l2):
        self.l2 = l2

    @staticmethod
    def sums(w, rows=slice(None)):
        u = np.tanh(X[rows] @ w)
        first, second = 1.0 - u**2, -2.0 * u * (1.0 - u**2)
        slopes, curvatures = (u - Y[rows]) * first, first**2 + (u - Y[rows]) * second
        return 0.5 * (u - Y[rows]) ** 2, slopes[:, None] * X[rows], (X[rows].T * curvatures) @ X[rows]

    def objective(self, w):
        return self.sums(w)[0].mean() + 0.5 * self.l2 * w @ w

    def gradient(self, w):
        return self.sums(w)[1].mean(axis=0) + self.l2 * w

    def hessian(self, w):
        return self.sums(w)[2] / 40 + self.l2 * np.eye(4)


def waves(l2=1e-2, **options):
    return FiniteSum.from_function(
        lambda w, rows: Waves.sums(w, rows)[:2],
        40,
        dim=4,
        backend="numpy",
        batch_size=3,
        alpha=l2,
        convex=False,
        hessian=lambda w, rows: Waves.sums(w, rows)[2],
        **options,
    )


START = np.array([-2.0, 1.5, 0.3, -0.7])


def steps_of(problem, method, x0, tol=1e-9, most=400):
    """The state after each step."""
    order, state, states = np.arange(problem.n_components), method.init(problem, x0, tol), []
    for _ in range(most):
        n_steps = state.n_steps
        state = method.run_pass(problem, state, order)
        if state.n_steps == n_steps + 1 and (states or state.n_gradients > problem.n_components):
            states.append(state)
    return states


def test_newton_cg_makes_the_steps_of_its_oracle_where_curvature_is_negative():
    F, problem = Waves(1e-2), waves()
    assert np.linalg.eigvalsh(F.hessian(START))[0] < -1e-2
    states = steps_of(problem, METHODS["newton-cg"](first_rows=40), START, most=40)
    expected = list(oracles.newton_cg(F, START, 1e-9, 8))
    m = problem.n_components
    for k, (w, products) in enumerate(expected):
        np.testing.assert_allclose(states[k].x, w, rtol=1e-8, atol=1e-9)
        assert states[k].n_gradients == (1 + products + k + 1) * m  # the start, products, and an end for each step


def test_lazy_newton_makes_the_steps_of_its_oracle_where_curvature_is_negative():
    F, problem = Waves(1e-2), waves()
    states = steps_of(problem, METHODS["lazy-newton"](first_rows=40, hessian_rows=40), START, tol=0.0, most=9)
    for state, (w, n_hessians) in zip(states, oracles.lazy_newton(F, START, 8), strict=True):
        np.testing.assert_allclose(state.x, w, rtol=1e-8, atol=1e-9)
        assert state.n_hessians == n_hessians * problem.n_components


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", NAMES)
def test_f_never_rises_and_ends_at_a_stationary_point_of_a_sum_that_is_not_convex(name, seed):
    F, problem = Waves(1e-3), waves(1e-3)
    x0 = 3.0 * np.random.default_rng(seed).standard_normal(4)
    values = [F.objective(x0)]

    def follow(intermediate_result):
        values.append(F.objective(intermediate_result.x))

    result = minimize(problem, x0, method=name, options={"first_rows": 40}, tol=1e-9, callback=follow)
    assert result.success, result.message
    assert "stationary point" in result.message
    assert np.linalg.norm(F.gradient(result.x)) <= 1.01e-9
    assert np.diff(values).max() <= 1e-13 * values[0]


@pytest.mark.parametrize("name", sorted(name for name, method in METHODS.items() if "components" in method.handles))
def test_no_method_ends_above_its_start_on_a_sum_that_is_not_convex(name):
    F, problem = Waves(1e-2), waves()
    options = {"initial": 1.0} if name == "iqn" else {}
    result = minimize(problem, START, method=name, options=options, tol=1e-6, max_iter=60)
    assert F.objective(result.x) <= F.objective(START)
    assert "stationary point" in result.message


def rosenbrock():
    """Rosenbrock's function in ten equal parts: a curved valley, in which the gradient rises while F falls."""

    def f(w, rows):
        r = w[1] - w[0] ** 2
        value, slope = (1 - w[0]) ** 2 + 100 * r**2, np.array([-2 * (1 - w[0]) - 400 * w[0] * r, 200 * r])
        return np.full(rows.size, value), rows.size * slope

    def hessian(w, rows):
        return rows.size * np.array([[2 - 400 * w[1] + 1200 * w[0] ** 2, -400 * w[0]], [-400 * w[0], 200.0]])

    return FiniteSum.from_function(f, 10, dim=2, backend="numpy", hessian=hessian, batch_size=1, convex=False)


def cauchy():
    """Regression with Cauchy's loss, whose second derivative is negative far off."""
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((100, 3)), rng.standard_cauchy(100)
    y = X @ np.ones(3) + noise

    def f(w, rows):
        r = X[rows] @ w - y[rows]
        return np.log1p(r**2), (2 * r / (1 + r**2)) @ X[rows]

    def hessian(w, rows):
        r = X[rows] @ w - y[rows]
        return (X[rows].T * (2 * (1 - r**2) / (1 + r**2) ** 2)) @ X[rows]

    return FiniteSum.from_function(f, 100, dim=3, backend="numpy", hessian=hessian, batch_size=5, convex=False)


@pytest.mark.parametrize("name", ["nim", "a-ciag", "newton", "lazy-newton", "newton-cg"])
@pytest.mark.parametrize(("make", "start"), [(rosenbrock, [-1.2, 1.0]), (cauchy, [5.0, -5.0, 5.0])])
def test_second_order_methods_leave_regions_of_negative_curvature(make, start, name):
    problem = make()
    result = minimize(problem, start, method=name, tol=1e-8, max_iter=300)
    assert result.success, result.message
    assert np.linalg.eigvalsh(problem.hessian(result.x))[0] > 0.0
    assert "stationary point" in result.message


@pytest.mark.parametrize("name", ["nim", "ciag", "a-ciag"])
def test_no_pass_on_taylor_models_raises_a_sum_that_is_not_convex(name):
    problem = rosenbrock()
    method = METHODS[name]()
    states = [method.init(problem, np.array([-1.2, 1.0]))]
    for k in range(40):
        order = np.random.default_rng(k).permutation(problem.n_components)
        states.append(method.run_pass(problem, states[-1], order))
    values = [problem.mean_value_and_gradient(state.x)[0] for state in states]
    assert (np.diff(values) <= 1e-12 * np.abs(values[:-1])).all()


@pytest.mark.parametrize("name", ["fg", "saga", "svrg"])
def test_a_run_whose_objective_still_falls_is_not_called_stalled(name):
    result = minimize(rosenbrock(), [-1.2, 1.0], method=name, tol=1e-8, max_iter=700)
    assert result.reason.name == "MAX_ITER", result.message
    assert result.fun < 4.0


@pytest.mark.parametrize("name", NAMES)
def test_a_step_back_from_a_start_that_is_far_too_far(name):

    def distance(a):
        return Component(lambda w: np.cosh(w[0] - a), lambda w: np.sinh(w - a), lambda w: [[np.cosh(w[0] - a)]])

    problem = FiniteSum([distance(0.0), distance(1.0), distance(2.0)], dim=1)
    result = minimize(problem, [30.0], method=name, tol=1e-10)
    assert result.success, result.message


@pytest.mark.parametrize("name", NAMES)
def test_samples_come_first_and_grow_to_all(name):
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((4000, 3)), rng.standard_normal(4000)

    def f(w, rows):
        r = A[rows] @ w - b[rows]
        return 0.5 * r**2, r[:, None] * A[rows]

    problem = FiniteSum.from_function(
        f, 4000, dim=3, backend="numpy", batch_size=10, hessian=lambda w, rows: A[rows].T @ A[rows]
    )
    method = METHODS[name](first_rows=100)
    states = [method.init(problem, np.zeros(3), 1e-9)]
    order = np.random.default_rng(2).permutation(400)
    for _ in range(20):
        states.append(method.run_pass(problem, states[-1], order))
    sizes = [state.n_sampled for state in states]
    assert sorted(set(sizes)) == [0, 10, 40, 160, 400]
    assert sizes == sorted(sizes)
    first = next(state for state in states if state.n_sampled == 10)
    rows = np.concatenate([np.arange(10 * j, 10 * j + 10) for j in order[:10]])
    np.testing.assert_allclose(first.gradient, -A[rows].T @ b[rows] / 100, rtol=1e-12)
    assert np.isnan(method.estimate(problem, first))
    np.testing.assert_allclose(states[-1].x, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "first"), [(4000, 100), (400_000, 1)])
def test_the_first_sample_is_all_rows_where_a_call_takes_longer_than_these(name, n, first):
    A = np.random.default_rng(1).standard_normal((n, 3))

    def f(w, rows):
        r = A[rows] @ w - 1.0
        return 0.5 * r**2, r[:, None] * A[rows]

    problem = FiniteSum.from_function(
        f, n, dim=3, backend="numpy", batch_size=-(-n // 100), hessian=lambda w, rows: A[rows].T @ A[rows]
    )
    method = METHODS[name]()
    state = method.run_pass(problem, method.init(problem, np.zeros(3), 1e-9), np.arange(problem.n_components))
    assert state.n_sampled == first


@pytest.mark.parametrize("name", NAMES)
def test_l1_penalties_have_the_minimiser_of_proximal_gradients(name):
    problem = waves(0.05, l1_ratio=0.8)
    x0 = np.array([0.5, -0.2, 0.1, 0.0])
    expected = minimize(problem, x0, method="fg", tol=1e-10, max_iter=5000)
    found = minimize(problem, x0, method=name, tol=1e-9)
    assert found.success, found.message
    np.testing.assert_allclose(found.x, expected.x, atol=1e-7)
    assert 0 < np.count_nonzero(found.x) < 4


def test_lazy_newton_stays_in_a_set():
    problem = waves(constraint=Box(-0.5, 0.5))
    x0 = np.array([0.5, -0.2, 0.1, 0.0])
    expected = minimize(problem, x0, method="fg", tol=1e-10, max_iter=5000)
    found = minimize(problem, x0, method="lazy-newton", tol=1e-9)
    assert found.success, found.message
    np.testing.assert_allclose(found.x, expected.x, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(name, tmp_path):
    whole = minimize(waves(), START, method=name, options={"first_rows": 6}, tol=1e-10)
    options = {"method": name, "options": {"first_rows": 6}, "tol": 1e-10, "checkpoint": tmp_path / "run.npz"}
    for most in (2, 4, 8, 1000):
        result = minimize(waves(), START, max_iter=most, resume=True, **options)
    np.testing.assert_array_equal(result.x, whole.x)
    assert result.n_passes == whole.n_passes


@pytest.mark.parametrize("name", NAMES)
def test_needs_second_derivatives(name):
    problem = FiniteSum([Component(lambda w: w @ w, lambda w: 2.0 * w)], dim=1)
    with pytest.raises(ValueError, match=f"{name} needs hessian"):
        minimize(problem, method=name)
