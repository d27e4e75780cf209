"""Accelerated steps on the mean Taylor model: their length, their momentum, and how many a visit takes.

The step is factor / lambda, where lambda bounds lambda_max of the current H: a warm power iteration, and between its runs
what each change of H adds at most, so no step can blow up on the model. The momentum follows Nesterov's sequence below
(1 - sqrt(mu/lambda)) / (1 + sqrt(mu/lambda)) and restarts when step and gradient disagree. Between two visits A-CIAG
takes r = ceil(8 sqrt(lambda/mu) / m) such steps on the model, which read no data: they make up for few, large components.

Of functions whose smoothness L is known, a visit takes one step of 1 / max(lambda, L) while models are not trusted at all:
a step that F itself would allow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import compiled_form, kernel_part
from finitesum.core.vectors import axpy, copy, divide, extrapolate, norm, scale
from finitesum.methods.curvature.taylor_model import OpenModel, curvature_product, gradient_into
from finitesum.methods.visits import descend
from finitesum.problems.linear import LinearSum

#: Model steps that a visit takes at most: beyond it a visit costs more than it can gain.
MOST_MODEL_STEPS = 200

#: The bound on lambda_max falls at most by this factor when the power iteration finds less: an eigenvector that it has not
#: found yet then has time to show.
SLOWEST_FALL = 0.9


class StepRule(NamedTuple):
    """What distinguishes the methods with the same automatic steps."""

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
        curvature_product(model, direction, product)
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
    linear_sum: LinearSum, model: OpenModel, w: Vector, previous: Vector, y: Vector, gradient: Vector, step_size: float
) -> None:
    """Step from y on the model, in place: previous <- w, w <- prox(y - step (b + H y))."""
    gradient_into(model, y, gradient)
    copy(w, previous)
    copy(y[: w.size], w)
    descend(linear_sum, w, gradient, step_size)


@kernel_part
def take_model_steps(
    linear_sum: LinearSum,
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
        n_steps = min(max(1, int(np.ceil(8.0 * np.sqrt(kappa) / linear_sum.n_components))), MOST_MODEL_STEPS)
    if is_distrusted and rule.smoothness > 0.0:
        n_steps, step_size = 1, 1.0 / max(eigenvalue, rule.smoothness)
    sequence = following
    for step in range(n_steps):
        if step > 0:
            following, extrapolation = accelerate(rule, eigenvalue, sequence)
            extrapolate(w, previous, extrapolation, y)
        model_step(linear_sum, model, w, previous, y, gradient, step_size)
        sequence = following
        if not rule.is_accelerated or _alignment(y, w, previous) > 0.0:
            sequence = 1.0
            copy(w, previous)
    return sequence
