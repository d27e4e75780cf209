"""Measures what A-CIAG and CIAG do without a step size on hard problems: python benchmarks/robustness.py [part ...].

synthetic   13 generated problems, several component sizes: effective passes to 1e-10
grid        7 of them x 3 component sizes x 6 orders, 126 runs with a cap of 80 passes: who converges, how far they climb
proximal    l1 penalties and l1 balls on public data, from 0 and from afar: passes to 1e-10
sizes       CIAG and A-CIAG on public data with the same components: of one row, and of A-CIAG's default size
report      writes robustness.md from the CSV files that the other parts have left

Each part writes benchmarks/results/robustness_<part>.csv. Passes are counted in tenths from the second pass on. Public data
files are looked for in the folders of FINITESUM_DATA.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from records import RESULTS, read_rows, run_parts, table_of, write_rows

from finitesum import Problem
from finitesum.constraints import L1Ball
from finitesum.datasets import load_dataset
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import METHODS
from finitesum.methods.curvature.taylor_model import full_hessian, full_model
from finitesum.running.sampling import order_of_pass

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from contracts.synthetic import RECIPES, generated

GOAL = 1e-10

#: The grid: problems, and the orders by sampling and seed.
GRID = ["iso", "c1e5", "heavy tails", "separable, 1e-4/n", "sorted labels", "far start, 1/n", "far start, 1e-3/n"]
ORDERS = [
    ("cyclic", 0),
    ("shuffled-once", 0),
    ("shuffled", 0),
    ("shuffled", 1),
    ("with-replacement", 0),
    ("with-replacement", 1),
]


def passes_to_goal(
    problem: Problem, start: Any, method: str, *, sampling: str = "shuffled-once", seed: int = 0, cap: float = 80.0
) -> tuple[float, float]:
    """Return the passes after which the optimality is first at most 1e-10, NaN beyond the cap, and its largest growth.

    From the second pass on a pass is cut in tenths: that changes no visit.
    """
    chosen = METHODS[method]()
    problem = problem if problem.batch_size else problem.batched(chosen.default_batch_size(problem))
    m = problem.n_components
    state = chosen.init(problem, start)
    first = worst = evaluate(problem, start).optimality
    k = 0
    while state.n_gradients / m < cap:
        order = order_of_pass(sampling, seed, k, m)
        for piece in [order] if k == 0 else np.array_split(order, min(10, m)):
            state = chosen.run_pass(problem, state, piece)
            optimality = evaluate(problem, state.x).optimality
            worst = max(worst, optimality)
            if optimality <= GOAL:
                return state.n_gradients / m, worst / first
        k += 1
    return math.nan, worst / first


def condition_at(problem: Problem, start: Any) -> float:
    """Return the condition number of the Hessian at the optimum."""
    problem = problem.batched(1)
    method = METHODS["a-ciag"]()
    state = method.init(problem, start)
    for k in range(25):
        state = method.run_pass(problem, state, order_of_pass("shuffled-once", 0, k, problem.n_components))
    eigenvalues = np.linalg.eigvalsh(full_hessian(full_model(problem, state.x)))
    return float(eigenvalues[-1] / eigenvalues[0])


def show(text: str) -> None:
    """Write a line of progress."""
    print(text, file=sys.stderr, flush=True)


def synthetic() -> None:
    """Run A-CIAG on every problem with its default component and others, CIAG with its default."""
    rows = []
    for name in RECIPES:
        X, y, alpha, start = generated(name)
        whole = Problem.linear(X, y, alpha=alpha)
        row: dict[str, Any] = {"problem": name, "n": X.shape[0], "d": X.shape[1]}
        row["condition"] = f"{condition_at(whole, start):.2g}"
        row["default"] = METHODS["a-ciag"]().default_batch_size(whole)
        sizes = {"default": None, "1": 1, "8": 8, "n/20": X.shape[0] // 20}
        for label, size in sizes.items():
            problem = Problem.linear(X, y, alpha=alpha, batch_size=size)
            row[f"a-ciag, {label}"] = f"{passes_to_goal(problem, start, 'a-ciag')[0]:.2f}"
        row["ciag, 1"] = f"{passes_to_goal(whole, start, 'ciag', cap=200.0)[0]:.2f}"
        show(str(row))
        rows.append(row)
    write_rows("robustness_synthetic", rows)


def grid() -> None:
    """Run A-CIAG on the grid."""
    rows = []
    for name in GRID:
        X, y, alpha, start = generated(name)
        for size in (1, 8, X.shape[0] // 20):
            problem = Problem.linear(X, y, alpha=alpha, batch_size=size)
            for sampling, seed in ORDERS:
                passes, growth = passes_to_goal(problem, start, "a-ciag", sampling=sampling, seed=seed)
                row = {"problem": name, "batch": size, "order": sampling, "seed": seed}
                rows.append(row | {"passes": f"{passes:.2f}", "growth": f"{growth:.3g}"})
            show(f"{name}, {size}: " + ", ".join(row["passes"] for row in rows[-6:]))
    write_rows("robustness_grid", rows)


def proximal() -> None:
    """Run CIAG and A-CIAG with elastic nets and l1 balls, from 0 and from ten times a Gaussian."""
    rows = []
    for name in ("mushrooms", "a9a", "w8a"):
        data = load_dataset(name)
        n, d = data.rows.shape
        problems = {
            f"l1 {l1:g}, l2 {l2:g}/n": Problem.linear(
                data.rows, data.targets(), alpha=l1 + l2 / n, l1_ratio=l1 / (l1 + l2 / n)
            )
            for l1 in (1e-3, 1e-4)
            for l2 in (1.0, 1e-2)
        }
        problems["l1 ball of radius 10, l2 1/n"] = Problem.linear(
            data.rows, data.targets(), alpha=1.0 / n, constraint=L1Ball(10.0)
        )
        for label, problem in problems.items():
            row: dict[str, Any] = {"data": name, "penalty": label}
            for where, start in (("0", np.zeros(d)), ("afar", 10.0 * np.random.default_rng(3).standard_normal(d))):
                row[f"a-ciag from {where}"] = f"{passes_to_goal(problem, start, 'a-ciag', cap=100.0)[0]:.2f}"
                row[f"ciag from {where}"] = f"{passes_to_goal(problem, start, 'ciag', cap=100.0)[0]:.2f}"
            show(str(row))
            rows.append(row)
    write_rows("robustness_proximal", rows)


def sizes() -> None:
    """Run CIAG and A-CIAG with components of one row and of A-CIAG's default size."""
    rows = []
    for name in ("mushrooms", "phishing", "ijcnn1", "a9a", "w8a"):
        data = load_dataset(name)
        n, d = data.rows.shape
        whole = Problem.linear(data.rows, data.targets(), alpha=1.0 / n)
        for size in (1, METHODS["a-ciag"]().default_batch_size(whole)):
            row: dict[str, Any] = {"data": name, "rows a component": size}
            for method in ("ciag", "a-ciag"):
                row[method] = f"{passes_to_goal(whole.batched(size), np.zeros(d), method, cap=200.0)[0]:.2f}"
            show(str(row))
            rows.append(row)
    write_rows("robustness_sizes", rows)


