"""Compares with the authors' C++ of CIAG and NIM: python benchmarks/ciag_peer.py.

Logistic regression, alpha = 1/n, from 0, to an infinity norm of the gradient below 1e-10, measured every tenth of a pass,
as the C++ does (its checks are free, and so are ours here). The C++'s figures were measured on one core of an EPYC, built
with optimisation, dense rows; ours: sparse rows, CPU time of the visits alone, best of three. The constants are those of
the authors' examples, in file order: the step N kappa_opt / L with L = mean ||x_i||^2 / 4 + alpha, NIM undamped.

Writes benchmarks/results/ciag_peer.csv and prints a table. Data files are looked for in the folders of FINITESUM_DATA.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from records import run_parts, table_of, write_rows

from finitesum import METHODS, Problem
from finitesum.datasets import load_dataset
from finitesum.evaluation.optimality import evaluate
from finitesum.running.sampling import order_of_pass

#: The C++: data, run, passes, CPU seconds; NaN where it was cut off or not run.
PEER = {
    ("mushrooms", "a-ciag"): ("A-CIAG, b = 5, (1e-4, 0.99)", 7.12, 0.20),
    ("mushrooms", "nim"): ("NIM inexact, b = 100", 5.94, 0.11),
    ("a9a", "ciag"): ("CIAG, b = 5, 1e-4", 52.2, 7.3),
    ("a9a", "a-ciag"): ("A-CIAG, b = 5, (1.5e-4, 0.95)", 3.60, 0.52),
    ("a9a", "nim"): ("NIM inexact, b = 100", 3.85, 0.25),
    ("w8a", "ciag"): ("CIAG, b = 5, 1e-4 (cut at 24: 4e-9)", math.nan, math.nan),
    ("w8a", "a-ciag"): ("A-CIAG, b = 5, (1e-4, 0.99)", 5.90, 7.7),
    ("w8a", "nim"): ("NIM inexact, b = 100", 6.34, 6.2),
}
#: The constants of those runs: kappa_opt, extrapolation.
CONSTANTS = {
    ("mushrooms", "a-ciag"): (1e-4, 0.99),
    ("a9a", "ciag"): (1e-4, 0.0),
    ("a9a", "a-ciag"): (1.5e-4, 0.95),
    ("w8a", "ciag"): (1e-4, 0.0),
    ("w8a", "a-ciag"): (1e-4, 0.99),
}


def with_constants(whole: Problem, name: str, method: str, mean_square: float) -> tuple[float, float]:
    """Return passes and seconds with the constants of the C++'s run."""
    if method == "nim":
        return measured(whole.batched(100), method, {"step_size": 1.0}, "cyclic")
    scale, extrapolation = CONSTANTS[name, method]
    step = scale * whole.n_rows / (0.25 * mean_square + 1.0 / whole.n_rows)
    return measured(whole.batched(5), method, {"step_size": step, "extrapolation": extrapolation}, "cyclic")


def passes_and_seconds(
    problem: Problem, method: str, options: dict[str, Any], sampling: str, tenths: bool
) -> tuple[float, float]:
    """Return passes and CPU seconds until the infinity norm is at most 1e-10; NaN beyond 100 passes."""
    chosen = METHODS[method](**options)
    m = problem.n_components
    began = time.process_time()
    state = chosen.init(problem, np.zeros(problem.dim))
    seconds = time.process_time() - began
    k = 0
    while state.n_gradients < 100 * m:
        order = order_of_pass(sampling, 0, k, m)
        whole = not tenths or (k == 0 and options.get("step_size", "auto") == "auto")
        for piece in [order] if whole else np.array_split(order, 10):
            began = time.process_time()
            state = chosen.run_pass(problem, state, piece)
            seconds += time.process_time() - began
            if np.abs(evaluate(problem, state.x).gradient).max() <= 1e-10:
                return state.n_gradients / m, seconds
        k += 1
    return math.nan, math.nan


def measured(problem: Problem, method: str, options: dict[str, Any], sampling: str) -> tuple[float, float]:
    """Return the passes, in tenths, and the least CPU seconds of three runs in whole passes."""
    passes, _ = passes_and_seconds(problem, method, options, sampling, True)
    if math.isnan(passes):
        return passes, math.nan
    return passes, min(passes_and_seconds(problem, method, options, sampling, False)[1] for _ in range(3))


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the lines of a data set: each of the C++'s runs, ours with its constants, and ours without any."""
    data = load_dataset(name)
    n = data.rows.shape[0]
    whole = Problem.linear(data.rows, data.targets(), alpha=1.0 / n)
    mean_square = float((data.rows.multiply(data.rows)).sum() / n)
    rows = []
    for (which, method), (label, passes, seconds) in PEER.items():
        if which != name:
            continue
        row: dict[str, Any] = {"data": name, "C++": label, "passes": passes, "seconds": seconds}
        found = with_constants(whole, name, method, mean_square)
        row |= {"same constants: passes": f"{found[0]:.2f}", "same constants: seconds": f"{found[1]:.3g}"}
        problem = whole.batched(METHODS[method]().default_batch_size(whole))
        found = measured(problem, method, {}, "shuffled-once")
        row |= {"auto: batch": problem.batch_size, "auto: passes": f"{found[0]:.2f}", "auto: seconds": f"{found[1]:.3g}"}
        row["seconds, C++ / auto"] = f"{seconds / found[1]:.3g}"
        rows.append(row)
    return rows


def main() -> None:
    rows = []
    for name in ("mushrooms", "a9a", "w8a"):
        rows_of(name)  # compiles
        rows += rows_of(name)
    write_rows("ciag_peer", rows)
    print("\n".join(table_of(rows)))


if __name__ == "__main__":
    run_parts(__doc__ or "", {"all": main})
