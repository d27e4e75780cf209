"""What the theory of the heavy-ball methods says, along runs of the library."""

import itertools

import numpy as np
import pytest
from oracles import heavy_ball as oracle

from finitesum.constraints import Box, L1Ball, L2Ball, LInfBall, Unconstrained
from finitesum.core.jit import COMPILED
from finitesum.methods import HB, NAG, PSG, AdaGrad, AdaHB, Adam, AMSGrad, RMSProp
from finitesum.problems.callables import SubgradientProblem, harvey

pytestmark = pytest.mark.slow

N_STEPS = 300 if COMPILED else 60
SETS = {"l1-ball": L1Ball(1.0), "l2-ball": L2Ball(1.0), "box": LInfBall(0.5)}
DIM = 8


def states(method, problem, n_steps, x0=None):
    """The states after 0, 1, ..., n_steps steps."""
    state = method.init(problem, np.zeros(problem.dim) if x0 is None else x0)
    yield state
    for j in range(n_steps):
        state = method.run_pass(problem, state, np.array([j % problem.n_components]))
        yield state


def random_problem(seed, constraint, m=30, d=DIM):
    """max of m linear functions: the problem, a bound on subgradients, and its minimum by a long accurate run's bound."""
    value, subgradient, M, A, c = oracle.max_of_linear(np.random.default_rng(seed), m, d)
    return SubgradientProblem(d, value, subgradient, constraint), M, minimum(A, c, constraint)


def minimum(A, c, constraint):
    """min over an l1 ball or box of max_i <a_i, w> + c_i, a linear program; the l2 ball by its dual, a small QP."""
    from scipy.optimize import linprog, minimize

    m, d = A.shape
    if isinstance(constraint, L2Ball):  # max over the simplex of c'l - r |A'l|, by its smooth parametrisation

        def dual(u):
            lam = np.exp(u - u.max())
            lam /= lam.sum()
            return constraint.radius * np.linalg.norm(A.T @ lam) - c @ lam

        found = min((minimize(dual, s, method="BFGS", options={"gtol": 1e-10}) for s in np.eye(m)[:3]), key=lambda r: r.fun)
        return -found.fun  # a lower bound of the minimum, tight to 1e-6 or so
    if isinstance(constraint, L1Ball):
        rows = np.vstack([np.hstack([A, -A, -np.ones((m, 1))]), np.r_[np.ones(2 * d), 0.0]])
        right, bounds = np.r_[-c, constraint.radius], [(0, None)] * (2 * d) + [(None, None)]
    else:
        rows, right = np.hstack([A, -np.ones((m, 1))]), -c
        bounds = [(-constraint.radius, constraint.radius)] * d + [(None, None)]
    return linprog(np.r_[np.zeros(rows.shape[1] - 1), 1.0], A_ub=rows, b_ub=right, bounds=bounds).fun


def metric_after(state, t, delta):
    return np.sqrt(state.memory.second) + delta / np.sqrt(t)


def auxiliary(method, problem, n_steps):
    """t, z_t, z_{t+1}, y_t and s_t of the displacement form, z_t = w_t + t (w_t - w_{t-1})."""
    ws = [None]
    for t, state in enumerate(states(method, problem, n_steps)):
        ws.append(state.x)
        if t == 0:
            continue
        now, before, after = ws[t], ws[t - 1] if t > 1 else ws[1], ws[t + 1]
        g = problem.component_subgradient(now, 0)
        s = metric_after(state, t, method.delta) if isinstance(method, AdaHB) else np.ones(problem.dim)
        z = now + t * (now - before)
        yield t, z, after + (t + 1) * (after - now), z - method.step_size / np.sqrt(t) * g / s, s


