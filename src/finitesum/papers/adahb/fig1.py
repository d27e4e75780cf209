"""Figure 1 of the heavy-ball paper: the hinge loss on an l1 ball, F - F* of last iterates and of averages by epochs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets import find
from finitesum.papers.adahb import hinge
from finitesum.papers.adahb.hinge import LIKE, RUNS, last_problem, setting_of, tuned_steps
from finitesum.papers.claims import Verdict, compared, verdict
from finitesum.papers.data import missing
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Unit, Value
from finitesum.papers.runs import slope
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure

IN_PAPER = ("a9a", "w8a", "covtype.binary.scale", "ijcnn1", "rcv1", "real-sim")
QUICK = ("a9a", "ijcnn1")
N_SEEDS = {"quick": 3, "full": 5}
N_PASSES = {"quick": 5, "full": 10}

TUNED_STEPS, AUTOMATIC = "tuned", "automatic"
LAST = ("AdaHB, displacement", "HB, displacement", "NAG", "PSG, average")
AS_PRINTED = "AdaHB, displacement, Euclidean (as printed)"
#: The paper's figure, and what ours adds.
FIGURE = (*LAST, "PSG, last")
MORE = (*FIGURE, "PSG, linear decay", "HB, averaging", "AdaHB, averaging", AS_PRINTED)

_STYLES = {
    "AdaHB, displacement": "a-ciag",
    "HB, displacement": "ciag",
    "NAG": "saga",
    "PSG, average": "fg",
    "PSG, last": "afg",
    "PSG, linear decay": "iag",
    "HB, averaging": "ig",
    "AdaHB, averaging": "sag",
    AS_PRINTED: "newton",
}

#: Runs that rounding errors lead elsewhere: momentum on the displacement between two projections is not stable.
CHAOTIC = ("HB, displacement", "AdaHB, displacement", AS_PRINTED, "NAG")


def _units(names: Sequence[str], context: Context) -> Iterator[Unit]:
    place = context.data_dir
    for name in names:
        radius, most, *_ = setting_of(name)
        n_passes = min(most, N_PASSES[context.size])
        yield Unit(f"minimum-{name}", partial(_minimum, name, place, radius))
        for label in RUNS:
            for kind, step in ((TUNED_STEPS, tuned_steps(name)[label]), (AUTOMATIC, "auto")):
                for seed in range(N_SEEDS[context.size]):
                    work = partial(_do, name, place, label, step, n_passes, seed, radius)
                    yield Unit(f"{name}-{kind}-{label}-{seed}", work)


def _do(
    name: str, place: Path | None, label: str, step: float | str, n_passes: int, seed: int, _radius: float
) -> dict[str, Any]:
    objectives, used = hinge.values(last_problem(name, place), label, step, n_passes, seed)
    return {"objective": objectives, "step_size": used}


def _minimum(name: str, place: Path | None, _radius: float) -> dict[str, float]:
    return hinge.minimum(last_problem(name, place))


def _in_full(data_dir: Path | None) -> tuple[str, ...]:
    """Return the paper's data sets, with the subset of rcv1 where that is here and the whole is not."""
    has_subset_alone = find("rcv1", data_dir=data_dir) is None and find("rcv1.subset", data_dir=data_dir) is not None
    return tuple("rcv1.subset" if name == "rcv1" and has_subset_alone else name for name in IN_PAPER)


def run(context: Context) -> Outcome:
    """Run all methods with all seeds on the data sets that are there."""
    wanted = QUICK if context.is_quick else _in_full(context.data_dir)
    absent = missing(wanted, context.data_dir)
    names = [name for name in wanted if name not in absent]
    if not names:
        return Outcome(absent=absent)
    results = context.complete(list(_units(names, context)))
    last_problem.cache_clear()
    n_seeds = N_SEEDS[context.size]
    keys = itertools.product(names, (TUNED_STEPS, AUTOMATIC), RUNS)
    gaps = {key: _gaps(results, *key, n_seeds) for key in keys}
    figures = (
        ("fig1", "Figure 1: F − F* by epochs, steps tuned; means over the repeats.", FIGURE, TUNED_STEPS),
        ("fig1-more", "The same with more methods and forms; bands: least and largest.", MORE, TUNED_STEPS),
        ("fig1-automatic", "With automatic steps.", MORE, AUTOMATIC),
    )
    return Outcome(
        [Drawing(name, caption, _figure(gaps, names, labels, kind)) for name, caption, labels, kind in figures],
        [_table(gaps, results, names), _curves(gaps)],
        _verdicts(gaps, names),
        {
            f"F - F*, {label}, {name}, {kind}": Value(float(found[:, -1].mean()), 0.7 if label in CHAOTIC else 0.02)
            for (name, kind, label), found in gaps.items()
        },
        [_note(names, n_seeds)],
        absent,
        is_usual="rcv1" not in names,
    )


