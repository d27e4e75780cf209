"""Newton-CG in a trust region and lazy Newton on functions, in plain NumPy: over all components, from their equations."""

import numpy as np


def steihaug(H, g, radius, accuracy, most=500):
    """Conjugate gradients for H p = -g in a ball: Nocedal and Wright, algorithm 7.2; p, and how many products it took."""
    p, r, d, n = np.zeros(g.size), g.copy(), -g, 0
    while n < most and np.sqrt(r @ r) > accuracy * np.sqrt(g @ g):
        Hd, n = H @ d, n + 1
        curvature = d @ Hd
        alpha = (r @ r) / abs(curvature)
        if np.isfinite(radius) and (curvature <= 0.0 or np.linalg.norm(p + alpha * d) >= radius):
            roots = np.roots([d @ d, 2.0 * (p @ d), p @ p - radius**2])
            return p + roots.real.max() * d, n
        p = p + alpha * d
        if curvature <= 0.0:
            return p, n
        r_next = r + alpha * Hd
        d, r = -r_next + (r_next @ r_next) / (r @ r) * d, r_next
    return p, n


def newton_cg(F, w, tol, n_steps):
    """Iterates after each step, and the products so far. Algorithm 4.1, with our constants."""
    radius, first, n = np.inf, np.linalg.norm(F.gradient(w)), 0
    for _ in range(n_steps):
        g, H = F.gradient(w), F.hessian(w)
        size = np.linalg.norm(g)
        accuracy = min(0.25, max(np.sqrt(size / first), 0.6 * tol / size))
        p, products = steihaug(H, g, radius, accuracy)
        n += products
        ratio = (F.objective(w) - F.objective(w + p)) / -(g @ p + 0.5 * p @ H @ p)
        if ratio < 0.25:
            radius = 0.25 * np.linalg.norm(p)
        elif ratio >= 0.75:
            radius = max(radius, 2.0 * np.linalg.norm(p))
        w = w + p if ratio > 1e-4 else w
        yield w, n


def with_sizes(H):
    """H with its eigenvalues replaced by their sizes."""
    values, vectors = np.linalg.eigh(H)
    return (vectors * np.abs(values)) @ vectors.T


def lazy_newton(F, w, n_steps):
    """Iterates after each step, and the Hessians so far; H over all components from the start."""
    inverse = np.linalg.inv(with_sizes(F.hessian(w)))
    B, n = inverse, 1
    for _ in range(n_steps):
        g = F.gradient(w)
        p, t = -B @ g, 1.0
        while F.objective(w + t * p) > F.objective(w) + 1e-4 * t * (g @ p):
            t *= 0.5
        w = w + t * p
        after = F.gradient(w)
        ratio = np.sqrt((after @ inverse @ after) / (g @ inverse @ g))
        if ratio > 0.4 or t < 1.0:
            inverse = np.linalg.inv(with_sizes(F.hessian(w)))
            B, n = inverse, n + 1
        else:  # the BFGS formula
            s, y = t * p, after - g
            V = np.eye(w.size) - np.outer(y, s) / (y @ s)
            B = V.T @ B @ V + np.outer(s, s) / (y @ s)
        yield w, n
