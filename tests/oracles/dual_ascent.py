"""Stochastic dual coordinate ascent in plain NumPy, from its equations."""

import numpy as np


def root(F, y, q, prediction, slope, v):
    """v + q phi'(v) = prediction + q slope, up to a tenth of v - prediction, by Newton's method or halves."""
    goal, low, high, before, y = prediction + q * slope, -np.inf, np.inf, 0.0, np.array([y])
    for k in range(100):
        u = np.array([v])
        missing = v + q * F.d1(u, y)[0] - goal
        if abs(missing) <= 0.1 * abs(v - prediction) or (k > 0 and abs(missing) <= 1e-15 * abs(goal)):
            break
        low, high = (max(low, v - missing), min(high, v)) if missing > 0 else (max(low, v), min(high, v - missing))
        v = v - missing / (1 + q * F.d2(u, y)[0])
        if (missing * before < 0 and abs(missing) > 0.5 * abs(before)) or not low <= v <= high:
            v = 0.5 * (low + high)
        before = missing
    return v


def epochs(F, draws, intercept, hold=30.0, together=4, little=0.3, longest=63, alike=8):
    """Yield x and the size of the changes after each epoch; `draws` are an iterator of numbers in [0, 1) for each."""
    Z = F.Z[:, :-1] if intercept else F.Z
    l2 = F.l2[0]
    squares = (Z**2).sum(axis=1)
    mu = hold * l2 / (F.p @ squares)
    counted = squares[F.p > 0.0]
    likeness = (counted.sum() ** 2 / (counted.size * (counted**2).sum())) ** alike
    w, b, b0, least = np.zeros(Z.shape[1]), 0.0, 0.0, 0.0
    s, v, rests, waits = np.zeros(F.n), np.zeros(F.n), np.zeros(F.n, int), np.zeros(F.n, int)
    offsets = F.predictions(np.zeros(F.Z.shape[1]))
    q = F.p * (squares / l2 + (1.0 / mu if intercept else 0.0))
    for drawn in draws:
        total, visits = 0.0, 0
        while visits < F.n:
            groups = np.split(np.flatnonzero(waits == 0), range(together, (waits == 0).sum(), together))
            waits = np.maximum(waits - 1, 0)
            order = list(range(len(groups)))
            for k in range(len(order) - 1, 0, -1):
                other = int(next(drawn) * (k + 1))
                order[k], order[other] = order[other], order[k]
            due, size = np.concatenate([groups[k] for k in order])[: F.n - visits], 0.0
            for i in due:
                change = 0.0
                if F.p[i] > 0:
                    v[i] = root(F, F.y[i], q[i], Z[i] @ w + b + offsets[i], s[i], v[i])
                    new = F.d1(v[i : i + 1], F.y[i : i + 1])[0]
                    change, s[i] = F.p[i] * (new - s[i]), new
                w = w - change * Z[i] / l2
                b -= change / mu if intercept else 0.0
                most = least / (1 + likeness * rests[i]) ** 2
                rests[i] = min(2 * rests[i] + 1, longest) if change**2 * squares[i] <= most else 0
                waits[i] = rests[i]
                size += change**2 * squares[i]
            visits += due.size
            total, least = total + size, little * size / due.size if due.size else least
        np.testing.assert_allclose(w, -(Z.T @ (F.p * s)) / l2, atol=1e-9 * np.abs(w).max())
        x = np.append(w, b) if intercept else w.copy()
        if intercept:
            total += (F.p @ s) ** 2
            b, b0 = b - F.p @ s / mu, b
            np.testing.assert_allclose(b, b0 - F.p @ s / mu)
        yield x, np.sqrt(total)
