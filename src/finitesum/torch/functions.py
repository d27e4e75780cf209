"""Losses of rows as functions in PyTorch, with derivatives by autograd: the backend "torch" of `FiniteSum.from_function`.

Everything is computed on the device where the data, or else the parameters, are, in float64 unless float32 is asked for;
points and sums are NumPy arrays in float64 outside. Hessians and products with them go backward through the graph of the
gradient, which is kept for the next product at the same point and rows; Hessians of losses that depend on the parameters by
linear predictors alone are products of matrices: see `finitesum.torch.predictors`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from finitesum.core.arrays import Matrix, Vector
from finitesum.problems.batches import number_of_numbers, number_of_rows, require_losses
from finitesum.problems.trees import checked_dim, leaves_of, mapped
from finitesum.torch.predictors import Jacobians

#: Numbers that derivatives along several coordinates may take at once.
NUMBERS_AT_ONCE = 2**25


class _Sum(NamedTuple):
    """The sum of the losses of some rows at a point, with its graph."""

    of: tuple[bytes, slice]
    point: torch.Tensor
    returned: torch.Tensor  # what f returned
    total: torch.Tensor
    gradient: torch.Tensor


class _Graph(NamedTuple):
    """Derivatives at a point over some rows, with the graph that they came from."""

    of: tuple[bytes, slice]
    inputs: torch.Tensor  # the point; of residuals u: J'u is linear in u, so that its derivative along v is J v
    gradient: torch.Tensor  # of the sum; of residuals J'u with their Jacobian J
    residuals: torch.Tensor | None = None
    point: torch.Tensor | None = None


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
        self._dtype = getattr(torch, dtype)
        self._f, self._one_row, self.is_gauss_newton = f, one_row, residuals
        trained = None
        if isinstance(like, torch.nn.Module):
            trained, like = {name for name, _ in like.named_parameters()}, like.state_dict()
        known = [leaf for tree in (data, like) for leaf in leaves_of(tree) if isinstance(leaf, torch.Tensor)]
        self._device = known[0].device if known else torch.device("cpu")
        self._is_count = isinstance(data, int | np.integer)
        self.n_rows = number_of_rows(data)
        self._data = data if self._is_count else mapped(self._tensor, data)
        self.n_numbers = number_of_numbers(self._data)
        self._like = None if like is None else mapped(self._parameter, like)
        self._is_free = [leaf.is_floating_point() for leaf in leaves_of(self._like)]
        if trained is not None:  # buffers of a module are no parameters
            self._is_free = [name in trained for name in like]
        parts = self._free(leaves_of(self._like))
        self._shapes = [tuple(leaf.shape) for leaf in parts]
        self.dim = checked_dim(dim) if like is None else sum(leaf.numel() for leaf in parts)
        if self.dim == 0:
            raise ValueError("like must hold one floating-point number at least.")
        self._graph: _Graph | None = None
        self._sum: _Sum | None = None  # the last, where Hessians are asked for
        self._jacobians, self._keeps_sums = Jacobians(), False

    def _tensor(self, leaf: Any) -> torch.Tensor:
        tensor = torch.as_tensor(leaf, device=self._device).detach()
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _parameter(self, leaf: Any) -> torch.Tensor:
        """Return a leaf of parameters: of tensors, those of integers are no parameters; a 0 of Python's is one."""
        tensor = self._tensor(leaf)
        return tensor if isinstance(leaf, torch.Tensor) else tensor.to(self._dtype)

    # -- parameters

    def flatten(self, parameters: Any) -> Vector:
        """Return parameters as a vector, shape (dim,), without buffers and what is no floating-point number."""
        if isinstance(parameters, torch.nn.Module):
            parameters = parameters.state_dict()
        leaves = self._free([self._parameter(leaf) for leaf in leaves_of(parameters)])
        shapes = [tuple(leaf.shape) for leaf in leaves]
        if shapes != (self._shapes or [(self.dim,)]):
            raise ValueError(f"parameters must have the shapes {self._shapes or [(self.dim,)]}, got {shapes}.")
        return _array(torch.cat([leaf.reshape(-1) for leaf in leaves]))

    def unflatten(self, w: Vector) -> Any:
        """Return a vector as parameters, in tensors of their own."""
        return self._parameters(self._point(w).clone())

    def _free(self, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return those leaves that w is made of."""
        is_free = self._is_free or [True] * len(leaves)
        return [leaf for leaf, free in zip(leaves, is_free, strict=False) if free]

    def _point(self, w: Vector) -> torch.Tensor:
        return torch.tensor(w, dtype=self._dtype, device=self._device)

    def _parameters(self, point: torch.Tensor) -> Any:
        if self._like is None:
            return point
        parts = iter(torch.split(point, [math.prod(shape) for shape in self._shapes]))
        is_free = iter(self._is_free)
        return mapped(lambda leaf: next(parts).view(leaf.shape) if next(is_free) else leaf, self._like)

    # -- sums over rows

    def _returned(self, point: torch.Tensor, rows: slice) -> torch.Tensor:
        """Return what f returns for some rows."""
        if self._is_count:
            batch: Any = torch.arange(rows.start, rows.stop, device=self._device)
        else:
            batch = mapped(lambda leaf: leaf[rows], self._data)
        parameters = self._parameters(point)
        if self._one_row:
            returned = torch.func.vmap(partial(self._f, parameters))(batch)
        else:
            returned = self._f(parameters, batch)
        if not isinstance(returned, torch.Tensor):
            raise TypeError(f"f must return a tensor, got a {type(returned).__name__}.")
        require_losses(tuple(returned.shape), rows.stop - rows.start, are_residuals=self.is_gauss_newton)
        return returned

    def _total(self, returned: torch.Tensor) -> torch.Tensor:
        return 0.5 * (returned * returned).sum() if self.is_gauss_newton else returned.sum()

    def _sum_at(self, w: Vector, rows: slice) -> _Sum:
        """Return the sum at w over some rows: that of the last call, if it was the same and is kept."""
        of = w.tobytes(), rows
        if self._sum is None or self._sum.of != of:
            self._sum = None
            with torch.enable_grad():
                point = self._point(w).requires_grad_()
                returned = self._returned(point, rows)
                total = self._total(returned)
            if not total.requires_grad:
                raise ValueError(
                    "what f returns does not depend on w by operations that torch differentiates, got a tensor without "
                    "grad_fn. Leave out detach(), item(), numpy() and integers on the way; add 0.0 * w.sum() to a constant."
                )
            gradient = torch.autograd.grad(total, point, retain_graph=self._keeps_sums, materialize_grads=True)[0]
            if not self._keeps_sums:
                return _Sum(of, point, returned, total, gradient)
            self._sum = _Sum(of, point, returned, total, gradient)
        return self._sum

    def value_and_gradient(self, w: Vector, rows: slice) -> tuple[float, Vector]:
        """Return the sum of the losses and its gradient."""
        found = self._sum_at(w, rows)
        return found.total.item(), _array(found.gradient)

    def hessian(self, w: Vector, rows: slice) -> Matrix:
        """Return the sum's Hessian, or J'J with the Jacobian J of residuals; shape (dim, dim)."""
        if self._jacobians.is_useful:
            self._keeps_sums = True
            _, *found = self._sum_at(w, rows)
            hessian = self._jacobians.hessian(rows, *found, are_residuals=self.is_gauss_newton)
            if hessian is not None:
                return _array(hessian)
            self._keeps_sums, self._sum = False, None
        at_once = max(1, NUMBERS_AT_ONCE // max(rows.stop - rows.start, self.dim))
        units = torch.eye(self.dim, dtype=self._dtype, device=self._device).split(at_once)  # type: ignore[no-untyped-call]
        graph = self._graph_at(w, rows)
        columns = torch.cat([_back(graph.gradient, graph.inputs, part, is_grads_batched=True) for part in units])
        return _array(columns @ columns.T if self.is_gauss_newton else columns)

    def hessian_product(self, w: Vector, v: Vector, rows: slice) -> Vector:
        """Return the Hessian, or that of Gauss-Newton, times v, shape (dim,)."""
        graph = self._graph_at(w, rows)
        product = _back(graph.gradient, graph.inputs, self._point(v))
        if graph.residuals is not None and graph.point is not None:
            product = _back(graph.residuals, graph.point, product)
        return _array(product)

    def _graph_at(self, w: Vector, rows: slice) -> _Graph:
        """Return derivatives at w over some rows with their graph: that of the last call, if it was the same."""
        if self._graph is None or self._graph.of != (w.tobytes(), rows):
            with torch.enable_grad():
                point, of = self._point(w).requires_grad_(), (w.tobytes(), rows)
                if self.is_gauss_newton:
                    residuals = self._returned(point, rows).reshape(-1)
                    u = torch.zeros_like(residuals, requires_grad=True)
                    self._graph = _Graph(of, u, _back(residuals, point, u, create_graph=True), residuals, point)
                else:
                    total = self._total(self._returned(point, rows))
                    self._graph = _Graph(of, point, _back(total, point, torch.ones_like(total), create_graph=True))
        return self._graph


def _back(outputs: torch.Tensor, inputs: torch.Tensor, direction: torch.Tensor, **options: bool) -> torch.Tensor:
    """Return a vector times the outputs' derivative by the inputs, or a row for each of several; 0 where there is none."""
    if not outputs.requires_grad:
        n_rows = (direction.shape[0],) if options.get("is_grads_batched") else ()
        return torch.zeros_like(inputs).expand(*n_rows, -1)
    return torch.autograd.grad(outputs, inputs, direction, retain_graph=True, materialize_grads=True, **options)[0]


def _array(tensor: torch.Tensor) -> Vector:
    return np.array(tensor.numpy(force=True), dtype=np.float64)
