"""The adaptive heavy ball as torch optimizers run it, from its equations: slow, one parameter, float64.

    V_t = (1 - gamma/t) V_{t-1} + (gamma/t) g_t^2,  V_0 = 0
    s_t = sqrt(V_t) + delta/sqrt(t)
    x = w_t - alpha / ((t+2) sqrt(t)) g_t / s_t + t/(t+2) (w_t - w_{t-1}),  w_0 = w_1
    w_{t+1} = P(x, s_t)

The heavy ball without a metric has s = 1. Two iterates are kept here, no displacement buffer.
"""

import numpy as np


def time_of(step, steps_per_epoch, interpolate=False):
    """t of update number `step` (from 1): an integer division, or a straight line through the epochs' ends."""
    if interpolate:
        return 1 + (step - 1) / steps_per_epoch
    return 1 + (step - 1) // steps_per_epoch


def iterates(
    w, gradients, *, alpha, times, gamma=None, delta=0.0, sqrt_decay=True, coupled=0.0, decoupled=0.0, project=None
):
    """Yield (w, V) after each update; gamma None is the heavy ball. `times` holds t of each update.

    Decoupled decay shrinks w before the move by alpha / (2 sqrt t), the length of a step in the long run, and is no part
    of the displacement.
    """
    w = np.array(w, dtype=np.float64)
    before, second = w.copy(), np.zeros_like(w)
    for g, t in zip(gradients, times, strict=True):
        g = np.asarray(g, dtype=np.float64) + coupled * w
        slowed = alpha / np.sqrt(t) if sqrt_decay else alpha
        s = np.ones_like(w)
        if gamma is not None:
            second = (1 - gamma / t) * second + (gamma / t) * g**2
            s = np.sqrt(second) + delta / np.sqrt(t)
        quotient = np.divide(g, s, out=np.zeros_like(g), where=s != 0)
        momentum = t / (t + 2) * (w - before)
        before = w - decoupled * slowed / 2 * w
        w = before - slowed / (t + 2) * quotient + momentum
        if project is not None:
            w = project(w, s)
        yield w.copy(), second.copy()
