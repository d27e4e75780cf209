"""Slow projections, one formula each, in extended precision: what the fast ones are compared with.

All take x of shape (..., d) and a metric s > 0 of the same shape, and return argmin_{y in Q} sum_i s_i (y_i - x_i)^2 over
the last axis, as float64.
"""

import numpy as np

Extended = np.longdouble


def onto_simplex(x, total, metric=1.0, weights=1.0):
    """Onto {y >= 0, sum_i c_i y_i = total}, by sorting the heights z_i = s_i x_i / c_i downwards.

    With the k largest positive, lam_k = (sum_{i <= k} c_i x_i - total) / sum_{i <= k} c_i^2 / s_i; the right k is the
    largest with z_(k) > lam_k; then y_i = max(x_i - lam c_i / s_i, 0).
    """
    x, s, c = (np.broadcast_to(np.asarray(a, Extended), np.shape(x)) for a in (x, metric, weights))
    total = np.asarray(total, Extended)[..., None]
    heights = s * x / c
    order = np.argsort(-heights, axis=-1, kind="stable")
    moments = np.cumsum(np.take_along_axis(c * x, order, -1), axis=-1)
    slopes = np.cumsum(np.take_along_axis(c * c / s, order, -1), axis=-1)
    levels = (moments - total) / slopes
    above = np.take_along_axis(heights, order, -1) > levels
    last = x.shape[-1] - 1 - np.argmax(above[..., ::-1], axis=-1)
    level = np.take_along_axis(levels, last[..., None], -1)
    return np.maximum(x - level * c / s, 0).astype(float)


def onto_l1_ball(x, radius, metric=1.0, weights=1.0):
    """Onto {sum_i c_i |y_i| <= radius}: the simplex for |x|, with the signs put back, where x is outside."""
    x = np.asarray(x, Extended)
    inside = np.sum(weights * np.abs(x), axis=-1, keepdims=True) <= np.asarray(radius, Extended)[..., None]
    return np.where(inside, x, np.sign(x) * onto_simplex(np.abs(x), radius, metric, weights)).astype(float)


def onto_l2_ball(x, radius, metric=1.0):
    """Onto {||y|| <= radius}: y_i = s_i x_i / (s_i + lam), lam by bisection of [0, max(s) ||x|| / radius]."""
    x = np.asarray(x, Extended)
    s = np.broadcast_to(np.asarray(metric, Extended), x.shape)
    radius = np.asarray(radius, Extended)[..., None]
    norm = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    lower, upper = np.zeros_like(norm), np.max(s, axis=-1, keepdims=True) * norm / radius
    for step in range(220):  # halve the exponent first, then the digits
        geometric = np.sqrt(np.maximum(lower, upper * Extended(1e-40)) * upper)
        middle = geometric if step < 60 else (lower + upper) / 2
        y = s * x / (s + middle)
        outside = np.sum(y * y, axis=-1, keepdims=True) > radius * radius
        lower, upper = np.where(outside, middle, lower), np.where(outside, upper, middle)
    return np.where(norm <= radius, x, s * x / (s + upper)).astype(float)


def onto_box(x, lower, upper):
    """Onto {lower_i <= y_i <= upper_i}."""
    return np.minimum(np.maximum(x, lower), upper)


def onto_half_space(x, normal, offset, metric=1.0):
    """Onto {<a, y> <= b}: y = x - max(0, (<a, x> - b) / sum_i a_i^2 / s_i) a / s."""
    x, a = np.asarray(x, Extended), np.asarray(normal, Extended)
    s = np.broadcast_to(np.asarray(metric, Extended), x.shape)
    excess = np.sum(a * x, axis=-1, keepdims=True) - np.asarray(offset, Extended)[..., None]
    return (x - np.maximum(excess, 0) / np.sum(a * a / s, axis=-1, keepdims=True) * a / s).astype(float)
