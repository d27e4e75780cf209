"""What a run remembers beside the method's state; with that and the seed it is all that a checkpoint holds."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.kernel_folder import found_on_disk
from finitesum.evaluation.certificates import Certificate
from finitesum.methods.base import Choice, Method, label_of
from finitesum.running.checkpoint import Checkpoint, CheckpointError, flatten, require_shapes, unflatten
from finitesum.running.observers import Trace, TraceRow
from finitesum.running.results import StopReason


@dataclass
class Loop:
    """The driver's own memory: with the method's state and the seed it is all that a run is."""

    k: int = 0  # passes run
    n_checks: int = 0  # exact passes charged
    checked_k: int = -1  # the pass after which the last of them was
    seconds: float = 0.0
    start_optimality: float = math.nan
    best_estimate: float = math.inf
    best_objective: float = math.inf  # at passes that brought the estimate no lower
    best_k: int = 0
    n_unfinished: int = 0  # passes that ended within a step
    best_step: int = 0  # k less those, at the best estimate
    measured_at: float = 0.0  # effective passes at the last measuring for the trace
    next_check: int = 1  # for methods without an estimate
    n_changes: int = 0  # of the method
    changed_k: int = 0  # the pass after which the last of them was
    changed_passes: float = 0.0  # effective passes, and those of Hessians, until then
    changed_hessians: float = 0.0
    middle_k: int = 0  # passes of the running method, at each doubling of them
    middle_estimate: float = math.inf  # the lowest estimate until then
    early_k: int = 0  # those of the doubling before
    early_estimate: float = math.inf

    def improves(self, optimality: float) -> bool:
        """Return whether an optimality is the lowest so far, and remember it."""
        is_best = optimality < self.best_estimate
        if is_best:
            self.best_estimate, self.best_k, self.best_step = optimality, self.k, self.k - self.n_unfinished
        if (n_passes := self.k - self.changed_k) >= max(2 * self.middle_k, 1):
            self.early_k, self.early_estimate = self.middle_k, self.middle_estimate
            self.middle_k, self.middle_estimate = n_passes, self.best_estimate
        return is_best

    def descends(self, objective: float) -> None:
        """Count an objective that is lower than before by more than rounding errors as progress, too."""
        if objective < self.best_objective - 1e-9 * abs(objective):
            self.best_objective, self.best_step = objective, self.k - self.n_unfinished

    def change(self, passes: float, hessian_passes: float) -> None:
        """Count a change of the method, and the effective passes before it; its progress begins again."""
        self.n_changes, self.changed_k = self.n_changes + 1, self.k
        self.changed_passes, self.changed_hessians = passes, hessian_passes
        self.best_estimate = self.best_objective = self.middle_estimate = self.early_estimate = math.inf
        self.middle_k = self.early_k = 0
        self.best_k, self.best_step = self.k, self.k - self.n_unfinished

    def hopeless(self, optimality: float, tol: float, patience: int | None, first: int) -> StopReason | None:
        """Return the reason to stop where the optimality exploded, or has not improved at all in half of the passes.

        A method that gains 1 % in kappa/100 passes is slow, not stuck; the waves of an accelerated one grow with the run.
        Without `patience` a method is slow by nature, and a gap may rest whatever the iterates do.
        """
        if optimality > 1e12 * max(self.best_estimate, tol, 1e-12):
            return StopReason.DIVERGED
        step = self.k - self.n_unfinished
        if math.isnan(optimality) or patience is None or step - self.best_step < max(patience, (step - first) // 2):
            return None
        return StopReason.STALLED


class Before(NamedTuple):
    """What an earlier run has done that this one goes on from; its counts begin again."""

    k: int = 0  # passes
    n_gradients: int = 0  # of components
    n_hessians: float = 0.0


class Best(NamedTuple):
    """The start, and the iterates before and after the pass whose estimate was the lowest, or the start again."""

    start: Vector
    before: Vector
    after: Vector


class Kept(NamedTuple):
    """What a checkpoint holds."""

    state: Any
    loop: Loop
    n_rows: int  # of the trace
    certificate: Certificate | None
    best: Best
    running: str = ""  # the name of the method that runs, and its solver


def as_checkpoint(kept: Kept, trace: Trace, identity: dict[str, Any]) -> Checkpoint:
    """Return what a file holds of a run."""
    arrays = {**flatten(kept.state), **flatten(kept.best, "best")}
    if kept.certificate is not None:
        arrays |= flatten(kept.certificate, "certificate")
    arrays["trace"] = np.array(trace.rows[: kept.n_rows], dtype=np.float64)
    header = {**identity, "loop": asdict(kept.loop), "running": kept.running, "kernels": found_on_disk()}
    return Checkpoint(header, arrays)


def method_in(path: Path, header: dict[str, Any], choice: Choice) -> Method | None:
    """Return the method that went on in a run that a file held, None where it is the one that the run began with."""
    running = header.get("running") or label_of(choice.method)
    if running == label_of(choice.method):
        return None
    for other in choice.others:
        if label_of(other.method) == running:
            return other.method
    raise CheckpointError(f"{path} is damaged, or of another choice: {running!r} ran. Delete it and start again.")


def with_running(choice: Choice, method: Method, n_changes: int) -> Choice:
    """Return a choice in which the method that went on stands where the changes have come to.

    Another tol may have sorted the other methods otherwise.
    """
    if n_changes == 0:
        return choice
    place, label = n_changes - 1, label_of(method)
    found = [other for other in choice.others if label_of(other.method) == label]
    rest = [other for other in choice.others if label_of(other.method) != label]
    return choice._replace(others=(*rest[:place], *found, *rest[place:]))


def kept_in(
    path: Path, held: Checkpoint, state_type: type[Any], template: Callable[[Any], Any], empty: Kept
) -> tuple[Kept, Trace]:
    """Return what a file held, with the trace; raise where that is not shaped as what is kept before the first pass.

    `template` returns a state of the shapes that a state must have.
    """
    header, arrays = held
    state, best = unflatten(state_type, arrays), unflatten(Best, arrays, "best")
    certificate = None if empty.certificate is None else unflatten(Certificate, arrays, "certificate")
    require_shapes(best, empty.best, "best")
    if certificate is not None:
        require_shapes(certificate, empty.certificate, "certificate")
    require_shapes(state, template(state))
    try:
        trace = Trace([TraceRow(*row) for row in arrays["trace"].astype(np.float64, casting="equiv").tolist()])
        loop = Loop(**header["loop"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} lacks a part ({error}). It was written by another version; start again.") from error
    for name, value in vars(loop).items():
        kind = type(getattr(Loop, name))
        if type(value) not in (kind, int) or (kind is int and value < -1):
            raise CheckpointError(f"{path} is damaged: {name} is {value!r}. Delete it and start again.")
    if not np.isfinite(state.x).all():
        raise CheckpointError(f"{path} is damaged: its iterate is not finite. Delete it and start again.")
    return Kept(state, loop, len(trace), certificate, best), trace