@pytest.mark.parametrize("alpha", [0.05, 0.3, 3.0])
@pytest.mark.parametrize("which", SETS)
def test_a_variational_inequality_holds_where_the_printed_lemma_fails(which, alpha):
    problem, _, _ = random_problem(0, SETS[which])
    for method in (HB(alpha, form="displacement"), AdaHB(alpha, delta=1e-8, form="displacement")):
        largest = 0.0
        for _, _, after, y, s in auxiliary(method, problem, N_STEPS):
            e = s * (after - y)
            scale = max(1.0, np.abs(s * y).max())
            assert e @ after + problem.constraint.support(-e) <= 1e-11 * scale
            projected = problem.constraint.project(y, metric=s)
            largest = max(largest, np.abs(after - projected).max())
        if which == "l1-ball" and alpha == 0.3:
            assert largest > 0.1  # z leaves the set, so it is no projection onto it


def test_without_constraint_the_printed_lemma_is_an_identity():
    problem, _, _ = random_problem(1, SETS["box"])
    free = SubgradientProblem(DIM, problem.value, problem.subgradient)
    for method in (HB(0.05, form="displacement"), AdaHB(0.05, delta=1e-8, form="displacement")):
        for _, _, after, y, _ in auxiliary(method, free, N_STEPS):
            np.testing.assert_allclose(after, y, atol=1e-11)


