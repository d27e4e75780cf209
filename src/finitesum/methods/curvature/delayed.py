"""CIAG and A-CIAG without a barrier between parts of the data: their recursion, with visits that are asked for ahead.

Step t takes the change of one component's Taylor model that was asked for at w_{t-k} (`finitesum.methods.delayed_visits`),
and steps on the mean model, as a visit at w_t does (`finitesum.methods.curvature.ciag`):

    (b, H) <- (b, H) with component j anchored at w_{t-k},   k <= max_delay
    w_{t+1} <- a step on b + H y from y = w_t + extrapolation (w_t - w_{t-1})

A model of age k errs by O(|w_t - w_{t-k}|^2) in the gradient. A component whose Hessian foretold the change of its gradient
to a tenth keeps it: its change is then one of the gradient alone, d numbers in the place of d^2, and takes no Gram matrix.
The first step comes with the first visit after every component was visited.
"""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.engine import done
from finitesum.core.vectors import scale
from finitesum.evaluation.part_components import Change, Known, is_stale
from finitesum.methods.curvature import taylor_model as taylor, trust as trusted
from finitesum.methods.curvature.taylor_model import OpenModel
from finitesum.methods.curvature.trust import Comparison, Trust, TrustRule
from finitesum.methods.delayed_visits import Delay, Limits, Visit, Visits
from finitesum.problems.finite_sum import FiniteSum


def _evaluated(problem: FiniteSum, j: int, w: Vector, known: Known | None) -> Any:
    """Return a future that is done, of the change of a function's model."""
    gradient, predicted, rise = problem.component_gradient(w, j), np.zeros(w.size), None
    if known is None:
        rise = problem.component_hessian(w, j)
    else:
        old = problem.component_hessian(known.curved_at, j)
        predicted = old @ (w - known.anchor)
        if is_stale(gradient, known, predicted):
            rise = problem.component_hessian(w, j) - old
    return done((Change(gradient, predicted, rise, 0.0), ()))


class ModelVisits(Visits):
    """Visits for the change of a component's Taylor model."""

    def __init__(self, problem: FiniteSum, model: OpenModel, delay: Delay, limits: Limits, order: Indices) -> None:
        super().__init__(problem, delay, limits, order)
        self.model = model

    def _known(self, j: int) -> Known:
        return Known(*(one[j].copy() for one in (self.model.margins, self.model.slopes, self.curved_at)))

    def key_of(self, j: int) -> tuple[bytes, ...]:
        """Return the model's points and gradient."""
        return tuple(one.tobytes() for one in self._known(j))

    def asked(self, j: int, point: Vector) -> Any:
        """Return a future of the change of the model."""
        before = self._known(j) if self.model.visited[j] else None
        ask = getattr(self.problem.components[j], "ask_change", None)
        return _evaluated(self.problem, j, point, before) if ask is None else ask(point, before)


def moved_model(
    model: OpenModel,
    visit: Visit,
    comparison: Comparison,
    trust: Trust,
    rule: TrustRule,
    eigenvalue: float,
    direction: Vector,
) -> tuple[Trust, float]:
    """Move a component's model by the change that it sent: what `trust.trusted_visit` does, and returns."""
    (j, point, change, *_), m = visit, model.visited.size
    was_visited = bool(model.visited[j])
    if was_visited:
        scale(comparison.residual, 1.0 - 1.0 / rule.window)
        scale(comparison.predicted, 1.0 - 1.0 / rule.window)
    if not visit.is_finite:
        return trusted.overflowed(trust, m), np.nan
    moved = change.gradient - model.slopes[j] - change.predicted
    if was_visited:
        comparison.residual[:] += moved / m
        comparison.predicted[:] += change.predicted / m
    increase = 0.0
    if change.rise is not None:
        rise = change.rise / m
        model.hessian[: point.size, : point.size] += np.tril(rise)
        model.linear[:] -= rise @ point
        increase = taylor.bound_of_rise(rise, eigenvalue, direction)
    model.linear[:] += moved / m
    model.margins[j], model.slopes[j], model.visited[j] = point, change.gradient, True
    return trusted.next_trust(trust, rule, comparison, was_visited, m), increase
