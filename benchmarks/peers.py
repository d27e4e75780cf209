"""Binary logistic regression against every peer that pip can install: seconds to an optimality, in one process.

    python benchmarks/peers.py --data FOLDER [--only a9a,w8a] [--threads 1] [--libraries glum,snapml] [--rounds 5]

What was measured before is kept in peers.csv and stands in the page again; `--only ""` writes the page alone.

Each solver gets F(w) = mean logistic loss + 1/(2n) ||w||^2 without an intercept, from w = 0, and its own settings from a
grid (tolerances, iteration limits, dense and sparse input). A setting counts for an optimality when the exact
||grad F|| of what it returns is at most that; the fastest that counts is the solver's time. Runs alternate between
solvers, round by round; times are medians from the arrays to the coefficients, everyone's checks of the arrays included
(arrays of the kind that the solver takes, kernels compiled): ours are those of `LogisticRegression`. Each table gives
seconds, the multiple of one gradient pass, and the ratio of the best peer to finitesum. Known sets are those on which
methods were developed; unseen ones are others.

The folder holds the LIBSVM files (a9a.svm.xz ...), mnist.npz and cifar100_subset.npz. Peers that are not installed are
left out and named.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from peer_solvers import FILES, GENERATED, LEVELS, PEERS, UNSEEN, Setting, Task, make_task, ours
from threadpoolctl import threadpool_limits

from finitesum import minimize
from finitesum.evaluation.optimality import evaluate

#: What bounds the ratios, by profiles.
BOUNDS = """\
What bounds the ratios:

- *Small sparse sets* (a9a to phishing): a run is 4 to 10 gradient passes and 1 to 4 Hessians, a Hessian pass costing 2 to 6
  gradient passes. Neither can be left out: with fewer Hessians more passes are needed, and vice versa. On
  phishing and mushrooms, where a pass is half a millisecond and less, some third of a run is Python between kernels.
- *Wide text* (rcv1, news20): epochs of dual coordinate ascent, as in snapml and liblinear, which leave about 0.3 of the
  gradient each. An epoch goes through each row twice, at 1 to 2 nanoseconds an entry for each time.
- *Dense, 100,000 x 500*: independent standard normal columns. There a quasi-Newton method without a Hessian converges as
  fast as one with a sampled Hessian, whose error is sqrt(d / rows); a pass is bounded by the memory's bandwidth, and
  Hessians of 11,000 to 45,000 rows cost the same within a tenth. To 1e-10 only newton-cg of
  scikit-learn comes within about 3 seconds, too.
- *Two threads*: the two cores share the memory's bandwidth, and what takes a millisecond runs on one: the small
  sets, and the epochs on text, whose rows depend on each other. There two threads take as long as one."""


def optimality_of(task: Task, w: Any) -> float:
    w = np.ascontiguousarray(np.asarray(w, dtype=np.float64))
    if w.shape != (task.problem.dim,) or not np.isfinite(w).all():
        return math.inf
    return evaluate(task.problem, w).optimality


def seconds_of(setting: Setting) -> tuple[float, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        w = setting.solve()
        return time.perf_counter() - start, w


def candidates(
    task: Task, threads: int, limit: float, libraries: list[str]
) -> tuple[dict[str, dict[float, Setting]], list[str]]:
    """Return, for each solver and optimality, the setting that first timing found fastest, and who is missing."""
    chosen: dict[str, dict[float, tuple[float, Setting]]] = {}
    missing = []
    for library, settings in {"finitesum": ours, **{name: PEERS[name] for name in libraries}}.items():
        slow: set[str] = set()
        try:
            listed = list(settings(task, threads))
        except ImportError:
            missing.append(library)
            continue
        for setting in listed:
            kind = f"{setting.solver} {setting.label.split('tol=')[0]}"
            if kind in slow:
                continue
            try:
                if library == "finitesum":
                    seconds_of(setting)  # compiles
                seconds, w = seconds_of(setting)
            except Exception as error:  # a peer that refuses the data has no time
                print(f"    {setting.solver} {setting.label}: {type(error).__name__}: {str(error)[:90]}")
                slow.add(kind)
                continue
            reached = optimality_of(task, w)
            print(f"    {setting.solver:24} {setting.label:28} {seconds:9.4f} s  {reached:.1e}", flush=True)
            if seconds > limit:
                slow.add(kind)
            for level in LEVELS:
                best = chosen.setdefault(setting.solver, {})
                if reached <= level and (level not in best or seconds < best[level][0]):
                    best[level] = (seconds, setting)
    return {solver: {lv: s for lv, (_, s) in best.items()} for solver, best in chosen.items()}, missing


def pass_seconds(task: Task) -> float:
    x = np.zeros(task.problem.dim)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        evaluate(task.problem, x)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure(
    task: Task, threads: int, rounds: int, limit: float, libraries: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each solver and optimality."""
    settings, missing = candidates(task, threads, limit, libraries)
    wanted = {(solver, label): s for solver, best in settings.items() for s in best.values() for label in [s.label]}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in wanted}
    for _ in range(rounds):
        for key, setting in wanted.items():
            if not times[key] or np.sum(times[key]) < limit:
                times[key].append(seconds_of(setting)[0])
    unit = pass_seconds(task)
    rows = []
    for solver, best in settings.items():
        for level, setting in best.items():
            seconds = float(np.median(times[solver, setting.label]))
            rows.append(
                {
                    "data": task.name,
                    "threads": threads,
                    "optimality": level,
                    "solver": solver,
                    "setting": setting.label,
                    "seconds": seconds,
                    "passes": seconds / unit,
                }
            )
    return rows, missing


