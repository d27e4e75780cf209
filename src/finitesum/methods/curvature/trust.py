"""Trust in Taylor models: what they missed against what they predicted, and what follows for the next visits.

When component j is visited at w its model predicted a slope at every row; with the true slope that gives, for free,

    delta = sum_i p_i (slope_i - predicted_i) x_i        the residual: the change that the visit brings to b + H w
    pi    = sum_i p_i phi''_i (u_i - last u_i) x_i       the change that the model predicted

and R = ||E delta|| / ||E pi||, with running sums over a tenth of a pass, is the factor by which going to the minimiser of
the mean model shrinks the gradient in a pass. R > 1 is Newton's overshooting. Then

* where the loss has a quadratic majorant, rows take its curvature in the place of the second derivative. With majorants
  only, the mean model lies above F and the method, which then is incremental MM, cannot diverge.
  - Methods that go to the model's minimiser take majorants on all rows from R > 0.9 on until R is small again; what
    counts as small is halved each time.
  - Methods that step take them on all rows while R is large, on rows that are misclassified while R is middling (there the
    loss is nearly linear, and its second derivative says nothing of what comes), on none once R is small; and
    whatever R is, on a single row whose residual is large against its prediction and against the running sum.
* other losses, outputs and functions limit the length of a visit's step: to half and less when R > 0.9, once in a pass
  unless R doubles; to four times as much when R < 1/2 and steps come near the limit, once in a quarter of a pass. After an
  overflow the iterate goes halfway back, and the limit falls to a tenth.

In the first pass there is nothing to compare, but for components that are visited twice.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel_part
from finitesum.core.vectors import axpy, fill, is_finite, norm, scale
from finitesum.evaluation.row_sums import Majorize
from finitesum.methods.curvature import taylor_model as taylor
from finitesum.methods.curvature.taylor_model import OpenModel
from finitesum.methods.visits import AnySum
from finitesum.problems.linear import Problem
from finitesum.problems.view import View, first_row, last_row

#: R below which models are trusted altogether, below which they are trusted in the main, and above which not at all.
FULLY_TRUSTED, TRUSTED, DISTRUSTED = 0.2, 0.5, 0.9

NONE, MISCLASSIFIED, ALL = int(Majorize.NONE), int(Majorize.MISCLASSIFIED), int(Majorize.ALL)


class Comparison(NamedTuple):
    """Running sums of what models missed and predicted."""

    residual: Vector  # (d,)  E delta
    predicted: Vector  # (d,)  E pi


class Trust(NamedTuple):
    """What is known of the models, and what follows from it."""

    ratio: float  # R, NaN before it is known
    residual_size: float  # ||E delta||
    n_compared: int  # comparisons that R rests on
    n_visits: int
    majorize: int  # which rows take the majorant's curvature, a `Majorize`
    trusted: float  # R below which second derivatives come back
    radius: float  # the longest step of a visit, infinite where there is a majorant
    quiet_until: int  # the visit before which the radius stays as it is
    cut_ratio: float  # R when the radius was last cut
    reached: float  # the longest step that a visit had without the radius, since it was last changed


class TrustRule(NamedTuple):
    """What decides on the consequences of R."""

    acts: bool  # else R is measured only
    majorizes: bool  # whether rows may take the curvature of the loss's majorant
    has_signs: bool  # targets are -1 and +1
    is_gradual: bool  # for methods that step; else for those that go to the model's minimiser
    window: float  # the visits that the running sums look back on


def no_comparison(problem: AnySum) -> Comparison:
    """Return the running sums before the first comparison."""
    return Comparison(np.zeros(problem.dim), np.zeros(problem.dim))


def trust_rule(problem: AnySum, *, acts: bool, is_gradual: bool) -> TrustRule:
    """Return the rule for a problem."""
    majorizes = False
    if acts and isinstance(problem, Problem) and problem.n_outputs == 1:
        majorizes = math.isfinite(problem.loss.majorant(0.0, 1.0))
    has_signs = problem.loss.target_kind() == "sign"
    return TrustRule(acts, majorizes, has_signs, is_gradual, comparison_window(problem.n_components))


def new_trust(problem: AnySum, w0: Vector, rule: TrustRule) -> Trust:
    """Return the trust before the first visit: in majorants, or steps as if the minimum were ten times ||w0|| away."""
    reach = 10.0 * max(1.0, float(np.linalg.norm(w0))) / problem.n_components
    majorize = ALL if rule.majorizes else NONE
    radius = reach if rule.acts and not rule.majorizes else math.inf
    return Trust(math.nan, 0.0, 0, 0, majorize, TRUSTED, radius, 0, math.inf, 0.0)


def comparison_window(n_components: int) -> float:
    """Return h, the visits that the running sums look back on: a tenth of a pass."""
    return max(0.1 * n_components, 1.0)


@kernel_part
def _majorize_gradually(majorize: int, ratio: float) -> int:
    if ratio > DISTRUSTED:
        return ALL
    if majorize == ALL:
        return MISCLASSIFIED if ratio < TRUSTED else ALL
    if ratio < FULLY_TRUSTED:
        return NONE
    return MISCLASSIFIED if ratio > TRUSTED else majorize


@kernel_part
def _majorize_at_once(majorize: int, ratio: float, trusted: float) -> tuple[int, float]:
    if ratio > DISTRUSTED and majorize == NONE:
        return ALL, 0.5 * trusted
    return NONE if ratio < trusted else majorize, trusted


@kernel_part
def _limited(trust: Trust, ratio: float, now: int, n_components: int) -> tuple[float, int, float, float]:
    """Return the radius, until when it stays, R at its last cut, and the longest step."""
    is_quiet = now < trust.quiet_until
    if ratio < TRUSTED and not is_quiet and trust.reached > 0.25 * trust.radius:
        return 4.0 * trust.radius, now + max(n_components // 4, 1), np.inf, 0.0
    if ratio > DISTRUSTED and not (is_quiet and ratio <= 2.0 * trust.cut_ratio):
        return trust.radius * max(0.05, 0.45 / ratio), now + n_components, ratio, 0.0
    return trust.radius, trust.quiet_until, trust.cut_ratio, trust.reached


@kernel_part
def next_trust(trust: Trust, rule: TrustRule, comparison: Comparison, was_compared: bool, n_components: int) -> Trust:
    """Return the trust after one more visit."""
    ratio, size, n_compared, n_visits, majorize, trusted, radius, quiet_until, cut_ratio, reached = trust
    n_visits += 1
    if was_compared:
        n_compared += 1
        size = norm(comparison.residual)
        predicted = norm(comparison.predicted)
        if n_compared >= 3 and predicted > 1e-15:
            ratio = size / predicted
            if rule.acts and rule.is_gradual:
                majorize = _majorize_gradually(majorize, ratio)
            elif rule.acts:
                majorize, trusted = _majorize_at_once(majorize, ratio, trusted)
            if rule.acts and not rule.majorizes:
                radius, quiet_until, cut_ratio, reached = _limited(trust, ratio, n_visits, n_components)
    return Trust(ratio, size, n_compared, n_visits, majorize, trusted, radius, quiet_until, cut_ratio, reached)


@kernel_part
def overflowed(trust: Trust, n_components: int) -> Trust:
    """Return the trust after a visit that met something infinite."""
    ratio, size, n_compared, n_visits, majorize, trusted, radius, _, cut_ratio, _ = trust
    now = n_visits + 1
    return Trust(ratio, size, n_compared, now, majorize, trusted, 0.1 * radius, now + n_components, cut_ratio, 0.0)


@kernel_part
def stepping(trust: Trust, length: float) -> Trust:
    """Return the trust that knows how long the step of a visit was without the radius."""
    ratio, size, n_compared, n_visits, majorize, trusted, radius, quiet_until, cut_ratio, reached = trust
    reached = max(reached, length)
    return Trust(ratio, size, n_compared, n_visits, majorize, trusted, radius, quiet_until, cut_ratio, reached)


@kernel_part
def trusted_visit(
    view: View,
    model: OpenModel,
    component: int,
    w: Vector,
    comparison: Comparison,
    trust: Trust,
    rule: TrustRule,
    eigenvalue: float,
    direction: Vector,
) -> tuple[Trust, float]:
    """Move a component's anchor to w, and compare; return the trust and a bound on the rise of lambda_max(H).

    The bound is NaN where something overflows. Eigenvalue and direction are those of `raise_bounded_curvature`.
    """
    rows, loss = view.rows, view.loss
    was_visited = model.visited[component]
    if was_visited:
        scale(comparison.residual, 1.0 - 1.0 / rule.window)
        scale(comparison.predicted, 1.0 - 1.0 / rule.window)
    increase = 0.0
    for i in range(first_row(view, component), last_row(view, component)):
        target, offset, weight = view.targets[i], view.offsets[i], view.weights[i]
        if weight == 0.0:
            continue  # it counts for nothing, and an overflow there would count
        margin = rows.dot(i, w)
        slope, curvature = loss.d1_d2(margin + offset, target)
        last = taylor.curvature_at_anchor(view, model, i)
        if not (is_finite(slope) and is_finite(curvature)):
            return overflowed(trust, view.n_components), np.nan
        majorizes = trust.majorize == ALL
        if trust.majorize == MISCLASSIFIED and rule.has_signs:
            majorizes = target * (margin + offset) < 0.0
        if was_visited:
            predicted = taylor.predicted_change(view, model, i, margin, last)
            missed = slope - model.slopes[i] - predicted
            rows.add_to(i, weight * missed, comparison.residual)
            rows.add_to(i, weight * predicted, comparison.predicted)
            if rule.majorizes and rule.is_gradual and abs(missed) > DISTRUSTED * abs(predicted):
                size = weight * abs(missed) * np.sqrt(rows.squared_norm(i))
                majorizes = majorizes or size > 0.5 * trust.residual_size
        if rule.majorizes and majorizes:
            curvature = loss.majorant(margin + offset, target)
        rise = weight * (curvature - last)
        increase += taylor.raise_bounded_curvature(view, model, i, rise, eigenvalue, direction)
        taylor.move_anchor(view, model, i, margin, slope, curvature, last)
    model.visited[component] = True
    return next_trust(trust, rule, comparison, was_visited, view.n_components), increase


@kernel_part
def go_back(w: Vector, start: Vector, is_lost: bool) -> None:
    """After an overflow go halfway back to the start of the last step, to NaN where that does not help."""
    axpy(1.0, start, w)
    scale(w, 0.5)
    if is_lost:
        fill(w, np.nan)


def error_estimate(problem: AnySum, residual: Vector) -> float:
    """Return (m / h) ||E delta||, an estimate of the model gradient's error at the last iterate."""
    window = comparison_window(problem.n_components)
    return float(problem.n_components / window * np.linalg.norm(residual))
