"""What kernels see of a constraint: tuples that project in place, without sorting and without allocating.

Each has two verbs, ``project_into(x, metric, out)`` and ``project_euclidean_into(x, out)``, where ::

    out = argmin_{y in Q} 1/2 sum_i s_i (y_i - x_i)^2,      s = metric > 0, or s = 1

All arrays are float64 of shape (d,); out may be x itself, but no part of it, and not the metric. Nothing is checked here:
the tuples are made by the classes of this package, which check what they were given. Entries that are not finite come
back as they are, so that a divergence is seen.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np

from finitesum.constraints.threshold import onto_l1_ball, onto_simplex
from finitesum.constraints.threshold_sums import Factors, Given, Ones, Terms, scaled_square_sum
from finitesum.core.arrays import Vector
from finitesum.core.jit import array_form, compilable, kernel, kernel_part, reassociated_part
from finitesum.core.vectors import copy, reordered_dot

#: A bound on Newton's steps that is never met: f f' falls by a factor of 4 in each, see threshold.py.
MAX_NEWTON_STEPS = 200

#: The secular equation is solved once the norm is right to this, relatively: what is left is a matter of scaling.
NORM_TOLERANCE = 2.0**-50


class Projection(Protocol):
    """What kernels may call on a constraint."""

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None: ...
    def project_euclidean_into(self, x: Vector, out: Vector) -> None: ...


@kernel
def project_in_metric(projection: Projection, x: Vector, metric: Vector, out: Vector) -> None:
    """Project in the diagonal metric; x, metric and out of shape (d,)."""
    projection.project_into(x, metric, out)


@kernel
def project_euclidean(projection: Projection, x: Vector, out: Vector) -> None:
    """Project in the Euclidean metric; x and out of shape (d,)."""
    projection.project_euclidean_into(x, out)


#: Numbers of an array that are computed while Python applies a prox or a projection to one coordinate.
COORDINATE_NUMBERS = 500.0


@array_form(project_in_metric, lambda projection, x, *_: x.size * COORDINATE_NUMBERS)
def _in_metric_in_python(projection: Projection, x: Vector, metric: Vector, out: Vector) -> None:
    projection.project_into(x, metric, out)


# Intervals: the projection is a clip, whatever the metric.


@kernel_part
def _clip(value: float, lower: float, upper: float) -> float:
    value = lower if value < lower else value
    return upper if value > upper else value  # NaN stays NaN


@compilable
class IntervalProjection(NamedTuple):
    """The same interval for every coordinate: l_inf ball, orthant, box of two numbers, whole space."""

    lower: float
    upper: float

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        self.project_euclidean_into(x, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        for i in range(x.shape[0]):
            out[i] = _clip(x[i], self.lower, self.upper)


@compilable
class BoxProjection(NamedTuple):
    """An interval for each coordinate."""

    lower: Vector
    upper: Vector

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        self.project_euclidean_into(x, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        for i in range(x.shape[0]):
            out[i] = _clip(x[i], self.lower[i], self.upper[i])


# Sums of sizes: see threshold.py.


@compilable
class L1BallProjection(NamedTuple):
    """sum_i |y_i| <= radius."""

    radius: float

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        onto_l1_ball(Terms(x, -1.0, Given(metric), Ones(0.0)), self.radius, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        onto_l1_ball(Terms(x, -1.0, Ones(0.0), Ones(0.0)), self.radius, out)


@compilable
class WeightedL1BallProjection(NamedTuple):
    """sum_i weights_i |y_i| <= radius."""

    radius: float
    weights: Vector

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        onto_l1_ball(Terms(x, -1.0, Given(metric), Given(self.weights)), self.radius, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        onto_l1_ball(Terms(x, -1.0, Ones(0.0), Given(self.weights)), self.radius, out)


@compilable
class SimplexProjection(NamedTuple):
    """y >= 0 and sum_i y_i = total."""

    total: float

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        onto_simplex(Terms(x, 1.0, Given(metric), Ones(0.0)), self.total, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        onto_simplex(Terms(x, 1.0, Ones(0.0), Ones(0.0)), self.total, out)


# The l2 ball: y_i = s_i x_i / (s_i + lam), where lam solves the secular equation norm(y) = radius.


@kernel_part
def _largest_size(x: Vector) -> float:
    """Return max |x_i|, past NaN. Two running maxima, because one would wait for itself."""
    top0 = top1 = 0.0
    for i in range(0, x.shape[0] - 1, 2):
        size0, size1 = abs(x[i]), abs(x[i + 1])
        top0 = size0 if size0 > top0 else top0
        top1 = size1 if size1 > top1 else top1
    return float(max(max(top0, top1), abs(x[-1])))


@kernel_part
def _shrink(x: Vector, metric: Vector, norm: float, multiplier: float, i: int) -> float:
    return float(np.divide(metric[i], metric[i] + multiplier)) * float(np.divide(x[i], norm))


@reassociated_part
def _secular_sums(x: Vector, metric: Vector, norm: float, multiplier: float) -> tuple[float, float]:
    """Return sum q_i^2 and sum q_i^2 / (s_i + lam), where q = y(lam) / norm(x)."""
    square = steepness = 0.0
    for i in range(x.shape[0]):
        q = _shrink(x, metric, norm, multiplier, i)
        square += q * q
        steepness += np.divide(q * q, metric[i] + multiplier)
    return square, steepness


@kernel_part
def _secular_root(x: Vector, metric: Vector, norm: float, target: float) -> float:
    """Return lam with norm(y(lam)) = target norm(x), target < 1.

    1/norm(y(lam)) is concave and increasing, so that Newton's method on 1/norm(y) - 1/radius climbs to the root from
    lam = 0. It is exact at once for a constant metric.
    """
    multiplier = 0.0
    for _ in range(MAX_NEWTON_STEPS):
        square, steepness = _secular_sums(x, metric, norm, multiplier)
        size = math.sqrt(square)
        if size <= target * (1.0 + NORM_TOLERANCE) or steepness == 0.0:
            break
        step = (size - target) / target * square / steepness
        if not multiplier + step > multiplier:
            break
        multiplier += step
    return multiplier


@kernel_part
def _rescale(out: Vector, radius: float) -> None:
    """Scale to the norm `radius`, without overflow: right to a few roundings, however many entries there are."""
    top = _largest_size(out)
    if top > 0.0:
        factor = radius / math.sqrt(scaled_square_sum(out, top))
        for i in range(out.shape[0]):
            out[i] = np.divide(out[i], top) * factor


@compilable
class L2BallProjection(NamedTuple):
    """norm(y) <= radius."""

    radius: float

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        norm = _norm(x)
        if self.radius < norm < np.inf:
            multiplier = _secular_root(x, metric, norm, self.radius / norm)
            for i in range(x.shape[0]):
                out[i] = _shrink(x, metric, norm, multiplier, i)
            _rescale(out, self.radius)
        else:
            copy(x, out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        outside = self.radius < _norm(x) < np.inf
        copy(x, out)
        if outside:
            _rescale(out, self.radius)


@kernel_part
def _norm(x: Vector) -> float:
    top = _largest_size(x)
    return top * math.sqrt(scaled_square_sum(x, top)) if 0.0 < top < np.inf else top


# The half-space: one step along normal / s.


@kernel_part
def _direction(normal: Vector, metric: Factors, i: int) -> float:
    return float(np.divide(normal[i], metric.entry_of(i)))


@reassociated_part
def _slope_along(normal: Vector, metric: Factors) -> float:
    total = 0.0
    for i in range(normal.shape[0]):
        total += normal[i] * _direction(normal, metric, i)
    return total


@kernel_part
def _onto_half_space(x: Vector, normal: Vector, offset: float, metric: Factors, out: Vector) -> None:
    excess = reordered_dot(normal, x) - offset
    copy(x, out)
    if 0.0 < excess < np.inf:
        slope = _slope_along(normal, metric)
        for _ in range(2):  # the second step takes back what the first one left by rounding
            length = excess / slope
            for i in range(x.shape[0]):
                out[i] -= length * _direction(normal, metric, i)
            excess = reordered_dot(normal, out) - offset


@compilable
class HalfSpaceProjection(NamedTuple):
    """normal . y <= offset."""

    normal: Vector
    offset: float

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        _onto_half_space(x, self.normal, self.offset, Given(metric), out)

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        _onto_half_space(x, self.normal, self.offset, Ones(0.0), out)
