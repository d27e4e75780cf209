"""Measures every smooth method on public data: python benchmarks/methods.py [run|table ...] [--sets a9a,...].

Logistic regression, alpha = 1/n, no intercept, from 0: effective passes and seconds to an optimality (2-norm of the
gradient) of 1e-4, 1e-6, 1e-8 and 1e-10, with step_size="auto" and with the best constant step of a grid.

run      what is not in methods.csv yet; stopped at any time, it continues after the last finished row
table    writes the tables into methods.md, below its marker, and prints them

Constant steps are powers of two times the base: the step that "auto" ended at; 1/L for CIAG and A-CIAG; 1 for NIM,
IQN and Newton (1 and 1/2 alone, the steps of their theory). The search climbs from 1: up while a longer step needs fewer
passes, else down. A-CIAG's extrapolation is one of 0.8, 0.95 and 0.98 in turn, each from the best step of the one before.

Caps: 2000 passes; --seconds of CPU time a run with measuring, --tune-seconds for a constant step; none for "auto" of the
methods in UNCAPPED. Seconds in the tables are wall time without measuring. Data files are looked for in the folders of
FINITESUM_DATA.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from finitesum import METHODS, Problem, minimize
from finitesum.datasets import load_dataset
from finitesum.evaluation.smoothness import full_smoothness
from finitesum.methods.curvature.taylor_model import rebuilt
from finitesum.running.driver import Result, StopReason

RESULTS = Path(__file__).parent / "results"
TABLE, REPORT = RESULTS / "methods.csv", RESULTS / "methods.md"
MARKER = "<!-- Below: written by benchmarks/methods.py table. -->"

SETS = ["mushrooms", "phishing", "ijcnn1", "a9a", "w8a", "covtype.binary.scale", "mnist"]
UNCAPPED = ["a-ciag", "ciag", "nim", "svrg", "saga", "sag"]
ORDER = [*UNCAPPED, "newton", "iqn", "svrg2", "acc-svrg", "afg", "fg", "iag", "ig"]
#: Methods that step on gradients alone: many cheap passes.
FIRST_ORDER = {"svrg", "saga", "sag", "acc-svrg", "afg", "fg", "iag", "ig"}
WITHOUT_SCALE = {"nim", "iqn", "newton"}
ACCURACIES = [1e-4, 1e-6, 1e-8, 1e-10]
MOST_PASSES = 2000
LONGEST, SHORTEST = 128.0, 1 / 64

_CACHE: dict[str, tuple[Any, Any]] = {}


def rows_and_targets(name: str) -> tuple[Any, Any]:
    """Return X and y; of mnist the pixels that are ever set (over 255, as loaded), and whether the digit is odd."""
    if name not in _CACHE:
        _CACHE.clear()
        data = load_dataset(name)
        if name == "mnist":
            X = np.asarray(data.rows)
            X = np.ascontiguousarray(X[:, X.max(axis=0) > 0])
            _CACHE[name] = X, np.where(np.asarray(data.labels).astype(int) % 2 == 1, 1, -1)
        else:
            _CACHE[name] = data.rows, data.targets()
    return _CACHE[name]


def problem_of(name: str) -> Problem:
    """Return the logistic problem."""
    X, y = rows_and_targets(name)
    return Problem.linear(X, y, alpha=1.0 / X.shape[0])


def warm_up(name: str, method: str) -> None:
    """Compile what a method runs on this kind of rows."""
    X, y = rows_and_targets(name)
    rows = np.linspace(0, X.shape[0] - 1, 300).astype(int)
    small = Problem.linear(X[rows], y[rows], alpha=0.1)
    constants = {"step_size": 1e-3} | ({"extrapolation": 0.5} if method == "a-ciag" else {})
    for options in ({}, constants):
        state = minimize(small, method=method, options=options, tol=0.0, max_iter=2).state
    if hasattr(state, "model"):
        rebuilt(small.batched(1), state.model)


def timed_run(name: str, method: str, options: dict[str, Any], *, seconds: float, passes: float) -> Result:
    """Run a method to 1e-10, to the passes or to the seconds."""
    problem = problem_of(name)
    big = problem.rows.values.size > 5_000_000
    end = time.process_time() + seconds
    return minimize(
        problem,
        method=method,
        options=options,
        tol=ACCURACIES[-1],
        max_iter=passes,
        measure_every=5 if big and method in FIRST_ORDER else 1,
        callback=lambda _: time.process_time() > end,
        verbose=1,
    )


def row_of(name: str, method: str, mode: str, result: Result, options: dict[str, Any], trials: str) -> dict[str, Any]:
    """Return a line of the CSV file."""
    trace = result.trace
    row: dict[str, Any] = {
        "data": name,
        "method": method,
        "mode": mode,
        "options": json.dumps(options),
        "batch": result.batch_size,
    }
    row |= {f"passes to {goal:.0e}": f"{trace.passes_to(goal):.2f}" for goal in ACCURACIES}
    row |= {f"seconds to {goal:.0e}": f"{trace.seconds_to(goal):.3g}" for goal in ACCURACIES}
    ended = {"CALLBACK": "out of seconds", "MAX_ITER": "out of passes"}.get(result.reason.name, result.reason.name.lower())
    row |= {"reached": f"{result.optimality:.2e}", "passes": f"{result.n_passes:.2f}"}
    row |= {"Hessian passes": f"{result.n_hessian_passes:.2f}", "seconds": f"{result.seconds:.3g}"}
    return row | {"ended": ended, "trials": trials}


def rank(result: Result) -> tuple[float, float]:
    """Return what is smaller for the better run: passes to 1e-10, then the optimality reached."""
    passes = result.trace.passes_to(ACCURACIES[-1])
    reached = result.optimality
    return (math.inf if math.isnan(passes) else passes, math.inf if math.isnan(reached) else reached)


def base_step(name: str, method: str, auto_step: float) -> float:
    """Return the step that the grid is in multiples of."""
    if method in WITHOUT_SCALE:
        return 1.0
    if method in ("ciag", "a-ciag") or not (auto_step > 0.0 and math.isfinite(auto_step)):
        return 1.0 / full_smoothness(problem_of(name))
    return auto_step


def climb(is_best: Callable[[float], bool], start: float, lowest: float, highest: float) -> None:
    """Try multiples of the base: from the start up by twos as long as each is the best yet, else down."""
    factors = (2.0, 0.5) if is_best(start) else (0.5,)
    for factor in factors:
        multiple = start
        while lowest <= multiple * factor <= highest and is_best(multiple * factor):
            multiple *= factor
        if multiple != start:
            return


def tuned(name: str, method: str, base: float, seconds: float) -> tuple[Result, dict[str, float], str]:
    """Return the best run with a constant step, its options, and what was tried."""
    best: Result | None = None
    chosen: dict[str, float] = {"multiple": 1.0}
    tried = []
    lowest, highest = (0.5, 1.0) if method in WITHOUT_SCALE else (SHORTEST, LONGEST)
    for fixed in [{"extrapolation": e} for e in (0.8, 0.95, 0.98)] if method == "a-ciag" else [{}]:

        def is_best(multiple: float, fixed: dict[str, float] = fixed) -> bool:
            nonlocal best, chosen
            options = {"step_size": base * multiple, **fixed}
            passes = min(MOST_PASSES, rank(best)[0] + 1.0) if best is not None else MOST_PASSES
            result = timed_run(name, method, options, seconds=seconds, passes=passes)
            tried.append("/".join(f"{value:g}" for value in [multiple, *fixed.values()]) + f": {rank(result)[0]:.4g}")
            better = best is None or rank(result) < rank(best) or best.reason is StopReason.DIVERGED
            if better:
                best, chosen = result, options | {"multiple": multiple}
            return better and (result.reason is not StopReason.DIVERGED or multiple < 1.0)

        climb(is_best, chosen["multiple"], lowest, highest)
    assert best is not None
    return best, chosen, "; ".join(tried)


def finished() -> dict[tuple[str, str, str], dict[str, str]]:
    """Return the lines of the CSV file by data, method and mode."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="") as file:
        return {(row["data"], row["method"], row["mode"]): row for row in csv.DictReader(file)}


def append(row: dict[str, Any]) -> None:
    """Add a line to the CSV file."""
    new = not TABLE.exists()
    with TABLE.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


def run(sets: list[str], methods: list[str], seconds: float, tune_seconds: float) -> None:
    """Run what is missing: "auto", then constant steps; the methods that need thousands of passes come last."""
    slow = {"afg", "fg", "iag", "ig"}
    jobs = [
        (name, method, mode)
        for group in (set(ORDER) - slow, slow)
        for mode in ("auto", "tuned")
        for name in sets
        for method in methods
        if method in group
    ]
    jobs = [job for job in jobs if job not in finished()]
    for k, (name, method, mode) in enumerate(jobs, start=1):
        warm_up(name, method)
        began = time.perf_counter()
        if mode == "auto":
            cap = math.inf if method in UNCAPPED else seconds
            result, options, trials = timed_run(name, method, {}, seconds=cap, passes=MOST_PASSES), {}, ""
            options = {"step_size": float(getattr(result.state, "step_size", math.nan))}
        else:
            auto = finished()[name, method, "auto"]
            base = base_step(name, method, json.loads(auto["options"])["step_size"])
            result, options, trials = tuned(name, method, base, tune_seconds)
        row = row_of(name, method, mode, result, options, trials)
        append(row)
        spent = time.perf_counter() - began
        print(
            f"{k}/{len(jobs)} {name} {method} {mode}: {row['passes to 1e-10']} passes, {row['seconds to 1e-10']} s "
            f"({row['ended']}, reached {row['reached']}; {spent:.0f} s) {trials}",
            file=sys.stderr,
            flush=True,
        )


