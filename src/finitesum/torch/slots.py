"""States of parameters: made, loaded without loss, and gathered with the parameters as the tensors of one update."""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from finitesum.torch.schedule import Coefficients, Group, coefficients

State = dict[str, Any]


class Slot(NamedTuple):
    """The tensors of one parameter, real ones: complex ones are viewed as pairs of real numbers."""

    owner: Tensor  # the parameter as the user gave it
    step: Tensor  # number of this update, shape ()
    param: Tensor  # w
    grad: Tensor  # g
    displacement: Tensor  # m
    square_avg: Tensor | None  # v; None for HB


def state_type(param: Tensor) -> torch.dtype:
    """Return the type of a parameter's state: at least float32, because half precision stalls or divides by zero."""
    return torch.promote_types(param.dtype, torch.float32)


def step_device(param: Tensor, group: Group) -> torch.device:
    """Return where the number of updates is kept: with the parameter only if it must not be read back."""
    return param.device if group["capturable"] else torch.device("cpu")


def place_t(group: Group) -> None:
    """Make t of a group a tensor beside its parameters where it must not be read back, and a float elsewhere."""
    t = group["t"]
    if t is None or not group["params"]:
        return
    if group["capturable"]:
        group["t"] = torch.as_tensor(t, dtype=torch.float32, device=group["params"][0].device)
    else:
        group["t"] = float(t)


def new_state(param: Tensor, group: Group, adaptive: bool) -> State:
    """Return the state before the first update: all zero."""
    like = {"dtype": state_type(param), "memory_format": torch.preserve_format}
    state = {
        "step": torch.zeros((), dtype=torch.float32, device=step_device(param, group)),
        "momentum_buffer": torch.zeros_like(param, **cast(Any, like)),
    }
    if adaptive:
        state["square_avg"] = torch.zeros_like(param, **cast(Any, like))
    return state


def repair(optimizer: Optimizer, saved: State, constraints: list[Any]) -> None:
    """Put right what torch rounds, moves or replaces as it loads: it would round float32 states of half precision."""
    for group, own, old in zip(optimizer.param_groups, constraints, saved["param_groups"], strict=True):
        group["constraint"] = own
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


def refuse_sparse(grad: Tensor) -> None:
    """Raise unless a gradient is dense."""
    if grad.layout != torch.strided:
        raise RuntimeError(
            f"sparse gradients are not supported, got one of layout {grad.layout}: momentum moves every entry at every "
            "step. Use torch.nn.Embedding(..., sparse=False), or torch.optim.SparseAdam for these parameters."
        )


def slot_of(param: Tensor, grad: Tensor, state: State) -> Slot:
    """Gather the tensors of a parameter."""
    displacement, square_avg = state["momentum_buffer"], state.get("square_avg")
    if not param.is_complex():
        return Slot(param, state["step"], param, grad, displacement, square_avg)
    pairs = [x if x is None else torch.view_as_real(x.resolve_conj()) for x in (param, grad, displacement, square_avg)]
    return Slot(param, state["step"], *cast(Any, pairs))


def buckets(slots: list[Slot], on_device: bool) -> list[list[Slot]]:
    """Sort parameters into lists of one device and type, and of one step where that is read."""
    lists: dict[Any, list[Slot]] = {}
    for slot in slots:
        step = None if on_device else slot.step.item()
        _, _, param, grad, _, _ = slot
        lists.setdefault((param.device, param.dtype, grad.dtype, step), []).append(slot)
    return list(lists.values())


def bucket_coefficients(bucket: list[Slot], group: Group, on_device: bool) -> Coefficients:
    """Return the scalars of a list: floats, or tensors of shape (n,) that never leave the device."""
    if not on_device:
        return coefficients(bucket[0].step.item(), group)
    steps = torch.stack([slot.step for slot in bucket])
    is_double = bucket[0].displacement.dtype == torch.float64
    return coefficients(steps.double() if is_double else steps, group)
