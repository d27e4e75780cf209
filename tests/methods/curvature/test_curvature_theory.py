"""What the curvature paper proves, as statements about runs: special cases, error bounds, rates."""

import numpy as np
import pytest
from contracts.problems import make_pair
from oracles.newton_type import minimise
from oracles.sums import Sum

from finitesum.methods import ACIAG, AFG, CIAG, FG
from finitesum.methods.curvature.taylor_model import full_hessian, model_gradient
from finitesum.problems.linear import Problem
from finitesum.running.sampling import order_of_pass

pytestmark = pytest.mark.slow


def visits(method, problem, x0, components):
    """Yield the state after each single visit."""
    state = method.init(problem, x0)
    for j in components:
        state = method.run_pass(problem, state, np.array([j]))
        yield state


def logistic(n=40, d=5, l2=0.05, seed=0):
    """Return Problem, Sum and the optimum, by Newton's method on the oracle."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)
    problem, oracle = Problem.linear(X, y, alpha=l2, batch_size=1), Sum(X, y, l2=l2)
    x = np.zeros(d)
    for _ in range(30):
        x = x - np.linalg.solve(oracle.hessian(x), oracle.gradient(x))
    assert np.linalg.norm(oracle.gradient(x)) < 1e-14
    return problem, oracle, x


def extreme_curvatures(oracle, points):
    """Return bounds mu <= curvature <= L that hold along the points and everywhere: l2, and the largest of the logistic."""
    gram = oracle.Z.T @ (oracle.Z * oracle.p[:, None])
    return oracle.l2.min(), 0.25 * np.linalg.eigvalsh(gram)[-1] + oracle.l2.max()


@pytest.mark.parametrize("seed", [0, 1])
def test_on_quadratics_ciag_with_a_full_start_is_the_full_gradient_method(seed):
    problem, oracle = make_pair("csr32", "squared", intercept=True, weighted=True, seed=seed)
    order = order_of_pass("with-replacement", seed, 0, problem.n_components)
    x0, step = np.ones(problem.dim), 0.3
    ciag = CIAG(step_size=step, warm_start_method="full")
    expected = x0
    for state in visits(ciag, problem, x0, order):
        expected = expected - step * oracle.gradient(expected)
        np.testing.assert_allclose(state.x, expected, rtol=1e-12, atol=1e-13)


def test_on_quadratics_a_ciag_with_a_full_start_is_the_accelerated_method():
    problem, oracle = make_pair("dense", "squared", batch_size=3)
    x0, step, extrapolation = np.ones(problem.dim), 0.3, 0.7
    afg = AFG(step_size=step, momentum=extrapolation)
    expected = afg.init(problem, x0)
    method = ACIAG(step_size=step, extrapolation=extrapolation, warm_start_method="full")
    for state in visits(method, problem, x0, [0, 3, 1, 1, 6, 2, 5, 4, 0, 2]):
        expected = afg.run_pass(problem, expected, np.arange(problem.n_components))
        np.testing.assert_allclose(state.x, expected.x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(model_gradient(state.model, state.x), oracle.gradient(state.x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cls", [CIAG, ACIAG])
def test_on_quadratics_the_self_initialised_model_is_exact_after_one_pass(cls):
    problem, oracle = make_pair("csr64", "squared", intercept=True)
    method = cls(step_size=0.2)
    state = method.run_pass(problem, method.init(problem, np.ones(problem.dim)), np.arange(problem.n_components))
    anywhere = np.random.default_rng(1).standard_normal(problem.dim)
    np.testing.assert_allclose(model_gradient(state.model, anywhere), oracle.gradient(anywhere), rtol=1e-11)


def test_one_component_ciag_is_the_gradient_method_and_a_ciag_the_accelerated_one():
    problem, _ = make_pair(batch_size=23, weighted=True)
    x0 = np.ones(problem.dim)
    for cls, reference, options in ((CIAG, FG, {"step_size": 0.4}), (ACIAG, AFG, {"step_size": 0.4, "extrapolation": 0.5})):
        known = {"step_size": 0.4} if reference is FG else {"step_size": 0.4, "momentum": 0.5}
        expected = reference(**known).init(problem, x0)
        for state in visits(cls(**options), problem, x0, [0] * 8):
            expected = reference(**known).run_pass(problem, expected, np.zeros(1, dtype=np.int64))
            np.testing.assert_allclose(state.x, expected.x, rtol=1e-12, atol=1e-14)


def test_zero_extrapolation_makes_a_ciag_ciag():
    problem, _ = make_pair("csr32", batch_size=2)
    order = np.arange(problem.n_components)
    a, b = CIAG(step_size=0.2), ACIAG(step_size=0.2, extrapolation=0.0)
    one = a.run_pass(problem, a.init(problem, np.ones(problem.dim)), order)
    two = b.run_pass(problem, b.init(problem, np.ones(problem.dim)), order)
    assert one.x.tobytes() == two.x.tobytes()


def test_aggregates_equal_the_sums_over_the_anchors():
    problem, oracle = make_pair("csr32", n=30, intercept=True, weighted=True, batch_size=4)
    method = ACIAG(step_size=0.5, extrapolation=0.4)
    x, previous, anchors = np.ones(problem.dim), np.ones(problem.dim), {}
    order = order_of_pass("with-replacement", 0, 0, 40) % problem.n_components
    for j, state in zip(order, visits(method, problem, x, order), strict=True):
        anchors[j] = x + 0.4 * (x - previous)
        previous, x = x, state.x
    hessian = sum(oracle.loss_hessian(j, a) for j, a in anchors.items()) / oracle.m + np.diag(oracle.l2)
    linear = sum(oracle.loss_gradient(j, a) - oracle.loss_hessian(j, a) @ a for j, a in anchors.items()) / oracle.m
    np.testing.assert_allclose(full_hessian(state.model), hessian, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state.model.linear, linear, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("cls", [CIAG, ACIAG])
def test_the_error_of_the_model_obeys_lemma_1(cls):
    """||g - grad F(y)|| <= sum_i (L_H,i / 2) ||y - anchor_i||^2, with L_H,i = ||x_i||^3 / (6 sqrt 3) / n."""
    problem, oracle, _ = logistic()
    lipschitz = np.linalg.norm(oracle.Z, axis=1) ** 3 / (6 * np.sqrt(3)) / oracle.n
    method = cls(step_size=1.0, warm_start_method="full")
    x, previous = np.ones(problem.dim), np.ones(problem.dim)
    anchors = np.tile(x, (oracle.n, 1))
    alpha = method.init(problem, x).schedule.extrapolation
    for j, state in zip(list(range(oracle.n)) * 3, visits(method, problem, x, list(range(oracle.n)) * 3), strict=True):
        y = x + alpha * (x - previous)
        anchors[j] = y
        error = np.linalg.norm(model_gradient(state.model, y) - oracle.gradient(y))
        bound = 0.5 * lipschitz @ np.sum((y - anchors) ** 2, axis=1)
        assert error <= bound + 1e-14
        previous, x = x, state.x
    assert bound > 1e-12  # the bound was put to the test


def test_ciag_is_a_perturbed_gradient_step():
    """Proposition 1: V+ <= (1 - 2 g mu L/(mu+L)) V + 2 g |e| sqrt V + g^2 |e|^2."""
    problem, oracle, optimum = logistic()
    mu, smoothness = extreme_curvatures(oracle, None)
    step = 2 / (mu + smoothness)
    x = np.ones(problem.dim)
    components = list(range(oracle.n)) * 4
    for _, state in zip(components, visits(CIAG(step_size=step), problem, x, components), strict=True):
        error = np.linalg.norm((x - state.x) / step - oracle.gradient(x))
        distance = np.linalg.norm(x - optimum)
        shrink = 1 - 2 * step * mu * smoothness / (mu + smoothness)
        bound = shrink * distance**2 + 2 * step * error * distance + step**2 * error**2
        assert np.linalg.norm(state.x - optimum) ** 2 <= bound * (1 + 1e-10) + 1e-28
        x = state.x


@pytest.mark.parametrize("c0", [1.0, 0.3])
def test_near_the_optimum_ciag_is_at_least_as_fast_as_theorem_1_says(c0):
    """The ratio of V tends to at most 1 - 4 c0 kappa / (kappa + 1)^2 with the step 2 c0 / (mu + L)."""
    problem, oracle, optimum = logistic(l2=0.02)
    mu, smoothness = extreme_curvatures(oracle, None)
    kappa = smoothness / mu
    method = CIAG(step_size=2 * c0 / (mu + smoothness))
    start = optimum + 1e-3 * np.ones(problem.dim)
    components = list(range(oracle.n)) * 30
    distances = [np.linalg.norm(s.x - optimum) ** 2 for s in visits(method, problem, start, components)]
    late = np.array(distances[oracle.n :])
    late = late[late > 1e-24]
    slope = np.polyfit(np.arange(late.size), np.log(late), 1)[0]
    assert late.size > 50
    assert slope <= np.log(1 - 4 * c0 * kappa / (kappa + 1) ** 2) + 1e-6


@pytest.mark.parametrize("c1", [1.0, 0.3])
def test_near_the_optimum_a_ciag_is_at_least_as_fast_as_theorem_2_says(c1):
    """The ratio of F - F* tends to at most 1 - sqrt(c1 / (2 kappa)) with the step c1 / (2 L) and eq. 31."""
    problem, oracle, optimum = logistic(l2=0.005)
    mu, smoothness = extreme_curvatures(oracle, None)
    kappa = smoothness / mu
    method = ACIAG(step_size=0.5 * c1 / smoothness)
    start = optimum + 1e-3 * np.ones(problem.dim)
    components = list(range(oracle.n)) * 30
    gaps = []
    for state in visits(method, problem, start, components):
        difference = state.x - optimum
        gaps.append(0.5 * difference @ oracle.hessian(optimum) @ difference)  # F - F* to third order
    late = np.array(gaps[oracle.n :])
    late = late[late > 1e-24]
    slope = np.polyfit(np.arange(late.size), np.log(late), 1)[0]
    assert late.size > 50
    assert slope <= np.log(1 - np.sqrt(c1 / (2 * kappa))) + 1e-6


def test_the_estimating_sequence_of_a_ciag_has_its_minimiser_where_the_proof_says():
    """v+ = (1-s) v + s y - (s/mu) g, from v = x: then v - y = (y - x) / s at every visit, whatever the model."""
    problem, oracle, _ = logistic()
    mu, smoothness = extreme_curvatures(oracle, None)
    step = 0.5 / smoothness
    s = np.sqrt(mu * step)
    x = previous = v = np.ones(problem.dim)
    components = list(range(oracle.n)) * 3
    for _, state in zip(components, visits(ACIAG(step_size=step), problem, x, components), strict=True):
        y = x + (1 - s) / (1 + s) * (x - previous)
        np.testing.assert_allclose(v - y, (y - x) / s, rtol=1e-9, atol=1e-11)
        gradient = (y - state.x) / step
        v = (1 - s) * v + s * y - s / mu * gradient
        previous, x = x, state.x


def hessian_lipschitz(oracle):
    """Return the mean of the Lipschitz constants of the components' Hessians, |x_i|^3 / (6 sqrt 3): logistic loss."""
    return oracle.p @ np.linalg.norm(oracle.Z, axis=1) ** 3 / (6 * np.sqrt(3))


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-6])
def test_the_step_that_theorem_1_allows_gives_its_linear_rate(distance):
    """V(k) <= delta^ceil(k / (2K+1)) V(1), K = m, with the step of the theorem for this start; cyclic, anchored there."""
    problem, oracle, optimum = logistic()
    mu, smoothness = extreme_curvatures(oracle, None)
    lipschitz, delay = hessian_lipschitz(oracle), oracle.n
    x = optimum + distance * np.ones(problem.dim) / np.sqrt(problem.dim)
    first = distance**2
    gain = mu * smoothness / (2 * (mu + smoothness))
    bend = smoothness**2 + 4 * lipschitz**2 * first
    step = min(
        2 / (mu + smoothness),
        (gain / (delay**2 * lipschitz * distance * bend)) ** 0.5,
        (gain / (delay**4 * lipschitz**2 * first * (smoothness**4 + 16 * lipschitz**4 * first**2))) ** 0.2,
    )
    exponents, factors = (
        (1.5, 2.5, 2.0, 4.0),
        (
            2 * step**3 * delay**2 * lipschitz * smoothness**2,
            8 * step**3 * delay**2 * lipschitz**3,
            2 * step**6 * delay**4 * lipschitz**2 * smoothness**4,
            32 * step**6 * delay**4 * lipschitz**6,
        ),
    )
    rate = 1 - 2 * step * mu * smoothness / (mu + smoothness)
    delta = rate + sum(q * first ** (eta - 1) for q, eta in zip(factors, exponents, strict=True))
    assert delta < 1
    method = CIAG(step_size=step, warm_start_method="full")
    for k, state in enumerate(visits(method, problem, x, list(range(oracle.n)) * 6), start=1):
        distance_squared = np.sum((state.x - optimum) ** 2)
        assert distance_squared <= delta ** np.ceil(k / (2 * delay + 1)) * first * (1 + 1e-9) + 1e-30


