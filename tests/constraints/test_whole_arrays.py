"""Euclidean projections by whole arrays are those of the kernels, for any size of entries and total."""

import itertools
import math

import numpy as np
import pytest

from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Simplex
from finitesum.constraints.whole_arrays import project_whole

SETS = {"l1-ball": L1Ball, "l2-ball": L2Ball, "simplex": Simplex, "box": lambda r: Box(-r, 2.0 * r), "linf-ball": LInfBall}


@pytest.mark.parametrize("name", [*SETS, "signs"])
@pytest.mark.parametrize("size", [1e-200, 1e-8, 1.0, 1e20, 1e200])
@pytest.mark.parametrize("d", [1, 2, 40, 300])
def test_they_are_the_kernels(name, size, d):
    rng = np.random.default_rng(d)
    for ratio in (1e-20, 1e-3, 1.0, 30.0):
        x = size * rng.standard_normal(d) * 10 ** rng.uniform(-3.0, 0.0, d)
        x[: d // 4] = x[0]  # ties
        projection = (NonNegative() if name == "signs" else SETS[name](size * ratio)).compiled
        expected, found = np.empty(d), x.copy()
        projection.project_euclidean_into(x, expected)
        project_whole(projection, found, found)
        rounding = 8.0 * np.finfo(float).eps
        reached = np.abs(expected).max()
        allowed = rounding * min(np.abs(x).max(), 2.0 * reached) + 5e-324
        np.testing.assert_allclose(found, expected, rtol=4e-15, atol=allowed)
        if name in ("simplex", "l1-ball"):
            most = size * ratio
            assert math.fsum(np.abs(found)) <= most * (1.0 + 2.0 * np.finfo(float).eps)
            assert name == "l1-ball" or abs(math.fsum(found) - most) <= 2.0 * np.spacing(most)


def test_half_spaces():
    rng = np.random.default_rng(3)
    for d, offset in itertools.product((1, 40, 300), (-2.0, 0.0, 30.0)):
        x, known = rng.standard_normal(d), HalfSpace(rng.standard_normal(d), offset).compiled
        expected, found = np.empty(d), x.copy()
        known.project_euclidean_into(x, expected)
        project_whole(known, found, found)
        np.testing.assert_allclose(found, expected, atol=1e-12 * max(np.abs(expected).max(), 1.0))


def test_what_is_not_finite_is_seen():
    for x in (np.array([1.0, np.nan, 2.0]), np.array([1.0, np.inf, 2.0])):
        for known in (L1Ball(1.0), L2Ball(1.0), Box(0.0, 1.0)):
            expected, found = np.empty(3), x.copy()
            known.compiled.project_euclidean_into(x, expected)
            project_whole(known.compiled, found, found)
            np.testing.assert_array_equal(found, expected)
