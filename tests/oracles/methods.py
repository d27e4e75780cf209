"""The methods from their equations, one visit at a time. Each takes a Sum, a start and a list of orders (one a pass) and
yields the iterate after each pass. Slow on purpose: what is stored is what the papers store."""

import numpy as np


def fg(F, x, orders, step_size):
    for _ in orders:
        x = F.prox(x - step_size * F.gradient(x), step_size)
        yield x


def afg(F, x, orders, step_size, momentum):
    previous = x
    for _ in orders:
        y = x + momentum * (x - previous)
        previous, x = x, F.prox(y - step_size * F.gradient(y), step_size)
        yield x


def ig(F, x, orders, step_size):
    for e, order in enumerate(orders, start=1):
        for j in order:
            x = F.prox(x - step_size / e * (F.loss_gradient(j, x) + F.l2 * x), step_size / e)
        yield x


def aggregated(F, x, orders, step_size):
    """IAG and SAG: the table is updated, then one step along its mean."""
    table = np.zeros((F.m, F.dim))
    for order in orders:
        for j in order:
            table[j] = F.loss_gradient(j, x)
            x = F.prox(x - step_size * (table.mean(axis=0) + F.l2 * x), step_size)
        yield x


def saga(F, x, orders, step_size):
    table = np.zeros((F.m, F.dim))
    for order in orders:
        for j in order:
            new = F.loss_gradient(j, x)
            x = F.prox(x - step_size * (new - table[j] + table.mean(axis=0) + F.l2 * x), step_size)
            table[j] = new
        yield x


def ciag(F, x, orders, step_size, extrapolation, initialisation="self"):
    """CIAG and A-CIAG as Algorithm 1 has them: iterates are stored, old terms are recomputed from them."""
    seen = np.zeros(F.m, dtype=bool)
    anchors = np.zeros((F.m, F.dim))
    b, H = np.zeros(F.dim), np.diag(F.l2)

    def share(j, point):
        hessian = F.loss_hessian(j, point) / F.m
        return F.loss_gradient(j, point) / F.m - hessian @ point, hessian

    if initialisation == "full":
        for j in range(F.m):
            seen[j], anchors[j] = True, x
            b, H = b + share(j, x)[0], H + share(j, x)[1]
    previous = x
    for order in orders:
        for j in order:
            y = x + extrapolation * (x - previous)
            if seen[j]:
                b, H = b - share(j, anchors[j])[0], H - share(j, anchors[j])[1]
            b, H = b + share(j, y)[0], H + share(j, y)[1]
            seen[j], anchors[j] = True, y
            previous, x = x, F.prox(y - step_size * (b + H @ y), step_size)
        yield x
