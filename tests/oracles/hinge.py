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


def dual_ascent(F, x, orders, epochs):
    """Coordinate ascent in loads l, and Newton's step on the free ones by conjugate gradients, a pass at a time."""
    A, c, coefficients, ridge = F.y[:, None] * F.Z, F.p, F.penalised, F.l2.max()
    hold = 3.0 * ridge / (F.p @ (F.Z[:, coefficients] ** 2).sum(axis=1))
    D = np.where(coefficients, ridge, hold)  # in the metric of which w is the loads' image

    def value(w):
        return c @ np.maximum(-slopes(w), 0.0) + 0.5 * F.l2 @ w**2

    def image(loads, b):
        return np.where(coefficients, A.T @ loads / D, b)

    def slopes(w):
        return A @ w + F.y * F.offsets - 1.0

    has_b = not coefficients.all()
    loads = np.where(slopes(x) < 0.0, c, 0.0) if x.any() else np.zeros(F.n)
    w, best, H = image(loads, x[-1]), x, (A / D) @ A.T
    rest, low, high, k, face = np.zeros(F.n, bool), -np.inf, np.inf, 0, None
    for order in orders:
        if face is None:
            if has_b and k == 0:
                w[-1] += F.y @ loads / hold
            least, most = (low if low < 0 else -np.inf), (high if high > 0 else np.inf)
            low = high = 0.0
            for i in np.concatenate([F.blocks[j] for j in order]):
                if rest[i]:
                    continue
                slope = slopes(w)[i]
                at_bound = (loads[i] == 0 and slope > 0) or (loads[i] == c[i] and slope < 0)
                rest[i] = at_bound and not least <= slope <= most
                if not at_bound:
                    low, high = min(low, slope), max(high, slope)
                    new = np.clip(loads[i] - slope / H[i, i], 0.0, c[i])
                    w, loads[i] = w + A[i] / D * (new - loads[i]), new
            k += 1
            if k == epochs:
                face = np.flatnonzero((loads > 0) & (loads < c))
                p, r = np.zeros(face.size), -slopes(w)[face]
                q, n_products, start = r / H[face, face], 0, r @ (r / H[face, face])
        else:
            G, n_read = H[np.ix_(face, face)], 0
            while n_read < F.n and r @ (r / np.diag(G)) > 1e-4 * start and face.size:
                size, n_products, n_read = r @ (r / np.diag(G)), n_products + 1, n_read + face.size
                p, r = p + size / (q @ G @ q) * q, r - size / (q @ G @ q) * (G @ q)
                if n_products >= min(2 * face.size, max(10, 20 * F.n // face.size)) or (abs(p) > c[face]).any():
                    start = np.inf
                    break
                q = r / np.diag(G) + q * (r @ (r / np.diag(G))) / size
        if k == epochs and (face.size == 0 or not r @ (r / np.diag(H)[face]) > 1e-4 * start):
            before, t = loads[face], 1.0
            while face.size and t >= 1e-3:
                change = np.clip(before + t * p, 0.0, c[face]) - before
                if slopes(w)[face] @ change + 0.5 * change @ H[np.ix_(face, face)] @ change < 0.0:
                    loads[face] = np.clip(before + t * p, 0.0, c[face])
                    w = w + A[face].T @ change / D
                    break
                t *= 0.5
            w = image(loads, w[-1])
            if has_b:
                wanted = w[-1] - F.y * slopes(w)
                by = np.argsort(wanted)
                less, more = np.cumsum(c[by]), c[F.y > 0].sum()
                w[-1] = np.mean([wanted[by[less >= (1 - 1e-12) * more][0]], wanted[by[less > (1 + 1e-12) * more][0]]])
            best = w.copy() if value(w) < value(best) else best
            rest, low, high, k, face = np.zeros(F.n, bool), -np.inf, np.inf, 0, None
        yield best
