"""Newton's method with a line search: the baseline that shows what full Hessians buy.

At w, with g and H the gradient and Hessian of the smooth part of F and r the rest,

    z = argmin_v g'(v - w) + 1/2 (v - w)'H (v - w) + r(v),    w+ = w + t (z - w)    [1, 2]

t is 1 where F does not rise and its slope at z is at most a hundredth of -(g'(z - w) + r(z) - r(w)); else it is searched
to a slope within a hundredth below 0. So losses with quadratic pieces end on the last of them. A pass is one such step: m
component Hessians, m component gradients (2 m when t < 1), O(n d^2 + d^3) work, d^2 + 2n memory. Slopes in between cost n
losses each, on kept predictions; those of components given as functions are charged, a pass each. A number for `step_size`
is used as t and nothing is searched.

Hessians of many dense rows are summed in single precision where the pivots show that it is enough: steps are a little less
exact, gradients not. Of many rows every k-th stands for all, while steps leave more of the optimality than that costs,
until pivots show that it is not enough.

1. *Linear pieces* (of the smoothed hinge, of Huber's loss) have no curvature: there rows take theta times that of the
   loss's majorant, so that a step always has a length. theta falls with each full step and rises with each short one.
2. *The last digits.* From where rounding errors may be a tenth of the optimality, gradients of linear models are summed in
   extended precision (`finitesum.evaluation.rounding`), and a step is taken where its end shows a slope below 0, or less
   optimality: so Newton's steps refine w as far as float64 can hold it. Then w goes to the numbers next to it that leave
   the least (`finitesum.methods.subproblems.lattice`), which need not be the nearest to the solution.
3. *Few rows.* With fewer rows than columns and an l2 penalty no Hessian of all columns is formed: steps come from the
   products of rows (`finitesum.methods.newton.few_rows`), several in a pass where reading the rows costs more.
4. *Several targets.* Of the squared loss all outputs have the same Hessian, that of the rows, and of problems that differ
   in their targets all have it, and its factor: it is made once.
5. *The last step* needs no Hessian of its own. A full step d leaves about M ||d||^2 / 2 of the gradient, with H's Lipschitz
   constant M, and the next step e by the same H leaves M ||d|| ||e||: if the first one left a fraction r of the
   optimality, the next one leaves 2 r. Where that meets tol it is taken in the same pass, which then has 2 m gradients.
6. *Expected Hessians.* For targets of the model the mean of phi'' may be a number whatever the mean is, as that of the
   Gamma loss is. The first Hessian has that number in the place of each row's phi'' [3]: it is near the Hessian at the
   solution, so that four more full steps at most follow in the same pass. From the second one on, as many steps as would
   meet tol at their rate must cost no more than two with Hessians of their own. So runs begin whose coefficients are 0;
   elsewhere, near a solution, rows' own phi'' are better.

A sum of functions need not be convex, nor a loss: where its H is not positive definite, its eigenvalues are replaced by
their sizes, so that F falls along the direction. The references are those of `Newton`.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.hessian import ENOUGH_ROWS, hessian_in_single, is_part_enough, is_single
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.rounding import in_extended_precision, is_rounded, is_rounded_by_norms
from finitesum.methods.base import SumMethod
from finitesum.methods.cost_model import are_squares_of_outputs, has_few_rows, hessian_in_gradients, threads_for_factors
from finitesum.methods.newton.few_rows import end_of_steps, step_from_gradient
from finitesum.methods.newton.last_digits import point_on_grid
from finitesum.methods.newton.searches import ACCURACY, searched
from finitesum.methods.newton.squares import Hessian, of_squares, step_of_outputs
from finitesum.methods.parameters import StepSize
from finitesum.methods.snapshot import Snapshot, sizes_of, smooth_gradient, smooth_hessian, take_snapshot, with_majorants
from finitesum.methods.subproblems.line_search import is_enough
from finitesum.methods.subproblems.positive_definite import apply_inverse, with_positive_eigenvalues
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted

#: What a model's slopes may lack at its minimiser, by the optimality: its step leaves more of that, but for the last one.
#: The model of a quadratic loss is F itself.
EXACT, OF_QUADRATIC = 1e-4, 1e-9

#: The t from which steps are not cut further.
SHORTEST = 1e-3

#: The fraction of F that the rounding errors of a step back onto the set may cost, and from which a fall is one.
HIDDEN, VISIBLE = 1e-13, 1e-16

#: Further steps in a pass with the expected Hessian, at most.
MOST_EXPECTED = 4

#: The part of F from which on a predicted fall is seen for certain: rounding errors are looked at further on.
SEEN = 1e-6

#: The part of tol that a step with the Hessian of the one before must be likely to meet.
LIKELY = 0.5

#: Points next to an iterate that are tried, at most.
MOST_GRIDS = 8

#: What full steps with a part's Hessian leave of the optimality where another one is worth it: Newton's own far away do.
ROUGH, NO_HELP = 0.2, 0.45

#: Passes that may lead no further before nothing is tried any more: theta is 1 then.
MOST_STUCK = 3

#: theta at first, by what factor full steps lower and short ones raise it, and the least that these leave.
FIRST_THETA, LOWER, RAISE, LEAST_RAISED = 0.1, 0.1, 10.0, 0.1


class NewtonState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: the last step has the Hessian of the one before
    snapshot: Snapshot  # at x
    gradient: Vector  # of the smooth part of F at x
    theta: float  # what rows on a linear piece of their loss have of the majorant's curvature
    is_precise: bool  # whether the gradient is summed in extended precision
    step_size: float  # t of the last step, NaN before it
    n_stuck: int  # passes in a row that led no further
    n_grids: int  # points next to an iterate that were tried
    n_gradients: int
    n_hessians: int
    in_single: bool  # whether dense rows are summed to a Hessian in single precision, as long as that is enough
    is_rough: bool  # whether Hessians are those of a part of the rows


def _curvatures(problem: AnySum, state: NewtonState) -> Snapshot:
    """Return the snapshot with rows on a linear piece of their loss at theta times the majorant's curvature.

    After a pass that led no further so are rows where the loss is 0, which are what cuts steps short.
    """
    if not isinstance(problem, Problem) or problem.n_outputs > 1 or problem.loss.curvature_bound() == math.inf:
        return state.snapshot
    return with_majorants(problem, state.snapshot, state.theta, where_zero=state.n_stuck > 0)


def _has_expected(problem: AnySum) -> bool:
    """Return whether the mean of phi'' over targets is a number that a Hessian of rows in memory can be made of."""
    is_known = isinstance(problem, Problem) and hasattr(problem.loss, "constant_information")
    return is_known and not is_parted(cast(Problem, problem)) and not has_few_rows(cast(Problem, problem))


def _model(
    problem: AnySum, state: NewtonState, *, is_one_step: bool, is_expected: bool = False
) -> tuple[Hessian, Vector | None, int, bool]:
    """Return the Hessian of the smooth part of F; with few rows the step in its place; how many of components' that takes.

    And whether the next one is summed in single precision. The expected Hessian is that of phi'' of the mean target.
    """
    here, m = _curvatures(problem, state), problem.n_components
    if is_expected:
        loss = cast(Any, problem).loss
        here = here._replace(curvatures=np.full(here.curvatures.size, loss.scale * loss.constant_information()))
    if are_squares_of_outputs(problem):
        return Hessian(), step_of_outputs(cast(Problem, problem), state.gradient), m, False
    if isinstance(problem, FiniteSum) or not problem.convex:
        return Hessian(with_positive_eigenvalues(smooth_hessian(problem, here))), None, m, False
    if has_few_rows(problem):
        if state.is_precise:
            return Hessian(), step_from_gradient(problem, here.curvatures, state.gradient), m, False
        end, n_steps = end_of_steps(problem, here, state.tol, is_one=is_one_step)
        return Hessian(), end - state.x, n_steps * m, False
    if problem.n_sharing > 1 and not is_parted(problem) and problem.has_quadratic_loss:
        return of_squares(problem, here.curvatures), None, m, False
    every = problem.n_rows // (ENOUGH_ROWS * problem.dim) if state.is_rough else 1
    is_tried = (state.in_single or every > 1) and not state.is_precise
    if is_tried and (found := hessian_in_single(problem, here.curvatures, every)) is not None:
        return Hessian(*found), None, -(-m // every), state.in_single
    return Hessian(smooth_hessian(problem, here)), None, m, every > 1 and state.in_single


def _step(problem: AnySum, hessian: Hessian, known: Vector | None, state: NewtonState) -> tuple[Vector, float]:
    """Return the step to the minimiser of the model, or the known one, and the change of F that its slope predicts."""
    w, is_quadratic = state.x, isinstance(problem, Problem) and problem.has_quadratic_loss
    if known is not None:
        return known, float(state.gradient @ known)
    if hessian.factor is not None:
        direction = -apply_inverse(hessian.factor, state.gradient)
        return direction, float(state.gradient @ direction)
    tolerance = (OF_QUADRATIC if is_quadratic else EXACT) * state.snapshot.optimality
    direction = minimise_model(problem.term, hessian.matrix, state.gradient, w, tolerance) - w
    return direction, float(state.gradient @ direction) + problem.term.rise(w, w + direction)


def _moved(problem: AnySum, state: NewtonState, w: Vector, t: float) -> NewtonState:
    """Return the state at w, where gradient and optimality are known exactly."""
    there = take_snapshot(problem, w, with_slopes=False)
    gradient = smooth_gradient(problem, there)
    if state.is_precise and isinstance(problem, Problem):
        found = Measures(there.objective, there.optimality, gradient)
        found = in_extended_precision(problem, w, found)
        there, gradient = there._replace(optimality=found.optimality), found.gradient
    return state._replace(
        x=w, snapshot=there, gradient=gradient, step_size=t, n_stuck=0, n_gradients=state.n_gradients + problem.n_components
    )


def _is_hidden(problem: AnySum, state: NewtonState, predicted: float) -> bool:
    """Return whether rounding errors of the gradient matter, which extended precision takes away."""
    if not isinstance(problem, Problem) or not problem.convex or -predicted > SEEN * abs(state.snapshot.objective):
        return False
    is_hidden = is_rounded_by_norms if problem.n_outputs > 1 else is_rounded
    return predicted >= 0.0 or is_hidden(problem, state.x, _measures(problem, state))


def _measures(problem: AnySum, state: NewtonState) -> Measures:
    """Return what the last pass found at the iterate."""
    here = state.snapshot
    sizes = partial(sizes_of, problem, here) if isinstance(problem, Problem) and problem.n_outputs == 1 else None
    return Measures(here.objective, here.optimality, state.gradient, sizes=sizes)


def _slope_at_end(problem: AnySum, state: NewtonState, there: NewtonState) -> float:
    """Return the slope of F along a step at its end, where it is at least F's rise by the step, because F is convex."""
    return float(there.gradient @ (there.x - state.x)) + problem.term.rise(state.x, there.x)


