"""Common to the benchmark programs: CSV files of results, tables of them, and parts chosen on the command line."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as results/NAME.csv."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of results/NAME.csv, none where there is no file."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def table_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows as lines of a Markdown table; none where there are none."""
    if not rows:
        return []
    lines = [list(rows[0]), *([str(cell).replace("nan", "-") for cell in row.values()] for row in rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in lines]
    return [head, "|" + "---|" * len(rows[0]), *body]


def run_parts(description: str, parts: Mapping[str, Callable[[], None]]) -> None:
    """Run the parts that the command line names, all where it names none."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one or more of {', '.join(parts)}; all without")
    chosen = parser.parse_args().parts or list(parts)
    if unknown := [name for name in chosen if name not in parts]:
        parser.error(f"part must be one of {', '.join(parts)}, got {unknown[0]!r}")
    for name in chosen:
        parts[name]()
