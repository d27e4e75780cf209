"""Fits of data that are larger than the memory that may be used: time against reading, and private memory.

    python benchmarks/scale.py dense --rows 40000000     40,000,000 x 28, 9 GB on disk
    python benchmarks/scale.py sparse                    2,000,000 x 1,000,000, 30 entries a row
    python benchmarks/scale.py page                      results/scale.md, with what scale_dask.py has measured

The rows are generated file by file in a temporary folder, which is removed afterwards, and fitted there in a process of its
own. What is compared: seconds of the fit, and of reading the rows as many times as the fit took passes, by the clock and
of processors; the largest private memory (RssAnon) of that process. Both are measured twice: where the system may keep the
files in its cache, and where a part leaves the cache as soon as it was used, as it does where the files are much larger
than the memory. Reading goes through the same files, by the same engine and threads, before the fit and behind it.
"""

import argparse
import json
import math
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from records import RESULTS, read_rows, table_of, write_rows
from scale_dask import table

from finitesum import Problem, minimize
from finitesum.core.engine import Call, Threads
from finitesum.core.jit import as_compiled
from finitesum.core.mapped import mapping_of
from finitesum.core.sums import sum_of_parts
from finitesum.datasets import load

#: Rows, columns, stored entries a row (0: all), rows of a file, and the method.
SETS = {"dense": (40_000_000, 28, 0, 1_000_000, "lazy-newton"), "sparse": (2_000_000, 1_000_000, 30, 100_000, "newton-cg")}

N_WORKERS, TOL = 2, 1e-8

#: How often the rows are read before the fit, and behind it; the median counts.
N_READINGS = 3

#: Whether each part leaves the system's cache after its use.
KINDS = ("from disk", "cached")

#: What is said of scale_dask.py.
COMPARED = (
    "Logistic regression with C = 1 without an intercept, two worker processes of one thread each; rows lie in eight",
    "blocks in the workers' memory. Seconds of the fastest fit, of those with tolerances or numbers of steps one after",
    "another, whose F is within the gap, relative, of the least that anybody found; the waits of the client, and the bytes",
    "between the processes. dask-ml gets arrays where these take 3 GB or less, else sparse blocks; the others sparse ones.",
    "",
    '"-" means: not within its time. A solver was ended once its runs had taken 12 to 60 s together, or by the remark;',
    "with more time it may get there. One run each. Lines were measured at different times and loads (in the table),",
    "those of finitesum on dense sets and a9a last, at the lowest: a ratio between lines of different loads says little.",
    "Least gap: of the best run. dask-ml's newton and gradient_descent have no penalty.",
)

#: What the page is to show, and what it does.
FOUND = (
    "What was asked for, and what these runs, on a machine that others used, show of it:",
    "",
    "- At most 1.5 GB of private memory for 9 GB, and at most 1.3 times the time of reading from the disk: shown, for",
    "  dense rows (1.21 times) and for sparse ones (1.05 times). Rows that stay in the system's cache are read faster than",
    "  they can be worked on.",
    "- Ten times dask-ml's speed to 1e-4: shown for each of its solvers on a9a x 30, covtype x 10, rcv1 and 10,000,000 x",
    "  28, where its newton takes 11.5 and its admm 11.9 times as long.",
    "- At most 30 % more time on Dask than in memory where a pass takes a second: shown for sums that write numbers by row",
    "  (1.23), for Hessians (1.08), and for `lazy-newton` (1.25), which `auto` takes for many rows. Of shorter passes the",
    "  gradient takes 1.34 times 0.8 s, and `newton-cg`, whose products are passes of 0.6 s, 1.4 times.",
    "- rcv1 and news20's classes are fewer bytes than ten passes would send, so that they are fitted in the client's",
    "  process: no rounds, and the time in memory. Before, rcv1 took 6.5 s, and news20 did not end within 240 s.",
    "- A slow worker costs at most half the time more without a barrier: shown, 1.4 times. Where nobody is slow, visits as",
    "  they come are the fastest: shown.",
)


#: What is said of runs of ten times our seconds.
TEN_TIMES = (
    "`python benchmarks/scale_dask.py ten`: each solver of dask-ml gets a run of at least ten times the seconds that",
    "finitesum.dask takes to 1e-4 on the same blocks, on a cluster of the same kind, one after the other; ours is measured",
    "before each solver, and the longest of its times counts. *More than 10*: the run took ten times as long at least, and",
    "its gap is above 1e-4; or it was ended, without a result, after thirty times. dask-ml has no limit of seconds:",
    "numbers of steps are raised until a run takes as long.",
)

#: What is said of messages beside long passes.
LONG = (
    "`python benchmarks/scale_dask.py overhead --rows 56000000`: 56 parts, mapped from the same files by two threads of a",
    "process and by two Dask workers, in turn; the least of three runs each. A sum is one round.",
)

