"""Components given as functions, called with checks of what they return."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix, Vector


class ComponentCalls:
    """The calls of a sum's components: each gets a copy of the point, and must return what the equations need."""

    components: Any
    dim: int

    @property
    def n_components(self) -> int:
        """The number of components n."""
        return len(self.components)

    def component_value(self, w: Vector, j: int) -> float:
        """Return f_j(w)."""
        value = np.asarray(self.components[j].value(w.copy()), dtype=np.float64)  # a copy: the caller may keep it
        if value.size != 1:
            raise ValueError(f"component {j}: value must return one number, got shape {value.shape}.")
        return float(value.item())

    def component_gradient(self, w: Vector, j: int) -> Vector:
        """Return the gradient of f_j at w, a new array.

        Raises
        ------
        ValueError
            The callable returned something else than d numbers.
        """
        return self._vector(self.components[j].gradient(w.copy()), j, "gradient")

    def component_hessian(self, w: Vector, j: int) -> Matrix:
        """Return the Hessian of f_j at w, a new array of shape (d, d): out of d products where it is not given itself."""
        component = self.components[j]
        if not callable(getattr(component, "hessian", None)):
            columns = [self.component_product(w, j, unit) for unit in np.eye(self.dim)]
            return np.stack(columns, axis=1)
        returned = component.hessian(w.copy())
        hessian = np.array(returned.toarray() if hasattr(returned, "toarray") else returned, dtype=np.float64)
        if hessian.shape != (self.dim, self.dim):
            raise ValueError(
                f"component {j}: hessian must return {self.dim} x {self.dim} numbers, got shape {hessian.shape}."
            )
        return hessian

    def component_product(self, w: Vector, j: int, v: Vector) -> Vector:
        """Return the Hessian of f_j at w times v, a new array."""
        component = self.components[j]
        if callable(getattr(component, "hessian_product", None)):
            return self._vector(component.hessian_product(w.copy(), v.copy()), j, "hessian_product")
        product: Vector = self.component_hessian(w, j) @ v
        return product

    def has_hessian(self, j: int) -> bool:
        """Whether component j gives second derivatives."""
        return any(callable(getattr(self.components[j], name, None)) for name in ("hessian", "hessian_product"))

    def _vector(self, returned: Any, j: int, name: str) -> Vector:
        vector = np.array(returned, dtype=np.float64)
        if vector.shape != (self.dim,):
            raise ValueError(f"component {j}: {name} must return {self.dim} numbers, got shape {vector.shape}.")
        return vector

    def mean_value(self, w: Vector) -> float:
        """Return (1/n) sum_i f_i(w), without the penalty."""
        return math.fsum(self.component_value(w, j) for j in range(self.n_components)) / self.n_components

    def component_gradients(self, w: Vector) -> Matrix:
        """Return the gradients of all components at w, shape (n, d)."""
        return np.stack([self.component_gradient(w, j) for j in range(self.n_components)])
