"""What `AdaHB` and `HB` have in common: groups, states, the choice of the implementation, saving and loading.

The options of a group are checked once, where they come in.
"""

import numbers
import warnings
from collections.abc import Callable, Iterator
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from finitesum.torch.epochs import Watch
from finitesum.torch.fused import fused_update_cpu
from finitesum.torch.fused_cuda import HAS_TRITON, fused_update_cuda
from finitesum.torch.projections import Projector, describe
from finitesum.torch.schedule import Coefficients, Group, each_of, time_of
from finitesum.torch.slots import Slot, bucket_coefficients, buckets, new_state, place_t, refuse_sparse, repair, slot_of
from finitesum.torch.updates import Rule, foreach_update, reference_update

#: This many entries of w, g, m, v and s together fit a core's cache: on the CPU lists are cut there.
CACHE_SIZED = 2**16

#: Adding a number costs a new tensor for each step of the list.
_ONE = torch.tensor(1.0, dtype=torch.float32, device="cpu")


class HeavyBall(Optimizer):
    """The base of `AdaHB` and `HB`; it is no optimizer by itself."""

    _adaptive: bool

    def __init__(self, params: Any, given: dict[str, Any]) -> None:
        self._watch = Watch()
        self._projectors: dict[int, Projector] = {}
        defaults = {key: value for key, value in given.items() if key not in ("self", "params", "__class__")}
        super().__init__(params, {**defaults, "t": 1.0 if given["steps_per_epoch"] is None else None})

    @property
    def epoch(self) -> float:
        """t of the last update: the largest over all parameters, 0 before the first update.

        One number an optimizer; a parameter that was added late lags behind, and with different ``steps_per_epoch`` so do
        groups. Where a scheduler sets t, it is ``group["t"]``. With ``capturable=True`` a GPU is waited for.
        """
        times = [
            float(time_of(float(state["step"]), group))
            for group in self.param_groups
            for param in group["params"]
            if (state := self.state.get(param)) and float(state["step"]) > 0
        ]
        return max(times, default=0.0)

    @property
    def n_updates(self) -> int:
        """Number of updates of the parameter that has had most of them."""
        return max((int(state["step"]) for state in self.state.values() if "step" in state), default=0)

    def epoch_end(self) -> int | None:
        """Check, at the end of an epoch, that it had the length given as ``steps_per_epoch``; return its number of updates.

        It is None in the first call after loading a state. Nothing is changed: a wrong length is a valid schedule, only a
        worse one, so nothing else can notice it. Call it once and leave it out afterwards, or call it after every epoch. An
        EpochLengthWarning says that the epoch was longer or shorter by more than one in a hundred (mixed precision skips an
        update now and then), or that t is left to a scheduler that did not move it.
        """
        return self._watch.epoch_end(self.param_groups, self.n_updates)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group, with options of its own where given; errors are those of the class."""
        own_length = "steps_per_epoch" in param_group and "t" not in param_group
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            if own_length:
                group["t"] = 1.0 if group["steps_per_epoch"] is None else None
            _check_group(group)
            for param in group["params"]:
                _check_parameter(param, group, self._projector(group))
        except (TypeError, ValueError, RuntimeError):
            self.param_groups.pop()
            raise
        place_t(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_watch", Watch()).mark = None
        self.__dict__.setdefault("_projectors", {})
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as tensors and plain values; a constraint, in words only, must be given again to load."""
        content = super().state_dict()
        for group in content["param_groups"]:  # torch.load(weights_only=True) reads plain values only
            if not isinstance(group.get("constraint"), str):
                group["constraint"] = describe(group.get("constraint"))
        return content

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state. Options of the groups come from it too, except their constraints, which stay as they are.

        A UserWarning says that the state was saved under another constraint.
        """
        constraints = [group["constraint"] for group in self.param_groups]
        given = [state_dict]
        # The user's own hooks: one before may exchange the state dict, and one after finds the state complete.
        before = self.register_load_state_dict_pre_hook(lambda _, loaded: given.append(loaded))
        after = self.register_load_state_dict_post_hook(lambda _: repair(self, given[-1], constraints), prepend=True)
        try:
            super().load_state_dict(state_dict)
        finally:
            before.remove()
            after.remove()
        for own, old in zip(constraints, given[-1]["param_groups"], strict=True):
            described = old.get("constraint", "none")
            if isinstance(described, str) and described != describe(own):
                warnings.warn(
                    f"the state was saved under the constraint {described}, and is loaded under {describe(own)}.",
                    UserWarning,
                    stacklevel=2,
                )

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one update; a closure, where given, evaluates the model again and returns the loss.

        A RuntimeError says that a gradient is sparse, or that a CUDA graph is being captured without ``capturable=True``.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.set_grad_enabled(bool(self.defaults["differentiable"])):
            for group in self.param_groups:
                self._update_group(group)
        self._watch.after_update(self.param_groups)
        return loss

    def _update_group(self, group: Group) -> None:
        rule = self._rule(group)
        slots = [self._slot(param, grad, group, rule) for param in group["params"] if (grad := param.grad) is not None]
        if not slots:
            return
        compiling = torch.compiler.is_compiling()
        on_device = bool(group["capturable"]) or compiling
        if not on_device and any(slot.param.is_cuda for slot in slots) and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "a CUDA graph is being captured, which would freeze t. Make the optimizer with capturable=True."
            )
        steps = [slot.step for slot in slots]
        if steps[0].device.type == "cpu" and not compiling:
            torch._foreach_add_(steps, _ONE, alpha=1.0)
        else:
            torch._foreach_add_(steps, 1)
        for bucket in buckets(slots, on_device):
            k = bucket_coefficients(bucket, group, on_device)
            if group["fused"] and not compiling:
                update = fused_update_cpu if bucket[0].param.device.type == "cpu" else fused_update_cuda
                update(bucket, k, rule)
            elif _uses_lists(bucket, group):
                whole = bucket[0].param.device.type != "cpu" or isinstance(k.momentum, Tensor)
                for part in [bucket] if whole else _cache_sized(bucket):
                    foreach_update(part, k, rule)
            else:
                self._run_reference(bucket, k, rule)

    def _slot(self, param: Tensor, grad: Tensor, group: Group, rule: Rule) -> Slot:
        refuse_sparse(grad)
        state = self.state[param]
        if not state:
            state.update(new_state(param, group, self._adaptive))
            if rule.project is not None and not rule.smooth:
                param.copy_(rule.project(param, None))  # a start outside of the set is no displacement
        return slot_of(param, grad, state)

    def _run_reference(self, bucket: list[Slot], k: Coefficients, rule: Rule) -> None:
        for slot, own in zip(bucket, each_of(k, len(bucket)), strict=True):
            param, displacement, square = reference_update(slot, own, rule)
            slot.param.copy_(param)
            state = self.state[slot.owner]
            for name, value in (("momentum_buffer", displacement), ("square_avg", square)):
                if value is None:
                    continue
                value = torch.view_as_complex(value) if slot.owner.is_complex() else value
                if rule.smooth:
                    state[name] = value  # writing into the old one would lose or spoil the history
                else:
                    state[name].copy_(value)

    def _rule(self, group: Group) -> Rule:
        weight_decay = 0.0 if group["decoupled_weight_decay"] else float(group["weight_decay"])
        may_vanish, smooth = self._adaptive and group["delta"] == 0, bool(group["differentiable"])
        maximize, project = bool(group["maximize"]), self._projector(group)
        return Rule(self._adaptive, maximize, weight_decay, may_vanish, smooth, project)

    def _projector(self, group: Group) -> Projector | None:
        constraint = group["constraint"]
        if constraint is None:
            return None
        known = self._projectors.get(id(constraint))
        if known is None or known.constraint is not constraint:
            known = self._projectors[id(constraint)] = Projector(constraint)
        return known


def _uses_lists(bucket: list[Slot], group: Group) -> bool:
    if group["foreach"] is not None:
        return bool(group["foreach"])
    return not group["differentiable"] and all(_is_plain(slot.owner) for slot in bucket)


def _cache_sized(bucket: list[Slot]) -> Iterator[list[Slot]]:
    """Cut a list so that each part may stay in the cache between the operations."""
    part: list[Slot] = []
    n = 0
    for slot in bucket:
        if part and n + slot.param.numel() > CACHE_SIZED:
            yield part
            part, n = [], 0
        part.append(slot)
        n += slot.param.numel()
    yield part


def _check_group(group: Group) -> None:
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


def _check_parameter(param: Tensor, group: Group, projector: Projector | None) -> None:
    """Raise unless a parameter can be held in the constraint, and updated by the fused loops if these are asked for."""
    if projector is not None:
        projector.check(param)
    if not group["fused"]:
        return
    if not _is_plain(param) or not (param.is_floating_point() or param.is_complex()):
        raise RuntimeError(f"fused=True needs plain floating-point tensors, got {type(param).__name__} of {param.dtype}.")
    if param.device.type not in ("cpu", "cuda"):
        raise RuntimeError(f"fused=True works on the CPU and on CUDA, got a parameter on {param.device}. Use foreach=True.")
    if param.device.type == "cuda" and not HAS_TRITON:
        raise RuntimeError("fused=True on CUDA needs Triton, which is not installed. Install it, or use foreach=True.")


def _is_plain(param: Any) -> bool:
    """Return whether a parameter is no tensor subclass: these may not know the list operations."""
    return type(param) in (Tensor, torch.nn.Parameter)
