"""Stochastic dual coordinate ascent in plain NumPy, from its equations."""

import numpy as np


def root(F, y, q, goal, v):
    """v + q phi'(v) = goal to a thousandth of what is missing at first, by Newton's method, or halves."""
    low, high, first, before, y = -np.inf, np.inf, None, 0.0, np.array([y])
    for _ in range(20):
        u = np.array([v])
        missing = v + q * F.d1(u, y)[0] - goal
        if first is None:
            first = abs(missing)
        elif abs(missing) <= 1e-3 * first:
            break
        low, high = (max(low, v - missing), min(high, v)) if missing > 0 else (max(low, v), min(high, v - missing))
        if missing * before < 0 and abs(missing) > 0.5 * abs(before):
            v = 0.5 * (low + high)
        else:
            v = v - missing / (1 + q * F.d2(u, y)[0])
        before = missing
    return v


def epochs(F, orders, intercept, block=16, caution=1.5, hold=30.0):
    """Yield x after each epoch; `orders` are the blocks in the order of their visits, epoch by epoch."""
    Z = F.Z[:, :-1] if intercept else F.Z
    l2 = F.l2[0]
    squares = (Z**2).sum(axis=1)
    mu = hold * l2 / (F.p @ squares)
    w, b, b0 = np.zeros(Z.shape[1]), 0.0, 0.0
    s, v = np.zeros(F.n), np.zeros(F.n)
    offsets = F.predictions(np.zeros(F.Z.shape[1]))
    for order in orders:
        total = 0.0
        for k in order:
            rows = np.arange(block * k, min(block * (k + 1), F.n))
            rows = rows[F.p[rows] > 0]
            q = caution * F.p[rows] * (squares[rows] / l2 + (1.0 / mu if intercept else 0.0))
            goal = Z[rows] @ w + b + offsets[rows] + q * s[rows]
            v[rows] = [root(F, *row) for row in zip(F.y[rows], q, goal, v[rows], strict=True)]
            new = F.d1(v[rows], F.y[rows])
            change = F.p[rows] * (new - s[rows])
            s[rows] = new
            total += change**2 @ squares[rows]
            w = w - Z[rows].T @ change / l2
            b -= change.sum() / mu if intercept else 0.0
        np.testing.assert_allclose(w, -(Z.T @ (F.p * s)) / l2, atol=1e-9 * np.abs(w).max())
        x = np.append(w, b) if intercept else w.copy()
        if intercept:
            total += (F.p @ s) ** 2
            b, b0 = b - F.p @ s / mu, b
            np.testing.assert_allclose(b, b0 - F.p @ s / mu)
        yield x, np.sqrt(total)
