"""A linear program as a method of one step: the hinge loss on an l1 ball or a box, solved exactly.

The step hands the problem to HiGHS (`finitesum.methods.subproblems.hinge_lp`); its dual variables prove what was found.
It is counted as one pass over the data, which says little of its work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.constraints import Box, L1Ball, LInfBall
from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.certificates import Minorant, dual_minorant
from finitesum.losses import Hinge
from finitesum.methods.base import Card
from finitesum.problems.linear import Problem


class ProgramState(NamedTuple):
    x: Vector
    multipliers: Vector  # (n,)  dual variables
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class LinearProgram:
    """The exact minimiser of a hinge loss on an l1 ball or a box, without a penalty.

    Raises
    ------
    ValueError
        From the first step: another loss, a penalty, or another set.

    Examples
    --------
    >>> from finitesum.constraints import L1Ball
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge", constraint=L1Ball(1.0))
    >>> result = minimize(problem, method=LinearProgram(), tol=1e-10)
    >>> result.success, result.x
    (True, array([0.5]))
    """

    name: ClassVar[str] = "linear-program"
    state_type: ClassVar[type[ProgramState]] = ProgramState
    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth", "constraint"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 1
    card: ClassVar[Card] = Card(
        "linear program", "n d", "that of HiGHS", "one step", "hinge on an l1 ball or a box", "Huangfu, Hall 2018"
    )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> ProgramState:
        """Return the state before the step."""
        return ProgramState(x0.copy(), np.zeros(problem.n_rows), 0, 0)

    def run_pass(self, problem: Problem, state: ProgramState, order: Indices) -> ProgramState:
        """Return the state after the step."""
        from finitesum.methods.subproblems.hinge_lp import reference_optimum

        found = reference_optimum(problem)
        return ProgramState(found.x, found.multipliers, state.n_gradients + problem.n_components, state.n_hessians)

    def estimate(self, problem: Problem, state: ProgramState) -> float:
        """Return infinity before the step, then 0: what was found is to be checked."""
        return 0.0 if state.n_gradients else float("inf")

    def minorant(self, problem: Problem, state: ProgramState) -> Minorant:
        """Return the minorant of the mean loss that the dual variables make."""
        return dual_minorant(problem, state.multipliers)

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1: components play no role."""
        return 1


def suits_linear_program(problem: Problem) -> bool:
    """Return whether a problem is one for `LinearProgram`."""
    has_penalty = problem.penalty.ridge() > 0.0 or problem.penalty.lasso() > 0.0
    return (
        isinstance(problem.loss, Hinge) and not has_penalty and isinstance(problem.constraint, L1Ball | Box | LInfBall)
    )
