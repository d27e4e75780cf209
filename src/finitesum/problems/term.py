"""The convex term of an objective: a penalty and a set, on the first coordinates of an iterate.

    F(w) = f(w) + sum_j quadratic_j w_j^2 / 2 + r(w),      f the mean loss

The quadratic part of the penalty joins the smooth function f, to which it lends its gradient and curvature. The rest, r,
is the part of the penalty that has a prox, the indicator function of the set, or with bounds the sum of both, whose prox is
that of the penalty and then the projection. An intercept stands behind the coordinates that the term acts on and is neither
penalised nor constrained. With several outputs the coefficients of each lie in the set by themselves.

Whoever needs a prox takes a term, not a problem: every kind of problem has one.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from finitesum.constraints import Box, Constraint, Unconstrained
from finitesum.constraints.outputs import OutputsProjection
from finitesum.constraints.projections import COORDINATE_NUMBERS, Projection
from finitesum.constraints.whole_arrays import n_numbers, project_whole
from finitesum.core.arrays import Indices, Vector, in_one_line
from finitesum.core.jit import array_form, compiled_form, kernel, kernel_part
from finitesum.core.vectors import sum_of_squares
from finitesum.problems.intervals import Intervals
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.term_penalties import Groups, Separable, TermPenalty, WeightedElasticNet, group_total, shrink_groups

if TYPE_CHECKING:
    from finitesum.problems.view import View


class CompiledTerm(NamedTuple):
    """What kernels see of a term; a `View` has the same fields and may stand in its place."""

    penalty: ElasticNet  # or Separable, or Groups, in its place
    projection: Projection  # onto the set, of the first n_penalised coordinates; of whole iterates with several blocks
    is_constrained: bool
    n_penalised: int  # the first coordinates of a block; an intercept stands behind them
    n_blocks: int  # of equal length, one behind the other: more than one where there are several outputs, and no groups


@kernel
def _prox(penalty: TermPenalty, w: Vector, step_size: float) -> None:
    penalty.apply_prox(w, step_size)


@kernel
def _project(projection: Projection, w: Vector) -> None:
    projection.project_euclidean_into(w, w)


def _penalty_numbers(penalty: TermPenalty, w: Vector, *_others: Any) -> float:
    return w.size * (1.0 if isinstance(penalty, ElasticNet | WeightedElasticNet | Groups) else COORDINATE_NUMBERS)


@array_form(_prox, _penalty_numbers)
def _prox_in_arrays(penalty: TermPenalty, w: Vector, step_size: float) -> None:
    if isinstance(penalty, ElasticNet | WeightedElasticNet):
        thresholds = step_size * penalty.l1 * getattr(penalty, "weights", 1.0) * getattr(penalty, "scale", 1.0)
        w[:] = np.where(np.abs(w) <= thresholds, 0.0, w - np.copysign(thresholds, w))
    elif isinstance(penalty, Groups):
        shrink_groups(penalty, w, step_size)
    else:
        penalty.apply_prox(w, step_size)


@array_form(_project, n_numbers)
def _project_in_arrays(projection: Projection, w: Vector) -> None:
    project_whole(projection, w, w)


@kernel_part
def n_projected(term: "CompiledTerm | View", w: Vector) -> int:
    """Return how many of the coordinates of an iterate the projection takes: the first, and with several blocks all."""
    return term.n_penalised if term.n_blocks == 1 else w.size


def prox_in_place(term: "CompiledTerm | View", w: Vector, step_size: float) -> None:
    """Apply the prox of the penalty, then the projection, which with bounds is the prox of both; intercepts stay."""
    if term.penalty.has_prox():
        for block in w.reshape(term.n_blocks, -1):
            _prox(term.penalty, block[: term.n_penalised], step_size)
    if term.is_constrained:
        _project(term.projection, w[: n_projected(term, w)])


@compiled_form(of=prox_in_place)
def _prox_in_place(term: "CompiledTerm | View", w: Vector, step_size: float) -> None:
    if not term.is_constrained or term.penalty.has_prox():
        size = w.size if term.n_blocks == 1 else w.size // term.n_blocks  # a visit should not wait for a division
        for start in range(0, w.size, size):
            term.penalty.apply_prox(w[start : start + term.n_penalised], step_size)
    if term.is_constrained:
        coefficients = w[: n_projected(term, w)]
        term.projection.project_euclidean_into(coefficients, coefficients)


@kernel
def _prox_step(term: CompiledTerm, w: Vector, gradient: Vector, step_size: float) -> Vector:
    moved = w - step_size * gradient
    prox_in_place(term, moved, step_size)
    return moved


@kernel
def _penalty_of_blocks(term: CompiledTerm, w: Vector) -> float:
    total = 0.0
    for start in range(0, w.size, w.size // term.n_blocks):
        total = term.penalty.penalty_total(w[start : start + term.n_penalised], total)
    return total


def _term_numbers(term: CompiledTerm, w: Vector, *_others: Any) -> float:
    return n_numbers(term.projection, w) if term.is_constrained else _penalty_numbers(term.penalty, w)


@array_form(_prox_step, _term_numbers)
def _prox_step_in_arrays(term: CompiledTerm, w: Vector, gradient: Vector, step_size: float) -> Vector:
    moved: Vector = w - step_size * gradient
    prox_in_place(term, moved, step_size)
    return moved


@array_form(_penalty_of_blocks, lambda term, w: _penalty_numbers(term.penalty, w))
def _penalty_in_arrays(term: CompiledTerm, w: Vector) -> float:
    penalty, blocks = term.penalty, w.reshape(term.n_blocks, -1)[:, : term.n_penalised]
    if isinstance(penalty, ElasticNet | WeightedElasticNet):
        weights, sizes = getattr(penalty, "weights", 1.0), getattr(penalty, "scale", 1.0) * np.abs(blocks)
        return float((weights * (penalty.l1 * sizes + 0.5 * penalty.l2 * sizes * sizes)).sum())
    if isinstance(penalty, Separable):
        return sum(penalty.total_beside_zeros(block) for block in blocks)
    total_of = group_total if isinstance(penalty, Groups) else type(penalty).penalty_total
    total = 0.0
    for block in blocks:
        total = total_of(penalty, block, total)
    return total


@dataclass(frozen=True, eq=False)
class ConvexTerm:
    """A penalty and a set that act on the first coordinates of an iterate."""

    penalty: Any  # an ElasticNet, WeightedElasticNet, Separable or Groups, as `as_penalty` makes them
    constraint: Constraint  # `Unconstrained` where there is none
    n_columns: int  # coordinates that the term acts on
    n_free: int = 0  # coordinates behind them: 1 with an intercept
    n_blocks: int = 1  # how often these n_columns + n_free follow each other in an iterate: the number of classes

    @property
    def dim(self) -> int:
        """The length of an iterate."""
        return self.n_blocks * (self.n_columns + self.n_free)

    @property
    def is_constrained(self) -> bool:
        """Whether the coordinates are confined to a set."""
        return self.constraint.boundary != "nothing"

    @cached_property
    def ridge(self) -> float:
        """The strength of the quadratic part of an elastic net, at weight 1."""
        return float(self.penalty.ridge())

    @cached_property
    def lasso(self) -> float:
        """The strength of the absolute values of an elastic net, at weight 1."""
        return float(self.penalty.lasso())

    @property
    def has_l1(self) -> bool:
        """Whether the penalty is an elastic net with an absolute value in it."""
        return self.lasso > 0.0

    @property
    def has_penalty(self) -> bool:
        """Whether there is a penalty."""
        return not self.is_elastic_net or self.ridge > 0.0 or self.has_l1

    @cached_property
    def is_elastic_net(self) -> bool:
        """Whether quadratic part and thresholds are all there is to the penalty."""
        return isinstance(self.penalty, ElasticNet | WeightedElasticNet)

    @property
    def has_weights(self) -> bool:
        """Whether quadratic part and thresholds differ between coefficients."""
        return isinstance(self.penalty, WeightedElasticNet)

    @property
    def is_convex(self) -> bool:
        """Whether the penalty is convex; else a small optimality means a stationary point."""
        return self._weak_convexity == 0.0

    @property
    def _weak_convexity(self) -> float:
        return float(self.penalty.weak_convexity()) if isinstance(self.penalty, Separable) else 0.0

    @cached_property
    def mapping_step(self) -> float:
        """The step of the prox in `optimality`: 1, and less where only a shorter one makes the prox continuous."""
        return min(1.0, 0.5 / self._weak_convexity) if self._weak_convexity > 0.0 else 1.0

    @property
    def is_separable(self) -> bool:
        """Whether the term is a sum of terms of one coordinate each, in closed form."""
        return self.is_elastic_net and self.constraint.is_separable

    @cached_property
    def is_smooth(self) -> bool:
        """Whether the term is its quadratic part: r = 0."""
        return self.is_elastic_net and not (self.is_constrained or self.has_l1)

    @property
    def demands(self) -> dict[str, str]:
        """What a method must handle to treat the term, and what that is in words: see `finitesum.methods.base`."""
        demands = {"constraint": "a constraint"} if self.is_constrained else {}
        if self.has_l1:
            demands["l1"] = "an l1 penalty"
        if isinstance(self.penalty, Groups):
            demands["groups"] = "a group lasso, whose prox takes whole groups at once"
        if self.is_constrained and (self.has_l1 or self.has_weights):
            demands["bounded-l1"] = "an l1 penalty or penalty_weights beside bounds of the coefficients"
        if self.has_weights:
            demands["weights"] = "penalty_weights: it knows penalties of one strength for all coefficients"
        if isinstance(self.penalty, Separable):
            name = in_one_line(self.penalty.base)
            demands["prox"] = f"{name}: it knows penalties as an l2 part and thresholds, and this one has a prox only"
            if self._weak_convexity > 0.0:
                demands["nonconvex"] = f"{name}, which is not convex as its steps need it"
        return demands

    @cached_property
    def compiled(self) -> CompiledTerm:
        """What kernels take in place of the term: groups of several outputs name their coordinates in all blocks."""
        if isinstance(self.penalty, Groups) and self.n_blocks > 1:
            groups: Any = self.penalty.over_outputs(self.n_blocks, self.n_columns + self.n_free)
            return CompiledTerm(groups, self.constraint.compiled, self.is_constrained, self.dim, 1)
        projection: Any = self.constraint.compiled
        if self.is_constrained and self.n_blocks > 1:
            projection = OutputsProjection(projection, self.n_blocks, self.n_columns)
        return CompiledTerm(self.penalty, projection, self.is_constrained, self.n_columns, self.n_blocks)

    @cached_property
    def weights(self) -> Vector:
        """The weights of the coordinates in the quadratic part, (dim,): 1 where nothing else is given, 0 for intercepts."""
        return self._of_coordinates(getattr(self.penalty, "weights", 1.0) * self._scale**2)

    @property
    def _scale(self) -> Any:
        return getattr(self.penalty, "scale", 1.0)

    def _of_coordinates(self, of_columns: Any) -> Vector:
        numbers = np.zeros(self.dim)
        numbers.reshape(self.n_blocks, -1)[:, : self.n_columns] = of_columns
        return numbers

    @cached_property
    def quadratic(self) -> Vector:
        """The strength of the quadratic part by coordinates, shape (dim,): 0 for intercepts."""
        return np.asarray(self.ridge * self.weights)

    @cached_property
    def largest_quadratic(self) -> float:
        """The largest strength of the quadratic part."""
        return float(self.ridge * self.weights.max(initial=0.0))

    @cached_property
    def thresholds(self) -> Vector:
        """The strength of the absolute values by coordinates, shape (dim,): 0 for intercepts."""
        return self._of_coordinates(self.lasso * getattr(self.penalty, "weights", 1.0) * self._scale)

    def weighted_dot(self, u: Vector, v: Vector) -> float:
        """Return sum_j weights_j u_j v_j over the coefficients."""
        return float(self.coefficients(self.weights * u) @ self.coefficients(v))

    def coefficients(self, w: Vector) -> Vector:
        """Return the coordinates that the term acts on, a view of w where there is one block."""
        return w[: self.n_columns] if self.n_blocks == 1 else w.reshape(self.n_blocks, -1)[:, : self.n_columns].ravel()

    def value(self, w: Vector) -> float:
        """Return the penalty at w, its quadratic part included; a point outside of the set has no other value."""
        if not isinstance(self.penalty, ElasticNet):
            return float(_penalty_of_blocks(self.compiled, w))
        coefficients, total = self.coefficients(w), 0.0
        if self.has_l1:
            total = self.lasso * float(np.abs(coefficients).sum())
        if self.ridge == 0.0:
            return total
        return total + 0.5 * self.ridge * sum_of_squares(coefficients)

    def add_to(self, gradient: Vector, w: Vector) -> float:
        """Add the quadratic part's gradient at w to that of the mean loss, in place, and return the whole penalty."""
        gradient += self.quadratic * w
        return self.value(w)

    def prox(self, v: Vector, step_size: float) -> Vector:
        """Return argmin_w r(w) + ||w - v||^2 / (2 step_size), a new array."""
        return self.prox_step(v, np.zeros(v.size), step_size)

    def rise(self, w: Vector, end: Vector) -> float:
        """Return r(end) - r(w), the change of the part that is not smooth."""
        if not self.is_elastic_net:
            return self.value(end) - self.value(w)
        if not self.has_l1:
            return 0.0
        sizes: Vector = np.abs(self.coefficients(end)) - np.abs(self.coefficients(w))
        if self.has_weights:
            return float(self.coefficients(self.thresholds) @ sizes)
        return float(self.lasso * sizes.sum())

    def slope(self, end: Vector, direction: Vector) -> float:
        """Return the slope of r along a direction at its end, of an elastic net or groups: at 0 that of what grows."""
        if isinstance(self.penalty, Groups):
            return float(self.compiled.penalty.slope(end, direction))  # type: ignore[attr-defined]
        return float(self.thresholds @ np.where(end == 0.0, np.abs(direction), np.sign(end) * direction))

    def prox_step(self, w: Vector, gradient: Vector, step_size: float) -> Vector:
        """Return prox(w - step_size gradient), a new array: the intercept only steps."""
        return _prox_step(self.compiled, w, gradient, step_size)

    def project(self, w: Vector) -> Vector:
        """Return the nearest point whose coefficients lie in the set: w itself where there is no set."""
        return self.prox(w, 0.0) if self.is_constrained else w

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return the prox-gradient mapping (w - prox(w - s gradient)) / s, s = `mapping_step`, without its cancellation.

        Where |w| is 1e16 times as large as the gradient, w - s gradient is w, and the difference as it is written would be
        0. With thresholds t it is the nearest point to w_j in [g_j - t_j, g_j + t_j]; sets have formulas of their own, with
        that point in the place of g_j where bounds are beside thresholds; else it is g + (v - prox(v)) / s at v = w - s g,
        which keeps the gradient's digits where the prox changes nothing.
        """
        if self.is_smooth:
            return gradient
        if self.is_constrained:
            d = self.n_columns
            gradient = np.clip(w, gradient - self.thresholds, gradient + self.thresholds) if self.has_l1 else gradient
            mapping = gradient.copy()
            blocks = [numbers.reshape(self.n_blocks, -1)[:, :d] for numbers in (w, gradient, mapping)]
            if self.constraint.n_outputs is not None:  # intervals of each output's own
                blocks[2][:] = self.constraint.mapping(*blocks[:2])
                return mapping
            for of_w, of_gradient, of_mapping in zip(*blocks, strict=True):
                of_mapping[:] = self.constraint.mapping(of_w, of_gradient)
            return mapping
        if self.is_elastic_net:
            return np.clip(w, gradient - self.thresholds, gradient + self.thresholds)
        moved = w - self.mapping_step * gradient
        return gradient + (moved - self.prox(moved, self.mapping_step)) / self.mapping_step

    def optimality(self, w: Vector, gradient: Vector) -> float:
        """Return the norm of `mapping`, given the gradient of the smooth part at w: 0 at stationary points alone."""
        mapping = self.mapping(w, gradient)
        return math.sqrt(sum_of_squares(mapping))

    @cached_property
    def intervals(self) -> Intervals | None:
        """The term as intervals, None where its penalty or set is of another kind."""
        d, constraint = self.n_columns, cast(Any, self.constraint)
        if not self.is_elastic_net or constraint.boundary not in ("nothing", "bounds", "signs", "l1-norm", "sum"):
            return None
        lower, upper, sizes = np.full(self.dim, -np.inf), np.full(self.dim, np.inf), np.zeros(0)
        for ends, of_columns in zip((lower, upper), constraint.intervals(d), strict=True):
            ends.reshape(self.n_blocks, -1)[:, :d] = of_columns
        total, has_sign, n_sums = np.inf, self.thresholds > 0.0, 1
        if constraint.boundary == "l1-norm":
            weights = 1.0 if constraint.weights is None else constraint.weights
            sizes, total = self._of_coordinates(weights), constraint.radius
            has_sign, n_sums = sizes > 0.0, self.n_blocks
        elif constraint.boundary == "sum":
            sizes, total, n_sums = self._of_coordinates(1.0), constraint.total, self.n_blocks
        return Intervals(lower, upper, self.thresholds, has_sign, sizes, total, constraint.boundary == "sum", n_sums)

    @cached_property
    def in_one_block(self) -> tuple["ConvexTerm", Indices]:
        """The term on the coordinates in another order, all intercepts behind all coefficients; and that order.

        A set must be one of intervals.
        """
        order = np.arange(self.dim).reshape(self.n_blocks, -1)
        order = np.concatenate([order[:, : self.n_columns].ravel(), order[:, self.n_columns :].ravel()])
        n_columns, n_free = self.n_blocks * self.n_columns, self.n_blocks * self.n_free
        penalty = self.penalty
        if not isinstance(penalty, ElasticNet):
            penalty = penalty.on_columns(np.tile(np.arange(self.n_columns), self.n_blocks))
        constraint = self.constraint
        if self.is_constrained:
            bounds = (bound.reshape(-1, self.n_columns) for bound in constraint.intervals(self.n_columns))
            shape = self.n_blocks, self.n_columns
            constraint = Box(*(np.ascontiguousarray(np.broadcast_to(bound, shape)).reshape(-1) for bound in bounds))
        return ConvexTerm(penalty, constraint, n_columns, n_free), order

    def on_columns(self, columns: Any) -> "ConvexTerm":
        """Return the term in some of the coefficients, where the others are 0; the intercept stays."""
        constraint = self.constraint.on_columns(columns) if columns.size > 0 else Unconstrained()
        penalty = self.penalty if isinstance(self.penalty, ElasticNet) else self.penalty.on_columns(columns)
        return ConvexTerm(penalty, constraint, int(columns.size), self.n_free, self.n_blocks)
