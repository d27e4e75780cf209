"""Figure 6 of the heavy-ball paper: the function on which the subgradient method's last iterate is worst."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.methods import METHODS
from finitesum.papers.claims import Finding, Verdict, against, single
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Unit, Value, captions
from finitesum.papers.runs import slope
from finitesum.problems.callables import SubgradientProblem, harvey
from finitesum.reporting.plots import Line, Panel, panels_figure

#: The paper's constants: c of the function and of PSG's step c / sqrt(t), alpha 8 for HB and 0.08 for AdaHB, gamma 0.9.
C = 2.0

PSG, MEAN = "PSG c/sqrt(t), last", "PSG c/sqrt(t), average"
HB, ADAHB = "HB alpha=8, displacement", "AdaHB alpha=0.08, displacement"

#: By the label, which begins with the name of the method: its options, and the style in the figures, of which the first
#: three are the paper's; empty where they do not show it.
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    PSG: ({"step_size": C}, "fg"),
    HB: ({"step_size": 8.0, "form": "displacement"}, "ciag"),
    ADAHB: ({"step_size": 0.08, "form": "displacement"}, "a-ciag"),
    f"{ADAHB}, Euclidean": ({"step_size": 0.08, "form": "displacement", "projection": "euclidean"}, ""),
    "HB alpha=8, averaging": ({"step_size": 8.0, "form": "averaging"}, "ig"),
    "AdaHB alpha=0.08, averaging": ({"step_size": 0.08, "form": "averaging"}, "sag"),
    "NAG alpha=8": ({"step_size": 8.0}, "saga"),
    "NAG alpha=16": ({"step_size": 16.0}, ""),
    MEAN: ({"step_size": C, "output": "average"}, "nim"),
    "PSG c/sqrt(t), suffix": ({"step_size": C, "output": "suffix"}, ""),
    "PSG 2c/sqrt(T), linear decay": ({"step_size": 2.0 * C, "schedule": "linear"}, "iag"),
    "PSG 1/sqrt(t), last": ({"step_size": 1.0}, ""),
}
_STYLES = {label: style for label, (_, style) in RUNS.items() if style}

PSG_HAS_A_LOGARITHM = "PSG's last iterate has the extra factor log T, and stays above its lower bound"
HB_HAS_NO_LOGARITHM = "HB's last iterate has no extra factor log T (f(w_T) √T rises by less than a tenth)"

#: The methods that are run for other T.
GROWING = (PSG, HB, ADAHB, MEAN)
STEPS = (1000, 5000)
GROWTH = {"quick": (125, 250, 500, 1000, 2000, 4000), "full": (125, 250, 500, 1000, 2000, 4000, 8000, 16000)}
N_POINTS = 100


@cache
def problem_of(n_steps: int) -> SubgradientProblem:
    """Return Harvey's function for a number of steps."""
    return harvey(n_steps, C)


def trajectory(label: str, n_steps: int, n_points: int) -> dict[str, Any]:
    """Return f(w_t) at `n_points` evenly spread t, the last one T, from w_1 = 0; and f(w_{T+1}) as "after"."""
    problem = problem_of(n_steps)
    options, _ = RUNS[label]
    horizon = {"horizon": n_steps} if options.get("schedule") == "linear" else {}
    method = METHODS[label.partition(" ")[0].lower()](**options, **horizon)
    times = np.unique(np.linspace(n_steps / n_points, n_steps, n_points).round().astype(np.int64))
    state = method.init(problem, np.zeros(n_steps))
    values, t = [], 1
    for until in times.tolist():
        state = method.run_pass(problem, state, np.zeros(until - t, dtype=np.int64)) if until > t else state
        t = until
        values.append(problem.value(state.x))
    after = problem.value(method.run_pass(problem, state, np.zeros(1, dtype=np.int64)).x)
    return {"t": times.tolist(), "value": values, "after": after}


def lower_bound(n_steps: int) -> float:
    """Return log T / (32 c sqrt(T)), which PSG's f(w_{T+1}) never falls below."""
    return math.log(n_steps) / (32.0 * C * math.sqrt(n_steps))


def _units(size: str) -> Iterator[Unit]:
    for label, n_steps in itertools.product(RUNS, STEPS):
        yield Unit(f"{label}-{n_steps}", partial(trajectory, label, n_steps, N_POINTS))
    for label, n_steps in itertools.product(GROWING, GROWTH[size]):
        yield Unit(f"growth-{label}-{n_steps}", partial(trajectory, label, n_steps, 1))


def _end(results: Mapping[str, Any], label: str, n_steps: int) -> float:
    """Return f(w_T)."""
    return float(results[f"{label}-{n_steps}"]["value"][-1])


