"""Accelerated steps on the second-order surrogate: their length, their momentum, and how many a visit takes.

The step is factor / lambda, where lambda bounds lambda_max of the current H: a warm power iteration, and between its runs
the trace of every increase of H, so no step can blow up on the model. The momentum follows Nesterov's sequence below
(1 - sqrt(mu/lambda)) / (1 + sqrt(mu/lambda)) and restarts when step and gradient disagree. Between two visits A-CIAG
takes r = ceil(8 sqrt(lambda/mu) / m) such steps on the model, which read no data: they make up for few, large components.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel_part
from finitesum.methods.curvature.taylor_model import Pending, Surrogate, curvature_product, surrogate_gradient
from finitesum.problems.linear import LinearSum
from finitesum.problems.term import prox_in_place

#: Model steps a visit may take at most: beyond it a visit costs more than it can gain.
MOST_MODEL_STEPS = 200

#: The bound on lambda_max falls at most by this factor when the power iteration says less: an eigenvector that it has not
#: found yet then has time to show.
SLOWEST_FALL = 0.9


class Rule(NamedTuple):
    """What distinguishes the methods under the same control."""

    accelerated: bool
    step_factor: float  # the step is step_factor / lambda
    model_steps: int  # a visit; 0 means as many as the condition asks for
    mu: float  # a known lower bound on the curvature
    has_majorant: bool
    has_signs: bool  # targets are -1 and +1


@kernel_part
def length_of(vector: Vector) -> float:
    """Return the 2-norm."""
    total = 0.0
    for j in range(vector.size):
        total += vector[j] * vector[j]
    return np.sqrt(total)  # type: ignore[no-any-return]


@kernel_part
def _power_steps(
    surrogate: Surrogate, pending: Pending, direction: Vector, gradient: Vector, n_steps: int, fallback: float
) -> float:
    """Return 1.05 ||H v|| after some steps of the power iteration on v, in place; `gradient` is overwritten.

    The last model gradient is mixed into v: should a step ever have been too long, it points to the eigenvector missed.
    """
    norm = length_of(direction)
    length = length_of(gradient)
    share = 0.3 / length if length > 0.0 else 0.0
    if norm == 0.0 and length == 0.0:
        return fallback
    scale = 1.0 / norm if norm > 0.0 else 0.0
    for j in range(direction.size):
        direction[j] = scale * direction[j] + share * gradient[j]
    norm = length_of(direction)
    for j in range(direction.size):
        direction[j] /= norm
    product = gradient
    for _ in range(n_steps):
        curvature_product(surrogate, pending, direction, product)
        norm = length_of(product)
        if norm == 0.0:
            return fallback
        for j in range(direction.size):
            direction[j] = product[j] / norm
    return 1.05 * norm


@kernel_part
def bound_eigenvalue(
    surrogate: Surrogate, pending: Pending, direction: Vector, bound: float, gradient: Vector, now: int, m: int
) -> float:
    """Return the bound on lambda_max(H) after visit `now`, sharpened from time to time; `gradient` is overwritten."""
    if now > 100 and now % (-(-m // 50)) != 0:
        return bound
    n_steps = 8 if now <= 10 else 2
    return max(_power_steps(surrogate, pending, direction, gradient, n_steps, bound), SLOWEST_FALL * bound)


@kernel_part
def accelerate(rule: Rule, eigenvalue: float, t: float) -> tuple[float, float]:
    """Return the next t of Nesterov's sequence and the extrapolation."""
    if not rule.accelerated or eigenvalue <= 0.0:
        return 1.0, 0.0
    root = np.sqrt(min(rule.mu / eigenvalue, 1.0))
    t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
    return t_next, min((t - 1.0) / t_next, (1.0 - root) / (1.0 + root))


@kernel_part
def _copy(x: Vector, out: Vector) -> None:
    for j in range(x.size):
        out[j] = x[j]


@kernel_part
def extrapolate(x: Vector, previous: Vector, extrapolation: float, y: Vector) -> None:
    """Write x + extrapolation (x - previous) to y."""
    for j in range(x.size):
        y[j] = x[j] + extrapolation * (x[j] - previous[j])


@kernel_part
def _model_step(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    x: Vector,
    previous: Vector,
    y: Vector,
    gradient: Vector,
    step_size: float,
) -> bool:
    """Step from y on the model; return whether step and move disagree, so that the momentum should restart."""
    surrogate_gradient(surrogate, pending, y, gradient)
    for j in range(x.size):
        previous[j] = x[j]
        x[j] = y[j] - step_size * gradient[j]
    prox_in_place(linear_sum, x, step_size)
    alignment = 0.0
    for j in range(x.size):
        alignment += (y[j] - x[j]) * (x[j] - previous[j])
    return alignment > 0.0


@kernel_part
def take_model_steps(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    rule: Rule,
    x: Vector,
    previous: Vector,
    y: Vector,
    gradient: Vector,
    eigenvalue: float,
    t: float,
    t_next: float,
) -> float:
    """Take the model steps of a visit, the first from y; return t."""
    n_steps = rule.model_steps
    if n_steps == 0:
        kappa = eigenvalue / max(rule.mu, 1e-10 * eigenvalue)
        n_steps = min(max(1, int(np.ceil(8.0 * np.sqrt(kappa) / linear_sum.n_components))), MOST_MODEL_STEPS)
    for step in range(n_steps):
        if step > 0:
            t_next, extrapolation = accelerate(rule, eigenvalue, t)
            extrapolate(x, previous, extrapolation, y)
        step_size = rule.step_factor / eigenvalue
        restart = _model_step(linear_sum, surrogate, pending, x, previous, y, gradient, step_size)
        t = t_next
        if restart or not rule.accelerated:
            t = 1.0
            _copy(x, previous)
    return t
