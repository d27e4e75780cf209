"""SVRG and AccSVRG from their equations, and the rule for their step; F is an `oracles.sums.Sum`.

Each function yields the iterate after every pass.
"""

import numpy as np


def corrected(F, j, x, w):
    """The variance-reduced gradient of the smooth part: the penalty is no part of the components."""
    return F.loss_gradient(j, x) - F.loss_gradient(j, w) + (F.gradient(w) - F.l2 * w) + F.l2 * x


def svrg(F, x0, orders, step, inner_passes=1):
    x, w = x0.copy(), x0.copy()
    for k, order in enumerate(orders, start=1):
        for j in order:
            x = F.prox(x - step * corrected(F, j, x, w), step)
        if k % inner_passes == 0:
            w = x
        yield x


def acc_svrg(F, x0, orders, step, momentum, inner_passes=1):
    x, y, w = x0.copy(), x0.copy(), x0.copy()
    for k, order in enumerate(orders, start=1):
        for j in order:
            last, x = x, F.prox(y - step * corrected(F, j, y, w), step)
            y = x + momentum * (x - last)
        if k % inner_passes == 0:
            w = y = x
        yield x


def first_step(F, bound):
    """1 / ((1 - 1/b) trace + L_row / b), with the bound on the loss's curvature."""
    squares = F.n * F.p * bound * (F.Z**2).sum(axis=1)
    fraction = F.m / F.n
    return 1.0 / ((1.0 - fraction) * squares.mean() + fraction * squares.max() + F.l2.max())


def next_step(F, w, x, step):
    """The point to go on from and the step of the next epoch, after an epoch that led from w to x."""
    rounding = F.n * np.finfo(float).eps * abs(F.objective(w))
    raised = not F.objective(x) <= F.objective(w) + rounding
    hidden = F.objective(x) > F.objective(w) - rounding
    penalty_rise = F.l1 @ (np.abs(x) - np.abs(w))
    rise = (x - w) @ (F.gradient(x) + F.gradient(w)) / 2 + penalty_rise
    if raised or (hidden and rise > 0):
        return w, step / 4
    slope = (x - w) @ F.gradient(x) + penalty_rise
    return x, step * 1.25 if slope < 0 else step * 0.8


def automatic(F, x0, orders, epoch, bound):
    """Any snapshot method under the rule; `epoch(F, w, order, step)` runs its inner loop."""
    w, step = x0.copy(), first_step(F, bound)
    for order in orders:
        w, step = next_step(F, w, epoch(F, w, order, step), step)
        yield w, step
