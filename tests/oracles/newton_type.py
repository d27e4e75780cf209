"""NIM, IQN and Newton's method from their equations; F is an `oracles.sums.Sum`.

Each function yields the iterate after every pass. Models are summed again from stored anchors at each visit.
"""

import numpy as np
from oracles.line_search import gentle_slope
from oracles.outputs import squared as squared_loss


def minimise(F, gradient, H, y):
    """argmin_v g'(v - y) + 1/2 (v - y)'H (v - y) + r(v): by a linear system, or by steps until nothing moves."""
    if F.project is None and not F.l1.any():
        return y - np.linalg.solve(H, gradient)
    if F.project is not None:
        return projected(F, gradient, H, y)
    x = y.copy()
    for _ in range(20_000):
        last = x.copy()
        for j in range(x.size):
            moved = x[j] - (gradient[j] + H[j] @ (x - y)) / H[j, j]
            x[j] = np.sign(moved) * max(abs(moved) - F.l1[j] / H[j, j], 0.0)
        if np.abs(x - last).max() <= 1e-15:
            break
    return x


def projected(F, gradient, H, y):
    x, step = y.copy(), 1.0 / np.linalg.eigvalsh(H)[-1]
    for _ in range(100_000):
        last, x = x, F.prox(x - step * (gradient + H @ (x - y)), step)
        if np.abs(x - last).max() <= 1e-15:
            break
    return x


def conjugate_gradients(F, gradient, H, y, missing):
    """Until the residual's largest entry is at most min(1, sqrt(G)) G, or 1 in the first pass; at least one step."""
    size = np.abs(gradient).max()
    tolerance = 1.0 if missing else min(1.0, np.sqrt(size)) * size
    x, r = y.copy(), -gradient
    p = r
    for _ in range(y.size):
        if not p @ H @ p > 0:
            break
        length = (r @ r) / (p @ H @ p)
        x, last, r = x + length * p, r, r - length * H @ p
        if np.abs(r).max() <= tolerance:
            break
        p = r + (r @ r) / (last @ last) * p
    return x


def majorant(u):
    """tanh(u/2) / (2u): Jaakkola and Jordan's curvature for the logistic loss."""
    half = np.maximum(np.abs(u) / 2, 1e-9)
    return np.tanh(half) / (4 * half)


class Models:
    """The components' Taylor models: anchors, and whether they have the majorant's curvature."""

    def __init__(self, F, x0, full):
        self.F = F
        self.anchors = np.tile(x0, (F.m, 1))
        self.seen = np.full(F.m, full)
        self.majorized = np.zeros(F.m, dtype=bool)

    def curvature(self, j, x, majorized):
        if not majorized:
            return self.F.loss_hessian(j, x) / self.F.m
        block = self.F.blocks[j]
        c = self.F.p[block] * majorant(self.F.predictions(x, block))
        return (self.F.Z[block].T * c) @ self.F.Z[block]

    def gradient(self, x):
        """The gradient of the mean model at x: unseen components contribute nothing."""
        total = self.F.l2 * x
        for j in np.flatnonzero(self.seen):
            total += self.F.loss_gradient(j, self.anchors[j]) / self.F.m
            total += self.curvature(j, self.anchors[j], self.majorized[j]) @ (x - self.anchors[j])
        return total

    def hessian(self):
        seen = np.flatnonzero(self.seen)
        parts = [self.curvature(j, self.anchors[j], self.majorized[j]) for j in seen]
        return sum(parts) + np.diag(self.F.l2)

    def move(self, j, x, majorized=False):
        self.anchors[j], self.seen[j], self.majorized[j] = x, True, majorized


def nim(F, x0, orders, damping=1.0, solver="exact", full=False):
    x, models = x0.copy(), Models(F, x0, full)
    for order in orders:
        for j in order:
            models.move(j, x)
            gradient, H = models.gradient(x), models.hessian()
            if solver == "inexact" and F.project is None and not F.l1.any():
                z = conjugate_gradients(F, gradient, H, x, not models.seen.all())
            else:
                z = minimise(F, gradient, H, x)
            x = x + damping * (z - x)
        yield x


