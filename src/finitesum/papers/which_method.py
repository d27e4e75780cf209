"""Which method when: one page for newcomers, drawn from what the other experiments measured."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from finitesum.papers.adahb import fig6
from finitesum.papers.adahb.fig1 import RUNS
from finitesum.papers.ciag.real_data import AUTOMATIC, LABELS, MODERATE, NAMES, TOL
from finitesum.papers.claims import Finding, Verdict
from finitesum.papers.experiment import Context, Outcome, Table, Value, read_figures
from finitesum.reporting.files import show

#: The commands behind the labels of Table 2.
_METHODS = {**NAMES, "NIM, exact": 'nim with solver="exact"'}


class Ranking(NamedTuple):
    """Methods on several data sets, by a number of which less is better."""

    numbers: Mapping[str, Mapping[str, float]]  # by data set, then by method; infinite where one did not get there

    def of(self, methods: Sequence[str]) -> "Ranking":
        """Return the ranking of some of the methods."""
        return Ranking({data: {method: row[method] for method in methods} for data, row in self.numbers.items()})

    def ratios(self) -> dict[str, float]:
        """Return by method the geometric mean of its number over the best one's; infinite where it failed once."""

        def log_ratio(number: float, best: float) -> float:
            return math.log(number / best) if math.isfinite(number) and best > 0.0 else math.inf

        rows = [(row, min(row.values())) for row in self.numbers.values()]
        return {method: math.exp(fmean(log_ratio(row[method], best) for row, best in rows)) for method in rows[0][0]}

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


class _Page(NamedTuple):
    """What the page is made of, as it grows."""

    rows: list[tuple[str, str, str]]
    tables: list[Table]
    verdicts: list[Verdict]
    values: dict[str, Value]


def run(context: Context) -> Outcome:
    """Read what the other experiments left beside this one's folder."""
    parts = {"ciag/table2": _smooth, "adahb/fig1": _nonsmooth, "adahb/fig6": _worst_case, "adahb/networks": _networks}
    folder, quick, page = context.folder.parent, " --quick" if context.is_quick else "", _Page([], [], [], {})
    absent, is_usual = dict[str, str](), True
    for name, part in parts.items():
        result = read_figures(folder / name.replace("/", "-") / "result.json")
        if result is None or result.get("size") != context.size:
            is_usual = False
            absent[name] = f"'finitesum reproduce {name}{quick} --out {folder}' makes its part of this page."
        else:
            part(result, page)
            is_usual = is_usual and not result["absent"]
    if page.rows:
        named = "Names are those of method= and of --solver; every step is automatic where none is named."
        header = ("your problem", "take", "because")
        page.tables.insert(0, Table("which-method", f"The short answer. {named}", header, page.rows))
    return Outcome((), page.tables, page.verdicts, page.values, (), absent, is_usual)


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


def _smooth(result: Mapping[str, Any], page: _Page) -> None:
    labels = LABELS[AUTOMATIC]
    passes = _ranking(result["values"], "passes", AUTOMATIC, labels)
    times = result["timings"]
    exact, moderate = (_ranking(times, f"seconds to {level:.0e}", AUTOMATIC, labels) for level in (TOL, MODERATE))
    if not passes.numbers:
        return
    roughly = f"smooth loss, a moderate accuracy ({show(MODERATE)})"
    situations = {
        f"smooth loss, the exact optimum ({TOL:.0e}), in the least time": exact,
        f"{roughly}, in the least time": moderate,
        "smooth loss, the fewest passes over the data (rows on a disk)": passes,
        f"{roughly}, d² numbers do not fit into the memory": moderate.of(("SAG", "IAG")),
    }
    page.rows.extend((situation, _METHODS[r.best()], _reason(r)) for situation, r in situations.items())
    header = ("data", *(f"{label}: passes / s" for label in labels))
    cells = [
        [data, *(f"{show(row[m])} / {show(exact.numbers[data][m])}" if row[m] < math.inf else "–" for m in labels)]
        for data, row in passes.numbers.items()
    ]
    caption = f"Logistic regression to a largest gradient entry of {TOL:.0e}, automatic steps. A dash: not reached."
    page.tables.append(Table("smooth", caption, header, cells))
    best = {data: (row["A-CIAG"], min(row.values())) for data, row in passes.numbers.items()}
    claim = "A-CIAG with nothing set reaches the optimum in at most three times the passes of the best method"
    findings = (Finding(data, a <= 3.0 * b, f"{show(a)}, best {show(b)}") for data, (a, b) in best.items())
    page.verdicts.append(Verdict(claim, tuple(findings), of_paper=False))
    if not result["absent"]:
        page.values["data sets of smooth losses"] = Value(len(passes.numbers))


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


def _nonsmooth(result: Mapping[str, Any], page: _Page) -> None:
    labels = [label for label in RUNS if "Euclidean" not in label]
    ranking = _ranking(result["values"], "F - F*", AUTOMATIC, labels)
    if not ranking.numbers:
        return
    anytime = ranking.of([label for label in labels if "linear decay" not in label])
    known = "hinge loss on an l1 ball, the number of passes known in advance"
    page.rows.append((known, _by_label(ranking.best()), _reason(ranking)))
    page.rows.append(("the same, to be stopped at any time", _by_label(anytime.best()), _reason(anytime)))
    cells = [[data, *(f"{row[label]:.1e}" for label in labels)] for data, row in ranking.numbers.items()]
    caption = "Hinge loss on an l1 ball: F − F* at the last epoch, automatic steps."
    page.tables.append(Table("nonsmooth", caption, ("data", *labels), cells))


def _by_label(label: str) -> str:
    method = RUNS[label]
    given = ", ".join(f'{key}="{value}"' for key, value in method.options.items())
    return f"{method.name} with {given}" if given else method.name


def _worst_case(result: Mapping[str, Any], page: _Page) -> None:
    found = {entry["claim"]: entry["findings"] for entry in result["verdicts"]}
    hb, psg = (found[claim][0]["evidence"] for claim in (fig6.HB_HAS_NO_LOGARITHM, fig6.PSG_HAS_A_LOGARITHM))
    situation = "nonsmooth loss, to be stopped at any time, and the last iterate must be good in the worst case"
    page.rows.append((situation, "hb", f"On Harvey's function HB keeps to the rate 1/√T: {hb}. PSG does not: {psg}"))


def _networks(result: Mapping[str, Any], page: _Page) -> None:
    outcomes = {v["claim"]: v["outcome"] for v in result["verdicts"] if "lower training loss" in v["claim"]}
    control, claims = ([o for c, o in outcomes.items() if ("√epoch" in c) is decays] for decays in (True, False))
    if not claims:
        return

    def share(outcomes: Sequence[str]) -> str:
        won, lost = (sum(outcome == word for outcome in outcomes) for word in ("holds", "does not hold"))
        return f"in {won} of {len(outcomes)} comparisons (in {lost} a higher one, {len(outcomes) - won - lost} not decided)"

    reason = f"over seeds, by their intervals: a lower training loss than with constant steps {share(claims)}"
    if control:
        reason += f", and {share(control)} where the others get the same decay"
    take = "finitesum.torch.AdaHB(lr=0.01, steps_per_epoch=len(loader))"
    if 2 * sum(outcome == "holds" for outcome in claims) <= len(claims):
        take = "the optimizer you know, with steps that decay: by these runs no one is better"
    page.rows.append(("a small network, little time for tuning", take, reason))