class Work(NamedTuple):
    """What finitesum did, which no clock enters into."""

    counts: dict[str, str]  # optimality: passes / Hessian passes
    choice: str  # the method, and why


def work_on(task: Task) -> Work:
    counts = {}
    for level in LEVELS:
        result = minimize(task.problem, tol=level, max_iter=3000, measure_every=0)
        counts[f"{level:.0e}"] = f"{result.n_passes:.1f} / {result.n_hessian_passes:.1f}"
    return Work(counts, f"{result.method.name}: {result.choice}")


def table(rows: list[dict[str, Any]], work: dict[str, Work]) -> str:
    """Return the rows as Markdown: a line for each data set and optimality."""
    lines = [
        "| data | threads | optimality | finitesum, s | in gradient passes | passes / Hessian passes | best peer, s | peer "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((row["data"], row["threads"], row["optimality"]) for row in sorted(rows, key=_order)):
        cell = [row for row in rows if (row["data"], row["threads"], row["optimality"]) == key]
        mine = next((row for row in cell if row["solver"] == "finitesum"), None)
        others = sorted((row for row in cell if row["solver"] != "finitesum"), key=lambda row: row["seconds"])
        best = others[0] if others else None
        place = f"| {key[0]} | {key[1]} | {key[2]:.0e} |"
        own = f"{mine['seconds']:.4f} | {mine['passes']:.1f}" if mine else "- | -"
        own += f" | {work[key[0]].counts[f'{key[2]:.0e}']}" if key[0] in work else " | -"
        if mine and best:
            ratio = best["seconds"] / mine["seconds"]
            lines.append(f"{place} {own} | {best['seconds']:.4f} | {best['solver']} ({best['setting']}) | {ratio:.1f} |")
        else:
            lines.append(f"{place} {own} | - | none in time | - |")
    ratios = [float(line.split(" | ")[-1].strip(" |")) for line in lines[2:] if not line.endswith("- |")]
    if ratios:
        lines += ["", f"Ratios: median {np.median(ratios):.1f}, least {min(ratios):.1f}."]
    return "\n".join(lines)


def page(rows: list[dict[str, Any]], work: dict[str, Work]) -> str:
    """Return the tables of the known and of the unseen sets, and what was chosen."""
    lines = []
    for title, is_unseen in (("Known", False), ("Unseen", True)):
        if part := [row for row in rows if (row["data"] in UNSEEN) == is_unseen]:
            lines += [f"## {title}", "", table(part, work), ""]
    lines += ["## Choices", "", *(f"- {name}: {known.choice}" for name, known in work.items())]
    return "\n".join(lines)


def _order(row: dict[str, Any]) -> tuple[int, int, float]:
    names = [*FILES, *GENERATED, *UNSEEN]
    return names.index(row["data"]), row["threads"], -row["optimality"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default=",".join([*FILES, *GENERATED, *UNSEEN]))
    parser.add_argument("--threads", default="1")
    parser.add_argument("--libraries", default=",".join(PEERS), help="peers to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds after which a kind of solver is given up")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    file = options.out / "peers.csv"
    rows: list[dict[str, Any]] = []
    if file.exists():
        with file.open(newline="") as stream:
            rows = [
                {**row, "threads": int(row["threads"]), **{k: float(row[k]) for k in ("optimality", "seconds", "passes")}}
                for row in csv.DictReader(stream)
            ]
    notes = options.out / "peers_work.json"
    work = {name: Work(*known) for name, known in json.loads(notes.read_text()).items()} if notes.exists() else {}
    missing: list[str] = []
    for name in filter(None, options.only.split(",")):
        task = make_task(name, options.data)
        for threads in (int(text) for text in options.threads.split(",")):
            print(f"{name}, {threads} threads")
            with threadpool_limits(threads):
                new, missing = measure(task, threads, options.rounds, options.limit, options.libraries.split(","))
            rows = [row for row in rows if (row["data"], row["threads"]) != (name, threads)] + new
        work[name] = work_on(task)
        options.out.mkdir(parents=True, exist_ok=True)
        notes.write_text(json.dumps(work, indent=1) + "\n")
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, ["data", "threads", "optimality", "solver", "setting", "seconds", "passes"])
            writer.writeheader()
            writer.writerows(sorted(rows, key=_order))
        print(table([row for row in rows if row["data"] == name], {name: work[name]}), flush=True)
    head = [
        "# Binary logistic regression against peers",
        "",
        "Made by `python benchmarks/peers.py` (what is measured stands at its head; every setting that counted is in",
        f"peers.csv), on {os.cpu_count()} shared cores ({platform.machine()}): seconds vary by a factor, ratios by "
        "much less.",
        "A ratio is the best peer's seconds by ours; one gradient pass includes the objective. What was measured last had",
        f"{options.rounds} rounds; a kind of solver was given up once a setting took more than {options.limit:g} seconds.",
        "",
        page(rows, work),
        "",
        *BOUNDS.splitlines(),
        *(["", f"Not installed here: {', '.join(missing)}."] if missing else []),
    ]
    (options.out / "peers.md").write_text("\n".join(head) + "\n")


if __name__ == "__main__":
    main()
