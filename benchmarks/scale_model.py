"""What many workers take, by a model from measured times and by a simulation: where each method stops scaling.

    python benchmarks/scale_model.py                   some minutes
    python benchmarks/scale_model.py --no-stragglers   without the runs on threads that are slowed down

Measured on this machine: what a worker reads and multiplies in a second, what a message costs on a Dask `LocalCluster`,
what the client's steps cost, and the passes that each method takes to 1e-8 on a generated problem. From these follow the
seconds of 10 to 1,000 workers, 10^9 to 10^12 rows and up to 10^6 columns, which nobody ran. The page is
results/scale_model.md.
"""

import argparse
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum import Problem, minimize
from finitesum.core.engine import Threads
from finitesum.methods import ACIAG
from finitesum.methods.curvature.delayed import ASYNCHRONOUS, SYNCHRONOUS, limits_of, seconds_of_visits

PAGE = Path(__file__).with_name("results") / "scale_model.md"

#: Workers, rows, and columns with stored entries a row (None: dense).
WORKERS, ROWS = (10, 30, 100, 300, 1000), (1e9, 1e10, 1e12)
COLUMNS: tuple[tuple[float, float | None], ...] = (
    (100, None),
    (1000, None),
    (10_000, None),
    (100_000, 30),
    (1_000_000, 30),
)

#: Of the workers that are assumed: memory and what a disk reads. The network is assumed, too: a local cluster has none.
MEMORY, DISK, NETWORK = 64e9, 1e9, 1e9

#: Parts a worker, without a barrier.
PARTS_A_WORKER = 8


class Measured(NamedTuple):
    """What was measured here: bytes, flops and entries a second, and seconds."""

    reading: float  # bytes of dense rows that a product passes over, of one core
    entries: float  # stored entries of sparse rows, of one core
    flops: float  # of a Gram matrix
    solving: float  # flops of the client's factorisation
    stepping: float  # bytes of H that a step on the model passes over
    latency: float  # of a message


class Passes(NamedTuple):
    """What a method takes to 1e-8."""

    gradients: float
    hessians: float
    steps: float  # of the client, on the model, or factorisations


def best_of(function: Callable[[], Any], n: int = 5) -> float:
    """Return the least seconds of some calls."""
    seconds = []
    for _ in range(n):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def measured() -> Measured:
    """Measure this machine, one core."""
    import scipy.sparse
    from distributed import Client, LocalCluster
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        X, v, u = rng.standard_normal((200_000, 200)), rng.standard_normal(200), rng.standard_normal(200_000)
        reading = X.nbytes / best_of(lambda: (X @ v, u @ X))  # the second of the two finds nothing in the cache
        S = scipy.sparse.random_array((200_000, 100_000), density=3e-4, format="csr", rng=rng)
        w = rng.standard_normal(100_000)
        entries = S.nnz / best_of(lambda: (S @ w, S.T @ u))
        flops = X.shape[0] * 200.0**2 / best_of(lambda: X.T @ X, 3)
        H = rng.standard_normal((2000, 2000))
        H = H @ H.T + 2000 * np.eye(2000)
        solving = 2000.0**3 / 3.0 / best_of(lambda: np.linalg.cholesky(H), 3)
        h = rng.standard_normal(2000)
        stepping = H.nbytes / best_of(lambda: H @ h)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.submit(abs, -1, pure=False).result()
        latency = float(np.median([best_of(lambda: client.submit(abs, -1, pure=False).result(), 1) for _ in range(30)]))
    return Measured(reading, entries, flops, solving, stepping, latency)


