"""IG: one component gradient a visit, with a decreasing step (SGD where the order is drawn with replacement).

    x <- prox(x - step_e (nabla loss_j(x) + l2 x)),    step_e = step_0 / e in pass e = 1, 2, ...

Nothing is remembered but the pass. It never reaches high accuracy: with a constant step it stops at a ball around the
optimum, with the decreasing one it slows down. It is here because every other method is measured against it.
Sparse rows: the visit is O(d), for the penalty moves every coordinate.

References
----------
.. [1] A. Nedic, D. Bertsekas, "Convergence rate of incremental subgradient algorithms", 2001.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.evaluation.smoothness import component_smoothness
from finitesum.methods.base import Auto, Card, check_choice, check_positive, with_general_form
from finitesum.methods.general.steps import IGForm
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row
from finitesum.problems.term import prox_in_place


class IGState(NamedTuple):
    x: Vector  # iterate
    step_size: float  # of the first pass
    n_passes: int
    n_gradients: int
    n_hessians: int


@kernel
def _visits(linear_sum: LinearSum, order: Indices, x: Vector, step_size: float) -> int:
    gradient = np.zeros(x.size)
    ridge = linear_sum.penalty.ridge()
    n_visits = 0
    for component in order:
        gradient[:] = 0.0
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            if linear_sum.weights[i] == 0.0:
                continue
            prediction = linear_sum.rows.dot(i, x) + linear_sum.offsets[i]
            slope = linear_sum.loss.d1(prediction, linear_sum.targets[i])
            linear_sum.rows.add_to(i, linear_sum.n_components * linear_sum.weights[i] * slope, gradient)
        for j in range(x.size):
            x[j] -= step_size * (gradient[j] + (ridge * x[j] if j < linear_sum.n_penalised else 0.0))
        prox_in_place(linear_sum, x, step_size)
        n_visits += 1
        if not np.isfinite(np.sum(x)):
            break
    return n_visits


@with_general_form
@dataclass(frozen=True)
class IG:
    """The incremental (proximal) gradient method with step step_0 / e in pass e.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        step_0; "auto" is 1 / L_max.
    decay : {"1/pass", "constant"}
        Whether the step falls like 1 / e or stays.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = IG(step_size=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([1.])

    References
    ----------
    .. [1] A. Nedic, D. Bertsekas, "Convergence rate of incremental subgradient algorithms", 2001.
    """

    step_size: float | Auto = "auto"
    decay: str = "1/pass"

    name: ClassVar[str] = "ig"
    state_type: ClassVar[type[IGState]] = IGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "prox", "groups"})
    default_sampling: ClassVar[str] = "shuffled"
    card: ClassVar[Card] = Card(
        "incremental gradient",
        "d",
        "d",
        "1/eps (sublinear)",
        "smooth, strongly convex",
        "Nedic, Bertsekas 2001",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_choice("decay", self.decay, ("1/pass", "constant"))

    def general(self) -> IGForm:
        """Return the method for components that are objects or callables."""
        return IGForm(self.step_size, decays=self.decay == "1/pass")

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> IGState:
        """Return the state before the first visit."""
        step_size = 1.0 / component_smoothness(problem) if self.step_size == "auto" else float(self.step_size)
        return IGState(x0.copy(), step_size, 0, 0, 0)

    @property
    def stall_advice(self) -> str:
        """What to do where nothing is gained any more."""
        if self.decay == "constant":
            return (
                "With a constant step this method comes near the minimum and no nearer: "
                'leave decay at "1/pass", give a smaller step_size, or use a method that converges, such as saga.'
            )
        return (
            "With falling steps this method comes ever more slowly to the minimum: use one such as saga, or loosen tol."
        )

    def run_pass(self, problem: Problem, state: IGState, order: Indices) -> IGState:
        """Return the state after the visits of `order`."""
        x = state.x.copy()
        step_size = state.step_size / (state.n_passes + 1) if self.decay == "1/pass" else state.step_size
        n_visits = _visits(problem.view, order, x, step_size)
        return state._replace(x=x, n_passes=state.n_passes + 1, n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: Problem, state: IGState) -> float:
        """Return NaN: nothing is known of the full gradient."""
        return float("nan")

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1