def trusted_nim(F, x0, orders):
    """NIM, exact, logistic: majorants while R > 0.9, second derivatives once R < 1/2 (halved each time)."""
    x, models = x0.copy(), Models(F, x0, False)
    residual, total = np.zeros(F.dim), np.zeros(F.dim)
    keep = 1 - 1 / max(0.1 * F.m, 1.0)
    majorized, trusted, compared, ratio = True, 0.5, 0, np.nan
    for order in orders:
        for j in order:
            if models.seen[j]:
                anchor = models.anchors[j]
                predicted = models.curvature(j, anchor, False) @ (x - anchor)
                change = (F.loss_gradient(j, x) - F.loss_gradient(j, anchor)) / F.m
                residual, total = keep * residual + change - predicted, keep * total + predicted
                compared += 1
            was_seen = models.seen[j]
            models.move(j, x, majorized)
            if was_seen and compared >= 3 and np.linalg.norm(total) > 1e-15:
                ratio = np.linalg.norm(residual) / np.linalg.norm(total)
                if ratio < trusted:
                    majorized = False
                elif ratio > 0.9 and not majorized:
                    majorized, trusted = True, trusted / 2
            x = minimise(F, models.gradient(x), models.hessian(), x)
        yield x, residual, total, majorized


def newton_to_the_end(F, x, orders):
    """Newton's steps, halved while F rises, until nothing moves: x is then the same after every pass."""
    for _ in range(200):
        H = sum(F.loss_hessian(j, x) for j in range(F.m)) / F.m + np.diag(F.l2)
        H += 1e-3 * np.eye(x.size) * (np.linalg.eigvalsh(H)[0] < 1e-9)
        step, t = minimise(F, F.gradient(x), H, x) - x, 1.0
        while t > 1e-6 and F.objective(x + t * step) > F.objective(x):
            t *= 0.5
        x = x + t * step
        if np.abs(step).max() <= 1e-13:
            break
    yield from [x] * len(orders)


def newton(F, x0, n_passes, damping=None):
    x, theta = x0.copy(), 0.1
    for _ in range(n_passes):
        gradient = F.gradient(x)
        direction = minimise(F, gradient, hessian(F, x, theta), x) - x
        t = searched(F, x, gradient, direction) if damping is None else damping
        x = x + t * direction
        if damping is None and t < 0.5:
            theta = min(max(10.0 * theta, 0.1), 1.0)
        elif damping is None and t == 1.0:
            theta *= 0.1
        yield x


def hessian(F, x, theta):
    """The Hessian, in which rows on a linear piece of their loss have theta / |distance to its vertex|."""
    if F.Z.shape[1] != x.size:  # several outputs
        return F.hessian(x)
    u = F.predictions(x)
    slope, distance = F.d1(u, F.y), np.maximum(np.abs(u - F.y), 1e-300)
    is_linear = (F.d2(u, F.y) == 0.0) & (slope != 0.0)
    return F.hessian(x) + (F.Z.T * (F.p * np.where(is_linear, theta * np.abs(slope) / distance, 0.0))) @ F.Z


def newton_of_outputs(F, x0, n_passes):
    """The shortest of Newton's steps, where shifts of all outputs change nothing and H has no inverse."""
    x = x0.copy()
    for _ in range(n_passes):
        gradient = F.gradient(x)
        direction = -np.linalg.pinv(F.hessian(x), rcond=1e-12, hermitian=True) @ gradient
        x = x + halved(F, x, gradient, direction) * direction
        yield x


