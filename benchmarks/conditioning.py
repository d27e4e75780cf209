"""A thousand problems of any conditioning: does the automatic solver end at tol, or say why not?

    python benchmarks/conditioning.py [--problems 1000] [--out benchmarks/results]

Scales 1e-6 to 1e6, separable and nearly collinear data, heavy tails, weights over six decades, alpha 1e-12 to 1e2, more
columns than rows, six losses, dense and sparse, with and without an intercept; tol = 1e-8. Where gradients begin at 1e5 and
more, 1e-8 lies at or below rounding errors: a run that ends above tol is listed with its optimality relative to the first
gradient's, and with what its message says of the conditioning.
"""

from __future__ import annotations

import argparse
import collections
import re
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.evaluation.optimality import evaluate

LOSSES = ("logistic", "squared", "squared-hinge", "huber", "poisson", "smoothed-hinge")
SHARES = (0.5, 0.15, 0.1, 0.1, 0.1, 0.05)


def make(seed: int) -> tuple[Problem, str]:
    """Return a problem and what it is like."""
    rng = np.random.default_rng(seed)
    n, d = int(10 ** rng.uniform(1, 3.6)), int(10 ** rng.uniform(0, 2))
    if rng.random() < 0.15:
        n = min(n, 60)
        d = int(n * rng.uniform(1, 3)) + 1
    X = rng.standard_normal((n, d))
    kind = ("plain", "correlated", "collinear", "sparse", "heavy-tailed")[rng.integers(5)]
    if kind == "correlated":
        X = X @ rng.standard_normal((d, d)) / np.sqrt(d)
    elif kind == "collinear" and d > 1:
        X[:, 1:] = X[:, :1] + 10.0 ** rng.uniform(-8, -1) * X[:, 1:]
    elif kind == "sparse":
        X *= rng.random((n, d)) < 0.2
    elif kind == "heavy-tailed":
        X = rng.standard_t(2, size=(n, d))
    scale = 10.0 ** rng.uniform(-6, 6, d) if rng.random() < 0.5 else np.full(d, 10.0 ** rng.uniform(-6, 6))
    if rng.random() < 0.3:
        scale = np.ones(d)
    signal = X @ rng.standard_normal(d) / np.sqrt(d) * rng.choice([0.3, 3.0])
    loss = str(rng.choice(LOSSES, p=SHARES))
    noise = float(rng.choice([0.0, 0.5, 2.0]))
    if loss == "poisson":
        y = rng.poisson(np.exp(np.clip(signal, -3, 3))).astype(float)
    elif loss in ("squared", "huber"):
        y = signal + noise * rng.standard_normal(n)
    else:
        y = np.where(signal + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
        y[0] = -y[1]
    weights = 10.0 ** rng.uniform(-3, 3, n) if rng.random() < 0.3 else None
    alpha = 10.0 ** rng.uniform(-12, 2)
    X = sp.csr_array(X * scale) if rng.random() < 0.5 else X * scale
    intercept = bool(rng.random() < 0.5)
    problem = Problem.linear(X, y, loss=loss, alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    words = f"{n} x {d} {kind} {loss}, alpha {alpha:.0e}, columns {scale.min():.0e} to {scale.max():.0e}"
    return problem, words + (", weighted" if weights is not None else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    ends: collections.Counter[str] = collections.Counter()
    passes, lines, n_named = [], [], 0
    for seed in range(options.problems):
        problem, words = make(seed)
        steepness = float(np.linalg.norm(evaluate(problem, np.zeros(problem.dim)).gradient))
        result = minimize(problem, tol=1e-8, max_iter=1000, measure_every=0)
        ends[result.reason.name.lower()] += 1
        passes.append(result.n_passes)
        if not result.success:
            relative = result.optimality / steepness
            named = re.search(r"ill-conditioned: (.*?)\. Scale", result.message)
            n_named += named is not None
            lines.append(
                f"| {seed} | {words} | {result.reason.name.lower()} | {result.optimality:.1e} | {relative:.1e} | "
                f"{result.n_passes:.0f} | {named[1] if named else '-'} |"
            )
            print(lines[-1], flush=True)
    median, late = np.median(passes), np.percentile(passes, 95)
    text = [
        "# Problems of any conditioning",
        "",
        "Made by `python benchmarks/conditioning.py`; its first lines say what the problems are.",
        "",
        f"{options.problems} problems: {', '.join(f'{count} {name}' for name, count in ends.most_common())}. "
        f"Passes: median {median:.0f}, 95 % within {late:.0f}.",
        "",
        f"Those that ended above tol; {n_named} of {len(lines)} messages name the conditioning:",
        "",
        "| seed | problem | end | optimality | relative to the first gradient | passes | the message |",
        "|---|---|---|---|---|---|---|",
        *lines,
    ]
    print(text[4])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "conditioning.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
