r"""What t is, and the numbers of one update that follow from it.

The theorems count steps, the published networks count epochs, and these are two different optimizers, so that t is always
asked for: see `AdaHB`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

Group = dict[str, Any]


class Coefficients(NamedTuple):
    """The scalars of one update: floats, or tensors where t must stay on the device."""

    momentum: float | Tensor  # t / (t + 2)
    step_size: float | Tensor  # lr / ((t + 2) sqrt t)
    keep: float | Tensor  # 1 - gamma / t
    gain: float | Tensor  # gamma / t
    floor: float | Tensor  # delta / sqrt t
    shrink: float | Tensor  # 1 - weight_decay * lr / (2 sqrt t), where the decay is decoupled, else 1


def time_of(step: float | Tensor, group: Group) -> float | Tensor:
    """Return t of an update, given its number (from 1) and the steps n of an epoch; the group's own t where n is None.

    It is floor((step - 1) / n) + 1, one unit an epoch, or with ``interpolate`` 1 + (step - 1) / n, continuously.
    """
    n: int | None = group["steps_per_epoch"]
    if n is None:
        t = group["t"]
        return torch.zeros_like(step) + t if isinstance(step, Tensor) else float(t)
    if group["interpolate"]:
        return (step - 1) / n + 1
    if isinstance(step, Tensor):
        return torch.div(step - 1, n, rounding_mode="floor") + 1
    return (step - 1) // n + 1


def coefficients(step: float | Tensor, group: Group) -> Coefficients:
    r"""Return the scalars of update number ``step``.

    .. math:: \beta_t = \frac{t}{t+2}, \quad \alpha_t = \frac{\alpha}{(t+2)\sqrt t}, \quad \beta_{2t} = 1 - \frac{\gamma}{t}

    Equation 12 with the parameters of theorem 5, in the paper of `AdaHB`. ``gain`` is gamma / t and never 1 - keep, which
    cancels in float32. A parameter whose first update comes when t is past 1 (set by a scheduler) starts with its squared
    gradient as the second moment; otherwise its first move would be sqrt(t) times too long. Updates count from 1, as a
    number or as a tensor of shape () or (n,).
    """
    t = time_of(step, group)
    root = t**0.5
    lr = group["lr"]
    if isinstance(lr, Tensor):
        if isinstance(step, Tensor):
            lr = lr.to(dtype=step.dtype, device=step.device)
        elif not group["differentiable"]:
            lr = float(lr.detach())
    slowed = lr / root if group["decay"] == "sqrt" else lr
    gain = group.get("gamma", 1.0) / t
    if isinstance(step, Tensor) or isinstance(t, Tensor):
        late = (torch.as_tensor(step) == 1) & (torch.as_tensor(t) > 1)
        gain = torch.where(late, 1.0, gain)
    elif step == 1 and t > 1:
        gain = 1.0
    decay = group["weight_decay"] if group["decoupled_weight_decay"] else 0.0
    return Coefficients(
        momentum=t / (t + 2),
        step_size=slowed / (t + 2),
        keep=1 - gain,
        gain=gain,
        floor=group.get("delta", 0.0) / root,
        shrink=1 - decay * slowed / 2,
    )


def each_of(k: Coefficients, n: int) -> list[Coefficients]:
    """Return the coefficients of n parameters: numbers, or tensors of shape () out of those of shape (n,)."""
    if not isinstance(k.momentum, Tensor) or not k.momentum.dim():
        return [k] * n
    columns = [x.expand(n).unbind() if isinstance(x, Tensor) else (x,) * n for x in k]
    return [Coefficients(*row) for row in zip(*columns, strict=True)]