def _gaps(results: Mapping[str, Any], name: str, kind: str, label: str, n_seeds: int) -> Any:
    """Return F - F* by seed and pass."""
    low = results[f"minimum-{name}"]["minimum"]
    rows = [results[f"{name}-{kind}-{label}-{seed}"]["objective"] for seed in range(n_seeds)]
    return np.maximum(np.array(rows) - low, 1e-16)


def _figure(gaps: Mapping[Any, Any], names: Sequence[str], labels: Sequence[str], kind: str) -> Any:
    panels = []
    for name in names:
        lines = []
        for label in labels:
            found = gaps[name, kind, label]
            epochs = np.arange(1.0, found.shape[1] + 1.0)
            band = (found.min(axis=0), found.max(axis=0)) if labels == MORE else (None, None)
            lines.append(Line(label, epochs, found.mean(axis=0), _STYLES[label], *band))
        panels.append(Panel(name.partition(".binary")[0], "epochs", "F − F*", lines))
    return panels_figure(panels, n_columns=2, height=3.1)


def _rate(found: Any) -> float:
    """Return the slope of log(F - F*) in log(epochs)."""
    mean = found.mean(axis=0)
    return slope(np.log(np.arange(1.0, mean.size + 1.0)), np.log(mean))


def _table(gaps: Mapping[Any, Any], results: Mapping[str, Any], names: Sequence[str]) -> Table:
    header = ("data", "method", "tuned step", "F − F*", "slope", "automatic step", "F − F*", "slope")
    rows = []
    for name in names:
        for label in RUNS:
            cells = [name, label]
            for kind in (TUNED_STEPS, AUTOMATIC):
                found = gaps[name, kind, label]
                step = results[f"{name}-{kind}-{label}-0"]["step_size"]
                cells += [show(step), f"{found[:, -1].mean():.2e} ± {found[:, -1].std():.0e}", f"{_rate(found):.2f}"]
            rows.append(cells)
    known = "; ".join(f"{name} {results[f'minimum-{name}']['minimum']:.10f}" for name in names)
    caption = (
        "At the last epoch: mean and standard deviation over the repeats, and the slope of log(F − F*) in log(epochs). "
        f"F* by linear programming: {known}."
    )
    return Table("gaps", caption, header, rows)


def _curves(gaps: Mapping[Any, Any]) -> Table:
    rows = [
        [name, kind, label, seed, epoch + 1, value]
        for (name, kind, label), found in gaps.items()
        for (seed, epoch), value in np.ndenumerate(found)
    ]
    return Table("curves", "", ("data", "steps", "method", "seed", "epoch", "F - F*"), rows, on_page=False)


def _verdicts(gaps: Mapping[Any, Any], names: Sequence[str]) -> list[Verdict]:
    ends = {name: {label: float(gaps[name, TUNED_STEPS, label][:, -1].mean()) for label in RUNS} for name in names}
    rates = {name: _rate(gaps[name, TUNED_STEPS, LAST[0]]) for name in names}

    def claim(
        sentence: str, shown: Sequence[str], holds: Callable[[Mapping[str, float]], bool], of_paper: bool = False
    ) -> Verdict:
        return compared(sentence, ends, shown, holds, "", of_paper=of_paper, noisy=True)

    return [
        claim(
            "AdaHB's last iterate behaves like PSG's average and the last iterates of HB and NAG (all four within a "
            "factor of 4)",
            LAST,
            lambda row: max(row[label] for label in LAST) <= 4.0 * min(row[label] for label in LAST),
            of_paper=True,
        ),
        verdict(
            "AdaHB's last iterate comes down like 1/√t, or faster (slope at most -0.4)",
            names,
            lambda name: rates[name] <= -0.4,
            lambda name: f"slope {rates[name]:.2f}, by epochs",
            noisy=True,
        ),
        claim(
            "AdaHB as printed, with the Euclidean projection, comes as far as in its own metric (within a factor of 2)",
            (AS_PRINTED, LAST[0]),
            lambda row: row[AS_PRINTED] <= 2.0 * row[LAST[0]],
        ),
        claim(
            "PSG's last iterate is worse than its average",
            ("PSG, last", "PSG, average"),
            lambda row: row["PSG, last"] > row["PSG, average"],
        ),
        claim(
            "PSG with linear decay, which must know the number of epochs, is better than all of the paper's methods",
            ("PSG, linear decay", *FIGURE),
            lambda row: row["PSG, linear decay"] < min(row[label] for label in FIGURE),
        ),
    ]


def _note(names: Sequence[str], n_seeds: int) -> str:
    radii = ", ".join(f"{name} {setting_of(name).radius:g}" for name in names)
    more = " rcv1.subset stands for rcv1." if "rcv1.subset" in names else ""
    more += "".join(f" Steps for {name} are those of {LIKE[name]}." for name in names if name in LIKE)
    return (
        f"Radius of the ball: {radii}. One row a step, drawn with replacement; {n_seeds} repeats. Steps are the best "
        f"of a 1-3-10 grid, after two or three epochs of one repeat. AdaHB projects in its own metric, γ = 0.9, δ = "
        f"1e-8.{more}"
    )
