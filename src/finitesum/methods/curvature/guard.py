"""A guard over passes on Taylor models: the way back where models led too far, free while they do not.

After a pass the memory holds the margin of every row where it was visited last, so that

    A = sum_i p_i phi(u_i) + r(w)

is known without reading data. While A stays below twice the least so far (F(0) counts from a start at 0), the guard rests.
After a pass that ends higher it is on: F is evaluated after every pass, which costs one more, and no pass may raise it. One
that does is undone: w goes back to where F is the least, and all components are anchored there, with majorants where the
loss has them, and no comparison counts in the next pass. The mean model then lies above F, touches it at w, and stays
above it through that pass, which thus cannot end higher than it began. Losses without majorants get shorter steps.

Of components given as functions the values are not in the memory: where their sum is not convex the guard is on from the
first pass, and where it is convex they are not guarded.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.curvature import taylor_model as taylor
from finitesum.methods.curvature.taylor_model import OpenModel, TaylorModel
from finitesum.methods.curvature.trust import Comparison, Trust, TrustRule, new_trust, no_comparison, trusted_visit
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.view import View

#: A pass raises F when it does so by more than this fraction: rounding errors of the sum.
RISE = 1e-12


class Guard(NamedTuple):
    """What is remembered of earlier passes."""

    start: Vector
    least: float  # the least A so far
    objective: float  # F at the iterate; NaN while the guard rests


class Retreat(NamedTuple):
    """Where a pass ends that raised F: the point, and all that is known there."""

    w: Vector
    model: TaylorModel
    comparison: Comparison
    trust: Trust


@kernel
def _loss_at_anchors(view: View, margins: Vector) -> float:
    total = 0.0
    for i in range(view.rows.n_rows):
        if view.weights[i] > 0.0:
            value = view.loss.value(margins[i] + view.offsets[i], view.targets[i])
            total += view.weights[i] * value
    return total


@kernel
def _anchor_all(view: View, model: OpenModel, w: Vector, comparison: Comparison, trust: Trust, rule: TrustRule) -> None:
    for component in range(view.n_components):
        trusted_visit(view, model, component, w, comparison, trust, rule, np.inf, comparison.residual)
    taylor.finish_visits(model)


def _at_anchors(problem: Problem, model: TaylorModel, w: Vector) -> float:
    """Return A."""
    return float(_loss_at_anchors(problem.view, model.margins)) + problem.term.value(w)


def _objective(problem: AnySum, w: Vector) -> float:
    """Return F, infinite where it is not a number."""
    with np.errstate(all="ignore"):
        value = evaluate(problem, w).objective if np.isfinite(w).all() else math.inf
    return math.inf if math.isnan(value) else value


def new_guard(problem: AnySum, model: TaylorModel, x0: Vector) -> Guard:
    """Return the guard at the start; from other points than 0 an empty model knows no loss there."""
    least = math.inf
    if isinstance(problem, Problem) and (model.visited.all() or not x0.any()):
        least = _at_anchors(problem, model, x0)
    return Guard(x0.copy(), least, math.nan)


def guarded(
    problem: AnySum, guard: Guard, before: Vector, w: Vector, model: TaylorModel, trust: Trust, rule: TrustRule
) -> tuple[Guard, Retreat | None, int]:
    """Return the guard after a pass from `before` to w, where to go back to, and the passes that this took."""
    if not rule.acts or (isinstance(problem, FiniteSum) and problem.convex):
        return guard, None, 0
    rests = math.isnan(guard.objective)
    if rests and isinstance(problem, Problem):
        level = _at_anchors(problem, model, w)
        if level <= guard.least + abs(guard.least):
            return guard._replace(least=min(level, guard.least)), None, 0
    earlier = [before, guard.start] if rests and not np.array_equal(before, guard.start) else [before]
    objective = _objective(problem, w)
    objectives = [_objective(problem, x) for x in earlier] if rests else [guard.objective]
    n_passes = 1 + len(earlier) * rests
    lowest = int(np.argmin(objectives))
    least = objectives[lowest]
    if objective <= least + RISE * abs(least) or math.isinf(least):
        return guard._replace(objective=objective), None, n_passes
    return guard._replace(objective=least), _retreat(problem, earlier[lowest], trust, rule), n_passes + 1


def _retreat(problem: AnySum, w: Vector, trust: Trust, rule: TrustRule) -> Retreat:
    """Return w with all components anchored there, and a trust that does not compare in the next pass."""
    m = problem.n_components
    longest = min(trust.radius, trust.reached) if 0.0 < trust.reached < math.inf else trust.radius
    again = new_trust(problem, w, rule)._replace(
        n_compared=-m,
        n_visits=trust.n_visits,
        trusted=0.5 * trust.trusted,
        radius=math.inf if rule.majorizes else 0.1 * longest,
    )
    model, comparison = taylor.empty_model(problem), no_comparison(problem)
    _anchor_all(problem.view, taylor.opened(model), w, comparison, again, rule)
    return Retreat(w.copy(), model, comparison, again)
