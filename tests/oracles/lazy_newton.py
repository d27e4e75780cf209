"""Lazy Newton in plain NumPy, from its equations: all rows at once, BFGS inverses as whole matrices."""

import numpy as np

MAJORANTS = {
    "logistic": lambda u, y: np.where(np.abs(u) < 2e-4, 0.25, np.tanh(u / 2) / (2 * np.where(u == 0, 1.0, u))),
    "squared": lambda u, y: np.ones_like(u),
    "squared-hinge": lambda u, y: np.full_like(u, 2.0),
    "huber": lambda u, y: np.minimum(1.0, 1.35 / np.maximum(np.abs(u - y), 1e-300)),
    "smoothed-hinge": lambda u, y: np.ones_like(u),
    "poisson": None,
}
SIGNS = ("logistic", "squared-hinge", "smoothed-hinge")
BOUNDS = {"logistic": 0.25, "squared": 1.0, "squared-hinge": 2.0, "huber": 1.0, "smoothed-hinge": 1.0}


def curvatures(F, loss, x, doubt):
    """h_i: second derivatives, and majorants where they are doubted; to single precision."""
    u = F.predictions(x)
    h, slope = F.d2(u, F.y).astype(float), F.d1(u, F.y)
    majorant = MAJORANTS[loss]
    if doubt and majorant is not None:
        wrong = slope * u > 0 if doubt == 1 and loss in SIGNS else np.ones(F.n, dtype=bool)
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


def threshold(F, loss, h, held, prices, digits, n_idle):
    """The least p_i |h_i - c_i| that is replaced; infinite where nothing is, 0 where everything is."""
    sizes = F.p * np.abs(h.astype(float) - held)
    unit = BOUNDS.get(loss, h.max()) / F.n
    total, left = F.p @ h, sizes.sum()
    if n_idle >= 4 or (n_idle >= 2 and left > 1e-3 * total) or not held.any():
        return 0.0
    best, best_cost = (
        np.inf,
        max(1.0, digits / -np.log10(np.clip(4 * left / total, 1e-3, 0.95))) * prices.gradient * F.n,
    )
    for k in range(1, 25):
        least = unit / 2.0**k if k < 24 else 0.0
        replaced = (sizes >= least) if k < 24 else np.ones(F.n, dtype=bool)
        rho = np.clip(4 * max(left - sizes[replaced].sum(), 0.0) / total, 1e-3, 0.95)
        cost = replaced.sum() * prices.hessian + replaced.any() * prices.factor
        cost += max(1.0, digits / -np.log10(rho)) * prices.gradient * F.n
        if cost < best_cost:
            best, best_cost = least, cost
    return best


def lazy_newton(F, loss, x, n_passes, prices, target=1e-10, first_doubt=1):
    """Yield x after the first evaluation and after each step."""
    g, h, held = gradient(F, x), curvatures(F, loss, x, first_doubt), np.zeros(F.n)
    pairs, inverse, n_idle, doubt, n_refreshed = [], None, 0, 1, 0
    yield x, n_refreshed
    for _ in range(n_passes - 1):
        digits = np.clip(np.log10(max(np.linalg.norm(g), 1e-300) / target), 1.0, 12.0)
        least = threshold(F, loss, h, held, prices, digits, n_idle)
        replaced = (F.p * np.abs(h.astype(float) - held) >= least) & (h != held)
        if replaced.any() or inverse is None:
            held = np.where(replaced, h, held)
            inverse = np.linalg.inv((F.Z.T * (F.p * held)) @ F.Z + np.diag(F.l2))
            pairs, n_refreshed = [], n_refreshed + replaced.sum()
        way = -bfgs_inverse(inverse, pairs) @ g
        first, t = g @ way, 1.0
        end = gradient(F, x + way)
        remainder = np.sqrt(end @ inverse @ end / (g @ inverse @ g))
        slope = end @ way
        fine = slope <= 0 or (slope <= 0.5 * abs(first) and remainder < 0.9)
        if not fine or slope < 0.65 * first:
            t = search(F, x, way, first)
            end = gradient(F, x + t * way)
            remainder = np.sqrt(end @ inverse @ end / (g @ inverse @ g))
        s, y = t * way, end - g
        if s @ y > 1e-14 * np.linalg.norm(s) * np.linalg.norm(y):
            pairs = [*pairs, (s, y)][-20:]
        x, g = x + s, end
        looked = 2 if t < 1 else doubt
        n_idle = n_idle + (2 if remainder > 0.9 or t < 0.3 else 1) if remainder > 0.5 or t < 0.3 else 0
        doubt = 2 if t < 0.5 or remainder > 0.9 else int(remainder > 0.3)
        h = curvatures(F, loss, x, doubt if looked == 2 else looked)
        yield x, n_refreshed


def search(F, x, way, first):
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(40):
        slope = gradient(F, x + t * way) @ way
        if 0.5 * first <= slope <= 0:
            return t
        low, high = (t, high) if slope < 0 else (low, t)
        t = 4 * t if high == np.inf else (np.sqrt(low * high) if low > 0 else 0.25 * high)
    return low or t


def conjugate_gradients(H, right, accuracy, diagonal):
    """Textbook conjugate gradients, preconditioned by a diagonal; and the number of products."""
    solution, residual, way, size, n_products = np.zeros_like(right), right, 0.0, None, 0
    start = right @ (right / diagonal)
    while residual @ (residual / diagonal) > accuracy**2 * start:
        scaled = residual / diagonal
        way = scaled if size is None else scaled + (residual @ scaled) / size * way
        size = residual @ scaled
        step = size / (way @ H @ way)
        solution, residual, n_products = solution + step * way, residual - step * H @ way, n_products + 1
    return solution, n_products


def newton_cg(F, loss, x, n_passes, target=1e-10):
    """Yield x after the first evaluation and after each step, and the products with H that the step took."""
    g, h, doubt = gradient(F, x), curvatures(F, loss, x, 1), 1
    steepness, diagonal = np.linalg.norm(g), None
    yield x, 0
    for _ in range(n_passes - 1):
        H = (F.Z.T * (F.p * h)) @ F.Z + np.diag(F.l2)
        diagonal = np.diag(H) if diagonal is None else diagonal
        size = np.linalg.norm(g)
        accuracy = min(0.25, max(np.sqrt(size / steepness), 0.6 * target / size))
        way, n_products = conjugate_gradients(H, -g, accuracy, diagonal)
        first, t, end = g @ way, 1.0, gradient(F, x + way)
        slope = end @ way
        fine = slope <= 0 or (slope <= 0.5 * abs(first) and np.linalg.norm(end) < 0.9 * size)
        if not fine or slope < 0.65 * first:
            t = search(F, x, way, first)
        x = x + t * way
        g, h = gradient(F, x), curvatures(F, loss, x, 2 if t < 1 else doubt)
        left = np.linalg.norm(g) / size
        doubt = 2 if t < 0.5 or left > 1 else int(left > 0.5)
        yield x, n_products


def working_set_newton(F, loss, x, prices, target):
    """Lazy Newton on all columns until a tenth of the gradient is left, read again, and so on: x after every pass."""
    while True:
        yield x
        enough = 0.1 * np.linalg.norm(gradient(F, x))
        steps = lazy_newton(F, loss, x, 32, prices, max(enough, 0.5 * target), 0)
        next(steps)
        for x, _ in steps:
            yield x
            if np.linalg.norm(gradient(F, x)) <= enough:
                break


def by_passes(steps):
    """Return x after every pass, where each product with H is one, too."""
    last = None
    for x, n_products in steps:
        yield from [last] * n_products
        yield x
        last = x
