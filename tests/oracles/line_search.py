"""Where the slope of a convex function along a line is between a fraction of the first one and 0."""

from scipy.optimize import brentq


def gentle_slope(slope, first, fraction):
    """t grows by factors of 4 up to a slope > 0; Brent's method ends in front of a jump, too."""
    ends = {}

    def distance(t):
        ends[t] = slope(t) if t > 0 else first
        return 0.0 if fraction * first <= ends[t] <= 0.0 else ends[t] - 0.3 * fraction * first

    low, t = 0.0, 1.0
    while distance(t) < 0.0:
        low, t = t, 4 * t
    if distance(t) > 0.0:
        brentq(distance, low, t, xtol=1e-300, maxiter=40, disp=False)
    return max(t for t, at in ends.items() if at <= 0.0)