def working_set_of_outputs(F, x0, n_passes):
    """Proximal Newton steps in the coefficients that are not 0 or would not stay there."""
    x = x0.copy()
    for _ in range(n_passes):
        gradient, H, y = F.gradient(x), F.hessian(x), x.copy()
        members = np.flatnonzero((x != 0.0) | (np.abs(gradient) > F.l1) | (F.l1 == 0.0))
        for _ in range(20_000):
            last = y.copy()
            for j in members:
                moved = y[j] - (gradient[j] + H[j] @ (y - x)) / H[j, j]
                y[j] = np.sign(moved) * max(abs(moved) - F.l1[j] / H[j, j], 0.0)
            if np.abs(y - last).max() <= 1e-15:
                break
        direction = y - x
        if F.row_loss is not squared_loss:
            table, free = direction.reshape(F.K, -1), F.l2[: F.dim // F.K] + F.l1[: F.dim // F.K] == 0.0
            table[:, free] -= table[:, free].mean(axis=0)
        x = x + halved(F, x, gradient, direction) * direction
        yield x


def orthant_of_outputs(F, x0, n_passes):
    """Newton-CG in an orthant, preconditioned by the diagonal: a product is a pass, and the end of a step."""
    x, k = x0.copy(), 0
    while k < n_passes:
        gradient, H = F.gradient(x), F.hessian(x)
        v = np.where(x != 0.0, gradient + F.l1 * np.sign(x), np.sign(gradient) * np.maximum(np.abs(gradient) - F.l1, 0.0))
        free, signs = (x != 0.0) | (v != 0.0) | (F.l1 == 0.0), np.where(x != 0.0, np.sign(x), -np.sign(v))
        used = np.array([free.reshape(F.K, -1)[:, j].any() for j in range(F.dim // F.K)] * F.K)
        diagonal = np.where(used, np.diag(H), 1.0)
        r, p, size = np.where(free, -v, 0.0), np.zeros(F.dim), np.linalg.norm(v[free])
        z = q = r / diagonal
        n_products = 0
        while np.linalg.norm(r) > min(0.5, np.sqrt(size)) * size and n_products < free.sum():
            Hq = np.where(free, H @ q, 0.0)
            step = (r @ z) / (q @ Hq)
            p, after = p + step * q, r - step * Hq
            z_after = after / diagonal
            q, r, z = z_after + (after @ z_after) / (r @ z) * q, after, z_after
            n_products, k = n_products + 1, k + 1
            yield x
        if F.row_loss is not squared_loss:
            table, shifts = p.reshape(F.K, -1), F.l2[: F.dim // F.K] + F.l1[: F.dim // F.K] == 0.0
            table[:, shifts] -= table[:, shifts].mean(axis=0)
        rounding, t = F.n * np.finfo(float).eps * abs(F.objective(x)), 1.0
        while True:
            end = x + t * p
            end[(F.l1 > 0.0) & (end * signs <= 0.0)] = 0.0
            if F.objective(end) <= F.objective(x) + 1e-4 * v @ (end - x) + rounding:
                break
            t /= 2
        x, k = end, k + 1
        yield x


def lbfgs_of_outputs(F, x0, n_passes, *, is_exact=False, is_diagonal=False, rank=0):
    """The BFGS inverse of the last 8 pairs, from the inverse of C (x) G + l2 I of the steps 0 and 3, or of the Hessian.

    That of step 3 is taken where the trace of C is 3 times as large or small as it was. G may be its diagonal. G of low
    rank is that of step 0, in the span of r random combinations of the rows, with a multiple of I elsewhere.
    """
    x, gradient, pairs, few = x0.copy(), F.gradient(x0), [], F.dim // F.K
    for k in range(n_passes):
        if k in ((0,) if rank else (0, 3)):
            rows = list(F.rows(x, range(F.n)))
            C = sum(p * hessian for p, _, (_, _, hessian) in rows)
            if k == 0:
                trace = np.trace(C)
            elif not is_exact and trace / 3 <= np.trace(C) <= 3 * trace:
                C = None
        if k in ((0,) if rank else (0, 3)) and C is not None:
            G = sum(p * np.trace(hessian) * np.outer(z, z) for p, z, (_, _, hessian) in rows) / np.trace(C)
            G = np.diag(np.diag(G)) if is_diagonal else G
            if rank:
                Z = np.array([z for _, z, _ in rows])
                c = np.array([p * np.trace(hessian) for p, _, (_, _, hessian) in rows]) / np.trace(C)
                random = np.random.default_rng(0).standard_normal((F.n, rank))
                Q = np.linalg.qr(Z.T @ (np.sqrt(c)[:, None] * random))[0]
                inside = np.linalg.eigvalsh(Q.T @ G @ Q)
                rest = min((np.trace(G) - inside.sum()) / (min(F.n, few) - rank), inside[0])
                G = Q @ Q.T @ G @ Q @ Q.T + rest * (np.eye(few) - Q @ Q.T)
            inverse = np.linalg.inv(np.kron(C, G) + F.l2.max() * np.eye(F.dim))
            if is_exact:  # whose solution of least norm keeps the mean of what is not penalised
                inverse, pairs = np.linalg.pinv(F.hessian(x), rcond=1e-12), []
        B = inverse
        if pairs and not is_exact:
            s, y = pairs[-1]
            B = B * (s @ y) / (y @ B @ y)
        for s, y in pairs[-8:]:
            V = np.eye(F.dim) - np.outer(y, s) / (s @ y)
            B = V.T @ B @ V + np.outer(s, s) / (s @ y)
        direction = -B @ gradient
        if F.row_loss is not squared_loss:
            table, free = direction.reshape(F.K, few), F.l2[:few] == 0.0
            table[:, free] -= table[:, free].mean(axis=0)
        x, last = x + gentle(F, x, gradient @ direction, direction) * direction, x
        gradient, change = F.gradient(x), -gradient
        pairs.append((x - last, change + gradient))
        yield x


def gentle(F, x, first, direction):
    """1 where that brings F down and leaves 0.8 of the slope at most, or what leaves half.

    That is looked for between bounds, at the least value of the cubic that has the values and slopes of both.
    """
    start, rounding = F.objective(x), F.n * np.finfo(float).eps * abs(F.objective(x))
    low, high, t = (0.0, start, first), None, 1.0
    for k in range(20):
        value, here = F.objective(x + t * direction), F.gradient(x + t * direction) @ direction
        if abs(here) <= (0.5 if k else 0.8) * abs(first) and value <= start + 1e-4 * t * first + rounding:
            return t
        if here < 0.0:
            low = t, value, here
        else:
            high = t, value, here
        if high is None:
            t = 4.0 * t
            continue
        a, b = low[0], high[0]
        share = -low[2] / (high[2] - low[2])
        if abs(high[1] - low[1]) > rounding:
            rows = [[1, a, a**2, a**3], [1, b, b**2, b**3], [0, 1, 2 * a, 3 * a**2], [0, 1, 2 * b, 3 * b**2]]
            _, c1, c2, c3 = np.linalg.solve(rows, [low[1], high[1], low[2], high[2]])
            roots = np.roots([3 * c3, 2 * c2, c1])
            share = (next(r.real for r in roots if 2 * c2 + 6 * c3 * r.real > 0) - a) / (b - a)
        t = a + (b - a) * min(max(share, 0.05), 0.95)
    return low[0]


def searched(F, x, gradient, direction):
    """1 where that halves the optimality or the slope is no more than nearly 0; else where it is so."""
    first = gradient @ direction + F.l1 @ (np.abs(x + direction) - np.abs(x))
    rounding = F.n * np.finfo(float).eps * abs(F.objective(x))
    end, t = x + direction, 1.0
    rise = F.gradient(end) @ direction + F.l1 @ (np.abs(end) - np.abs(x))
    rises = F.objective(end) > F.objective(x) + rounding
    if rises or (rise > -0.01 * first and F.optimality(end) > 0.5 * F.optimality(x)):

        def slope(t):
            w = x + t * direction
            return F.gradient(w) @ direction + F.l1 @ np.where(w == 0, np.abs(direction), np.sign(w) * direction)

        t = gentle_slope(slope, first, 0.01)
    while F.objective(x + t * direction) > F.objective(x) + rounding:
        t /= 4
    return t


def halved(F, x, gradient, direction):
    """The first of 1, 1/2, 1/4, ... that brings F down enough."""
    predicted = gradient @ direction + F.l1 @ (np.abs(x + direction) - np.abs(x))
    rounding = F.n * np.finfo(float).eps * abs(F.objective(x))
    t = 1.0
    while not F.objective(x + t * direction) <= F.objective(x) + 1e-4 * t * predicted + rounding:
        t /= 2
    return t
