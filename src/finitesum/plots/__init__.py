"""Pictures of runs and models, by scikit-learn's Display pattern: ``Display.from_...(...)`` draws, ``.plot(ax=...)`` again.

Each display keeps the numbers that it draws in attributes, and after drawing the axes in `ax_` and the figure in `figure_`.
matplotlib is loaded when something is drawn; fonts and colours are the reader's own settings.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finitesum.plots.coefficients import (
        CoefficientDisplay as CoefficientDisplay,
        CVDisplay as CVDisplay,
        PathDisplay as PathDisplay,
    )
    from finitesum.plots.fits import (
        LeverageDisplay as LeverageDisplay,
        MeanCalibrationDisplay as MeanCalibrationDisplay,
        ResidualDisplay as ResidualDisplay,
    )
    from finitesum.plots.traces import TraceDisplay as TraceDisplay

_HOMES = {
    "CVDisplay": "coefficients",
    "CoefficientDisplay": "coefficients",
    "LeverageDisplay": "fits",
    "MeanCalibrationDisplay": "fits",
    "PathDisplay": "coefficients",
    "ResidualDisplay": "fits",
    "TraceDisplay": "traces",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"finitesum.plots.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'finitesum.plots' has no attribute {name!r}")
