"""Steps on the mean Taylor model that need no step size: what CIAG and A-CIAG do with "auto".

The step is factor / lambda, where lambda bounds lambda_max of the current H: a warm power iteration, and between its runs
what each change of H adds at most, so no step can blow up on the model. The momentum follows Nesterov's sequence below
(1 - sqrt(mu/lambda)) / (1 + sqrt(mu/lambda)) and restarts when step and gradient disagree. Between two visits A-CIAG
takes r = ceil(8 sqrt(lambda/mu) / m) such steps on the model, which read no data: they make up for few, large components.

What is left to go wrong are bad models: after each visit R decides which rows take the curvature of a majorant, or how far
a visit may step (`finitesum.methods.curvature.trust`). The first pass has nothing to compare but components that are
visited twice: a few visits more supply R there, and they count. Of functions whose smoothness L is known, a visit takes one
step of 1 / max(lambda, L) while models are not trusted at all: a step that F itself would allow.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import compiled_form, kernel, kernel_part
from finitesum.core.symmetric import padded_size
from finitesum.core.vectors import axpy, copy, divide, extrapolate, norm, scale
from finitesum.evaluation.smoothness import component_smoothness
from finitesum.methods.constants import Constant, smoothness_from, strong_convexity
from finitesum.methods.curvature import delayed, taylor_model as taylor, trust as trusted
from finitesum.methods.curvature.taylor_model import OpenModel, TaylorModel
from finitesum.methods.curvature.trust import ALL, Comparison, Trust, TrustRule, trusted_visit
from finitesum.methods.delayed_visits import Visit
from finitesum.methods.visits import AnySum, descend
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.term_penalties import WeightedElasticNet
from finitesum.problems.view import View

#: Model steps that a visit takes at most: beyond it a visit costs more than it can gain.
MOST_MODEL_STEPS = 200

#: The bound on lambda_max falls at most by this factor when the power iteration finds less: an eigenvector that it has not
#: found yet then has time to show.
SLOWEST_FALL = 0.9


class StepRule(NamedTuple):
    """What distinguishes the methods with the same automatic steps."""

    trust: TrustRule
    is_accelerated: bool
    step_factor: float  # the step is step_factor / lambda
    model_steps: int  # a visit; 0 means what the condition asks for
    mu: float  # a known lower bound on the curvature
    smoothness: float  # L, used while models are not trusted; 0 where it plays no part


@kernel_part
def _power_steps(model: OpenModel, direction: Vector, gradient: Vector, n_steps: int, fallback: float) -> float:
    """Return 1.05 ||H v|| after some steps of the power iteration on v, in place; `gradient` is overwritten.

    The last model gradient is mixed into v: should a step ever have been too long, it points to the eigenvector missed.
    """
    size, length = norm(direction), norm(gradient)
    if size == 0.0 and length == 0.0:
        return fallback
    scale(direction, 1.0 / size if size > 0.0 else 0.0)
    axpy(0.3 / length if length > 0.0 else 0.0, gradient, direction)
    size = norm(direction)
    divide(direction, size, direction)
    product = gradient
    for _ in range(n_steps):
        taylor.curvature_product(model, direction, product)
        size = norm(product)
        if size == 0.0:
            return fallback
        divide(product, size, direction)
    return 1.05 * size


@kernel_part
def bound_eigenvalue(model: OpenModel, direction: Vector, bound: float, gradient: Vector, now: int, m: int) -> float:
    """Return the bound on lambda_max(H) after visit `now`, sharpened from time to time; `gradient` is overwritten."""
    if now > 100 and now % (-(-m // 50)) != 0:
        return bound
    n_steps = 8 if now <= 10 else 2
    return max(_power_steps(model, direction, gradient, n_steps, bound), SLOWEST_FALL * bound)


@kernel_part
def accelerate(rule: StepRule, eigenvalue: float, sequence: float) -> tuple[float, float]:
    """Return the next number of Nesterov's sequence and the extrapolation."""
    if not rule.is_accelerated or eigenvalue <= 0.0:
        return 1.0, 0.0
    root = np.sqrt(min(rule.mu / eigenvalue, 1.0))
    following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * sequence * sequence))
    return following, min((sequence - 1.0) / following, (1.0 - root) / (1.0 + root))


def _alignment(y: Vector, w: Vector, previous: Vector) -> float:
    """Return (y - w)'(w - previous)."""
    return float((y[: w.size] - w) @ (w - previous))


@compiled_form(of=_alignment)
def _compiled_alignment(y: Vector, w: Vector, previous: Vector) -> float:
    total = 0.0
    for j in range(w.size):
        total += (y[j] - w[j]) * (w[j] - previous[j])
    return total


