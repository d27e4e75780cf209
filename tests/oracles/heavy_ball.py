"""The projected methods from their equations, one step at a time, on lists of all iterates: slow on purpose.

Each takes a subgradient g(x, component), a projection project(x, s) in the metric s, a start and the components in the
order of their visits, and returns the lists w_1, w_2, ..., w_{T+1} and, where there is one, z_1, ..., z_{T+1}.
"""

import numpy as np


def lengths(alpha, schedule, horizon):
    """alpha_t of a schedule, t = 1, 2, ..."""
    return {
        "sqrt": lambda t: alpha / np.sqrt(t),
        "horizon": lambda t: alpha / np.sqrt(horizon),
        "linear": lambda t: alpha / np.sqrt(horizon) * (1 - (t - 1) / horizon),
        "constant": lambda t: alpha,
    }[schedule]


def quotient(g, s):
    return np.divide(g, s, out=np.zeros_like(g), where=s > 0)


class Plain:
    def __call__(self, g, t):
        return np.ones_like(g)


class MeanSquare:
    """V_t = (1 - gamma/t) V_{t-1} + gamma/t g^2, written out: V_t = sum_k gamma/k prod_{j>k} (1 - gamma/j) g_k^2."""

    def __init__(self, gamma, delta):
        self.gamma, self.delta, self.squares = gamma, delta, []

    def __call__(self, g, t):
        self.squares.append(g**2)
        weights = [self.gamma / k * np.prod([1 - self.gamma / j for j in range(k + 1, t + 1)]) for k in range(1, t + 1)]
        return np.sqrt(np.einsum("k,kj->j", weights, self.squares)) + self.delta / np.sqrt(t)


class SquareSum:
    def __init__(self, delta):
        self.delta, self.total = delta, 0.0

    def __call__(self, g, t):
        self.total = self.total + g**2
        return np.sqrt(self.total) + self.delta


class Forgetting:
    """RMSProp's, Adam's (corrected) and AMSGrad's (largest) metric."""

    def __init__(self, rho, delta, corrected=False, largest=False):
        self.rho, self.delta, self.corrected, self.largest = rho, delta, corrected, largest
        self.v, self.top = 0.0, 0.0

    def __call__(self, g, t):
        self.v = self.rho * self.v + (1 - self.rho) * g**2
        v = self.v / (1 - self.rho**t) if self.corrected else self.v
        self.top = np.maximum(self.top, v)
        return np.sqrt(self.top if self.largest else v) + self.delta


def _onto(project, x, s, weighted):
    floor = np.maximum(s, 1e-150)
    return project(x, floor if weighted else np.ones_like(s))


def displacement(g, project, x, order, length, metric=None, beta=None, weighted=True):
    """HB and AdaHB as printed; beta None is t/(t+2), 0 is the projected subgradient method and its adaptive kin."""
    metric, w = metric or Plain(), [x, x]
    for t, j in enumerate(order, start=1):
        now, before = w[-1], w[-2]
        slope = g(now, j)
        s = metric(slope, t)
        if beta is None:
            y = now - length(t) / (t + 2) * quotient(slope, s) + t / (t + 2) * (now - before)
        else:
            y = now - length(t) * quotient(slope, s) + beta * (now - before)
        w.append(_onto(project, y, s, weighted))
    return w[1:]


def averaging(g, project, x, order, length, metric=None, beta=None, weighted=True):
    """The averaging forms; returns w and z."""
    metric, w, z = metric or Plain(), [x], [x]
    for t, j in enumerate(order, start=1):
        slope = g(w[-1], j)
        s = metric(slope, t)
        factor = 1.0 if beta is None else 1.0 / (1.0 - beta)
        z.append(_onto(project, z[-1] - factor * length(t) * quotient(slope, s), s, weighted))
        w.append(((t + 1) * w[-1] + z[-1]) / (t + 2) if beta is None else beta * w[-1] + (1 - beta) * z[-1])
    return w, z


def extrapolation(g, project, x, order, alpha, horizon=None):
    """NAG."""
    theta = lambda t: 2 / (t + 1)  # noqa: E731
    w = [x, x]
    for t, j in enumerate(order, start=1):
        pull = 0.0 if t == 1 else theta(t) * (1 / theta(t - 1) - 1)
        y = w[-1] + pull * (w[-1] - w[-2])
        length = alpha / (t + 1) ** 1.5 if horizon is None else alpha / ((t + 1) * np.sqrt(horizon))
        w.append(project(y - length * g(y, j), np.ones_like(x)))
    return w[1:]


def moments(g, project, x, order, length, metric, b1, corrected, weighted=True):
    """Adam (corrected) and AMSGrad."""
    w, m = [x], 0.0
    for t, j in enumerate(order, start=1):
        slope = g(w[-1], j)
        s = metric(slope, t)
        m = b1 * m + (1 - b1) * slope
        direction = m / (1 - b1**t) if corrected else m
        w.append(_onto(project, w[-1] - length(t) * quotient(direction, s), s, weighted))
    return w


def torch_momentum(g, project, x, order, length, beta):
    """Momentum on a sum of subgradients."""
    w, b = [x], 0.0
    for t, j in enumerate(order, start=1):
        b = beta * b + g(w[-1], j)
        w.append(project(w[-1] - length(t) * b, np.ones_like(x)))
    return w


def output(iterates, kind):
    """What is reported after T = len(iterates) - 1 steps: the last, or a mean of w_1, ..., w_T."""
    steps, w = len(iterates) - 1, np.array(iterates)
    if kind == "last" or steps == 0:
        return w[-1]
    if kind == "average":
        return w[:steps].mean(axis=0)
    if kind == "suffix":
        base = 2 ** int(np.floor(np.log2(steps)))
        return w[max(base // 2, 1) - 1 : steps].mean(axis=0)
    mean = w[0]  # polynomial, eta = 3
    for t in range(2, steps + 1):
        mean = (1 - 4 / (t + 3)) * mean + 4 / (t + 3) * w[t - 1]
    return mean


class Harvey:
    """f(w) = max_i <h_i, w>, i = 1..T+1, with the rows h_i written out."""

    def __init__(self, T, c):
        i = np.arange(1, T + 1)
        self.a, self.b = 1 / (8 * c * (T - i + 1)), np.sqrt(i) / (2 * c * np.sqrt(T))
        self.H = np.tril(np.tile(self.a, (T + 1, 1)), -1)
        self.H[np.arange(T), np.arange(T)] = -self.b

    def psg(self, c, T):
        """The closed form of PSG's w_{t+1}, step c/sqrt(t): w_j = c b_j/sqrt(j) - c a_j sum_{k=j+1..t} 1/sqrt(k)."""
        k = np.arange(1, T + 1)
        later = np.cumsum(1 / np.sqrt(k))
        return c * self.b / np.sqrt(k) - c * self.a * (later[-1] - later)


def max_of_linear(rng, m, d):
    """A random f(w) = max_i <a_i, w> + c_i: value, subgradient, the largest |a_i|."""
    A, c = rng.standard_normal((m, d)), 0.3 * rng.standard_normal(m)
    return (
        lambda w: float(np.max(A @ w + c)),
        lambda w: A[np.argmax(A @ w + c)],
        float(np.max(np.linalg.norm(A, axis=1))),
        A,
        c,
    )
