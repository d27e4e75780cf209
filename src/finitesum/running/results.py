"""How a run ends: the reason why, in a sentence with advice, and what was found."""

import enum
import math
from numbers import Real

import numpy as np
from scipy.optimize import OptimizeResult

from finitesum.core.arrays import Vector
from finitesum.methods.base import Method
from finitesum.running.observers import Trace

#: What is left of the optimality at the start where rounding errors alone hardly keep it: about 1e10 units of rounding.
MORE_THAN_ROUNDING = 1e-6


class StopReason(enum.Enum):
    """Why a run ended; the value is the `status` of the result."""

    CONVERGED = 0
    MAX_ITER = 1
    DIVERGED = 2
    STALLED = 3
    CALLBACK = 4

    def message(
        self, tol: float, reached: float, n_passes: float, method: Method | None = None, why: str = "", left: float = 0.0
    ) -> str:
        """Return a sentence with the asked and the reached value and, short of convergence, why, or what to do.

        `left` is the optimality reached by that at the start: where it is large, rounding errors are not the reason.
        """
        figures = f"optimality {reached:.3g} (asked: {tol:.3g}) after {n_passes:.4g} effective passes"
        if math.isnan(reached):
            unknown = "no certificate of optimality is known for this problem"
            if self is StopReason.DIVERGED:
                unknown = "the optimality is no number there"
            figures = f"{n_passes:.4g} effective passes, {unknown}"
            if self is StopReason.MAX_ITER:
                return f"Ran to max_iter: {figures}."
        if self in (StopReason.CONVERGED, StopReason.CALLBACK):
            return f"{'Converged' if self is StopReason.CONVERGED else 'Stopped by the callback'}: {figures}."
        faster = why or "Raise max_iter, loosen tol, or use a faster method."
        stalled = why or _against_a_stall(method, left)
        return {
            StopReason.MAX_ITER: f"Stopped at max_iter: {figures}. {faster}",
            StopReason.DIVERGED: f"Diverged: {figures}. {_against_divergence(method)}",
            StopReason.STALLED: f"Stalled: {figures}; no progress over many passes. {stalled}",
        }[self]


def has_own_step(method: Method | None) -> bool:
    """Return whether a step size was given as a number."""
    return isinstance(getattr(method, "step_size", None), Real)


def _against_divergence(method: Method | None) -> str:
    if method is None or has_own_step(method):
        return 'The step size is too long for this problem: leave step_size at "auto" or give a smaller one.'
    smaller = "give a smaller step_size, " if hasattr(method, "step_size") else ""
    return f"Scale the columns of X, {smaller}or use another method."


def _against_a_stall(method: Method | None, left: float) -> str:
    """Return what to do where nothing is gained: a method whose own nature it is says so by `stall_advice`."""
    own = getattr(method, "stall_advice", "")
    if own:
        return str(own)
    rounding = "tol may lie below the rounding errors of this problem: scale the columns of X, or loosen tol."
    if left > MORE_THAN_ROUNDING:
        rounding = "That is more than rounding errors leave: the method gains nothing more here, use another one."
    if not has_own_step(method):
        return rounding
    return f'{rounding} Or the step size is too long to come closer: leave step_size at "auto" or give a smaller one.'


class Result(OptimizeResult):  # type: ignore[misc]
    """A scipy-style result: x, fun, jac, optimality, n_passes, n_hessian_passes, nit, success, status, message, trace."""

    x: Vector
    fun: float
    jac: Vector
    optimality: float
    n_passes: float
    n_hessian_passes: float
    nit: int
    success: bool
    status: int
    reason: StopReason
    message: str
    seconds: float
    trace: Trace
    method: Method
    choice: str

    def __repr__(self) -> str:
        """Return the figures that people ask for, in at most ten lines; ``dict(result)`` has all of them."""
        if "x" not in self or "n_passes" not in self:
            return str(super().__repr__())
        passes = f"{self.n_passes:.6g}"
        if self.get("n_hessian_passes"):
            passes += f" (and {self.n_hessian_passes:.6g} of Hessians)"
        with np.printoptions(threshold=6, edgeitems=3, precision=6, linewidth=200):
            x = str(self.x).replace("\n", " ")
        lines = {
            "message": self.get("message", ""),
            "fun": f"{self.fun:.16g}",
            "optimality": f"{self.optimality:.3g} (of which rounding at most {self.get('rounding', 0.0):.1g})",
            "x": f"{x}, shape {self.x.shape}",
            "method": f"{self.method!r}",
            "choice": self.get("choice") or "named",
            "passes": passes,
            "seconds": f"{self.get('seconds', 0.0):.4g}",
        }
        return "\n".join(f"{name:>10}: {value}" for name, value in lines.items())

    __str__ = __repr__