#: What is said of its workers, one of which is slower.
SLOW = (
    "`python benchmarks/scale_dask.py slow`: four worker processes, 32 parts that are free to move, tol 1e-8. A worker",
    "takes 0.3 s for a part, by sleeping; one of them, where it is slow, five times as long. What three workers and a",
    "fifth of one can do takes 1.25 times as long at least. Under a barrier each round waits for the last part;",
    "visits go to the worker that will end them first, by the seconds that it reported.",
)


def generate(name: str, folder: Path, n_rows: int) -> None:
    """Write rows and labels of a logistic model, some at a time."""
    _, d, stored, rows_a_file, _ = SETS[name]
    truth = np.random.default_rng(0).standard_normal(d)
    for k, first in enumerate(range(0, n_rows, rows_a_file)):
        rng, n = np.random.default_rng([1, k]), min(rows_a_file, n_rows - first)
        if stored:  # columns of unequal frequency, as of words
            columns = np.sort((d * rng.random((n, stored)) ** 3).astype(np.int32), axis=1)
            values = rng.standard_normal(n * stored)
            X = scipy.sparse.csr_array((values, columns.ravel(), np.arange(0, n * stored + 1, stored)), shape=(n, d))
            X.sum_duplicates()
            scipy.sparse.save_npz(folder / f"X{k:05}.npz", X, compressed=False)
        else:
            X = rng.standard_normal((n, d))
            np.save(folder / f"X{k:05}.npy", X)
        np.save(folder / f"y{k:05}.npy", np.where(X @ truth + rng.logistic(size=n) > 0.0, 1.0, -1.0))


def block(folder: Path, k: int) -> Any:
    """Return a file's sparse rows and labels."""
    return scipy.sparse.load_npz(folder / f"X{k:05}.npz"), np.load(folder / f"y{k:05}.npy")


def private_bytes() -> int:
    """Return the private memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


class Watch(threading.Thread):
    """Keeps the largest private memory seen."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest, self.is_over = 0, threading.Event()

    def run(self) -> None:
        """Look every 20 ms."""
        while not self.is_over.wait(0.02):
            self.largest = max(self.largest, private_bytes())


def evict(array: Any) -> None:
    """Have the system forget the pages of a mapped array, so that the next use reads them from the disk."""
    if (mapping := mapping_of(array)) is None:
        return
    whole = np.frombuffer(mapping, dtype=np.uint8)
    start = array.ctypes.data - whole.ctypes.data
    first = start - start % mmap.PAGESIZE
    length = start - first + array.nbytes
    mapping.madvise(mmap.MADV_DONTNEED, first, min(length, len(whole) - first))
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "keeps_alive", None) if not hasattr(array, "base") else array.base
    file = os.open(array.filename, os.O_RDONLY)
    os.posix_fadvise(file, first, length, os.POSIX_FADV_DONTNEED)
    os.close(file)


class Disk(Threads):
    """Threads that find each part on the disk each time, while `is_cold`."""

    is_cold = False

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of the function's result, after which the part leaves the system's cache."""

        def forgetting(data: Any, *given: Any) -> Any:
            try:
                return function(data, *given)
            finally:
                for array in data.rows[:3] if self.is_cold and hasattr(data, "rows") else ():
                    if isinstance(array, np.ndarray):
                        evict(array)

        return super().submit(forgetting, handle, *arguments)


def read(data: Any) -> float:
    """Return a sum over all that a part stores."""
    return sum(float(array.sum()) for array in data.rows[:3] if isinstance(array, np.ndarray))


def seconds_of(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds that a call takes, those of processors, and what it returns."""
    started, cpu = time.perf_counter(), time.process_time()
    found = call()
    return time.perf_counter() - started, time.process_time() - cpu, found


def fit(name: str, folder: Path, n_rows: int, kind: str) -> dict[str, float | bool]:
    """Return what a fit took; the first one compiles, on a small part."""
    _, d, stored, _, method = SETS[name]
    rng = np.random.default_rng(0)
    small = rng.standard_normal((20_000, min(d, 50)))
    if stored:
        small = scipy.sparse.csr_array(small * (rng.random(small.shape) < 0.2))
    settings: Any = {"method": method, "tol": TOL, "measure_every": 0}
    with as_compiled():
        minimize(Problem.partitioned([(small, rng.random(20_000) < 0.5)], alpha=1.0), **settings)
    engine, files = Disk(N_WORKERS, folder=folder), sorted(folder.glob("X*"))
    parts: Any = [partial(block, folder, k) for k in range(len(files))]
    watch = Watch()
    watch.start()
    if not stored:
        parts = load([str(folder / "X*.npy")], target=str(folder / "y*.npy"))
    checking, _, problem = seconds_of(lambda: Problem.partitioned(parts, alpha=1.0 / n_rows, engine=engine))
    os.sync()  # what is not on the disk yet cannot leave the cache
    engine.is_cold = kind == "from disk"
    calls = [Call(read, part.handle, ()) for part in problem.rows.parts]
    sum_of_parts(engine, calls)  # after which the cache is cold, or warm
    readings = [seconds_of(lambda: sum_of_parts(engine, calls))[:2] for _ in range(N_READINGS)]
    seconds, cpu, result = seconds_of(lambda: minimize(problem, **settings))
    watch.is_over.set()
    readings += [seconds_of(lambda: sum_of_parts(engine, calls))[:2] for _ in range(N_READINGS)]
    reading, cpu_of_reading = np.median(readings, axis=0)
    return {
        "kind": kind,
        "parts": len(problem.rows.parts),
        "success": bool(result.success),
        "passes": float(result.n_passes),
        "checking seconds": checking,
        "fit seconds": seconds,
        "reading seconds": float(reading),
        "fit CPU": cpu,
        "reading CPU": float(cpu_of_reading),
        "private MB": watch.largest / 1e6,
        "load": os.getloadavg()[0],
    }


