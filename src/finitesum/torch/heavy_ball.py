"""What `AdaHB` and `HB` have in common: groups, states, the choice of the implementation, saving and loading."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from finitesum.torch.epochs import Watch
from finitesum.torch.fused import fused_update_cpu
from finitesum.torch.fused_cuda import fused_update_cuda
from finitesum.torch.options import check_group, check_parameter, is_plain
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
        """Check, at the end of an epoch, that it had the length given as ``steps_per_epoch``. Changes nothing.

        A wrong length is a valid schedule, only a worse one, so nothing else can notice it. Call it once and leave it out
        afterwards, or call it after every epoch.

        Returns
        -------
        n_updates : int or None
            The updates since the last call; None in the first call after loading a state.

        Warns
        -----
        EpochLengthWarning
            The epoch was longer or shorter than ``steps_per_epoch`` by more than one in a hundred (mixed precision skips
            an update now and then), or t is left to a scheduler that did not move it.
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
            check_group(group)
            for param in group["params"]:
                check_parameter(param, group, self._projector(group))
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

        Warns
        -----
        UserWarning
            The state was saved under another constraint.
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

        Raises
        ------
        RuntimeError
            A gradient is sparse, or a CUDA graph is being captured without ``capturable=True``.
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
        slots = [self._slot(param, group, rule) for param in group["params"] if param.grad is not None]
        if not slots:
            return
        compiling = torch.compiler.is_compiling()
        on_device = bool(group["capturable"]) or compiling
        on_cuda = any(slot.param.device.type == "cuda" for slot in slots)
        if on_cuda and not on_device and torch.cuda.is_current_stream_capturing():
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
                _run_fused(bucket, k, rule)
            elif _uses_lists(bucket, group):
                whole = bucket[0].param.device.type != "cpu" or isinstance(k.momentum, Tensor)
                for part in [bucket] if whole else _cache_sized(bucket):
                    foreach_update(part, k, rule)
            else:
                self._run_reference(bucket, k, rule)

    def _slot(self, param: Tensor, group: Group, rule: Rule) -> Slot:
        refuse_sparse(cast(Tensor, param.grad))
        state = self.state[param]
        if not state:
            state.update(new_state(param, group, self._adaptive))
            if rule.project is not None and not rule.smooth:
                param.copy_(rule.project(param, None))  # a start outside of the set is no displacement
        return slot_of(param, state)

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
        return Rule(
            adaptive=self._adaptive,
            maximize=bool(group["maximize"]),
            weight_decay=0.0 if group["decoupled_weight_decay"] else float(group["weight_decay"]),
            may_vanish=self._adaptive and group["delta"] == 0,
            smooth=bool(group["differentiable"]),
            project=self._projector(group),
        )

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
    return not group["differentiable"] and all(is_plain(slot.owner) for slot in bucket)


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


def _run_fused(bucket: list[Slot], k: Coefficients, rule: Rule) -> None:
    if bucket[0].param.device.type == "cpu":
        fused_update_cpu(bucket, k, rule)
        return
    for slot, own in zip(bucket, each_of(k, len(bucket)), strict=True):
        fused_update_cuda(slot, own, rule)
