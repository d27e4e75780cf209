"""The update in one pass over memory on a GPU: a Triton kernel, one launch for a parameter.

The scalars come from the device's memory, so that nothing is recompiled when t moves, float64 parameters get float64
scalars, and a captured graph reads the new ones. Parameters and gradients of half precision are widened in registers; the
state is float32 and dense.

With ``TRITON_INTERPRET=1`` in the environment the same kernel runs on the CPU, for tests.
"""

import functools
import importlib
import importlib.util
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from finitesum.torch.schedule import Coefficients
from finitesum.torch.slots import Slot
from finitesum.torch.updates import Rule

#: Whether Triton is installed (torch's CUDA builds for Linux bring it).
HAS_TRITON = importlib.util.find_spec("triton") is not None

BLOCK = 1024

if HAS_TRITON:
    triton: Any = importlib.import_module("triton")
    tl: Any = importlib.import_module("triton.language")

    # Triton reads this source, annotations included, and knows no others than constexpr.
    @triton.jit  # type: ignore[untyped-decorator]
    def _update_kernel(w_at, g_at, m_at, v_at, k_at, n, ADAPTIVE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = place < n
        m = tl.load(m_at + place, mask=inside)
        w = tl.load(w_at + place, mask=inside).to(m.dtype)
        g = tl.load(g_at + place, mask=inside).to(m.dtype)
        g = tl.load(k_at + 6) * g + tl.load(k_at + 7) * w
        if ADAPTIVE:
            v = tl.load(v_at + place, mask=inside)
            v = tl.load(k_at + 2) * v + tl.load(k_at + 3) * g * g
            tl.store(v_at + place, v, mask=inside)
            s = tl.sqrt(v) + tl.load(k_at + 4)
            g = g / tl.where(s == 0, 1, s).to(m.dtype)
        m = tl.load(k_at) * m + tl.load(k_at + 1) * g
        w = tl.load(k_at + 5) * w - m
        tl.store(m_at + place, m, mask=inside)
        tl.store(w_at + place, w.to(w_at.dtype.element_ty), mask=inside)


@functools.lru_cache(maxsize=64)
def _held_scalars(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the scalars on the device: they change with t only, which is once an epoch for networks."""
    return torch.tensor(values, device=device, dtype=dtype)


def _scalars(k: Coefficients, rule: Rule, like: Tensor) -> Tensor:
    options = -1.0 if rule.maximize else 1.0, rule.weight_decay
    if isinstance(k.momentum, Tensor):
        own: Any = {"device": like.device, "dtype": like.dtype}
        # A number is filled in on the device: while a graph is captured nothing may be copied from the CPU.
        return torch.stack([x.to(**own) if isinstance(x, Tensor) else torch.full((), x, **own) for x in (*k, *options)])
    return _held_scalars((*(float(x) for x in k), *options), like.device, like.dtype)


def fused_update_cuda(slot: Slot, k: Coefficients, rule: Rule) -> None:
    """Update one parameter on the GPU in place, in one pass, by scalar coefficients; the rule is as for the CPU."""
    m, v = slot.displacement, slot.square_avg
    n = m.numel()
    if n == 0:
        return
    param, grad = (x if x.stride() == m.stride() else torch.empty_like(m).copy_(x) for x in (slot.param, slot.grad))
    square = m if v is None else v if v.stride() == m.stride() else torch.empty_like(m).copy_(v)
    grid = (triton.cdiv(n, BLOCK),)
    with torch.cuda.device(m.device) if m.is_cuda else nullcontext():
        _update_kernel[grid](param, grad, m, square, _scalars(k, rule, m), n, ADAPTIVE=v is not None, BLOCK=BLOCK)
    if param is not slot.param:
        slot.param.copy_(param)
    if v is not None and square is not v:
        v.copy_(square)
