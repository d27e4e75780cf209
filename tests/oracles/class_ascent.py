"""Dual coordinate ascent for several classes in plain NumPy and SciPy, from its equations; F is a `SumOfOutputs`."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax, wrightomega


def visited(scores, coupling, old):
    """P = softmax(scores + coupling (old - P)), by bisection for the number that is taken from all scores."""
    if coupling == 0.0:
        return softmax(scores)
    a = scores + coupling * old

    def chances(shift):
        return wrightomega(a - shift + np.log(coupling)) / coupling

    top = a.max()
    shift = brentq(lambda v: chances(v).sum() - 1.0, top - coupling - 1.0, top + np.log(a.size) + 1.0, xtol=1e-14)
    return chances(shift)


def epoch(F, table, P, order, hold):
    """The table of shape (K, d) and the P_i after visits of some rows, and the sum of the divergences met."""
    table, P, total = table.copy(), P.copy(), 0.0
    is_free = F.l2[: table.shape[1]] == 0.0
    metric = np.where(is_free, hold, F.l2.max())
    for i in order:
        if F.p[i] == 0.0:
            continue
        scores = table @ F.Z[i] + F.offsets[i]
        met = softmax(scores)
        total += F.p[i] * sum(p * np.log(p / q) for p, q in zip(P[i], met, strict=True) if p > 0.0)
        new = visited(scores, F.p[i] * (F.Z[i] ** 2 / metric).sum(), P[i])
        table += F.p[i] * np.outer(P[i] - new, F.Z[i] / metric)
        P[i] = new
    return table, P, total
