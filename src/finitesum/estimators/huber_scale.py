"""Newton's method for Huber's joint estimate: coefficients and the scale at once.

G(w, b, sigma) of `finitesum.estimators.HuberRegressor` is convex. With t_i = r_i / sigma, p_i = s_i / S and the rows I with
|t_i| <= epsilon its Hessian is, for z_i = (x_i, 1),

    (2 / sigma) sum_{i in I} p_i (z_i, -t_i)(z_i, -t_i)' + alpha diag(1, ..., 1, 0, 0).

The sum of z_i z_i' is kept from step to step, and changed by the rows that come to I or leave it. A step ends about where G
is least along it, which takes no product with X; at most nine tenths of the scale are taken at once.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.methods.subproblems.line_search import with_gentler_slope

#: Steps at most.
MOST_STEPS = 60

#: A step ends where this part of G's slope along it is left, where G fell by this part of what the slope there foretells
#: at least, and where this part of the scale is left at least.
GENTLE, DECREASE, LEAST_LEFT = 0.1, 0.1, 0.1

#: Columns up to which it is worth its matrix.
MOST_COLUMNS = 500

#: By which part of itself a singular matrix's diagonal is raised, by turns until a step lets G fall, and by which part
#: of its largest number besides.
RAISED, ALSO = (0.0, 1e-8, 1e-5, 1e-2, 1.0), 1e-6

#: The change of G that rounding errors hide, relative to G, and steps in a row that may change it by no more.
HIDDEN, MOST_HIDDEN = 1e-14, 3

#: A number that is no divisor.
TINY = 1e-300


class JointEstimate(NamedTuple):
    """Where G was minimised to, and what that took."""

    coefficients: Vector  # (d,), or (d + 1,) with an intercept at the end
    scale: float
    n_steps: int
    n_hessians: float  # in rows of all
    is_least: bool  # whether the gradient came down to the tolerance, or rounding errors are what is left


class _Data(NamedTuple):
    X: Any
    y: Vector
    fractions: Vector
    alpha: float
    epsilon: float
    has_intercept: bool

    def residuals(self, w: Vector) -> Vector:
        return np.asarray(self.X @ w[: self.X.shape[1]]) + (w[-1] if self.has_intercept else 0.0) - self.y

    def combined(self, slopes: Vector) -> Vector:
        found = np.asarray(slopes @ self.X)
        return np.append(found, slopes.sum()) if self.has_intercept else found

    def gram(self, rows: Any) -> Matrix:
        """Return the sum of p_i z_i z_i' over some rows, which are copied where they are not all and equal."""
        p = self.fractions[rows]
        X, is_equal = self.X[rows] if p.size < self.y.size else self.X, p.size > 0 and bool((p == p[0]).all())
        if not is_equal:
            roots = np.sqrt(p)[:, None]
            X = scipy.sparse.csr_array(X.multiply(roots)) if scipy.sparse.issparse(X) else X * roots
        product, unit = X.T @ X, float(p[0]) if is_equal else 1.0
        product = unit * (product.toarray() if scipy.sparse.issparse(product) else np.asarray(product, dtype=np.float64))
        if not self.has_intercept:
            return product
        sums = unit * np.asarray(X.sum(axis=0)) if is_equal else np.sqrt(p) @ X
        return np.block([[product, sums[:, None]], [sums[None, :], p.sum()]])

    def value(self, w: Vector, r: Vector, sigma: float) -> float:
        sizes = np.abs(r) / sigma
        losses = np.where(sizes <= self.epsilon, sizes * sizes, self.epsilon * (2.0 * sizes - self.epsilon))
        of_w = w[: self.X.shape[1]]
        return sigma * float(self.fractions.sum() + self.fractions @ losses) + 0.5 * self.alpha * float(of_w @ of_w)


