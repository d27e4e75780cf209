"""One run of a method: its passes, checks, trace and checkpoints, and when it is over.

`Run` alone decides when to stop; what stopping means is described in `finitesum.running.driver`.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from finitesum.core.arrays import Vector
from finitesum.core.threads import limited_blas
from finitesum.evaluation.certificates import Certificate, has_certificate, no_certificate
from finitesum.evaluation.optimality import Measures, evaluate
from finitesum.evaluation.rounding import confirmed
from finitesum.methods.base import Alternative, Choice, Method, label_of
from finitesum.methods.cost_model import threads_of_blas
from finitesum.methods.forecasts import Counts
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.running import checkpoint as checkpoints
from finitesum.running.handover import WithoutBarrier, fraction_done, handed_over, is_changed
from finitesum.running.observers import Display, PassReport, Trace, TraceRow, is_stopped_by
from finitesum.running.results import Result, StopReason
from finitesum.running.run_memory import Before, Best, Kept, Loop, as_checkpoint, kept_in, method_in, with_running
from finitesum.running.sampling import as_seed, order_for
from finitesum.running.scaled_columns import identity
from finitesum.running.starts import default_start


@dataclass(kw_only=True, eq=False)
class Run:
    """One call of `minimize`."""

    problem: Any  # a Problem, or what answers what is asked of one below
    method: Method
    choice: Choice  # that the method is of
    tol: float
    max_iter: float
    sampling: str
    random_state: Any  # None takes the seed of a checkpoint
    measure_every: int
    callback: Callable[[OptimizeResult], Any] | None
    checkpoint: Path | None
    checkpoint_seconds: float
    without_barrier: WithoutBarrier | None = None  # where rows in parts may go on so

    def __post_init__(self) -> None:
        problem = self.problem
        is_sum = isinstance(problem, FiniteSum) or (isinstance(problem, Problem) and problem.loss.is_smooth())
        self.certificate = None if is_sum else no_certificate(problem.dim)
        self.seed = as_seed(self.random_state)
        self._named, self._whole, self._order = identity(self.method), self.problem, self.sampling
        self.loop, self.trace = Loop(), Trace()
        self.state: Any = None
        self.best: Best
        self.exact: tuple[Vector, Measures] | None = None  # the last exact measures and where
        self._known: tuple[Any, Measures | None] = (None, None)  # the last state that was asked for its own, and these
        self._start = ""  # a digest of the start
        self._kept: Kept
        self.before = Before()
        self._clock, self._last_save = time.perf_counter(), time.monotonic()

    # -- starting and resuming

    def start(self, x0: Vector, *, is_given: bool) -> None:
        """Make the first state; check a start that was given exactly, because it may be the optimum already.

        Of a smooth F it is not where all coefficients are 0, but for an intercept: that is how fits begin.
        """
        self._clock = time.perf_counter()
        self._start = "" if self.checkpoint is None else checkpoints.digest(x0)
        x0 = x0 if is_given else default_start(self.problem, x0)
        if isinstance(self.problem, FiniteSum):
            self.problem.require_defined(x0)
        self.state = self.method.init(self.problem, x0, self.tol)
        self._stop_clock()
        is_first = (
            isinstance(self.problem, Problem) and self.problem.is_smooth and not self.problem.term.coefficients(x0).any()
        )
        self._begin(check=is_given and not is_first)

    def go_on(self, earlier: Result) -> None:
        """Take the state at the end of an earlier run, and check it; the counts begin again."""
        self.state, self.seed = self._with_tol(earlier.state), earlier.seed
        k = earlier.next_pass
        self.before = Before(k, int(self.state.n_gradients), float(self.state.n_hessians))
        self.loop = Loop(k=k, best_k=k, best_step=k, next_check=k + 1)
        self._begin(check=True)

    def _begin(self, *, check: bool) -> None:
        self.best = Best(self.state.x, self.state.x, self.state.x)
        spent = self.n_passes, self.n_hessian_passes, self.loop.seconds
        if check:
            self._check()
        measured = self.exact_here() or (self.measure(self.state.x) if self.measure_every else None)
        self.loop.start_optimality = measured.optimality if measured else math.nan
        self._record(measured, math.nan, spent)
        self._keep()

    def resume(self, x0: Vector, *, is_given: bool) -> None:
        """Take state, loop and trace from the checkpoint; a given start must be the one that the run had."""
        assert self.checkpoint is not None
        held = checkpoints.load(self.checkpoint)
        header = held.header
        if self.random_state is None and isinstance(header.get("seed"), int):
            self.seed = header["seed"]
        self._start = checkpoints.digest(x0) if is_given else header.get("start", "")
        checkpoints.require_match(self.checkpoint, header, self._identity())
        if self.without_barrier is not None and header.get("running") == label_of(self.without_barrier.method):
            self._leave_barrier("as the run did before it was resumed", max(int(header["loop"]["n_changes"]) - 1, 0))
        self.method = method_in(self.checkpoint, header, self.choice) or self.method
        empty = Kept(None, self.loop, 0, self.certificate, Best(x0, x0, x0))
        kept, self.trace = kept_in(self.checkpoint, held, self.method.state_type, partial(self._template, x0), empty)
        state, self.loop, _, self.certificate, self.best, _ = kept
        self.choice = with_running(self.choice, self.method, self.loop.n_changes)
        self.state, x = self._with_tol(state), state.x
        self._measure_again(x)
        self._keep()

    def _template(self, x0: Vector, state: Any) -> Any:
        """Return a state of the shapes that one read from a file must have: those of the first, or as the method says."""
        own = getattr(self.method, "template", None)
        first = self.method.init(self.problem, x0, self.tol)
        try:
            return first if own is None else own(self.problem, first, state)
        except Exception as error:  # of what is no state
            raise checkpoints.CheckpointError(
                f"{self.checkpoint} is damaged: {error}. Delete it and start again."
            ) from None

    def _measure_again(self, x: Vector) -> None:
        """Measure the iterate of a checkpoint as it was before: not charged again, and the bounds have it already."""
        rows, k = self.trace.rows, self.loop.checked_k
        if k >= 0 and len({(row.objective, row.optimality) for row in rows[k:]}) == 1:  # x is where the check was
            measured = self.known_to_method() or self._with_gap(evaluate(self.problem, x), self.certificate)
            self.exact = (x, confirmed(self.problem, x, measured, self.tol))
        elif rows and not math.isnan(rows[-1].objective) and self._found_by_method() is None:
            self.measure(x)

    def _with_tol(self, state: Any) -> Any:
        """Return a state with this run's tol, where the method's choices depend on it."""
        return state._replace(tol=self.tol) if "tol" in state._fields else state

    def _keep(self) -> None:
        """Remember what a checkpoint holds.

        Only a pass that is over is kept, for an interrupt may come at any line. One that ended the run is kept where the
        run has converged, and is then not run again; other runs are ended again, by the same pass, when they are resumed.
        Numbers by row that lie with workers are brought here, in case that all of these are lost.
        """
        if self.checkpoint is not None:
            checkpoints.flatten(self.state)
            parts = self.state, replace(self.loop), len(self.trace), self.certificate, self.best, label_of(self.method)
            self._kept = Kept(*parts)

    def _identity(self) -> dict[str, Any]:
        how = {"method": self._named, "sampling": self._order, "seed": self.seed, "start": self._start}
        return {"problem": self._whole.fingerprint, **how}

    def save(self) -> None:
        """Write the checkpoint."""
        if self.checkpoint is not None:
            checkpoints.save(self.checkpoint, as_checkpoint(self._kept, self.trace, self._identity()))
            self._last_save = time.monotonic()

    # -- the loop

    def go(self, observer: Display | None) -> StopReason:
        """Run passes until a reason to stop."""
        if self._is_verified():
            return StopReason.CONVERGED
        reason = None
        while reason is None:
            with limited_blas(threads_of_blas(self.method, self.problem)):
                reason = self._passes(observer)
        return reason

    def _passes(self, observer: Display | None) -> StopReason | None:
        """Run passes until a reason to stop, or None where another method goes on."""
        while True:
            if self.n_passes >= self.max_iter and self.loop.k > self.before.k:  # the start leaves room for a pass
                return StopReason.MAX_ITER
            self._clock = time.perf_counter()
            order = order_for(self.problem, self.sampling, self.seed, self.loop.k)
            state = self.method.run_pass(self.problem, self.state, order)
            if not np.isfinite(state.x).all():  # self.state is the last finite one
                self._stop_clock()
                return None if self._goes_on_by_another(StopReason.DIVERGED) else StopReason.DIVERGED
            before, self.state = self.state.x, state
            self.loop.k += 1
            estimate = self.method.estimate(self.problem, state)
            known = self.known_to_method() if math.isnan(estimate) else None
            if known is not None and not np.isfinite(known.gradient).all():
                self._stop_clock()
                return StopReason.DIVERGED  # F overflows at the start already: no step is taken from there
            reason = self._after_pass(observer, before, estimate)
            if self._goes_on_by_another(reason):
                return None
            if reason is None and (why := self._why_without_barrier()):
                self._go_without_barrier(why)
                return None
            if reason in (None, StopReason.CONVERGED):
                self._keep()
            if reason is not None:
                return reason
            if self.checkpoint is not None and time.monotonic() - self._last_save >= self.checkpoint_seconds:
                self.save()

    def _goes_on_by_another(self, reason: StopReason | None) -> bool:
        """Let another method go on where that is better, and return whether it does."""
        counts = Counts(self.n_passes, self.n_hessian_passes, self.loop.k - self.before.k)
        if changes := is_changed(self.choice, self.loop, counts, self.problem, self.tol, reason, self.state):
            self._change(reason)
        return changes

    def _change(self, reason: StopReason | None) -> None:
        """Let the next of the other methods go on from the last point, or after a divergence from the best one."""
        if reason is StopReason.DIVERGED:
            self.state = self.state._replace(x=self.best.after)
        self.method = self.choice.others[self.loop.n_changes].method
        self.state = handed_over(self.method, self.problem, self.state, self.tol)
        self.loop.change(self.n_passes, self.n_hessian_passes)
        self._keep()

    def _why_without_barrier(self) -> str:
        """Return why the run is to go on without a barrier between parts; "" where it is not, or does already."""
        if self.without_barrier is None or self.problem is not self._whole:
            return ""
        done = fraction_done(self.loop.start_optimality, self.loop.best_estimate, self.tol)
        return self.without_barrier.why(done)

    def _leave_barrier(self, why: str, n_changes: int) -> None:
        """Put the parts' sum in the place of the problem, and the method without a barrier behind the earlier ones."""
        assert self.without_barrier is not None
        method, sampling = self.without_barrier.method, self.without_barrier.sampling
        remark = f"Rounds were synchronous at first, and are asynchronous now: {why}."
        others = *self.choice.others[:n_changes], Alternative(method, math.inf)
        self.choice, self.sampling = self.choice._replace(others=others, remark=remark), sampling
        self.problem = self.without_barrier.problem()

    def _go_without_barrier(self, why: str) -> None:
        """Go on from the last point without a barrier; what was counted by rows is counted by parts."""
        n_before = self.problem.n_components
        self._leave_barrier(why, self.loop.n_changes)
        times = self.problem.n_components / n_before
        before, state = self.before, self.state
        self.before = before._replace(n_gradients=round(times * before.n_gradients), n_hessians=times * before.n_hessians)
        self.state = state._replace(n_gradients=round(times * state.n_gradients), n_hessians=times * state.n_hessians)
        self._change(None)

    def _after_pass(self, observer: Display | None, before: Vector, estimate: float) -> StopReason | None:
        loop = self.loop
        is_unfinished = math.isnan(estimate) and hasattr(self.method, "exact_measures")
        loop.n_unfinished += is_unfinished
        if math.isnan(estimate):  # of some problems no check says anything
            has_bounds = self.certificate is None or has_certificate(self.problem)
            due = not is_unfinished and loop.k >= loop.next_check and has_bounds
        else:
            due = estimate <= self.tol
        self._stop_clock()
        spent = self.n_passes, self.n_hessian_passes, loop.seconds  # what the iterate cost, its check not included
        if due:
            self._check()
        measured = self.exact_here()
        if measured is None and self._is_measured():
            measured = self._found_by_method() or self.measure(self.state.x)
            loop.measured_at = self.n_passes
        self._record(measured, estimate, spent)
        known = measured.optimality if measured else estimate
        if math.isnan(loop.start_optimality):
            loop.start_optimality = known
        if observer is not None:
            observer.after_pass(PassReport(self.n_passes, self.max_iter, known, loop.start_optimality, self.tol))
        if self._callback_stops(measured, estimate):
            return StopReason.CALLBACK
        if measured is not None and math.isinf(measured.objective):
            return StopReason.DIVERGED
        if self._is_verified():
            return StopReason.CONVERGED
        found = measured.optimality if due and measured is not None else estimate
        if loop.improves(found):
            self.best = self.best._replace(before=before, after=self.state.x)
        elif (exact := self.known_to_method()) is not None:
            loop.descends(exact.objective)
        reason = loop.hopeless(found, self.tol, getattr(self.method, "patience", 100), self.before.k)
        if reason is StopReason.STALLED and self._still_falls():
            return StopReason.CONVERGED if self._is_verified() else None
        return reason

    def _still_falls(self) -> bool:
        """Return whether F is lower than when last looked at, where that is not known and the gradient does not say it.

        That is where F is not convex, or a method that measures its iterates has not measured this one: one in single
        precision, whose gradient may grow for long while F falls.
        """
        measures = hasattr(self.method, "exact_measures") and self.known_to_method() is None
        if getattr(self.problem, "convex", True) and not measures:
            return False
        before = self.loop.best_objective
        if self.exact_here() is None:
            self._check()
        if (here := self.exact_here()) is not None:
            self.loop.descends(here.objective)
        return self.loop.best_objective < before

    def _is_measured(self) -> bool:
        """Return whether the iterate is measured for the trace: not after steps that cost a fraction of a pass."""
        if not self.measure_every or self.loop.k % self.measure_every != 0:
            return False
        return self.n_passes - self.loop.measured_at >= 0.5

    def _check(self) -> None:
        """Measure the iterate exactly, on the clock, and count it as a pass."""
        loop = self.loop
        self._clock = time.perf_counter()
        loop.checked_k = loop.k
        loop.next_check = max(loop.k + 1, math.ceil((1.1 if self.certificate is None else 1.5) * loop.k))
        if (known := self.known_to_method()) is None:
            loop.n_checks += 1
            known = self.measure(self.state.x, is_check=True)
        self.exact = (self.state.x, confirmed(self.problem, self.state.x, known, self.tol))
        self._stop_clock()

    def known_to_method(self) -> Measures | None:
        """Return what the method's last pass was: an exact pass at its iterate, which is charged already."""
        if self._known[0] is not self.state:
            exact = getattr(self.method, "exact_measures", None)
            self._known = (self.state, None if exact is None else exact(self.problem, self.state))
        return self._known[1]

    def _found_by_method(self) -> Measures | None:
        """Return what is known to the method as exact measures of the iterate, but where a gap counts."""
        known = self.known_to_method() if self.certificate is None else None
        self.exact = self.exact if known is None else (self.state.x, known)
        return known

    def _is_verified(self) -> bool:
        """Return whether a check has found the iterate to be as good as was asked for."""
        measured = self.exact_here()
        return self.loop.checked_k == self.loop.k and measured is not None and measured.upper <= self.tol

    def _callback_stops(self, measured: Measures | None, estimate: float) -> bool:
        if self.callback is None:
            return False
        report = OptimizeResult(
            x=self.state.x.copy(),
            fun=measured.objective if measured else math.nan,
            optimality=measured.optimality if measured else estimate,
            n_passes=self.n_passes,
            nit=self.loop.k - self.before.k,
        )
        return is_stopped_by(self.callback, report)

    @property
    def n_passes(self) -> float:
        """Effective passes so far: component gradients by components, and exact checks."""
        n_gradients = self.state.n_gradients - self.before.n_gradients
        return float(n_gradients / self.problem.n_components + self.loop.n_checks)

    @property
    def n_hessian_passes(self) -> float:
        """Component Hessians evaluated by components."""
        return float((self.state.n_hessians - self.before.n_hessians) / self.problem.n_components)

    def _stop_clock(self) -> None:
        self.loop.seconds += time.perf_counter() - self._clock

    def measure(self, x: Vector, *, is_check: bool = False) -> Measures:
        """Measure a point; only the bounds of the minimum that checks find are kept, so that measuring changes no run."""
        measures = evaluate(self.problem, x)
        if self.certificate is not None and measures.minorant is not None and has_certificate(self.problem):
            known = self.certificate.joined_by(self.problem, measures.minorant)
            if (own := getattr(self.method, "bound", None)) is not None:  # of a method with dual variables
                known = known.raised(own(self.problem, self.state))
            if is_check:
                self.certificate = known
            measures = self._with_gap(measures, known)
        self.exact = (x, measures)
        return measures

    def _with_gap(self, measures: Measures, known: Certificate | None) -> Measures:
        """Return the measures with the duality gap that the bounds known mean, where a gap is what counts."""
        if known is None or not has_certificate(self.problem):
            return measures
        return measures._replace(optimality=max(measures.objective - known.bound, 0.0))

    def exact_here(self) -> Measures | None:
        return self.exact[1] if self.exact is not None and self.exact[0] is self.state.x else None

    def _record(self, measured: Measures | None, estimate: float, spent: tuple[float, float, float]) -> None:
        figures = (measured.objective, measured.optimality) if measured else (math.nan, math.nan)
        self.trace.append(TraceRow(*spent, *figures, estimate))
