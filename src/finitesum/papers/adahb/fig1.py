"""Figure 1 of the heavy-ball paper: the hinge loss on an l1 ball, F - F* of last iterates and of averages by epochs.

The data sets, the methods and their steps; then the runs, and the page.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.constraints import L1Ball
from finitesum.datasets import find
from finitesum.evaluation.lines import objective
from finitesum.methods import METHODS
from finitesum.methods.newton.linear_program import reference_optimum
from finitesum.papers.claims import Verdict, compared, verdict
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Unit, Value, captions, load, missing
from finitesum.papers.runs import slope
from finitesum.problems.linear import Problem
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure
from finitesum.running.driver import minimize
from finitesum.running.sampling import order_of_pass

CAPTIONS = captions("adahb/fig1")
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

#: Runs that rounding errors lead elsewhere: momentum on the displacement between two projections is not stable.
CHAOTIC = ("HB, displacement", "AdaHB, displacement", AS_PRINTED, "NAG")


class Setting(NamedTuple):
    """How methods are run on a data set."""

    radius: float
    n_passes: int
    n_tuning: int  # passes with which steps were tuned
    is_wide: bool  # the rows are wide and sparse: the benchmark runs only methods with deferred projections
    # The tuned steps in the order of `RUNS`: the best of a 1-3-10 grid around the automatic one, by seed 0 alone, as found
    # by `best_step` of benchmarks/heavy_ball.py.
    steps: tuple[float, ...]


SETS = {
    "a9a": Setting(10.0, 10, 3, False, (1.0, 1.0, 3.0, 1.0, 0.3, 1.0, 0.3, 0.3, 0.03, 0.03)),
    "w8a": Setting(10.0, 10, 3, False, (0.3, 0.3, 1.0, 0.3, 0.3, 0.3, 0.03, 0.03, 0.03, 0.03)),
    "ijcnn1": Setting(10.0, 10, 3, False, (1.0, 1.0, 3.0, 1.0, 3.0, 10.0, 0.3, 0.3, 0.1, 0.1)),
    "covtype.binary.scale": Setting(10.0, 4, 2, False, (0.3, 0.3, 1.0, 0.3, 0.3, 1.0, 0.1, 0.1, 0.1, 0.1)),
    "rcv1.subset": Setting(100.0, 8, 3, True, (10.0, 10.0, 30.0, 10.0, 10.0, 10.0, 0.1, 0.1, 0.03, 0.03)),
}


class Method(NamedTuple):
    """A method with its options, and how its runs are drawn."""

    name: str
    options: dict[str, Any]
    is_deferred: bool  # whether it has deferred projections on the l1 ball
    style: str = ""  # of a method of the other paper; empty where no figure shows it


RUNS = {
    "PSG, last": Method("psg", {}, True, "afg"),
    "PSG, average": Method("psg", {"output": "average"}, True, "fg"),
    "PSG, linear decay": Method("psg", {"schedule": "linear"}, True, "iag"),
    "HB, displacement": Method("hb", {"form": "displacement"}, False, "ciag"),
    "HB, averaging": Method("hb", {"form": "averaging"}, True, "ig"),
    "NAG": Method("nag", {}, False, "saga"),
    "AdaHB, displacement": Method("adahb", {"form": "displacement"}, False, "a-ciag"),
    "AdaHB, averaging": Method("adahb", {"form": "averaging"}, True, "sag"),
    AS_PRINTED: Method("adahb", {"form": "displacement", "projection": "euclidean"}, False, "newton"),
    "AdaHB, averaging, Euclidean": Method("adahb", {"form": "averaging", "projection": "euclidean"}, True),
}

#: Data that were not there when steps were tuned: radius and steps are those of data of the same kind.
LIKE = {"rcv1": "rcv1.subset", "real-sim": "rcv1.subset"}


def setting_of(name: str) -> Setting:
    """Return how methods are run on a data set."""
    return SETS[LIKE.get(name, name)]


@lru_cache(maxsize=1)
def hinge_problem(name: str, data_dir: Path | None = None) -> Problem:
    """Return the mean hinge loss on an l1 ball, a component for each row."""
    data = load(name, data_dir)
    ball = L1Ball(setting_of(name).radius)
    return Problem.linear(data.rows, data.targets(), loss="hinge", constraint=ball, batch_size=1)


def values(problem: Problem, label: str, step_size: float | str, n_passes: int, seed: int) -> tuple[list[float], float]:
    """Return F after each pass, and the step size that was used."""
    options = {**RUNS[label].options, "step_size": step_size}
    if options.get("schedule") == "linear":
        options["horizon"] = n_passes
    method = METHODS[RUNS[label].name](**options)
    state = method.init(problem, np.zeros(problem.dim))
    objectives = []
    for k in range(n_passes):
        state = method.run_pass(problem, state, order_of_pass("with-replacement", seed, k, problem.n_components))
        objectives.append(objective(problem, state.x))
    return objectives, float(state.step_size)


def minimum(problem: Problem, time_limit: float | None = None) -> dict[str, float]:
    """Return F*, a lower bound of it, and the seconds that it took, by a linear program around the end of a run.

    Where the time is up, they are infinite.
    """
    options = {"schedule": "linear", "horizon": 10}
    near = minimize(problem, method="psg", options=options, max_iter=10, tol=0.0, measure_every=0)
    try:
        found = reference_optimum(problem, start=near.x, time_limit=time_limit)
    except RuntimeError:
        return {"minimum": math.inf, "lower_bound": -math.inf, "seconds": math.nan}
    return {"minimum": found.value, "lower_bound": found.lower_bound, "seconds": found.seconds}


def _units(names: Sequence[str], context: Context) -> Iterator[Unit]:
    place = context.data_dir
    for name in names:
        radius, most, *_, steps = setting_of(name)
        n_passes = min(most, N_PASSES[context.size])
        yield Unit(f"minimum-{name}", partial(_minimum, name, place, radius))
        for label, tuned in zip(RUNS, steps, strict=True):
            for kind, step in ((TUNED_STEPS, tuned), (AUTOMATIC, "auto")):
                for seed in range(N_SEEDS[context.size]):
                    work = partial(_do, name, place, label, step, n_passes, seed, radius)
                    yield Unit(f"{name}-{kind}-{label}-{seed}", work)


def _do(
    name: str, place: Path | None, label: str, step: float | str, n_passes: int, seed: int, _radius: float
) -> dict[str, Any]:
    objectives, used = values(hinge_problem(name, place), label, step, n_passes, seed)
    return {"objective": objectives, "step_size": used}


def _minimum(name: str, place: Path | None, _radius: float) -> dict[str, float]:
    return minimum(hinge_problem(name, place))


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
    hinge_problem.cache_clear()
    n_seeds = N_SEEDS[context.size]
    gaps = {}  # F - F* by seed and pass
    for name, kind, label in itertools.product(names, (TUNED_STEPS, AUTOMATIC), RUNS):
        found = [results[f"{name}-{kind}-{label}-{seed}"]["objective"] for seed in range(n_seeds)]
        gaps[name, kind, label] = np.maximum(np.array(found) - results[f"minimum-{name}"]["minimum"], 1e-16)
    figures = {
        "fig1": _figure(gaps, names, FIGURE, TUNED_STEPS),
        "fig1-more": _figure(gaps, names, MORE, TUNED_STEPS),
        "fig1-automatic": _figure(gaps, names, MORE, AUTOMATIC),
    }
    return Outcome(
        [Drawing(name, CAPTIONS[name], figure) for name, figure in figures.items()],
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


def _figure(gaps: Mapping[Any, Any], names: Sequence[str], labels: Sequence[str], kind: str) -> Any:
    panels = []
    for name in names:
        lines = []
        for label in labels:
            found = gaps[name, kind, label]
            epochs = np.arange(1.0, found.shape[1] + 1.0)
            band = (found.min(axis=0), found.max(axis=0)) if labels == MORE else (None, None)
            lines.append(Line(label, epochs, found.mean(axis=0), RUNS[label].style, *band))
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
    return Table("gaps", CAPTIONS["gaps"].format(known=known), header, rows)


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
    return CAPTIONS["note"].format(radii=radii, n_seeds=n_seeds) + more
