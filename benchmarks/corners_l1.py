"""Losses with corners and an l1 penalty on random sparse rows: what `auto` takes, the other exact method, scikit-learn.

    python benchmarks/corners_l1.py [--draws 40] [--seed 0]

Rows are random entries, one-hot columns or text-like counts, 300 to 6,000 rows and columns; losses are absolute values,
quantiles, epsilon-insensitive losses and the hinge; penalties from a 200th to a half of the one that leaves no coefficient.
Seconds on one thread, the lesser of two runs each. scikit-learn's QuantileRegressor calls HiGHS on the problem in slacks.
Writes the page. Constants of the choice were fitted to other draws than those of seed 0.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from records import RESULTS, table_of
from sklearn.linear_model import QuantileRegressor
from threadpoolctl import threadpool_limits

from finitesum import Problem, minimize
from finitesum.core.jit import without_stand_ins
from finitesum.methods.auto import choose

#: What all runs are asked for, and the order of the matrices of interior points up to which draws are taken.
TOL, MOST_ORDER = 1e-8, 2000

#: Seconds after which scikit-learn's is stopped.
LIMIT = 20.0


def rows_of(kind: str, n: int, d: int, rng: np.random.Generator) -> Any:
    """Return CSR rows of a kind: 10 random entries, a level of each of 5 fields, or 30 frequent and rare words."""
    if kind == "one-hot":
        levels = d // 5
        columns, values = rng.integers(0, levels, (n, 5)) + levels * np.arange(5), np.ones((n, 5))
    elif kind == "text":
        columns, values = (d * rng.random((n, 30)) ** 3).astype(int), 0.1 + rng.random((n, 30))
    else:
        columns, values = rng.integers(0, d, (n, 10)), rng.standard_normal((n, 10))
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    X = scipy.sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=(n, d))
    X.sum_duplicates()
    return X


def least_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the lesser seconds of two runs, and what the last gave."""
    seconds, found = [], None
    for _ in range(2):
        begin = time.perf_counter()
        found = run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), found


def measure(rng: np.random.Generator) -> dict[str, str] | None:
    """Return a row of the table, None for a draw with too large a system."""
    kind = str(rng.choice(["random", "one-hot", "text"]))
    n, d = (int(10.0 ** rng.uniform(2.5, most)) for most in (3.8, 3.6))
    X, loss = rows_of(kind, n, d, rng), str(rng.choice(["absolute", "quantile", "epsilon-insensitive", "hinge"]))
    signal = X @ np.where(rng.random(d) < 0.1, 3.0 * rng.standard_normal(d), 0.0)
    y = signal + rng.standard_normal(n) * rng.choice([0.01, 0.3, 1.0])
    y = np.where(y > np.median(y), 1.0, -1.0) if loss == "hinge" else y
    part = 10.0 ** rng.uniform(-2.3, -0.3)
    if min(n, d) > MOST_ORDER:
        return None
    alpha = part * float(np.abs(X.T @ np.sign(y - np.median(y))).max()) / n * (0.5 if loss == "quantile" else 1.0)

    def solve(method: str) -> Any:
        problem = Problem.linear(X, y, loss=loss, alpha=alpha, l1_ratio=1.0, fit_intercept=True)
        return minimize(problem, method=method, tol=TOL, measure_every=0)

    auto, found = least_seconds(lambda: solve("auto"))
    chosen = choose(Problem.linear(X, y, loss=loss, alpha=alpha, l1_ratio=1.0, fit_intercept=True), TOL).method.name
    other = "interior-point" if chosen == "linear-program" else "linear-program"
    theirs = np.nan
    if loss == "quantile":
        model = QuantileRegressor(quantile=0.5, alpha=alpha, solver="highs", solver_options={"time_limit": LIMIT})
        try:
            theirs, _ = least_seconds(lambda: model.fit(X, y))
        except TypeError:  # it has no solution after the limit, and looks into it
            theirs = LIMIT
    return {
        "rows": f"{kind} {n:,} x {d:,}",
        "loss": loss,
        "penalty": f"{part:.3f}",
        "not 0": str(int(np.count_nonzero(found.x[:d]))),
        "chosen": chosen,
        "auto, s": f"{auto:.3f}",
        "other exact method, s": f"{least_seconds(lambda: solve(other))[0]:.3f}",
        "scikit-learn, s": "-" if np.isnan(theirs) else f"{theirs:.3f}",
    }


def main() -> None:
    """Print a line for each draw, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    threadpool_limits(1)
    rng, rows = np.random.default_rng(given.seed), list[dict[str, str]]()
    with without_stand_ins():
        while len(rows) < given.draws:
            if row := measure(rng):
                rows.append(row)
                print(" | ".join(row.values()), flush=True)
    auto, other = (np.array([float(row[key]) for row in rows]) for key in ("auto, s", "other exact method, s"))
    peers = np.array(
        [float(row["scikit-learn, s"]) / float(row["auto, s"]) for row in rows if row["scikit-learn, s"] != "-"]
    )
    late = auto / np.minimum(auto, other)
    summary = (
        f"`auto` takes at most 1.3 times as long as the faster exact method on {np.mean(late <= 1.3):.0%} of {len(rows)} "
        f"draws, {late.max():.1f} times at most. scikit-learn's time on quantiles is {np.median(peers):.1f} times ours in "
        f"the median of {peers.size}, {peers.min():.2f} to {peers.max():.1f}."
    )
    print(summary)
    head = [
        "# Losses with corners and an l1 penalty on sparse rows",
        "",
        f"Made by `python benchmarks/corners_l1.py --draws {given.draws} --seed {given.seed}`: random draws that no",
        "constant was fitted to, one thread of a machine that did other work, to a duality gap of 1e-8. The penalty is",
        f"a part of the one that leaves no coefficient. scikit-learn's runs of more than {LIMIT:g} s are counted as that.",
        "",
        summary,
        "",
    ]
    (RESULTS / "corners_l1.md").write_text("\n".join([*head, *table_of(rows)]) + "\n")


if __name__ == "__main__":
    main()
