"""The Hessian of the squared loss, which several targets share: those of one problem, and problems of a target each."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.hessian import gram
from finitesum.methods.subproblems.positive_definite import apply_inverse, solve_spd
from finitesum.problems.linear import Problem


class Hessian(NamedTuple):
    """A Hessian of the smooth part of F."""

    matrix: Matrix = np.empty((0, 0))
    factor: Matrix | None = None  # Cholesky's, where it is known


class _OfSquares(NamedTuple):
    """What problems share that differ in their targets, and perhaps in the strength of a penalty."""

    diagonal: Vector  # of the losses' Hessian
    quadratic: Vector  # what the penalty adds to it
    hessian: Hessian


def of_squares(problem: Problem, curvatures: Vector) -> Hessian:
    """Return the Hessian with these phi''_i and, with an l2 penalty alone, its factor, made once for all problems."""
    quadratic = problem.term.quadratic
    kept: _OfSquares | None = problem.of_rows.get("squares")
    if kept is None or not np.array_equal(kept.quadratic, quadratic):
        matrix = gram(problem, problem.weights * curvatures) if kept is None else kept.hessian.matrix.copy()
        diagonal, factor = np.diagonal(matrix).copy() if kept is None else kept.diagonal, None
        matrix.flat[:: problem.dim + 1] = diagonal + quadratic
        if problem.is_smooth:
            factor, info = lapack.dpotrf(matrix.T, lower=0, clean=0)
            factor = factor if info == 0 else None
        problem.of_rows["squares"] = kept = _OfSquares(diagonal, quadratic, Hessian(matrix, factor))
    return kept.hessian


def step_of_outputs(problem: Problem, gradient: Vector) -> Vector:
    """Return Newton's step for several outputs, each of which has the same Hessian: that of the rows and the penalty."""
    one, right = problem.one_output, gradient.reshape(problem.n_outputs, -1).T
    matrix, factor = of_squares(one, np.full(one.n_rows, problem.loss.curvature_bound()))
    found = solve_spd(matrix, right) if factor is None else apply_inverse(factor, right)
    return -found.T.reshape(-1)
