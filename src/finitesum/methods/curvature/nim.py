"""NIM: after every visit, the minimiser of the mean of the components' second-order models.

A visit of component j at x moves its Taylor model there, and jumps to the minimiser of the mean model [1]:

    (b, H) <- (b, H) with component j anchored at x            see `finitesum.methods.curvature.taylor_model`
    z = argmin_v b'v + 1/2 v'Hv + r(v),    x <- x + damping (z - x)

r is the l1 penalty or the constraint. With m = 1 it is Newton's method. Memory 3n + d^2. The solvers:

========== ====================================================================================================
inexact    smooth: conjugate gradients from x, at least one and at most d steps, until the model gradient's largest
           entry is at most min(1, sqrt(G)) G, with G the one at x; in the first pass, while components are missing,
           until it is at most 1. O(d^2) a step. Else: as "exact", to the same tolerance.
exact      smooth: the Cholesky factor of H at each visit, O(d^3). Else: see `methods.subproblems.quadratic_models`.
inverse    smooth, one row to a component: B = H^-1 is kept up, O(d^2) a visit: with v = B z_i and the row's rise in
           curvature c, B <- B - c / (1 + c z_i'v) v v'. B is computed again at the head of each pass.
========== ====================================================================================================

Step "auto": damping 1, and the guard of `finitesum.methods.curvature.trust`, which begins with majorants. A number is
the damping, with second derivatives throughout, as in the paper, which converges locally. b and H are summed again
every 50 passes, and when H has shrunk to a tenth, because sums remember the rounding errors of their largest terms.

Deviations: H starts as l2 I (paper: a full pass, to be had by warm_start_method="full"); the tolerance rests on the model
gradient, not on the stale mean gradient; solving for z - x instead of z, which keeps digits near the optimum.

References
----------
.. [1] A. Rodomanov, D. Kropotov, "A superlinearly-convergent proximal Newton-type method for the optimization of finite
   sums", ICML 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.methods.base import Auto, Card, check_choice, check_positive, with_general_form
from finitesum.methods.curvature.model_minimisers import exact_pass, inexact_pass, inverse_pass
from finitesum.methods.curvature.taylor_model import (
    Surrogate,
    copy_surrogate,
    empty_surrogate,
    full_surrogate,
    model_gradient,
    rebuilt,
)
from finitesum.methods.curvature.trust import Guard, copy_guard, error_estimate, new_guard, no_guard
from finitesum.methods.general.surrogates import NIMForm
from finitesum.problems.linear import Problem

#: Passes after which b and H are summed again.
REBUILD_EVERY = 50


class NIMState(NamedTuple):
    x: Vector  # iterate
    surrogate: Surrogate
    guard: Guard
    peak: float  # the largest diagonal entry of H since b and H were summed again
    n_gradients: int
    n_hessians: int


@with_general_form
@dataclass(frozen=True)
class NIM:
    """The Newton-type incremental method: after every visit, the minimiser of the mean second-order model.

    x+ = x + damping (argmin_v b'v + 1/2 v'Hv + r(v) - x)    [1, eqs. 4, 5]

    Parameters
    ----------
    step_size : float in (0, 1] or "auto"
        The damping; "auto" jumps all the way and guards against bad models: nothing to tune.
    solver : {"inexact", "exact", "inverse"}
        How the model is minimised: conjugate gradients, a Cholesky factor at each visit, or an inverse that is kept up
        (one row to a component).
    warm_start_method : {"none", "full"}
        How the memory fills: "none", components join at their first visit; "full", all at the start, by one full pass.

    Raises
    ------
    ValueError
        A parameter is out of range, or the solver cannot treat the problem.

    Examples
    --------
    A quadratic is solved once every component was seen:

    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared")
    >>> method = NIM(solver="exact")
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([0.6])

    References
    ----------
    .. [1] A. Rodomanov, D. Kropotov, "A superlinearly-convergent proximal Newton-type method for the optimization of finite
       sums", ICML 2016.
    """

    step_size: float | Auto = "auto"
    solver: str = "inexact"
    warm_start_method: str = "none"

    name: ClassVar[str] = "nim"
    state_type: ClassVar[type[NIMState]] = NIMState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "weights", "constraint", "prox", "groups"})
    default_sampling: ClassVar[str] = "shuffled-once"
    card: ClassVar[Card] = Card(
        "Newton-type incremental method",
        "m + d^2",
        "d^3; d^2 with one row to a component",
        "o(log 1/eps) near the optimum (superlinear), worst case",
        "smooth, strongly convex, Lipschitz Hessian",
        "Rodomanov, Kropotov 2016",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if self.step_size != "auto" and self.step_size > 1.0:
            raise ValueError(
                f"step_size must be at most 1, got {self.step_size}: a jump ends at the model's minimiser."
            )
        check_choice("solver", self.solver, ("inexact", "exact", "inverse"))
        check_choice("warm_start_method", self.warm_start_method, ("none", "full"))

    def general(self) -> NIMForm:
        """Return the method for components that are objects or callables.

        Raises
        ------
        ValueError
            The solver is "inverse", which is about single rows of a linear model.
        """
        if self.solver == "inverse":
            raise ValueError('solver "inverse" needs rows of a linear model. Use solver="exact" or leave it out.')
        return NIMForm(self.step_size, self.solver == "exact", self.warm_start_method == "full")

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> NIMState:
        """Return the state before the first visit."""
        self._require_solvable(problem)
        full = self.warm_start_method == "full"
        surrogate = full_surrogate(problem, x0) if full else empty_surrogate(problem)
        guard = new_guard(problem, x0) if self.step_size == "auto" else no_guard(problem)
        n_visits = problem.n_components if full else 0
        return NIMState(x0.copy(), surrogate, guard, 0.0, n_visits, n_visits)

    def _require_solvable(self, problem: Problem) -> None:
        if self.solver == "inverse" and (problem.batch_size or 1) > 1:
            raise ValueError(f'solver "inverse" needs batch_size=1, got {problem.batch_size}. Use solver="exact".')
        if self.solver == "inverse" and not problem.is_smooth:
            raise ValueError('solver "inverse" needs a smooth problem. Use solver="exact" with l1 penalties.')

    def run_pass(self, problem: Problem, state: NIMState, order: Indices) -> NIMState:
        """Return the state after the visits of `order`."""
        x, surrogate, guard = state.x.copy(), copy_surrogate(state.surrogate), copy_guard(state.guard)
        damping = 1.0 if self.step_size == "auto" else float(self.step_size)
        smooth = problem.term.is_smooth
        if self.solver == "inverse":
            guard, n_visits = inverse_pass(problem, order, x, surrogate, guard, damping)
        elif self.solver == "inexact" and smooth:
            guard, n_visits = inexact_pass(problem, order, x, surrogate, guard, damping)
        else:
            exact = self.solver == "exact"
            guard, n_visits = exact_pass(problem, order, x, surrogate, guard, damping, to_rounding=exact)
        return self._finished(problem, state, x, surrogate, guard, n_visits)

    def _finished(
        self, problem: Problem, state: NIMState, x: Vector, surrogate: Surrogate, guard: Guard, n_visits: int
    ) -> NIMState:
        """Return the state after a pass, b and H summed again where they need it."""
        n_gradients = state.n_gradients + n_visits
        size = float(np.diagonal(surrogate.hessian).max())
        peak = max(state.peak, size)
        if size < 0.1 * peak or n_gradients // problem.n_components % REBUILD_EVERY == REBUILD_EVERY - 1:
            surrogate, peak = rebuilt(problem, surrogate), size
        return NIMState(x, surrogate, guard, peak, n_gradients, state.n_hessians + n_visits)

    def estimate(self, problem: Problem, state: NIMState) -> float:
        """Return what model and free error signal say of the optimality, NaN before the first pass is over."""
        if not state.surrogate.visited.all():
            return math.nan
        gradient = model_gradient(state.surrogate, state.x)
        return error_estimate(problem, state.guard) + problem.term.optimality(state.x, gradient)

    def default_batch_size(self, problem: Problem) -> int:
        """Return the size at which reading the rows costs about what ten products with H cost, at most n / 100."""
        per_row = problem.rows.values.size / problem.n_rows
        wanted = 20.0 * (problem.dim / max(per_row, 1.0)) ** 2
        return 1 if self.solver == "inverse" else max(1, int(min(max(wanted, 16.0), problem.n_rows / 100)))
