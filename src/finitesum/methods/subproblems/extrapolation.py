"""Anderson extrapolation: the combination of the last iterates of a sequence whose differences nearly cancel [1].

References
----------
.. [1] Q. Bertrand, M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021.
"""

import math

import numpy as np

from finitesum.core.arrays import Matrix, Vector


def extrapolated(history: Matrix) -> Vector | None:
    """Return the combination of iterates, (k + 1, d) in order, with weights of sum 1; None where they are all the same."""
    differences = np.diff(history, axis=0)
    products_of = differences @ differences.T
    size = float(np.trace(products_of))
    if not 0.0 < size < math.inf:
        return None
    products_of.flat[:: len(products_of) + 1] += 1e-12 * size
    weights = np.linalg.solve(products_of, np.ones(len(products_of)))
    total = float(weights.sum())
    return (weights / total) @ history[1:] if abs(total) > 0.0 else None
