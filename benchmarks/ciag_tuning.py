"""Tunes steps by hand, as the paper did: python benchmarks/ciag_tuning.py [NAME ...] [--data DIR].

For each data set: the multiple of 1 / L, and for A-CIAG the extrapolation, with the fewest passes to a largest gradient
entry of 1e-10; where none gets there, the smallest entry at the end. What it prints is recorded in `real_data.SETS`.
Stand-ins are tuned in their quick size, for both sizes: multiples of 1 / L do not depend on it much.
"""

import itertools
from pathlib import Path

import click

from finitesum.papers.ciag.real_data import SETS, TOL, DataSet, problem_of, tuned_trial
from finitesum.papers.claims import or_inf
from finitesum.papers.runs import as_run, run_trial

GRIDS: dict[str, list[tuple[float, ...]]] = {
    "A-CIAG": list(itertools.product((1.0, 2.0, 4.0, 8.0, 16.0), (0.95, 0.98))),
    "CIAG": [(step,) for step in (1.0, 2.0, 4.0, 8.0, 16.0)],
    "IAG": [(step,) for step in (1.0, 4.0, 16.0, 64.0, 128.0, 256.0)],
}

#: Passes of a trial.
PASSES = {"A-CIAG": 10, "CIAG": 20, "IAG": 30}


def tune(entry: DataSet, data_dir: Path | None) -> dict[str, tuple[float, ...]]:
    """Return the best of each grid."""
    problem = problem_of(entry, True, data_dir)
    best = {}
    for label, grid in GRIDS.items():

        def score(numbers: tuple[float, ...], label: str = label) -> tuple[float, float]:
            trial = tuned_trial(problem, label, *numbers)
            run = as_run(run_trial(problem, trial, max_passes=PASSES[label], tol=TOL))
            passes, end = run.first("largest", TOL), float(run.columns["largest"][-1])
            click.echo(f"  {entry.name} {label} {numbers}: {passes:g} passes, {end:.1e}", err=True)
            return or_inf(passes), or_inf(end)

        best[label] = min(grid, key=score)
    return best


@click.command()
@click.argument("names", nargs=-1)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False))
def main(names: tuple[str, ...], data: Path | None) -> None:
    """Tune steps."""
    for entry in SETS:
        if not names or entry.name in names:
            click.echo(f'"{entry.name}": {tune(entry, data)},')


if __name__ == "__main__":
    main()
