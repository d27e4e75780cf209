"""Losses: derivatives against differences, closed forms far out, bounds that are suprema, majorants that lie above."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from finitesum.core.jit import COMPILED, compilable, kernel
from finitesum.losses import (
    LOSSES,
    Absolute,
    Binomial,
    ComplementaryLogLog,
    Cornered,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    InverseGaussian,
    LogCosh,
    Logistic,
    Loss,
    NegativeBinomial,
    Poisson,
    Probit,
    PseudoHuber,
    Quantile,
    RoundedCorner,
    SmoothedHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    Tweedie,
    as_loss,
    is_convex,
)
from finitesum.losses.arrays import in_arrays
from finitesum.losses.exponential import exp, log1p

EXAMPLES = (
    Logistic(),
    Logistic(2.5),
    Squared(),
    Squared(0.5),
    SquaredHinge(),
    SquaredHinge(3.0),
    SquaredEpsilonInsensitive(),
    SquaredEpsilonInsensitive(0.4, 3.0),
    Hinge(),
    Hinge(2.0),
    Absolute(),
    Absolute(2.0),
    EpsilonInsensitive(),
    EpsilonInsensitive(0.5),
    Quantile(),
    Quantile(0.9),
    SmoothedHinge(),
    SmoothedHinge(0.25),
    Huber(),
    Huber(0.7),
    Poisson(),
    Poisson(2.0),
    LogCosh(),
    LogCosh(3.0),
    PseudoHuber(),
    PseudoHuber(0.3),
    Gamma(),
    Gamma(0.5),
    Tweedie(),
    Tweedie(1.9, 2.0),
    Tweedie(2.4),
    InverseGaussian(),
    InverseGaussian(3.0),
    NegativeBinomial(),
    NegativeBinomial(3.5, 0.5),
    Binomial(),
    Binomial(2.0),
    Probit(),
    Probit(0.5),
    ComplementaryLogLog(),
    ComplementaryLogLog(2.0),
)
BY_CLASS = tuple(loss for loss in EXAMPLES if loss == type(loss)())
TARGETS = {
    "sign": (-1.0, 1.0),
    "real": (-2.5, 0.0, 1.3),
    "count": (0.0, 1.0, 7.0),
    "positive": (0.3, 1.0, 7.0),
    "share": (0.0, 0.3, 1.0),
}

#: Losses whose second derivative grows without end.
UNBOUNDED = (Poisson, Gamma, Tweedie, InverseGaussian, NegativeBinomial, ComplementaryLogLog)

examples = pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
classes = pytest.mark.parametrize("loss", BY_CLASS, ids=lambda loss: type(loss).__name__)


def targets_of(loss):
    return TARGETS[loss.target_kind()]


def corners(loss, y):
    """Predictions where d1 or d2 jumps."""
    name = type(loss).__name__
    if name in ("Hinge", "SquaredHinge"):
        return [y]
    if isinstance(loss, Cornered):
        return [point for low, high, point in loss.corners(y) if low < high]
    if name == "SmoothedHinge":
        return [y, y * (1.0 - loss.width)]
    if name == "Huber":
        return [y - loss.threshold, y + loss.threshold]
    if name == "SquaredEpsilonInsensitive":
        return [y - loss.epsilon, y + loss.epsilon]
    return []


@examples
@settings(max_examples=60, deadline=None)
@given(u=st.floats(-30.0, 30.0), choice=st.integers(0, 2))
def test_derivatives_are_those_of_the_value(loss, u, choice):
    y = targets_of(loss)[choice % len(targets_of(loss))]
    h = 1e-4
    if any(abs(u - corner) <= 2 * h for corner in corners(loss, y)):
        return
    slope = (loss.value(u + h, y) - loss.value(u - h, y)) / (2 * h)
    curvature = (loss.d1(u + h, y) - loss.d1(u - h, y)) / (2 * h)
    rounding = 1e-12 * (1.0 + abs(loss.value(u, y)) + abs(loss.d1(u, y))) / h
    assert loss.d1(u, y) == pytest.approx(slope, rel=1e-7, abs=rounding + 1e-8 * loss.d2(u, y))
    assert loss.d2(u, y) == pytest.approx(curvature, rel=1e-7, abs=rounding + 1e-9)


@examples
@settings(max_examples=60, deadline=None)
@given(u=st.floats(-1e3, 1e3), choice=st.integers(0, 2))
def test_both_derivatives_at_once_are_the_two(loss, u, choice):
    y = targets_of(loss)[choice % len(targets_of(loss))]
    assert loss.d1_d2(u, y) == pytest.approx((loss.d1(u, y), loss.d2(u, y)), rel=2e-15, abs=1e-300)


@examples
def test_value_and_derivatives_at_once_are_the_three(loss):
    known, u = in_arrays(loss), np.linspace(-40.0, 40.0, 2001)
    for y in targets_of(loss):
        targets = np.full(u.size, y)
        found = known.value_d1_d2(u, targets)
        for part, alone in zip(found, (known.value, known.d1, known.d2), strict=True):
            np.testing.assert_allclose(part, alone(u, targets), rtol=1e-14, atol=1e-14)


#: loss, prediction, target -> value, d1, d2
FAR_OUT = [
    (Logistic(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (Logistic(), -1e3, 1.0, (1e3, -1.0, 0.0)),
    (Logistic(), 1e3, -1.0, (1e3, 1.0, 0.0)),
    (Logistic(3.0), 40.0, -1.0, (120.0, 3.0, 3.0 * math.exp(-40.0))),
    (Logistic(), 40.0, 1.0, (math.exp(-40.0), -math.exp(-40.0), math.exp(-40.0))),
    (Squared(), 1e3, -1.0, (0.5 * 1001.0**2, 1001.0, 1.0)),
    (SquaredHinge(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (SquaredHinge(), -1e3, 1.0, (1001.0**2, -2002.0, 2.0)),
    (SquaredEpsilonInsensitive(0.5), 1e3, 1.0, (998.5**2, 1997.0, 2.0)),
    (SquaredEpsilonInsensitive(0.5, 2.0), -1e3, 1.0, (2.0 * 1000.5**2, -4002.0, 4.0)),
    (SquaredEpsilonInsensitive(0.5), 1.25, 1.0, (0.0, 0.0, 0.0)),
    (Hinge(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (Hinge(2.0), 1e3, -1.0, (2002.0, 2.0, 0.0)),
    (SmoothedHinge(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (SmoothedHinge(0.5), -1e3, 1.0, (1000.75, -1.0, 0.0)),
    (SmoothedHinge(0.5), 0.75, 1.0, (0.0625, -0.5, 2.0)),
    (Huber(2.0), 1e3, 0.0, (2.0 * 999.0, 2.0, 0.0)),
    (Huber(2.0), -1e3, 0.0, (2.0 * 999.0, -2.0, 0.0)),
    (Huber(2.0), 1.5, 0.0, (1.125, 1.5, 1.0)),
    (Poisson(), 1e3, 3.0, (math.inf, math.inf, math.inf)),
    (Poisson(), -1e3, 3.0, (3000.0, -3.0, 0.0)),
    (Poisson(), -1e3, 0.0, (0.0, 0.0, 0.0)),
    (LogCosh(), 1e3, 0.0, (1e3 - math.log(2.0), 1.0, 0.0)),
    (LogCosh(2.0), -1e3, 0.0, (2e3 - 2.0 * math.log(2.0), -2.0, 0.0)),
    (PseudoHuber(2.0), 1e3, 0.0, (4.0 * (math.sqrt(250001.0) - 1.0), 1e3 / math.sqrt(250001.0), 250001.0**-1.5)),
    (Gamma(), 1e3, 2.0, (1e3, 1.0, 0.0)),
    (Gamma(), -1e3, 2.0, (math.inf, -math.inf, math.inf)),
    (Tweedie(), 600.0, 0.0, (2.0 * math.exp(300.0), math.exp(300.0), 0.5 * math.exp(300.0))),
    (Tweedie(), -1e3, 0.0, (2.0 * math.exp(-500.0), math.exp(-500.0), 0.5 * math.exp(-500.0))),
    (Tweedie(), -1e3, 1.0, (2.0 * math.exp(500.0), -math.exp(500.0), 0.5 * math.exp(500.0))),
    (Tweedie(2.5), 1e3, 2.0, (-2.0 * math.exp(-500.0), math.exp(-500.0), -0.5 * math.exp(-500.0))),
    (Tweedie(2.5), -1e3, 2.0, (math.inf, -math.inf, math.inf)),
    (Tweedie(3.5), -1e3, 2.0, (math.inf, -math.inf, math.inf)),
    (InverseGaussian(), 600.0, 2.0, (-math.exp(-600.0), math.exp(-600.0), -math.exp(-600.0))),
    (InverseGaussian(), -1e3, 2.0, (math.inf, -math.inf, math.inf)),
    (NegativeBinomial(), 1e3, 7.0, (1e3, 1.0, 0.0)),
    (NegativeBinomial(), -1e3, 7.0, (7e3, -7.0, 0.0)),
    (Binomial(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (Binomial(), -1e3, 0.25, (250.0, -0.25, 0.0)),
    (Probit(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (Probit(), 10.0, 1.0, (7.619853024160527e-24, -7.694598626706420e-23, 7.694598626706420e-22)),
    (Probit(), -40.0, 1.0, (804.6084420137538, -40.024968847207264, 0.99937733162140861)),
    (ComplementaryLogLog(), 1e3, 1.0, (0.0, 0.0, 0.0)),
    (ComplementaryLogLog(), -1e3, 1.0, (1e3, -1.0, 0.0)),
    (ComplementaryLogLog(), -40.0, 1.0, (40.0, -1.0, 0.5 * math.exp(-40.0))),
    (ComplementaryLogLog(), 1e3, -1.0, (math.inf, math.inf, math.inf)),
    (Poisson(0.5), 700.0, 0.0, (0.5 * math.exp(700.0), 0.5 * math.exp(700.0), 0.5 * math.exp(700.0))),
]


@pytest.mark.parametrize("number", [float, np.float64], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("loss", "u", "y", "expected"), FAR_OUT)
def test_far_out_the_limits_are_reached_without_overflow(loss, u, y, expected, number):
    u, y = number(u), number(y)
    with np.errstate(all="raise", under="ignore"):
        found = (loss.value(u, y), loss.d1(u, y), loss.d2(u, y))
        assert loss.d1_d2(u, y) == pytest.approx(expected[1:], rel=1e-14, abs=0.0)
    assert found == pytest.approx(expected, rel=1e-14, abs=0.0)


@examples
def test_nan_stays_nan_so_that_a_divergence_is_seen(loss):
    for y in targets_of(loss):
        assert math.isnan(loss.value(math.nan, y))
        assert math.isnan(loss.d1(math.nan, y))
        assert math.isnan(loss.d1_d2(math.nan, y)[0])


@examples
def test_the_curvature_bound_is_the_largest_second_derivative(loss):
    grid = np.linspace(-700.0, 700.0, 28_001)
    largest = max(loss.d2(u, y) for y in targets_of(loss) for u in grid)
    if isinstance(loss, Cornered):
        assert largest == 0.0  # off the corners; at them no quadratic lies above
        assert loss.curvature_bound() == math.inf
    elif type(loss) in UNBOUNDED:
        assert loss.curvature_bound() == math.inf  # of all predictions or, of a count, of all targets
        assert largest > (1e20 if type(loss) is not NegativeBinomial else 0.2 * max(targets_of(loss)) * loss.scale)
    else:  # that of the probit loss is reached far out, like 1 / u^2
        assert largest == pytest.approx(loss.curvature_bound(), rel=1e-12 if type(loss) is not Probit else 1e-5)


@examples
def test_the_jerk_bound_is_the_lipschitz_constant_of_the_second_derivative(loss):
    steepest = gentle = 0.0
    targets = targets_of(loss)
    for y in targets:
        grid = np.union1d(np.linspace(-8.0, 8.0, 16_001), [k + s for k in corners(loss, y) for s in (-1e-9, 1e-9)])
        curvature = np.array([loss.d2(u, y) for u in grid])
        slopes = np.abs(np.diff(curvature)) / np.diff(grid)
        steepest = max(steepest, slopes.max())
        if y <= np.median(targets):
            gentle = max(gentle, slopes[np.abs(grid[1:]) <= 4.0].max())
    if math.isfinite(loss.d2_lipschitz()):
        assert steepest == pytest.approx(loss.d2_lipschitz(), rel=2e-5)
    elif type(loss) in UNBOUNDED:
        assert steepest > 1.5 * gentle  # it grows with the prediction or the target, without end
    elif not isinstance(loss, Cornered):
        assert steepest > 1e7  # a jump


@examples
def test_the_majorant_lies_above_the_loss_everywhere(loss):
    grid = np.unique(np.concatenate([np.linspace(-12.0, 12.0, 97), [-1e3, -1e-3, -1e-5, 1e-5, 1e-3, 1e3]]))
    for y in targets_of(loss):
        values = np.array([loss.value(v, y) for v in grid])
        for u, value in zip(grid, values, strict=True):
            c = loss.majorant(u, y)
            if not math.isfinite(c):
                assert loss.curvature_bound() == math.inf
                continue
            slope_part, square_part = loss.d1(u, y) * (grid - u), 0.5 * c * (grid - u) ** 2
            rounding = 1e-14 * (1.0 + abs(value) + np.abs(slope_part) + square_part)
            assert (value + slope_part + square_part >= values - rounding).all(), (u, y)


@pytest.mark.parametrize("u", [1e-6, 1e-4, 1.99e-4, 2.01e-4, 0.1, 1.0, 5.0, 60.0])
def test_the_logistic_majorant_touches_a_second_time_at_the_mirrored_point(u):
    loss = Logistic(1.5)
    quadratic = loss.value(u, 1.0) + loss.d1(u, 1.0) * (-2 * u) + 0.5 * loss.majorant(u, 1.0) * (2 * u) ** 2
    assert quadratic == pytest.approx(loss.value(-u, 1.0), rel=1e-14)
    assert loss.majorant(u, 1.0) == loss.majorant(-u, -1.0) == pytest.approx(1.5 * math.tanh(u / 2) / (2 * u), rel=1e-15)


@pytest.mark.parametrize("residual", [1.4, 3.0, 1e3])
def test_the_huber_majorant_touches_a_second_time_at_the_mirrored_residual(residual):
    loss, y = Huber(), 0.25
    u, mirrored = y + residual, y - residual
    quadratic = loss.value(u, y) + loss.d1(u, y) * (mirrored - u) + 0.5 * loss.majorant(u, y) * (mirrored - u) ** 2
    assert quadratic == pytest.approx(loss.value(mirrored, y), rel=1e-14)


@classes
def test_smoothness_and_targets_are_declared(loss):
    kinds = {
        "real": (Squared, SquaredEpsilonInsensitive, Huber, LogCosh, PseudoHuber, Absolute, EpsilonInsensitive, Quantile),
        "positive": (Gamma, InverseGaussian),
        "share": (Binomial,),
    }
    kinds["count"] = (Poisson, Tweedie, NegativeBinomial)
    kind = next((name for name, those in kinds.items() if type(loss) in those), "sign")
    assert (loss.target_kind(), loss.is_smooth()) == (kind, not isinstance(loss, Cornered))


@pytest.mark.parametrize("cls", [cls for cls in LOSSES.values() if "scale" in cls._fields])
def test_scale_multiplies_the_loss(cls):
    one, three = cls(), cls(scale=3.0)
    for y in targets_of(one):
        for u in (-2.0, -0.3, 0.0, 0.9, 4.0):
            for name in ("value", "d1", "d2", "majorant"):
                assert getattr(three, name)(u, y) == pytest.approx(3.0 * getattr(one, name)(u, y), rel=1e-15)
    assert three.curvature_bound() == 3.0 * one.curvature_bound()
    assert three.d2_lipschitz() == pytest.approx(3.0 * one.d2_lipschitz(), rel=1e-15)


@pytest.mark.parametrize("width", [0.1, 1.0, 3.0])
def test_the_smoothed_hinge_lies_half_a_width_below_the_hinge(width):
    smoothed, hinge = SmoothedHinge(width), Hinge()
    for u in np.linspace(-5.0, 5.0, 201):
        gap = hinge.value(u, 1.0) - smoothed.value(u, 1.0)
        assert -1e-15 <= gap <= 0.5 * width + 1e-15
        if u <= 1.0 - width:
            assert gap == pytest.approx(0.5 * width, abs=1e-14)


def _everything(loss, predictions, targets, out):
    for i in range(predictions.size):
        u, y = predictions[i], targets[i]
        first, second = loss.d1_d2(u, y)
        out[i, 0], out[i, 1], out[i, 2] = loss.value(u, y), loss.d1(u, y), loss.d2(u, y)
        out[i, 3], out[i, 4], out[i, 5] = first, second, loss.majorant(u, y)
        out[i, 6], out[i, 7] = loss.curvature_bound(), loss.d2_lipschitz()


_compiled_everything = kernel(_everything)


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled under NUMBA_DISABLE_JIT")
@classes
def test_compiled_code_computes_what_python_does(loss):
    predictions = np.array([-1e3, -30.0, -1.0, -1e-5, 0.0, 0.5, 1.0, 1.35, 30.0, 1e3, np.nan])
    grid, targets = (a.ravel() for a in np.meshgrid(predictions, targets_of(loss)))
    compiled, interpreted = np.empty((grid.size, 8)), np.empty((grid.size, 8))
    _compiled_everything(loss, grid, targets, compiled)
    _everything(loss, grid, targets, interpreted)
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-14, atol=0.0)


@kernel
def _all_exponentials(numbers: Any, shares: Any, powers: Any, logarithms: Any) -> None:
    for i in range(numbers.size):
        powers[i] = exp(numbers[i])
    for i in range(shares.size):
        logarithms[i] = log1p(shares[i])


def test_exponentials_are_right_to_the_last_bits():
    rng = np.random.default_rng(0)
    small = 10.0 ** rng.uniform(-20, 2, 500)
    numbers = np.concatenate([np.linspace(-708.0, 709.0, 3001), small, -small, [0.0, -0.0]])
    shares = np.concatenate([np.linspace(0.0, 1.0, 2001), 10.0 ** rng.uniform(-300, 0, 500)])
    powers, logarithms = np.empty_like(numbers), np.empty_like(shares)
    _all_exponentials(numbers, shares, powers, logarithms)
    exact = np.exp(numbers.astype(np.longdouble))
    assert np.max(np.abs(powers - exact) / np.spacing(exact.astype(np.float64))) <= 1.0
    exact = np.log1p(shares.astype(np.longdouble))
    assert np.max(np.abs(logarithms - exact) / np.spacing(exact.astype(np.float64))) <= 2.0


@pytest.mark.compiled
def test_the_exponential_has_the_right_limits():
    numbers = np.array([-709.0, -1e300, -np.inf, np.nan])
    powers = np.empty(4)
    _all_exponentials(numbers, np.empty(0), powers, np.empty(0))
    least = 0.0 if COMPILED else np.finfo(np.float64).tiny  # Python's own exponential goes on below
    assert (powers[:3] <= least).all()
    assert np.isnan(powers[3])


def test_losses_are_known_by_name():
    assert {name: type(as_loss(name)) for name in LOSSES} == LOSSES
    assert as_loss("squared_hinge") == SquaredHinge()
    assert all(isinstance(as_loss(name), Loss) for name in LOSSES)


def test_whole_numbers_become_floats_so_that_one_machine_code_serves_both():
    loss = as_loss(SmoothedHinge(2))
    assert loss == SmoothedHinge(2.0)
    assert type(loss.width) is float
    assert type(as_loss(Logistic(np.float32(0.5))).scale) is float


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "2", None])
@pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, name) for cls in LOSSES.values() for name in cls._fields],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_bad_parameters_are_refused(cls, name, value):
    with pytest.raises(ValueError, match=f"^{name} of {cls.__name__} must be > 0 and finite, got {value!r}"):
        as_loss(cls(**{name: value}))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_powers_that_are_no_tweedie_loss_are_refused(power):
    with pytest.raises(ValueError, match=r"^power of Tweedie must be > 1 and not 2, got .*: 1 is loss='poisson'"):
        as_loss(Tweedie(power))


def test_the_inverse_gaussian_loss_is_that_of_the_power_3_and_half_absolute_errors_that_of_the_median():
    for u, y in ((-1.5, 0.3), (0.0, 2.0), (2.5, 1.0)):
        for name in ("value", "d1", "d2"):
            assert getattr(InverseGaussian(), name)(u, y) == pytest.approx(getattr(Tweedie(3.0), name)(u, y), rel=1e-14)
            assert 0.5 * getattr(Absolute(), name)(u, y) == getattr(Quantile(0.5), name)(u, y)


@examples
def test_a_loss_is_convex_where_it_says_so(loss):
    grid = np.linspace(-8.0, 8.0, 161)
    assert is_convex(loss) == all(loss.d2(u, y) >= 0.0 for u in grid for y in targets_of(loss))


def test_a_quantile_is_below_1():
    with pytest.raises(ValueError, match="quantile of Quantile must be < 1, got 1"):
        as_loss(Quantile(1.0))


@pytest.mark.parametrize("loss", [loss for loss in EXAMPLES if isinstance(loss, Cornered)], ids=repr)
def test_a_loss_with_corners_is_the_sum_of_its_corners(loss):
    for y in targets_of(loss):
        parts = loss.corners(y)
        assert all(low <= 0.0 <= high for low, high, _ in parts)
        assert parts[0][2] <= parts[1][2]
        for u in (-40.0, -1.0, 0.0, 0.3, 1.0, 25.0):
            total = sum(max(low * (u - point), high * (u - point)) for low, high, point in parts)
            assert loss.value(u, y) == pytest.approx(total, rel=1e-14, abs=1e-14)
            assert -loss.largest_slope() <= loss.d1(u, y) <= loss.largest_slope()


@pytest.mark.parametrize("loss", [loss for loss in EXAMPLES if isinstance(loss, RoundedCorner)], ids=repr)
def test_a_rounded_corner_has_its_slopes_where_its_width_says(loss):
    width = loss.corner_width()
    for y in targets_of(loss):
        corners = [corner for corner in loss.corners(y) if corner[0] < corner[1]]
        assert all(first[1] <= 0.0 <= second[0] and first[2] < second[2] for first, second in itertools.pairwise(corners))
        for (low, high, point), slope in itertools.product(corners, (0.0, 0.3, -0.3, 1.0, -1.0, 5.0, -5.0)):
            u = point + width * slope
            if low <= slope <= high:
                assert loss.d1(u, y) == pytest.approx(slope, abs=1e-14)
                assert loss.value(u, y) == pytest.approx(slope * (u - point) - 0.5 * width * slope**2, rel=1e-12)
            elif len(corners) == 1:
                assert loss.d1(u, y) == (low if slope < low else high)


def test_what_is_no_loss_is_refused():
    with pytest.raises(ValueError, match=r"^loss must be one of absolute, binomial, .*hinge, huber, .*, got 'log'"):
        as_loss("log")
    for other in (3.0, None, Logistic, (1.0,)):
        with pytest.raises(TypeError, match=r"^loss must be a name or a loss"):
            as_loss(other)


# -- a loss of the user's own


@compilable
class OwnLogCosh(NamedTuple):
    """log cosh(u - y), written as a user would."""

    scale: float = 1.0

    def value(self, prediction: float, target: float) -> float:
        size = abs(prediction - target)
        return self.scale * (size + math.log1p(math.exp(-2.0 * size)) - math.log(2.0))

    def d1(self, prediction: float, target: float) -> float:
        return self.scale * math.tanh(prediction - target)

    def d2(self, prediction: float, target: float) -> float:
        return self.scale * (1.0 - math.tanh(prediction - target) ** 2)

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        slope = math.tanh(prediction - target)
        return self.scale * slope, self.scale * (1.0 - slope * slope)

    def majorant(self, prediction: float, target: float) -> float:
        return self.scale

    def curvature_bound(self) -> float:
        return self.scale

    def d2_lipschitz(self) -> float:
        return 0.8 * self.scale

    def target_kind(self) -> str:
        return "real"

    def is_smooth(self) -> bool:
        return True


def names_on_disk(folder, *names):
    """Which names of classes the kept machine code speaks of."""
    contents = [path.read_bytes() for path in folder.rglob("*.nbi")]
    return {name for name in names if any(name.encode() in content for content in contents)}


@pytest.mark.compiled
def test_a_loss_of_the_users_own_runs_in_kernels_and_is_never_kept_on_disk():
    from finitesum import Problem, minimize
    from finitesum.core.kernel_folder import cache_folder

    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(30)
    problem = Problem.linear(X, y, loss=OwnLogCosh(), alpha=0.1)
    result = minimize(problem, method="fg", tol=1e-9)
    assert result.success, result.message
    x = result.x
    assert np.linalg.norm(X.T @ np.tanh(X @ x - y) / 30 + 0.1 * x) <= 1.1e-9  # its own first-order condition
    assert result.fun == pytest.approx(np.mean(np.log(np.cosh(X @ x - y))) + 0.05 * x @ x, rel=1e-13)
    if COMPILED and (folder := cache_folder()) is not None:
        minimize(Problem.linear(X, y, loss="squared", alpha=0.1), method="fg", max_iter=1)
        assert names_on_disk(folder, "Squared", "OwnLogCosh") == {"Squared"}


def test_a_method_with_other_parameters_is_refused_when_the_class_is_made():
    class Wrong(NamedTuple):
        scale: float = 1.0

        def value(self, u, y):
            return self.scale * (u - y)

    with pytest.raises(TypeError, match=r"Wrong.value\(self, u, y\) differs from the known value\(self, prediction"):
        compilable(Wrong)


def test_a_loss_that_nobody_declared_is_checked_when_it_is_given():
    class Undeclared(OwnLogCosh):
        def d1(self, u, y):
            return 0.0

    with pytest.raises(TypeError, match="one verb has one signature"):
        as_loss(Undeclared())


def test_a_class_without_fields_is_refused():
    class Empty(NamedTuple):
        pass

    for cls in (Empty, int):
        with pytest.raises(TypeError, match="must be a NamedTuple with at least one field"):
            compilable(cls)