def problem(m: int, n: int, engine: Any = None) -> Problem:
    """Return a logistic problem in parts, of condition 10^4 or so."""
    rng, d = np.random.default_rng(0), 40
    X = rng.standard_normal((n, d)) * np.logspace(0.0, -1.5, d)
    y = np.where(X @ (4.0 * rng.standard_normal(d)) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    ends = np.linspace(0, n, m + 1).astype(int)
    parts = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
    return Problem.partitioned(parts, alpha=1.0 / n, engine=engine)


def passes() -> dict[str, Passes]:
    """Return what each method takes to 1e-8 on the problem in 64 parts."""
    given, taken = problem(64, 200_000), {}
    for name in ("afg", "newton", "lazy-newton", "newton-cg", "a-ciag"):
        method: Any = ACIAG(max_delay="auto", asynchronous=False) if name == "a-ciag" else name
        result = minimize(given, method=method, tol=1e-8, max_iter=5000, measure_every=0)
        hessians = 0.0 if name in ("afg", "newton-cg") else result.n_hessian_passes
        steps = {"newton": result.nit, "lazy-newton": result.nit, "a-ciag": 64 * result.n_passes}.get(name, 0.0)
        taken[name] = Passes(float(result.n_passes), float(hessians), float(steps))
    return taken


class Case(NamedTuple):
    """Workers, rows and columns."""

    workers: int
    rows: float
    columns: float
    stored: float | None  # entries a row; None: dense


def seconds_of_pass(case: Case, here: Measured) -> float:
    """Return what a pass of gradients takes a worker, from its disk where its rows are more than its memory."""
    numbers = case.rows / case.workers * (case.columns if case.stored is None else case.stored)
    size = numbers * (8.0 if case.stored is None else 12.0)
    work = size / here.reading if case.stored is None else numbers / here.entries
    return max(work, size / DISK) if size > MEMORY else work


def seconds_of_tree(case: Case, size: float, here: Measured) -> float:
    """Return what the sum of as many bytes from each worker takes, after the point was sent to them."""
    hops = math.ceil(math.log2(case.workers))
    return hops * (here.latency + size / NETWORK) + hops * (8.0 * case.columns / NETWORK)


def seconds_of(name: str, taken: Passes, case: Case, here: Measured) -> tuple[float, float]:
    """Return seconds of the workers' own work, and of all; infinite where the client's matrix has no room."""
    d, stored = case.columns, case.columns if case.stored is None else case.stored
    gradients = taken.gradients * seconds_of_pass(case, here)
    hessians = taken.hessians * case.rows / case.workers * stored**2 / here.flops
    if taken.hessians and 8.0 * d * d > MEMORY / 4.0:
        return gradients + hessians, math.inf
    if name != "a-ciag":
        trees = taken.gradients * seconds_of_tree(case, 8.0 * d, here)
        if taken.hessians:
            trees += taken.hessians * seconds_of_tree(case, 8.0 * d * d, here)
            trees += taken.steps * (d**3 / 3.0 / here.solving)
        return gradients + hessians, gradients + hessians + trees
    # every part sends d^2 numbers to the client, which steps on the model before it asks again; nobody waits
    work = 2.0 * gradients + hessians  # products at two points
    m = PARTS_A_WORKER * case.workers
    n_steps = max(1.0, min(200.0, 8.0 * 1e3 / m))  # condition 10^6
    client = taken.gradients * m * (8.0 * d * d / NETWORK + n_steps * 8.0 * d * d / here.stepping)
    return work, max(work, client) + taken.gradients * here.latency


def limits_in_words(name: str, taken: Passes, here: Measured) -> str:
    """Return for each number of columns the workers of which half of each is used, at 10^9 rows."""
    words = []
    for columns, stored in COLUMNS:
        used = 0
        for workers in WORKERS:
            own, whole = seconds_of(name, taken, Case(workers, 1e9, columns, stored), here)
            used = workers if own >= 0.5 * whole else used
        words.append(f"{used:,}" if used else ("no room" if math.isinf(whole) else "below 10"))
    return f"| {name} | " + " | ".join(words) + " |"


def in_words(seconds: float) -> str:
    """Return a duration."""
    if math.isinf(seconds):
        return "no room"
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.2g} s"


def table_of_methods(taken: dict[str, Passes], here: Measured) -> list[str]:
    """Return a table of the seconds of all methods, the fastest one marked."""
    lines = ["| rows | columns | workers | " + " | ".join(taken) + " |", "|---" * (3 + len(taken)) + "|"]
    for rows in ROWS:
        for columns, stored in COLUMNS:
            for workers in (10, 100, 1000):
                case = Case(workers, rows, columns, stored)
                all_seconds = {name: seconds_of(name, one, case, here)[1] for name, one in taken.items()}
                best = min(all_seconds.values())
                cells = [f"**{in_words(s)}**" if s == best else in_words(s) for s in all_seconds.values()]
                width = f"{columns:,.0f}" + ("" if stored is None else f", {stored:.0f} a row")
                lines.append(f"| {rows:.0e} | {width} | {workers:,} | " + " | ".join(cells) + " |")
    return lines


