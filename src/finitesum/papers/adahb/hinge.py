"""The hinge loss on an l1 ball: the data sets, the methods and the runs of Figure 1 of the heavy-ball paper."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.constraints import L1Ball
from finitesum.core.arrays import Vector
from finitesum.methods import METHODS
from finitesum.methods.newton.linear_program import reference_optimum
from finitesum.papers.data import load
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix
from finitesum.running.driver import minimize
from finitesum.running.sampling import order_of_pass


class Setting(NamedTuple):
    """How methods are run on a data set."""

    radius: float
    n_passes: int
    n_tuning: int  # passes with which steps were tuned
    is_wide: bool  # the rows are wide and sparse: the benchmark runs only methods with deferred projections


SETS = {
    "a9a": Setting(10.0, 10, 3, False),
    "w8a": Setting(10.0, 10, 3, False),
    "ijcnn1": Setting(10.0, 10, 3, False),
    "covtype.binary.scale": Setting(10.0, 4, 2, False),
    "rcv1.subset": Setting(100.0, 8, 3, True),
}

#: Label: name, options, whether it has deferred projections on the l1 ball.
RUNS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "PSG, last": ("psg", {}, True),
    "PSG, average": ("psg", {"output": "average"}, True),
    "PSG, linear decay": ("psg", {"schedule": "linear"}, True),
    "HB, displacement": ("hb", {"form": "displacement"}, False),
    "HB, averaging": ("hb", {"form": "averaging"}, True),
    "NAG": ("nag", {}, False),
    "AdaHB, displacement": ("adahb", {"form": "displacement"}, False),
    "AdaHB, averaging": ("adahb", {"form": "averaging"}, True),
    "AdaHB, displacement, Euclidean (as printed)": (
        "adahb",
        {"form": "displacement", "projection": "euclidean"},
        False,
    ),
    "AdaHB, averaging, Euclidean": ("adahb", {"form": "averaging", "projection": "euclidean"}, True),
}

#: Steps in the order of `RUNS`: the best of a 1-3-10 grid around the automatic one, by seed 0 alone after `n_tuning`
#: passes, as found by `best_step` of benchmarks/heavy_ball.py.
_STEPS: dict[str, tuple[float, ...]] = {
    "a9a": (1.0, 1.0, 3.0, 1.0, 0.3, 1.0, 0.3, 0.3, 0.03, 0.03),
    "w8a": (0.3, 0.3, 1.0, 0.3, 0.3, 0.3, 0.03, 0.03, 0.03, 0.03),
    "ijcnn1": (1.0, 1.0, 3.0, 1.0, 3.0, 10.0, 0.3, 0.3, 0.1, 0.1),
    "covtype.binary.scale": (0.3, 0.3, 1.0, 0.3, 0.3, 1.0, 0.1, 0.1, 0.1, 0.1),
    "rcv1.subset": (10.0, 10.0, 30.0, 10.0, 10.0, 10.0, 0.1, 0.1, 0.03, 0.03),
}
TUNED = {name: dict(zip(RUNS, steps, strict=True)) for name, steps in _STEPS.items()}

#: Data that were not there when steps were tuned: radius and steps are those of data of the same kind.
LIKE = {"rcv1": "rcv1.subset", "real-sim": "rcv1.subset"}


def setting_of(name: str) -> Setting:
    """Return how methods are run on a data set."""
    return SETS[LIKE.get(name, name)]


def tuned_steps(name: str) -> dict[str, float]:
    """Return the tuned step of each method on a data set."""
    return TUNED[LIKE.get(name, name)]


def hinge_problem(name: str, data_dir: Path | None = None) -> Problem:
    """Return the mean hinge loss on an l1 ball, a component for each row.

    Raises
    ------
    DataError
        The data is not on this machine.
    """
    data = load(name, data_dir)
    return Problem.linear(
        data.rows, data.targets(), loss="hinge", constraint=L1Ball(setting_of(name).radius), batch_size=1
    )


#: The problem that was last asked for.
last_problem = lru_cache(maxsize=1)(hinge_problem)


@lru_cache(maxsize=1)
def _matrix(problem: Problem) -> Any:
    return to_matrix(problem.rows)


def objective(problem: Problem, w: Vector) -> float:
    """Return the mean hinge loss."""
    return float(problem.weights @ np.maximum(0.0, 1.0 - problem.targets * (_matrix(problem) @ w)))


def values(problem: Problem, label: str, step_size: float | str, n_passes: int, seed: int) -> tuple[list[float], float]:
    """Return F after each pass, and the step size that was used."""
    name, options, _ = RUNS[label]
    options = {**options, "step_size": step_size}
    if options.get("schedule") == "linear":
        options["horizon"] = n_passes
    method = METHODS[name](**options)
    state = method.init(problem, np.zeros(problem.dim))
    objectives = []
    for k in range(n_passes):
        state = method.run_pass(problem, state, order_of_pass("with-replacement", seed, k, problem.n_components))
        objectives.append(objective(problem, state.x))
    return objectives, float(state.step_size)


def minimum(problem: Problem, time_limit: float | None = None) -> dict[str, float]:
    """Return F*, a lower bound of it, and the seconds that it took, by a linear program around the end of a run.

    Where the time is up, they are infinite.
    """
    options = {"schedule": "linear", "horizon": 10}
    near = minimize(problem, method="psg", options=options, max_iter=10, tol=0.0, measure_every=0)
    try:
        found = reference_optimum(problem, start=near.x, time_limit=time_limit)
    except RuntimeError:
        return {"minimum": math.inf, "lower_bound": -math.inf, "seconds": math.nan}
    return {"minimum": found.value, "lower_bound": found.lower_bound, "seconds": found.seconds}
