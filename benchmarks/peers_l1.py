"""l1-penalised and l1-ball-constrained logistic regression against peers: seconds to the same accuracy.

    python benchmarks/peers_l1.py --data FOLDER [--only a9a,rcv1.subset] [--rounds 5] [--out benchmarks/results]

F(w) = mean logistic loss + alpha ||w||_1 with alpha a tenth and a hundredth of the smallest one that makes w = 0 optimal;
and the mean loss over ||w||_1 <= r, with r the l1 norm of the penalised optimum, whose optimum is the same. No
intercept, from w = 0. Accuracy is F(w) - F* relative to F(0) - F*, with F* the lowest value that any run reached; a point
outside of the ball by more than 1e-9 r does not count. As in peers.py a solver's time is that of its fastest setting that
counts, the median of alternating rounds.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from peer_solvers import Setting, Task, make_task
from peers import seconds_of
from threadpoolctl import threadpool_limits

from finitesum import Problem, minimize
from finitesum.constraints import L1Ball
from finitesum.evaluation.lines import objective

ACCURACIES = (1e-4, 1e-6, 1e-8)


def penalised(task: Task, alpha: float) -> Iterator[Setting]:
    """Yield the settings for mean loss + alpha ||w||_1."""
    from sklearn.linear_model import LogisticRegression

    problem = Problem.linear(task.X, task.y, alpha=alpha, l1_ratio=1.0)
    for tol in (1e-5, 1e-7, 1e-9, 1e-11):
        yield Setting(
            "finitesum", f"auto, tol={tol:g}", lambda tol=tol: minimize(problem, tol=tol, max_iter=3000, measure_every=0).x
        )
    for solver in ("liblinear", "saga"):
        for tol in (1e-2, 1e-4, 1e-6, 1e-8):
            yield Setting(
                f"sklearn {solver}",
                f"tol={tol:g}",
                lambda solver=solver, tol=tol: (
                    LogisticRegression(
                        C=1.0 / (alpha * task.n), l1_ratio=1.0, solver=solver, tol=tol, fit_intercept=False, max_iter=3000
                    )
                    .fit(task.X, task.y)
                    .coef_[0]
                ),
            )
    yield from _celer(task, alpha)
    yield from _skglm(task, alpha)


def _celer(task: Task, alpha: float) -> Iterator[Setting]:
    try:
        from celer import LogisticRegression
    except ImportError:
        return
    X = sp.csc_matrix(task.X) if sp.issparse(task.X) else np.asfortranarray(task.X)
    for tol in (1e-4, 1e-6, 1e-8, 1e-10):
        yield Setting(
            "celer",
            f"tol={tol:g}",
            lambda tol=tol: (
                LogisticRegression(C=1.0 / (alpha * task.n), tol=tol, fit_intercept=False).fit(X, task.y).coef_[0]
            ),
        )


def _skglm(task: Task, alpha: float) -> Iterator[Setting]:
    try:
        from skglm import SparseLogisticRegression
    except ImportError:
        return
    X = sp.csc_matrix(task.X) if sp.issparse(task.X) else np.asfortranarray(task.X)
    for tol in (1e-4, 1e-6, 1e-8, 1e-10):
        yield Setting(
            "skglm",
            f"tol={tol:g}",
            lambda tol=tol: np.ravel(
                SparseLogisticRegression(alpha=alpha, tol=tol, fit_intercept=False, max_iter=200).fit(X, task.y).coef_
            ),
        )


def confined(task: Task, radius: float) -> Iterator[Setting]:
    """Yield the settings for the mean loss over the l1 ball."""
    problem = Problem.linear(task.X, task.y, constraint=L1Ball(radius))
    for tol in (1e-5, 1e-7, 1e-9, 1e-11):
        yield Setting(
            "finitesum", f"auto, tol={tol:g}", lambda tol=tol: minimize(problem, tol=tol, max_iter=3000, measure_every=0).x
        )
    try:
        import copt
        import copt.constraint
        import copt.loss
    except ImportError:
        return
    loss = copt.loss.LogLoss(task.X, (task.y > 0).astype(float))
    ball = copt.constraint.L1Ball(radius)
    for tol in (1e-4, 1e-6, 1e-8, 1e-10):

        def solve(tol: float = tol) -> Any:
            return copt.minimize_proximal_gradient(
                loss.f_grad, np.zeros(task.X.shape[1]), prox=ball.prox, tol=tol, max_iter=5000, accelerated=True
            ).x

        yield Setting("copt", f"accelerated proximal gradient, tol={tol:g}", solve)


def measured(settings: list[Setting], value: Callable[[Any], float], rounds: int, limit: float) -> list[list[str]]:
    """Return, for each solver, the seconds to each accuracy."""
    values, times = [], []
    given_up: set[str] = set()
    for setting in settings:
        if setting.solver in given_up:
            values.append(math.inf)
            times.append([math.inf])
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                seconds_of(setting)  # compiles
                seconds, w = seconds_of(setting)
            except Exception as error:  # a peer that refuses the problem has no time
                print(f"    {setting.solver} {setting.label}: {type(error).__name__}: {str(error)[:90]}")
                given_up.add(setting.solver)
                values.append(math.inf)
                times.append([math.inf])
                continue
        if seconds > limit:
            given_up.add(setting.solver)
        values.append(value(np.ascontiguousarray(w, dtype=np.float64)))
        times.append([seconds])
        print(f"    {setting.solver:18} {setting.label:44} {seconds:8.4f} s  F = {values[-1]:.14g}", flush=True)
    best, start = min(values), value(np.zeros(settings[0].solve().size))
    for _ in range(rounds - 1):
        for k, setting in enumerate(settings):
            if times[k][0] < limit:
                times[k].append(seconds_of(setting)[0])
    rows = []
    for solver in dict.fromkeys(setting.solver for setting in settings):
        cells = []
        for accuracy in ACCURACIES:
            good = [
                float(np.median(times[k]))
                for k, setting in enumerate(settings)
                if setting.solver == solver and values[k] - best <= accuracy * (start - best)
            ]
            cells.append(f"{min(good):.4f}" if good else "-")
        rows.append([solver, *cells])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="a9a,rcv1.subset")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    heads = " | ".join(f"{accuracy:g}" for accuracy in ACCURACIES)
    lines = [f"| problem | solver | {heads} |", "|---|---|" + "---|" * len(ACCURACIES)]
    for name in options.only.split(","):
        task = make_task(name, options.data)
        largest = float(np.abs(task.X.T @ (0.5 * task.y)).max()) / task.n
        for share in (0.1, 0.01):
            alpha = share * largest
            plain = Problem.linear(task.X, task.y)
            lasso = Problem.linear(task.X, task.y, alpha=alpha, l1_ratio=1.0)
            with threadpool_limits(1):
                print(f"{name}, alpha = {share} alpha_max")
                rows = measured(list(penalised(task, alpha)), partial(objective, lasso), options.rounds, options.limit)
                lines += [f"| {name}, alpha = {share:g} alpha_max | {' | '.join(row)} |" for row in rows]
                w = minimize(lasso, tol=1e-10, max_iter=3000, measure_every=0).x
                radius = float(np.abs(w).sum())

                def confined_value(w: Any, radius: float = radius, plain: Problem = plain) -> float:
                    return objective(plain, w) if np.abs(w).sum() <= radius * (1 + 1e-9) else math.inf

                print(f"{name}, radius {radius:.4g}")
                rows = measured(list(confined(task, radius)), confined_value, options.rounds, options.limit)
                lines += [f"| {name}, l1 ball of radius {radius:.4g} | {' | '.join(row)} |" for row in rows]
    options.out.mkdir(parents=True, exist_ok=True)
    head = [
        "# l1 penalties and l1 balls against peers",
        "",
        "Made by `python benchmarks/peers_l1.py`, whose head says what is measured: seconds to a relative accuracy of F",
        "on one thread; - where no setting of a solver reached it.",
        "",
    ]
    (options.out / "peers_l1.md").write_text("\n".join([*head, *lines]) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
