"""Checks the options of a param group, once, where they come in."""

from __future__ import annotations

import numbers
from typing import Any

import torch
from torch import Tensor

from finitesum.torch.fused_cuda import HAS_TRITON
from finitesum.torch.projections import Projector
from finitesum.torch.schedule import Group


def check_group(group: Group) -> None:
    """Raise unless all options of a param group are in their range and allow each other; whole numbers become ints."""
    _check_length(group)
    for name in ("lr", "delta", "weight_decay"):
        if not _value(group.get(name, 0.0)) >= 0:
            raise ValueError(f"{name} must be >= 0, got {group[name]}.")
    if isinstance(group["lr"], Tensor) and group["lr"].numel() != 1:
        raise ValueError(f"lr must be one number, got a tensor of shape {tuple(group['lr'].shape)}.")
    if "gamma" in group and not 0 < group["gamma"] <= 1:
        raise ValueError(f"gamma must be in (0, 1], got {group['gamma']}: the metric must not shrink faster than 1/t.")
    if group["decay"] not in ("sqrt", "none"):
        raise ValueError(f'decay must be "sqrt" or "none", got {group["decay"]!r}.')
    if group["foreach"] and group["fused"]:
        raise ValueError("foreach=True and fused=True exclude each other: give one of them.")
    if group["differentiable"] and (group["foreach"] or group["fused"]):
        raise ValueError("differentiable=True has no foreach or fused form: leave foreach and fused out.")
    if group["fused"] and group["constraint"] is not None:
        raise ValueError("fused=True has no projections: leave fused out for groups with a constraint.")


def _value(number: float | Tensor) -> float:
    """Return a number; 0 for a tensor of several."""
    if isinstance(number, Tensor):
        return float(number.detach()) if number.numel() == 1 else 0.0
    return number


def _check_length(group: Group) -> None:
    n = group["steps_per_epoch"]
    if n is None:
        if group["interpolate"]:
            raise ValueError("interpolate=True needs steps_per_epoch: with None, t is set by a scheduler.")
        if not _value(group["t"]) >= 1:
            raise ValueError(f"t must be >= 1, got {group['t']}.")
        return
    if isinstance(n, bool) or not isinstance(n, numbers.Integral):
        raise TypeError(
            f"steps_per_epoch must be a whole number or None, got {n!r}. Use len(loader), or 1 for t to count steps."
        )
    if n < 1:
        raise ValueError(f"steps_per_epoch must be >= 1, got {n}.")
    group["steps_per_epoch"] = int(n)


def check_parameter(param: Tensor, group: Group, projector: Projector | None) -> None:
    """Raise unless a parameter can be held in the constraint, and updated by the fused loops if these are asked for."""
    if projector is not None:
        projector.check(param)
    if not group["fused"]:
        return
    if not is_plain(param) or not (param.is_floating_point() or param.is_complex()):
        raise RuntimeError(
            f"fused=True needs plain floating-point tensors, got {type(param).__name__} of {param.dtype}."
        )
    if param.device.type not in ("cpu", "cuda"):
        raise RuntimeError(
            f"fused=True works on the CPU and on CUDA, got a parameter on {param.device}. Use foreach=True."
        )
    if param.device.type == "cuda" and not HAS_TRITON:
        raise RuntimeError("fused=True on CUDA needs Triton, which is not installed. Install it, or use foreach=True.")


def is_plain(param: Any) -> bool:
    """Return whether a parameter is no tensor subclass: these may not know the list operations."""
    return type(param) in (Tensor, torch.nn.Parameter)
