"""SVRG2 from its equations, with every approximation as an explicit matrix; F is an `oracles.sums.Sum`."""

import numpy as np


def component_hessians(F, w):
    """H_j, the penalty's quadratic part included: their mean is H."""
    return [F.loss_hessian(j, w) + np.diag(F.l2) for j in range(F.m)]


def approximations(F, w, kind, step_before=None, S=None):
    """(A_j for each j, A) at a snapshot w."""
    parts = component_hessians(F, w)
    H = sum(parts) / F.m
    if kind == "full":
        return parts, H
    if kind == "2D":
        return [np.diag(np.diag(part)) for part in parts], np.diag(np.diag(H))
    if kind == "2Dsec":

        def secant(M):
            return np.diag((step_before * (M @ step_before) + 0.01 * np.diag(M)) / (step_before * step_before + 0.01))

        return [secant(part) for part in parts], secant(H)
    C = np.linalg.inv(S.T @ H @ S)
    A = H @ S @ C @ S.T @ H
    if kind == "CM":
        return [H @ S @ C @ (S.T @ part @ S) @ C @ S.T @ H for part in parts], A
    values, vectors = np.linalg.eigh(C)
    R = S @ (vectors * np.sqrt(values)) @ vectors.T
    Q = H @ R
    unit = np.eye(F.dim)
    return [Q @ (part @ R).T @ (unit - R @ Q.T) + part @ R @ Q.T for part in parts], A


def gaussian(F, seed, k, rank):
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, k]))).standard_normal((rank, F.dim)).T


def svrg2(F, x0, orders, step, kind, *, rank=3, sketch="gauss", seed=0):
    """Yields the iterate after every epoch, with a constant step."""
    x, w, step_before, directions = x0.copy(), x0.copy(), np.zeros(F.dim), None
    for k, order in enumerate(orders):
        S = directions if sketch == "prev" and directions is not None else gaussian(F, seed, k, rank)
        parts, A = approximations(F, w, kind, step_before, S)
        full = F.gradient(w)
        directions = np.zeros((F.dim, rank))
        for n, j in enumerate(order):
            v = x - w
            g = F.loss_gradient(j, x) - F.loss_gradient(j, w) + F.l2 * v - parts[j] @ v + full + A @ v
            directions[:, n * rank // len(order)] += g
            x = F.prox(x - step * g, step)
        w, step_before = x, x - w
        yield x
