r"""The update of a parameter: once to be read (`reference_update`) and once for lists of tensors (`foreach_update`).

.. math::

    v_t &= (1 - \tfrac{\gamma}{t})\, v_{t-1} + \tfrac{\gamma}{t}\, g_t^2, \qquad
    s_t = \sqrt{v_t} + \delta/\sqrt t \\
    m_t &= \tfrac{t}{t+2}\, m_{t-1} + \tfrac{\alpha}{(t+2)\sqrt t}\, g_t / s_t \\
    w_{t+1} &= P_Q^{s_t}(w_t - m_t), \qquad m_t \leftarrow w_t - w_{t+1}

Equation 12 and algorithm 1 of the paper of `AdaHB`; HB (theorem 3) has s = 1 and no v. Deviations from the paper:

* the projection is the one in the metric s, which the proofs use, and not the Euclidean one that is printed;
* m is the true displacement after the projection. Written as ``m += (w - m) - P(w - m)``, so that a projection that does
  nothing changes no bit;
* where s is zero (delta = 0 and no gradient so far) it is taken as one: the quotient is then 0, as it should be.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from finitesum.torch.schedule import Coefficients
from finitesum.torch.slots import Slot

Projection = Callable[[Tensor, Tensor | None], Tensor]


class Rule(NamedTuple):
    """What does not change from step to step."""

    adaptive: bool  # AdaHB, else HB
    maximize: bool
    weight_decay: float  # the coupled one: added to the gradient
    may_vanish: bool  # s may be zero
    smooth: bool  # derivatives are taken through the update
    project: Projection | None


def _root(v: Tensor, smooth: bool) -> Tensor:
    """Return the square root, with derivative 0 at 0 where derivatives are asked for: there it is infinite."""
    if not smooth:
        return v.sqrt()
    positive = v > 0
    return torch.where(positive, torch.where(positive, v, 1).sqrt(), 0)


def reference_update(slot: Slot, k: Coefficients, rule: Rule) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the new (w, m, v) of one parameter, computed in the type of m by scalar coefficients; nothing is written."""
    w, g, m, v = slot.param.to(slot.displacement), slot.grad.to(slot.displacement), slot.displacement, slot.square_avg
    if rule.smooth:
        w = w.clone()  # the parameter will be overwritten, and derivatives need what it was
    if rule.maximize:
        g = -g
    if rule.weight_decay:
        g = g + rule.weight_decay * w
    w = k.shrink * w
    s = None
    if v is not None:
        v = k.keep * v + k.gain * g * g
        s = _root(v, rule.smooth) + k.floor
        if rule.may_vanish:
            s = torch.where(s == 0, 1, s)
        g = g / s
    m = k.momentum * m + k.step_size * g
    x = w - m
    if rule.project is not None:
        y = rule.project(x, s)
        m, x = m + (x - y), y
    return x, m, v


def foreach_update(slots: list[Slot], k: Coefficients, rule: Rule) -> None:
    """Update a list of parameters of one type and device in place, with one call for each operation.

    Coefficients are floats, or tensors of shape (n,), one number a parameter; the rule is not ``smooth``.
    """
    narrow, dtype = slots, slots[0].displacement.dtype  # rounded once, at the end
    slots = [slot._replace(param=slot.param.to(dtype), grad=slot.grad.to(dtype)) for slot in slots]
    # the list operations take floats, or lists of n tensors
    columns: Any = (list(x.expand(len(slots)).unbind()) if isinstance(x, Tensor) else x for x in k)
    own = Coefficients(*columns)
    params, displacements = [slot.param for slot in slots], [slot.displacement for slot in slots]
    grads = _gradients(slots, rule)
    if not (isinstance(k.shrink, float) and k.shrink == 1.0):
        torch._foreach_mul_(params, own.shrink)
    metrics = None
    if rule.adaptive:
        squares = [cast(Tensor, slot.square_avg) for slot in slots]
        torch._foreach_mul_(squares, cast(Any, own.keep))
        _add_squares(squares, grads, own.gain)
        metrics = _metrics(squares, own.floor, rule)
    torch._foreach_mul_(displacements, own.momentum)
    if metrics is None:
        _add(displacements, grads, own.step_size)
    else:
        _add_quotients(displacements, grads, metrics, own.step_size)
    if rule.project is None:
        torch._foreach_sub_(params, displacements)
    else:
        given: list[Any] = metrics or [None] * len(slots)
        for slot, metric in zip(slots, given, strict=True):
            x = slot.param - slot.displacement
            y = rule.project(x, metric)
            slot.displacement.add_(x - y)
            slot.param.copy_(y)
    for before, after in zip(narrow, slots, strict=True):
        if before.param is not after.param:
            before.param.copy_(after.param)


def _gradients(slots: list[Slot], rule: Rule) -> list[Tensor]:
    """Return the gradients with sign and coupled weight decay; the given ones stay as they are."""
    grads = [slot.grad for slot in slots]
    if rule.maximize:
        grads = list(torch._foreach_neg(grads))
    if rule.weight_decay:
        grads = list(torch._foreach_add(grads, [slot.param for slot in slots], alpha=rule.weight_decay))
    return grads


def _metrics(squares: list[Tensor], floor: Any, rule: Rule) -> list[Tensor]:
    metrics = list(torch._foreach_sqrt(squares))
    if rule.may_vanish:
        for s in metrics:
            s.masked_fill_(s == 0, 1)
    else:
        torch._foreach_add_(metrics, floor)
    return metrics


def _add(tensors: list[Tensor], others: list[Tensor], factor: Any) -> None:
    if isinstance(factor, list):
        torch._foreach_add_(tensors, torch._foreach_mul(others, factor))
    else:
        torch._foreach_add_(tensors, others, alpha=factor)


def _add_squares(tensors: list[Tensor], grads: list[Tensor], factor: Any) -> None:
    if isinstance(factor, list):
        _add(tensors, list(torch._foreach_mul(grads, grads)), factor)
    else:
        torch._foreach_addcmul_(tensors, grads, grads, value=factor)


def _add_quotients(tensors: list[Tensor], grads: list[Tensor], metrics: list[Tensor], factor: Any) -> None:
    if isinstance(factor, list):
        _add(tensors, list(torch._foreach_div(grads, metrics)), factor)
    else:
        torch._foreach_addcdiv_(tensors, grads, metrics, value=factor)
