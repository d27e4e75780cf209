"""Parts of the data as the components of a finite sum: what methods that visit components see of a problem in parts."""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.engine import Engine
from finitesum.core.sums import fetched
from finitesum.core.threads import limited_blas
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.outputs import full_hessian, hessian_product, loss_of, measure, scores_at
from finitesum.evaluation.row_products import gram_product
from finitesum.evaluation.row_sums import curvatures_at, loss_sums
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import RowNumbers, ask
from finitesum.problems.penalties import elastic_net
from finitesum.problems.survey import bind

#: Parts that are asked for each worker at a time: one that waits while another is worked on.
ASKED_A_WORKER = 2

#: The Hessian of a component stays what it is where it missed at most this fraction of the gradient's change.
STALE = 0.1


class Known(NamedTuple):
    """What is known of a component f whose Taylor model has the gradient of one point and the Hessian of another."""

    anchor: Vector  # u
    slope: Vector  # grad f(u)
    curved_at: Vector  # v, where the Hessian was evaluated


class Change(NamedTuple):
    """What a visit at w brings to the Taylor model of a component f: see `change_at`."""

    gradient: Vector  # grad f(w)
    predicted: Vector  # H(v) (w - u), 0 before the first visit
    rise: Matrix | None  # H(w) - H(v), H(w) before the first visit; None where the Hessian stays that at v
    seconds: float  # that it took where it was computed


def is_stale(gradient: Vector, known: Known, predicted: Vector) -> bool:
    """Return whether the Hessian missed more of the gradient's change than may be, and than rounding errors are."""
    change = gradient - known.slope
    rounding = 1e-13 * float(np.linalg.norm(gradient))
    return not np.linalg.norm(change - predicted) <= max(STALE * float(np.linalg.norm(change)), rounding)


def change_at(problem: Problem, w: Vector, known: Known | None) -> Change:
    """Return the change of the Taylor model of some rows by a visit at w; of one output, it takes a Gram matrix at most."""
    started = time.perf_counter()
    gradient, curvatures = _derivatives(problem, w)
    several = problem.n_outputs > 1
    hessian, product = (full_hessian, hessian_product) if several else (hessian_of, gram_product)
    rise: Matrix | None
    if known is None:
        predicted, rise = np.zeros(w.size), hessian(problem, curvatures)
    else:
        old = _curvatures(problem, known.curved_at)
        predicted, rise = product(problem, old, w - known.anchor), None
        if is_stale(gradient, known, predicted):
            rise = hessian(problem, curvatures) - hessian(problem, old) if several else hessian(problem, curvatures - old)
    return Change(gradient, predicted, rise, time.perf_counter() - started)


def gradient_at(problem: Problem, w: Vector) -> Change:
    """Return the gradient of some rows at w, and the seconds that it took."""
    started = time.perf_counter()
    gradient = _sums(problem, w)[1]
    return Change(gradient, np.zeros(0), None, time.perf_counter() - started)


class PartComponent:
    """The component m sum_{i in B} p_i loss_i of a part, or of some of its rows.

    Each of its values and derivatives is one sum over these rows. What is asked for again at the point that was asked for
    last is remembered: a gradient has come with its value.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._asked, self._known = problem, b"", {}  # type: ignore[var-annotated]

    def ask_sums(self, w: Vector) -> Any:
        """Return a future of value and gradient at w, None where they are known; `take_sums` is given it."""
        return None if self._asked == w.tobytes() and "sums" in self._known else ask(_sums, self._problem, w, in_turn=True)

    def take_sums(self, w: Vector, future: Any) -> None:
        """Remember value and gradient at w."""
        sums = fetched(self.engine, future)[0]
        self._remembered("sums", w, lambda problem, w: sums)

    def ask_gradient(self, w: Vector) -> Any:
        """Return a future of the gradient at w as a change without a Hessian, in a pair with ()."""
        return ask(gradient_at, self._problem, w, in_turn=True)

    def ask_change(self, w: Vector, known: Known | None) -> Any:
        """Return a future of the change by a visit at w, in a pair with ()."""
        return ask(change_at, self._problem, w, known, in_turn=True)

    @property
    def engine(self) -> Engine:
        """The engine that the part is placed by."""
        return self._problem.rows.engine  # type: ignore[no-any-return]

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
        """Return the Hessian at w, for which no number by row leaves the part."""
        return np.array(self._remembered("hessian", w, lambda _, w: self._rise(self.ask_change(w, None))))

    def take_hessian(self, w: Vector, future: Any) -> None:
        """Remember the Hessian at w, given a future of the change by a first visit there."""
        self._remembered("hessian", w, lambda *_: self._rise(future))

    def _rise(self, future: Any) -> Matrix:
        change: Change = fetched(self.engine, future)[0]
        assert change.rise is not None  # of a first visit
        return change.rise

    def hessian_product(self, w: Vector, v: Vector) -> Vector:
        """Return the Hessian at w times v."""
        curvatures, problem = self._remembered("curvatures", w, _curvatures), self._problem
        product = hessian_product if problem.n_outputs > 1 else gram_product
        return product(problem, curvatures, v)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self._problem.n_rows)

    def ask_with(self, times: float, term: dict[str, Any], function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a future of function(part, *arguments) with weights this many times as large, a penalty and a set."""
        rows, weights = copy(self._problem.rows), self._problem.weights
        rows.total /= times
        own = {"rows": rows, "weights": weights if isinstance(weights, RowNumbers) else _times(times, weights)}
        return ask(function, bind(replace(self._problem, **own, **term)), *arguments)


