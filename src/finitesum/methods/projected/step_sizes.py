"""Step sizes of the projected methods, from the size of the set and the size of the subgradients at the start.

The bounds of these methods are smallest for alpha = sqrt(M_0 / 2) / M without a metric and alpha = sqrt(M_1 gamma /
(2 (2 - gamma))) with one, where M bounds the subgradients, M_0 the squared distance of the solution from z_k and M_1 its
largest squared distance in a coordinate. What a set allows for M_0 and M_1 is far too much: on an l1 ball of radius tau the
solution has norm tau only if it has one coordinate. Here

*   M is the root of the mean square norm of component subgradients at the start, over at most 1000 of them, and s the
    root mean squares of their coordinates;
*   the distance is the geometric mean of two half-widths of the set, along a coordinate and along the diagonal:
    tau / d^(1/4) for the l1 ball, the radius for the l2 ball, h d^(1/4) for the box |x_i| <= h;
*   for an unbounded set the distance is d_e^(1/4) f / M with f = |f(w_1)|: a step of length f / M along a subgradient
    changes f by f, and one that is spread over d_e coordinates, which partly cancel, has to be sqrt(d_e) times as long;
*   the distance in a coordinate is the distance / sqrt(d_e), with d_e = (sum s)^2 / sum s^2 coordinates that count.

The rule is a guess, made on five public data sets with the hinge on the l1 ball: of several that were tried there (the
diameter itself, two other counts of d, the direction s for the diagonal) it came closest. On twelve others, which had no
part in that, the gap after ten passes is 1.0 to 1.8 times that of the best step of a 1-3-10 grid in the median, and at most
5.1 times on ten of them. **On the two with columns of very different scales it fails**: the run ends above its start. There
the solution is far shorter than the set is wide. Scale the columns, or give step_size; benchmarks/results/heavy_ball.md
has all figures.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.constraints.base import Constraint
from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.methods.projected.steps import component_subgradient
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem
from finitesum.problems.view import View, first_row, last_row

#: The number of components, evenly spaced, from which the size of the subgradients is taken.
N_SAMPLED = 1000


class Scales(NamedTuple):
    """The sizes that step sizes are made of."""

    distance: float  # of a solution from the start, as far as the set says
    coordinate_distance: float
    subgradient: float  # M
    n_gradients: int  # component subgradients that were evaluated


@kernel
def _add_squares(view: View, sample: Indices, x: Vector, gradient: Vector, squares: Vector) -> float:
    """Add the squares of the sampled components' subgradients to `squares`; return the sum of their losses."""
    total = 0.0
    for component in sample:
        component_subgradient(view, component, x, gradient)
        for j in range(x.size):
            squares[j] += gradient[j] * gradient[j]
        for i in range(first_row(view, component), last_row(view, component)):
            prediction = view.rows.dot(i, x) + view.offsets[i]
            weight = view.n_components * view.weights[i]
            total += weight * view.loss.value(prediction, view.targets[i])
    return total


def scales_at(problem: Problem | SubgradientProblem, x: Vector) -> Scales:
    """Return the sizes of set and subgradients at a start x."""
    n_sampled = min(N_SAMPLED, problem.n_components)
    sample = np.linspace(0, problem.n_components - 1, n_sampled).astype(np.int64)
    squares = np.zeros(problem.dim)
    if isinstance(problem, SubgradientProblem):
        level = abs(float(problem.value(x.copy())) - (problem.lower_bound or 0.0))
        for component in sample:
            squares += problem.component_subgradient(x, component) ** 2
    else:
        level = abs(_add_squares(problem.view, sample, x, np.zeros(problem.dim), squares)) / n_sampled
    total = float(squares.sum())
    size = math.sqrt(total / n_sampled)
    n_counting = max(float(np.sqrt(squares).sum()) ** 2 / total, 1.0) if total > 0.0 else 1.0  # d_e
    distance = set_distance(problem.term.constraint, problem.term.n_columns)
    if not math.isfinite(distance):
        distance = n_counting**0.25 * level / size if level > 0.0 and size > 0.0 else 1.0
    return Scales(distance, distance / math.sqrt(n_counting), size if size > 0.0 else 1.0, n_sampled)


def set_distance(constraint: Constraint, dim: int) -> float:
    """Return the geometric mean of the set's half-widths along a coordinate and along the diagonal; inf if unbounded."""
    if dim == 0 or not constraint.is_bounded:
        return math.inf
    ones = np.ones(dim)
    along = 0.5 * (constraint.support(ones) + constraint.support(-ones)) / math.sqrt(dim)
    if not along > 1e-9 * constraint.width():  # a flat set
        along = 0.5 * constraint.diameter(dim) / math.sqrt(dim)
    distance = math.sqrt(along * 0.5 * constraint.width())
    return distance if distance > 0.0 else 1.0
