"""Lazy Newton in plain NumPy, from its equations: all rows at once, BFGS inverses as whole matrices."""

import numpy as np
from oracles.line_search import gentle_slope

MAJORANTS = {
    "logistic": lambda u, y: np.where(np.abs(u) < 2e-4, 0.25, np.tanh(u / 2) / (2 * np.where(u == 0, 1.0, u))),
    "squared": lambda u, y: np.ones_like(u),
    "squared-hinge": lambda u, y: np.full_like(u, 2.0),
    "huber": lambda u, y: np.minimum(1.0, 1.35 / np.maximum(np.abs(u - y), 1e-300)),
    "smoothed-hinge": lambda u, y: 1.0 / np.maximum(np.maximum(1.0, 1.0 - y * u), 2.0 * y * u - 1.0),
    "poisson": None,
}
SIGNS = ("logistic", "squared-hinge", "smoothed-hinge")
BOUNDS = {"logistic": 0.25, "squared": 1.0, "squared-hinge": 2.0, "huber": 1.0, "smoothed-hinge": 1.0}


def curvatures(F, loss, x, majorize):
    """h_i: second derivatives, and majorants of misclassified rows (1) or of all (2); to single precision."""
    u = F.predictions(x)
    h, slope = F.d2(u, F.y).astype(float), F.d1(u, F.y)
    majorant = MAJORANTS[loss]
    if majorize and majorant is not None:
        wrong = slope * u > 0 if majorize == 1 and loss in SIGNS else np.ones(F.n, dtype=bool)
        h = np.where(wrong, majorant(u, F.y), h)
    return np.where(F.p > 0, h, 0.0).astype(np.float32)


def gradient(F, x):
    return F.Z.T @ (F.p * F.d1(F.predictions(x), F.y)) + F.l2 * x


def bfgs_inverse(inverse, pairs):
    """B+ = (I - s y'/s'y) B (I - y s'/s'y) + s s'/s'y, for one pair after the other."""
    for s, y in pairs:
        left = np.eye(s.size) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    return inverse


def threshold(F, loss, h, held, costs, digits, n_slow):
    """The least p_i |h_i - c_i| that is replaced; infinite where nothing is, 0 where everything is."""
    sizes = F.p * np.abs(h.astype(float) - held)
    unit = BOUNDS.get(loss, h.max()) / F.n
    total, left = F.p @ h, sizes.sum()
    if n_slow >= 4 or (n_slow >= 2 and left > 1e-3 * total) or not held.any():
        return 0.0
    best, best_cost = (np.inf, max(1.0, digits / -np.log10(np.clip(4 * left / total, 1e-3, 0.95))) * costs.gradient * F.n)
    for k in range(1, 25):
        least = unit / 2.0**k if k < 24 else 0.0
        replaced = (sizes >= least) if k < 24 else np.ones(F.n, dtype=bool)
        rho = np.clip(4 * max(left - sizes[replaced].sum(), 0.0) / total, 1e-3, 0.95)
        cost = replaced.sum() * costs.hessian + replaced.any() * costs.factor
        cost += max(1.0, digits / -np.log10(rho)) * costs.gradient * F.n
        if cost < best_cost:
            best, best_cost = least, cost
    return best


def lazy_newton(F, loss, x, n_passes, costs, target=1e-10, first_majorize=1, no_thought=1e5):
    """Yield x after the first evaluation and after each step."""
    g, h, held = gradient(F, x), curvatures(F, loss, x, first_majorize), np.zeros(F.n)
    pairs, inverse, n_slow, majorize, n_refreshed = [], None, 0, 1, 0
    yield x, n_refreshed
    for _ in range(n_passes - 1):
        digits = np.clip(np.log10(max(np.linalg.norm(g), 1e-300) / target), 1.0, 12.0)
        least = threshold(F, loss, h, held, costs, digits, n_slow)
        replaced = (F.p * np.abs(h.astype(float) - held) >= least) & (h != held)
        if F.n * costs.hessian <= no_thought:
            replaced[:] = True
        if replaced.any() or inverse is None:
            held = np.where(replaced, h, held)
            inverse = np.linalg.inv((F.Z.T * (F.p * held)) @ F.Z + np.diag(F.l2))
            pairs, n_refreshed = [], n_refreshed + replaced.sum()
        direction = -bfgs_inverse(inverse, pairs) @ g
        first, t = g @ direction, 1.0
        end = gradient(F, x + direction)
        ratio = np.sqrt(end @ inverse @ end / (g @ inverse @ g))
        slope = end @ direction
        fine = slope <= 0 or (slope <= 0.5 * abs(first) and ratio < 0.9)
        if not fine or slope < 0.65 * first:
            t = search(F, x, direction, first)
            end = gradient(F, x + t * direction)
            ratio = np.sqrt(end @ inverse @ end / (g @ inverse @ g))
        s, y = t * direction, end - g
        if s @ y > 1e-14 * np.linalg.norm(s) * np.linalg.norm(y):
            pairs = [*pairs, (s, y)][-20:]
        x, g = x + s, end
        evaluated = 2 if t < 1 else majorize
        n_slow = n_slow + (2 if ratio > 0.9 or t < 0.3 else 1) if ratio > 0.5 or t < 0.3 else 0
        majorize = 2 if t < 0.5 or ratio > 0.9 else int(ratio > 0.3)
        h = curvatures(F, loss, x, majorize if evaluated == 2 else evaluated)
        yield x, n_refreshed


