"""SARAH: component gradients that correct the direction of the step before.

A pass begins with a step along the full gradient, v the gradient of the mean loss; a visit of component j, at w with w' the
iterate before, then does ([1, Algorithm 1], with the prox of [2, eq. 6])

    v <- nabla f_j(w) - nabla f_j(w') + v,    w <- prox(w - step (v + l2 w)).

v is a biased estimate of the gradient, whose variance vanishes as the iterates come to rest. Memory 3d; a visit costs two
component gradients and O(d), on sparse rows too. Deviations: the quadratic penalty is no part of v and enters exactly;
components come in the given order; the last iterate of a pass goes on, not a random one.

References
----------
.. [1] L. Nguyen et al., "SARAH: a novel method for machine learning problems using stochastic recursive gradient", 2017.
.. [2] N. Pham et al., "ProxSARAH: an efficient framework for stochastic composite nonconvex optimization", 2020.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.core.vectors import copy
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.base import SumMethod
from finitesum.methods.constants import Constant, smoothness_at
from finitesum.methods.parameters import StepSize
from finitesum.methods.visits import AnySum, add_component_gradient, prox_view, step_along
from finitesum.problems.view import View


class SARAHState(NamedTuple):
    x: Vector  # iterate
    step_size: float
    last_optimality: float  # at the beginning of the last pass
    n_gradients: int
    n_hessians: int


@kernel
def _visits(view: View, order: Indices, w: Vector, previous: Vector, v: Vector, step_size: float) -> int:
    m = float(view.n_components)
    for k, component in enumerate(order):
        finite = add_component_gradient(view, component, w, m, v)
        add_component_gradient(view, component, previous, -m, v)
        copy(w, previous)
        step_along(view, w, v, step_size)
        if not finite:
            return k + 1
    return order.size


@dataclass(frozen=True)
class SARAH(SumMethod):
    """The stochastic recursive gradient method: v <- nabla f_j(w) - nabla f_j(w') + v, w <- prox(w - step v).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / (2 L_max), with L_max the largest smoothness of a component.
    """

    step_size: StepSize = "auto"

    wants_scaled_columns: ClassVar[bool] = True

    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"constraint", "groups"}

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> SARAHState:
        if not isinstance(self.step_size, str):
            return SARAHState(x0.copy(), float(self.step_size), math.nan, 0, 0)
        smoothness, _, n_gradients, n_hessians = smoothness_at(problem, x0, Constant.LARGEST)
        return SARAHState(x0.copy(), 0.5 / smoothness, math.nan, n_gradients, n_hessians)

    def run_pass(self, problem: AnySum, state: SARAHState, order: Indices) -> SARAHState:
        """Return the state after a step along the full gradient and the visits of `order`."""
        measures = evaluate(problem, state.x)
        v = measures.gradient - problem.term.quadratic * state.x
        w = problem.term.prox_step(state.x, measures.gradient, state.step_size)
        n_visits = _visits(prox_view(problem), order, w, state.x.copy(), v, state.step_size)
        n_gradients = state.n_gradients + problem.n_components + 2 * n_visits
        return state._replace(x=w, last_optimality=measures.optimality, n_gradients=n_gradients)
