"""Figure 1 of the curvature paper: eight methods on generated logistic regressions, F - F* by effective passes."""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from finitesum.datasets import make_logistic
from finitesum.evaluation.smoothness import gram_eigenvalue
from finitesum.papers.claims import Verdict, compared, no_more, or_inf
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Value, captions
from finitesum.papers.runs import NAMES, Plan, Runs, Trial, curves_table, find_minimum
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure

#: (m, d): rows, and columns with the bias. The first is that of the authors' program; the second is ours.
PAIRS = ((500, 51), (2000, 101))
MAX_PASSES = {"quick": 50, "full": 100}
N_SEEDS = {"quick": 1, "full": 3}

#: Measurements in a pass of CIAG, A-CIAG and NIM, which are over after few.
PARTS = 10

#: F - F* that the tables and verdicts ask for.
LEVEL = 1e-10
PAPER, OURS = "the program's steps", "automatic steps"

_FIGURES = {"fig1": PAPER, "fig1-automatic": OURS}
#: Of the table of curves.
HEADER = ("steps", "m x d", "method", "passes", "seconds", "F - F*")
LABELS = {PAPER: tuple(NAMES)[:8], OURS: tuple(NAMES)}


@cache
def problem_of(m: int, d: int, seed: int) -> Problem:
    """Return (1/m) sum_i log(1 + exp(-y_i x_i'w)) + 1/(2m) ||w||^2 on generated rows."""
    data = make_logistic(m, d, seed=seed)
    return Problem.linear(data.rows, data.targets(), loss="logistic", alpha=1.0 / m)


def trial_of(problem: Problem, kind: str, label: str) -> Trial:
    """Return a method as a user gets it, with nothing set, or with the constants of the authors' program.

    There a step is a multiple of 1 / L with L = lambda_max(I + X'X) of the sum, which lacks the 1/4 of the logistic loss.
    """
    name, parts = NAMES[label], PARTS if label in ("A-CIAG", "CIAG", "NIM") else 1
    if kind == OURS:
        return Trial(name, parts=parts)
    curved = 1.0 / (gram_eigenvalue(problem) + problem.penalty.ridge())
    flat = 50.0 * curved / problem.n_rows
    return {
        "A-CIAG": Trial(name, {"step_size": curved, "extrapolation": 0.6}, 1, "cyclic", parts),
        "CIAG": Trial(name, {"step_size": curved}, 1, "cyclic", parts),
        "NIM": Trial(name, {"step_size": 1.0, "solver": "inverse"}, 1, "cyclic", parts),
        "IQN": Trial(name, {"step_size": 1.0}, 1, "cyclic"),
        "SVRG2": Trial(name, {"step_size": curved}, 1, "with-replacement", 10, whole_first=False),
        "SAG": Trial(name, {"step_size": flat}, 1, "with-replacement"),
        "AccSVRG": Trial(name, {"step_size": flat, "momentum": 0.85, "inner_passes": 5}, 5, "shuffled"),
        "IAG": Trial(name, {"step_size": flat}, 1, "cyclic"),
    }[label]


def growth_between_snapshots(m: int, d: int, seed: int) -> tuple[float, int]:
    """Return by what a visit of SVRG2 lengthens w - z far from the snapshot z, and the visits between two snapshots.

    There the rows' losses are flat, and the correction takes row j's curvature at z, H_j = x_j x_j' / 4, for one that it
    still has: v <- v - step (H - H_j) v, with the program's step. The mean factor is that of 4000 random visits.
    """
    problem, rng = problem_of(m, d, seed), np.random.default_rng(seed)
    trial = trial_of(problem, PAPER, "SVRG2")
    X = np.asarray(to_matrix(problem.rows), dtype=np.float64)
    H, step = X.T @ X / (4.0 * m) + problem.penalty.ridge() * np.eye(X.shape[1]), trial.options["step_size"]
    v, logs = np.asarray(rng.standard_normal(X.shape[1])), list[float]()
    for j in rng.integers(0, m, 4000):
        v /= np.linalg.norm(v)
        v -= step * (H @ v - 0.25 * X[j] * (X[j] @ v))
        logs.append(math.log(float(np.linalg.norm(v))))
    return math.exp(float(np.mean(logs[500:]))), m // trial.parts


def _why_svrg2_leaves(curves: Runs, values: dict[str, Value]) -> str:
    """Return a sentence for each pair, and set the numbers that another machine should find."""
    parts = []
    for m, d in PAIRS:
        factor, n_visits = growth_between_snapshots(m, d, 0)
        values[f"growth a visit far from the snapshot, SVRG2, {m}x{d}"] = Value(factor, relative=1e-6)
        largest = float(np.max(curves[PAPER, f"{m}x{d}", "SVRG2"].columns["gap"]))
        parts.append(
            f"for m = {m} by {factor:.2f} a visit, {factor**n_visits:.0e} in the {n_visits} visits to the next snapshot "
            f"(F − F* rises to {largest:.0e})"
        )
    return captions("ciag/fig1")["svrg2"].format(growth="; ".join(parts))


