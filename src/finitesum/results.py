"""How a run ends: the reason why, in a sentence with advice, and what was found."""

from __future__ import annotations

import enum
import math

from scipy.optimize import OptimizeResult


class StopReason(enum.Enum):
    """Why a run ended; the value is the `status` of the result."""

    CONVERGED = 0
    MAX_ITER = 1
    DIVERGED = 2
    STALLED = 3
    CALLBACK = 4

    def message(self, tol: float, reached: float, n_passes: float) -> str:
        """Return a sentence with the asked and the reached value and, short of convergence, what to do."""
        figures = f"optimality {reached:.3g} (asked: {tol:.3g}) after {n_passes:.4g} effective passes"
        if math.isnan(reached):
            figures = f"{n_passes:.4g} effective passes, no certificate of optimality is known for this problem"
            if self is StopReason.MAX_ITER:
                return f"Ran to max_iter: {figures}."
        return {
            StopReason.CONVERGED: f"Converged: {figures}.",
            StopReason.MAX_ITER: f"Stopped at max_iter: {figures}. Raise max_iter, loosen tol, or use a faster method.",
            StopReason.DIVERGED: f"Diverged: {figures}. The step size is too long for this problem: leave step_size "
            'at "auto" or give a smaller one.',
            StopReason.STALLED: f"Stalled: {figures}; no progress over many passes. tol may lie below the rounding "
            "errors of this problem: scale the columns of X, or loosen tol.",
            StopReason.CALLBACK: f"Stopped by the callback: {figures}.",
        }[self]


class Result(OptimizeResult):  # type: ignore[misc]
    """A scipy-style result: x, fun, jac, optimality, n_passes, n_hessian_passes, nit, success, status, message, trace."""
