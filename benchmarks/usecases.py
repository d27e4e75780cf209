"""What users fit, against every peer: seconds from the raw arrays to the coefficients, at equal gaps of the objective.

    python benchmarks/usecases.py --data FOLDER [--only mnist-5000,...] [--rounds 2] [--limit 120]

Each fit is a process of its own, with one thread, that loads the arrays, fits once uncounted (which loads libraries and
compiled kernels) and then on the clock: once, or where a fit takes less than a second seven times and for half a second at
least, because a median of seven fits of a millisecond is one of a process that is not yet warm. A first fit of over ten
seconds counts itself. Fits of a case take turns, round by round; times are medians, wall and processor. Peers that are
not installed are left out. Before, `finitesum warmup` compiles the kernels of all losses: small fits go without, until
some are on disk (`first_fit.py` has those).
The objective is computed here, from the coefficients, in float64; a fit counts for a gap when its objective is at most
that much above the best that anybody found, relative to it. Everyone has a setting as it comes, and tighter tolerances: of
the hinge, where nobody's tolerance is relative to the objective, six in each decade.

The folder holds the LIBSVM files (a9a.svm.xz ...), mnist.npz and cifar10_subset.npz. `usecase_data.py` has the cases, in
five parts: known sets, on which methods were developed; generated families; sets that nobody looked at while methods were
developed; draws by a seed; and draws by another one, measured last. Results are kept in usecases.csv, case by case, and
stand in the page again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from records import RESULTS, read_rows, table_of, write_rows
from usecase_data import CASES, Case
from usecase_models import objective, settings_of, with_strength

#: Relative distances of the objective to the best known, at which times are compared.
GAPS = (1e-4, 1e-6, 1e-8, 1e-10)

#: Fits on the clock of less than a second each, at least, and the seconds that they take together, at least.
FEWEST_FITS, LEAST_SECONDS = 7, 0.5

#: Losses of means, which kernels are compiled for.
LOSSES_OF_MEANS = ("poisson", "gamma", "tweedie", "negative-binomial")

#: Seconds of a first fit that counts, libraries and kernels loaded in it: a second one would take as long.
LONG = 10.0

HEAD = ("case", "gap", "finitesum, s", "best peer, s", "ratio")


def store(X: Any, y: Any, folder: Path) -> None:
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape} if sp.issparse(X) else {"X": X}
    for name, array in {**parts, "y": y}.items():
        np.save(folder / f"{name}.npy", array)


def stored(folder: Path) -> tuple[Any, Any]:
    y = np.load(folder / "y.npy")
    if (folder / "X.npy").exists():
        return np.load(folder / "X.npy"), y
    parts = tuple(np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr"))
    return sp.csr_matrix(parts, shape=tuple(np.load(folder / "shape.npy"))), y  # which every peer takes


def fit_here(case: Case, name: str, folder: Path) -> None:
    """Fit in this process, and print seconds, processor seconds and the objective."""
    X, y = stored(folder)
    case = with_strength(case, X, y)
    make = settings_of(case, y)[name]
    warnings.simplefilter("ignore")
    begin, used_before, times = time.perf_counter(), time.process_time(), []
    model = make().fit(X, y)
    first = time.perf_counter() - begin
    if first > LONG:
        times.append((first, time.process_time() - used_before))
    while not times or (first <= 1.0 and (len(times) < FEWEST_FITS or sum(row[0] for row in times) < LEAST_SECONDS)):
        begin, used = time.perf_counter(), time.process_time()
        model = make().fit(X, y)
        times.append((time.perf_counter() - begin, time.process_time() - used))
    seconds, used = (statistics.median(column) for column in zip(*times, strict=True))
    print(json.dumps([seconds, used, objective(case, X, y, model.coef_, model.intercept_)]))


def fitted(key: str, name: str, folder: Path, limit: float) -> tuple[float, float, float] | None:
    """Return what a child process printed; None where it took too long or failed."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    command = [sys.executable, __file__, "--child", key, name, str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=2.0 * limit, env=os.environ | threads, check=True
        )
        return tuple(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(f"  {key}: {name} failed: {error.stderr.strip().splitlines()[-1:]}", flush=True)
        return None


def measure(key: str, data: Path, rounds: int, limit: float) -> list[dict[str, Any]]:
    """Return a row for each setting of a case."""
    case, runs = CASES[key], {}
    X, y = case.load(data)
    with tempfile.TemporaryDirectory() as place:
        store(X, y, Path(place))
        names = list(settings_of(with_strength(case, X, y), y))
        for k in range(rounds):
            for name in names:
                if k and (not runs[name] or runs[name][0] is None or runs[name][0][0] > limit / rounds):
                    continue
                runs.setdefault(name, []).append(fitted(key, name, Path(place), limit))
                print(f"  {key}: {name}: {runs[name][-1]}", flush=True)
    rows = []
    for name, known in runs.items():
        times = [run for run in known if run is not None]
        if times:
            seconds, used = (statistics.median(run[k] for run in times) for k in (0, 1))
            row = {"case": key, "setting": name, "seconds": seconds, "processor": used, "objective": repr(times[0][2])}
            rows.append(row)
    return rows


def lines_of(key: str, rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return a line of the table for each gap: the fastest of ours, the fastest peer, and their ratio."""
    best, lines = min(float(row["objective"]) for row in rows), []
    for gap in GAPS:
        good = [row for row in rows if float(row["objective"]) - best <= gap * abs(best)]
        found = []
        for is_ours in (True, False):
            those = [row for row in good if row["setting"].startswith("finitesum") == is_ours]
            found.append(min(those, key=lambda row: float(row["processor"]), default=None))
        mine, peer = found
        ratio = f"{float(peer['processor']) / float(mine['processor']):.2f}" if mine and peer else "-"
        cells = [f"{float(row['processor']):.3g} ({row['setting']})" if row else "-" for row in found]
        lines.append(dict(zip(HEAD, (key, f"{gap:.0e}", *cells, ratio), strict=True)))
    return lines


def summary_of(table: list[dict[str, str]]) -> str:
    """Return the median and the least ratio, medians of each gap, and how many gaps none but a peer reached."""
    rated = [(line["gap"], float(line["ratio"])) for line in table if line["ratio"] != "-"]
    if not rated:
        return "No ratios."
    ratios = [ratio for _, ratio in rated]
    n_missed = sum(line[HEAD[2]] == "-" != line[HEAD[3]] for line in table)
    n_below = sum(ratio < 1.0 for ratio in ratios)
    by_gap = ", ".join(
        f"{statistics.median(ratio for its, ratio in rated if its == gap):.2f} at {gap}"
        for gap in dict.fromkeys(gap for gap, _ in rated)
    )
    return (
        f"Ratios: median {statistics.median(ratios):.2f}, least {min(ratios):.2f}; {n_below} of {len(ratios)} below 1. "
        f"Medians: {by_gap}. Gaps that a peer alone reached: {n_missed}."
    )


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# What users fit, against peers",
        "",
        "Made by `python benchmarks/usecases.py` (what is measured stands at its head). Seconds are a processor's, from",
        "the raw arrays to the coefficients, kernels compiled; a ratio is the best peer's by ours, at gaps of the",
        f"objective relative to the best known. {os.cpu_count()} cores, one thread. Cases that the last run left out",
        "keep their rows, of an earlier version and hour: a ratio is of one run, seconds of two cases need not be.",
        "Newer rows are of one round, older ones of two, on a machine that did other work, too.",
    ]
    for part in dict.fromkeys(case.part for case in CASES.values()):
        table = [
            line
            for key, case in CASES.items()
            if case.part == part and (those := [row for row in rows if row["case"] == key])
            for line in lines_of(key, those)
        ]
        if table:
            lines += ["", f"## {part.capitalize()}", "", *table_of(table), "", summary_of(table)]
    return "\n".join(lines) + "\n"


def warm_up() -> None:
    """Compile what the cases need."""
    losses = (*LOSSES_OF_MEANS, "logistic", "squared", "hinge", "squared-hinge", "quantile")
    named = [part for loss in losses for part in ("--loss", loss)]
    subprocess.run([sys.executable, "-m", "finitesum", "warmup", "--for", "auto", *named], check=True)


def main() -> None:
    """Measure the cases that the command line names, and write the page."""
    if sys.argv[1:2] == ["--child"]:
        fit_here(CASES[sys.argv[2]], sys.argv[3], Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--only", default=None, help="names of cases or their beginnings, with semicolons between; all without"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a fit")
    options = parser.parse_args()
    warm_up()
    rows: list[dict[str, Any]] = list(read_rows("usecases"))
    for key in CASES:
        if options.only is None or any(key.startswith(text) for text in options.only.split(";") if text):
            rows = [row for row in rows if row["case"] != key]
            rows += measure(key, options.data, options.rounds, options.limit)
            if not rows:
                continue
            write_rows("usecases", rows)
            (RESULTS / "usecases.md").write_text(page(rows))


if __name__ == "__main__":
    main()
