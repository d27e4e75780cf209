"""The methods from their equations, one visit at a time. Each takes a Sum, a start and a list of orders (one a pass) and
yields the iterate after each pass. Slow on purpose: what is stored is what the papers store."""

import numpy as np


def fg(F, x, orders, step_size):
    for _ in orders:
        x = F.prox(x - step_size * F.gradient(x), step_size)
        yield x


def afg(F, x, orders, step_size, momentum):
    previous = x
    for _ in orders:
        y = x + momentum * (x - previous)
        previous, x = x, F.prox(y - step_size * F.gradient(y), step_size)
        yield x


def ig(F, x, orders, step_size):
    for e, order in enumerate(orders, start=1):
        for j in order:
            x = F.prox(x - step_size / e * (F.loss_gradient(j, x) + F.l2 * x), step_size / e)
        yield x


def aggregated(F, x, orders, step_size):
    """IAG and SAG: the table is updated, then one step along its mean."""
    table = np.zeros((F.m, F.dim))
    for order in orders:
        for j in order:
            table[j] = F.loss_gradient(j, x)
            x = F.prox(x - step_size * (table.mean(axis=0) + F.l2 * x), step_size)
        yield x


def saga(F, x, orders, step_size):
    table = np.zeros((F.m, F.dim))
    for order in orders:
        for j in order:
            new = F.loss_gradient(j, x)
            x = F.prox(x - step_size * (new - table[j] + table.mean(axis=0) + F.l2 * x), step_size)
            table[j] = new
        yield x


def sarah(F, x, orders, step_size):
    for order in orders:
        v = F.gradient(x) - F.l2 * x
        previous, x = x, F.prox(x - step_size * (v + F.l2 * x), step_size)
        for j in order:
            v = v + F.loss_gradient(j, x) - F.loss_gradient(j, previous)
            previous, x = x, F.prox(x - step_size * (v + F.l2 * x), step_size)
        yield x


def ciag(F, x, orders, step_size, extrapolation, warm_start="none", restart=0, longest=None):
    """CIAG and A-CIAG as Algorithm 1 has them: iterates are stored, old terms are recomputed from them.

    warm_start "sag": the first pass steps along the mean of the gradients seen, 1 / L_max far. restart: after that many
    passes the step is doubled (up to `longest`) if R stayed below 1/2, halved if it went above 0.9. `extrapolation` may
    be a function of the step.
    """
    models = ComponentModels(F, x)
    if warm_start == "full":
        for j in range(F.m):
            models.move(j, x)
    factor = extrapolation if callable(extrapolation) else lambda step: extrapolation
    residual, total = np.zeros(F.dim), np.zeros(F.dim)
    keep, n_compared, ratios = 1 - 1 / max(0.1 * F.m, 1.0), 0, []
    previous = x
    for k, order in enumerate(orders, start=1):
        for j in order:
            if warm_start == "sag" and k == 1:
                models.move(j, x)
                step = 1 / F.largest_component_smoothness()
                x = F.prox(x - step * (models.table_gradient() + F.l2 * x), step)
                previous = x
                continue
            y = x + factor(step_size) * (x - previous)
            if models.seen[j]:
                n_compared += 1
                predicted = models.hessian(j) @ (y - models.anchors[j])
                change = (F.loss_gradient(j, y) - F.loss_gradient(j, models.anchors[j])) / F.m
                residual, total = keep * residual + change - predicted, keep * total + predicted
            if n_compared >= 3 and np.linalg.norm(total) > 1e-15:
                ratios.append(np.linalg.norm(residual) / np.linalg.norm(total))
            models.move(j, y)
            previous, x = x, F.prox(y - step_size * (models.b + models.H @ y), step_size)
        if restart and (k + (warm_start == "full")) % restart == 0 and ratios:
            old = step_size
            if max(ratios) < 0.5:
                step_size = max(step_size, min(2 * step_size, longest))
            elif max(ratios) > 0.9:
                step_size = step_size / 2
            previous, ratios = x if step_size != old else previous, []
        yield x


def delayed_ciag(F, x, events, step_size, extrapolation):
    """CIAG with delays, by a recorded order of events: (True, j) asks component j at x, (False, j) takes its visit.

    The Hessian of a component is that of its last visit where it had missed a tenth of the gradient's change or more. The
    first step comes with the first visit after every component was visited. Yields x after each visit that is taken.
    """
    anchors, curved, points, previous = {}, {}, {}, x
    for asks, j in events:
        if asks:
            points[j] = x
            continue
        steps, point = len(anchors) == F.m, points.pop(j)
        if j in anchors:
            change = F.loss_gradient(j, point) - F.loss_gradient(j, anchors[j])
            missed = change - F.loss_hessian(j, curved[j]) @ (point - anchors[j])
        if j not in anchors or np.linalg.norm(missed) > 0.1 * np.linalg.norm(change):
            curved[j] = point
        anchors[j] = point
        if steps:
            y = x + extrapolation * (x - previous)
            models = (F.loss_gradient(i, anchors[i]) + F.loss_hessian(i, curved[i]) @ (y - anchors[i]) for i in range(F.m))
            previous, x = x, F.prox(y - step_size * (sum(models) / F.m + F.l2 * y), step_size)
        yield x


class ComponentModels:
    """The memory of CIAG: each component's anchor, and the sums b and H over the components seen."""

    def __init__(self, F, x):
        self.F = F
        self.seen = np.zeros(F.m, dtype=bool)
        self.anchors = np.zeros((F.m, F.dim))
        self.b, self.H = np.zeros(F.dim), np.diag(F.l2)

    def hessian(self, j):
        return self.F.loss_hessian(j, self.anchors[j]) / self.F.m

    def intercept(self, j):
        return self.F.loss_gradient(j, self.anchors[j]) / self.F.m - self.hessian(j) @ self.anchors[j]

    def move(self, j, point):
        if self.seen[j]:
            self.b, self.H = self.b - self.intercept(j), self.H - self.hessian(j)
        self.seen[j], self.anchors[j] = True, point
        self.b, self.H = self.b + self.intercept(j), self.H + self.hessian(j)

    def table_gradient(self):
        return sum(self.F.loss_gradient(j, self.anchors[j]) for j in np.flatnonzero(self.seen)) / self.F.m


def delayed_saga(F, x, events, step_size):
    """SAGA with delays, by a recorded order of events: (True, j) asks component j at x, (False, j) takes its gradient.

    The step with a gradient of age k is min(1, 3 / (k + 1)) times as long. Yields x after each visit that is taken.
    """
    table, points, since, t = np.zeros((F.m, F.dim)), {}, {}, 0
    for asks, j in events:
        if asks:
            points[j], since[j] = x, t
            continue
        gradient = F.loss_gradient(j, points.pop(j))
        step = step_size * min(1.0, 3.0 / (t - since[j] + 1))
        x = F.prox(x - step * (gradient - table[j] + table.mean(axis=0) + F.l2 * x), step)
        table[j], t = gradient, t + 1
        yield x
