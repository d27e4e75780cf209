"""IG: one component gradient a visit, with a decreasing step (SGD where the order is drawn with replacement).

    w <- prox(w - step_e (nabla f_j(w) + l2 w)),    step_e = step_0 / e in pass e = 1, 2, ...

Nothing is remembered but the pass. It never reaches high accuracy: with a constant step it stops at a ball around the
optimum, with the decreasing one it slows down. It is here because every other method is measured against it.
Sparse rows: the visit is O(d), because the penalty moves every coordinate.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.core.vectors import fill
from finitesum.methods.base import SumMethod
from finitesum.methods.constants import Constant, smoothness_at
from finitesum.methods.parameters import StepSize
from finitesum.methods.visits import AnySum, add_component_gradient, prox_view, step_along
from finitesum.problems.view import View


class IGState(NamedTuple):
    x: Vector  # iterate
    step_size: float  # of the first pass
    n_passes: int
    n_gradients: int
    n_hessians: int


@kernel
def _visits(view: View, order: Indices, w: Vector, step_size: float) -> int:
    gradient = np.zeros(w.size)
    for k, component in enumerate(order):
        add_component_gradient(view, component, w, float(view.n_components), gradient)
        step_along(view, w, gradient, step_size)
        fill(gradient, 0.0)
        if not np.isfinite(np.sum(w)):
            return k + 1
    return order.size


@dataclass(frozen=True)
class IG(SumMethod):
    """The incremental (proximal) gradient method with step step_0 / e in pass e.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        step_0; "auto" is 1 / L_max.
    decay : {"1/pass", "constant"}
        Whether the step falls like 1 / e or stays.

    References
    ----------
    .. [1] A. Nedic, D. Bertsekas, "Convergence rate of incremental subgradient algorithms", 2001.
    """

    step_size: StepSize = "auto"
    decay: Literal["1/pass", "constant"] = "1/pass"

    wants_scaled_columns: ClassVar[bool] = True

    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"groups"}

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> IGState:
        if not isinstance(self.step_size, str):
            return IGState(x0.copy(), float(self.step_size), 0, 0, 0)
        smoothness, _, n_gradients, n_hessians = smoothness_at(problem, x0, Constant.LARGEST)
        return IGState(x0.copy(), 1.0 / smoothness, 0, n_gradients, n_hessians)

    @property
    def stall_advice(self) -> str:
        """What to do where passes bring no progress."""
        if self.decay == "constant":
            return (
                "With a constant step this method comes near the minimum and no nearer: "
                'leave decay at "1/pass", give a smaller step_size, or use a method that converges, such as saga.'
            )
        slows = "With falling steps this method comes ever more slowly to the minimum"
        return f"{slows}: use one such as saga, or loosen tol."

    def run_pass(self, problem: AnySum, state: IGState, order: Indices) -> IGState:
        w = state.x.copy()
        step_size = state.step_size / (state.n_passes + 1) if self.decay == "1/pass" else state.step_size
        n_visits = _visits(prox_view(problem), order, w, step_size)
        return state._replace(x=w, n_passes=state.n_passes + 1, n_gradients=state.n_gradients + n_visits)
