"""Support vector machines: interior points by the whole system of their equations, and the linear program as it stands.

F is an `oracles.sums.Sum` with the hinge loss, whose weights are positive.
"""

import numpy as np
from scipy.optimize import linprog


def interior_points(F, x, orders):
    """Mehrotra's predictor and corrector to p a r = mu, each by one linear system in all unknowns (w, b), xi, r, a."""
    n, dim, A = F.n, F.dim, F.y[:, None] * F.Z
    ridge, eye, none = np.diag(F.l2), np.eye(n), np.zeros((n, n))
    margins = A @ x + F.y * F.offsets
    xi = np.maximum(1.0 - margins, 0.0) + np.maximum(F.p.mean() / F.p, 1.0)
    r, a = margins - 1.0 + xi, np.full(n, 0.5)

    def solved(first, second):
        """The moves that bring a r to `first` and (1 - a) xi to `second`, up to products of moves."""
        system = np.block(
            [
                [ridge, np.zeros((dim, 2 * n)), -(A.T * F.p)],
                [A, eye, -eye, none],
                [np.zeros((n, dim)), none, np.diag(a), np.diag(r)],
                [np.zeros((n, dim)), np.diag(1 - a), none, -np.diag(xi)],
            ]
        )
        lacking = (A.T @ (F.p * a) - F.l2 * x, 1 - (A @ x + F.y * F.offsets) - xi + r, first - a * r, second - (1 - a) * xi)
        return np.split(np.linalg.solve(system, np.concatenate(lacking)), [dim, dim + n, dim + 2 * n])

    def longest(moves, fraction):
        _, dxi, dr, da = moves
        pairs = ((xi, dxi), (r, dr), (a, da), (1 - a, -da))
        return min(1.0, *(fraction * (-z / dz)[dz < 0].min(initial=np.inf) for z, dz in pairs))

    for _ in orders:
        mu = F.p @ (a * r + (1 - a) * xi) / (2 * n)
        predictor = solved(np.zeros(n), np.zeros(n))
        _, dxi, dr, da = predictor
        t = longest(predictor, 1.0)
        ahead = F.p @ ((a + t * da) * (r + t * dr) + (1 - a - t * da) * (xi + t * dxi)) / (2 * n)
        centre = (ahead / mu) ** 3 * mu / F.p
        corrector = solved(centre - da * dr, centre + da * dxi)
        t = longest(corrector, max(0.995, 1 - mu))
        x, xi, r, a = (z + t * move for z, move in zip((x, xi, r, a), corrector, strict=True))
        yield x


def linear_program(F, x, orders):
    """The program in (w+, w-, b+, b-, xi), by the simplex method."""
    A, coefficients = F.y[:, None] * F.Z, F.penalised
    program, right = -np.hstack([A, -A, np.eye(F.n)]), F.y * F.offsets - 1.0
    if F.constraint == "l1-ball":
        norm = np.concatenate([coefficients, coefficients, np.zeros(F.n)])
        program, right = np.vstack([program, norm]), np.append(right, 0.4)
        bounds = [(0, None)] * (2 * F.dim)
    else:
        bounds = [(0, 0.3 if inside else None) for inside in coefficients]
        bounds += [(0, 0.1 if inside else None) for inside in coefficients]
    cost = np.concatenate([np.zeros(2 * F.dim), F.p])
    found = linprog(cost, program, right, bounds=[*bounds, *[(0, None)] * F.n], method="highs-ds").x
    for _ in orders:
        yield found[: F.dim] - found[F.dim : 2 * F.dim]
