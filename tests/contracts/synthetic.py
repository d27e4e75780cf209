"""Generated logistic problems that are hard for automatic steps: ill-conditioned, heavy-tailed, separable, sorted, far."""

from typing import NamedTuple

import numpy as np


class Recipe(NamedTuple):
    """N rows of d - 1 Gaussian columns and a constant one; labels drawn by the logistic model of Gaussian coefficients."""

    n: int
    d: int
    condition: float  # of the covariance of the columns
    strength: float  # alpha = strength / n
    seed: int
    kind: str = (
        ""  # "heavy": rows times a t(2) variable; "separable": no noise; "sorted": by label; "far": start at 10 N(0, I)
    )


RECIPES = {
    "iso": Recipe(2000, 31, 1.0, 1.0, 0),
    "c1e3": Recipe(2000, 31, 1e3, 1.0, 1),
    "c1e4": Recipe(4000, 51, 1e4, 1.0, 2),
    "c1e5": Recipe(4000, 51, 1e5, 0.1, 3),
    "c1e6": Recipe(4000, 51, 1e6, 1e-3, 4),
    "heavy tails": Recipe(3000, 41, 10.0, 1e-3, 5, "heavy"),
    "separable, 1e-2/n": Recipe(1000, 31, 1.0, 1e-2, 6, "separable"),
    "separable, 1e-4/n": Recipe(1000, 31, 1.0, 1e-4, 6, "separable"),
    "sorted labels": Recipe(3000, 41, 1.0, 1e-3, 7, "sorted"),
    "far start, 1/n": Recipe(3000, 41, 1.0, 1.0, 8, "far"),
    "far start, 1e-3/n": Recipe(3000, 41, 1.0, 1e-3, 8, "far"),
    "cube, 500 x 51": Recipe(500, 51, 1.0, 1.0, 10, "cube"),
    "cube, 2000 x 201": Recipe(2000, 201, 1.0, 1.0, 11, "cube"),
}


def generated(name):
    """Return X, y, alpha and the start. "cube": rows and coefficients uniform in a cube, no noise."""
    n, d, condition, strength, seed, kind = RECIPES[name]
    rng = np.random.default_rng(seed)
    if kind == "cube":
        coefficients = rng.uniform(-1.0, 1.0, d)
        X = np.column_stack([rng.uniform(-1.0, 1.0, (n, d - 1)), np.ones(n)])
    else:
        X = rng.standard_normal((n, d - 1)) * np.logspace(0.0, -np.log10(condition) / 2, d - 1)
        if kind == "heavy":
            X *= rng.standard_t(2, size=(n, 1))
        X = np.column_stack([X, np.ones(n)])
        coefficients = rng.standard_normal(d)
    scores = X @ coefficients
    if kind in ("separable", "cube"):
        y = np.sign(scores)
    else:
        y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-np.clip(scores, -500, 500))), 1.0, -1.0)
    if kind == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    start = 10.0 * np.random.default_rng(3).standard_normal(d) if kind == "far" else np.zeros(d)
    return X, y, strength / n, start
