"""Elementwise work: the form that kernels run and the form that Python runs agree."""

import numpy as np
import pytest

from finitesum.core import vectors
from finitesum.core.jit import kernel

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal(7), RNG.standard_normal(7)


@kernel
def _numbers(a, b):
    return vectors.dot(a, b), vectors.norm(a), vectors.largest(a), vectors.is_finite(a[0]), vectors.is_finite(b[6])


@kernel
def _written(a, copied, filled, scaled, added):
    vectors.copy(a, copied)
    vectors.fill(filled, 3.0)
    vectors.scale(scaled, -0.5)
    vectors.axpy(2.0, a, added)


def test_numbers():
    b = B.copy()
    b[6] = np.nan
    numbers = _numbers(A, b)
    assert numbers[1:] == pytest.approx((np.linalg.norm(A), np.abs(A).max(), True, False), rel=1e-15)
    assert _numbers(A, B)[0] == pytest.approx(vectors.dot(A, B), rel=1e-14)
    assert vectors.norm(A) == pytest.approx(numbers[1], rel=1e-15)
    assert vectors.largest(A) == numbers[2]
    assert vectors.largest(np.empty(0)) == 0.0
    assert not vectors.is_finite(b)


def test_results_longer_than_their_argument_keep_the_rest():
    outs = [RNG.standard_normal(9) for _ in range(4)]
    again = [out.copy() for out in outs]
    _written(A, *outs)
    vectors.copy(A, again[0])
    vectors.fill(again[1], 3.0)
    vectors.scale(again[2], -0.5)
    vectors.axpy(2.0, A, again[3])
    for ours, numpys in zip(outs, again, strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-15)
