"""Lower bounds, duality gaps, exact minima, and what the driver makes of nonsmooth problems."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Simplex
from finitesum.core.jit import COMPILED
from finitesum.evaluation.certificates import column_sizes, dual_minorant, has_certificate, lower_bound, minorant_at
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import Hinge
from finitesum.methods import HB, PSG
from finitesum.methods.newton.linear_program import reference_optimum
from finitesum.methods.projected.step_sizes import scales_at, set_distance
from finitesum.problems.callables import SubgradientProblem, harvey
from finitesum.problems.linear import Problem
from finitesum.running.driver import StopReason

N, D = 80, 6


def hinge_problem(seed=0, *, n=N, noise=1.0, **arguments):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.where(X @ rng.standard_normal(D) + noise * rng.standard_normal(n) > 0, 1, -1)
    return Problem.linear(X, y, **({"loss": "hinge", "constraint": L1Ball(0.8)} | arguments))


VARIANTS = {
    "l1-ball": {},
    "weighted-l1-ball": {"constraint": L1Ball(1.0, weights=np.arange(1.0, D + 1))},
    "box": {"constraint": Box(-0.1, [0.3] * D)},
    "l-inf": {"constraint": LInfBall(0.2)},
    "intercept": {"fit_intercept": True},
    "weights": {"sample_weight": np.arange(N) % 4, "offset": 0.3 * np.cos(np.arange(N)), "fit_intercept": True},
    "scale": {"loss": Hinge(2.5)},
    "inactive": {"constraint": L1Ball(100.0)},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_linear_program_and_its_dual_meet(variant):
    problem = hinge_problem(**VARIANTS[variant])
    found = reference_optimum(problem)
    assert found.value - found.lower_bound == pytest.approx(0.0, abs=1e-9)
    assert problem.constraint.contains(found.x[:D], 1e-9)
    assert found.value == pytest.approx(evaluate(problem, found.x).objective, abs=1e-14)
    for seed in range(5):  # and no other point is better
        x = found.x + 1e-3 * np.random.default_rng(seed).standard_normal(problem.dim)
        x[:D] = problem.constraint.project(x[:D])
        assert evaluate(problem, x).objective >= found.lower_bound


@pytest.mark.parametrize("distance", [0.0, 0.05, 1.0])
def test_a_start_changes_the_program_and_not_the_minimum(distance, monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.linear_program.N_NEAR", 5)
    problem = hinge_problem(n=200)
    found = reference_optimum(problem)
    start = found.x + distance * np.random.default_rng(0).standard_normal(D)
    again = reference_optimum(problem, start=start)
    assert again.value == pytest.approx(found.value, abs=1e-9)
    assert again.value - again.lower_bound == pytest.approx(0.0, abs=1e-9)


def test_a_linear_program_refuses_other_problems():
    for arguments, match in (
        ({"loss": "logistic"}, "the hinge loss or another one with corners"),
        ({"alpha": 0.1}, "no penalty but l1"),
        ({"constraint": L2Ball(1.0)}, "that is a polyhedron"),
    ):
        with pytest.raises(ValueError, match=match):
            reference_optimum(hinge_problem(**arguments))
    with pytest.raises(RuntimeError, match="HiGHS found no optimum"):
        reference_optimum(hinge_problem(n=3000), time_limit=1e-9)


#: What a linear program does not treat.
UNPROVED = {
    "l2-ball": {"constraint": L2Ball(0.5)},
    "ridge": {"constraint": None, "alpha": 0.3, "fit_intercept": True},
    "free": {"constraint": None, "fit_intercept": True},
    "orthant": {"constraint": NonNegative()},
    "half-space": {"constraint": HalfSpace(np.ones(D), -0.2), "fit_intercept": True},
    "simplex": {"constraint": Simplex(0.5)},
    "l1": {"constraint": None, "alpha": 0.02, "l1_ratio": 1.0},
    "elastic-net": {"constraint": None, "alpha": 0.02, "l1_ratio": 0.5, "fit_intercept": True},
    "weighted": {"constraint": None, "alpha": 0.02, "l1_ratio": 0.5, "penalty_weights": np.arange(D)},
}


@pytest.mark.parametrize("variant", [*VARIANTS, *UNPROVED])
def test_a_gap_is_never_below_the_distance_from_the_minimum(variant):
    problem = hinge_problem(**(VARIANTS | UNPROVED)[variant])
    assert has_certificate(problem)
    best = minimize(problem, method="interior-point", tol=1e-11, measure_every=0)
    assert best.success
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = 0.3 * rng.standard_normal(problem.dim)
        x[:D] = problem.constraint.project(x[:D])
        value = evaluate(problem, x).objective
        gap = value - lower_bound(problem, minorant_at(problem, x)[1])
        assert gap >= value - best.fun - 1e-12
        assert lower_bound(problem, dual_minorant(problem, rng.random(N), x)) <= best.fun + 1e-12
        assert evaluate(problem, x).optimality == pytest.approx(gap, abs=1e-12)
    assert best.optimality >= 0.0


def test_dual_variables_are_checked():
    with pytest.raises(ValueError, match="80 numbers in"):
        dual_minorant(hinge_problem(), np.ones(3))
    with pytest.raises(ValueError, match="80 numbers in"):
        dual_minorant(hinge_problem(), 2.0 * np.ones(N))
    with pytest.raises(ValueError, match="about the hinge"):
        dual_minorant(hinge_problem(loss="squared-hinge"), np.ones(N))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared-hinge", "huber"])
def test_a_minorant_lies_below_the_loss(loss):
    problem = hinge_problem(loss=loss, fit_intercept=True, offset=0.1 * np.sin(np.arange(N)))
    rng = np.random.default_rng(0)
    at = rng.standard_normal(D + 1)
    value, minorant = minorant_at(problem, at)
    assert value == pytest.approx(minorant.constants.sum() + minorant.slopes.sum(axis=0) @ at)
    for _ in range(20):
        x = at + rng.standard_normal(D + 1)
        assert minorant.constants.sum() + minorant.slopes.sum(axis=0) @ x <= minorant_at(problem, x)[0] + 1e-12


# The driver.


def test_success_nonsmooth_means_a_small_gap():
    problem = hinge_problem(noise=0.2, constraint=L1Ball(0.5))
    low = reference_optimum(problem).value
    tol = 0.02 if COMPILED else 0.08
    result = minimize(problem, method="hb", tol=tol, max_iter=2000)
    assert result.success
    assert result.fun - low <= result.optimality <= tol
    trace = result.trace
    assert (trace.column("optimality") >= trace.column("objective") - low - 1e-12).all()


def test_without_a_certificate_a_run_ends_at_max_iter_and_is_no_success():
    problem = median_problem(np.array([0.0, 1.0, 5.0]))
    result = minimize(problem, method="psg", options={"step_size": 0.1}, tol=1e30, max_iter=7)
    assert not result.success
    assert result.reason is StopReason.MAX_ITER
    assert np.isnan(result.optimality)
    assert result.message == (
        "Ran to max_iter: 8 effective passes, no certificate of optimality is known for this problem."
    )
    assert result.nit == 7  # no check was charged on the way
    assert np.isfinite(result.trace.column("objective")).all()


@pytest.mark.parametrize("constraint", [L1Ball(1e5), L2Ball(1e5), Simplex(1e5), HalfSpace(np.arange(1.0, D + 1), -1.0)])
@pytest.mark.parametrize("alpha", [0.0, 1e-9])
def test_a_bound_within_the_radius_is_that_of_the_set_and_a_box(constraint, alpha):
    problem = hinge_problem(constraint=constraint, alpha=alpha)
    best = minimize(problem, method="interior-point", tol=1e-9)
    assert best.success
    rng = np.random.default_rng(0)
    for _ in range(3):
        minorant = dual_minorant(problem, rng.random(N), best.x)
        bound, reach = lower_bound(problem, minorant), minorant.radius / column_sizes(problem)
        assert bound <= best.fun + 1e-12
        for _ in range(50):
            w = constraint.project(rng.uniform(-reach, reach) * 10.0 ** rng.uniform(-6, 0))
            if (np.abs(w) <= reach).all():
                assert evaluate(problem, w).objective >= bound - 1e-12


@pytest.mark.parametrize("method", ["psg", "hb", "adahb", "adam"])
def test_measuring_changes_no_run_nonsmooth_and_a_resumed_one_ends_in_the_same_bits(method, tmp_path):
    problem = hinge_problem()
    arguments = {"method": method, "tol": 1e-9, "max_iter": 30}
    whole = minimize(problem, **arguments)
    quiet = minimize(problem, measure_every=0, **arguments)
    assert whole.x.tobytes() == quiet.x.tobytes()
    assert (whole.optimality, whole.n_passes) == (quiet.optimality, quiet.n_passes)
    path = tmp_path / "run.npz"
    first = minimize(problem, checkpoint=path, **{**arguments, "max_iter": 10})
    assert first.nit < whole.nit
    resumed = minimize(problem, checkpoint=path, resume=True, **arguments)
    assert whole.x.tobytes() == resumed.x.tobytes()
    assert (whole.optimality, whole.n_passes, whole.nit) == (resumed.optimality, resumed.n_passes, resumed.nit)


def test_methods_for_smooth_functions_refuse_nonsmooth_losses_and_callables():
    with pytest.raises(ValueError, match="saga cannot treat the nonsmooth loss Hinge"):
        minimize(hinge_problem(constraint=None), method="saga")
    with pytest.raises(ValueError, match="fg cannot treat functions given as callables"):
        minimize(harvey(5), method="fg")
    with pytest.raises(ValueError, match="adahb cannot treat an l1 penalty"):
        minimize(hinge_problem(constraint=None, alpha=0.1, l1_ratio=1.0), method="adahb")


# Callables.


def median_problem(points, constraint=None, **arguments):
    return SubgradientProblem(
        1,
        lambda x: float(np.mean(np.abs(x[0] - points))),
        lambda x, j: np.sign(x - points[j]),
        constraint,
        n_components=points.size,
        **arguments,
    )


def test_components_given_as_callables_are_sampled():
    points = np.array([0.0, 1.0, 1.1, 5.0, 9.0])
    seen = []
    problem = SubgradientProblem(
        1,
        lambda x: float(np.mean(np.abs(x[0] - points))),
        lambda x, j: seen.append(j) or np.sign(x - points[j]),
        L2Ball(20.0),
        n_components=5,
    )
    result = minimize(problem, method="hb", options={"step_size": 5.0}, max_iter=400, measure_every=0, tol=0.0)
    assert result.x[0] == pytest.approx(1.1, abs=0.3)
    assert set(seen) == set(range(5))
    assert result.n_passes == pytest.approx(400, abs=1)


def test_optimality_of_callables_is_a_gap_or_unknown():
    points = np.array([0.0, 1.0, 5.0])
    exact = np.mean(np.abs(1.0 - points))
    known = median_problem(points, lower_bound=float(exact))
    result = minimize(known, method="psg", tol=0.05, max_iter=500)
    assert result.success
    assert result.fun - exact <= 0.05
    bounded = minimize(median_problem(points, Box(-1.0, 6.0)), method="hb", max_iter=200, tol=1e-9)
    assert bounded.fun - exact <= min(bounded.optimality, 0.1)
    assert bounded.optimality < 0.5
    unknown = minimize(median_problem(points), method="hb", max_iter=20)
    assert np.isnan(unknown.optimality)
    assert not unknown.success


def test_a_run_over_callables_goes_on_from_its_checkpoint(tmp_path):
    problem = median_problem(np.array([0.0, 1.0, 5.0]), L2Ball(3.0))
    arguments = {"method": "adahb", "tol": 0.0, "max_iter": 40}
    whole = minimize(problem, **arguments)
    minimize(problem, checkpoint=tmp_path / "run", **{**arguments, "max_iter": 9})
    resumed = minimize(problem, checkpoint=tmp_path / "run", resume=True, **arguments)
    assert whole.x.tobytes() == resumed.x.tobytes()
    assert whole.optimality == resumed.optimality
    assert problem.fingerprint != median_problem(np.array([0.0, 1.0, 5.0]), L2Ball(4.0)).fingerprint
    assert problem.fingerprint != median_problem(np.array([0.0, 1.0, 6.0]), L2Ball(3.0)).fingerprint


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"dim": 0}, ValueError, "dim must be a whole number >= 1"),
        ({"n_components": 2.5}, ValueError, "n_components must be"),
        ({"value": 3.0}, TypeError, "value must be a function"),
        ({"subgradient": None}, TypeError, "subgradient must be a function"),
        ({"constraint": 3.0}, TypeError, "constraint must be a set"),
        ({"constraint": HalfSpace([1.0, 2.0, 3.0], 1.0)}, ValueError, "made for 3 variables"),
        ({"lower_bound": np.nan}, ValueError, "lower_bound must be finite"),
    ],
)
def test_callables_are_checked(arguments, error, match):
    good = {"dim": 2, "value": np.sum, "subgradient": np.ones_like}
    with pytest.raises(error, match=match):
        SubgradientProblem(**(good | arguments))


def test_a_subgradient_of_the_wrong_shape_is_named():
    problem = SubgradientProblem(2, np.sum, lambda x: np.ones(3), L2Ball(1.0))
    with pytest.raises(ValueError, match=r"subgradient must return 2 numbers, got shape \(3,\)"):
        minimize(problem, method="psg", options={"step_size": 1.0})
    for bad in (0, 2.5, True):
        with pytest.raises(ValueError, match="n_steps must be"):
            harvey(bad)
    with pytest.raises(ValueError, match="c must be a number >= 1"):
        harvey(10, 0.5)


# Automatic step sizes.


def test_distances_of_sets():
    assert set_distance(L1Ball(3.0), 16) == pytest.approx(1.5)
    assert set_distance(Box(-1.0, 3.0), 16) == pytest.approx(4.0)
    assert set_distance(NonNegative(), 3) == np.inf
    assert set_distance(HalfSpace([1.0, 2.0], 1.0), 2) == np.inf


def test_scales_follow_the_data():
    small, large = hinge_problem(), hinge_problem()
    large = Problem.linear(10.0 * small.rows.values, small.targets, loss="hinge", constraint=L1Ball(0.8))
    one, other = scales_at(small, np.zeros(D)), scales_at(large, np.zeros(D))
    assert other.subgradient == pytest.approx(10.0 * one.subgradient)
    assert other.distance == pytest.approx(one.distance)
    free = scales_at(hinge_problem(constraint=None), np.zeros(D))
    assert free.distance == pytest.approx(free.coordinate_distance * np.sqrt(D), rel=0.1)
    assert 0.1 < free.distance * free.subgradient < 10.0
    flat = Problem.linear(np.zeros((3, 2)), [1, -1, 1], loss="hinge")
    assert scales_at(flat, np.zeros(2)).distance == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["psg", "hb", "nag", "adahb", "adagrad", "rmsprop", "adam", "amsgrad", "sgd-momentum"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_hinge_on_an_l1_ball_needs_no_tuning_at_any_scale(name, scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    y = np.where(X @ rng.standard_normal(20) + rng.standard_normal(300) > 0, 1, -1)
    rows = scipy.sparse.csr_array(scale * X)  # whose kernels the contract table compiles, too
    problem = Problem.linear(rows, y, loss="hinge", constraint=L1Ball(2.0 / scale))
    low = reference_optimum(problem).value
    result = minimize(problem, method=name, max_iter=20, tol=0.0, measure_every=0)
    assert result.fun - low <= 0.04 * (1.0 - low)


@pytest.mark.slow
def test_minibatches_and_the_full_batch_are_the_problems_components():
    for batch_size in (1, 7, N):
        problem = hinge_problem().batched(batch_size)
        for method in (PSG(), HB()):
            result = minimize(problem, method=method, max_iter=300 if COMPILED else 60, tol=0.0, measure_every=0)
            assert result.fun - reference_optimum(problem).value <= (0.02 if COMPILED else 0.06)
    wide = Problem.linear(
        scipy.sparse.random_array((30, 6000), density=0.002, rng=np.random.default_rng(0), format="csr"),
        np.arange(30) % 2,
        loss="hinge",
        constraint=L1Ball(5.0),
    )
    assert minimize(wide, method="adahb", max_iter=50, tol=0.0).fun < 0.9
