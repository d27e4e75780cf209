"""The normal distribution's tail, of a number or of an array, without a digit lost far out.

With phi the density and Q(t) = P(Z > t), h(t) = phi(t) / Q(t) is Mills' ratio turned over. Up to `FAR` it is computed as it
is written; beyond, as t + c(t) with the continued fraction c(t) = 1 / (t + 2 / (t + 3 / (t + ...))) [1, 26.2.14], whose
remainder after `TERMS` terms is below 1e-17.

References
----------
.. [1] M. Abramowitz, I. A. Stegun, "Handbook of mathematical functions", 1964.
"""

import math
from typing import Any

import numpy as np

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compiled_form, kernel_part
from finitesum.losses.exponential import exp, log, minus_log_of_rest

#: From where the continued fraction is taken, and its terms.
FAR, TERMS = 5.0, 24

_ROOT_2, _ROOT_2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)

#: Beyond it the density is 0.
LARGEST = 38.0


def erfc(t: Any) -> Any:
    """Return the complementary error function, in float64."""
    if isinstance(t, np.ndarray):
        from scipy.special import erfc as of_array  # which takes a while to load

        return of_array(t.astype(np.float64))
    return math.erfc(t)


@compiled_form(erfc)
def _erfc(t: float) -> float:
    return math.erfc(t)


@kernel_part
def tail_ratio(t: Any) -> tuple[Any, Any]:
    """Return h(t) = phi(t) / Q(t), and h(t) - t."""
    near = minimum(maximum(t, -LARGEST), FAR)
    ratio = exp(-0.5 * near * near) * (2.0 / _ROOT_2PI) / erfc(near / _ROOT_2)
    far = maximum(t, FAR)
    fraction = 1.0 / far
    for k in range(TERMS, 0, -1):
        fraction = k / (far + fraction)
    ratio = where(t > FAR, far + fraction, where(t < -LARGEST, 0.0 * ratio, ratio))
    return ratio, where(t > FAR, fraction, ratio - t)


@kernel_part
def minus_log_tail(t: Any) -> Any:
    """Return -log Q(t)."""
    near = minimum(t, FAR)
    tail = 0.5 * erfc(maximum(near, 0.0) / _ROOT_2)
    body = 0.5 * erfc(maximum(-near, 0.0) / _ROOT_2)
    far = maximum(t, FAR)
    fraction = 1.0 / far
    for k in range(TERMS, 0, -1):
        fraction = k / (far + fraction)
    beyond = 0.5 * far * far + log(_ROOT_2PI * (far + fraction))
    return where(t > FAR, beyond, where(near > 0.0, -log(tail), minus_log_of_rest(body)))
