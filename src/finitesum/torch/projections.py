r"""Projections of tensors onto the library's sets, in a diagonal metric, on any device.

``project(x, s)`` returns :math:`P_Q^s(x) = \arg\min_{y \in Q} \sum_i s_i (y_i - x_i)^2`, the projection that the
adaptive method needs: with the Euclidean one its fixed points are not the solutions. All formulas work on the last
dimension, so that one call serves one flattened parameter or all rows of a matrix, and none reads a value back from the
device, except that the l2 ball stops early on the CPU.

Sums are taken in float64 wherever the device has it, because the metric of a network spans ten orders of magnitude.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: More Newton steps than the l2 ball needs (11 with a metric over ten orders of magnitude, 4 with a mild one).
_NEWTON_STEPS = 24


@dataclass(frozen=True)
class EachRow:
    """Hold every row of a parameter in a set, instead of the flattened parameter.

    A row is ``weight[i].flatten()``: all that enters output unit ``i`` of a linear or convolutional layer.
    ``EachRow(L2Ball(3.0))`` is the max-norm constraint of networks.

    Parameters
    ----------
    constraint : set of `finitesum`, or an object with ``project_(tensor, metric)``
        The set for each row.

    Examples
    --------
    >>> import torch
    >>> from finitesum.constraints import L2Ball
    >>> from finitesum.torch import HB, EachRow
    >>> weight = torch.nn.Parameter(torch.eye(3))
    >>> weight.grad = -weight.detach()
    >>> HB([weight], lr=30.0, steps_per_epoch=1, constraint=EachRow(L2Ball(2.0))).step()
    >>> weight.norm(dim=1)
    tensor([2., 2., 2.], grad_fn=<LinalgVectorNormBackward0>)
    """

    constraint: Any


def _in_metric(x: Tensor, metric: Tensor | None) -> Tensor:
    return torch.ones_like(x) if metric is None else metric


def _threshold(u: Tensor, s: Tensor, c: Tensor, total: float) -> Tensor:
    r"""Return the root :math:`\lambda` of :math:`\sum_i c_i \max(u_i - \lambda c_i/s_i, 0) = total`, of shape (..., 1).

    Coordinates become zero at the heights :math:`s_i u_i / c_i`. Sorted descending, :math:`\lambda_k = (\sum_{i \le k} c_i
    u_i - total) / \sum_{i \le k} c_i^2/s_i`, and the largest k with a height above :math:`\lambda_k` holds the active
    coordinates (Duchi et al. 2008 for s = c = 1). A last Newton step with plain sums removes cancellation.
    """
    heights, slopes = s * u / c, c * c / s
    sorted_heights, order = torch.sort(heights, dim=-1, descending=True)
    candidates = ((c * u).gather(-1, order).cumsum(-1) - total) / slopes.gather(-1, order).cumsum(-1)
    last = ((sorted_heights > candidates).sum(-1, keepdim=True) - 1).clamp_min(0)
    root = candidates.gather(-1, last)
    active = heights > root
    slope = torch.where(active, slopes, 0).sum(-1, keepdim=True)
    polished = (torch.where(active, c * u, 0).sum(-1, keepdim=True) - total) / slope
    return torch.where(slope > 0, polished, root)


def _shrunk(u: Tensor, s: Tensor, c: Tensor, total: float) -> Tensor:
    r"""Return :math:`\max(u_i - \lambda c_i/s_i, 0)`, scaled so that :math:`\sum c_i y_i` is ``total`` to the last digit.

    For c = 1 this is :math:`P_Q^s(u)` on the simplex.
    """
    y = (u - _threshold(u, s, c, total) * c / s).clamp_min(0)
    sums = (c * y).sum(-1, keepdim=True)
    return torch.where(sums > 0, y * (total / sums), y)


def project_l1_ball(x: Tensor, metric: Tensor | None, radius: float, weights: Tensor | None = None) -> Tensor:
    r"""Return :math:`P_Q^s(x)` on :math:`\sum c_i |y_i| \le r`.

    .. math:: y_i = \mathrm{sign}(x_i) \max(|x_i| - \lambda c_i/s_i, 0)
    """
    c, u = torch.ones_like(x) if weights is None else weights.expand_as(x), x.abs()
    shrunk = _shrunk(u, _in_metric(x, metric), c, radius)
    return torch.where((c * u).sum(-1, keepdim=True) <= radius, x, torch.copysign(shrunk, x))


def project_l2_ball(x: Tensor, metric: Tensor | None, radius: float) -> Tensor:
    r"""Return :math:`P_Q^s(x)` on :math:`\|y\|_2 \le r`: :math:`y_i = s_i x_i / (s_i + \lambda)` with norm r.

    Newton's method on :math:`1/\|y(\lambda)\| - 1/r`, which is increasing and concave: started on the left it stays
    there, and needs no safeguard.
    """
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    if metric is None:
        return torch.where(norm > radius, x * (radius / norm), x)
    s = metric / metric.amax(-1, keepdim=True)
    root = s.amin(-1, keepdim=True) * (norm / radius - 1).clamp_min(0)
    y, may_stop = x, x.device.type == "cpu" and not torch.compiler.is_compiling()
    for _ in range(_NEWTON_STEPS):
        y = s * x / (s + root)
        length = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        excess = (length / radius - 1).clamp_min(0)
        if may_stop and bool((excess <= 4 * torch.finfo(x.dtype).eps).all()):
            break
        root = root + length**2 * excess / (y * y / (s + root)).sum(-1, keepdim=True)
    length = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
    return torch.where(norm > radius, y * (radius / length), x)


def project_half_space(x: Tensor, metric: Tensor | None, normal: Tensor, offset: float) -> Tensor:
    r"""Return :math:`P_Q^s(x)` on :math:`a \cdot y \le b`: one step along :math:`a/s`, if x lies outside."""
    direction = normal / _in_metric(x, metric)
    excess = ((normal * x).sum(-1, keepdim=True) - offset).clamp_min(0)
    return x - excess / (normal * direction).sum(-1, keepdim=True) * direction


def project_by_numpy(x: Tensor, metric: Tensor | None, constraint: Any) -> Tensor:
    """Return the projection that the set itself computes, row by row, on the CPU."""
    rows = x.detach().cpu().numpy().reshape(-1, x.shape[-1])
    metrics = [None] * len(rows) if metric is None else metric.detach().cpu().numpy().reshape(rows.shape)
    projected = [constraint.project(row, s) for row, s in zip(rows, metrics, strict=True)]
    return torch.as_tensor(np.stack(projected), dtype=x.dtype, device=x.device).view_as(x)


class Projector:
    """Projects parameters onto one set: chooses the formula, the shape and the precision.

    The set is one of `finitesum`, `EachRow` of one, or an object with ``project_(tensor, metric)``, which projects in
    place, in the metric diag(metric), Euclidean for None; else a TypeError is raised.
    """

    def __init__(self, constraint: Any) -> None:
        self.constraint = constraint
        self.by_row = isinstance(constraint, EachRow)
        self.set = constraint.constraint if self.by_row else constraint
        # the metric is without effect, and a part of a tensor can be projected by itself
        self._is_separable = bool(getattr(self.set, "is_separable", False))
        self._tensors: dict[tuple[str, torch.device, torch.dtype], Tensor] = {}
        self.name, self._formula = self._choose()

    def _choose(self) -> tuple[str, Callable[[Tensor, Tensor | None], Tensor]]:
        if callable(getattr(self.set, "project_", None)):
            return type(self.set).__name__, self._own
        from finitesum import constraints as sets

        formulas: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
            "L1Ball": lambda x, s: project_l1_ball(x, s, float(self.set.radius), self._value("weights", x)),
            "L2Ball": lambda x, s: project_l2_ball(x, s, float(self.set.radius)),
            "LInfBall": lambda x, s: x.clamp(-float(self.set.radius), float(self.set.radius)),
            "Box": lambda x, s: x.clamp(self._value("lower", x), self._value("upper", x)),
            "NonNegative": lambda x, s: x.clamp_min(0),
            "Unconstrained": lambda x, s: x,
            "Simplex": lambda x, s: _shrunk(x, _in_metric(x, s), torch.ones_like(x), float(self.set.total)),
            "HalfSpace": lambda x, s: project_half_space(x, s, self._value("normal", x), float(self.set.offset)),
            "Polyhedron": lambda x, s: project_by_numpy(x, s, self.set),
        }
        for name, formula in formulas.items():
            if isinstance(self.set, getattr(sets, name)):
                return name, formula
        raise TypeError(
            f"constraint must be a set of finitesum.constraints ({', '.join(formulas)}), EachRow of one, or an object "
            f"with project_(tensor, metric), got {self.set!r}."
        )

    def check(self, param: Tensor) -> None:
        """Refuse a parameter that is complex, sharded under a set that couples its entries, or of another size."""
        if param.is_complex():
            raise ValueError(f"constraint {self.name} holds real parameters only, got {param.dtype}.")
        if hasattr(param, "device_mesh") and not self._is_separable:
            raise ValueError(
                f"constraint {self.name} couples all entries of a parameter, which is sharded here. Keep this parameter "
                "whole, or use a set that holds each entry by itself (Box, LInfBall, NonNegative)."
            )
        size = self._flat(param).shape[-1]
        if (dim := getattr(self.set, "dim", None)) not in (None, size):
            raise ValueError(
                f"constraint {self.name} is made for {dim} variables, but the parameter of shape {tuple(param.shape)} has "
                f"{size}{' in a row' if self.by_row else ''}."
            )

    def __call__(self, x: Tensor, metric: Tensor | None) -> Tensor:
        """Return the projection of x in the metric (Euclidean for None); x is left as it is."""
        if x.numel() == 0:
            return x
        precise = x.dtype if self._is_separable or x.device.type == "mps" else torch.float64
        s = None if metric is None else self._flat(metric).to(precise)
        return self._formula(self._flat(x).to(precise), s).to(x.dtype).view_as(x)

    def _flat(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1) if self.by_row and x.dim() > 0 else x.reshape(-1)

    def _own(self, x: Tensor, metric: Tensor | None) -> Tensor:
        x = x.clone()
        self.set.project_(x, metric)
        return x

    def _value(self, name: str, x: Tensor) -> Any:
        """Return a number of the set as it is, and an array beside x; None where the set has none."""
        value = getattr(self.set, name, None)
        if not getattr(value, "shape", ()):
            return value
        key = name, x.device, x.dtype
        if key not in self._tensors:
            self._tensors[key] = torch.as_tensor(value, dtype=x.dtype, device=x.device)
        return self._tensors[key]


def describe(constraint: Any) -> str:
    """Return the set in words, for state dicts: they hold plain values only."""
    if constraint is None:
        return "none"
    if isinstance(constraint, EachRow):
        return f"each row: {describe(constraint.constraint)}"
    values = {k: v for k, v in getattr(constraint, "__dict__", {}).items() if isinstance(v, int | float | str)}
    return f"{type(constraint).__name__}({', '.join(f'{k}={v}' for k, v in values.items())})"
