"""Minimise g'w over the unit l1 ball: a step in a metric asks for a projection in that metric."""

import numpy as np

from finitesum import minimize
from finitesum.constraints import L1Ball
from finitesum.problems.callables import SubgradientProblem

g = np.array([1.0, 0.9])  # the minimum is -1, at (-1, 0)
problem = SubgradientProblem(2, lambda w: float(g @ w), lambda w: g, constraint=L1Ball(1.0))


def last_iterate(projection, form="displacement"):
    options = {"projection": projection, "form": form, "step_size": 0.5}
    return minimize(problem, method="adahb", options=options, max_iter=2000, measure_every=0).x


if __name__ == "__main__":
    for projection in ("euclidean", "weighted"):
        w = last_iterate(projection)
        print(f"{projection:10}", w.round(3), f"f = {g @ w:.3f}")
