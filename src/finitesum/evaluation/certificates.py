"""Lower bounds of a convex problem's minimum: what makes the gap of a point known where the gradient says nothing.

A convex loss lies above its linear minorants: with slopes s_i of the losses at predictions u_i = x_i'w_k + b_k + o_i ::

    sum_i p_i loss_i(x_i'w + b + o_i)  >=  c + <v, w> + v_b b,     v = sum_i p_i s_i x_i,
                                                                   c = sum_i p_i (loss_i(u_i) - s_i (u_i - o_i))

for every (w, b), and so does any mean of such minorants. Its minimum together with the penalty, over the points of the
constraint set Q that are not absurdly far away, bounds F there::

    F(w')  >=  c + min { <v, w> + r(w) : w in Q, s_j |w_j| <= radius },      s_j^2 = sum_i p_i x_ij^2

Where the minimum over all of Q lies within the radius it bounds F*: nearly always on a bounded set or with a quadratic
penalty, where the radius is `FAR` times as large as the predictions that a column makes at w (1 at least), up to the next
power of ten. Elsewhere v has to vanish at a solution, which no sum of rounded numbers does, so that the minimum over all of
Q would be -inf: there the radius is `NEAR` times as large, and what is known is that no point within it is lower. A point
t times as far away can be lower by t times the gap, because F is convex.

A set that is not a product of intervals joins with its multiplier kappa, for every value of which the bound holds: that of
||w||_1 <= tau is max over kappa >= 0 of c - kappa tau + min <v, w> + r(w) + kappa ||w||_1.

With a free intercept v_b has to be 0. Losses with corners, such as the hinge, allow that: slopes of one sign may be scaled
down together, or all of them until an l1 penalty carries them. The difference of F and the bound is a duality gap: for the
hinge loss on the l1 ball the bound is D(a) = sum_i p_i a_i - tau max_j |sum_i p_i a_i y_i x_ij|, a_i = -y_i s_i.

The driver's `optimality` of a problem with a nonsmooth loss is F(w) less the best bound seen for the radius at w (it
averages the minorants of its checks); it can be far above F(w) - F* but, within the radius, not below, because rounding
errors are allowed for.
Benchmarks that need F* to many digits take `finitesum.methods.newton.linear_program`, an exact linear program.

References
----------
.. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, chapter 5.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import array_form, kernel
from finitesum.evaluation.row_blocks import by_row, sum_over_blocks, sum_over_problems
from finitesum.evaluation.row_products import combination, gram_diagonal, mean_square, minorant_sums
from finitesum.losses import Cornered, Hinge
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import rows_between, to_matrix
from finitesum.problems.term import ConvexTerm
from finitesum.problems.view import n_numbers

#: How many times as large as at w the predictions that a column makes may be where a bound holds: on bounded sets and with
#: a quadratic penalty, and without, where rounding errors of a slope count that many times.
FAR, NEAR = 1e3, 10.0

#: The fraction of F from which its rounding errors are counted row by row, and the rows of which that is done at once.
VISIBLE, MOST_ROWS = 1e-10, 10_000

#: The unit of rounding.
UNIT = float(np.finfo(np.float64).eps) / 2


class Minorant(NamedTuple):
    """A linear function below the mean loss: that of the slopes <= 0, and that of the slopes > 0; their sum counts."""

    constants: Vector  # (2,)
    slopes: Matrix  # (2, d)
    radius: float = math.inf  # of the points that it is to bound F at, in units of columns
    error: float = 0.0  # what rounding may make of F where it was taken


@remembered_of_rows
def column_sizes(problem: Problem) -> Vector:
    """Return s_j, the root of the weighted mean of the squares of a column, > 0, shape (d,)."""
    squares = gram_diagonal(problem, np.ones(problem.n_rows))[: problem.rows.n_columns]
    return np.maximum(np.sqrt(squares), 1e-200)


def _radius(problem: Problem, w: Vector) -> float:
    """Return the radius within which minorants are to bound F: by decades, so that later bounds join earlier ones."""
    largest = float((column_sizes(problem) * np.abs(w[: problem.rows.n_columns])).max(initial=1.0))
    times = FAR if problem.constraint.is_bounded or problem.term.ridge > 0.0 else NEAR
    return times * 10.0 ** math.ceil(math.log10(largest)) if largest < math.inf else math.inf


def _error_of(problem: Problem, w: Vector, sizes: float) -> float:
    """Return what rounding errors may make of F at w, where predictions are sums of absolute values of this mean size."""
    scale = problem.loss.largest_slope() if isinstance(problem.loss, Cornered) else 1.0
    return 4.0 * UNIT * (scale * (1.0 + sizes) + abs(problem.term.value(w)))


def _beside_columns(problem: Problem, w: Vector) -> float:
    """Return what intercept and offsets add to the mean size of predictions."""
    of_offsets = float(problem.weights @ np.abs(problem.offsets)) if problem.has_offsets else 0.0
    return float(np.abs(w[problem.rows.n_columns :]).sum()) + of_offsets


def _error(problem: Problem, w: Vector, value: float) -> float:
    """Return what rounding errors may make of F at w: a few units of the sums of absolute values."""
    sizes = float(column_sizes(problem) @ np.abs(w[: problem.rows.n_columns])) + _beside_columns(problem, w)
    if isinstance(problem.loss, Hinge) and 4.0 * UNIT * sizes > VISIBLE * value:
        sizes = _reaching_sizes(problem, w)
    return _error_of(problem, w, sizes)


def error_within(problem: Problem, w: Vector, value: float, enough: float) -> float:
    """Return what rounding errors may make of F at w: from sum_i p_i ||x_i||^2 alone, where that bound is small enough."""
    of_columns = math.sqrt(mean_square(problem)) * float(np.linalg.norm(w[: problem.rows.n_columns]))
    found = _error_of(problem, w, of_columns + _beside_columns(problem, w))
    return found if found <= enough else _error(problem, w, value)


def _reaching_sizes(problem: Problem, w: Vector) -> float:
    """Return the sum of absolute values that predictions of the hinge loss are made of, over rows that may have a loss."""

    def reaching(part: Problem) -> float:
        d, total = part.rows.n_columns, 0.0
        for first in range(0, part.n_rows, MOST_ROWS):
            here = slice(first, min(first + MOST_ROWS, part.n_rows))
            offsets, targets = part.offsets[here], part.targets[here]
            matrix = to_matrix(rows_between(part.rows, here.start, here.stop))
            sizes = abs(matrix) @ np.abs(w[:d]) + np.abs(w[d:]).sum() + np.abs(offsets)
            gaps = 1.0 - targets * (matrix @ w[:d] + w[d:].sum() + offsets)
            total += float(part.weights[here] @ np.where(gaps > -4.0 * UNIT * (1.0 + sizes), sizes, 0.0))
        return total

    return float(sum_over_problems(reaching, problem))


def minorant_at(problem: Problem | SubgradientProblem, w: Vector) -> tuple[float, Minorant]:
    """Return the mean loss at w and its minorant there, by one pass over the data."""
    if isinstance(problem, Problem):
        value, constants, slopes = minorant_sums(problem, w)
        return value, Minorant(constants, slopes, _radius(problem, w), _error(problem, w, value))
    constants, slopes, value = np.zeros(2), np.zeros((2, problem.dim)), float(problem.value(w.copy()))
    slopes[0] = problem.full_subgradient(w)
    constants[0] = value - slopes[0] @ w
    return value, Minorant(constants, slopes)


def has_certificate(problem: Problem | SubgradientProblem) -> bool:
    """Return whether minorants bound the minimum: of callables on bounded sets, and of losses without a loose intercept."""
    if isinstance(problem, SubgradientProblem):
        return problem.lower_bound is not None or problem.term.constraint.is_bounded
    return problem.term.is_elastic_net and (isinstance(problem.loss, Cornered) or not problem.has_intercept)


def lower_bound(problem: Problem | SubgradientProblem, minorant: Minorant) -> float:
    """Return a number that F is never below within the radius: the minimum of the minorant and the penalty, or -inf."""
    if not has_certificate(problem):
        return -math.inf
    if isinstance(problem, SubgradientProblem):
        known = -math.inf if problem.lower_bound is None else problem.lower_bound
        if not problem.term.constraint.is_bounded:
            return known
        return max(known, float(minorant.constants[0]) - problem.term.constraint.support(-minorant.slopes[0]))
    constant, slope = balanced(problem, minorant)
    slope = slope[: problem.rows.n_columns]
    bound = constant + _least(problem.term, slope, minorant.radius / column_sizes(problem))
    if not isinstance(problem.loss, Cornered):
        return bound
    thresholds = problem.term.thresholds[: slope.size]
    with np.errstate(all="ignore"):  # the part of the minorant that the l1 penalty carries everywhere
        share = float(np.where(slope != 0.0, thresholds / np.abs(slope), 1.0).min(initial=1.0))
    return max(bound, share * constant if not problem.is_constrained else 0.0, 0.0)


class _Multiplied(NamedTuple):
    """A set as <slope, w> + sum_j thresholds_j |w_j| + quadratic/2 ||w||^2 <= level."""

    slope: Vector | float
    thresholds: Vector | float
    quadratic: float
    level: float


def _least(term: ConvexTerm, slope: Vector, reach: Vector) -> float:
    """Return min slope'w + term(w) over the set where |w_j| <= reach_j, or what is proved to be no larger."""
    d, ridge = slope.size, term.ridge
    constraint: Any = term.constraint
    lower, upper = (np.clip(bound, -reach, reach) for bound in constraint.intervals(d))
    quadratic, thresholds = term.quadratic[:d], term.thresholds[:d]

    def at(kappa: float, by: _Multiplied) -> tuple[float, float]:
        """Return the minimum with a set's multiplier, and its derivative in kappa."""
        total, t, q = slope + kappa * by.slope, thresholds + kappa * by.thresholds, quadratic + kappa * by.quadratic
        pull = np.sign(total) * np.maximum(np.abs(total) - t, 0.0)
        with np.errstate(all="ignore"):
            w = np.where(pull == 0.0, 0.0, -pull / q)
        w = np.clip(w, lower, upper)
        size = np.abs(w)
        excess = np.sum(by.slope * w + by.thresholds * size + 0.5 * by.quadratic * w * w) - by.level
        return float(np.sum(total * w + t * size + 0.5 * q * w * w) - kappa * by.level), float(excess)

    if constraint.is_separable or d == 0:
        return at(0.0, _Multiplied(0.0, 0.0, 0.0, 0.0))[0]
    is_known = constraint.boundary in ("sum", "plane", "l1-norm", "l2-norm")
    if ridge > 0.0:
        lowest = constraint.project(-slope / ridge)
        if not is_known or (np.abs(lowest) <= reach).all():
            return float(slope @ lowest + 0.5 * ridge * lowest @ lowest)
    elif constraint.boundary == "planes":
        return float(constraint.least_within(slope, reach))
    elif not is_known or constraint.width() <= 2.0 * reach.min():
        return -float(constraint.support(-slope))
    by, kinks = _multiplied(constraint, slope, ridge)
    first, last = 0, kinks.size - 1
    while last - first > 1:  # the concave function of kappa is largest where its derivative changes sign
        middle = (first + last) // 2
        first, last = (middle, last) if at(kinks[middle], by)[1] > 0.0 else (first, middle)
    low, high = kinks[first], kinks[last]
    best = max(at(low, by)[0], at(high, by)[0])
    for _ in range(60 if ridge > 0.0 or by.quadratic > 0.0 else 0):  # between kinks it is linear otherwise
        middle = 0.5 * (low + high)
        value, derivative = at(middle, by)
        best = max(best, value)
        low, high = (middle, high) if derivative > 0.0 else (low, middle)
    return best


