"""The orthant into which F with an l1 penalty falls first: F is smooth where coefficients keep their signs."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Vector
from finitesum.methods.visits import AnySum


class Orthant(NamedTuple):
    """Where F is smooth: where coefficients keep their signs."""

    signs: Vector  # of the coefficients, 0 for those that stay 0 and for those without an l1 penalty
    free: npt.NDArray[np.bool_]  # the coordinates that move
    right: Vector  # minus the gradient there


def orthant_of(problem: AnySum, state: Any) -> Orthant:
    """Return where F falls first from a state's x, by its gradient there; everything without an l1 penalty."""
    if problem.is_smooth:
        return Orthant(np.zeros(problem.dim), np.ones(problem.dim, dtype=bool), -state.gradient)
    gradient, thresholds = state.gradient, problem.term.thresholds
    signs = np.where(state.x == 0.0, -np.sign(gradient) * (np.abs(gradient) > thresholds), np.sign(state.x))
    signs[thresholds == 0.0] = 0.0
    free = (signs != 0.0) | (thresholds == 0.0)
    return Orthant(signs, free, np.where(free, -(gradient + thresholds * signs), 0.0))
