"""What displays do alike."""

from typing import Any


class DrawsOnAxes:
    """A display that draws on axes which are given, or on new ones of pyplot."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any, *, size: tuple[float, float] | None = None) -> Any:
        if ax is None:
            import matplotlib.pyplot as plt  # which takes a while to load

            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax
