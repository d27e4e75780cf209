"""Where a run begins that is given no start: at 0, brought to the set, unless F overflows there.

The loss of a row overflows where its prediction is far out on one side: exp(u) beyond 709. An intercept then moves the
largest prediction to 0, where F is lower so. Without one, where F overflows at the default start or is so large that one
row hides all others, a point of the set is looked for whose predictions are at most a cut, which minimises

    sum_i p_i max(0, u_i - cut),

the hinge loss with offsets: at cut 0, and where that does not do at a cut beyond which losses overflow. Where that minimum
is above 0, F overflows at every point of the set.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_products import predictions
from finitesum.losses import Hinge
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.penalties import elastic_net

#: A prediction beyond which a loss that overflows does so, nearly.
FAR = 700.0

#: F at a start beyond which rounding errors of its largest part hide all other rows.
MOST = 1.0 / float(np.finfo(np.float64).eps)


def _overflows(loss: Any, prediction: float, target: float) -> bool:
    try:
        return not math.isfinite(loss.value(prediction, target))
    except OverflowError:
        return True


def _sides(problem: Problem) -> Vector:
    """Return -1 for rows whose loss overflows at large predictions, +1 at those far below 0, and 0 for others."""
    targets, which = np.unique(problem.targets, return_inverse=True)
    with np.errstate(all="ignore"):
        is_above, is_below = (
            np.array([_overflows(problem.loss, u, float(y)) for y in targets]) for u in (1.5 * FAR, -1.5 * FAR)
        )
    sides: Vector = np.where(is_above, -1.0, np.where(is_below, 1.0, 0.0))[which]
    return np.where(problem.weights > 0.0, sides, 0.0)


def _within(problem: Problem, sides: Vector, cut: float) -> Any:
    """Return the result of a run that brings predictions to the near side of a cut; F is what they exceed it by there."""
    from finitesum.running.driver import minimize

    weights = np.where(sides != 0.0, problem.weights, 0.0)
    hinge = replace(
        problem,
        loss=Hinge(),
        targets=np.where(sides != 0.0, sides, 1.0),
        offsets=problem.offsets + (cut + 1.0) * sides,
        weights=weights / weights.sum(),
        penalty=elastic_net(0.0, 0.0),
        batch_size=None,
    )
    return minimize(hinge, max_iter=100, measure_every=0)


def _objective(problem: Problem, w: Vector) -> float:
    """Return F, infinite where it overflows."""
    with np.errstate(all="ignore"):
        value = evaluate(problem, w).objective
    return value if math.isfinite(value) else math.inf


def default_start(problem: Any, start: Vector) -> Vector:
    """Return the default start, or where F overflows there a point of the set with finite F, if one is found."""
    if not isinstance(problem, Problem) or not (start.any() or problem.has_offsets):
        return start
    if not problem.loss.is_smooth() or math.isfinite(problem.loss.curvature_bound()):
        return start
    is_used = (sides := _sides(problem)) != 0.0
    if not is_used.any():
        return start
    if problem.has_intercept and (sides[is_used] == sides[is_used][0]).all():
        scores, moved = (predictions(problem, start) + problem.offsets)[is_used], start.copy()
        moved[-1] -= scores.max() if sides.min() < 0.0 else scores.min()
        return min((start, moved), key=lambda w: _objective(problem, w))
    for cut in () if is_parted(problem) else (0.0, FAR):  # the hinge loss is for rows in memory
        if _objective(problem, start) <= MOST:
            break
        start = min((start, _within(problem, sides, cut).x), key=lambda w: _objective(problem, w))
    return start


def why_infinite(problem: Any) -> str:
    """Return what is said of a point where F is not finite: whether that is so at every other point, too."""
    is_known = isinstance(problem, Problem) and not is_parted(problem)
    if is_known and not problem.has_intercept and problem.n_outputs == 1 and problem.loss.is_smooth():
        sides = _sides(problem)
        if sides.any() and (best := _within(problem, sides, FAR)).fun - best.optimality > 1e-9 * best.fun:
            return (
                f"F overflows at every point of the set: each has a prediction beyond {FAR:g}. Scale the columns of X, or "
                "give another set."
            )
    return "F overflows at x: scale the columns of X, or give another x0."