def search(F, x, direction, first):
    return gentle_slope(lambda t: gradient(F, x + t * direction) @ direction, first, 0.5)


def conjugate_gradients(H, right, accuracy, diagonal):
    """Textbook conjugate gradients, preconditioned by a diagonal; and the number of products."""
    solution, residual, direction, size, n_products = np.zeros_like(right), right, 0.0, None, 0
    start = right @ (right / diagonal)
    while residual @ (residual / diagonal) > accuracy**2 * start:
        scaled = residual / diagonal
        direction = scaled if size is None else scaled + (residual @ scaled) / size * direction
        size = residual @ scaled
        step = size / (direction @ H @ direction)
        solution, residual, n_products = solution + step * direction, residual - step * H @ direction, n_products + 1
    return solution, n_products


def newton_cg(F, loss, x, n_passes, target=1e-10):
    """Yield x after the first evaluation and after each step, and the products with H that the step took."""
    g, h, majorize = gradient(F, x), curvatures(F, loss, x, 1), 1
    steepness, diagonal = np.linalg.norm(g), None
    yield x, 0
    for _ in range(n_passes - 1):
        H = (F.Z.T * (F.p * h)) @ F.Z + np.diag(F.l2)
        diagonal = np.diag(H) ** (2.0 / 3.0) if diagonal is None else diagonal
        size = np.linalg.norm(g)
        worthwhile = 0.0 if loss == "squared" else np.sqrt(size / steepness)
        accuracy = min(0.25, max(worthwhile, 0.6 * target / size))
        direction, n_products = conjugate_gradients(H, -g, accuracy, diagonal)
        first, t, end = g @ direction, 1.0, gradient(F, x + direction)
        slope = end @ direction
        fine = slope <= 0 or (slope <= 0.5 * abs(first) and np.linalg.norm(end) < 0.9 * size)
        if not fine or slope < 0.65 * first:
            t = search(F, x, direction, first)
        x = x + t * direction
        g, h = gradient(F, x), curvatures(F, loss, x, 2 if t < 1 else majorize)
        left = np.linalg.norm(g) / size
        majorize = 2 if t < 0.5 or left > 1 else int(left > 0.5)
        yield x, n_products


def lbfgs(F, loss, x, n_passes):
    """Yield x after the first evaluation and after each step: whole ones where F falls, else and at first searched for."""
    g, pairs, value = gradient(F, x), [], F.objective(x)
    yield x
    known = 0.0
    for _ in range(n_passes - 1):
        h = curvatures(F, loss, x, 2).astype(float)
        if not known / 3.0 <= F.p @ h <= 3.0 * known:
            diagonal, known = (F.Z**2).T @ (F.p * h) + F.l2, F.p @ h
            diagonal[diagonal <= 0.0] = 1.0
        inverse = np.diag(1.0 / diagonal)
        if pairs:
            s, y = pairs[-1]
            inverse *= (s @ y) / (y @ inverse @ y)
        direction = -bfgs_inverse(inverse, pairs) @ g
        first, t, slope = g @ direction, 1.0, gradient(F, x + direction) @ direction
        falls = slope <= 0.0 or F.objective(x + direction) <= value
        if not pairs or not falls or slope > 0.9 * abs(first):
            t = search(F, x, direction, first)
        end = gradient(F, x + t * direction)
        pairs = [*pairs, (t * direction, end - g)][-20:]
        x, g = x + t * direction, end
        value = F.objective(x)
        yield x


def working_set_newton(F, loss, x, costs, target):
    """Lazy Newton on all columns until a tenth of the gradient is left, read again, and so on: x after every pass."""
    while True:
        yield x
        enough = 0.1 * np.linalg.norm(gradient(F, x))
        steps = lazy_newton(F, loss, x, 32, costs, max(enough, 0.5 * target), 0)
        next(steps)
        for x, _ in steps:
            yield x
            if np.linalg.norm(gradient(F, x)) <= enough:
                break


def by_passes(steps, n_together):
    """Return x after every pass, where some products with H are one, too."""
    last = None
    for x, n_products in steps:
        yield from [last] * -(-n_products // n_together)
        yield x
        last = x
