"""Models with l1 penalties, minimised many at a time: each at its own minimum, with a free last coordinate or without."""

import numpy as np
import pytest

from finitesum.methods.subproblems.many_models import model_steps, without_last


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_steps_lead_to_minimisers(is_free, offset):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2, 40, 5)) + offset
    X[:, :, -1] = 1.0
    hessians = np.einsum("rni,rnj->rij", X, X) / 40.0
    which, d = np.array([0, 1, 1]), 5
    weights = np.append(np.ones(d - 1), 0.0 if is_free else 1.0)
    ridges, thresholds = 0.1 * rng.random((3, 1)) * weights, rng.random((3, 1)) * weights
    x, gradients = rng.standard_normal((3, d)), rng.standard_normal((3, d))
    x[:, 0] = 0.0
    steps = model_steps(without_last(hessians), which, ridges, thresholds, x, gradients)
    if offset and not is_free:
        return  # slow without a coordinate that centres the columns
    for p in range(3):
        slopes = gradients[p] + hessians[which[p]] @ steps[p] + ridges[p] * steps[p]
        ends = x[p] + steps[p]
        mapping = np.where(
            ends != 0.0, slopes + thresholds[p] * np.sign(ends), np.maximum(np.abs(slopes) - thresholds[p], 0.0)
        )
        size = np.sqrt(steps[p] @ hessians[which[p]] @ steps[p])
        assert np.abs(mapping / np.sqrt(np.diagonal(hessians[which[p]]))).max() < 0.05 * size
