"""How a run ends: what it found, measured exactly, and why it ended."""

import math

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.conditioning import why_hard
from finitesum.evaluation.optimality import Measures, evaluate
from finitesum.evaluation.rounding import confirmed
from finitesum.methods.base import label_of
from finitesum.running.results import Result, StopReason, has_own_step
from finitesum.running.run import Run
from finitesum.running.scaled_columns import unscaled
from finitesum.running.starts import why_infinite

MANY_PASSES = 100  # where these do not suffice, the problem may be the reason


def _charged(run: Run) -> Measures:
    """Return exact measures of the last iterate, of the same bits and charge whether the trace has them or not."""
    known = run.exact_here()
    if run.loop.checked_k != run.loop.k:
        own = run.known_to_method()
        run.loop.n_checks += own is None
        run.loop.checked_k = run.loop.k
        known = own or known
    return known or run.measure(run.state.x, is_check=True)


def _ends_above_start(run: Run, last: Measures) -> bool:
    """Return whether a run by steps of the method's own ends where F is higher than at its start."""
    if has_own_step(run.method):
        return False
    if math.isnan(first := run.trace.rows[0].objective):
        first = evaluate(run.problem, run.best.start).objective
    return last.objective > first + 1e-12 * abs(first)


def _best_known(run: Run, last: Measures) -> tuple[Vector, Measures, int]:
    """Return the iterate of lowest objective among start, best by their estimates and last, and the passes it took.

    An estimate may be that of the iterate before the pass or after it: both are measured, as is the start, a pass each.
    """
    found, seen = (run.state.x, last, run.loop.k), [run.state.x]
    best_k, first = run.loop.best_k, run.before.k
    for x, k in ((run.best.after, best_k), (run.best.before, max(best_k - 1, first)), (run.best.start, first)):
        if any(np.array_equal(x, y) for y in seen):
            continue
        seen.append(x)
        run.loop.n_checks += 1
        measured = run.measure(x, is_check=True)
        if measured.objective <= found[1].objective or math.isnan(found[1].objective):
            found = (x, measured, k)
    return found


def _unfinished(run: Run, last: Measures) -> tuple[Vector, Measures] | None:
    """Return where an unfinished step leads, measured by a pass, if F is lower there than at the last iterate."""
    method, point = run.method, None
    if hasattr(method, "point_so_far") and isinstance(run.state, method.state_type):
        point = method.point_so_far(run.problem, run.state)
    if point is None or not np.isfinite(point).all():
        return None
    run.loop.n_checks += 1
    measured = run.measure(point, is_check=True)
    return (point, measured) if measured.objective < last.objective else None


def result_of(run: Run, reason: StopReason) -> Result:
    """Return what the run found, measured exactly."""
    problem, state, first = run.problem, run.state, run.before.k
    x, measured, remark, why = state.x, _charged(run), "", ""
    if reason is not StopReason.CONVERGED and (better := _unfinished(run, measured)) is not None:
        x, measured = better
        remark = " x is the point to which the step that was being solved leads so far."
    is_over = reason is StopReason.CALLBACK or measured.upper <= run.tol
    if reason is StopReason.DIVERGED or (not is_over and _ends_above_start(run, measured)):
        x, measured, k = _best_known(run, measured)
        remark = f" x is the best iterate that is known: that after {k - first} of {run.loop.k - first} passes."
    if not math.isfinite(measured.objective):
        remark += f" {why_infinite(problem)}"
    if run.loop.n_changes:
        remark += f" {label_of(run.method)} has gone on after {run.loop.changed_k - first} passes: see choice."
    if run.choice.remark:
        remark += f" {run.choice.remark}"
    if own := getattr(run.method, "remark", lambda *_: "")(problem, state):
        remark += f" {own}"
    if not problem.term.is_convex:
        remark += " The penalty is not convex: x is near a stationary point, which need not be a minimum."
    if not getattr(problem, "convex", True):  # functions that give subgradients are
        remark += " The sum is not convex: x is near a stationary point, which need not be a minimum."
    if math.isnan(measured.rounding):
        measured = confirmed(problem, x, measured, run.tol)
    if reason in (StopReason.MAX_ITER, StopReason.STALLED) and measured.upper <= run.tol:
        reason = StopReason.CONVERGED
    if reason is StopReason.STALLED or (reason is StopReason.MAX_ITER and run.n_passes >= MANY_PASSES):
        why = why_hard(problem, x, measured.optimality, measured.rounding)
    left = measured.optimality / max(run.loop.start_optimality, 1e-300)
    return Result(
        x=x,
        fun=measured.objective,
        jac=measured.gradient,
        optimality=measured.optimality,
        rounding=measured.rounding,
        n_passes=run.n_passes,
        n_hessian_passes=run.n_hessian_passes,
        nit=run.loop.k - first,
        next_pass=run.loop.k,
        nfev=run.loop.n_checks,
        njev=int(state.n_gradients) - run.before.n_gradients + run.loop.n_checks * problem.n_components,
        nhev=int(state.n_hessians) - int(run.before.n_hessians),
        success=bool(measured.upper <= run.tol),
        status=reason.value,
        reason=reason,
        message=reason.message(run.tol, measured.optimality, run.n_passes, run.method, why, left) + remark,
        seconds=run.loop.seconds,
        trace=run.trace,
        method=unscaled(run.method),
        batch_size=problem.batch_size,
        seed=run.seed,
        state=state,
    )
