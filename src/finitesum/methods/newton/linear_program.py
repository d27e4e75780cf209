"""A linear program as a method of one step: the hinge loss on an l1 ball or a box, solved exactly.

With weights p_i, scale c, margins m_i = y_i (x_i'w + b + o_i) and slacks xi_i the problem is

    min c sum_i p_i xi_i    over    xi_i >= 1 - m_i,    xi_i >= 0,    w in the set

A pass is one call of HiGHS, its interior point method with crossover [1] (`finitesum.methods.subproblems.hinge_lp`):
callbacks, checkpoints and limits act before and after it alone. It is charged as one pass of component gradients, which
says little of its work: some 10 to 50 steps, each with a sparse factor of order d. Its dual variables a_i make a lower
bound of the minimum (`finitesum.evaluation.certificates.dual_minorant`), which proves what was found.

References
----------
.. [1] Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised simplex method", Math. Program. Comput. 10 (2018): HiGHS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.constraints import Box, L1Ball, LInfBall
from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.certificates import Minorant, dual_minorant
from finitesum.losses import Hinge
from finitesum.methods.base import Card, SumMethod
from finitesum.problems.linear import Problem


class ProgramState(NamedTuple):
    x: Vector
    multipliers: Vector  # (n,)  dual variables
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class LinearProgram(SumMethod):
    """The exact minimiser of the hinge loss on an l1 ball or a box, by one call of HiGHS.

    min c sum_i p_i xi_i   over   xi_i >= 1 - y_i (x_i'w + b + o_i),   xi_i >= 0,   w in the set

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
        "linear program",
        "m; n d while it is solved",
        "that of HiGHS",
        "m: one pass, whatever its work",
        "the hinge loss on an l1 ball or a box, no penalty",
        "Huangfu, Hall 2018",
    )

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem is no linear program."""
        is_polyhedral = isinstance(problem.constraint, L1Ball | Box | LInfBall)
        has_penalty = problem.penalty.ridge() > 0.0 or problem.penalty.lasso() > 0.0
        if isinstance(problem.loss, Hinge) and is_polyhedral and not has_penalty:
            return ""
        return (
            f"linear-program needs the hinge loss on an l1 ball or a box, and no penalty, got {problem.loss!r} with "
            f"{problem.penalty!r} on {problem.constraint!r}. Set alpha = 0 and the constraint, or choose another method."
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
