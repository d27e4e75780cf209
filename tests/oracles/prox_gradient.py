"""Proximal gradients of a linear model with any penalty, slowly, in NumPy: the prox is the best of a few candidates."""

import numpy as np


def _best(candidates, value, v, step):
    """Return the candidate w >= 0 with the least value(w) + (w - |v|)^2 / (2 step), with the sign of v."""
    costs = [value(w) + (w - abs(v)) ** 2 / (2.0 * step) for w in candidates]
    return np.copysign(candidates[int(np.argmin(costs))], v)


def weighted(l1, l2, weights):
    """Elastic net with weights: its value, and the prox of what is not quadratic in it."""

    def prox(v, step):
        return np.sign(v) * np.maximum(np.abs(v) - step * l1 * weights, 0.0)

    return lambda w: float(weights @ (l1 * np.abs(w) + 0.5 * l2 * w * w)), prox


def mcp(alpha, gamma, weights):
    """The minimax concave penalty, as the integral of its slope max(alpha - w / gamma, 0)."""

    def value(w):
        t = min(w, gamma * alpha)
        return alpha * t - t * t / (2.0 * gamma)

    def prox_of(v, step, weight):
        candidates = [0.0, abs(v), gamma * alpha]
        if weight * step != gamma:
            bent = (abs(v) - weight * step * alpha) / (1.0 - weight * step / gamma)
            candidates.append(min(max(bent, 0.0), gamma * alpha))
        return _best(candidates, lambda w: weight * value(w), v, step)

    return (
        lambda w: float(weights @ np.vectorize(value)(np.abs(w))),
        lambda v, step: np.array([prox_of(*pair) for pair in zip(v, [step] * v.size, weights, strict=True)]),
    )


def scad(alpha, gamma, weights):
    """The smoothly clipped absolute deviation, by the pieces of its slope."""

    def value(w):
        flat, bent = min(w, alpha), min(max(w - alpha, 0.0), (gamma - 1.0) * alpha)
        return alpha * flat + alpha * bent - bent * bent / (2.0 * (gamma - 1.0))

    def prox_of(v, step, weight):
        s = weight * step
        candidates = [0.0, abs(v), alpha, gamma * alpha, min(max(abs(v) - s * alpha, 0.0), alpha)]
        if s != gamma - 1.0:
            bent = ((gamma - 1.0) * abs(v) - s * gamma * alpha) / (gamma - 1.0 - s)
            candidates.append(min(max(bent, alpha), gamma * alpha))
        return _best(candidates, lambda w: weight * value(w), v, step)

    return (
        lambda w: float(weights @ np.vectorize(value)(np.abs(w))),
        lambda v, step: np.array([prox_of(*pair) for pair in zip(v, [step] * v.size, weights, strict=True)]),
    )


def groups(l1, strengths, members):
    """The sparse group lasso; members are lists of columns."""

    def value(w):
        return float(sum(s * np.linalg.norm(w[g]) for s, g in zip(strengths, members, strict=True)) + l1 * np.abs(w).sum())

    def prox(v, step):
        out = np.sign(v) * np.maximum(np.abs(v) - step * l1, 0.0)
        for s, g in zip(strengths, members, strict=True):
            norm = np.linalg.norm(out[g])
            out[g] *= max(1.0 - step * s / norm, 0.0) if norm > 0.0 else 0.0
        return out

    return value, prox


def minimum(X, slopes, w, quadratic, prox, step, n_steps):
    """Return w and b after prox-gradient steps on sum_i slopes(Xw + b) + quadratic'w^2 / 2, b the last coordinate."""
    for _ in range(n_steps):
        pull = slopes(X @ w[:-1] + w[-1])
        moved = w - step * np.append(X.T @ pull + quadratic * w[:-1], pull.sum())
        w = np.append(prox(moved[:-1], step), moved[-1])
    return w


def minimum_of_outputs(X, slopes, table, value, prox, step, n_steps):
    """Return a table (K, d + 1) after accelerated steps on the sum of losses of X W' + b, with restarts, and F's penalty.

    `slopes` takes scores of shape (n, K), and the prox the coefficients, row by row in one vector.
    """
    point, t = table.copy(), 1.0
    for _ in range(n_steps):
        pull = slopes(X @ point[:, :-1].T + point[:, -1])
        moved = point - step * np.column_stack([pull.T @ X, pull.sum(axis=0)])
        moved[:, :-1] = prox(moved[:, :-1].ravel(), step).reshape(table.shape[0], -1)
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        if ((point - moved) * (moved - table)).sum() > 0.0:
            after, point = 1.0, moved.copy()
        else:
            point = moved + (t - 1.0) / after * (moved - table)
        table, t = moved, after
    return table, value(table[:, :-1].ravel())