PROXIMAL = [{"l1_ratio": 0.3}, {"constraint": "l2-ball"}, {"constraint": "l1-ball"}]


def proximal(setting):
    """Return Problem, Sum and the optimum of a small problem with a prox, by proximal Newton steps on the oracle."""
    problem, oracle = make_pair("dense", n=40, d=5, alpha=1e-3, **setting)
    x = np.zeros(problem.dim)
    for _ in range(30):
        x = minimise(oracle, oracle.gradient(x), oracle.hessian(x), x)
    assert oracle.optimality(x) < 1e-13
    return problem, oracle, x


@pytest.mark.parametrize("setting", PROXIMAL, ids=str)
def test_proximal_ciag_is_a_perturbed_proximal_gradient_step(setting):
    """|x+ - x*| <= sqrt(1 - 2 g mu L / (mu + L)) |x - x*| + g |e|: prox does not expand."""
    problem, oracle, optimum = proximal(setting)
    mu, smoothness = extreme_curvatures(oracle, None)
    step = 2 / (mu + smoothness)
    x = np.ones(problem.dim)
    components = list(range(oracle.n)) * 3
    for _, state in zip(components, visits(CIAG(step_size=step), problem, x, components), strict=True):
        error = np.linalg.norm(model_gradient(state.model, x) - oracle.gradient(x))
        shrink = np.sqrt(1 - 2 * step * mu * smoothness / (mu + smoothness))
        bound = shrink * np.linalg.norm(x - optimum) + step * error
        assert np.linalg.norm(state.x - optimum) <= bound * (1 + 1e-10) + 1e-13
        x = state.x


