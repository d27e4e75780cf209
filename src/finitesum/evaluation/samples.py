"""F on a sample of the components, and what a pass over the sample finds at a point.

On a sample A, whose rows have the weight P_A = sum_{i in A} p_i, F is replaced by

    F_A(w) = (1/P_A) (sum_{i in A} p_i loss_i(w) + l2/2 ||w||^2) + r(w):

the l2 penalty has the weight in the sum that it has in F's, so that few rows do not overfit.
"""

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_sums import Majorize, Vector32, loss_sums
from finitesum.problems.beside import empty_by_row, some_by_row, zeros_by_row
from finitesum.problems.linear import Problem


class Sample(NamedTuple):
    """Some components."""

    components: Indices  # increasing
    weight: float  # sum of their rows' weights p_i
    ridge: float  # l2 / weight

    def is_complete(self, problem: Problem) -> bool:
        """Return whether these are all components."""
        return self.components.size == problem.n_components

    def n_rows(self, problem: Problem) -> int:
        """Return the number of rows (at most a component more)."""
        return min(problem.n_rows, self.components.size * (problem.batch_size or 1))


def sample_of(problem: Problem, components: Indices) -> Sample:
    """Return components as a sample."""
    ridge, m = problem.term.ridge, problem.n_components
    if components.size == m:
        return Sample(np.arange(m), 1.0, ridge)
    is_chosen = np.zeros(m, dtype=bool)
    is_chosen[components] = True
    chosen = np.flatnonzero(is_chosen)  # in a tenth of the time that sorting takes
    weight = float(problem.component_weights[chosen].sum()) or 1.0
    return Sample(chosen, weight, ridge / weight)


def others(components: Indices, without: Indices, m: int) -> Indices:
    """Return those of the components that are not among others, in their order; there are m in all."""
    is_other = np.ones(m, dtype=bool)
    is_other[without] = False
    return components[is_other[components]]


class Evaluation(NamedTuple):
    """What a pass over a sample finds at a point; states have fields of these names."""

    gradient: Vector  # of F_A's smooth part
    curvatures: Vector32  # (n,)  of the sample's rows
    squared_slopes: float  # sum of p_i phi'_i^2
    value: float  # sum of p_i phi_i


def evaluate_on(
    problem: Problem,
    sample: Sample,
    w: Vector,
    known: Vector32 | Evaluation,
    *,
    before: Sample | None = None,
    majorize: int = Majorize.NONE,
    n_threads: int = 1,
) -> Evaluation:
    """Return what a pass over the sample finds at w.

    `known` are curvatures, of which the type counts; or what a pass over a smaller sample, given as `before`, has found at
    w: then only rows that are new are read. Rows outside of the sample have the curvature 0.
    """
    first = known if isinstance(known, Evaluation) else Evaluation(np.empty(0), known, 0.0, 0.0)
    if before is not None and before.components.size > 0:
        curvatures = some_by_row(problem, first.curvatures, before.components)
    else:
        make = empty_by_row if sample.is_complete(problem) else zeros_by_row
        curvatures = make(problem, first.curvatures.dtype)
    new = sample.components if before is None else others(sample.components, before.components, problem.n_components)
    found = loss_sums(problem, w, new, curvatures=curvatures, majorize=majorize, n_threads=n_threads)
    gradient, squares, value = found.gradient, found.squared_slopes, found.value
    quadratic = problem.term.weights * w
    if before is not None and before.components.size > 0:
        gradient += before.weight * first.gradient
        gradient -= before.weight * before.ridge * quadratic
    gradient /= sample.weight
    gradient += sample.ridge * quadratic
    return Evaluation(gradient, curvatures, first.squared_slopes + squares, first.value + value)
