"""Parts of the data as the components of a finite sum: what methods that visit components see of a problem in parts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.outputs import full_hessian, hessian_product, loss_of, measure, scores_at
from finitesum.evaluation.row_products import gram_product
from finitesum.evaluation.row_sums import curvatures_at, loss_sums
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import RowNumbers
from finitesum.problems.penalties import elastic_net
from finitesum.problems.survey import bind


class PartComponent:
    """The component m sum_{i in B} p_i loss_i of a part, or of some of its rows.

    Each of its values and derivatives is one sum over these rows. What is asked for again at the point that was asked for
    last is remembered: a gradient has come with its value.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._asked, self._known = problem, b"", {}  # type: ignore[var-annotated]

    def _remembered(self, what: str, w: Vector, function: Callable[[Problem, Vector], Any]) -> Any:
        if self._asked != w.tobytes():
            self._asked, self._known = w.tobytes(), {}
        if what not in self._known:
            self._known[what] = function(self._problem, w)
        return self._known[what]

    def value(self, w: Vector) -> float:
        """Return the value at w."""
        return float(self._remembered("sums", w, _sums)[0])

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient at w."""
        return np.array(self._remembered("sums", w, _sums)[1])

    def hessian(self, w: Vector) -> Matrix:
        """Return the Hessian at w."""
        curvatures, problem = self._remembered("curvatures", w, _curvatures), self._problem
        return full_hessian(problem, curvatures) if problem.n_outputs > 1 else hessian_of(problem, curvatures)

    def hessian_product(self, w: Vector, v: Vector) -> Vector:
        """Return the Hessian at w times v."""
        curvatures, problem = self._remembered("curvatures", w, _curvatures), self._problem
        product = hessian_product if problem.n_outputs > 1 else gram_product
        return product(problem, curvatures, v)


def _sums(problem: Problem, w: Vector) -> tuple[float, Vector]:
    """Return value and gradient."""
    if problem.n_outputs > 1:
        return measure(problem, w)
    sums = loss_sums(problem, w)
    return sums.value, sums.gradient


def _curvatures(problem: Problem, w: Vector) -> Any:
    if problem.n_outputs > 1:
        return loss_of(problem).curvatures(scores_at(problem, w))
    return curvatures_at(problem, w)


def parts_as_components(problem: Problem) -> FiniteSum:
    """Return a problem in parts as a finite sum with the same penalty and set.

    A part is a component, or as many as it has blocks of `batch_size` rows, the last of which may be shorter.
    """
    rows, components = problem.rows, []
    inside = [
        (k, slice(first, min(first + size, part.stop - part.start)))
        for k, part in enumerate(rows.parts)
        for size in [problem.batch_size or part.stop - part.start]
        for first in range(0, part.stop - part.start, size)
    ]
    for k, own in inside:
        start, numbers = rows.parts[k].start, {}
        here = slice(start + own.start, start + own.stop)
        for name in ("targets", "weights", "offsets"):
            given = getattr(problem, name)
            is_beside, shape = isinstance(given, RowNumbers), (own.stop - own.start, *given.shape[1:])
            numbers[name] = RowNumbers(name, shape) if is_beside else given[here]
        if not isinstance(problem.weights, RowNumbers):
            numbers["weights"] = numbers["weights"] * len(inside)
        of_part: Any = {"rows": rows.only(k, own, len(inside)), "penalty": elastic_net(0.0, 0.0), **numbers}
        alone = replace(problem, constraint=Unconstrained(), batch_size=None, **of_part)
        components.append(PartComponent(bind(alone)))
    term: Any = {"constraint": problem.constraint if problem.is_constrained else None, "penalty": problem.penalty}
    return FiniteSum(components, problem.dim, has_intercept=problem.has_intercept, n_outputs=problem.n_outputs, **term)
