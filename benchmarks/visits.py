"""What a visit costs: CIAG's and A-CIAG's against BLAS dsymv, SAGA's pass against scikit-learn's.

    python benchmarks/visits.py [--data DIR] [--rounds 15]

One process, one thread, warm, in turns; CPU time of this thread, median of the rounds, and the spread of the ratio. The
data folder holds a9a.svm.xz; without it the sparse comparison runs on generated rows of the same shape.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import scipy.sparse
from scipy.linalg import blas
from sklearn.linear_model import LogisticRegression

from finitesum import Problem
from finitesum.datasets import load, make_logistic
from finitesum.methods import ACIAG, CIAG, SAGA
from finitesum.running.sampling import order_of_pass

PASSES = 10


def cpu_seconds(action: Callable[[], object]) -> float:
    start = time.thread_time()
    action()
    return time.thread_time() - start


def in_turns(first: Callable[[], object], second: Callable[[], object], rounds: int) -> tuple[float, float, list[float]]:
    """Return the median times of both, and the ratios first / second of the rounds."""
    first(), second()
    times = [(cpu_seconds(first), cpu_seconds(second)) for _ in range(rounds)]
    return (
        float(np.median([a for a, _ in times])),
        float(np.median([b for _, b in times])),
        sorted(a / b for a, b in times),
    )


def report(name: str, ours: float, theirs: float, ratios: list[float], unit: float, suffix: str) -> None:
    middle = ratios[len(ratios) // 2]
    print(
        f"| {name} | {ours * unit:.2f} {suffix} | {theirs * unit:.2f} {suffix} | {middle:.2f} "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
    )


def curvature_visits(rounds: int) -> None:
    rng = np.random.default_rng(0)
    for d in (123, 300, 500, 717):
        n = 1000
        X = rng.standard_normal((n, d))
        y = np.sign(X[:, 0] + rng.standard_normal(n))
        problem = Problem.linear(X, y, alpha=1e-3, batch_size=1)
        symmetric, vector = np.asfortranarray(X.T @ X / n), rng.standard_normal(d)
        order = order_of_pass("cyclic", 0, 0, n)

        def products(symmetric: np.ndarray = symmetric, vector: np.ndarray = vector, n: int = n) -> None:
            for _ in range(n):
                blas.dsymv(1.0, symmetric, vector, lower=1)

        for method in (CIAG(step_size=0.1), ACIAG(step_size=0.1, extrapolation=0.5)):
            state = method.run_pass(problem, method.init(problem, np.zeros(d)), order)
            ours, theirs, ratios = in_turns(
                lambda m=method, p=problem, s=state, o=order: m.run_pass(p, s, o), products, rounds
            )
            report(f"{method.name}, dense, d = {d}: a visit against dsymv", ours / n, theirs / n, ratios, 1e6, "us")


def saga_passes(data: Path | None, rounds: int) -> None:
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((100_000, 100))
    cases = {"dense 100,000 x 100": (dense, np.sign(dense[:, 0] + rng.standard_normal(len(dense))))}
    if data is not None and (data / "a9a.svm.xz").exists():
        a9a = load(data / "a9a.svm.xz")
        cases["a9a (CSR)"] = (scipy.sparse.csr_matrix(a9a.rows), a9a.targets())
    else:
        made = make_logistic(32_561, 123, density=0.11)
        cases["generated 32,561 x 123 (CSR)"] = (scipy.sparse.csr_matrix(made.rows), made.targets())
    for name, (X, y) in cases.items():
        n = X.shape[0]
        problem = Problem.linear(X, y, alpha=1 / n, batch_size=1)
        method = SAGA()
        state = method.init(problem, np.zeros(problem.dim))

        def ours(problem: Problem = problem, method: SAGA = method, state: object = state, n: int = n) -> None:
            for k in range(PASSES):
                state = method.run_pass(problem, state, order_of_pass("with-replacement", 0, k, n))

        def theirs(X: object = X, y: np.ndarray = y) -> None:
            model = LogisticRegression(solver="saga", C=1.0, fit_intercept=False, max_iter=PASSES, tol=0.0)
            model.fit(X, y)

        def set_up(X: object = X, y: np.ndarray = y) -> None:
            LogisticRegression(solver="saga", C=1.0, fit_intercept=False, max_iter=1, tol=0.0).fit(X, y)

        set_up()
        overhead = np.median([cpu_seconds(set_up) for _ in range(5)])
        a, b, _ = in_turns(ours, theirs, rounds)
        pairs = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(rounds)]
        share = PASSES / (PASSES - 1)  # the set-up run makes one pass too
        ratios = sorted(x / ((z - overhead) * share) for x, z in pairs)
        report(
            f"SAGA, {name}: a pass against scikit-learn's", a / PASSES, (b - overhead) * share / PASSES, ratios, 1e3, "ms"
        )


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), default=None)
@click.option("--rounds", default=15, show_default=True)
def main(data: Path | None, rounds: int) -> None:
    warnings.simplefilter("ignore")
    print("| what | finitesum | peer | finitesum / peer |\n|---|---|---|---|")
    curvature_visits(rounds)
    saga_passes(data, rounds)


if __name__ == "__main__":
    main()
