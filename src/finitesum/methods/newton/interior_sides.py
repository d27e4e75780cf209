"""What a penalty and a set add to the rows of a hinge loss: linear inequalities on the coefficients.

A threshold of an l1 penalty is a row of its own, t |w_j| = 2t max(0, w_j) - t w_j. Finite bounds, the simplex, half-spaces
and polyhedra are inequalities; the l1 ball is, too, with bounds v of the absolute values beside the coefficients:
-v <= w <= v, c'v <= radius. The l2 ball is (radius^2 - ||w||^2) / (2 radius) >= 0, whose row is -w / radius.
Coefficients whose bounds leave them no room stay where they are.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.optimize import brentq

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.evaluation.certificates import column_sizes
from finitesum.losses import Hinge
from finitesum.methods.newton.hinge_rows import n_hinges, totals_of
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered

#: The width of an interval, relative to its bounds, from which there is room in it.
ROOM = 1e-13

#: The least distance from a bound at the start, relative to the bound.
LEAST_DISTANCE = 1e-8


class Sides(NamedTuple):
    """The inequalities rows z >= limits beside the data, on z = (w, b) or (w, b, v): bounds, others, thresholds."""

    rows: Any  # sparse (k, dim or dim + d)
    limits: Vector  # (k,)
    costs: Vector  # (k,)  what a unit of a multiplier counts for, as c_i of the data's rows
    is_soft: Flags  # (k,)  whether the inequality may be violated at that cost, as all of the data's rows
    scale: float  # the sum of c_i
    n_inner: int  # slacks, gaps, multipliers and complements of the data's rows and of sides, each
    n_products: int  # of them that vanish at the minimum; rows of weight 0 have none
    mean_cost: float  # of what may be violated at a cost > 0
    linear: Vector  # less the gradient of the linear part of the objective
    total: Vector  # the coefficients of the equation that a simplex adds, or of size 0
    radius: float  # of the l2 ball, or 0
    free: Flags  # the coordinates that may move
    units: Vector  # (d,)  a coefficient of ordinary size
    bounded: Indices  # the columns of the inequalities that are bounds
    bounds: Vector
    shrunk: Indices  # the columns of those that are thresholds
    on_norm: bool  # whether there are bounds of absolute values
    joint: Indices  # the inequalities that join columns

    def rows_at(self, z: Vector) -> Any:
        """Return the rows, for the l2 ball those of its tangent."""
        if self.radius == 0.0:
            return self.rows
        return scipy.sparse.csr_array(np.where(np.arange(z.size) < self.units.size, -z / self.radius, 0.0)[None, :])

    def snapped(self, z: Vector, inner: Any) -> Vector:
        """Return the coefficients, those closer to a bound or to 0 than its multiplier is to 0 put there.

        The sides' own slacks, gaps, multipliers and complements are given, (k,) each.
        """
        d, w = self.units.size, z[: self.units.size].copy()
        slacks, gaps, multipliers, complements = inner
        forces = multipliers * self.costs / self.scale
        first, units = slice(self.bounded.size), self.units[self.bounded]
        near = gaps[first] < forces[first] * units**2
        w[self.bounded[near]] = self.bounds[near]
        if self.on_norm:
            below, above = np.reshape(gaps[: 2 * d], (2, d))
            w[np.maximum(below, above) < np.reshape(forces[: 2 * d], (2, d)).min(axis=0) * self.units**2] = 0.0
        last = slice(self.limits.size - self.shrunk.size, None)
        near = (gaps[last] < multipliers[last]) & (slacks[last] < complements[last])
        w[self.shrunk[near]] = 0.0
        if self.total.size:
            w[int(w.argmax())] += float(z[:d].sum()) - float(w.sum())
        return w


@remembered
def sides_of(problem: Problem) -> Sides:
    """Return the inequalities of a problem."""
    d, dim, term = problem.rows.n_columns, problem.dim, problem.term
    constraint: Any = problem.constraint
    sizes, (cost, n_used) = column_sizes(problem), totals_of(problem)
    scale = problem.loss.scale if isinstance(problem.loss, Hinge) else cost
    units = np.where(sizes > 1e-100, 1.0 / sizes, 1.0)
    dim += d if constraint.boundary == "l1-norm" else 0
    lower, upper = constraint.intervals(d)
    with np.errstate(invalid="ignore"):
        fixed = np.isfinite(upper - lower) & (upper - lower <= ROOM * np.maximum(np.abs(lower), np.abs(upper)))
    below, above = (np.flatnonzero(np.isfinite(bound) & ~fixed) for bound in (lower, upper))
    rows, limits = [_of_single(below, 1.0, dim), _of_single(above, -1.0, dim)], [lower[below], -upper[above]]
    if constraint.boundary == "l1-norm":
        single, bounding = (scipy.sparse.eye_array(d, dim, k=k, format="csr") for k in (0, dim - d))
        of_total = scipy.sparse.csr_array(-_norm_weights(constraint, d)[None, :] @ bounding)
        rows += [bounding - single, bounding + single, of_total]
        limits += [np.zeros(2 * d), np.array([-constraint.radius])]
    elif constraint.boundary == "plane":
        rows.append(_padded(-constraint.normal[None, :], dim))
        limits.append(np.array([-constraint.offset]))
    elif constraint.boundary == "planes":
        norms = np.sqrt(((constraint.matrix * units) ** 2).sum(axis=1))
        rows.append(_padded(-constraint.matrix / norms[:, None], dim))
        limits.append(-constraint.limits / norms)
    elif constraint.boundary == "l2-norm":
        rows.append(scipy.sparse.csr_array((1, dim)))
        limits.append(np.zeros(1))
    n_hard = sum(part.size for part in limits)
    n_single = (below.size + above.size) + (2 * d if constraint.boundary == "l1-norm" else 0)
    thresholds = term.thresholds[:d]
    shrunk = np.flatnonzero(thresholds)
    rows.append(_of_single(shrunk, -1.0 / units[shrunk], dim))
    limits.append(np.zeros(shrunk.size))
    hard, soft = np.full(n_hard, scale / max(n_hard, 1)), 2.0 * thresholds[shrunk] * units[shrunk]
    costs, is_soft = np.concatenate([hard, soft]), np.arange(n_hard + soft.size) >= n_hard
    n_soft = n_used + np.count_nonzero(soft)
    return Sides(
        scipy.sparse.vstack(rows, format="csr") if costs.size else scipy.sparse.csr_array((0, dim)),
        np.concatenate(limits),
        costs,
        is_soft,
        scale,
        n_hinges(problem) * problem.n_rows + costs.size,
        2 * n_soft + n_hard,
        (cost + float(soft.sum())) / n_soft,
        np.concatenate([thresholds, np.zeros(dim - d)]),
        (np.arange(dim) < d).astype(np.float64) if constraint.boundary == "sum" else np.zeros(0),
        float(constraint.radius) if constraint.boundary == "l2-norm" else 0.0,
        np.concatenate([~fixed, np.ones(dim - d, dtype=bool)]),
        units,
        np.concatenate([below, above]),
        np.concatenate([lower[below], upper[above]]),
        shrunk,
        constraint.boundary == "l1-norm",
        np.arange(n_single, n_hard),
    )


def _of_single(columns: Indices, entries: Any, dim: int) -> Any:
    """Return sparse rows with one entry each, in these columns."""
    places = columns, np.arange(columns.size + 1)
    return scipy.sparse.csr_array(
        (np.broadcast_to(entries, columns.shape).astype(np.float64), *places), (columns.size, dim)
    )


def _padded(rows: Matrix, dim: int) -> Any:
    """Return rows as sparse ones with more columns, of zeros."""
    found = scipy.sparse.csr_array(rows)
    found.resize(rows.shape[0], dim)
    return found


def _norm_weights(ball: Any, d: int) -> Vector:
    weights: Vector = np.ones(d) if ball.weights is None else ball.weights
    return weights


def _centre(w: Vector, weights: Vector, radius: float) -> Vector:
    """Return bounds v of |w| in the centre of theirs: with equal products, multipliers of v - w, v + w and the radius meet.

    1 / (v_j - w_j) + 1 / (v_j + w_j) = c_j / s with the room s = radius - c'v: c_j v_j = s + (s^2 + (c_j w_j)^2)^(1/2).
    """
    norms = weights * np.abs(w)

    def sizes(room: float) -> Vector:
        return room + np.sqrt(room**2 + norms**2)

    room = brentq(lambda room: float(sizes(room).sum()) + room - radius, 0.0, radius / (w.size + 1), xtol=1e-12 * radius)
    return np.asarray(sizes(room) / weights)


def start_within(problem: Problem, sides: Sides, x0: Vector) -> tuple[Vector, Vector]:
    """Return the start moved into the set's interior, with bounds of its absolute values; and how far the sides are."""
    d, z = problem.rows.n_columns, x0.copy()
    constraint: Any = problem.constraint
    units, w = sides.units, z[:d]
    if constraint.boundary in ("l1-norm", "l2-norm"):
        w *= 0.5
    elif constraint.boundary == "sum":
        w[:] = 0.5 * (w + constraint.total / d)
    elif constraint.boundary == "plane":
        w -= units**2 * constraint.normal / np.linalg.norm(units * constraint.normal)
    elif constraint.boundary == "planes":
        w[:] = constraint.inner_point(w, units)
    else:
        lower, upper = constraint.intervals(d)
        largest = np.maximum(*(np.where(np.isfinite(bound), np.abs(bound), 0.0) for bound in (lower, upper)))
        away = np.minimum(np.maximum(units, LEAST_DISTANCE * largest), 0.25 * (upper - lower))
        w[:] = np.where(sides.free[:d], np.clip(w, lower + away, upper - away), lower)
    if constraint.boundary == "l1-norm":
        z = np.concatenate([z, _centre(w, _norm_weights(constraint, d), constraint.radius)])
    if sides.radius > 0.0:
        return z, np.array([0.5 * (sides.radius - float(w @ w) / sides.radius)])
    return z, np.asarray(sides.rows @ z - sides.limits)