def joint_estimate(
    X: Any,
    y: Vector,
    fractions: Vector,
    start: tuple[Vector, float],
    *,
    alpha: float,
    epsilon: float,
    has_intercept: bool,
    tol: float,
    least_scale: float,
    most_steps: float = MOST_STEPS,
) -> JointEstimate:
    """Return where G is least, as far as its gradient is at most tol or steps let it fall.

    It ends below the least scale, too. The fractions p_i have the sum 1. The start is coefficients, with that of an
    intercept at their end, and a scale.
    """
    data = _Data(X, y, fractions, alpha, epsilon, has_intercept)
    w, sigma = start[0].copy(), start[1]
    d, r, n_rows, n_steps, n_hidden, is_least = X.shape[1], data.residuals(w), 0.0, 0, 0, False
    inside, gram = np.zeros(y.size, dtype=bool), np.zeros((w.size, w.size))
    penalised, places = np.zeros(w.size), np.arange(w.size)
    penalised[:d] = alpha
    before = data.value(w, r, sigma)
    while n_steps < min(most_steps, MOST_STEPS) and sigma > least_scale:
        t = r / sigma
        now = np.abs(t) <= epsilon
        gradient = data.combined(fractions * (2.0 * np.clip(t, -epsilon, epsilon))) + penalised * w
        slope = 1.0 - float(fractions @ np.minimum(t * t, epsilon**2))
        is_least = not np.hypot(np.linalg.norm(gradient), slope) > tol
        if is_least:
            break
        gram, n_read = _changed(data, gram, inside, now)
        inside, n_rows = now, n_rows + n_read
        across = data.combined(np.where(now, fractions * t, 0.0))
        hessian = np.empty((w.size + 1, w.size + 1))
        hessian[:-1, :-1] = gram
        hessian[-1, :-1] = hessian[:-1, -1] = -across
        hessian[-1, -1] = float(fractions[now] @ t[now] ** 2)
        hessian *= 2.0 / sigma
        hessian[places, places] += penalised
        n_steps, gradient = n_steps + 1, np.append(gradient, slope)
        for raised in RAISED:
            step = _solved(hessian, gradient, raised)
            if step is not None and (end := _lower(data, (w, r, sigma), step, before)) is not None:
                break
        else:
            break
        n_hidden = n_hidden + 1 if end[3] >= before * (1.0 - HIDDEN) else 0
        w, r, sigma, before = end
        if is_least := n_hidden == MOST_HIDDEN:
            break
    return JointEstimate(w, float(sigma), n_steps, n_rows / y.size, is_least)


def _changed(data: _Data, gram: Matrix, before: Flags, now: Flags) -> tuple[Matrix, float]:
    """Return the sum of z_i z_i' over the rows that are inside now, and how many rows that took."""
    n, n_inside = now.size, int(np.count_nonzero(now))
    come, gone, n_read = np.flatnonzero(now & ~before), np.flatnonzero(before & ~now), 0
    if come.size + gone.size >= n_inside:
        if 2 * n_inside <= n:
            return data.gram(np.flatnonzero(now)), float(n_inside)
        gram, n_read = data.gram(slice(None)), n
        come, gone = come[:0], np.flatnonzero(~now)
    if come.size:
        gram = gram + data.gram(come)
    if gone.size:
        gram = gram - data.gram(gone)
    return gram, float(n_read + come.size + gone.size)


def _lower(
    data: _Data, at: tuple[Vector, Vector, float], step: Vector, before: float
) -> tuple[Vector, Vector, float, float] | None:
    """Return the point along a step where G is least, about, with its residuals and G there; None where G is no lower."""
    (w, r, sigma), change, d = at, data.residuals(step[:-1]) + data.y, data.X.shape[1]
    across, curvature = data.alpha * float(w[:d] @ step[:d]), data.alpha * float(step[:d] @ step[:d])

    def end(length: float) -> tuple[Vector, Vector, float]:
        return w - length * step[:-1], r - length * change, sigma - length * step[-1]

    def slope(length: float) -> float:
        _, residuals, scale = end(length)
        if scale < LEAST_LEFT * sigma:
            return math.inf
        t = np.clip(residuals / scale, -data.epsilon, data.epsilon)
        of_scale = float(data.fractions.sum()) - float(data.fractions @ (t * t))
        return float(length * curvature - across - 2.0 * ((data.fractions * t) @ change) - step[-1] * of_scale)

    first = slope(0.0)
    if not first < 0.0:
        return None
    found = end(1.0)
    after = data.value(*found) if found[2] >= LEAST_LEFT * sigma else math.inf
    if not after < before + DECREASE * first:
        found = end(with_gentler_slope(slope, first, GENTLE))
        after = data.value(*found)
    return (*found, min(after, before)) if after < before + HIDDEN * abs(before) else None


def _solved(hessian: Matrix, gradient: Vector, raised: float) -> Vector | None:
    """Return the step that solves the system with a raised diagonal; None where it is singular."""
    diagonal = np.diagonal(hessian)
    try:
        factor = cho_factor(hessian + np.diag(raised * (diagonal + ALSO * diagonal.max())), lower=True)
    except (LinAlgError, ValueError):  # singular, or not finite
        return None
    step: Vector = cho_solve(factor, gradient, check_finite=False)
    return step if float(step @ gradient) > 0.0 else None
