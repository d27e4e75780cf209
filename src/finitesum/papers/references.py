"""Compares what came out with recorded values: `references.json`, by experiment and size.

Recorded are the outcomes of verdicts that do not rest on seconds, and the values that an experiment names, each with the
distance at which another machine may find it: rounding errors differ between processors, and a pass count jumps by one
where a run ends near a threshold.
"""

import json
import math
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.papers.experiment import Outcome, Size, Value
from finitesum.reporting.files import write_text


class Check(NamedTuple):
    """What a comparison found."""

    n_compared: int  # values and verdicts that have a recorded counterpart
    differences: tuple[str, ...]  # a sentence for each that differs
    n_missing: int  # recorded ones that this run has not, because its data is not that of the record

    @property
    def sentence(self) -> str:
        """What it found, in words."""
        if self.n_compared + self.n_missing == 0:
            return "Nothing is recorded for this experiment and size, so that nothing was compared."
        if self.differences:
            return f"Differs from the recorded values: {' '.join(self.differences)}"
        rest = ""
        if self.n_missing:
            rest = f"; {self.n_missing} more could not be compared, because the data is not that of the record"
        if self.n_compared == 1:
            return f"The one value or verdict that is recorded was found again{rest}."
        return f"All {self.n_compared} values and verdicts agree with the recorded ones{rest}."


def recorded(name: str, size: Size) -> dict[str, Any]:
    """Return the recorded values of an experiment: "verdicts" by claim and "values" by name; empty ones where none are."""
    text = resources.files("finitesum.papers").joinpath("references.json").read_text(encoding="utf-8")
    found = json.loads(text).get(name, {}).get(size, {})
    return {"verdicts": found.get("verdicts", {}), "values": found.get("values", {})}


def check(outcome: Outcome, references: Mapping[str, Any]) -> Check:
    """Return how an outcome compares with recorded values."""
    is_whole = outcome.is_usual and not outcome.absent
    differences: list[str] = []
    n_compared = n_missing = 0
    for key, reference in references["values"].items():
        value = outcome.values.get(key)
        if value is None:
            n_missing += 1
            if is_whole:
                differences.append(f"{key} is recorded, but was not found.")
            continue
        n_compared += 1
        expected = math.nan if reference is None else float(reference)
        if not agrees(value, expected):
            within = value.absolute + value.relative * abs(expected)
            differences.append(f"{key} is {value.value:.6g}, recorded is {expected:.6g} (within {within:.2g}).")
    verdicts = references["verdicts"]
    if not is_whole:  # the cases are not those that were recorded
        return Check(n_compared, tuple(differences), n_missing + len(verdicts))
    outcomes = {verdict.claim: verdict.outcome for verdict in outcome.verdicts}
    differences += [
        f"{claim!r}: {outcomes.get(claim)}, recorded is {expected}."
        for claim, expected in verdicts.items()
        if outcomes.get(claim) != expected
    ]
    return Check(n_compared + len(verdicts), tuple(differences), n_missing)


def agrees(value: Value, expected: float) -> bool:
    """Return whether a value agrees with the recorded one."""
    return bool(np.isclose(value.value, expected, value.relative, value.absolute, equal_nan=True))


def record(path: Path, name: str, size: Size, outcome: Outcome) -> None:
    """Write an outcome into a file of recorded values, in place of what it has of this experiment and size.

    Where data is absent, the values of the rest are recorded, and no verdicts, which depend on all cases. A ValueError says
    that the cases are not the usual ones, or that data is absent of which there are recorded values or verdicts.
    """
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    old = known.get(name, {}).get(size, {"verdicts": {}, "values": {}})
    loses = bool(outcome.absent) and (bool(old["verdicts"]) or not old["values"].keys() <= outcome.values.keys())
    if loses or not outcome.is_usual:
        raise ValueError(
            f"{name} lacks {', '.join(outcome.absent) or 'a stand-in'}: record it where its cases are usual."
        )
    known.setdefault(name, {})[size] = {
        "verdicts": {v.claim: v.outcome for v in outcome.verdicts if not (v.noisy or outcome.absent)},
        "values": {
            key: None if math.isnan(value.value) else float(f"{value.value:.8g}")
            for key, value in outcome.values.items()
        },
    }
    write_text(path, json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
