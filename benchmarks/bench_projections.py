"""Times the projections against one sort of the vector: python benchmarks/bench_projections.py [number of variables].

Both run in one process, in turns, and the medians are compared. The projection sorts nothing; its rival would have to.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from finitesum.constraints import Constraint, L1Ball, L2Ball, Simplex
from finitesum.constraints.projections import project_euclidean, project_in_metric

N_ROUNDS = 15


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(calls: list[Callable[[], object]]) -> np.ndarray:
    """Return the median time of each call, all of them taken in turns, after one round to warm up."""
    times = np.array([[seconds(call) for call in calls] for _ in range(N_ROUNDS + 1)])
    return np.median(times[1:], axis=0)


def vectors(rng: np.random.Generator, dim: int) -> dict[str, np.ndarray]:
    """Return the vectors that are projected."""
    normal = rng.standard_normal(dim)
    feasible = np.where(rng.random(dim) < 0.01, normal, 0.0)
    return {
        "normal": normal,
        "uniform": rng.random(dim),
        "Cauchy": rng.standard_cauchy(dim),
        "sparse + step": feasible + 1e-3 * rng.standard_normal(dim),
    }


def main(dim: int) -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    out = np.empty(dim)
    metric, weights = 10.0 ** rng.uniform(-4, 0, dim), 10.0 ** rng.uniform(-1, 1, dim)
    columns = ["l1", "l1, metric", "l1 weights", "l1 weights, metric", "simplex", "simplex, metric", "l2, metric"]
    print(f"{dim} variables; milliseconds, and in brackets the part of one np.sort")
    print(f"{'vector':<14} {'radius/norm':>11} {'np.sort':>8}", *(f"{column:>19}" for column in columns))
    for name, x in vectors(rng, dim).items():
        for fraction in (1e-6, 1e-3, 0.1, 0.9):
            radius = fraction * float(np.abs(x).sum())

            def euclidean(constraint: Constraint, x: np.ndarray = x) -> Callable[[], object]:
                return lambda: project_euclidean(constraint.compiled, x, out)

            def in_metric(constraint: Constraint, x: np.ndarray = x) -> Callable[[], object]:
                return lambda: project_in_metric(constraint.compiled, x, metric, out)

            sort, *others = medians(
                [
                    lambda x=x: np.sort(x),
                    euclidean(L1Ball(radius)),
                    in_metric(L1Ball(radius)),
                    euclidean(L1Ball(radius, weights)),
                    in_metric(L1Ball(radius, weights)),
                    euclidean(Simplex(radius)),
                    in_metric(Simplex(radius)),
                    in_metric(L2Ball(fraction * float(np.linalg.norm(x)))),
                ]
            )
            cells = (f"{1e3 * t:>11.2f} ({t / sort:.2f})".rjust(19) for t in others)
            print(f"{name:<14} {fraction:>11.0e} {1e3 * sort:>8.2f}", *cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=1_000_000, help="the number of variables")
    main(parser.parse_args().n)
