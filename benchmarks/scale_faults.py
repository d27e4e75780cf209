"""Fits on a Dask cluster of two processes while a worker is killed at a random moment: are the results right?

    python benchmarks/scale_faults.py                  20 fits, about three minutes
    python benchmarks/scale_faults.py --fits 5

Each fit is compared with one that nobody disturbed. Sums over parts and changes taken in order must have the same bits,
changes taken as they come the same optimum. The page is results/scale_faults.md.
"""

import argparse
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).with_name("results") / "scale_faults.md"
N_PARTS, ROWS, COLUMNS, ALPHA, TOL = 12, 60_000, 40, 1e-6, 1e-9


def rows_of(k: int) -> tuple[Any, Any]:
    """Return part k of a logistic model, the same each time."""
    rng = np.random.default_rng([2, k])
    X = rng.standard_normal((ROWS, COLUMNS)) * np.logspace(0.0, -1.0, COLUMNS)
    return X, np.where(X @ np.ones(COLUMNS) + rng.logistic(size=ROWS) > 0.0, 1.0, -1.0)


class Rows:
    """A part that each worker makes for itself."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self) -> tuple[Any, Any]:
        """Return the rows and labels."""
        return rows_of(self.k)


def main() -> None:
    """Fit, kill, compare, and write the page."""
    from distributed import Client, LocalCluster

    from finitesum import Problem, minimize
    from finitesum.dask import DaskEngine
    from finitesum.methods import ACIAG

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=20)
    n_fits = parser.parse_args().fits
    methods = {
        "newton": "newton",
        "a-ciag, in order": ACIAG(max_delay=3, asynchronous=False),
        "a-ciag, as they come": ACIAG(max_delay="auto", asynchronous=True),
        "newton-cg": "newton-cg",
    }
    rng, lines, n_right, known = np.random.default_rng(0), [], 0, {}

    def fit(method: Any, moment: float | None = None) -> tuple[Any, float]:
        """Return the result and the seconds of a fit on a new cluster; a worker is killed at the moment, if given."""
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
            if moment is not None:
                threading.Timer(moment, os.kill, (pids[rng.integers(2)], signal.SIGKILL)).start()
            started = time.perf_counter()
            problem = Problem.partitioned([Rows(k) for k in range(N_PARTS)], alpha=ALPHA, engine=DaskEngine(client))
            result = minimize(problem, method=method, tol=TOL, measure_every=0)
            return result, time.perf_counter() - started

    for k in range(n_fits):
        name = list(methods)[k % len(methods)]
        if name not in known:
            fit(methods[name])  # compiles
            known[name] = fit(methods[name])
        calm, calm_seconds = known[name]
        seconds, moment = 0.0, calm_seconds
        while seconds <= moment:  # it was over before: again, earlier
            moment = float(rng.uniform(0.0, seconds or calm_seconds))
            result, seconds = fit(methods[name], moment)
        same = result.x.tobytes() == calm.x.tobytes()
        off = float(np.linalg.norm(result.x - calm.x) / np.linalg.norm(calm.x))
        is_right = bool(result.success) and (same or (name == "a-ciag, as they come" and off <= 1e-6))
        n_right += is_right
        lines.append(
            f"| {k + 1} | {name} | {moment:.2f} of {calm_seconds:.2f} | {seconds:.2f} | "
            f"{'the same bits' if same else f'{off:.0e} away'} | {'right' if is_right else 'WRONG'} |"
        )
        print(lines[-1], flush=True)
    title = f"# {n_right} of {n_fits} fits are right though a worker was killed at a random moment"
    head = "| fit | method | killed after, of seconds undisturbed | seconds | coefficients | result |\n" + 6 * "|---" + "|"
    text = (
        f"`python benchmarks/scale_faults.py` on a Dask `LocalCluster` of two processes: {N_PARTS} parts of {ROWS:,} x "
        f"{COLUMNS} rows, logistic loss, tol {TOL:g}. Each worker makes its parts' rows itself; those of the one that is "
        "killed (SIGKILL) are made again. Coefficients are compared with those of a fit that nobody disturbed."
    )
    PAGE.write_text(f"{title}\n\n{text}\n\n{head}\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
