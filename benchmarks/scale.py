"""Fits of data that are larger than the memory that may be used: time against reading, and private memory.

    python benchmarks/scale.py                     2,000,000 x 28, some seconds
    python benchmarks/scale.py --rows 40000000     40,000,000 x 28, 9 GB on disk

The rows are generated file by file in a temporary folder, which is removed afterwards, and fitted there by
`finitesum.datasets.load` and `Problem.partitioned`, in a process of its own. What is compared: seconds of the fit, and of
reading the files as many times as the fit took passes; the largest private memory (RssAnon) of that process.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

COLUMNS, ROWS_A_FILE, LOSS = 28, 1_000_000, "logistic"


def generate(folder: Path, n_rows: int) -> None:
    """Write rows and labels of a logistic model, some at a time."""
    truth = np.random.default_rng(0).standard_normal(COLUMNS)
    for k, first in enumerate(range(0, n_rows, ROWS_A_FILE)):
        rng = np.random.default_rng([1, k])
        X = rng.standard_normal((min(ROWS_A_FILE, n_rows - first), COLUMNS))
        y = np.where(X @ truth + rng.logistic(size=len(X)) > 0.0, 1.0, -1.0)
        np.save(folder / f"X{k:05}.npy", X)
        np.save(folder / f"y{k:05}.npy", y)


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


def read_once(folder: Path, n_workers: int) -> float:
    """Return the seconds of reading all rows once: their sum, by as many threads as the fit has."""
    from concurrent.futures import ThreadPoolExecutor

    started = time.perf_counter()
    with ThreadPoolExecutor(n_workers) as pool:
        list(pool.map(lambda file: float(np.load(file, mmap_mode="r").sum()), sorted(folder.glob("X*.npy"))))
    return time.perf_counter() - started


def fit(folder: Path, method: str, tol: float, n_workers: int) -> dict[str, float]:
    """Return what a fit took; the first one compiles, on a small part."""
    from finitesum import Problem, minimize
    from finitesum.core.engine import Threads
    from finitesum.core.jit import as_compiled
    from finitesum.datasets import load

    with as_compiled():
        small = np.random.default_rng(0).standard_normal((20_000, COLUMNS))
        warm = Problem.partitioned([(small, small[:, 0] > 0.0)], loss=LOSS, alpha=1.0)
        minimize(warm, method=method, tol=tol, measure_every=0)
    watch = Watch()
    watch.start()
    started = time.perf_counter()
    parts = load([str(folder / "X*.npy")], target=str(folder / "y*.npy"))
    problem = Problem.partitioned(parts, loss=LOSS, alpha=1.0 / parts.n_rows, engine=Threads(n_workers, folder=folder))
    opened, before = time.perf_counter(), time.process_time()
    result = minimize(problem, method=method, tol=tol, measure_every=0)
    ended, after = time.perf_counter(), time.process_time()
    watch.is_over.set()
    reading = min(read_once(folder, n_workers) for _ in range(2))
    read = time.process_time()
    read_once(folder, n_workers)
    read = time.process_time() - read
    return {
        "success": bool(result.success),
        "passes": float(result.n_passes),
        "hessian passes": float(result.n_hessian_passes),
        "checking seconds": opened - started,
        "fit seconds": ended - opened,
        "reading seconds": reading * float(result.n_passes),
        "fit CPU seconds": after - before,
        "reading CPU seconds": read * float(result.n_passes),
        "private MB": watch.largest / 1e6,
        "parts": len(parts),
    }


def main() -> None:
    """Generate, fit in a process of its own, print, remove."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--method", default="lazy-newton")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.of is not None:
        print(json.dumps(fit(asked.of, asked.method, asked.tol, asked.workers)))
        return
    needed = asked.rows * (COLUMNS + 2) * 8
    free = shutil.disk_usage(asked.folder or tempfile.gettempdir()).free
    if free < 1.2 * needed:
        sys.exit(f"{needed / 1e9:.1f} GB are needed, and {free / 1e9:.1f} GB are free. Give fewer --rows, or a --folder.")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        generate(Path(folder), asked.rows)
        settings = ["--method", asked.method, "--tol", str(asked.tol), "--workers", str(asked.workers)]
        child = [sys.executable, __file__, "--of", folder, *settings]
        found = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{asked.rows:,} x {COLUMNS} ({asked.rows * COLUMNS * 8 / 1e9:.2f} GB), {asked.method}, tol {asked.tol:g}")
    for name, value in found.items():
        print(f"  {name:20} {value:.4g}" if isinstance(value, float) else f"  {name:20} {value}")
    print(f"  fit / reading        {found['fit seconds'] / found['reading seconds']:.2f}")


if __name__ == "__main__":
    main()