@pytest.mark.parametrize("setting", PROXIMAL, ids=str)
def test_proximal_ciag_converges_linearly_from_nearby_as_its_notes_say(setting):
    """V(k) <= delta^ceil(k / (m+1)) V(0), where 4 M sqrt(V) + 4 step M^2 V < 2 mu L / (mu + L); the rate tends to p."""
    problem, oracle, optimum = proximal(setting)
    mu, smoothness = extreme_curvatures(oracle, None)
    step, lipschitz = 2 / (mu + smoothness), hessian_lipschitz(oracle)
    inward = np.zeros(problem.dim) - optimum  # stays feasible
    distance = 0.1 * mu / lipschitz
    x = optimum + distance * inward / np.linalg.norm(inward)
    first = distance**2
    gain = 2 * mu * smoothness / (mu + smoothness)
    assert 4 * lipschitz * distance + 4 * step * lipschitz**2 * first < gain
    rate = 1 - step * gain
    delta = rate + 4 * step * lipschitz * distance + 4 * step**2 * lipschitz**2 * first
    method = CIAG(step_size=step, warm_start_method="full")
    distances = []
    for k, state in enumerate(visits(method, problem, x, list(range(oracle.n)) * 20), start=1):
        distances.append(np.sum((state.x - optimum) ** 2))
        assert distances[-1] <= delta ** np.ceil(k / (oracle.n + 1)) * first * (1 + 1e-9) + 1e-26
    if "constraint" not in setting:  # where a constraint acts, all is over before the errors of the first anchors are gone
        late = np.array(distances)[oracle.n :]
        late = late[late > 1e-26]
        assert late.size > 100
        assert np.polyfit(np.arange(late.size), np.log(late), 1)[0] <= np.log(rate) + 1e-6


@pytest.mark.parametrize("cls", [CIAG, ACIAG])
def test_on_quadratics_with_a_prox_every_visit_is_an_exact_proximal_step(cls):
    problem, oracle = make_pair("dense", "squared", l1_ratio=0.6)
    step, extrapolation = 0.3, 0.0 if cls is CIAG else 0.5
    x = previous = np.ones(problem.dim)
    method = cls(step_size=step, extrapolation=extrapolation, warm_start_method="full")
    for state in visits(method, problem, x, [3, 0, 7, 7, 1, 5]):
        y = x + extrapolation * (x - previous)
        previous, x = x, oracle.prox(y - step * oracle.gradient(y), step)
        np.testing.assert_allclose(state.x, x, rtol=1e-12, atol=1e-13)
