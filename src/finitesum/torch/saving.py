"""Saves and loads optimizer states without loss: torch would round float32 states of half-precision parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from finitesum.torch.projections import describe
from finitesum.torch.slots import place_t, state_type, step_device

StateDict = dict[str, Any]


def with_plain_groups(state_dict: StateDict) -> StateDict:
    """Return the state dict with constraints in words, so that ``torch.load(weights_only=True)`` can read it."""
    for group in state_dict["param_groups"]:
        if not isinstance(group.get("constraint"), str):
            group["constraint"] = describe(group.get("constraint"))
    return state_dict


def load_exactly(optimizer: Optimizer, state_dict: StateDict, load: Callable[[StateDict], None]) -> None:
    """Load a state dict by torch's own means, then put right what these round, move or replace.

    The user's own hooks get what they always get: the one before may exchange the state dict, the one after finds the
    state complete.
    """
    constraints = [group["constraint"] for group in optimizer.param_groups]
    given: list[StateDict] = [state_dict]
    before = optimizer.register_load_state_dict_pre_hook(lambda _, loaded: given.append(loaded))
    after = optimizer.register_load_state_dict_post_hook(
        lambda _: _repair(optimizer, given[-1], constraints), prepend=True
    )
    try:
        load(state_dict)
    finally:
        before.remove()
        after.remove()


def _repair(optimizer: Optimizer, saved: StateDict, constraints: list[Any]) -> None:
    for group, own, old in zip(optimizer.param_groups, constraints, saved["param_groups"], strict=True):
        group["constraint"] = own
        described = old.get("constraint", "none")
        if isinstance(described, str) and described != describe(own):
            warnings.warn(
                f"the state was saved under the constraint {described}, and is loaded under {describe(own)}.",
                UserWarning,
                stacklevel=6,
            )
        place_t(group)
        for key, param in zip(old["params"], group["params"], strict=True):
            for name, value in saved["state"].get(key, {}).items():
                optimizer.state[param][name] = _placed(name, value, param, group)


def _placed(name: str, value: Any, param: Tensor, group: dict[str, Any]) -> Any:
    if name == "step":
        return torch.as_tensor(value, dtype=torch.float32).to(step_device(param, group), copy=True)
    if not isinstance(value, Tensor):
        return value
    dtype = state_type(param) if value.is_floating_point() or value.is_complex() else value.dtype
    return value.to(device=param.device, dtype=dtype, copy=True)