def _cells(row: dict[str, str], what: str) -> list[str]:
    return [row[f"{what} to {goal:.0e}"].replace("nan", "-") for goal in ACCURACIES]


def table() -> list[str]:
    """Return a table for each data set."""
    rows, lines = finished(), []
    for name in SETS:
        of_set = [row for method in ORDER for mode in ("auto", "tuned") if (row := rows.get((name, method, mode)))]
        if not of_set:
            continue
        X, _ = rows_and_targets(name)
        lines += ["", f"### {name}, {X.shape[0]:,} x {X.shape[1]}", ""]
        lines.append(
            "| method | batch | step | passes to 1e-4 | 1e-6 | 1e-8 | 1e-10 | seconds to 1e-4 | 1e-6 | 1e-8 | 1e-10 | end |"
        )
        lines.append("|---" * 12 + "|")
        for row in of_set:
            step = "auto"
            if row["mode"] == "tuned":
                chosen = json.loads(row["options"])
                step = f"{chosen['step_size']:.3g}" + (f", {chosen['extrapolation']}" if "extrapolation" in chosen else "")
            end = "" if row["ended"] == "converged" else f"{row['ended']} at {row['passes']}: {row['reached']}"
            cells = [row["method"], row["batch"], step, *_cells(row, "passes"), *_cells(row, "seconds"), end]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["run", "table"])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default=",".join(ORDER))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tune-seconds", type=float, default=20.0)
    given = parser.parse_args()
    unknown = set(given.methods.split(",")) - set(METHODS)
    if unknown:
        parser.error(f"no such method: {', '.join(sorted(unknown))}")
    if "run" in given.parts:
        run(given.sets.split(","), given.methods.split(","), given.seconds, given.tune_seconds)
    if "table" in given.parts:
        lines = table()
        head = REPORT.read_text().split(MARKER)[0] if REPORT.exists() else ""
        REPORT.write_text(head + "\n".join([MARKER, *lines, ""]))
        print("\n".join(lines))


if __name__ == "__main__":
    main()
