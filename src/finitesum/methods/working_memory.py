"""The memory that a run on rows in parts takes beside the parts, about: for whoever has to stay within a limit.

What a method keeps follows from its card: "m" stands for numbers by row, which are a few arrays (curvatures as they are and
were, steps along a line), "d^2" for matrices of all columns. While parts' matrices are added up, those of a tree's levels
are held at once, those that threads are working on, and what the method makes of their sum.
"""

import math
from typing import Any

from finitesum.methods.base import Method
from finitesum.problems.linear import Problem

#: Arrays with a number for each row and output.
ARRAYS_BY_ROW = 4

#: Matrices beside those of a tree's levels: the sum, its factor, and copies of them.
MATRICES = 4

#: Vectors of a method without a matrix, and of L-BFGS (`finitesum.methods.newton.lbfgs` and `multinomial_lbfgs`).
VECTORS = 100


def working_bytes(method: Method, problem: Problem, n_workers: int) -> float:
    """Return about how many bytes a method holds beside the parts of a problem that are worked on.

    Examples
    --------
    >>> import numpy as np
    >>> from finitesum.methods import as_method
    >>> problem = Problem.partitioned([(np.eye(1000), np.arange(1000) % 2)])
    >>> working_bytes(as_method("newton"), problem, 1) > 8 * 1000**2 > working_bytes(as_method("newton-cg"), problem, 1)
    True
    """
    n, n_outputs, dim, storage = problem.n_rows, problem.n_outputs, problem.dim, method.card.storage
    of_rows = 8.0 * ARRAYS_BY_ROW * n * n_outputs
    return of_rows + 8.0 * VECTORS * dim + _of_matrices(storage, problem, n_workers)


def _of_matrices(storage: str, problem: Any, n_workers: int) -> float:
    first = storage.split(", or ")[0].split(" or ")[0]
    if "d^2" not in first and "(K d)^2" not in first:
        return 0.0
    of_output = "K" in first and "(K d)^2" not in first  # where K is not mentioned, d are the variables of all outputs
    order = problem.dim / problem.n_outputs if of_output else problem.dim
    levels = math.ceil(math.log2(max(len(problem.rows.parts), 1))) if hasattr(problem.rows, "parts") else 0
    return float(8.0 * order**2 * (levels + n_workers + MATRICES))
