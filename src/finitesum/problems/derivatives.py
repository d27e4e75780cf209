"""Whether the derivatives of components belong to their values, by central differences."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector

if TYPE_CHECKING:
    from finitesum.problems.finite_sum import FiniteSum


class DerivativeCheck(NamedTuple):
    """How far the derivatives of the components are from differences of what they are derivatives of."""

    gradient_errors: Vector  # (n,)  relative; NaN where something was not finite
    hessian_errors: Vector  # (n,)  relative; 0 where there are no second derivatives
    tolerance: float

    @property
    def success(self) -> bool:
        """Whether all errors are at most the tolerance."""
        errors = np.concatenate([self.gradient_errors, self.hessian_errors])
        return bool((errors <= self.tolerance).all())

    @property
    def message(self) -> str:
        """What was found, in a sentence for each component that is off, at most five."""
        off = []
        for errors, what, of in (
            (self.gradient_errors, "gradient", "value"),
            (self.hessian_errors, "Hessian", "gradient"),
        ):
            off += [
                f"component {j}: the {what} contradicts differences of the {of} (relative error {errors[j]:.1e})."
                for j in np.flatnonzero(~(errors <= self.tolerance))
            ]
        more = [f"And {len(off) - 5} more."] if len(off) > 5 else []
        return " ".join([*off[:5], *more]) if off else "All derivatives agree with differences."


def relative_error(given: Any, expected: Any, scale: float) -> float:
    """Return the norm of the difference over the larger of `scale` and the norm of what was expected."""
    return float(np.linalg.norm(given - expected) / max(float(np.linalg.norm(expected)), scale))


def check_derivatives(problem: "FiniteSum", w: Any, tolerance: float) -> DerivativeCheck:
    """Return how the derivatives of every component compare with differences at w: see `FiniteSum.check`."""
    point = np.array(w, dtype=np.float64)
    if point.shape != (problem.dim,):
        raise ValueError(f"w must have shape ({problem.dim},), got {point.shape}.")
    width = 6e-6 * max(1.0, float(np.abs(point).max()))  # the cube root of the rounding error
    direction = np.cos(np.arange(1.0, problem.dim + 1.0))
    first, second = np.zeros(problem.n_components), np.zeros(problem.n_components)
    for j in range(problem.n_components):
        gradient = problem.component_gradient(point, j)
        rounding = 1e-6 * (1.0 + abs(problem.component_value(point, j)))
        sides = ((point + width * unit, point - width * unit) for unit in np.eye(problem.dim))
        slopes = [
            (problem.component_value(up, j) - problem.component_value(down, j)) / (2.0 * width) for up, down in sides
        ]
        first[j] = relative_error(gradient, np.array(slopes), rounding)
        if problem.has_hessian(j):
            up, down = point + width * direction, point - width * direction
            change = (problem.component_gradient(up, j) - problem.component_gradient(down, j)) / (2.0 * width)
            product = problem.component_product(point, j, direction)
            second[j] = relative_error(product, change, 1e-6 * (1.0 + float(np.linalg.norm(gradient))))
    return DerivativeCheck(first, second, tolerance)