@kernel_part
def model_step(
    view: View, model: OpenModel, w: Vector, previous: Vector, y: Vector, gradient: Vector, step_size: float
) -> None:
    """Step from y on the model, in place: previous <- w, w <- prox(y - step (b + H y))."""
    taylor.gradient_into(model, y, gradient)
    copy(w, previous)
    copy(y[: w.size], w)
    descend(view, w, gradient, step_size)


@kernel_part
def take_model_steps(
    view: View,
    model: OpenModel,
    rule: StepRule,
    w: Vector,
    previous: Vector,
    y: Vector,
    gradient: Vector,
    eigenvalue: float,
    following: float,
    is_distrusted: bool,
) -> float:
    """Take the model steps of a visit, the first from y; return the last number of Nesterov's sequence."""
    n_steps = rule.model_steps
    step_size = rule.step_factor / eigenvalue
    if n_steps == 0:
        kappa = eigenvalue / max(rule.mu, 1e-10 * eigenvalue)
        wanted = np.ceil(8.0 * np.sqrt(kappa) / view.n_components)
        n_steps = max(1, int(wanted)) if wanted < MOST_MODEL_STEPS else MOST_MODEL_STEPS  # NaN after an overflow
    if is_distrusted and rule.smoothness > 0.0:
        n_steps, step_size = 1, 1.0 / max(eigenvalue, rule.smoothness)
    sequence = following
    for step in range(n_steps):
        if step > 0:
            following, extrapolation = accelerate(rule, eigenvalue, sequence)
            extrapolate(w, previous, extrapolation, y)
        model_step(view, model, w, previous, y, gradient, step_size)
        sequence = following
        if not rule.is_accelerated or _alignment(y, w, previous) > 0.0:
            sequence = 1.0
            copy(w, previous)
    return sequence


class Control(NamedTuple):
    """What automatic steps remember."""

    direction: Vector  # (padded d,)  of the power iteration
    comparison: Comparison
    trust: Trust
    eigenvalue: float  # lambda
    sequence: float  # the last number of Nesterov's sequence


def new_control(problem: AnySum, w0: Vector, *, acts: bool) -> Control:
    """Return the control before the first visit; one that does not act measures R only."""
    trust = trusted.new_trust(problem, w0, trusted.trust_rule(problem, acts=acts, is_gradual=True))
    return Control(np.zeros(padded_size(problem.dim)), trusted.no_comparison(problem), trust, 0.0, 1.0)


def with_bound(control: Control, model: TaylorModel, n_steps: int = 30) -> Control:
    """Return a control that knows lambda_max of an H which it has not seen grow, by the power iteration."""
    hessian = taylor.full_hessian(model)
    direction = np.ones(hessian.shape[0]) + 0.1 * np.cos(np.arange(hessian.shape[0]))  # orthogonal to nothing of note
    largest = 0.0
    for _ in range(n_steps):
        product = hessian @ direction
        largest = float(np.linalg.norm(product))
        if largest == 0.0:
            return control
        direction = product / largest
    padded = np.zeros(control.direction.size)
    padded[: direction.size] = direction
    return control._replace(direction=padded, eigenvalue=1.05 * largest)


@kernel_part
def _pull_back(w: Vector, start: Vector, radius: float, scratch: Vector) -> float:
    """Shorten the step from start to w to the radius; return how long it was."""
    copy(w, scratch)
    axpy(-1.0, start, scratch)
    length = norm(scratch)
    if length > radius:
        copy(start, w)
        axpy(radius / length, scratch[: w.size], w)
    return length


def visit_component(
    view: View,
    model: OpenModel,
    visit: Any,
    w: Vector,
    comparison: Comparison,
    trust: Trust,
    rule: TrustRule,
    eigenvalue: float,
    direction: Vector,
) -> tuple[Trust, float]:
    """Visit a component at w as `trusted_visit` does; or, given a change that was asked for ahead, take that."""
    if isinstance(visit, Visit):
        return delayed.moved_model(model, visit, comparison, trust, rule, eigenvalue, direction)
    return trusted_visit(view, model, visit, w, comparison, trust, rule, eigenvalue, direction)


@compiled_form(of=visit_component)
def _visit_component(
    view: View,
    model: OpenModel,
    visit: int,
    w: Vector,
    comparison: Comparison,
    trust: Trust,
    rule: TrustRule,
    eigenvalue: float,
    direction: Vector,
) -> tuple[Trust, float]:
    return trusted_visit(view, model, visit, w, comparison, trust, rule, eigenvalue, direction)