def run(context: Context) -> Outcome:
    """Run all methods on all pairs and seeds."""
    seeds, max_passes = range(N_SEEDS[context.size]), MAX_PASSES[context.size]
    plan = Plan(
        cases={_title(m, d, seed): (m, d, seed) for m, d in PAIRS for seed in seeds},
        labels=LABELS,
        problem=lambda case: problem_of(*case),
        trial=lambda _case, problem, kind, label: trial_of(problem, kind, label),
        limit=lambda _case, _label: max_passes,
        facts=find_minimum,
        seed=lambda case: int(case[-1]),
    )
    runs, _ = plan.run(context)
    needed: dict[tuple[str, int, int], dict[str, float]] = {}
    curves: Runs = {}
    for kind, (m, d) in itertools.product(LABELS, PAIRS):
        needed[kind, m, d] = {label: _passes(runs, kind, label, m, d, seeds) for label in LABELS[kind]}
        curves |= {(kind, f"{m}x{d}", label): runs[_title(m, d, 0), kind, label] for label in LABELS[kind]}
    said = captions("ciag/fig1")
    values = {
        f"passes, {label}, {m}x{d}, {kind}": Value(passes, relative=0.05, absolute=0.51)
        for (kind, m, d), row in needed.items()
        for label, passes in row.items()
    }
    why = _why_svrg2_leaves(curves, values)
    over = "One seed" if len(seeds) == 1 else f"Medians over {len(seeds)} seeds"
    return Outcome(
        drawings=[Drawing(name, said[name], _figure(runs, kind, max_passes)) for name, kind in _FIGURES.items()],
        tables=[_table(needed), curves_table("curves", HEADER, curves, "gap")],
        verdicts=_verdicts(needed),
        values=values,
        notes=[said["note"].format(max_passes=max_passes, over=over), why],
    )


def _title(m: int, d: int, seed: int) -> str:
    return f"{m}x{d}-{seed}"


def _passes(runs: Runs, kind: str, label: str, m: int, d: int, seeds: Sequence[int]) -> float:
    """Return the passes to the level, as the median over the seeds; NaN where one of them did not get there."""
    counts = [runs[_title(m, d, seed), kind, label].first("gap", LEVEL) for seed in seeds]
    return median(counts) if all(map(math.isfinite, counts)) else math.nan


def _figure(runs: Runs, kind: str, max_passes: int) -> Any:
    panels = []
    for m, d in PAIRS:
        lines = [Line(label, *runs[_title(m, d, 0), kind, label].gap_curve(), NAMES[label]) for label in LABELS[kind]]
        title, axis = f"m = {m}, d = {d}", "effective passes over the data"
        panels.append(Panel(title, axis, "F − F*", lines, x_limits=(0.0, min(50, max_passes)), y_limits=(1e-16, 10.0)))
    return panels_figure(panels, height=3.6)


def _table(needed: Mapping[Any, Mapping[str, float]]) -> Table:
    keys = [(kind, m, d) for m, d in PAIRS for kind in LABELS]
    header = ("method", *(f"m = {m}, d = {d}: {kind}" for kind, m, d in keys))
    rows = [[name, *(show(needed[key].get(name, math.nan)) for key in keys)] for name in NAMES]
    return Table("passes", f"Effective passes to F − F* ≤ {LEVEL:.0e}. A dash: not reached, or not run.", header, rows)


def _verdicts(needed: Mapping[Any, Mapping[str, float]]) -> list[Verdict]:
    first, second = ("A-CIAG", "CIAG", "NIM", "IQN", "SVRG2"), ("SAG", "AccSVRG", "IAG")
    tuned, automatic = (
        {f"m = {m}, d = {d}": {label: or_inf(n) for label, n in needed[kind, m, d].items()} for m, d in PAIRS}
        for kind in (PAPER, OURS)
    )
    return [
        compared(
            "NIM and IQN need the fewest passes",
            tuned,
            first,
            lambda row: max(row["NIM"], row["IQN"]) <= min(v for k, v in row.items() if k not in ("NIM", "IQN")),
        ),
        compared(
            "A-CIAG comes close to NIM (within a factor of 1.5)",
            tuned,
            ("A-CIAG", "NIM"),
            lambda row: row["A-CIAG"] <= 1.5 * row["NIM"],
        ),
        compared(
            "CIAG and SVRG2 need about the same (within a factor of 1.5)",
            tuned,
            ("CIAG", "SVRG2"),
            lambda row: max(row["CIAG"], row["SVRG2"]) <= 1.5 * min(row["CIAG"], row["SVRG2"]) < math.inf,
        ),
        compared(
            "All methods with curvature are ahead of all without",
            tuned,
            (*first, *second),
            lambda row: max(row[name] for name in first) < min(row[name] for name in second),
        ),
        *(
            no_more(
                f"{label} with its automatic step needs no more passes than with the program's constants",
                {case: (automatic[case][label], tuned[case][label]) for case in tuned},
                of_paper=False,
            )
            for label in ("A-CIAG", "CIAG")
        ),
    ]