def _multiplied(constraint: Any, slope: Vector, ridge: float) -> tuple[_Multiplied, Vector]:
    """Return what a set adds to a term, and where the minimum's derivative in the multiplier may jump, in order."""
    if constraint.boundary == "sum":
        kinks = np.append(-slope, -slope.max() - ridge * constraint.total)
        by = _Multiplied(1.0, 0.0, 0.0, constraint.total)
    elif constraint.boundary == "plane":
        normal, inside = constraint.normal, constraint.normal != 0.0
        kinks = np.append(np.maximum(-slope[inside] / normal[inside], 0.0), 0.0)
        kinks = np.append(kinks, kinks.max() + ridge * abs(constraint.offset) / float(normal @ normal))
        by = _Multiplied(normal, 0.0, 0.0, constraint.offset)
    elif constraint.boundary == "l1-norm":
        weights = np.ones(slope.size) if constraint.weights is None else constraint.weights
        kinks = np.append(np.abs(slope) / weights, 0.0)
        by = _Multiplied(0.0, weights, 0.0, constraint.radius)
    else:
        kinks = np.array([0.0, float(np.linalg.norm(slope)) / constraint.radius])
        by = _Multiplied(0.0, 0.0, 1.0, 0.5 * constraint.radius**2)
    return by, np.unique(kinks)


