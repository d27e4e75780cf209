"""The update in one pass over memory: compiled loops on the CPU; the device's own kernel is in `fused_cuda`.

An update reads w, g, m, v and writes w, m, v. The list operations of torch take seven passes for that; one loop takes one,
which is what counts as soon as a parameter no longer fits the cache. Large parameters are cut in pieces, one for each of
torch's threads; the result does not depend on their number.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from finitesum.core.jit import kernel
from finitesum.core.threads import map_parts
from finitesum.torch.schedule import Coefficients
from finitesum.torch.slots import Slot
from finitesum.torch.updates import Rule

#: A thread costs more than it saves on a piece with fewer entries.
PIECE = 32768


@kernel
def _adaptive_loop(w: Any, g: Any, m: Any, v: Any, k: Any) -> None:
    momentum, step_size, keep, gain, floor = k[0], k[1], k[2], k[3], k[4]
    shrink, sign, decay, one = k[5], k[6], k[7], k[8]  # literals would turn float32 into float64
    for i in range(w.size):
        grad = sign * g[i] + decay * w[i]
        square = keep * v[i] + gain * grad * grad
        s = math.sqrt(square) + floor
        if s == one - one:
            s = one
        move = momentum * m[i] + step_size * np.divide(grad, s)
        v[i] = square
        m[i] = move
        w[i] = shrink * w[i] - move


@kernel
def _plain_loop(w: Any, g: Any, m: Any, k: Any) -> None:
    momentum, step_size, shrink, sign, decay = k[0], k[1], k[5], k[6], k[7]
    for i in range(w.size):
        move = momentum * m[i] + step_size * (sign * g[i] + decay * w[i])
        m[i] = move
        w[i] = shrink * w[i] - move


def fused_update_cpu(slots: list[Slot], k: Coefficients, rule: Rule) -> None:
    """Update parameters of one type on the CPU in place, in one pass over each; the rule is not ``smooth``, nor projects.

    Half precision, and memory that is not laid out like the state, which is dense, is copied there and back. Coefficients
    are floats, or tensors of shape (n,), one number a parameter.
    """
    loop = _adaptive_loop if rule.adaptive else _plain_loop
    table = _scalars(slots, k, rule)
    for slot, scalars in zip(slots, table, strict=True):
        layout = slot.displacement
        given = [slot.param, slot.grad, layout]
        if slot.square_avg is not None:
            given.append(slot.square_avg)
        used = [x if _is_like(x, layout) else torch.empty_like(layout).copy_(x) for x in given]
        _run(loop, [_vector(x) for x in used], scalars)
        for before, after in zip(given, used, strict=True):
            if before is not after and before is not slot.grad:
                before.copy_(after)


def _scalars(slots: list[Slot], k: Coefficients, rule: Rule) -> Any:
    """Return one row of scalars for each parameter, in their type."""
    options = -1.0 if rule.maximize else 1.0, rule.weight_decay, 1.0
    columns = [x.detach().numpy() if isinstance(x, Tensor) else x for x in (*k, *options)]
    table = np.empty((len(slots), len(columns)), dtype=_vector(slots[0].displacement).dtype)
    for index, column in enumerate(columns):
        table[:, index] = column
    return table


def _is_like(x: Tensor, layout: Tensor) -> bool:
    return x is layout or (x.dtype == layout.dtype and x.stride() == layout.stride() and not x.is_neg())


def _vector(x: Tensor) -> Any:
    """Return the memory of a dense tensor as a NumPy vector, in the order in which it lies there."""
    x = x.detach() if x.requires_grad else x
    return x.numpy().reshape(-1) if x.is_contiguous() else x.as_strided((x.numel(),), (1,)).numpy()


def _run(loop: Callable[..., None], arrays: list[Any], scalars: Any) -> None:
    size = arrays[0].size
    n_pieces = min(torch.get_num_threads(), max(1, size // PIECE))
    if n_pieces == 1:
        loop(*arrays, scalars)
        return
    cuts = [size * i // n_pieces for i in range(n_pieces + 1)]
    pieces = [[x[a:b] for x in arrays] for a, b in pairwise(cuts)]
    map_parts(lambda piece: loop(*piece, scalars), pieces, n_pieces)