def _falls(problem: AnySum, state: NewtonState, there: NewtonState) -> bool:
    """Return whether F is no higher at the end of a step, as far as its digits or, of a convex F, the slope there show."""
    if is_enough(state.snapshot.objective, there.snapshot.objective, 0.0, problem.n_rows):
        return True
    return isinstance(problem, Problem) and problem.convex and _slope_at_end(problem, state, there) <= 0.0


def _halves(state: NewtonState, there: NewtonState) -> bool:
    return there.snapshot.optimality <= 0.5 * state.snapshot.optimality


def _comes_closer(problem: AnySum, state: NewtonState, there: NewtonState) -> bool:
    """Return whether a step brings F down, as far as its digits and the slope at the end show, or the optimality."""
    rise, size = _slope_at_end(problem, state, there), abs(state.snapshot.objective)
    if rise < (-VISIBLE * size if there.step_size == 1.0 else 0.0):  # a short step ends where a row's loss has a corner
        return True
    return rise <= HIDDEN * size and there.snapshot.optimality < state.snapshot.optimality


def _with_last_step(problem: AnySum, hessian: Hessian, state: NewtonState, there: NewtonState) -> NewtonState:
    """Return the state after one more step with the Hessian of the last, a full one, where that is likely to meet tol."""
    found, tol = there.snapshot.optimality, state.tol
    if found <= tol or there.is_precise or not 2.0 * found * found <= LIKELY * tol * state.snapshot.optimality:
        return there
    return _again(problem, hessian, there)


