"""NIM: after every visit, the minimiser of the mean of the components' Taylor models.

A visit of component j at w moves its Taylor model there, and w to the minimiser of the mean model [1]:

    (b, H) <- (b, H) with component j anchored at w            see `finitesum.methods.curvature.taylor_model`
    w <- w + damping (argmin_v b'v + 1/2 v'Hv + r(v) - w)

r is the l1 penalty or the constraint. With m = 1 it is Newton's method. Memory 3n + d^2, and 2 n d + d^2 for components
given as functions. The solvers:

========== ====================================================================================================
inexact    smooth: conjugate gradients from w, at least one and at most d steps, until the model gradient's largest
           entry is at most min(1, sqrt(G)) G, with G the one at w; in the first pass, while components are missing,
           until it is at most 1. O(d^2) a step. Else: as "exact", to min(1/10, sqrt(G)) G.
exact      smooth: the Cholesky factor of H at each visit, O(d^3). Else: see `methods.subproblems.quadratic_models`.
inverse    smooth, one row to a component: B = H^-1 is kept up, O(d^2) a visit: with v = B x_i and the row's rise in
           curvature c, B <- B - c / (1 + c x_i'v) v v'. B is computed again when a pass begins.
========== ====================================================================================================

Step "auto": damping 1, majorants or shorter steps where models are not trusted
(`finitesum.methods.curvature.trust`), beginning with them; passes that lead too far are undone
(`finitesum.methods.curvature.guard`). A number is the damping, with second derivatives throughout, as
in the paper, which converges locally. b and H are summed again every 50 passes, and when H has shrunk to a tenth, because
sums keep the rounding errors of their largest terms.

Deviations: H starts as l2 I (the paper makes a full pass, as does warm_start_method="full"); the tolerance rests on the
model gradient, not on the stale mean gradient; the difference from w is solved for, which keeps digits near the optimum.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.methods.base import SumMethod, copied
from finitesum.methods.cost_model import threads_for_matrices
from finitesum.methods.curvature import taylor_model as taylor, trust as trusted
from finitesum.methods.curvature.guard import Guard, guarded, new_guard
from finitesum.methods.curvature.model_minimisers import Run, exact_pass, inexact_visits, inverse_pass
from finitesum.methods.curvature.taylor_model import TaylorModel
from finitesum.methods.curvature.trust import Comparison, Trust, TrustRule
from finitesum.methods.parameters import Damping
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem

#: The factor between entries of H's diagonal from which on those of the model gradient say nothing of how far the minimiser
#: is: columns of sizes 1 : 1000. "auto" then takes "exact" up to this many variables, for what d steps cost.
DIFFERENT, MOST_FACTORED = 1e6, 100


def _sizes_differ(model: TaylorModel) -> bool:
    """Return whether conjugate gradients would end by a tolerance that has no meaning, and a factor costs no more."""
    diagonal = np.diagonal(model.hessian)[: model.linear.size]
    used = diagonal[diagonal > 0.0]
    return used.size > 0 and diagonal.size <= MOST_FACTORED and bool(used.max() > DIFFERENT * used.min())


class NIMState(NamedTuple):
    x: Vector  # iterate
    model: TaylorModel
    comparison: Comparison
    trust: Trust
    guard: Guard
    peak: float  # the largest diagonal entry of H since b and H were summed again
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class NIM(SumMethod):
    """The Newton-type incremental method: after every visit, the minimiser of the mean second-order model.

    w+ = w + damping (argmin_v b'v + 1/2 v'Hv + r(v) - w)    [1, eqs. 4, 5]

    A quadratic is solved once every component was visited.

    Parameters
    ----------
    step_size : float in (0, 1] or "auto"
        The damping; "auto" goes all the way where models are trusted: nothing to tune.
    solver : {"inexact", "exact", "inverse"}
        How the model is minimised: conjugate gradients, a Cholesky factor at each visit, or an inverse that is kept up
        (one row to a component).
    warm_start_method : {"none", "full"}
        How the memory fills: "none", components join at their first visit; "full", all at the start, by one full pass.

    References
    ----------
    .. [1] A. Rodomanov, D. Kropotov, "A superlinearly-convergent proximal Newton-type method for the optimization of finite
       sums", ICML 2016.
    """

    step_size: Damping = "auto"
    solver: Literal["inexact", "exact", "inverse"] = "inexact"
    warm_start_method: Literal["none", "full"] = "none"

    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"constraint", "groups"}
    default_sampling: ClassVar[str] = "shuffled-once"

    needs_hessians = True  # at the anchors

    def _require_solvable(self, problem: AnySum) -> None:
        if self.solver != "inverse":
            return
        if not isinstance(problem, Problem) or problem.n_outputs > 1:
            raise ValueError(
                'solver "inverse" needs rows of a linear model with one output. Use solver="exact" or leave it out.'
            )
        if (problem.batch_size or 1) > 1:
            raise ValueError(f'solver "inverse" needs batch_size=1, got {problem.batch_size}. Use solver="exact".')
        if not problem.is_smooth:
            raise ValueError('solver "inverse" needs a smooth problem. Use solver="exact" with l1 penalties.')

    def _rule(self, problem: AnySum) -> TrustRule:
        return trusted.trust_rule(problem, acts=self.step_size == "auto", is_gradual=False)

    def blas_threads(self, problem: AnySum) -> int | None:
        return threads_for_matrices(problem)

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> NIMState:
        self._require_solvable(problem)
        is_full = self.warm_start_method == "full"
        model = taylor.full_model(problem, x0) if is_full else taylor.empty_model(problem)
        trust = trusted.new_trust(problem, x0, self._rule(problem))
        n_visits = problem.n_components if is_full else 0
        guard = new_guard(problem, model, x0)
        return NIMState(x0.copy(), model, trusted.no_comparison(problem), trust, guard, 0.0, n_visits, n_visits)

    def run_pass(self, problem: AnySum, state: NIMState, order: Indices) -> NIMState:
        model, comparison = taylor.copy_model(state.model), copied(state.comparison)
        rule, damping = self._rule(problem), 1.0 if self.step_size == "auto" else float(self.step_size)
        run = Run(state.x.copy(), taylor.opened(model), comparison, rule, damping)
        if self.solver == "inverse":
            trust, n_visits = inverse_pass(cast(Problem, problem), order, run, state.trust)
        elif self.solver == "inexact" and problem.is_smooth and not (rule.acts and _sizes_differ(state.model)):
            trust, n_visits = inexact_visits(problem.view, order, run, state.trust)
        else:
            trust, n_visits = exact_pass(problem, order, run, state.trust, to_rounding=self.solver == "exact")
        n_hessians = state.n_hessians + taylor.hessians_of_visits(problem, n_visits, state.model, model)
        n_gradients = state.n_gradients + n_visits
        guard, back, n_more = guarded(problem, state.guard, state.x, run.w, model, trust, rule)
        n_gradients += n_more * problem.n_components
        after = NIMState(run.w, model, comparison, trust, guard, state.peak, n_gradients, n_hessians)
        if back is None:
            return self._finished(problem, after)
        w, model, comparison, trust = back
        n_hessians += problem.n_components
        peak = float(np.diagonal(model.hessian).max())
        return NIMState(w, model, comparison, trust, guard, peak, n_gradients, n_hessians)

    def _finished(self, problem: AnySum, state: NIMState) -> NIMState:
        """Return the state after a pass, b and H summed again where they need it."""
        size = float(np.diagonal(state.model.hessian).max())
        peak, n_passes = max(state.peak, size), state.n_gradients // problem.n_components
        if not (size < 0.1 * peak or n_passes % taylor.REBUILD_EVERY == taylor.REBUILD_EVERY - 1):
            return state._replace(peak=peak)
        model, n_more = taylor.rebuilt(problem, state.model)
        return state._replace(model=model, peak=size, n_hessians=state.n_hessians + n_more)

    def estimate(self, problem: AnySum, state: NIMState) -> float:
        """Return the optimality of the model and its estimated error, NaN before every component was visited.

        Of functions the first models may be far off: then NaN as well before a tenth of a pass was compared.
        """
        is_early = state.trust.n_compared < trusted.comparison_window(problem.n_components)
        if not state.model.visited.all() or (isinstance(problem, FiniteSum) and is_early):
            return math.nan
        gradient = taylor.model_gradient(state.model, state.x)
        return trusted.error_estimate(problem, state.comparison.residual) + problem.term.optimality(state.x, gradient)

    def default_batch_size(self, problem: Problem) -> int:
        """Return the size at which reading the rows costs about what ten products with H cost, at most n / 100."""
        per_row = problem.rows.values.size / problem.n_rows
        wanted = 20.0 * (problem.dim / max(per_row, 1.0)) ** 2
        return 1 if self.solver == "inverse" else max(1, int(min(max(wanted, 16.0), problem.n_rows / 100)))
