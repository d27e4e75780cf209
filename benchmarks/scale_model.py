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
from finitesum.methods.delayed_visits import ASYNCHRONOUS, SYNCHRONOUS, limits_of, seconds_of_visits

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

#: Behind the name of a method whose passes are those on sparse rows.
SPARSE = ", sparse"

#: Parts a worker without a barrier, by the name of the variant.
PARTS_A_WORKER = {"a-ciag, 8 parts a worker": 8, "a-ciag, 1 part a worker": 1}


class Measured(NamedTuple):
    """What was measured here: bytes, flops and entries a second, and seconds."""

    reading: float  # bytes of dense rows that a product passes over, of one core
    entries: dict[float, float]  # stored entries of sparse rows, of one core, by the number of columns
    flops: float  # of a Gram matrix
    solving: float  # flops of the client's factorisation
    stepping: float  # bytes of H that a step on the model passes over
    latency: float  # of a message


class Passes(NamedTuple):
    """What a method takes to 1e-8."""

    gradients: float
    hessians: float
    steps: float  # factorisations of the client


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
        entries = {}
        for columns in sorted({columns for columns, stored in COLUMNS if stored is not None}):
            S = scipy.sparse.csr_array(sparse_rows(200_000, int(columns), rng))
            w = rng.standard_normal(int(columns))
            entries[columns] = S.nnz / best_of(lambda S=S, w=w: (S @ w, S.T @ u))
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