def _times(factor: float, numbers: Any) -> Any:
    """Return numbers times a factor; one number that stands for all, which is sent as one, remains so."""
    return np.broadcast_to(factor * numbers[:1], numbers.shape) if numbers.strides[0] == 0 else factor * numbers


def _sums(problem: Problem, w: Vector) -> tuple[float, Vector]:
    """Return value and gradient."""
    if problem.n_outputs > 1:
        return measure(problem, w)
    sums = loss_sums(problem, w)
    return sums.value, sums.gradient


def _derivatives(problem: Problem, w: Vector) -> tuple[Vector, Any]:
    """Return the gradient and the rows' curvatures."""
    if problem.n_outputs > 1:
        return measure(problem, w)[1], _curvatures(problem, w)
    curvatures = np.empty(problem.n_rows)
    return loss_sums(problem, w, curvatures=curvatures).gradient, curvatures


def _curvatures(problem: Problem, w: Vector) -> Any:
    if problem.n_outputs > 1:
        return loss_of(problem).curvatures(scores_at(problem, w))
    return curvatures_at(problem, w)


@dataclass(frozen=True, eq=False)
class PartSum(FiniteSum):
    """A finite sum of parts: what is asked of all of them at a point is asked a few parts a worker at a time."""

    whole: Any = None  # the problem in parts

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the problem in parts, for which no part is read."""
        return self.whole.fingerprint  # type: ignore[no-any-return]

    def require_defined(self, w: Vector) -> None:
        """Raise unless values and gradients are finite at a start; one of zeros is not evaluated, as in memory."""
        if self.whole.term.coefficients(w).any():
            super().require_defined(w)

    def values_and_gradients(self, w: Vector) -> tuple[Vector, Matrix]:
        """Return the values and the gradients of all components at w, shapes (n,) and (n, d)."""
        engine, left = self.components[0].engine, list(self.components)
        waiting: dict[Any, PartComponent] = {}
        most = ASKED_A_WORKER * int(getattr(engine, "n_workers", len(left)))
        with limited_blas(1):
            while left or waiting:
                while left and len(waiting) < most:
                    if (future := left[0].ask_sums(w)) is not None:
                        waiting[future] = left[0]
                    del left[0]
                if waiting:
                    future = next(iter(engine.as_completed(list(waiting))))
                    waiting.pop(future).take_sums(w, future)
        return super().values_and_gradients(w)

    def ask_hessians(self, components: Indices, w: Vector) -> None:
        """Have the Hessians of some components at w computed beside each other, and remembered."""
        with limited_blas(1):
            parts = [self.components[j] for j in components]
            for part, future in [(part, part.ask_change(w, None)) for part in parts]:
                part.take_hessian(w, future)

    @cached_property
    def sizes(self) -> Indices:
        """The number of rows of each component, shape (m,)."""
        return np.array([part.n_rows for part in self.components])

    def found_on(self, j: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return function(F on the rows of component j, a problem in memory, *arguments)."""
        part, term = self.components[j], {"penalty": self.whole.penalty, "constraint": self.whole.constraint}
        times = float(self.sizes.mean() / self.sizes[j])
        with limited_blas(1):
            return fetched(part.engine, part.ask_with(times, term, function, *arguments))[0]


def parts_as_components(problem: Problem) -> PartSum:
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
            numbers["weights"] = _times(len(inside), numbers["weights"])
        of_part: Any = {"rows": rows.only(k, own, len(inside)), "penalty": elastic_net(0.0, 0.0), **numbers}
        alone = replace(problem, constraint=Unconstrained(), batch_size=None, **of_part)
        components.append(PartComponent(bind(alone)))
    term: Any = {"constraint": problem.constraint if problem.is_constrained else None, "penalty": problem.penalty}
    term["whole"] = problem
    return PartSum(components, problem.dim, has_intercept=problem.has_intercept, n_outputs=problem.n_outputs, **term)
