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

#: Bytes of the program with its kernels and of what a block of a file is while it is parsed.
OF_ITSELF = 300_000_000


def wants_parts(settings: Settings) -> bool:
    """Return whether the data are read in parts."""
    from finitesum.datasets.parts import has_pattern

    path = Path(settings.file).expanduser()
    if settings.memory is not None or len(settings.data) > 1:
        return True
    return path.is_dir() or (has_pattern(settings.file) and not path.exists())


def read_parts(settings: Settings, console: Console, *, task: str | None, n_workers: int | None) -> FileParts:
    """Return the parts of the files that were asked for."""
    from finitesum.core.engine import Threads
    from finitesum.datasets import load
    from finitesum.datasets.parts import has_pattern

    require_no_table(settings, "data in parts are numbers")
    if settings.memmap:
        raise InputError("--memmap is for one file: data in parts stay on disk anyway. Leave it out.")
    first, *others = given = settings.data
    what = f"{first} and {len(others)} others" if others else first
    found = [one if has_pattern(one) else find_file(one) for one in given]
    if None in found:
        name = given[found.index(None)]
        raise InputError(f"{name} is shipped with scikit-learn, and read into memory. Leave --memory and other DATA out.")
    part_bytes = MOST_BYTES
    if settings.memory is not None:
        _require_bytes(settings, what, OF_ITSELF, "for itself")
        n, room = Threads(n_workers).n_workers, bytes_of(settings.memory) - OF_ITSELF
        part_bytes = max(LEAST_BYTES, min(MOST_BYTES, room // (ROOM * n)))
    names = ("format", "n_features", "zero_based")
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    with console.busy(f"reading {what}"):
        data = load(found, target=column_of(settings.target), task=task, part_bytes=part_bytes, **options)  # type: ignore[arg-type]
    if data.empty_files:
        console.note(f"{data.name}: files without rows, which are left out: {', '.join(map(str, data.empty_files))}")
    return data


def _require_bytes(settings: Settings, what: str, needed: float, why: str) -> None:
    """Raise where the memory that was asked for is less than what is needed."""
    if needed > bytes_of(settings.memory or ""):
        raise InputError(
            f"{what}: a fit takes some {needed / 1e6:,.0f} MB {why}. Give --memory {-(-needed // 10**6):.0f}MB or more, or "
            "leave it out."
        )


def within_memory(settings: Settings, problem: Problem, method: Any, *, n_workers: int | None, begun: str = "") -> Any:
    """Return the method to run within --memory: of "auto" the first of its choices that there is room for.

    Raises
    ------
    InputError
        There is no room for the method, or for any of the choices.
    """
    if settings.memory is None:
        return method
    from finitesum.core.engine import Threads
    from finitesum.methods.auto import choose
    from finitesum.methods.base import Choice
    from finitesum.methods.working_memory import working_bytes

    n, room = Threads(n_workers).n_workers, bytes_of(settings.memory)
    choice = choose(problem, settings.tol, begun=begun) if method == "auto" else Choice(method)
    found = [choice.method, *(other.method for other in choice.others)]
    needed = [OF_ITSELF + working_bytes(one, problem, n) for one in found]
    if not (fitting := [one for one, n_bytes in zip(found, needed, strict=True) if n_bytes <= room]):
        least = found[needed.index(min(needed))]
        why = f"by {least.name} on {problem.n_rows:,} rows x {problem.rows.n_columns:,} columns{_with_less(least, problem)}"
        _require_bytes(settings, settings.data[0], min(needed), why)
    if method != "auto":
        return method
    others = tuple(other for other in choice.others if other.method in fitting and other.method is not fitting[0])
    left_out = "" if fitting[0] is choice.method else f"; {choice.method.name} needs more than {settings.memory}"
    return choice._replace(method=fitting[0], reason=choice.reason + left_out, others=others)


def _with_less(method: Any, problem: Problem) -> str:
    """Return which solvers take less memory, in words to follow the name of one that takes more."""
    from finitesum.methods import as_method
    from finitesum.methods.base import is_suited

    others = [as_method(name) for name in ("newton-cg", "afg", "dual-ascent")]
    suited = [one.name for one in others if one.name != method.name and is_suited(one, problem, reads_rows=True)]
    return f" (--solver {' or '.join(suited)} takes less)" if suited and "d^2" in method.card.storage else ""


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