def sparse_rows(n: int, d: int, rng: Any) -> Any:
    """Return n sparse rows with some 30 entries each, in columns that are rarer and rarer."""
    import scipy.sparse

    columns = (d * rng.random(30 * n) ** 3).astype(np.int64)
    X = scipy.sparse.csr_array((rng.standard_normal(30 * n), columns, np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    return X


def sparse_problem(m: int, n: int, d: int) -> Problem:
    """Return a logistic problem of wide sparse rows in parts."""
    rng = np.random.default_rng(1)
    X = sparse_rows(n, d, rng)
    y = np.where(X @ rng.standard_normal(d) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    ends = np.linspace(0, n, m + 1).astype(int)
    return Problem.partitioned([(X[a:b], y[a:b]) for a, b in itertools.pairwise(ends)], alpha=1.0 / n)


def problem(m: int, n: int, engine: Any = None) -> Problem:
    """Return a logistic problem in parts, of condition 10^4 or so."""
    rng, d = np.random.default_rng(0), 40
    X = rng.standard_normal((n, d)) * np.logspace(0.0, -1.5, d)
    y = np.where(X @ (4.0 * rng.standard_normal(d)) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    ends = np.linspace(0, n, m + 1).astype(int)
    parts = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
    return Problem.partitioned(parts, alpha=1.0 / n, engine=engine)


def passes() -> dict[str, Passes]:
    """Return what each method takes to 1e-8 on the problem in 64 parts; with SPARSE behind its name on sparse rows."""
    given, taken = problem(64, 200_000), {}
    methods: dict[str, Any] = {name: name for name in ("afg", "newton-cg", "newton", "lazy-newton")}
    methods |= {  # as many visits wait as there are workers
        name: ACIAG(max_delay=64 // m, asynchronous=False) for name, m in PARTS_A_WORKER.items()
    }
    for name, method in methods.items():
        result = minimize(given, method=method, tol=1e-8, max_iter=5000, measure_every=0)
        hessians = 0.0 if name in ("afg", "newton-cg") else result.n_hessian_passes
        steps = {"newton": result.nit, "lazy-newton": result.nit}.get(name, 0.0)
        taken[name] = Passes(float(result.n_passes), float(hessians), float(steps))
    given = sparse_problem(64, 50_000, 50_000)
    for name in ("afg", "newton-cg"):
        result = minimize(given, method=name, tol=1e-8, max_iter=2000, measure_every=0)
        taken[name + SPARSE] = Passes(float(result.n_passes), 0.0, 0.0)
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
    work = size / here.reading if case.stored is None else numbers / here.entries[case.columns]
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
    if name not in PARTS_A_WORKER:
        trees = taken.gradients * seconds_of_tree(case, 8.0 * d, here)
        if taken.hessians:
            trees += taken.hessians * seconds_of_tree(case, 8.0 * d * d, here)
            trees += taken.steps * (d**3 / 3.0 / here.solving)
        return gradients + hessians, gradients + hessians + trees
    # a part sends d^2 numbers to the client where its Hessian changes, and the client steps on the model; nobody waits
    work = 3.0 * gradients + hessians  # products with three vectors
    m = PARTS_A_WORKER[name] * case.workers
    n_steps = max(1.0, min(200.0, 8.0 * 1e3 / m))  # condition 10^6
    client = taken.hessians * m * 8.0 * d * d / NETWORK + taken.gradients * m * n_steps * 8.0 * d * d / here.stepping
    return work, max(work, client) + taken.gradients * here.latency


def of_columns(name: str, taken: dict[str, Passes], stored: float | None) -> Passes:
    """Return what a method takes on dense, or on sparse rows."""
    return taken[name] if stored is None else taken.get(name + SPARSE, taken[name])


def limits_in_words(name: str, all_taken: dict[str, Passes], here: Measured) -> str:
    """Return for each number of columns the rows a worker below which more than half the time goes elsewhere."""
    words = []
    for columns, stored in COLUMNS:
        taken = of_columns(name, all_taken, stored)
        cells = []
        for workers in (100, 1000):
            least, whole = math.inf, 0.0
            for rows in np.logspace(9.0, 0.0, 37):
                own, whole = seconds_of(name, taken, Case(workers, rows * workers, columns, stored), here)
                if own < 0.5 * whole:
                    break
                least = rows
            none = "no room" if math.isinf(whole) else "too many"
            cells.append(none if math.isinf(least) else f"{least:.0e}".replace("e+0", "e"))
        words.append(cells[0] if cells[0] == cells[1] else " / ".join(cells))
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
    names = [name for name in taken if SPARSE not in name]
    lines = ["| rows | columns | workers | " + " | ".join(names) + " |", "|---" * (3 + len(names)) + "|"]
    for rows in ROWS:
        for columns, stored in COLUMNS:
            for workers in (10, 100, 1000):
                case = Case(workers, rows, columns, stored)
                all_seconds = {name: seconds_of(name, of_columns(name, taken, stored), case, here)[1] for name in names}
                best = min(all_seconds.values())
                cells = [f"**{in_words(s)}**" if s == best else in_words(s) for s in all_seconds.values()]
                width = f"{columns:,.0f}" + ("" if stored is None else f", {stored:.0f} a row")
                lines.append(f"| {rows:.0e} | {width} | {workers:,} | " + " | ".join(cells) + " |")
    return lines


def simulated() -> list[str]:
    """Return a table of the events of slow workers: passes in units of a pass that nobody holds up."""
    lines = ["| workers | parts | slow workers | barrier | in order | as they come |", "|---|---|---|---|---|---|"]
    for workers, each in itertools.product((8, 64, 512), (1, 8)):
        m = each * workers
        for n_slow in sorted({0, 1, workers // 8}):
            slowness = np.ones(workers)
            slowness[:n_slow] = 5.0
            limits = limits_of(type("Parts", (), {"n_components": m}), "auto")._replace(most=min(m, 2 * workers))
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
    """Threads each of which takes some seconds for a part; the first takes longer, by a factor."""

    def __init__(self, n_workers: int, seconds: float, factor: float) -> None:
        super().__init__(n_workers)
        self.seconds, self.factor, self.begun, self.is_on = seconds, factor, {}, False

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of the function's result; what works on a part takes its time."""
        if not self.is_on or isinstance(handle, Future):
            return super().submit(function, handle, *arguments)

        def slowed(data: Any, *given: Any) -> Any:
            found = function(data, *given)
            worker = self.begun.setdefault(threading.get_ident(), len(self.begun))
            time.sleep(self.seconds * (self.factor if worker == 0 else 1.0))
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
    text = PROSE.format(
        reading=here.reading / 1e9,
        entries=" and ".join(f"{entries / 1e6:.3g}" for entries in here.entries.values()),
        flops=here.flops / 1e9,
        solving=here.solving / 1e9,
        stepping=here.stepping / 1e9,
        latency=here.latency * 1e3,
        passes="\n".join(
            ["| method | passes | Hessian passes |", "|---|---|---|"]
            + [f"| {name} | {one.gradients:.1f} | {one.hessians:.1f} |" for name, one in taken.items()]
        ),
        limits="\n".join(
            ["| method | " + " | ".join(_columns()) + " |", "|---" * (1 + len(COLUMNS)) + "|"]
            + [limits_in_words(name, taken, here) for name in taken if SPARSE not in name]
        ),
        methods="\n".join(table_of_methods(taken, here)),
        simulated="\n".join(simulated()),
        stragglers="(left out)" if asked.no_stragglers else "\n".join(stragglers()),
    )
    print(text)
    PAGE.write_text(text, encoding="utf-8")


def _columns() -> list[str]:
    return [f"{columns:,.0f}" + ("" if stored is None else " sparse") for columns, stored in COLUMNS]


PROSE = """# Many workers: where each method stops scaling, by a model, and what a slow worker costs

`python benchmarks/scale_model.py`. Nobody ran the sizes of the first tables: they follow from times that were
measured on one core of this machine, and from what is assumed of a network.

- Measured: a pass over dense rows {reading:.2g} GB/s, over sparse ones {entries} million entries a second (10^5 and
  10^6 columns); a Gram matrix {flops:.3g} Gflop/s; the client's factorisation {solving:.3g} Gflop/s, its steps on a
  model {stepping:.2g} GB/s; a message {latency:.3g} ms (Dask, there and back).
- Assumed: workers of one such core, 1 GB/s between machines, 64 GB of memory for each, rows beyond that from a disk
  of 1 GB/s.
- Passes to an optimality of 1e-8 of logistic problems in 64 parts: 200,000 x 40, and sparse 50,000 x 50,000 with 30
  entries a row; of `a-ciag` as many visits wait as there are workers. Problems of another condition take others:
  `newton-cg` took 81 on 2,000,000 x 10^6 [from a disk](scale.md).

{passes}

## Where a method stops scaling

The rows that each of 100 / 1,000 workers must have for half of its time to go into the data; with fewer, more
workers bring little. Sparse rows have 30 entries. "No room": the matrix of all columns takes more than 16 GB. "Too
many": so many workers bring little for any number of rows.

{limits}

- Methods of vectors (`afg`, `newton-cg`, of several classes `multinomial-lbfgs`) send 8 d bytes a worker up a tree:
  up to some 10^5 columns a message costs its latency, beyond it its length. Of `afg` nothing else grows with the workers.
- Numbers by row (curvatures, slopes, predictions) stay with the parts: no method of the table sends any to the client.
- `newton` and `lazy-newton` send 8 d^2 bytes up the tree, and the client factorises, d^3 / 3. They stop where d^2
  bytes and d^3 flops are more than the rows of a worker: their columns are limited by the memory of one machine,
  not their workers.
- `a-ciag` without a barrier sends 8 d^2 bytes from *each part* to the client, one after another, which steps after
  each: what the client does grows with the workers.

## Seconds to 1e-8

{methods}

What to take, the fastest of each line: `lazy-newton` up to some thousand columns, however many the rows and workers
are, because it takes the fewest passes and hardly a Gram matrix; `newton-cg` beyond, and for sparse rows of many columns,
up to as many workers as their rows keep busy for longer than a vector of all columns is on its way. `a-ciag` with
`max_delay` computes several times as many Gram matrices. It pays where the barrier costs more than that: where workers
are unequal and have a part or two each (next table), or come and go, up to a hundred columns.

## A slow worker, by simulation

Three passes in units of those that nobody holds up; one part a worker or eight, free to move to other workers, slow
ones five times slower. With a barrier each round waits for the last part. Visits that are taken in order wait for the
oldest.

{simulated}

## A slow worker, on threads

Eight threads, each of which takes 0.2 s for a part, 64 parts, tol 1e-8. In the last columns one thread takes five
times as long.

{stragglers}
"""


if __name__ == "__main__":
    main()