def balanced(problem: Problem, minorant: Minorant) -> tuple[float, Vector]:
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
    radius: float = 0.0  # within which the bound holds
    error: float = 0.0  # by which the last point's F may be wrong: bounds are lowered by it

    def joined_by(self, problem: Problem | SubgradientProblem, minorant: Minorant) -> "Certificate":
        """Return the certificate after one more minorant."""
        weight, radius = 2.0 / (self.n_seen + 2), max(self.radius, minorant.radius)
        constants = self.constants + weight * (minorant.constants - self.constants)
        mean = Minorant(constants, self.slopes + weight * (minorant.slopes - self.slopes), radius)
        known = self.bound if radius == self.radius else -math.inf  # what held for points nearby says nothing of others
        found = max(lower_bound(problem, minorant._replace(radius=radius)), lower_bound(problem, mean))
        return Certificate(max(known, found - minorant.error), self.n_seen + 1, *mean[:3], minorant.error)

    def raised(self, bound: float) -> "Certificate":
        """Return the certificate with another lower bound counted in."""
        return self._replace(bound=max(self.bound, bound - self.error))


def no_certificate(dim: int) -> Certificate:
    """Return what is known before the first minorant."""
    return Certificate(-math.inf, 0, np.zeros(2), np.zeros((2, dim)))


