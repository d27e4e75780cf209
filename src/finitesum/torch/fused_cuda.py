"""The update in one pass over memory on a GPU: Triton kernels, one launch for all small parameters of one type.

A launch takes longer than the update of a parameter of some thousand entries. Small ones are therefore updated together, by
a table of their addresses and one of which block belongs to which. The tables are kept as long as the addresses stay, which
they mostly do from step to step. A large parameter has a launch of its own, and so has one whose memory is not laid out
like its state, and each one while a graph is captured, into which no table can be copied.

The scalars come from the device's memory, so that nothing is recompiled when t moves, float64 parameters get float64
scalars, and a captured graph reads the new ones. Parameters and gradients of half precision are widened in registers; the
state is float32 and dense.

With ``TRITON_INTERPRET=1`` in the environment the same kernels run on the CPU, for tests.
"""

import functools
import importlib
import importlib.util
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from finitesum.torch.schedule import Coefficients
from finitesum.torch.slots import Slot
from finitesum.torch.updates import Rule

#: Whether Triton is installed (torch's CUDA builds for Linux bring it).
HAS_TRITON = importlib.util.find_spec("triton") is not None

BLOCK = 1024

#: A parameter of more entries takes a GPU longer than a launch.
SMALL = 4096 * BLOCK

if HAS_TRITON:
    triton: Any = importlib.import_module("triton")
    tl: Any = importlib.import_module("triton.language")

    # Triton reads this source, annotations included, and knows no others than constexpr.
    @triton.jit  # type: ignore[untyped-decorator]
    def _update_block(w_at, g_at, m_at, v_at, k_at, place, n, ADAPTIVE: tl.constexpr):  # type: ignore[no-untyped-def]
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

    @triton.jit  # type: ignore[untyped-decorator]
    def _update_one(w_at, g_at, m_at, v_at, k_at, n, ADAPTIVE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        _update_block(w_at, g_at, m_at, v_at, k_at, place, n, ADAPTIVE)

    # The types of w and g are constants: addresses out of a table have none. `_table` has rows of six, `_scalars` of eight.
    @triton.jit  # type: ignore[untyped-decorator]
    def _update_many(table, blocks, k_at, W: tl.constexpr, G: tl.constexpr, ADAPTIVE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        block = blocks + 2 * tl.program_id(0)
        row = table + 6 * tl.load(block)
        place = tl.load(block + 1) * BLOCK + tl.arange(0, BLOCK)
        w_at = tl.load(row).to(tl.pointer_type(W))
        g_at = tl.load(row + 1).to(tl.pointer_type(G))
        m_at = tl.load(row + 2).to(k_at.dtype)
        v_at = tl.load(row + 3).to(k_at.dtype)
        _update_block(w_at, g_at, m_at, v_at, k_at + 8 * tl.load(row + 5), place, tl.load(row + 4), ADAPTIVE)


def fused_update_cuda(slots: list[Slot], k: Coefficients, rule: Rule) -> None:
    """Update parameters of one type on one GPU in place, in one pass over each; the rule is not ``smooth``, nor projects.

    Coefficients are floats, or tensors of shape (n,), one number a parameter.
    """
    device = slots[0].param.device
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        stream, capturing = _stream(device)
        scalars = _scalars(slots, k, rule, stream)
        own = range(len(slots)) if scalars.shape[0] > 1 else [0] * len(slots)
        together: list[tuple[Slot, int, int]] = []
        for slot, row in zip(slots, own, strict=True):
            n = slot.displacement.numel()
            if 0 < n <= SMALL and not capturing and _is_like_its_state(slot):
                together.append((slot, n, row))
            elif n:
                _run_one(slot, scalars[row], rule)
        if len(together) == 1:
            slot, _, row = together[0]
            _run_one(slot, scalars[row], rule)
        elif together:
            _run_many(together, scalars, rule, stream)


def _stream(device: torch.device) -> tuple[int, bool]:
    """Return the stream that is in use on a device, and whether a graph is being captured."""
    if device.type != "cuda":
        return 0, False
    return torch.cuda.current_stream(device).cuda_stream, torch.cuda.is_current_stream_capturing()


def _is_like_its_state(slot: Slot) -> bool:
    _, _, param, grad, displacement, square_avg = slot
    layout = displacement.stride()
    return param.stride() == layout == grad.stride() and (square_avg is None or square_avg.stride() == layout)


def _run_one(slot: Slot, scalars: Tensor, rule: Rule) -> None:
    m, v = slot.displacement, slot.square_avg
    n = m.numel()
    param, grad = (x if x.stride() == m.stride() else torch.empty_like(m).copy_(x) for x in (slot.param, slot.grad))
    square = m if v is None else v if v.stride() == m.stride() else torch.empty_like(m).copy_(v)
    _update_one[(triton.cdiv(n, BLOCK),)](param, grad, m, square, scalars, n, ADAPTIVE=rule.adaptive, BLOCK=BLOCK)
    if param is not slot.param:
        slot.param.copy_(param)
    if v is not None and square is not v:
        v.copy_(square)


def _run_many(together: list[tuple[Slot, int, int]], scalars: Tensor, rule: Rule, stream: int) -> None:
    """Update parameters, given with their numbers of entries and their rows of the scalars, by one launch."""
    rows = []
    for (_, _, w, g, m, v), n, row in together:
        at = m.data_ptr()
        rows.append((w.data_ptr(), g.data_ptr(), at, at if v is None else v.data_ptr(), n, row))
    w, g = together[0][0][2:4]
    blocks = _blocks(tuple([n for _, n, _ in together]), w.device, stream)
    table = _table(tuple(rows), w.device, stream)
    types = _triton_type(w.dtype), _triton_type(g.dtype)
    _update_many[(len(blocks),)](table, blocks, scalars, *types, ADAPTIVE=rule.adaptive, BLOCK=BLOCK)


@functools.cache
def _triton_type(dtype: torch.dtype) -> Any:
    return getattr(tl, str(dtype).removeprefix("torch."))


# What is kept on a device is kept for one stream: on another it might be read before it is there.


@functools.lru_cache(maxsize=64)
def _table(rows: tuple[tuple[int, ...], ...], device: torch.device, stream: int) -> Tensor:
    """Return addresses, number of entries and row of the scalars of each parameter, on the device."""
    return _sent(np.array(rows, dtype=np.int64), device)


@functools.lru_cache(maxsize=64)
def _blocks(sizes: tuple[int, ...], device: torch.device, stream: int) -> Tensor:
    """Return the parameter and the place in it of each block, on the device."""
    numbers = [-(-n // BLOCK) for n in sizes]
    first = np.repeat(np.cumsum([0, *numbers[:-1]]), numbers)
    pairs = np.repeat(np.arange(len(sizes)), numbers), np.arange(len(first)) - first
    return _sent(np.stack(pairs, axis=1), device)


def _sent(values: Any, device: torch.device) -> Tensor:
    """Return a copy on the device, for which the CPU does not wait."""
    own: Tensor = torch.from_numpy(values)
    return own.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else own


@functools.lru_cache(maxsize=64)
def _held_scalars(values: tuple[float, ...], device: torch.device, dtype: torch.dtype, stream: int) -> Tensor:
    """Return the scalars on the device: they change with t only, which is once an epoch for networks."""
    return torch.tensor([values], device=device, dtype=dtype)


def _scalars(slots: list[Slot], k: Coefficients, rule: Rule, stream: int) -> Tensor:
    """Return one row of scalars for each parameter, or one for all."""
    like = slots[0].displacement
    options = -1.0 if rule.maximize else 1.0, rule.weight_decay
    if not isinstance(k.momentum, Tensor):
        return _held_scalars((*(float(x) for x in k), *options), like.device, like.dtype, stream)
    own: Any = {"device": like.device, "dtype": like.dtype}
    # A number is filled in on the device: while a graph is captured nothing may be copied from the CPU.
    columns = [x.to(**own) if isinstance(x, Tensor) else torch.full((), x, **own) for x in (*k, *options)]
    return torch.stack([x.expand(len(slots)) for x in columns], dim=1)
