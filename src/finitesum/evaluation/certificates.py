"""Lower bounds of a convex problem's minimum: what makes the gap of a point known where the gradient says nothing.

A convex loss lies above its linear minorants: with slopes s_i of the losses at predictions u_i = x_i'w_k + b_k + o_i ::

    sum_i p_i loss_i(x_i'w + b + o_i)  >=  c + <v, w> + v_b b,     v = sum_i p_i s_i x_i,
                                                                   c = sum_i p_i (loss_i(u_i) - s_i (u_i - o_i))

for every (w, b), and so does any mean of such minorants. Its minimum over the constraint set Q bounds the minimum of F::

    F*  >=  c - sigma_Q(-v)                            sigma_Q the support function; with no quadratic penalty
    F*  >=  c + <v, w'> + l2/2 ||w'||^2,               w' = P_Q(-v / l2); with a quadratic penalty

With a free intercept v_b has to be 0. The hinge loss allows that: slopes of one class may be scaled down together.
The difference of F and the bound is a duality gap: for the hinge loss on the l1 ball the bound is
D(a) = sum_i p_i a_i - tau max_j |sum_i p_i a_i y_i x_ij|, a_i = -y_i s_i.

The driver's `optimality` of a problem with a nonsmooth loss is F(w) less the best bound seen (it averages the minorants of
its checks); no information about w goes into the bound, so that it can be far above F(w) - F* but never below.
Benchmarks that need F* to many digits take `finitesum.methods.newton.linear_program`, an exact linear program.

References
----------
.. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, chapter 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.row_products import combination, minorant_sums
from finitesum.losses import Hinge
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem


class Minorant(NamedTuple):
    """A linear function below the mean loss: that of the slopes <= 0, and that of the slopes > 0; their sum counts."""

    constants: Vector  # (2,)
    slopes: Matrix  # (2, d)


def minorant_at(problem: Problem | SubgradientProblem, w: Vector) -> tuple[float, Minorant]:
    """Return the mean loss at w and its minorant there, by one pass over the data."""
    constants, slopes = np.zeros(2), np.zeros((2, problem.dim))
    if isinstance(problem, SubgradientProblem):
        value = float(problem.value(w.copy()))
        slopes[0] = problem.full_subgradient(w)
        constants[0] = value - slopes[0] @ w
    else:
        value = minorant_sums(problem, w, constants, slopes)
    return value, Minorant(constants, slopes)


def has_certificate(problem: Problem | SubgradientProblem) -> bool:
    """Return whether minorants bound the minimum: with a bounded set or a quadratic penalty, and no loose intercept."""
    if isinstance(problem, SubgradientProblem):
        return problem.lower_bound is not None or problem.term.bounds_linear
    has_loose_intercept = problem.has_intercept and not isinstance(problem.loss, Hinge)
    return problem.term.bounds_linear and not has_loose_intercept


def lower_bound(problem: Problem | SubgradientProblem, minorant: Minorant) -> float:
    """Return a number that F is never below: the minimum of the minorant and the penalty over the set, or -inf."""
    if not has_certificate(problem):
        return -math.inf
    if isinstance(problem, SubgradientProblem):
        known = -math.inf if problem.lower_bound is None else problem.lower_bound
        if not problem.term.bounds_linear:
            return known
        return max(known, float(minorant.constants[0]) + problem.term.least_with(minorant.slopes[0]))
    constant, slope = _balanced(problem, minorant)
    return constant + problem.term.least_with(slope)


def _balanced(problem: Problem, minorant: Minorant) -> tuple[float, Vector]:
    """Return the sum of the two parts, one of them scaled down so that an intercept has slope 0."""
    factors = np.ones(2)
    if problem.has_intercept:
        falling, rising = abs(minorant.slopes[0, -1]), abs(minorant.slopes[1, -1])
        if max(falling, rising) > 0.0:
            factors = np.minimum(1.0, np.array([rising, falling]) / max(falling, rising))
    return float(factors @ minorant.constants), np.asarray(factors @ minorant.slopes)


class Certificate(NamedTuple):
    """The best lower bound seen, and the mean of the minorants seen, the later ones weighing more."""

    bound: float
    n_seen: int
    constants: Vector
    slopes: Matrix

    def joined_by(self, problem: Problem | SubgradientProblem, minorant: Minorant) -> Certificate:
        """Return the certificate after one more minorant."""
        weight = 2.0 / (self.n_seen + 2)
        mean = Minorant(
            self.constants + weight * (minorant.constants - self.constants),
            self.slopes + weight * (minorant.slopes - self.slopes),
        )
        best = max(self.bound, lower_bound(problem, minorant), lower_bound(problem, mean))
        return Certificate(best, self.n_seen + 1, *mean)

    def raised(self, bound: float) -> Certificate:
        """Return the certificate with another lower bound counted in."""
        return self._replace(bound=max(self.bound, bound))


def no_certificate(dim: int) -> Certificate:
    """Return what is known before the first minorant."""
    return Certificate(-math.inf, 0, np.zeros(2), np.zeros((2, dim)))


def hinge_scale(problem: Problem) -> float:
    """Return the scale of the hinge loss, or raise where the loss is another."""
    if not isinstance(problem.loss, Hinge):
        raise ValueError(f"this is about the hinge loss, but the problem has {problem.loss!r}.")  # noqa: TRY004
    return problem.loss.scale


def dual_minorant(problem: Problem, multipliers: Vector) -> Minorant:
    """Return the hinge loss's minorant of dual variables a in [0, 1], one a row: max(0, 1 - m) >= a (1 - m)."""
    scale = hinge_scale(problem)
    multipliers = np.asarray(multipliers, dtype=np.float64)
    if multipliers.shape != (problem.n_rows,) or not ((multipliers >= 0.0) & (multipliers <= 1.0)).all():
        raise ValueError(f"multipliers must be {problem.n_rows} numbers in [0, 1], got shape {multipliers.shape}.")
    loads = scale * problem.weights * multipliers
    constants, slopes = np.zeros(2), np.zeros((2, problem.dim))
    for side, sign in ((0, 1.0), (1, -1.0)):
        part = np.where(problem.targets == sign, loads, 0.0)
        constants[side] = part @ (1.0 - sign * problem.offsets)
        slopes[side] = -sign * combination(problem, part)
    return Minorant(constants, slopes)


def duality_gap(problem: Problem | SubgradientProblem, w: Vector, multipliers: Vector | None = None) -> float:
    """Return F(w) less a lower bound of the minimum: at least F(w) - F*, NaN where there is no bound.

    Parameters
    ----------
    problem : Problem or SubgradientProblem
    w : ndarray of float64, shape (problem.dim,)
    multipliers : array_like, shape (n,), optional
        Dual variables in [0, 1] for the hinge loss; left out, those of the subgradient at w, which are seldom close.

    Raises
    ------
    ValueError
        The multipliers do not fit.

    Examples
    --------
    >>> from finitesum.constraints import L1Ball
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge", constraint=L1Ball(1.0))
    >>> duality_gap(problem, np.zeros(1), [1.0, 1.0]), duality_gap(problem, np.zeros(1), [1.0, 0.5])
    (0.5, 0.25)
    """
    loss, minorant = minorant_at(problem, w)
    if multipliers is not None:
        assert isinstance(problem, Problem)
        minorant = dual_minorant(problem, multipliers)
    bound = lower_bound(problem, minorant)
    return loss + problem.term.value(w) - bound if math.isfinite(bound) else math.nan