def hinge_scale(problem: Problem) -> float:
    """Return the scale of the hinge loss, or raise where the loss is another."""
    if not isinstance(problem.loss, Hinge):
        raise ValueError(f"this is about the hinge loss, but the problem has {problem.loss!r}.")  # noqa: TRY004
    return problem.loss.scale


def dual_minorant(problem: Problem, multipliers: Vector, w: Vector | None = None) -> Minorant:
    """Return the hinge loss's minorant of dual variables a in [0, 1], around w or 0: max(0, 1 - m) >= a (1 - m)."""
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
    return minorant_around(problem, np.zeros(problem.dim) if w is None else w, constants, slopes)


def minorant_around(problem: Problem, w: Vector, constants: Vector, slopes: Matrix) -> Minorant:
    """Return the minorant with these sums that is to bound F within a radius around w."""
    return Minorant(constants, slopes, _radius(problem, w))


@kernel
def _gains(view: Any, slopes: Vector) -> tuple[float, float, float, float]:
    """Return sum p_i s_i and sum p_i (o_i s_i - loss_i*(s_i)) of the slopes < 0, and of the others."""
    falling = of_falling = rising = of_rising = 0.0
    for i in range(view.rows.n_rows):
        slope, weight = slopes[i], view.weights[i]
        (low, high, point), (other_low, other_high, other_point) = view.loss.corners(view.targets[i])
        gain = view.offsets[i] * slope - point * min(max(slope, low), high)
        gain = weight * (gain - other_point * min(max(slope, other_low), other_high))
        if slope < 0.0:
            falling, of_falling = falling + weight * slope, of_falling + gain
        else:
            rising, of_rising = rising + weight * slope, of_rising + gain
    return falling, of_falling, rising, of_rising


@array_form(_gains, n_numbers)
def _gains_in_arrays(view: Any, slopes: Vector) -> tuple[float, float, float, float]:
    gains, (first, other) = view.offsets * slopes, view.loss.corners(view.targets)
    for low, high, point in (first, other) if np.any(other[:2]) else (first,):
        gains -= point * np.minimum(np.maximum(slopes, low), high)
    falling = np.where(slopes < 0.0, view.weights, 0.0)
    rising = view.weights - falling
    return float(falling @ slopes), float(falling @ gains), float(rising @ slopes), float(rising @ gains)


def slopes_bound(problem: Problem, slopes: Vector, w: Vector) -> float:
    """Return the bound of the minimum that slopes s_i of a loss with corners make with an l2 penalty and no set.

    w is -(1/l2) sum_i p_i s_i x_i, and an intercept; the bound sum_i p_i (o_i s_i - loss_i*(s_i)) - l2/2 ||w||^2.
    """
    if not isinstance(problem.loss, Cornered):
        raise ValueError(f"this is about losses with corners, but the problem has {problem.loss!r}.")  # noqa: TRY004
    ridge, w = problem.term.ridge, w[: problem.rows.n_columns]
    falling, rising = gains = sum_over_blocks(
        lambda block, of_rows: np.reshape(_gains(block.view, of_rows), (2, 2)), problem, reads=(slopes,)
    )
    if problem.has_intercept and (excess := falling[0] + rising[0]) != 0.0:  # of slopes that increase, or that decrease
        side = int(excess > 0.0)
        share = excess / gains[side, 0]

        def given_up(view: Any, of_rows: Vector) -> Vector:
            return np.where(of_rows > 0.0 if side else of_rows < 0.0, share * view.weights * of_rows, 0.0)

        w = w + combination(problem, by_row(given_up, problem, slopes))[: w.size] / ridge
        gains[side, 1] *= 1.0 - share
    return float(gains[0, 1] + gains[1, 1] - 0.5 * ridge * (w @ w))