def measure(name: str, n_rows: int, root: Path | None) -> None:
    """Generate, fit in a process of its own, remove, and write down what was found."""
    _, d, stored, _, method = SETS[name]
    needed = n_rows * ((stored * 12 if stored else d * 8) + 8) * (2 if stored else 1)  # sparse parts are kept once more
    free = shutil.disk_usage(root or tempfile.gettempdir()).free
    if free < 1.2 * needed:
        sys.exit(f"{needed / 1e9:.1f} GB are needed, and {free / 1e9:.1f} GB are free. Give fewer --rows, or a --folder.")
    row = {"set": name, "rows": n_rows, "columns": d, "GB": n_rows * (stored * 12 if stored else d * 8) / 1e9}
    row["method"] = method
    with tempfile.TemporaryDirectory(dir=root) as folder:
        generate(name, Path(folder), n_rows)
        rows = []
        for kind in KINDS:
            child = [sys.executable, __file__, name, "--rows", str(n_rows), "--of", folder, "--kind", kind]
            rows.append(row | json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout))
            print(rows[-1], flush=True)
    kept = [dict.fromkeys(rows[0], "") | one for one in read_rows("scale_memory") if one["set"] != name]
    write_rows("scale_memory", [*kept, *rows])


def of_memory() -> list[str]:
    """Return the table of fits out of memory."""
    lines = []
    for row in read_rows("scale_memory"):
        passes, seconds = float(row["passes"]), float(row["fit seconds"])
        reading = passes * float(row["reading seconds"])
        cpu = float(row.get("fit CPU") or math.nan) / (passes * float(row.get("reading CPU") or math.nan))
        lines.append(
            {
                "rows x columns": f"{int(row['rows']):,} x {int(row['columns']):,}",
                "GB": f"{float(row['GB']):.2f}",
                "method": f"`{row['method']}`",
                "read": row["kind"],
                "passes": f"{passes:.1f}",
                "fit, s": f"{seconds:.1f}",
                "reading, s": f"{reading:.1f}",
                "ratio": f"{seconds / reading:.2f}",
                "ratio of CPU": f"{cpu:.2f}",
                "private MB": f"{float(row['private MB']):.0f}",
                "load": f"{float(row['load']):.1f}",
            }
        )
    return table_of(lines)


def page() -> None:
    """Write the page."""
    text = [
        "# Beyond memory and beyond one machine",
        "",
        "`python benchmarks/scale.py dense`, `sparse` and `page`; `python benchmarks/scale_dask.py`. Two cores, which",
        "other programs used, too, where the load is above 2. Tables of 10 to 1,000 workers, which nobody ran, are",
        "[on a page of their own](scale_model.md), as are [fits of which a worker is killed](scale_faults.md).",
        "",
        "## Out of memory",
        "",
        f"Logistic loss, alpha 1/n, tol {TOL:g}, {N_WORKERS} threads. *From disk*: the system forgets the pages of each",
        "part after its use, as it must where files are much larger than its memory; *cached*: it need not. Reading is a",
        "sum over the rows, as often as the fit took passes: of the same files in the same state, by the same engine and",
        f"threads, the median of {2 * N_READINGS}, half before the fit, once all files are on the disk (until then none",
        "can leave the cache). The ratio of CPU is that of processor seconds, which other programs change less;",
        "'-': not measured so yet. Private memory is the most that the process had of its own (RssAnon).",
        "",
        *of_memory(),
    ]
    if lines := table():
        text += ["", "## Dask", "", *COMPARED, "", *table_of(lines)]
    text += ["", *FOUND] if lines else []
    if rows := read_rows("scale_ten"):
        text += ["", "## Ten times", "", *TEN_TIMES, "", *table_of(rows)]
    if rows := read_rows("scale_overhead"):
        text += ["", "## Passes of a second", "", *LONG, "", *table_of(rows)]
    if rows := read_rows("scale_slow"):
        text += ["", "## A slow worker", "", *SLOW, "", *table_of(rows)]
    (RESULTS / "scale.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*SETS, "page"])
    parser.add_argument("--rows", type=int, help="in the place of all")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.what == "page":
        page()
    elif asked.of is not None:
        print(json.dumps(fit(asked.what, asked.of, asked.rows, asked.kind)))
    else:
        measure(asked.what, asked.rows or SETS[asked.what][0], asked.folder)


if __name__ == "__main__":
    main()
