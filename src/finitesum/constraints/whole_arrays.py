"""Euclidean projections of a few thousand coordinates by operations on whole arrays, where no kernel need be compiled.

Those onto the l1 ball and the simplex sort: with u in descending order, lam = (u_1 + ... + u_k - tau) / k for the largest k
with u_k > lam. As in `finitesum.constraints.threshold`, thresholds are measured from the largest entry where the root is
within a factor 2 of it, which has no rounding errors, and an exact sum corrects lam at the end.
"""

import math
from typing import Any

import numpy as np

from finitesum.constraints.projections import (
    BoxProjection,
    HalfSpaceProjection,
    IntervalProjection,
    L1BallProjection,
    L2BallProjection,
    SimplexProjection,
    project_euclidean,
)
from finitesum.core.arrays import Vector
from finitesum.core.jit import array_form

#: Numbers of an array that are computed while Python projects one coordinate, and while whole arrays do.
BY_PYTHON, BY_ARRAYS = 500.0, 50.0

#: The projections, beside those on intervals, that are known here.
WITH_ARRAYS = (L1BallProjection, SimplexProjection, L2BallProjection, HalfSpaceProjection)

#: Corrections of a threshold by exact sums.
N_CORRECTIONS = 2

#: Sizes whose squares neither overflow nor vanish.
LEAST, MOST = 1e-140, 1e140


def n_numbers(projection: Any, x: Vector, *_others: Any) -> float:
    """Return the numbers that are computed while x is projected here."""
    if isinstance(projection, IntervalProjection | BoxProjection):
        return float(x.size)
    of_outputs = getattr(projection, "n_numbers", None)
    if of_outputs is not None:
        return float(of_outputs(x))
    return x.size * (BY_ARRAYS if isinstance(projection, WITH_ARRAYS) else BY_PYTHON)


@array_form(project_euclidean, n_numbers)
def project_whole(projection: Any, x: Vector, out: Vector) -> None:
    """Project in the Euclidean metric; out may be x."""
    if isinstance(projection, IntervalProjection | BoxProjection):
        np.minimum(np.maximum(x, projection.lower), projection.upper, out=out)
    elif not (size := float(np.abs(x).max())) < MOST:  # NaN is here, too
        projection.project_euclidean_into(x, out)
    elif isinstance(projection, SimplexProjection):
        out[:] = _onto_simplex(x, projection.total)
    elif isinstance(projection, L1BallProjection):
        sizes = np.abs(x)
        if math.fsum(sizes) <= projection.radius:
            out[:] = x
        else:
            out[:] = np.copysign(_onto_simplex(sizes, projection.radius), x) + 0.0  # no negative zeros
    elif isinstance(projection, L2BallProjection) and size > LEAST:
        norm = math.sqrt(float(x @ x))
        out[:] = x * (projection.radius / norm) if norm > projection.radius else x
    elif isinstance(projection, HalfSpaceProjection) and LEAST < float(np.abs(projection.normal).max()) < MOST:
        out[:] = _onto_half_space(x, projection.normal, projection.offset)
    else:
        projection.project_euclidean_into(x, out)


def _onto_half_space(x: Vector, normal: Vector, offset: float) -> Vector:
    """Return x less its excess along the normal; the second step takes back what the first one left by rounding."""
    excess, y = float(normal @ x) - offset, x
    if excess > 0.0:
        slope = float(normal @ normal)
        for _ in range(2):
            y = y - excess / slope * normal
            excess = float(normal @ y) - offset
    return y


def _onto_simplex(u: Vector, total: float) -> Vector:
    """Return the y >= 0 with this sum that is nearest to u."""
    top = float(u.max())
    values = u - top if total < 0.5 * abs(top) else u
    ordered = -np.sort(-values)
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, u.size + 1)
    n_above = max(int(np.count_nonzero(ordered > thresholds)), 1)
    y: Vector = np.maximum(values - thresholds[n_above - 1], 0.0)
    for _ in range(N_CORRECTIONS):
        is_above = y > 0.0
        y[is_above] += (total - math.fsum(y)) / max(int(np.count_nonzero(is_above)), 1)
        np.maximum(y, 0.0, out=y)
    return y
