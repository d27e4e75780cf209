"""Peak memory of a fit to 1e-10 beside the peers': each in a process of its own.

    python benchmarks/peers_memory.py --data FOLDER [--only a9a,dense-100000x500] [--out benchmarks/results]

The figure is by how much the largest resident set during the fit exceeds the one before it, in MB, when the data and the
library were loaded and the same fit was made once. A column of its own is our first fit after one of 200 rows: with the
compiler's library and the machine code, where the data are large enough for these. It needs Linux with glibc, which can
reset the largest resident set (/proc/self/clear_refs) and give back what loading has left behind (malloc_trim).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peer_solvers import make_task
from threadpoolctl import threadpool_limits


def _finitesum(X: Any, y: Any) -> None:
    from finitesum import Problem, minimize

    minimize(Problem.linear(X, y, alpha=1.0 / X.shape[0]), tol=1e-10, max_iter=3000, measure_every=0)


def _scikit_learn(solver: str, tol: float) -> Callable[[Any, Any], None]:
    def fit(X: Any, y: Any) -> None:
        from sklearn.linear_model import LogisticRegression

        LogisticRegression(C=1.0, solver=solver, tol=tol, fit_intercept=False, max_iter=3000).fit(X, y)

    return fit


def _glum(X: Any, y: Any) -> None:
    from glum import GeneralizedLinearRegressor

    GeneralizedLinearRegressor(
        family="binomial", alpha=1.0 / X.shape[0], l1_ratio=0.0, fit_intercept=False, gradient_tol=1e-8, max_iter=1000
    ).fit(X, (np.asarray(y) > 0).astype(float))


#: The column of a first fit.
FIRST = "finitesum, first fit"

SOLVERS: dict[str, Callable[[Any, Any], None]] = {
    "finitesum": _finitesum,
    FIRST: _finitesum,
    "sklearn newton-cholesky": _scikit_learn("newton-cholesky", 1e-10),
    "sklearn newton-cg": _scikit_learn("newton-cg", 1e-10),
    "sklearn lbfgs": _scikit_learn("lbfgs", 1e-12),
    "sklearn liblinear": _scikit_learn("liblinear", 1e-10),
    "glum irls": _glum,
}


def resident(which: str) -> float:
    """Return the resident set of this process in MB: "VmRSS" is now, "VmHWM" the largest since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(which)).split()[1]) / 1024.0


def begin_anew() -> None:
    """Give back memory that is free, and let the largest resident set begin at the present one."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def grown(name: str, solver: str, folder: Path) -> float:
    """Return by how many MB this process grew for a fit."""
    task = make_task(name, folder)
    some = np.unique(np.concatenate([np.flatnonzero(task.y > 0)[:100], np.flatnonzero(task.y < 0)[:100]]))
    X, y = (task.X[some], task.y[some]) if solver == FIRST else (task.X, task.y)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        SOLVERS[solver](X, y)
        del X, y
        begin_anew()
        before = resident("VmRSS")
        SOLVERS[solver](task.X, task.y)
    return resident("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="a9a,w8a,covtype.binary.scale,rcv1.subset,dense-100000x500,dense-1000000x18")
    parser.add_argument("--solver", choices=SOLVERS, help="measure this one, in this process")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.solver:
        print(json.dumps(grown(options.only, options.solver, options.data)))
        return
    lines = [f"| data | {' | '.join(SOLVERS)} |", "|---|" + "---|" * len(SOLVERS)]
    for name in options.only.split(","):
        cells = []
        for solver in SOLVERS:
            if solver == "sklearn newton-cholesky" and name == "rcv1.subset":
                cells.append("-")  # it would need 18 GB for its matrix
                continue
            command = [sys.executable, __file__, "--data", str(options.data), "--only", name, "--solver", solver]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
            cells.append(f"{json.loads(done.stdout.splitlines()[-1]):.0f}" if done.returncode == 0 else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    head = [
        "# Peak memory beside peers",
        "",
        "Made by `python benchmarks/peers_memory.py`, whose head says what the figures are: MB that a fit to 1e-10",
        "added, on one thread.",
        "",
    ]
    (options.out / "peers_memory.md").write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    main()
