"""Data that are read in parts: a folder, a pattern, or a file for which the memory is limited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from finitesum.cli.console import Console
from finitesum.cli.errors import InputError
from finitesum.cli.inputs import find_file
from finitesum.cli.options import Settings, bytes_of, column_of, resolve_alpha
from finitesum.cli.tables import require_no_table

if TYPE_CHECKING:
    from finitesum.datasets import FileParts
    from finitesum.problems.linear import Problem

#: Parts of the memory's size that may be worked on at once leave room for what they are turned into, and bytes of a part.
ROOM, LEAST_BYTES, MOST_BYTES = 8, 1 << 20, 1 << 26

#: Bytes that a fit keeps in memory for each row, about: curvatures as they are and were, steps along a line.
BYTES_A_ROW = 32


def wants_parts(settings: Settings) -> bool:
    """Return whether the data are read in parts."""
    from finitesum.datasets.parts import has_pattern

    path = Path(settings.data).expanduser()
    return settings.memory is not None or path.is_dir() or (has_pattern(settings.data) and not path.exists())


def read_parts(settings: Settings, console: Console, *, task: str | None, n_workers: int | None) -> FileParts:
    """Return the parts of the files that were asked for."""
    from finitesum.core.engine import Threads
    from finitesum.datasets import load
    from finitesum.datasets.parts import has_pattern

    require_no_table(settings, "data in parts are numbers")
    if settings.memmap:
        raise InputError("--memmap is for one file: data in parts stay on disk anyway. Leave it out.")
    found = settings.data if has_pattern(settings.data) else find_file(settings.data)
    if found is None:
        raise InputError(f"{settings.data} is shipped with scikit-learn, and read into memory. Leave --memory out.")
    part_bytes = MOST_BYTES
    if settings.memory is not None:
        n = Threads(n_workers).n_workers
        part_bytes = max(LEAST_BYTES, min(MOST_BYTES, bytes_of(settings.memory) // (ROOM * n)))
    names = ("format", "n_features", "zero_based")
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    with console.busy(f"reading {settings.data}"):
        data = load([found], target=column_of(settings.target), task=task, part_bytes=part_bytes, **options)  # type: ignore[arg-type]
    if settings.memory is not None and BYTES_A_ROW * data.n_rows > bytes_of(settings.memory):
        raise InputError(
            f"{data.name}: a fit of {data.n_rows:,} rows keeps some {BYTES_A_ROW} bytes for each of them. "
            f"Give --memory {-(-BYTES_A_ROW * data.n_rows // 10**6)}MB or more."
        )
    return data


def problem_of_parts(settings: Settings, data: FileParts, *, n_workers: int | None) -> tuple[Problem, Any]:
    """Return the problem, and the two labels behind -1 and +1 where there are classes."""
    from finitesum.core.engine import Threads
    from finitesum.problems.linear import Problem

    alpha = resolve_alpha(settings.alpha, data.n_rows)
    term: Any = {"loss": settings.loss, "alpha": alpha, "l1_ratio": settings.l1_ratio}
    engine = Threads(n_workers)
    problem = Problem.partitioned(data, fit_intercept=settings.intercept, engine=engine, **term)
    classes = None if problem.classes is None else tuple(problem.classes.tolist())
    return problem if settings.batch_size is None else problem.batched(settings.batch_size), classes