def simulated() -> list[str]:
    """Return a table of the events of slow workers: passes in units of a pass that nobody holds up."""
    lines = ["| workers | parts | slow workers | barrier | in order | as they come |", "|---|---|---|---|---|---|"]
    for workers in (8, 64, 512):
        m = PARTS_A_WORKER * workers
        for n_slow in (0, 1, workers // 8):
            slowness = np.ones(workers)
            slowness[:n_slow] = 5.0
            limits = limits_of(type("Parts", (), {"n_components": m}), "auto")
            unit = 3.0 * m / workers
            times = [
                seconds_of_visits(np.ones(m), workers, limits, mode, slowness=slowness) / unit
                for mode in (SYNCHRONOUS, ASYNCHRONOUS)
            ]
            barrier = 3.0 * _barrier(m, slowness) / unit
            lines.append(f"| {workers} | {m} | {n_slow} | {barrier:.2f} | {times[0]:.2f} | {times[1]:.2f} |")
    return lines


def _barrier(m: int, slowness: Any) -> float:
    """Return the seconds of a round in which all parts are waited for, each taken by who is free first."""
    free = [(0.0, float(slow)) for slow in slowness]
    heapq.heapify(free)
    ends = []
    for _ in range(m):
        since, slow = heapq.heappop(free)
        ends.append(since + slow)
        heapq.heappush(free, (since + slow, slow))
    return max(ends)


class Slowed(Threads):
    """Threads each of which takes some seconds for a part; the first takes some times as long."""

    def __init__(self, n_workers: int, seconds: float, slowness: float) -> None:
        super().__init__(n_workers)
        self.seconds, self.slowness, self.begun, self.is_on = seconds, slowness, {}, False

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of the function's result; what works on a part takes its time."""
        if not self.is_on or isinstance(handle, Future):
            return super().submit(function, handle, *arguments)

        def slowed(data: Any, *given: Any) -> Any:
            found = function(data, *given)
            worker = self.begun.setdefault(threading.get_ident(), len(self.begun))
            time.sleep(self.seconds * (self.slowness if worker == 0 else 1.0))
            return found

        return super().submit(slowed, handle, *arguments)


def stragglers() -> list[str]:
    """Return a table of runs on eight threads, of which one is five times slower."""
    methods = {
        "newton (barrier)": "newton",
        "a-ciag, in order": ACIAG(max_delay=7, asynchronous=False),
        "a-ciag, as they come": ACIAG(max_delay="auto", asynchronous=True),
    }
    lines = ["| method | passes | seconds | passes, one slow | seconds, one slow | times |", "|---|---|---|---|---|---|"]
    for name, method in methods.items():
        found = []
        for slowness in (1.0, 5.0):
            engine = Slowed(8, 0.2, slowness)
            given = problem(64, 32_000, engine)
            engine.is_on = True
            started = time.perf_counter()
            result = minimize(given, method=method, tol=1e-8, measure_every=0)
            found.append((result.n_passes, time.perf_counter() - started))
            assert result.success
            engine.is_on = False
            engine.close()
        (calm, calm_seconds), (slow, slow_seconds) = found
        times = slow_seconds / calm_seconds
        lines.append(f"| {name} | {calm:.1f} | {calm_seconds:.1f} | {slow:.1f} | {slow_seconds:.1f} | {times:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-stragglers", action="store_true", help="leave the runs on slowed threads out")
    asked = parser.parse_args()
    here = measured()
    taken = passes()
    print(here, taken, sep="\n", flush=True)
    blocks = {
        "measured": [f"- {name}: {value:.3g}" for name, value in here._asdict().items()],
        "passes": ["| method | passes | Hessian passes |", "|---|---|---|"]
        + [f"| {name} | {one.gradients:.1f} | {one.hessians:.1f} |" for name, one in taken.items()],
        "limits": ["| method | " + " | ".join(_columns()) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
        + [limits_in_words(name, one, here) for name, one in taken.items()],
        "methods": table_of_methods(taken, here),
        "simulated": simulated(),
        "stragglers": [] if asked.no_stragglers else stragglers(),
    }
    print(*blocks["limits"], *blocks["methods"], *blocks["simulated"], sep="\n")
    PAGE.write_text(page_of(blocks), encoding="utf-8")


def _columns() -> list[str]:
    return [f"{columns:,.0f}" + ("" if stored is None else " sparse") for columns, stored in COLUMNS]


def page_of(blocks: dict[str, list[str]]) -> str:
    """Return the page."""
    return "\n".join(line for lines in blocks.values() for line in (*lines, ""))


if __name__ == "__main__":
    main()
