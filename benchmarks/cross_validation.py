"""What choosing C costs: LogisticRegressionCV with 10 values and 5 folds, against one fit at the smallest penalty.

    python benchmarks/cross_validation.py [--l1-ratio 1] [--rounds 3]

CPU seconds on one thread, the least of some rounds, with compiled kernels; the aim is a ratio of at most 3.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from finitesum import LogisticRegression, LogisticRegressionCV

SHAPES = [
    ("dense", 500, 20),
    ("dense", 5_000, 20),
    ("dense", 50_000, 30),
    ("dense", 3_000, 300),
    ("dense", 20_000, 200),
    ("csr", 2_000, 100),
    ("csr", 10_000, 500),
    ("csr", 20_000, 2_000),
]


def data(kind: str, n: int, d: int):
    """Return rows with columns of several sizes, correlated where they are dense, and labels with logistic noise."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        X = rng.standard_normal((n, d)) * np.exp(rng.normal(0.0, 0.7, d))
        X[:, 1:] += 0.5 * X[:, :-1]
    else:
        X = scipy.sparse.random_array((n, d), density=min(1.0, 30.0 / d), format="csr", rng=rng)
        X.data = rng.standard_normal(X.nnz)
    decisions = X @ rng.standard_normal(d)
    return X, decisions / decisions.std() * 2.0 + rng.logistic(size=n) > 0


def cpu_seconds(fit, rounds: int) -> float:
    """Return the least CPU seconds of some rounds, after one that compiles."""
    fit()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        fit()
        times.append(time.process_time() - begin)
    return min(times)


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--l1-ratio", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'data':>20} {'one fit':>10} {'10 Cs, 5 folds':>15} {'ratio':>6}")
    threadpool_limits(1)
    for kind, n, d in SHAPES:
        X, y = data(kind, n, d)
        one = LogisticRegression(C=1e4, tol=1e-8, l1_ratio=given.l1_ratio)
        several = LogisticRegressionCV(10, l1_ratio=given.l1_ratio)
        alone = cpu_seconds(lambda model=one, X=X, y=y: model.fit(X, y), given.rounds)
        chosen = cpu_seconds(lambda model=several, X=X, y=y: model.fit(X, y), given.rounds)
        shape = f"{kind} {n} x {d}"
        print(f"{shape:>20} {1e3 * alone:8.1f}ms {1e3 * chosen:13.1f}ms {chosen / alone:6.1f}", flush=True)


if __name__ == "__main__":
    main()