@pytest.mark.parametrize("which", SETS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bounds_of_the_averaging_form_hold_along_the_run(which, seed):
    problem, M, low = random_problem(seed, SETS[which])
    diameter, width = problem.constraint.diameter(DIM), problem.constraint.width()
    first = problem.value(np.zeros(DIM)) - low
    for factor, beta, gamma in ((0.1, 0.5, 0.5), (1.0, 0.9, 0.9)):
        alpha = factor * diameter / (np.sqrt(2.0) * M)
        method = HB(alpha, form="averaging")
        for t, (before, _) in enumerate(itertools.pairwise(states(method, problem, N_STEPS)), 1):  # theorem 3
            bound = (first + np.sqrt(t) * (alpha * M**2 + diameter**2 / (2 * alpha))) / (t + 1)
            assert problem.value(before.x) - low <= bound
        method = HB(alpha, momentum=beta, form="averaging", output="average")
        for t, (before, state) in enumerate(itertools.pairwise(states(method, problem, N_STEPS)), 1):  # theorem 4
            drop = problem.value(np.zeros(DIM)) - problem.value(before.memory.iterate)
            bound = beta / ((1 - beta) * t) * drop + (1 - beta) * diameter**2 / (2 * alpha * np.sqrt(t))
            assert problem.value(state.x) - low <= bound + alpha * M**2 / ((1 - beta) * np.sqrt(t)) + 1e-12
        alpha, delta = factor * width, 1e-8
        method = AdaHB(alpha, gamma=gamma, delta=delta, form="averaging")
        for t, (before, state) in enumerate(itertools.pairwise(states(method, problem, N_STEPS)), 1):  # theorem 5
            G = np.sum(np.sqrt(t * state.memory.second) + delta)
            bound = (first + (width**2 / (2 * alpha) + alpha * (2 - gamma) / gamma) * G) / (t + 1)
            assert problem.value(before.x) - low <= bound
        method = AdaHB(alpha, gamma=gamma, delta=delta, momentum=beta, form="averaging", output="average")
        for t, (before, state) in enumerate(itertools.pairwise(states(method, problem, N_STEPS)), 1):  # theorem 6
            G = np.sum(np.sqrt(t * state.memory.second) + delta)
            drop = problem.value(np.zeros(DIM)) - problem.value(before.memory.iterate)
            factors = alpha * (2 - gamma) / (gamma * (1 - beta)) + (1 - beta) * width**2 / (2 * alpha)
            assert problem.value(state.x) - low <= beta / ((1 - beta) * t) * drop + factors * G / t + 1e-12


@pytest.mark.parametrize("form", ["displacement", "averaging"])
def test_both_forms_keep_the_bounds_that_need_no_bounded_set(form):
    problem, M, low = random_problem(3, SETS["l1-ball"])
    solution = 1.0  # no point of the ball is farther from 0
    first = problem.value(np.zeros(DIM)) - low
    alpha = solution / M
    for t, (before, _) in enumerate(itertools.pairwise(states(HB(alpha, form=form), problem, N_STEPS)), 1):
        bound = first + solution**2 / (2 * alpha) + alpha * M**2 / 2 * (1 + np.log(t))
        assert problem.value(before.x) - low <= np.sqrt(t) / (t + 1) * bound
    T = N_STEPS
    method = HB(alpha, form=form, schedule="horizon", horizon=T)
    *_, last, _ = states(method, problem, T)
    assert problem.value(last.x) - low <= (first + np.sqrt(T) * (solution**2 / (2 * alpha) + alpha * M**2 / 2)) / (T + 1)


def linear(g, constraint):
    g = np.asarray(g, dtype=float)
    return SubgradientProblem(g.size, lambda w: float(g @ w), lambda w: g, constraint)


@pytest.mark.parametrize("form", ["displacement", "averaging"])
def test_the_printed_projection_ends_in_the_wrong_place_and_breaks_the_bound(form):
    problem = linear([1.0, 0.9], L1Ball(1.0))
    n_steps = 6000 if COMPILED else 2000
    zeros = np.zeros(n_steps, dtype=np.int64)
    for alpha, gamma in ((0.3, 0.9), (1.0, 0.5)):
        ends = {}
        for projection in ("weighted", "euclidean"):
            method = AdaHB(alpha, gamma=gamma, delta=1e-12, form=form, projection=projection)
            ends[projection] = method.run_pass(problem, method.init(problem, np.zeros(2)), zeros)
        np.testing.assert_allclose(ends["euclidean"].x, [-0.5, -0.5], atol=5e-3)
        assert problem.value(ends["euclidean"].x) > -0.9505
        assert problem.value(ends["weighted"].x) < -0.995
    alpha, gamma = np.sqrt(0.9 / 2.2), 0.9  # best for z within 1 of the solution in each coordinate, which it is
    method = AdaHB(alpha, gamma=gamma, delta=1e-12, form="averaging", projection="euclidean")
    state = method.run_pass(problem, method.init(problem, np.zeros(2)), zeros)
    assert np.abs(state.memory.companion - [-1.0, 0.0]).max() <= 1.0
    t = n_steps
    G = np.sum(np.sqrt(t * state.memory.second))
    bound = (1.0 + (1.0 / (2 * alpha) + alpha * (2 - gamma) / gamma) * G) / (t + 1)
    assert problem.value(state.x) + 1.0 > (bound if COMPILED else 0.04)


@pytest.mark.parametrize("make", [AdaGrad, RMSProp, Adam, AMSGrad])
def test_the_adaptive_baselines_need_the_weighted_projection_as_well(make):
    problem = linear([1.0, 0.9], L1Ball(1.0))
    zeros = np.zeros(2000, dtype=np.int64)
    ends = [
        make(0.3, projection=projection).run_pass(
            problem, make(0.3, projection=projection).init(problem, np.zeros(2)), zeros
        )
        for projection in ("weighted", "euclidean")
    ]
    assert problem.value(ends[0].x) < -0.995
    assert problem.value(ends[1].x) > -0.96


def given_gradients(n_steps, dim, constraint, seed=0, sparse=True):
    """A problem whose j-th component has the j-th of given subgradients, wherever it is asked."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n_steps, dim)) * (rng.random((n_steps, dim)) < (0.2 if sparse else 1.0))
    return SubgradientProblem(dim, lambda w: 0.0, lambda w, j: table[j], constraint, n_components=n_steps), table


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 1.0])
def test_the_metric_times_the_root_of_t_grows_and_lemma_7_holds(gamma):
    n_steps = 1000 if COMPILED else 200
    problem, table = given_gradients(n_steps, 6, Unconstrained())
    delta = 1e-3
    before, left = np.zeros(6), np.zeros(6)
    for t, state in enumerate(states(AdaHB(0.1, gamma=gamma, delta=delta), problem, n_steps)):
        if t:
            now = np.sqrt(t) * metric_after(state, t, delta)
            assert (now >= before - 1e-13 * now).all() or t == 1
            left += table[t - 1] ** 2 / (np.sqrt(t * state.memory.second) + delta)
            assert (left <= 2 * (2 - gamma) / gamma * now + 1e-12).all()
            before = now
    if gamma == 1.0:
        np.testing.assert_allclose(n_steps * state.memory.second, np.sum(table**2, axis=0), rtol=1e-12)


@pytest.mark.parametrize("method", [HB, AdaHB], ids=["hb", "adahb"])
def test_displacement_is_averaging_while_no_constraint_acts(method):
    problem, _, _ = random_problem(4, SETS["box"])
    n_steps = 1000 if COMPILED else 100
    for constraint in (Unconstrained(), L1Ball(1e3), L2Ball(1e3)):
        here = SubgradientProblem(DIM, problem.value, problem.subgradient, constraint)
        for momentum in ("varying", 0.7):
            runs = [
                states(method(0.05, momentum=momentum, form=form), here, n_steps) for form in ("displacement", "averaging")
            ]
            for one, other in zip(*runs, strict=True):
                np.testing.assert_allclose(one.x, other.x, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("constraint", [Box(-0.1, [0.2] * DIM), LInfBall(0.1), Unconstrained()], ids=repr)
@pytest.mark.parametrize("make", [AdaHB, AdaGrad, RMSProp, Adam, AMSGrad])
def test_both_projections_give_the_same_bits_on_sets_that_bound_coordinates(make, constraint):
    problem, _, _ = random_problem(5, constraint if isinstance(constraint, LInfBall) else SETS["box"])
    here = SubgradientProblem(DIM, problem.value, problem.subgradient, constraint)
    runs = [states(make(0.2, projection=projection), here, 100) for projection in ("weighted", "euclidean")]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one.x, other.x)


@pytest.mark.parametrize("which", SETS)
@pytest.mark.parametrize("method", [PSG(0.3), HB(0.3, form="averaging"), AdaHB(0.3, form="averaging")], ids=repr)
def test_the_averaging_form_does_not_amplify_a_perturbation(method, which):
    n_steps = 2000 if COMPILED else 100
    problem, _ = given_gradients(n_steps, DIM, SETS[which], sparse=False)
    x0 = 0.05 * np.ones(DIM)
    runs = [states(method, problem, n_steps, start) for start in (x0, x0 + 1e-12)]
    assert max(np.abs(one.x - other.x).max() for one, other in zip(*runs, strict=True)) <= 3e-12


@pytest.mark.parametrize("form", ["displacement", "averaging"])
def test_adahb_does_not_see_the_scale_of_f_nor_the_order_of_the_variables(form):
    problem, _, _ = random_problem(6, SETS["l1-ball"])
    method = AdaHB(0.2, delta=0.0, form=form)
    scaled = SubgradientProblem(DIM, problem.value, lambda w: 1024.0 * problem.subgradient(w), problem.constraint)
    turn = np.random.default_rng(0).permutation(DIM)
    back = np.argsort(turn)
    turned = SubgradientProblem(DIM, problem.value, lambda w: problem.subgradient(w[back])[turn], problem.constraint)
    for one, other, third in zip(
        states(method, problem, 80), states(method, scaled, 80), states(method, turned, 80), strict=True
    ):
        np.testing.assert_allclose(one.x, other.x, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(one.x[turn], third.x, rtol=1e-6, atol=1e-9)


# Harvey's function.


@pytest.mark.parametrize(("T", "c"), [(5, 1.0), (40, 2.0), (200, 4.0)])
def test_harvey_is_what_its_definition_says(T, c):
    problem, written = harvey(T, c), oracle.Harvey(T, c)
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = rng.standard_normal(T) / T
        assert problem.value(w) == pytest.approx(np.max(written.H @ w), rel=1e-12)
        np.testing.assert_allclose(problem.subgradient(w), written.H[np.argmax(written.H @ w)])
    assert np.linalg.norm(written.H, axis=1).max() <= np.sqrt(0.25 + np.pi**2 / 384) / c
    weights = np.zeros(T + 1)  # 0 lies in the convex hull of the pieces, so that 0 is a minimiser
    weights[T] = 1.0
    for j in range(T - 1, -1, -1):
        weights[j] = written.a[j] / written.b[j] * weights[j + 1 :].sum()
    np.testing.assert_allclose(weights @ written.H, 0.0, atol=1e-14 * weights.sum())


@pytest.mark.parametrize("c", [1.0, 2.0, 4.0])
def test_psg_on_harvey_has_its_closed_form_and_lower_bound(c):
    T = 1000 if COMPILED else 100
    problem = harvey(T, c)
    method = PSG(c)
    state = method.run_pass(problem, method.init(problem, np.zeros(T)), np.zeros(T, dtype=np.int64))
    np.testing.assert_allclose(state.x, oracle.Harvey(T, c).psg(c, T), atol=1e-14)
    assert problem.value(state.x) >= np.log(T) / (32 * c * np.sqrt(T))
    assert np.linalg.norm(state.x) < 1.0


REGRESSION = [  # method, f(w_T), f(w_{T+1}) for T = 1000, c = 2, rounded
    (PSG(2.0), "0.00503102", "0.00586015"),
    (HB(8.0, form="displacement"), "0.00327224", "0.00329237"),
    (HB(8.0, form="averaging"), "0.00264972", "0.00266870"),
    (NAG(8.0), "0.002415", None),
    (NAG(16.0), "0.004494", None),
    (AdaHB(0.08, form="displacement"), "0.00385", "0.00388"),
    (AdaHB(0.08, form="displacement", projection="euclidean"), "0.00381", "0.00383"),
    (AdaHB(0.08, form="averaging"), "0.00258", None),
    (HB(0.2, momentum=0.9, form="displacement"), "0.003826", None),
]


@pytest.mark.skipif(not COMPILED, reason="a thousand steps in a thousand variables")
@pytest.mark.parametrize(("method", "at_t", "after"), REGRESSION, ids=lambda v: repr(v)[:60])
def test_values_on_harvey(method, at_t, after):
    problem = harvey(1000)
    state = method.run_pass(problem, method.init(problem, np.zeros(1000)), np.zeros(999, dtype=np.int64))
    assert f"{problem.value(state.x):.{len(at_t) - 2}f}" == at_t
    if after is not None:
        state = method.run_pass(problem, state, np.zeros(1, dtype=np.int64))
        assert f"{problem.value(state.x):.{len(after) - 2}f}" == after


@pytest.mark.skipif(not COMPILED, reason="thousands of steps in thousands of variables")
def test_psg_alone_loses_a_logarithm_on_harvey():
    ends = {}
    for method, T in itertools.product((PSG(2.0), HB(8.0, form="averaging"), PSG(2.0, output="average")), (125, 1000)):
        problem = harvey(T)
        state = method.run_pass(problem, method.init(problem, np.zeros(T)), np.zeros(T, dtype=np.int64))
        ends[method, T] = problem.value(state.x) * np.sqrt(T)
    psg, hb, mean = ((ends[method, 125], ends[method, 1000]) for method in dict.fromkeys(m for m, _ in ends))
    assert psg[1] > 1.35 * psg[0]
    assert hb[1] < 1.1 * hb[0]
    assert mean[1] < 1.1 * mean[0]