def run(context: Context) -> Outcome:
    """Run all methods for T = 1000 and 5000, and four of them for other T."""
    results = context.complete(list(_units(context.size)))
    sizes = np.array(GROWTH[context.size], dtype=np.float64)
    grown = {  # f(w_T) sqrt(T)
        label: np.sqrt(sizes) * [_end(results, f"growth-{label}", n) for n in GROWTH[context.size]] for label in GROWING
    }
    values = {
        f"f(w_T), {label}, T={n}": Value(_end(results, label, n), relative=0.05 if "AdaHB" in label else 1e-6)
        for n in STEPS
        for label in RUNS
    }
    values["growth of f(w_T) sqrt(T) by log T, PSG"] = Value(slope(np.log(sizes), grown[PSG]), relative=0.01)
    lines = [Line(_shown(label), sizes, scaled, style=_STYLES[label]) for label, scaled in grown.items()]
    growth = Panel("growth with T", "T", "f(w_T) √T", lines, x_scale="log", y_scale="linear", y_limits=(0.0, None))
    panels = [*_panels(results, tuple(_STYLES)), growth]
    figures = {
        "fig6": panels_figure(_panels(results, tuple(_STYLES)[:3]), height=3.3),
        "fig6-more": panels_figure(panels, n_columns=3, height=3.2, width=3.3),
    }
    drawings = [Drawing(name, captions("adahb/fig6")[name], figure) for name, figure in figures.items()]
    return Outcome(drawings, [_table(results), _curves(results)], _verdicts(results, sizes, grown), values)


def _panels(results: Mapping[str, Any], labels: Sequence[str]) -> list[Panel]:
    panels = []
    for n_steps in STEPS:
        lines = []
        for label in labels:
            found = results[f"{label}-{n_steps}"]
            x, y = np.array(found["t"], dtype=np.float64), np.array(found["value"])
            lines.append(Line(_shown(label), x, y, style=_STYLES[label]))
        bound = np.full(2, lower_bound(n_steps))
        lines.append(Line("log T / (32 c √T)", np.array([1.0, n_steps]), bound, "guide"))
        panels.append(Panel(f"T = {n_steps}", "t", "f(w_t)", lines, y_scale="linear", y_limits=(0.0, None)))
    return panels


def _shown(label: str) -> str:
    """Return a label as figures and tables show it."""
    return label.replace("alpha=", "α = ").replace("sqrt(t)", "√t").replace("sqrt(T)", "√T")


def _table(results: Mapping[str, Any]) -> Table:
    header = ("method", *(f"{what}, T = {n}" for n in STEPS for what in ("f(w_T)", "f(w_T+1)")))
    rows: list[list[str]] = []
    for label in RUNS:
        found = [results[f"{label}-{n}"] for n in STEPS]
        rows.append([_shown(label), *(f"{v:.6f}" for one in found for v in (one["value"][-1], one["after"]))])
    rows.append(["lower bound for PSG, last", *(cell for n in STEPS for cell in ("–", f"{lower_bound(n):.6f}"))])
    return Table("values", "The value at the last step; f* = 0.", header, rows)


def _curves(results: Mapping[str, Any]) -> Table:
    rows = [
        [label, n, t, value]
        for n in STEPS
        for label in RUNS
        for t, value in zip(results[f"{label}-{n}"]["t"], results[f"{label}-{n}"]["value"], strict=True)
    ]
    return Table("curves", "", ("method", "T", "t", "f(w_t)"), rows, on_page=False)


def _verdicts(results: Mapping[str, Any], sizes: Vector, grown: Mapping[str, Vector]) -> list[Verdict]:
    def below(claim: str, mine: str, theirs: str, of_paper: bool = True) -> Verdict:
        pairs = {n: (_end(results, mine, n), _end(results, theirs, n)) for n in STEPS}
        findings = (Finding(f"T = {n}", a < b, against(a, b, "")) for n, (a, b) in pairs.items())
        return Verdict(claim, tuple(findings), of_paper)

    psg_slope, hb_rise = slope(np.log(sizes), grown[PSG]), float(grown[HB][-1] / grown[HB][0] - 1.0)
    span = f"T = {sizes[0]:.0f} to {sizes[-1]:.0f}"
    straight = float(np.corrcoef(np.log(sizes), grown[PSG])[0, 1])
    above = all(results[f"{PSG}-{n}"]["after"] >= lower_bound(n) for n in STEPS)
    rises = f"f(w_T) √T rises by {psg_slope:.4f} for a unit of log T (correlation {straight:.4f}), {span}"
    return [
        below("HB ends below PSG", HB, PSG),
        below("AdaHB ends below PSG", ADAHB, PSG),
        single(PSG_HAS_A_LOGARITHM, psg_slope > 0.0 and straight > 0.99 and above, rises),
        single(HB_HAS_NO_LOGARITHM, hb_rise < 0.1, f"f(w_T) √T rises by {100.0 * hb_rise:.1f} %, {span}"),
        below(
            "The order of the curves does not depend on the constants: PSG with half its step stays above HB",
            HB,
            "PSG 1/sqrt(t), last",
            of_paper=False,
        ),
        below("HB's last iterate is better than PSG's average", HB, MEAN, of_paper=False),
    ]
