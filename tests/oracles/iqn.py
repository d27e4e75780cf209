"""IQN from its equations, with every matrix inverted again; F is an `oracles.sums.Sum`, smooth."""

import numpy as np
from oracles.newton_type import majorant


def first_matrices(F, x0, initial):
    if initial != "hessian":
        return [initial * np.eye(F.dim) for _ in range(F.m)]
    u = F.predictions(x0)
    curvatures = majorant(u) if F.loss(np.zeros(1), np.ones(1))[0] == np.log(2.0) else F.d2(u, F.y)
    loss_parts = [F.m * (F.Z[block].T * (F.p[block] * curvatures[block])) @ F.Z[block] for block in F.blocks]
    size = 1e-6 * sum(np.trace(part) for part in loss_parts) / (F.m * F.dim)
    return [part + size * np.eye(F.dim) + np.diag(F.l2) for part in loss_parts]


def bfgs(B, s, y):
    if not (y @ s > 1e-12 * s @ s and s @ B @ s > 1e-12 * s @ s):
        return B
    return B + np.outer(y, y) / (y @ s) - np.outer(B @ s, B @ s) / (s @ B @ s)


def iqn(F, x0, orders, initial, damping=1.0):
    """Yields the iterate and the matrices after every pass."""

    def gradient(i, x):
        return F.loss_gradient(i, x) + F.l2 * x

    x, anchors = x0.copy(), [x0.copy() for _ in range(F.m)]
    gradients, matrices = [gradient(i, x0) for i in range(F.m)], first_matrices(F, x0, initial)
    for order in orders:
        for i in order:
            q = sum(g + B @ (x - z) for g, B, z in zip(gradients, matrices, anchors, strict=True))
            x = x - damping * np.linalg.solve(sum(matrices), q)
            s, y = x - anchors[i], gradient(i, x) - gradients[i]
            matrices[i] = bfgs(matrices[i], s, y)
            anchors[i], gradients[i] = x, gradients[i] + y
        yield x, matrices
