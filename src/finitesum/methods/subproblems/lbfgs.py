"""L-BFGS: pairs of a step and the change of the gradient over it, which correct a preconditioner.

With P the factor's matrix and pairs (s_k, y_k), `solve` returns the product of the inverse that the BFGS formula makes of
P^-1 and the pairs, oldest first, with a vector: the two loops of L-BFGS [1, algorithm 7.4], with P in the place of a
multiple of the identity. On a quadratic the steps are those of conjugate gradients preconditioned by P.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, section 7.2.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector

#: Pairs that are kept.
MEMORY = 20


class Pairs(NamedTuple):
    """The pairs, oldest first."""

    steps: Matrix  # (k, d)  s
    changes: Matrix  # (k, d)  y


def no_pairs(dim: int, kind: Any = np.float64) -> Pairs:
    """Return no pairs, of numbers of a kind."""
    return Pairs(np.zeros((0, dim), kind), np.zeros((0, dim), kind))


def with_pair(known: Pairs, step: Vector, change: Vector, most: int = MEMORY) -> Pairs:
    """Return the pairs with one more, at most so many, unless it shows no curvature (rounding errors)."""
    curvature = step @ change
    if not curvature > 1e-14 * math.sqrt(step @ step) * math.sqrt(change @ change):
        return known
    first = max(0, known.steps.shape[0] + 1 - most)
    return Pairs(np.vstack([known.steps[first:], step]), np.vstack([known.changes[first:], change]))


def solve(known: Pairs, precondition: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return the BFGS inverse of the pairs times `right`, with `precondition` as the inverse to begin with."""
    left = right.copy()
    coefficients = []
    for step, change in zip(known.steps[::-1], known.changes[::-1], strict=True):
        coefficient = (step @ left) / (step @ change)
        left -= coefficient * change
        coefficients.append(coefficient)
    result = precondition(left)
    for step, change, coefficient in zip(known.steps, known.changes, reversed(coefficients), strict=True):
        result += (coefficient - (change @ result) / (step @ change)) * step
    return result
