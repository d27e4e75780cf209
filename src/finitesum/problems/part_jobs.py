"""What is done with a part where it lies: as a problem of its own, which a function is given, with numbers by row.

A call carries a `Job`, which says what stands in the place of the part's own numbers by row, and which rows are worked on,
and what all parts share: a `Frame`, which is the problem without its rows, and the function.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.engine import PartError
from finitesum.core.mapped import as_writable
from finitesum.problems.beside import in_place
from finitesum.problems.parts import PartData
from finitesum.problems.rows import columns_of, rows_between, stored_between

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem

#: Rows between two that a part's call works on up to which those between are read ahead, too.
NEAR = 1 << 12


class Frame(NamedTuple):
    """What parts need to be problems of their own, the same for all: the problem without its rows."""

    problem: "Problem"
    total: float  # S, of the parts' own weights
    view: Any  # of sums over rows, of the problem without its rows; None of several outputs
    columns: Indices | None  # of the parts'; None: all


@functools.lru_cache(maxsize=8)
def _constant(value: float, size: int) -> Any:
    """Return as many equal numbers, in memory that all parts share."""
    numbers = np.full(size, value)
    numbers.flags.writeable = False
    return as_writable(numbers)


def _repeated(value: float, n: int) -> Any:
    """Return n equal numbers."""
    return _constant(float(value), 1 << max(n - 1, 1).bit_length())[:n]


def _targets(data: PartData, by_label: Any) -> Any:
    """Return a part's targets, given those of its labels."""
    if by_label is None:
        return data.targets
    return np.where(data.targets, by_label[1], by_label[0]) if len(by_label) == 2 else by_label[data.targets]


def rows_inside(data: PartData, inside: slice) -> PartData:
    """Return some rows of a part, over the same memory."""
    if inside == slice(None):
        return data
    rows = rows_between(data.rows, inside.start, inside.stop)
    targets, weights, offsets = (
        None if array is None else array[inside] for array in (data.targets, data.weights, data.offsets)
    )
    return data._replace(rows=rows, targets=targets, weights=weights, offsets=offsets)


class Job(NamedTuple):
    """What is done with a part."""

    name: str
    digest: str
    inside: slice  # which rows of the part
    targets: Any  # by label; None where they are numbers, or given
    given: dict[str, Any]  # targets, weights or offsets of these rows (or one for all) in the place of the part's own
    components: Indices | None  # with rows in the part, increasing; None: all
    size: int  # rows of a component
    arguments: tuple[Any, ...]
    written: tuple[tuple[tuple[int, ...], Any], ...]  # shapes and dtypes of what is written, or what stands there
    start: int

    def chosen(self, n_rows: int) -> Indices | None:
        """Return which of the part's rows belong to the components, increasing; None: all."""
        if self.components is None:
            return None
        rows = (self.components[:, None] * self.size + np.arange(self.size)).ravel() if self.size > 1 else self.components
        return rows[(rows >= self.start) & (rows < self.start + n_rows)] - self.start

    def reads(self, data: PartData) -> tuple[Any, ...]:
        """Return the arrays of the part's rows that are worked on, those between near ones included."""
        data = rows_inside(data, self.inside)
        chosen = self.chosen(data.rows.n_rows)
        if chosen is None or chosen.size == 0:
            return data
        ends = np.append(np.flatnonzero(np.diff(chosen) > NEAR), chosen.size - 1)
        firsts = chosen[np.append(0, ends[:-1] + 1)]
        each = zip(firsts.tolist(), chosen[ends].tolist(), strict=True)
        return tuple(stored_between(data.rows, first, last + 1) for first, last in each)


def as_problem(data: PartData, frame: Frame, job: Job) -> "Problem":
    """Return a part as a problem, whose weights are those that its rows have in the whole."""
    data = rows_inside(data, job.inside)
    n, n_outputs, given = data.rows.n_rows, frame.problem.n_outputs, job.given

    def by_row(name: str, own: Callable[[], Any]) -> Any:
        if name not in given:
            return own()
        if given[name].ndim == 1 and given[name].size == 1:
            return _repeated(given[name][0], n)
        return given[name] if given[name].shape[0] == n else np.broadcast_to(given[name], (n, *given[name].shape[1:]))

    def weights() -> Any:
        return _repeated(1.0 / frame.total, n) if data.weights is None else data.weights / frame.total

    def offsets() -> Any:
        if data.offsets is None:
            return _repeated(0.0, n) if n_outputs == 1 else np.broadcast_to(0.0, (n, n_outputs))
        to_all = np.ascontiguousarray(np.broadcast_to(data.offsets.reshape(n, -1), (n, n_outputs)))
        return to_all if n_outputs > 1 else to_all[:, 0]

    part = replace(
        frame.problem,
        rows=data.rows if frame.columns is None else columns_of(data.rows, frame.columns),
        targets=by_row("targets", lambda: _targets(data, job.targets)),
        weights=by_row("weights", weights),
        offsets=by_row("offsets", offsets),
        batch_size=None,
    )
    if frame.view is not None:  # what it says of all rows is so of these
        names = ("rows", "targets", "offsets", "weights", "n_components")
        own: Any = (part.rows, part.targets, part.offsets, part.weights, n)
        part.__dict__["view_of_rows"] = frame.view._replace(**dict(zip(names, own, strict=True)))
    return part


def _new(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return memory that lies output by output, as that of `empty_by_row`."""
    return np.empty(shape[::-1], dtype=dtype).T


def run_job(data: PartData, job: Job, shared: tuple[Frame, Callable[..., Any]], *kept: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the result of the function that parts share, and what it wrote, given results that hold what was not sent."""
    frame, function = shared
    if data.digest != job.digest:
        raise PartError(
            f"{job.name}: its data have changed since they were first read. A part must give the same rows each time."
        )
    try:
        given, written = in_place(job.arguments, kept), in_place(job.written, kept)
        arrays = tuple(np.array(like) if isinstance(like, np.ndarray) else _new(*like) for like in written)
        part = as_problem(data, frame, job)
        return function(part, job.start, job.chosen(part.n_rows), *given, *arrays), arrays
    except PartError:
        raise
    except Exception as error:
        raise PartError(f"{job.name}: {error}") from error


def result_of(found: tuple[Any, Any]) -> Any:
    """Return the result without what was written."""
    return found[0]


def written_by(found: tuple[Any, Any]) -> Any:
    """Return what was written without the result."""
    return None, found[1]
