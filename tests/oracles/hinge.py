"""Support vector machines: interior points by the whole system of their equations, and the linear program as it stands.

F is an `oracles.sums.Sum` with the hinge loss, whose weights are positive.
"""

import itertools

import numpy as np
from scipy.optimize import linprog


def interior_points(F, x, orders):
    """Mehrotra's predictor and corrector to p a r = mu, and Gondzio's, by linear systems in all of (w, b), xi, r, a."""
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
        aims, fraction = np.array([centre - da * dr, centre + da * dxi]), max(0.995, 1 - mu)
        corrector = solved(*aims)
        t = longest(corrector, fraction)
        for _ in range(2):  # Gondzio's corrections
            if t >= 0.5:
                break
            ahead, (_, dxi, dr, da) = min(1.0, 1.08 * t + 0.3), corrector
            products = np.array([(a + ahead * da) * (r + ahead * dr), (1 - a - ahead * da) * (xi + ahead * dxi)])
            wanted = np.maximum(np.clip(products, 0.1 * centre, 10 * centre) - products, -10 * centre)
            other = solved(*(aims + wanted))
            longer = longest(other, fraction)
            if longer < t + 0.1 * (ahead - t):
                break
            aims, corrector, t = aims + wanted, other, longer
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


def dual_ascent(F, x, orders, epochs, tol=0.0):
    """Coordinate ascent in slopes s in sweeps, and Newton's step on those at corners by conjugate gradients, by passes."""
    A, p, coefficients, ridge = F.Z, F.p, F.penalised, F.l2.max()
    hold = 3.0 * ridge / (p @ (A[:, coefficients] ** 2).sum(axis=1))
    D = np.where(coefficients, ridge, hold)  # in the metric of which w is the slopes' image
    has_b, H, n = not coefficients.all(), (A / D) @ A.T, F.n
    width = {"squared-hinge": 0.5, "smoothed-hinge": 1.0}.get(F.name, 0.0)  # of the corner
    largest = np.inf if F.name == "squared-hinge" else 1.0
    low, high = np.minimum(-largest * F.y, 0.0), np.maximum(-largest * F.y, 0.0)

    def excesses(w):
        return A @ w + F.offsets - F.y - width * s

    def bound(s):
        t = p * s
        if has_b and t.sum() != 0.0:
            side = t > 0 if t.sum() > 0 else t < 0
            t = np.where(side, t * (1.0 - t.sum() / t[side].sum()), t)
        return t @ (F.offsets - F.y) - 0.5 / ridge * np.sum((A.T @ t)[coefficients] ** 2)

    def best_multiple(w):
        """The t w of the least F: where its slope vanishes between two kinks, or one of these."""
        z, square = A[:, coefficients] @ w[coefficients], ridge * w[coefficients] @ w[coefficients]
        rest, with_factor = A @ w + F.offsets - z, lambda t: np.where(coefficients, t * w, w)
        if square == 0.0:
            return w
        kinks = (F.y - rest)[z != 0.0] / z[z != 0.0]
        ends, found = np.concatenate([[0.0], np.sort(kinks[kinks > 0.0]), [np.inf]]), [1.0]
        for low, high in itertools.pairwise(ends):
            within = 0.5 * (low + high) if high < np.inf else low + 1.0
            slope = (p * F.d1(rest + within * z, F.y)) @ z
            found.append(np.clip(-slope / square, low, high))
        return min(map(with_factor, found), key=F.objective)

    s = np.zeros(n)
    accuracy = p @ abs(excesses(x))
    s = F.d1(F.predictions(x), F.y) if x.any() else s
    w = np.where(coefficients, -A.T @ (p * s) / D, x[-1])
    best, best_bound, optimality, active, violation = x, -np.inf, np.inf, np.arange(n), np.inf
    n_sweeps, n_parts, n_rounds, n_faces, length, face = 0, 0, 0, 0, 0.0, None
    for order in orders:
        ends = False
        if face is None:
            n_visits, goes_on = 0, True
            draws = np.random.default_rng([int(order[0]), n_rounds, n_parts]).random(active.size // 4 + 1)
            while goes_on:
                shift = -p @ s / hold if has_b else 0.0
                w, first, last = w + np.where(coefficients, 0.0, shift), n_sweeps, n_visits + n
                while active.size and n_visits < last and not (n_sweeps > first and violation <= accuracy):
                    groups, resting = list(range(-(-active.size // 4))), violation if violation > 0.0 else np.inf
                    for k in range(len(groups) - 1, 0, -1):
                        other = int(draws[(n_visits + k) % len(draws)] * (k + 1))
                        groups[k], groups[other] = groups[other], groups[k]
                    violation, kept = 0.0, np.ones(active.size, bool)
                    for place in (place for g in groups for place in range(4 * g, min(4 * g + 4, active.size))):
                        i = active[place]
                        excess, q = excesses(w)[i], H[i, i]
                        found = max(excess if s[i] < high[i] else -np.inf, -excess if s[i] > low[i] else -np.inf)
                        kept[place] = -found <= resting
                        if found > 0.0:
                            new = np.clip(s[i] + excess / (p[i] * q + width), low[i], high[i])
                            w, s[i] = w - A[i] / D * p[i] * (new - s[i]), new
                        violation = max(violation, found)
                    n_visits, n_sweeps, active = n_visits + active.size, n_sweeps + 1, active[kept]
                is_accurate = violation <= accuracy and abs(shift) <= accuracy
                ends = is_accurate or not active.size
                goes_on = not ends and n_sweeps < epochs
            n_parts += max(4 * n_visits // n, 1)
            if not ends and n_sweeps >= epochs:
                face, n_sweeps = active[(low < s)[active] & (s < high)[active]], n_sweeps if active.size else 0
                G, r, n_products = H[np.ix_(face, face)] + np.diag(width / p[face]), excesses(w)[face], 0
                step, q = np.zeros(face.size), r / np.diag(G)
                start = r @ q
                if not face.size:
                    face, n_sweeps = None, 0
        else:
            most = (
                2 * face.size
                if length == 1.0
                else int(min(2 * face.size, (20 if face.size <= F.dim else 5) * 1.5**n_faces))
            )
            least, most_of, M = (p * (low - s))[face], (p * (high - s))[face], np.diag(G)
            rests, size = np.zeros(face.size, dtype=bool), r @ q
            over = not size > 1e-4 * start
            while not over:
                t, before, n_products = size / (q @ G @ q), size, n_products + 1
                step, r = step + t * q, r - t * (G @ q)
                inside, scaled = np.clip(step, least, most_of), np.where(rests, 0.0, r / M)
                size, beyond = r @ scaled, M @ (step - inside) ** 2
                if beyond > t * before or (beyond > 0.0 and not size > 1e-4 * start):
                    step, r, n_products = inside, r - G @ (inside - step), n_products + 1
                    rests = ((step <= least) & (r < 0.0)) | ((step >= most_of) & (r > 0.0))
                    q = np.where(rests, 0.0, r / M)
                    size = r @ q
                else:
                    q = scaled + q * size / before
                over = n_products >= most or not size > 1e-4 * start
                if over:
                    n_parts += 4 * n_products * face.size // (8 * n)
            if over:
                before, length = s[face].copy(), 1.0
                while length >= 1e-3:
                    change = p[face] * (np.clip(before + length * step / p[face], low[face], high[face]) - before)
                    if 0.5 * change @ G @ change < excesses(w)[face] @ change:
                        s[face] = np.clip(before + length * step / p[face], low[face], high[face])
                        w = w - A[face].T @ change / D
                        break
                    length *= 0.5
                else:
                    length = 0.0
                length *= np.mean((low < s)[face] & (s < high)[face])
                ends, face, n_sweeps, n_faces = not size > 1e-4 * start and length == 1.0, None, 0, n_faces + 1
        if ends:
            w = np.where(coefficients, -A.T @ (p * s) / D, w)
            if has_b and width == 0.0:
                wanted = -excesses(w)
                by = np.argsort(wanted)
                less, more = np.cumsum(p[by]), p[F.y > 0].sum()
                middle = [wanted[by[less >= (1 - 1e-12) * more][0]], wanted[by[less > (1 + 1e-12) * more][0]]]
                w = w + np.where(coefficients, 0.0, np.mean(middle))
            end = best_multiple(w) if width == 0.0 else w
            if width == 0.0:
                best_bound = max(best_bound, bound(s))
                optimality = max(min(F.objective(end), F.objective(best)) - best_bound, 0.0)
            elif F.objective(w) < F.objective(best):
                optimality = np.linalg.norm(F.gradient(w))
            best = end.copy() if F.objective(end) < F.objective(best) else best
            found = np.maximum(np.where(s < high, excesses(w), -np.inf), np.where(s > low, -excesses(w), -np.inf))
            violation = max(found.max(), 0.0)
            active = np.flatnonzero(found >= -violation)
            closer = min(max(0.8 * tol / optimality, 0.02), 0.7) if optimality > 0.0 else 1.0
            accuracy = closer * min(accuracy, violation if violation > 0.0 else np.inf)
            n_sweeps, n_parts, n_faces, n_rounds = 0, 0, 0, n_rounds + 1
        yield best


def semismooth_newton(F, x, orders, tol=0.0):
    """Newton's steps on the hinge loss that is smoothed around a centre, over all rows; then the slopes are the centre."""
    p, y, coefficients, ridge = F.p, F.y, F.penalised, F.l2.max()
    D = np.where(coefficients, ridge, 3.0 * ridge / (p @ (F.Z[:, coefficients] ** 2).sum(axis=1)))
    low, high, has_b = np.minimum(-y, 0.0), np.maximum(-y, 0.0), not coefficients.all()

    def at(w):
        z = (F.Z @ w + F.offsets + h * centre - y) / h
        s = np.clip(z, low, high)
        return s, (low <= z) & (z <= high), F.Z.T @ (p * s) + F.l2 * w

    def gap_at(w, s):
        t, value = p * s, p @ np.maximum(1.0 - y * (F.Z @ w + F.offsets), 0.0) + 0.5 * F.l2 @ w**2
        if has_b and t.sum() != 0.0:
            side = t > 0 if t.sum() > 0 else t < 0
            t = np.where(side, t * (1.0 - t.sum() / t[side].sum()), t)
        return value, value - (t @ (F.offsets - y) - 0.5 / ridge * np.sum((F.Z.T @ t)[coefficients] ** 2))

    u = F.Z @ x + F.offsets
    centre = np.where(y * u < 1.0, -y, 0.0) if x.any() else np.zeros(F.n)
    h, w, best, gap_before = 2.0 * p @ abs(u - y), x, x, 0.0
    bound = np.subtract(*gap_at(x, at(x)[0]))
    for _ in orders:
        s, within, g = at(w)
        in_b = p[within].sum() / h
        damped = np.where(coefficients, D, np.minimum(D, 1e-3 * in_b if in_b > 0.0 else 1.0 / h))
        step = -np.linalg.solve((F.Z[within].T * p[within]) @ F.Z[within] / h + np.diag(damped), g)
        start, below, above, t = g @ step, 0.0, np.inf, 1.0
        for _ in range(30):
            s, within, g = at(w + t * step)
            curvature = p[within] @ (F.Z[within] @ step) ** 2 / h + F.l2 @ step**2
            if abs(g @ step) <= -0.1 * start:
                break
            below, above = (below, t) if g @ step > 0.0 else (t, above)
            closer = t - g @ step / curvature
            if not below < closer < above:
                closer = 0.5 * (below + above)
            t = min(closer, 10.0 * t)
        w = w + t * step
        s, within, g = at(w)
        value, gap = gap_at(w, s)
        best = w if value < gap_at(best, s)[0] else best
        bound = max(bound, value - gap)
        left = 0.5 * g @ (g / np.where(coefficients, D, np.minimum(D, max(p[within].sum(), 1e-12) / h)))
        if left <= 0.05 * max(gap_at(best, s)[0] - bound, tol):
            centre, h, gap_before = s, h if gap <= 0.1 * gap_before else 0.5 * h, gap
        yield best