def grid_lines() -> list[str]:
    """Return the grid by problem and order, and what it says as a whole."""
    rows = read_rows("robustness_grid")
    passes = np.array([float(row["passes"]) for row in rows])
    growth = np.array([float(row["growth"]) for row in rows])
    lines = [
        f"**{np.isfinite(passes).sum()} of {len(rows)} converge**; the largest optimality of a run is "
        f"{growth.max():.3g} times the start's.",
        "",
        "| problem | batch | " + " | ".join(f"{sampling} {seed}" for sampling, seed in ORDERS) + " |",
        "|" + "---|" * (2 + len(ORDERS)),
    ]
    for k in range(0, len(rows), len(ORDERS)):
        cells = [rows[k]["problem"], rows[k]["batch"], *(row["passes"] for row in rows[k : k + len(ORDERS)])]
        lines.append("| " + " | ".join(cells).replace("nan", "-") + " |")
    return lines


def report() -> None:
    """Write the tables."""
    lines = [
        "# CIAG and A-CIAG without a step size: hard problems",
        "",
        'Made by `python benchmarks/robustness.py`; step_size="auto" throughout, optimality 1e-10 (2-norm), passes exact',
        "to a tenth from the second pass on. Nothing was chosen for a problem. The method's constants were chosen with",
        "problems of these kinds (and seeds) in view, so that this is a check, not a test on unseen data.",
        "",
        "## Generated logistic problems",
        "",
        "condition: of the Hessian at the optimum. default: A-CIAG's default component size, in rows; then the passes for",
        "that size, 1, 8 and n/20 rows a component. CIAG with one row a component, its default; - is beyond 200 passes.",
        "",
        *table_of(read_rows("robustness_synthetic")),
        "",
        "## Grid: 7 problems, 3 component sizes, 6 orders",
        "",
        *grid_lines(),
        "",
        "Visits with replacement cost two to five times the passes of one fixed permutation: an anchor is then as old as",
        "log m passes, and the theory's bounded delay is gone.",
        "",
        "## Proximal CIAG and A-CIAG: l1 penalties and constraints",
        "",
        "Logistic loss, default component sizes; afar: from ten times a standard Gaussian; - is beyond 100 passes. This is",
        "what backs the methods there: see the notes of `CIAG` and `ACIAG` on what is proven.",
        "",
        *table_of(read_rows("robustness_proximal")),
        "",
        "## CIAG and A-CIAG with the same components",
        "",
        "Logistic loss, alpha = 1/n, from 0; - is beyond 200 passes. With one row a component both take n steps a pass and",
        "have little to gain from momentum; with larger components, which are faster, CIAG falls behind.",
        "",
        *table_of(read_rows("robustness_sizes")),
        "",
    ]
    (RESULTS / "robustness.md").write_text("\n".join(lines))


PARTS = {"synthetic": synthetic, "grid": grid, "proximal": proximal, "sizes": sizes, "report": report}

if __name__ == "__main__":
    run_parts(__doc__ or "", PARTS)
