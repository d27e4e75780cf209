"""Whether method="auto" takes the fastest method: generated problems, every suited method, the regret of the choice.

    python benchmarks/auto_choice.py [--seed 1] [--draws 40] [--limit 1.0]

A draw has rows, columns, density, scale, offset, redundancy, label noise, loss, intercept, penalty and tol. Every candidate
that treats it is run four times by a process of its own, as long as a limit allows; the first run compiles, of the others
the shortest counts, by the processor's clock, on one thread, from the checked arrays to the coefficients. The regret is
auto's seconds by the best candidate's. Constants of `finitesum.methods.cost_model` and `auto` may be fitted to draws of
seed 0; the page shows seed 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from records import RESULTS, table_of
from threadpoolctl import threadpool_limits

from finitesum import Problem, minimize
from finitesum.problems.input import stored_well

CANDIDATES = ("auto", "lazy-newton", "newton", "newton-cg")
LOSSES = ("logistic", "logistic", "squared-hinge", "smoothed-hinge", "poisson")


def drawn(seed: int, k: int) -> tuple[str, dict[str, Any]]:
    """Return draw k in words, and what `Problem.linear` and `minimize` are given."""
    rng = np.random.default_rng([seed, k])
    kind = ("dense", "sparse", "counts", "filled")[k % 4]
    n, d = (int(10 ** rng.uniform(*exponents)) for exponents in ((2.5, 4.7), (0.8, 2.7) if k % 4 in (0, 3) else (1.8, 4.2)))
    if kind in ("dense", "filled"):
        basis = rng.standard_normal((max(1, int(d * rng.uniform(0.3, 1.0))), d))
        X: Any = rng.standard_normal((n, len(basis))) @ basis / np.sqrt(len(basis)) + 0.1 * rng.standard_normal((n, d))
        X = X * 10 ** rng.uniform(0.0, rng.choice([0.0, 1.0]), d) + rng.choice([0.0, 0.0, 30.0])
        X = sp.csr_array(X) if kind == "filled" else X
    else:
        lengths = np.maximum(rng.lognormal(np.log(rng.uniform(5, 80)), 0.7, n).astype(int), 1)
        columns = np.minimum((d ** rng.random(lengths.sum())).astype(int), d - 1)
        values = rng.geometric(0.5, columns.size).astype(float) if kind == "counts" else rng.standard_normal(columns.size)
        X = sp.csr_array(sp.csr_matrix((values, columns, np.append(0, lengths.cumsum())), shape=(n, d)))
        X.sum_duplicates()
    signal = X @ rng.standard_normal(d)
    signal = (signal - np.median(signal)) / (signal.std() + 1e-300)
    noise = rng.choice([0.1, 0.5, 2.0])
    y: Any = np.where(signal + noise * rng.logistic(size=n) > 0.0, 1, -1)
    y[:2] = 1, -1
    loss, C, tol = rng.choice(LOSSES), rng.choice([0.01, 1.0, 100.0]), float(rng.choice([1e-3, 1e-6]))
    if loss == "poisson":
        if kind in ("dense", "filled", "counts"):
            loss = "logistic"
        else:
            y = rng.poisson(np.exp(np.clip(0.3 * signal, -3, 3)))
    has_intercept = bool(rng.random() < 0.5)
    given = {"X": stored_well(X), "y": y, "loss": str(loss), "alpha": 1.0 / (C * n), "fit_intercept": has_intercept}
    scale = float(np.linalg.norm(X.T @ y) / n) + 1e-300
    what = f"{kind} {n:,} x {d:,}, {loss}, C = {C:g}, noise {noise:g}, tol {tol:g}" + (
        ", intercept" if has_intercept else ""
    )
    return what, {"linear": given, "tol": tol * scale}


def run_candidate(seed: int, k: int, name: str, limit: float, answers: Any) -> None:
    _, given = drawn(seed, k)

    def fit() -> tuple[float, Any]:
        began, problem_began = time.process_time(), time.monotonic()
        result = minimize(
            Problem.linear(**given["linear"]),
            method=name,
            tol=given["tol"],
            max_iter=1e5,
            measure_every=0,
            callback=lambda _: time.monotonic() - problem_began > 20.0 * limit,
        )
        return time.process_time() - began, result

    with threadpool_limits(1):
        fit()  # compiles
        seconds, result = min((fit() for _ in range(3)), key=lambda found: found[0])
    answers.put((seconds if result.success else float("nan"), result.method.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--limit", type=float, default=1.0, help="scale of the time limits: 20 times this for a run")
    options = parser.parse_args()
    context, rows = multiprocessing.get_context("fork"), []
    for k in range(options.draws):
        what, found = drawn(options.seed, k)[0], {}
        for name in CANDIDATES:
            answers = context.Queue()
            process = context.Process(target=run_candidate, args=(options.seed, k, name, options.limit, answers))
            process.start()
            try:
                found[name] = answers.get(timeout=80.0 * options.limit)
            except queue.Empty:  # refused, or too slow
                found[name] = (float("nan"), "")
                process.terminate()
            process.join()
        times = [found[name][0] for name in CANDIDATES]
        if np.isnan(times).all():
            print(f"{what}: no method converges in time")
            continue
        best = CANDIDATES[int(np.nanargmin(times))]
        best = found["auto"][1] if best == "auto" else best
        regret = times[0] / np.nanmin(times)
        shown = {name: f"{1e3 * seconds:.1f}" for name, seconds in zip(CANDIDATES, times, strict=True)}
        rows.append({"draw": what, "took": found["auto"][1], "best": best, "regret": f"{regret:.2f}", **shown})
        print(rows[-1], flush=True)
    regrets = np.array([float(row["regret"]) for row in rows])
    lines = [
        "# The choice of a method",
        "",
        f"Made by `python benchmarks/auto_choice.py --seed {options.seed} --draws {options.draws} "
        f"--limit {options.limit:g}`.",
        "What is measured stands at its head. Milliseconds of the processor, one thread; nan: not converged in time, or no",
        "method for the loss. Draws that no method fits in time are left out.",
        "",
        f"Regret within 1.3: {np.mean(regrets <= 1.3):.0%} of {len(rows)} draws; median {np.nanmedian(regrets):.2f}, "
        f"largest {np.nanmax(regrets):.1f}.",
        "",
        *table_of(sorted(rows, key=lambda row: -float(row["regret"]))),
    ]
    if options.seed == 1:
        (RESULTS / "auto_choice.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
