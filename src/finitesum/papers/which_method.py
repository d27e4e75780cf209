"""Which method when: one page for newcomers, drawn from what the other experiments measured."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from finitesum.papers.adahb import fig6
from finitesum.papers.adahb.hinge import RUNS
from finitesum.papers.ciag.real_data import AUTOMATIC, LABELS, MODERATE, TOL
from finitesum.papers.claims import Finding, Verdict, show
from finitesum.papers.experiment import Context, Experiment, Outcome, Table, Value

#: The experiments that it is drawn from, and their folders.
SOURCES = {
    "ciag/table2": "ciag-table2",
    "adahb/fig1": "adahb-fig1",
    "adahb/fig6": "adahb-fig6",
    "adahb/networks": "adahb-networks",
}

#: The commands behind the labels of Table 2.
_METHODS = {
    "A-CIAG": "a-ciag",
    "CIAG": "ciag",
    "NIM, inexact": "nim",
    "NIM, exact": 'nim with solver="exact"',
    "SAG": "sag",
    "IAG": "iag",
    "Lazy Newton": "lazy-newton",
}


class Ranking(NamedTuple):
    """Methods on several data sets, by a number of which less is better.

    Parameters
    ----------
    numbers
        By data set, then by method; infinite where a method did not get there.
    """

    numbers: Mapping[str, Mapping[str, float]]

    def ratios(self) -> dict[str, float]:
        """Return by method the geometric mean of its number over the best one's; infinite where it failed once."""
        methods = next(iter(self.numbers.values()))
        return {
            method: math.exp(
                sum(_log_ratio(row[method], min(row.values())) for row in self.numbers.values()) / len(self.numbers)
            )
            for method in methods
        }

    def best(self) -> str:
        """Return the method with the least ratio."""
        ratios = self.ratios()
        return min(ratios, key=lambda method: ratios[method])

    def failures(self, method: str) -> int:
        """Return on how many data sets a method did not get there."""
        return sum(math.isinf(row[method]) for row in self.numbers.values())

    def wins(self, method: str) -> int:
        """Return on how many data sets a method was the first."""
        return sum(row[method] == min(row.values()) < math.inf for row in self.numbers.values())


def _log_ratio(number: float, best: float) -> float:
    return math.log(number / best) if math.isfinite(number) and best > 0.0 else math.inf


def run(context: Context) -> Outcome:
    """Read what the other experiments left beside this one's folder."""
    found = {name: _read(context.folder.parent / slug / "result.json", context.size) for name, slug in SOURCES.items()}
    quick = " --quick" if context.is_quick else ""
    absent = {
        name: f"'finitesum reproduce {name}{quick} --out {context.folder.parent}' makes its part of this page."
        for name, result in found.items()
        if result is None
    }
    known = {name: result for name, result in found.items() if result is not None}
    tables, rows, verdicts, values = list[Table](), list[list[str]](), list[Verdict](), dict[str, Value]()
    if "ciag/table2" in known:
        _smooth(known["ciag/table2"], tables, rows, verdicts, values)
    if "adahb/fig1" in known:
        _nonsmooth(known["adahb/fig1"], tables, rows)
    if "adahb/fig6" in known:
        _worst_case(known["adahb/fig6"], rows)
    if "adahb/networks" in known:
        _networks(known["adahb/networks"], rows)
    if rows:
        header = ("your problem", "take", "because")
        caption = (
            "The short answer. Names are those of method= and of --solver; every step is automatic where none is named."
        )
        tables.insert(0, Table("which-method", caption, header, rows))
    partly = any(result["absent"] for result in known.values())
    return Outcome(
        tables=tables, verdicts=verdicts, values=values, notes=_NOTES, absent=absent, is_usual=not absent and not partly
    )