def _again(problem: AnySum, hessian: Hessian, there: NewtonState) -> NewtonState:
    """Return the state after another full step with the Hessian of the last; at the same point where that does not help."""
    direction, predicted = _step(problem, hessian, None, there)
    if _is_hidden(problem, there, predicted):
        return there
    end = _moved(problem, there, there.x + direction, 1.0)
    if _falls(problem, there, end) and _halves(there, end):
        return end
    return there._replace(n_gradients=end.n_gradients)


def _with_expected_steps(problem: AnySum, hessian: Hessian, state: NewtonState, there: NewtonState) -> NewtonState:
    """Return the state after further full steps with the expected Hessian, which leave about the same part each.

    From the second step on, as many as would meet tol at their rate must cost no more than two with Hessians of their own.
    """
    most = 2.0 * (1.0 + hessian_in_gradients(cast(Problem, problem)))
    for k in range(MOST_EXPECTED):
        before, found = state.snapshot.optimality, there.snapshot.optimality
        if found <= there.tol or there.is_precise:
            break
        if k > 0 and not math.log(found / max(there.tol, 1e-300)) <= most * math.log(before / found):
            break
        state, there = there, _again(problem, hessian, there)
        if there.x is state.x:
            break
    return there


def _theta_after(theta: float, t: float) -> float:
    if t < 0.5:
        return min(max(RAISE * theta, LEAST_RAISED), 1.0)
    return LOWER * theta if t == 1.0 and theta > 1e-9 else theta