@kernel
def _controlled_visits(
    view: View, order: Any, w: Vector, previous: Vector, model: OpenModel, control: Control, rule: StepRule
) -> tuple[Trust, float, float]:
    """Visit the components of `order`, in place; w becomes NaN where even the start has no finite derivatives.

    Return trust, eigenvalue and sequence of the control.
    """
    m = view.n_components
    direction, comparison = control.direction, control.comparison
    trust, eigenvalue, sequence = control.trust, control.eigenvalue, control.sequence
    y, gradient, start = np.zeros(direction.size), np.zeros(direction.size), w.copy()
    for component in order:
        following, extrapolation = accelerate(rule, eigenvalue, sequence)
        extrapolate(w, previous, extrapolation, y)
        radius = trust.radius
        trust, increase = visit_component(view, model, component, y, comparison, trust, rule.trust, eigenvalue, direction)
        if np.isfinite(increase):
            bound = eigenvalue + increase
            eigenvalue = bound_eigenvalue(model, direction, bound, gradient, trust.n_visits, m)
            copy(w, start)
            if eigenvalue > 0.0:
                sequence = take_model_steps(
                    view, model, rule, w, previous, y, gradient, eigenvalue, following, trust.majorize == ALL
                )
            restarts = trust.radius < radius
            if not rule.trust.majorizes:
                length = _pull_back(w, start, radius, y)
                trust, restarts = trusted.stepping(trust, length), restarts or length > radius
        else:  # an exponential overflowed: halfway back to where it did not, and shorter steps
            restarts = True
            trusted.go_back(w, start, trust.n_visits == 1)
        if restarts:
            sequence = 1.0
            copy(w, previous)
    taylor.finish_visits(model)
    return trust, eigenvalue, sequence


def with_revisits(order: Indices, n_revisits: int) -> Indices:
    """Return the order with some visits more, spread over it, of components that came before."""
    if n_revisits == 0:
        return order
    places = np.linspace(1, order.size, n_revisits).astype(np.int64)  # the visits of the order before each of them
    earlier = order[(7919 * np.arange(n_revisits) + 104_729) % places]
    return np.insert(order, places, earlier)


def _known_smoothness(problem: AnySum) -> float:
    """Return L of functions and of several outputs where it is known, else 0."""
    if isinstance(problem, Problem):
        return component_smoothness(problem) if problem.n_outputs > 1 else 0.0
    return 0.0 if problem.smoothness is None else smoothness_from(problem, problem.smoothness, Constant.MEAN)


def step_rule(problem: AnySum, *, is_accelerated: bool, model_steps: int) -> StepRule:
    """Return what automatic steps of a method go by on a problem."""
    trusting = trusted.trust_rule(problem, acts=True, is_gradual=True)
    step_factor, known = 1.0 if is_accelerated else 1.8, (strong_convexity(problem), _known_smoothness(problem))
    return StepRule(trusting, is_accelerated, step_factor, model_steps, *known)


def controlled_pass(
    problem: AnySum,
    order: Indices,
    w: Vector,
    previous: Vector,
    model: TaylorModel,
    control: Control,
    *,
    is_accelerated: bool,
    model_steps: int,
) -> tuple[Control, int]:
    """Run the visits of `order` with automatic steps, in place; return the control and how many visits were made.

    The first pass of an empty model makes some visits more, to supply R.
    """
    m = problem.n_components
    first = not bool(model.visited.any())
    n_revisits = math.ceil(m * max(0.05, min(0.5, 10.0 / m))) if first and m > 1 else 0
    rule = step_rule(problem, is_accelerated=is_accelerated, model_steps=model_steps)
    if n_revisits:
        rule = rule._replace(trust=rule.trust._replace(window=min(max(0.1 * n_revisits, 3.0), 50.0)))
    visits = with_revisits(order, n_revisits)
    return controlled_visits(problem, visits, w, previous, taylor.opened(model), control, rule), visits.size


def _with_weights(problem: AnySum) -> Any:
    """Return the view with the plain elastic net as one with weights of 1: both have one machine code, of the same bits."""
    view, penalty = problem.view, problem.view.penalty
    if not isinstance(problem, Problem) or not isinstance(penalty, ElasticNet):
        return view
    ones = np.ones(view.n_penalised)
    weighted: Any = WeightedElasticNet(penalty.l1, penalty.l2, ones, ones)
    return view._replace(penalty=weighted)


def controlled_visits(
    problem: AnySum, visits: Any, w: Vector, previous: Vector, model: OpenModel, control: Control, rule: StepRule
) -> Control:
    """Run visits, of components or of changes that were asked for ahead, in place; return the control."""
    trust, eigenvalue, sequence = _controlled_visits(_with_weights(problem), visits, w, previous, model, control, rule)
    return control._replace(trust=trust, eigenvalue=float(eigenvalue), sequence=float(sequence))