def _read(file: Path, size: str) -> dict[str, Any] | None:
    """Return the results in a file; None where there are none, or those of another size."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return dict(content) if content.get("size") == size else None


def _ranking(entries: Mapping[str, float | None], prefix: str, suffix: str, methods: Sequence[str]) -> Ranking:
    """Return the ranking of entries "prefix, method, data, suffix"."""
    numbers: dict[str, dict[str, float]] = {}
    for name, value in entries.items():
        for method in methods:
            start, end = f"{prefix}, {method}, ", f", {suffix}"
            if name.startswith(start) and name.endswith(end):
                number = math.inf if value is None or math.isnan(value) else float(value)
                numbers.setdefault(name[len(start) : -len(end)], {})[method] = number
    return Ranking({data: row for data, row in numbers.items() if len(row) == len(methods)})


def _smooth(
    result: Mapping[str, Any],
    tables: list[Table],
    rows: list[list[str]],
    verdicts: list[Verdict],
    values: dict[str, Value],
) -> None:
    labels = LABELS[AUTOMATIC]
    passes = _ranking(result["values"], "passes", AUTOMATIC, labels)
    exact = _ranking(result["timings"], f"seconds to {TOL:.0e}", AUTOMATIC, labels)
    moderate = _ranking(result["timings"], f"seconds to {MODERATE:.0e}", AUTOMATIC, labels)
    if not passes.numbers:
        return
    situations = {
        f"smooth loss, the exact optimum ({TOL:.0e}), in the least time": exact,
        f"smooth loss, a moderate accuracy ({show(MODERATE)}), in the least time": moderate,
        "smooth loss, the fewest passes over the data (rows on a disk)": passes,
    }
    for situation, ranking in situations.items():
        rows.append([situation, _METHODS[ranking.best()], _reason(ranking)])
    frugal = Ranking({data: {m: row[m] for m in ("SAG", "IAG")} for data, row in moderate.numbers.items()})
    rows.append(
        [
            f"smooth loss, a moderate accuracy ({show(MODERATE)}), d² numbers do not fit into the memory",
            _METHODS[frugal.best()],
            _reason(frugal),
        ]
    )
    header = ("data", *(f"{label}: passes / s" for label in labels))
    cells = [
        [data, *(_both(passes.numbers[data][m], exact.numbers[data][m]) for m in labels)] for data in passes.numbers
    ]
    caption = f"Logistic regression to a largest gradient entry of {TOL:.0e}, automatic steps. A dash: not reached."
    tables.append(Table("smooth", caption, header, cells))
    findings = tuple(
        Finding(
            data, row["A-CIAG"] <= 3.0 * min(row.values()), f"{show(row['A-CIAG'])}, best {show(min(row.values()))}"
        )
        for data, row in passes.numbers.items()
    )
    claim = "A-CIAG with nothing set reaches the optimum in at most three times the passes of the best method"
    verdicts.append(Verdict(claim, findings, of_paper=False))
    if not result["absent"]:
        values["data sets of smooth losses"] = Value(len(passes.numbers))


def _reason(ranking: Ranking) -> str:
    """Return the evidence for the best of a ranking: how often it was first, and how far the others are behind."""
    best, ratios = ranking.best(), ranking.ratios()
    others = sorted((ratio, method) for method, ratio in ratios.items() if method != best)
    others_shown = ", ".join(
        f"{m.replace(', ', ' ')} {f'{ratio:.2g}' if math.isfinite(ratio) else f'(failed on {ranking.failures(m)})'}"
        for ratio, m in others[:3]
    )
    own, failed = f"{ratios[best]:.2g} times the best in the mean", f"though it failed on {ranking.failures(best)}"
    return (
        f"first on {ranking.wins(best)} of {len(ranking.numbers)} data sets, "
        f"{own if math.isfinite(ratios[best]) else failed}; then {others_shown}"
    )


def _both(passes: float, seconds: float) -> str:
    return f"{show(passes)} / {show(seconds)}" if math.isfinite(passes) else "–"


def _nonsmooth(result: Mapping[str, Any], tables: list[Table], rows: list[list[str]]) -> None:
    labels = [label for label in RUNS if "Euclidean" not in label]
    ranking = _ranking(result["values"], "F - F*", AUTOMATIC, labels)
    if not ranking.numbers:
        return
    situation = "hinge loss on an l1 ball, the number of passes known in advance"
    rows.append([situation, _by_label(ranking.best()), _reason(ranking)])
    anytime = Ranking(
        {
            data: {label: value for label, value in row.items() if "linear decay" not in label}
            for data, row in ranking.numbers.items()
        }
    )
    rows.append(["the same, to be stopped at any time", _by_label(anytime.best()), _reason(anytime)])
    header = ("data", *labels)
    cells = [[data, *(f"{row[label]:.1e}" for label in labels)] for data, row in ranking.numbers.items()]
    tables.append(
        Table("nonsmooth", "Hinge loss on an l1 ball: F − F* at the last epoch, automatic steps.", header, cells)
    )


def _by_label(label: str) -> str:
    name, options, _ = RUNS[label]
    given = ", ".join(f'{key}="{value}"' for key, value in options.items())
    return f"{name} with {given}" if given else name


def _worst_case(result: Mapping[str, Any], rows: list[list[str]]) -> None:
    outcome = {verdict["claim"]: verdict for verdict in result["verdicts"]}
    hb, psg = (
        outcome[claim]["findings"][0]["evidence"] for claim in (fig6.HB_HAS_NO_LOGARITHM, fig6.PSG_HAS_A_LOGARITHM)
    )
    rows.append(
        [
            "nonsmooth loss, to be stopped at any time, and the last iterate must be good in the worst case",
            "hb",
            f"On Harvey's function HB keeps to the rate 1/√T: {hb}. PSG does not: {psg}",
        ]
    )


def _networks(result: Mapping[str, Any], rows: list[list[str]]) -> None:
    claims = [v for v in result["verdicts"] if "lower training loss" in v["claim"] and "√epoch" not in v["claim"]]
    control = [v for v in result["verdicts"] if "lower training loss" in v["claim"] and "√epoch" in v["claim"]]
    won, fair = (sum(v["outcome"] == "holds" for v in group) for group in (claims, control))
    rows.append(
        [
            "a small network, little time for tuning",
            "finitesum.torch.AdaHB(lr=0.01, steps_per_epoch=len(loader))",
            f"a lower training loss in {won} of {len(claims)} comparisons with constant steps, in {fair} of "
            f"{len(control)} where the others get the same decay",
        ]
    )


_NOTES = (
    'method="auto" makes this choice by itself. The advice comes from the other experiments of this folder; a '
    "ratio is the geometric mean over the data sets of a method's seconds (passes, gaps) over those of the best one. A "
    "method failed where it did not reach the accuracy in the passes it was given.",
    "Seconds depend on the machine, and on what else it does.",
)

EXPERIMENT = Experiment(
    name="which-method",
    title="Which method when",
    source="",
    section="",
    setting=("For newcomers: what to take, and the numbers behind the advice.",),
    run=run,
)