@dataclass(frozen=True)
class Newton(SumMethod):
    """Newton's method, proximal for l1 penalties and constraints: w+ = w - t H^-1 grad F(w).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        t; "auto" searches along the line.

    References
    ----------
    .. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, section 9.5.
    .. [2] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J.
       Optim. 24 (2014).
    .. [3] P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition, 1989, section 2.5.
    """

    step_size: StepSize = "auto"

    handles: ClassVar[frozenset[str]] = frozenset(
        {"l1", "weights", "groups", "constraint", "bounded-l1", "components", "outputs", "parts", "nonconvex-loss"}
    )
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 25

    needs_hessians = True

    def blas_threads(self, problem: AnySum) -> int | None:
        return threads_for_factors(problem)

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> NewtonState:
        """Return the state before the first step: the gradient at the start."""
        here = take_snapshot(problem, x0, with_slopes=False)
        has_one = self.step_size == "auto" and isinstance(problem, Problem) and problem.n_outputs == 1
        kinds = [has_one and ask(cast(Problem, problem)) for ask in (is_single, is_part_enough)]
        rest: Any = 0, 0, problem.n_components, 0, *kinds
        return NewtonState(x0.copy(), tol, here, smooth_gradient(problem, here), FIRST_THETA, False, math.nan, *rest)

    def run_pass(self, problem: AnySum, state: NewtonState, order: Indices) -> NewtonState:
        """Return the state after one step, the gradient at its end included."""
        if state.n_stuck > MOST_STUCK:
            return state
        m, w = problem.n_components, state.x
        is_first = self.step_size == "auto" and state.n_hessians == 0
        is_expected = is_first and _has_expected(problem) and not problem.term.coefficients(w).any()
        if is_expected:
            state = state._replace(is_rough=False)
        hessian, known, n_spent, in_single = _model(
            problem, state, is_one_step=self.step_size != "auto", is_expected=is_expected
        )
        is_rough = state.is_rough and hessian.factor is not None  # a part that is not precise enough is tried once
        state = state._replace(n_hessians=state.n_hessians + n_spent, in_single=in_single, is_rough=is_rough)
        direction, predicted = _step(problem, hessian, known, state)
        if self.step_size != "auto":
            return _moved(problem, state, w + self.step_size * direction, self.step_size)
        if not state.is_precise and _is_hidden(problem, state, predicted):
            state = _moved(problem, state._replace(is_precise=True), w, math.nan)
            if known is not None:
                known = _model(problem, state, is_one_step=False)[1]
            direction, predicted = _step(problem, hessian, known, state)
        there, t = _moved(problem, state, w + direction, 1.0), 1.0
        comes_closer = _comes_closer if state.is_precise else _falls
        if state.is_precise and state.n_grids < MOST_GRIDS and not _halves(state, there):
            end = point_on_grid(problem, w, state.gradient, state.snapshot.optimality, hessian.matrix)
            if end is not None:
                near = _moved(problem, state._replace(n_grids=state.n_grids + 1), end, 1.0)
                is_less = near.snapshot.optimality < state.snapshot.optimality
                if _halves(state, near) or (is_less and not _comes_closer(problem, state, there)):
                    return near
                state, there = (s._replace(n_grids=near.n_grids) for s in (state, there))
        is_long = not state.is_precise and _slope_at_end(problem, state, there) > -ACCURACY * predicted
        if _falls(problem, state, there) and _halves(state, there):
            is_long = False  # a slope near 0 has rounding errors
        if predicted < 0.0 and (is_long or not comes_closer(problem, state, there)):
            is_known = problem.term.is_smooth and not state.is_precise
            slopes = predicted, _slope_at_end(problem, state, there) if is_known else None
            t, n_slopes = searched(problem, w, direction, slopes, is_precise=state.is_precise)
            t = min(t, 1.0) if problem.is_constrained else t  # where rounding errors are all the slope, t has no bound
            n_gradients = there.n_gradients + (m * n_slopes if isinstance(problem, FiniteSum) else 0)
            there = _moved(problem, state._replace(n_gradients=n_gradients), w + t * direction, t)
        while not comes_closer(problem, state, there):
            if t < SHORTEST:
                state = state._replace(n_gradients=there.n_gradients, theta=_theta_after(state.theta, 0.0))
                return state._replace(step_size=0.0, n_stuck=state.n_stuck + (not state.is_rough), is_rough=False)
            t *= 0.25
            there = _moved(problem, state._replace(n_gradients=there.n_gradients), w + t * direction, t)
        before, after = state.snapshot.optimality, there.snapshot.optimality
        is_rough = state.is_rough and t == 1.0 and ROUGH * before < after <= NO_HELP * before
        is_rough = is_rough and there.n_gradients <= m * (1.0 + hessian_in_gradients(cast(Problem, problem)))
        there = there._replace(theta=_theta_after(state.theta, t), is_rough=is_rough)
        is_last = t == 1.0 and known is None and not state.is_rough
        if is_last and is_expected:
            return _with_expected_steps(problem, hessian, state, there)
        return _with_last_step(problem, hessian, state, there) if is_last else there

    def exact_measures(self, problem: AnySum, state: NewtonState) -> Measures:
        """Return what the last pass found at the iterate."""
        return _measures(problem, state)._replace(gradient=state.gradient.copy())

    def estimate(self, problem: AnySum, state: NewtonState) -> float:
        """Return the optimality at the iterate, which is known exactly."""
        return state.snapshot.optimality
