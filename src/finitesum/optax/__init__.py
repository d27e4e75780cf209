r"""AdaHB as an optax transformation: `finitesum.torch.AdaHB` for JAX (``pip install 'finitesum[jax]'``).

.. math::

    v_t = (1 - \tfrac{\gamma}{t}) v_{t-1} + \tfrac{\gamma}{t} g_t^2, \quad s_t = \sqrt{v_t} + \delta / \sqrt t, \quad
    u_t = \tfrac{t}{t+2} u_{t-1} - \tfrac{\alpha}{(t+2) \sqrt t} g_t / s_t, \quad w_{t+1} = w_t + u_t

[1, eq. 12 and algorithm 1], without a constraint: u is the displacement, and the last iterate is the output. What t counts
must be chosen, see `finitesum.torch.AdaHB`.

References
----------
.. [1] Tao, Long, Wu, Tao, "The Role of Momentum Parameters in the Optimal Convergence of Adaptive Polyak's Heavy-ball
   Methods", ICLR 2021, arXiv 2102.07314.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

#: The count of updates stays here rather than overflow.
_LAST = 2**31 - 2


class AdaHBState(NamedTuple):
    """What the method remembers."""

    count: Any  # updates so far                                    (), int32
    displacement: Any  # w_t - w_{t-1}, a tree like the parameters
    square_avg: Any  # v, a tree like the parameters


def adahb(
    learning_rate: float | optax.Schedule, *, steps_per_epoch: int, gamma: float = 0.1, delta: float = 1e-8
) -> optax.GradientTransformation:
    """Return the optimizer AdaHB, whose updates are added to the parameters by ``optax.apply_updates``.

    Parameters
    ----------
    learning_rate
        :math:`\\alpha \\ge 0`, 0.01 for most networks; or a function of the number of updates so far, which multiplies
        the built-in decay.
    steps_per_epoch
        Updates in an epoch, so that t counts epochs as in the published networks; 1 for t to count steps, as in the
        theorems.
    gamma
        Weight of a new squared gradient, times t: in (0, 1].
    delta
        Keeps s away from zero.

    Raises
    ------
    ValueError
        An option is out of its range.
    TypeError
        A parameter is complex (raised by ``init``).

    Examples
    --------
    >>> optimizer = adahb(0.5, steps_per_epoch=1, gamma=0.9)
    >>> w = jnp.array([3.0, -4.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     updates, state = optimizer.update(2.0 * w, state)
    ...     w = optax.apply_updates(w, updates)
    >>> bool(jnp.abs(w).max() < 0.5)
    True
    """
    if not callable(learning_rate) and not learning_rate >= 0:
        raise ValueError(f"learning_rate must be >= 0, got {learning_rate}.")
    return scale_by_adahb(steps_per_epoch=steps_per_epoch, gamma=gamma, delta=delta, learning_rate=learning_rate)


def scale_by_adahb(
    *, steps_per_epoch: int, gamma: float = 0.1, delta: float = 1e-8, learning_rate: float | optax.Schedule = 1.0
) -> optax.GradientTransformation:
    """Return the transformation of gradients into displacements, for the end of an ``optax.chain``.

    They already point downhill: nothing is to be scaled by a negative rate after it. The learning rate belongs inside,
    because the momentum remembers displacements, and a rate that changes must not rescale those of the past. Parameters
    and errors are those of `adahb`.
    """
    if steps_per_epoch < 1 or steps_per_epoch != int(steps_per_epoch):
        raise ValueError(f"steps_per_epoch must be a whole number >= 1, got {steps_per_epoch}.")
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma must be in (0, 1], got {gamma}: the metric must not shrink faster than 1/t.")
    if not delta >= 0:
        raise ValueError(f"delta must be >= 0, got {delta}.")

    def init(params: Any) -> AdaHBState:
        zeros = jax.tree.map(_zeros_like, params)
        return AdaHBState(jnp.zeros([], jnp.int32), zeros, jax.tree.map(jnp.copy, zeros))

    def update(updates: Any, state: AdaHBState, params: Any = None) -> tuple[Any, AdaHBState]:
        t = (state.count // steps_per_epoch + 1).astype(jnp.result_type(float))
        alpha = learning_rate(state.count) if callable(learning_rate) else learning_rate
        square = jax.tree.map(lambda v, g: _wide(g, v) ** 2 * (gamma / t) + v * (1 - gamma / t), state.square_avg, updates)
        step_size, floor = alpha / ((t + 2) * jnp.sqrt(t)), delta / jnp.sqrt(t)

        def move(u: Any, g: Any, v: Any) -> Any:
            s = jnp.sqrt(v) + floor
            return (t / (t + 2) * u - step_size * jnp.where(s > 0, _wide(g, v) / jnp.where(s > 0, s, 1), 0)).astype(u.dtype)

        displacement = jax.tree.map(move, state.displacement, updates, square)
        square = jax.tree.map(lambda new, old: new.astype(old.dtype), square, state.square_avg)
        moved = jax.tree.map(lambda u, g: u.astype(g.dtype), displacement, updates)
        return moved, AdaHBState(jnp.minimum(state.count, _LAST) + 1, displacement, square)

    return optax.GradientTransformation(init, update)


def _zeros_like(param: Any) -> Any:
    """Return zeros in the parameter's type, or in float32 for half precision, where g * g may round to zero."""
    dtype = jnp.asarray(param).dtype
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"parameters must be real, got {dtype}. Optimize their real and imaginary parts instead.")
    return jnp.zeros(jnp.shape(param), jnp.promote_types(dtype, jnp.float32))


def _wide(gradient: Any, like: Any) -> Any:
    return jnp.asarray(gradient).astype(like.dtype)
