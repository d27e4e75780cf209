"""A step to where a model in columns is least on a face: in coordinates that keep their signs, by conjugate gradients.

A product with the model's Hessian reads the face's columns twice, as a pass of coordinate descent over them does. Where
columns resemble each other, such passes need many times as many reads; a Gram matrix and its factor take the number of
columns squared and cubed. Where the step would change the signs of more than a few coordinates it is the wrong face: the
products end after a few of them, and no step is taken.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.methods.subproblems.conjugate_gradients import DIAGONAL_POWER, advanced, begun, redirected
from finitesum.problems.rows import CSRRows, DenseRows, add_combination, products

#: The part of the coordinates that may come to a bound, and after how many products they are counted first.
FEW_ENDS, FIRST_LOOK = 0.02, 5


class FaceStep(NamedTuple):
    """Where conjugate gradients ended."""

    w: Vector  # of the face's coordinates; empty where too many of them would come to a bound
    n_products: int
    is_solved: bool  # whether the residual is as small as was asked for


def face_step(
    columns: DenseRows | CSRRows, figures: Matrix, total: float, slope: Vector, w: Vector, ends: tuple[float, int]
) -> FaceStep:
    """Return where the model is least between the bounds, for coordinates that keep their signs.

    Parameters
    ----------
    columns : DenseRows or CSRRows
        The face's columns as rows, times the roots of the curvatures: k of them.
    figures : ndarray, shape (7, k)
        Those of a `ColumnModel`.
    total : float
        The sum of the curvatures; 0 without an intercept.
    slope : ndarray, shape (k,)
        The model's at w, without thresholds.
    w : ndarray, shape (k,)
        Not 0, between the bounds.
    ends : (float, int)
        The norm of the residual, and the number of products, at which to end.
    """
    (_, curvatures, quadratic, thresholds, lower, upper, means), (enough, most) = figures, ends
    has_sign = thresholds > 0.0
    low = np.where(has_sign & (w > 0.0), np.maximum(lower, 0.0), lower)
    high = np.where(has_sign & (w < 0.0), np.minimum(upper, 0.0), upper)
    right, scale = -(slope + thresholds * np.sign(w)), curvatures**DIAGONAL_POWER
    run, most_ends, is_solved = begun(right, right / scale), FEW_ENDS * w.size, False
    while not (run.is_over or is_solved or run.n_products == most):
        across = np.zeros(columns.n_columns)
        add_combination(columns, run.direction, across)
        product = products(columns, across) + quadratic * run.direction
        if total > 0.0:
            product -= means * (float(means @ run.direction) / total)
        run = advanced(run, product)
        is_solved = math.sqrt(run.residual @ run.residual) <= enough
        is_last = run.is_over or is_solved or run.n_products == most
        if is_last or run.n_products == FIRST_LOOK:
            at = w + run.solution
            if not np.count_nonzero((at < low) | (at > high)) <= most_ends:
                return FaceStep(w[:0], run.n_products, is_solved=False)
        if not is_last:
            run = redirected(run, run.residual / scale)
    return FaceStep(np.clip(w + run.solution, low, high), run.n_products, is_solved)
