"""Large data in memory: seconds, passes and memory of a fit, on one thread and on two.

    python benchmarks/large.py [--only higgs-3000000,dense-30000] [--rounds 3]

Generated data: `higgs-N` has N dense rows of 28 columns with heavy tails, `dense-30000` 30,000 rows of 2,000 columns, and
`sparse-N` N CSR rows with 30 entries in N / 3 columns (2,000,000 rows: in 1,000,000), of very different frequency. A fit is
logistic regression with C = 1 by `minimize(..., method="auto", tol=1e-6)` of the gradient at 0. Threads alternate, each fit
runs in a process that holds the data already and has compiled its kernels; medians of wall and processor seconds. Memory
is by how much the largest resident set during the first fit exceeds the one before it, by the bytes of the data.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from peers_memory import begin_anew, resident
from records import RESULTS, table_of
from threadpoolctl import threadpool_limits

from finitesum import Problem, minimize

CASES = ("higgs-3000000", "dense-30000", "sparse-600000", "higgs-11000000", "sparse-2000000")


def made(name: str) -> tuple[Any, Any]:
    """Return X and y."""
    kind, n = name.split("-")[0], int(name.split("-")[1])
    rng = np.random.default_rng(0)
    if kind == "sparse":
        d = n // 2 if n == 2_000_000 else n // 3
        columns = np.minimum((d ** rng.random(n * 30, dtype=np.float32)).astype(np.int32), d - 1)
        values = rng.random(n * 30, dtype=np.float64)
        X: Any = sp.csr_array(sp.csr_matrix((values, columns, np.arange(0, n * 30 + 1, 30, dtype=np.int32)), shape=(n, d)))
        X.sort_indices()
    else:
        d = 28 if kind == "higgs" else 2000
        X = np.empty((n, d))
        for first in range(0, n, 100_000):
            block = rng.standard_normal((min(100_000, n - first), d))
            if kind == "higgs":
                block[:, : d // 2] = np.exp(0.7 * block[:, : d // 2])  # positive, with long tails
            X[first : first + 100_000] = block
    signal = X @ rng.standard_normal(d)
    signal /= signal.std()
    return X, np.where(signal - signal.mean() + rng.logistic(size=n) > 0.0, 1.0, -1.0)


def measure(name: str, rounds: int, answers: Any) -> None:
    X, y = made(name)
    n_bytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    scale = float(np.linalg.norm(X.T @ y) / len(y))

    def fit(n_threads: int) -> tuple[float, float, Any]:
        wall, cpu = time.perf_counter(), time.process_time()
        with threadpool_limits(n_threads):
            problem = Problem.linear(X, y, alpha=1.0 / len(y), fit_intercept=True)
            result = minimize(problem, options={"n_threads": n_threads}, tol=1e-6 * scale, measure_every=0)
        return time.perf_counter() - wall, time.process_time() - cpu, result

    some = X[: max(2000, len(y) // 100)]
    for n_threads in (1, 2):  # compiles
        minimize(Problem.linear(some, y[: some.shape[0]], alpha=1e-3, fit_intercept=True), options={"n_threads": n_threads})
    gc.collect()
    begin_anew()
    before = resident("VmRSS")
    fit(1)
    grown = 1024.0**2 * (resident("VmHWM") - before) / n_bytes
    found: dict[int, list[Any]] = {1: [], 2: []}
    for k in range(2 * rounds):
        found[1 + k % 2].append(fit(1 + k % 2))
    row = {"data": name, "GB": f"{n_bytes / 1e9:.2g}", "method": found[1][0][2].method.name}
    for n_threads, runs in found.items():
        wall, cpu = (float(np.median([run[j] for run in runs])) for j in (0, 1))
        row |= {f"{n_threads}: s": f"{wall:.2f}", f"{n_threads}: CPU s": f"{cpu:.2f}"}
        row[f"{n_threads}: passes"] = f"{runs[0][2].n_passes:.0f}"
    row |= {
        "memory / data": f"{grown:.2f}",
        "converged": str(all(run[2].success for runs in found.values() for run in runs)),
    }
    answers.put(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(CASES[:3]))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    context, rows = multiprocessing.get_context("spawn"), []
    for name in options.only.split(","):
        answers = context.Queue()
        process = context.Process(target=measure, args=(name, options.rounds, answers))
        process.start()
        rows.append(answers.get())
        process.join()
        print(rows[-1], flush=True)
    head = ["# Large data in memory", "", f"Made by `python benchmarks/large.py --only {options.only}`; see its head.", ""]
    (RESULTS / "large.md").write_text("\n".join([*head, *table_of(rows)]) + "\n")


if __name__ == "__main__":
    main()
