"""Hessians of losses that depend on the parameters by linear predictors alone, found in PyTorch's graph of a computation.

Where the losses of a batch are functions of u = J w + c, with K numbers of u for each row, the Hessian of their sum is

    J' C J,    C block diagonal with the second derivatives of each row's loss by its K predictors,

or, with residuals and Gauss and Newton's matrix, C = D'D with their derivatives D. C takes K elementwise steps backward,
and J, which does not depend on w, is kept: one matrix product is left of what otherwise is a gradient for each parameter.

u is the last tensor that is linear in w, by the kinds of the operations that made it, and that all which depends on w goes
through. That each loss depends on its own row's predictors, and that J is still that of the last call, is compared with
products in random directions whenever a Hessian is computed: where it is not so, there is no Hessian from here.
"""

import math
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

#: Numbers of all J together that are kept at most: 256 MB.
MOST_KEPT = 2**25

#: Predictors of a row, at most.
MOST_PREDICTORS = 16

#: Operations that are linear in each tensor that they are given, and linear in all together.
_LINEAR = {
    f"{name}Backward"
    for name in (
        *("Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "Cumsum", "Cat", "Stack", "Clone", "Alias", "ToCopy", "Expand"),
        *("View", "UnsafeView", "ReshapeAlias", "T", "Transpose", "Permute", "Squeeze", "Unsqueeze", "Select", "Slice"),
        *("SplitWithSizes", "Split", "Unbind", "Index", "IndexSelect", "Gather", "AsStrided", "Repeat", "Where"),
    )
}

#: Products and quotients, linear where one factor alone depends on w, and where the divisor does not.
_PRODUCTS = {f"{name}Backward" for name in ("Mul", "Mm", "Mv", "Bmm", "Dot")}
_SUMS_OF_PRODUCTS = {f"{name}Backward" for name in ("Addmm", "Addmv", "Baddbmm", "Addbmm")}


def _is_linear(node: Any) -> bool:
    """Return whether an operation is linear in those of its inputs that depend on w."""
    depends = [source is not None for source, _ in node.next_functions]
    kind = node.name().rstrip("0123456789")
    if kind in _LINEAR:
        return True
    if kind in _PRODUCTS:
        return sum(depends) == 1
    if kind in _SUMS_OF_PRODUCTS:
        return sum(depends[1:]) <= 1
    return kind == "DivBackward" and not any(depends[1:])


def find_predictors(outputs: torch.Tensor, point: torch.Tensor) -> GradientEdge | None:
    """Return the last tensor that is linear in the point, and through which all outputs depend on it; None without one."""
    root: Any = outputs.grad_fn
    n_consumers, stack = {root: 0}, [root]
    while stack:
        for source, _ in stack.pop().next_functions:
            if source is not None:
                if source not in n_consumers:
                    stack.append(source)
                n_consumers[source] = n_consumers.get(source, 0) + 1
    order, ready, open_edges, passages = [], [root], {(root, 0)}, list[tuple[Any, int]]()
    while ready:  # from the outputs backward: where one tensor alone is open, all goes through it
        if len(open_edges) == 1:
            passages.extend(open_edges)
        node = ready.pop()
        order.append(node)
        open_edges = {edge for edge in open_edges if edge[0] is not node}
        for source, number in node.next_functions:
            if source is not None:
                open_edges.add((source, number))
                n_consumers[source] -= 1
                if n_consumers[source] == 0:
                    ready.append(source)
    linear = {None: True}
    for node in reversed(order):
        if (variable := getattr(node, "variable", None)) is not None:
            linear[node] = variable is point
        else:
            linear[node] = _is_linear(node) and all(linear[source] for source, _ in node.next_functions)
    found = next((edge for edge in passages if linear[edge[0]]), None)
    return None if found is None or hasattr(found[0], "variable") else GradientEdge(*found)


class Jacobians:
    """The matrices J of the rows that Hessians were asked for."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[torch.Tensor, float]] = {}
        self._size = 0
        self._direction = torch.empty(0)  # by which blocks are checked
        self.is_useful = True  # until it was not

    def of(
        self, rows: slice, edge: GradientEdge, shape: torch.Size, point: torch.Tensor
    ) -> tuple[torch.Tensor, float] | None:
        """Return J, shape (numbers of u, dim), and its norm; None where it would take much memory, or is mostly 0."""
        key = rows.start, rows.stop
        if key not in self._kept:
            if self._size + math.prod(shape) * point.numel() > MOST_KEPT:
                return None
            q = torch.zeros(shape, dtype=point.dtype, device=point.device, requires_grad=True)
            with torch.enable_grad():
                back = torch.autograd.grad(edge, point, q, create_graph=True)[0]
            units = torch.eye(point.numel(), dtype=point.dtype, device=point.device)
            columns = torch.autograd.grad(back, q, units, is_grads_batched=True)[0].reshape(point.numel(), -1)
            if 2 * int(torch.count_nonzero(columns)) < columns.numel():  # products with such matrices waste their time
                return None
            self._kept[key] = columns.T.contiguous(), float(torch.linalg.vector_norm(columns))
            self._size += columns.numel()
        return self._kept[key]

    def hessian(
        self,
        rows: slice,
        point: torch.Tensor,
        returned: torch.Tensor,
        total: torch.Tensor,
        gradient: torch.Tensor,
        *,
        are_residuals: bool,
    ) -> torch.Tensor | None:
        """Return J'CJ at a point, shape (dim, dim); None where losses do not have this form.

        `returned` is what f returned for the rows, `total` the sum of the losses, and `gradient` that of the sum.
        """
        if not self.is_useful:
            return None
        found = self._hessian(rows, point, returned, total, gradient, are_residuals)
        self.is_useful = found is not None
        return found

    def _hessian(
        self,
        rows: slice,
        point: torch.Tensor,
        returned: torch.Tensor,
        total: torch.Tensor,
        gradient: torch.Tensor,
        are_residuals: bool,
    ) -> torch.Tensor | None:
        edge = None if returned.grad_fn is None else find_predictors(returned, point)
        n = rows.stop - rows.start
        if edge is None:
            return None
        slopes = torch.autograd.grad(total, edge, retain_graph=True, create_graph=not are_residuals)[0]
        if slopes.shape[:1] != (n,) or slopes.numel() > MOST_PREDICTORS * n:
            return None
        outputs = returned if are_residuals else slopes
        blocks = self._diagonal_blocks(outputs, edge, n)
        known = None if blocks is None else self.of(rows, edge, slopes.shape, point)
        if blocks is None or known is None:
            return None
        J, size = known
        slope = slopes.detach().reshape(-1)
        if not _is_close(slope @ J, gradient, size * float(torch.linalg.vector_norm(slope))):
            return None
        C = blocks.transpose(1, 2) @ blocks if are_residuals else blocks
        if C.shape[1] == 1:
            return (C[:, :, 0] * J).T @ J
        return (C @ J.view(n, -1, J.shape[1])).view_as(J).T @ J

    def _diagonal_blocks(self, outputs: torch.Tensor, edge: GradientEdge, n: int) -> torch.Tensor | None:
        """Return the derivatives of each row's outputs by its predictors, shape (n, outputs, predictors).

        It is None where an output depends on the predictors of other rows, too.
        """
        if not outputs.requires_grad:
            return None

        def back(direction: torch.Tensor) -> torch.Tensor:
            found = torch.autograd.grad(
                outputs, edge, direction.view_as(outputs), retain_graph=True, materialize_grads=True
            )[0]
            return found.reshape(n, -1)

        like: Any = {"dtype": outputs.dtype, "device": outputs.device}
        n_outputs = outputs.numel() // n
        units = torch.eye(n_outputs, **like)
        blocks = torch.stack([back(unit.expand(n, -1).contiguous()) for unit in units], dim=1)
        if self._direction.shape != (n, n_outputs):
            generator = torch.Generator(outputs.device).manual_seed(0)
            self._direction = torch.randn((n, n_outputs), generator=generator, **like)
        one, other = (self._direction[:, :, None] * blocks).sum(dim=1), back(self._direction)
        return blocks if _is_close(one, other, float(torch.linalg.vector_norm(other))) else None


def _is_close(one: torch.Tensor, other: torch.Tensor, size: float) -> bool:
    """Return whether vectors of a size are the same to half of the digits."""
    return float(torch.linalg.vector_norm(one - other)) <= math.sqrt(torch.finfo(one.dtype).eps) * size
