"""What a run remembers beside the method's state; with that and the seed it is all that a checkpoint holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from finitesum.core.arrays import Vector
from finitesum.evaluation.certificates import Certificate


@dataclass
class Loop:
    """The driver's own memory: with the method's state and the seed it is all that a run is."""

    k: int = 0  # passes run
    n_checks: int = 0  # exact passes charged
    checked_k: int = -1  # the pass after which the last of them was
    seconds: float = 0.0
    start_optimality: float = math.nan
    best_estimate: float = math.inf
    best_k: int = 0
    n_unfinished: int = 0  # passes that ended within a step
    best_step: int = 0  # k less those, at the best estimate
    measured_at: float = 0.0  # effective passes at the last measuring for the trace
    next_check: int = 1  # for methods without an estimate


class Before(NamedTuple):
    """What an earlier run has done that this one goes on from; its counts begin again."""

    k: int = 0  # passes
    n_gradients: int = 0  # of components
    n_hessians: float = 0.0


class Best(NamedTuple):
    """The iterates before and after the pass whose estimate was the lowest; the start, while there was none."""

    before: Vector
    after: Vector


class Kept(NamedTuple):
    """What a checkpoint holds."""

    state: Any
    loop: Loop
    n_rows: int  # of the trace
    certificate: Certificate | None
    best: Best | None
