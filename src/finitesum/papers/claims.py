"""Claims as measured statements: what became of each, case by case, and the numbers behind it, in words."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from finitesum.reporting.files import show


class Finding(NamedTuple):
    """What became of a claim in one case."""

    case: str
    holds: bool | None  # None: undecided
    evidence: str  # the figures behind it


@dataclass(frozen=True)
class Verdict:
    """A claim as a measured statement."""

    claim: str  # a sentence
    findings: tuple[Finding, ...]
    of_paper: bool = True  # whether the paper makes it; else it is ours
    noisy: bool = False  # whether it rests on seconds or rounding errors: on another machine it may differ

    @property
    def outcome(self) -> str:
        """ "holds", "does not hold", "holds only for ...", or "undecided"."""
        yes, no, open_ = ([f.case for f in self.findings if f.holds is kind] for kind in (True, False, None))
        if not no and not open_:
            return "holds" if yes else "undecided"
        if not yes and not open_:
            return "does not hold"
        if not yes:
            return f"does not hold for {', '.join(no)}, undecided for {', '.join(open_)}" if no else "undecided"
        rest = "; ".join(f"{word} for {', '.join(at)}" for word, at in (("not", no), ("undecided", open_)) if at)
        return f"holds only for {', '.join(yes)} ({rest})"


def tally(verdicts: Sequence[Verdict]) -> str:
    """Return in a few words how many of the paper's claims hold; empty where it makes none."""
    words = {
        "holds": ("holds", "hold"),
        "does not hold": ("does not hold", "do not hold"),
        "": ("holds in part or is undecided", "hold in part or are undecided"),
    }
    kinds = Counter(v.outcome if v.outcome in words else "" for v in verdicts if v.of_paper)
    counts = ", ".join(f"{kinds[kind]} {several[kinds[kind] > 1]}" for kind, several in words.items() if kinds[kind])
    return f"{kinds.total()} claim{'s' if kinds.total() > 1 else ''}: {counts}" if kinds else ""


def single(claim: str, holds: bool, evidence: str) -> Verdict:
    """Return a claim of the paper that is about one case."""
    return Verdict(claim, (Finding("", holds, evidence),))


def verdict(
    claim: str, cases: Iterable[str], holds: Callable[[str], bool | None], evidence: Callable[[str], str], **flags: bool
) -> Verdict:
    """Return a claim with what became of it in each case; `flags` are those of `Verdict`."""
    return Verdict(claim, tuple(Finding(case, holds(case), evidence(case)) for case in cases), **flags)


def compared(
    claim: str,
    numbers: Mapping[str, Mapping[Any, float]],
    shown: Sequence[Any],
    holds: Callable[[Mapping[Any, float]], bool],
    unit: str = "passes",
    **flags: bool,
) -> Verdict:
    """Return a claim about the numbers by label in each case, some of which are the evidence."""
    evidence = {case: listed({label: row[label] for label in shown}, unit) for case, row in numbers.items()}
    return verdict(claim, numbers, lambda case: bool(holds(numbers[case])), evidence.__getitem__, **flags)


def no_more(claim: str, pairs: Mapping[str, tuple[float, float]], slack: float = 1.0, **flags: bool) -> Verdict:
    """Return the claim that the first of two numbers is at most the second (times a slack) in each case.

    It is undecided where both are infinite.
    """

    def holds(case: str) -> bool | None:
        mine, theirs = pairs[case]
        return None if mine == theirs == math.inf else mine <= slack * theirs

    return verdict(claim, pairs, holds, lambda case: against(*pairs[case]), **flags)


def or_inf(value: float) -> float:
    """Return a number, and infinity in place of NaN: what was not reached is worse than all that was."""
    return value if math.isfinite(value) else math.inf


def listed(numbers: Mapping[str, float], unit: str = "") -> str:
    """Return labels with their numbers as evidence, the unit behind the first number."""
    parts = []
    for label, number in numbers.items():
        parts.append(f"{label.replace(', ', ' ')} {show(number, missing='not reached')}")
        if unit and math.isfinite(number):
            parts[-1] += f" {unit}"
            unit = ""
    return ", ".join(parts)


def against(mine: float, theirs: float, unit: str = "passes") -> str:
    """Return two numbers as evidence."""
    words = [show(number, missing="not reached") for number in (mine, theirs)]
    return f"{words[0]}{f' {unit}' if unit and math.isfinite(mine) else ''} against {words[1]}"
