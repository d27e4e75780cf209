"""Losses of rows as functions in JAX, with derivatives by JAX: the backend "jax" of `FiniteSum.from_function`.

f is traced and compiled by ``jax.jit``, once for each length of a batch. Everything is computed in float64, unless float32
is asked for, also where ``jax_enable_x64`` is off: it is then on for these calls alone, and the parameters that are given
back are NumPy arrays.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from finitesum.core.arrays import Matrix, Vector
from finitesum.problems.batches import number_of_numbers, number_of_rows, require_losses
from finitesum.problems.trees import checked_dim, mapped


class Function:
    """Sums of the losses over consecutive rows, and their derivatives: see `finitesum.problems.batches.Backend`."""

    has_hessians = True

    def __init__(
        self,
        f: Callable[..., Any],
        data: Any,
        *,
        dim: int | None,
        like: Any,
        dtype: str,
        residuals: bool,
        one_row: bool,
        hessian: None = None,
        hessian_product: None = None,
    ) -> None:
        self._f, self._one_row, self.is_gauss_newton = f, one_row, residuals
        self._dtype, self._is_count = np.dtype(dtype), isinstance(data, int | np.integer)
        self.n_rows, self.n_numbers = number_of_rows(data), number_of_numbers(data)
        with jax.enable_x64(True):
            self._data = jnp.arange(self.n_rows) if self._is_count else mapped(self._array, data)
            if like is None:
                self.dim, self._unravel = checked_dim(dim), None
            else:
                vector, self._unravel = ravel_pytree(jax.tree.map(self._parameter, like))
                self.dim = checked_dim(vector.size)
            self._value_and_gradient = self._compiled(jax.value_and_grad(self._sum))
            self._hessian = self._compiled(self._gram if residuals else jax.hessian(self._sum))
            self._product = self._compiled(self._gram_product if residuals else self._hessian_product)

    def _array(self, leaf: Any) -> Any:
        array = jnp.asarray(leaf)
        return array.astype(self._dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array

    def _parameter(self, leaf: Any) -> Any:
        return jnp.asarray(leaf, self._dtype)

    def flatten(self, parameters: Any) -> Vector:
        """Return parameters as a vector, shape (dim,), in the order in which JAX has their leaves."""
        with jax.enable_x64(True):
            vector = np.asarray(ravel_pytree(jax.tree.map(self._parameter, parameters))[0], dtype=np.float64)
        if vector.shape != (self.dim,):
            raise ValueError(f"parameters must hold {self.dim} numbers, got {vector.size}.")
        return vector

    def unflatten(self, w: Vector) -> Any:
        """Return a vector as parameters, in NumPy arrays."""
        if self._unravel is None:
            return w.copy()
        with jax.enable_x64(True):
            return jax.tree.map(np.array, self._unravel(jnp.asarray(w, self._dtype)))

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of (w, rows, *others) that slices the data where it is compiled."""

        def on_rows(w: Any, data: Any, start: Any, *others: Any, size: int) -> Any:
            batch = data
            if size != self.n_rows:
                batch = mapped(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), data)
            return function(w, batch, *others)

        compiled = jax.jit(on_rows, static_argnames="size")

        def call(w: Vector, rows: slice, *others: Vector) -> Any:
            with jax.enable_x64(True):
                point, *directions = (np.asarray(part, self._dtype) for part in (w, *others))
                found = compiled(point, self._data, rows.start, *directions, size=rows.stop - rows.start)
                return jax.tree.map(lambda array: np.array(array, dtype=np.float64), found)

        return call

    def _returned(self, w: Any, batch: Any) -> Any:
        """Return what f returns for a batch."""
        parameters = w if self._unravel is None else self._unravel(w)
        returned = jax.vmap(partial(self._f, parameters))(batch) if self._one_row else self._f(parameters, batch)
        size = jax.tree.leaves(batch)[0].shape[0]
        require_losses(tuple(jnp.shape(returned)), size, are_residuals=self.is_gauss_newton)
        return returned

    def _sum(self, w: Any, batch: Any) -> Any:
        returned = self._returned(w, batch)
        return 0.5 * (returned * returned).sum() if self.is_gauss_newton else returned.sum()

    def _hessian_product(self, w: Any, batch: Any, v: Any) -> Any:
        return jax.jvp(lambda point: jax.grad(self._sum)(point, batch), (w,), (v,))[1]

    def _gram(self, w: Any, batch: Any) -> Any:
        J = jax.jacfwd(lambda point: self._returned(point, batch).reshape(-1))(w)
        return J.T @ J

    def _gram_product(self, w: Any, batch: Any, v: Any) -> Any:
        at = partial(self._returned, batch=batch)
        _, along = jax.jvp(at, (w,), (v,))
        return jax.vjp(at, w)[1](along)[0]

    def value_and_gradient(self, w: Vector, rows: slice) -> tuple[float, Vector]:
        """Return the sum of the losses and its gradient."""
        value, gradient = self._value_and_gradient(w, rows)
        return float(value), gradient

    def hessian(self, w: Vector, rows: slice) -> Matrix:
        """Return the sum's Hessian, or J'J with the Jacobian J of residuals; shape (dim, dim)."""
        return np.asarray(self._hessian(w, rows))

    def hessian_product(self, w: Vector, v: Vector, rows: slice) -> Vector:
        """Return the Hessian, or that of Gauss-Newton, times v, shape (dim,)."""
        return np.asarray(self._product(w, rows, v))
