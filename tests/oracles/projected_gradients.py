"""The minimum on a set by projected gradients with momentum, which begins again where it points the wrong way."""

import math

import numpy as np


def lowest(oracle, project, step, dim):
    """Return the minimum of an oracle's objective; project(point) is the nearest point of the set."""
    w = y = project(np.zeros(dim))
    t = 1.0
    for _ in range(30_000):
        end = project(y - step * oracle.gradient(y))
        if np.abs(end - y).max() <= 1e-13:
            break
        restarts = (y - end) @ (end - w) > 0.0
        later = 1.0 if restarts else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        y = end if restarts else end + (t - 1.0) / later * (end - w)
        w, t = end, later
    return oracle.objective(end)
