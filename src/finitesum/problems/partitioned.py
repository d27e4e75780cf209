"""Problems whose rows lie in parts: what stands in the place of rows and of numbers by row, and sums over the parts.

`PartedRows` know where the parts are and what a first pass found. A sum over them calls a function once for each part, with
the part as a problem of its own whose weights are those in the whole, and adds the results in a fixed order
(`finitesum.core.engine`). What belongs to a part's rows beside its data (curvatures, slopes) is sliced for it, and what a
function writes there is a new value, which stays with the part where that is elsewhere (`finitesum.problems.beside`): a
part that is lost is computed again from the same arguments.
"""

import functools
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.engine import Call, Engine, PartError, added, done, fetched, sum_of_parts
from finitesum.core.jit import Interpreted
from finitesum.core.mapped import as_writable
from finitesum.problems.arrivals import Rounds
from finitesum.problems.beside import Beside, ByRow, Written, in_place, of_part, stays_there
from finitesum.problems.parts import PartData
from finitesum.problems.rows import columns_of, rows_between, stored_between

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem
    from finitesum.problems.survey import Survey


#: Bytes of the parts' matrices of all columns up to which results are added up here: each sum elsewhere is a message.
MOST_BROUGHT = 1 << 23

#: Columns from which a point is sent to each worker once, where an engine elsewhere can: else it goes with each part.
MANY_COLUMNS = 1 << 17


#: Rows between two that a part's call works on up to which those between are read ahead, too.
NEAR = 1 << 12


class Entries(NamedTuple):
    """What is asked of all entries together, in the place of their array."""

    size: int
    itemsize: int
    dtype: Any

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        return self.size * self.itemsize


class Placed(NamedTuple):
    """A part, and its rows' places in the whole."""

    name: str
    handle: Any
    digest: str  # of its data when they were first read
    start: int
    stop: int
    targets: Any  # by label; None where targets are numbers


class PartedRows(Interpreted):
    """Rows in parts, in the place of `finitesum.problems.rows.DenseRows`; row sums alone can read them."""

    def __init__(
        self,
        engine: Engine,
        parts: Sequence[Placed],
        found: Sequence["Survey"],
        intercept: int,
        total: float,
        arrivals: tuple[float, ...],
    ) -> None:
        self.engine, self.parts = engine, tuple(parts)
        self.n_rows, self.n_columns, self.intercept = parts[-1].stop, found[0].n_columns, intercept
        self.values = Entries(sum(one.n_stored for one in found), np.dtype(found[0].dtype).itemsize, found[0].dtype)
        self.digests = tuple(one.digest for one in found)
        self.square = sum(one.square for one in found)
        self.most_stored = max(one.most_stored for one in found)
        self.stored_squares = sum(one.stored_squares for one in found)
        self.total = total  # S, the sum of the weights
        self.arrivals = arrivals  # the seconds in which parts came when they were first read, increasing
        self.rounds = Rounds()  # of sums over the parts in a run
        self.is_elsewhere = bool(getattr(engine, "is_elsewhere", False))
        self.columns: Indices | None = None  # of the parts' columns; None: all
        self.inside = slice(None)  # which rows of each part
        self._is_sparse = found[0].is_sparse

    def dim(self) -> int:
        return self.n_columns + self.intercept

    def is_sparse(self) -> bool:
        return self._is_sparse

    def on_columns(self, columns: Indices) -> "PartedRows":
        """Return the rows with some of the columns only, which each sum takes from the parts as they are."""
        rows = copy(self)
        rows.columns = columns if self.columns is None else self.columns[columns]
        rows.n_columns = columns.size
        return rows

    def only(self, k: int, inside: slice, times: float) -> "PartedRows":
        """Return some rows of one part, whose weights are some times what they are in the whole."""
        rows, n = copy(self), inside.stop - inside.start
        rows.parts, rows.inside = (self.parts[k]._replace(start=0, stop=n),), inside
        rows.n_rows, rows.total = n, self.total / times
        return rows


class RowNumbers(ByRow):
    """Targets, weights or offsets that lie beside the parts' rows."""

    problem: "Problem"

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape = name, shape

    @cached_property
    def numbers(self) -> Any:
        """All of them, brought here once."""
        name = self.name
        return sum_over_parts(lambda part, start, chosen: np.asarray(getattr(part, name)), self.problem, add=_joined)

    def any(self) -> bool:
        """Return True: where all are 0, another array stands in the place of this."""
        return True


def is_parted(problem: Any) -> bool:
    """Return whether a problem's rows lie in parts."""
    return isinstance(getattr(problem, "rows", None), PartedRows)


def parts_of_components(problem: "Problem") -> tuple[Indices, Indices]:
    """Return the numbers of the parts that each component begins in, and ends in."""
    stops, size = [part.stop for part in problem.rows.parts], problem.batch_size or 1
    first = np.arange(problem.n_components) * size
    last = np.minimum(first + size, problem.rows.n_rows) - 1
    return np.searchsorted(stops, first, side="right"), np.searchsorted(stops, last, side="right")


# -- functions that run where a part is


class Frame(NamedTuple):
    """What a part needs to be a problem of its own: the problem without its rows, and numbers by row that are others."""

    problem: "Problem"
    total: float  # S, of the parts' own weights
    view: Any  # of sums over rows, of the problem without its rows; None of several outputs
    columns: Indices | None  # of the part's; None: all
    inside: slice  # of the part's rows
    targets: Any  # by label; None where they are numbers, or given
    given: dict[str, Any]  # targets, weights or offsets of these rows (or one for all) in the place of the part's own


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


def _rows_inside(data: PartData, inside: slice) -> PartData:
    """Return some rows of a part, over the same memory."""
    rows = rows_between(data.rows, inside.start, inside.stop)
    targets, weights, offsets = (
        None if array is None else array[inside] for array in (data.targets, data.weights, data.offsets)
    )
    return data._replace(rows=rows, targets=targets, weights=weights, offsets=offsets)


def as_problem(data: PartData, frame: Frame) -> "Problem":
    """Return a part as a problem, whose weights are those that its rows have in the whole."""
    data = data if frame.inside == slice(None) else _rows_inside(data, frame.inside)
    n, n_outputs, given = data.rows.n_rows, frame.problem.n_outputs, frame.given

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
        targets=by_row("targets", lambda: _targets(data, frame.targets)),
        weights=by_row("weights", weights),
        offsets=by_row("offsets", offsets),
        batch_size=None,
    )
    if frame.view is not None:  # what it says of all rows is so of these
        names = ("rows", "targets", "offsets", "weights", "n_components")
        own: Any = (part.rows, part.targets, part.offsets, part.weights, n)
        part.__dict__["view_of_rows"] = frame.view._replace(**dict(zip(names, own, strict=True)))
    return part


class _Job(NamedTuple):
    """What is done with a part."""

    name: str
    digest: str
    frame: Frame
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
        data = data if self.frame.inside == slice(None) else _rows_inside(data, self.frame.inside)
        chosen = self.chosen(data.rows.n_rows)
        if chosen is None or chosen.size == 0:
            return data
        ends = np.append(np.flatnonzero(np.diff(chosen) > NEAR), chosen.size - 1)
        firsts = chosen[np.append(0, ends[:-1] + 1)]
        each = zip(firsts.tolist(), chosen[ends].tolist(), strict=True)
        return tuple(stored_between(data.rows, first, last + 1) for first, last in each)


def _new(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return memory that lies output by output, as that of `empty_by_row`."""
    return np.empty(shape[::-1], dtype=dtype).T


def _run(data: PartData, job: _Job, function: Callable[..., Any], *kept: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the function's result, and what it wrote, given results that hold what was not sent."""
    if data.digest != job.digest:
        raise PartError(
            f"{job.name}: its data have changed since they were first read. A part must give the same rows each time."
        )
    try:
        given, written = in_place(job.arguments, kept), in_place(job.written, kept)
        arrays = tuple(np.array(like) if isinstance(like, np.ndarray) else _new(*like) for like in written)
        part = as_problem(data, job.frame)
        return function(part, job.start, job.chosen(part.n_rows), *given, *arrays), arrays
    except PartError:
        raise
    except Exception as error:
        raise PartError(f"{job.name}: {error}") from error


def _result(found: tuple[Any, Any]) -> Any:
    return found[0]


def _itself(found: Any) -> Any:
    return found


def _written(found: tuple[Any, Any]) -> Any:
    return None, found[1]


# -- sums over parts


def _components_in(part: Placed, components: Indices, size: int) -> Indices | None:
    """Return which of some components (increasing) of this size have rows in a part; None: all that do."""
    first, last = part.start // size, (part.stop - 1) // size
    here = components[np.searchsorted(components, first) : np.searchsorted(components, last, side="right")]
    return None if here.size == last - first + 1 else here


def _frame(problem: "Problem", part: Placed, shell: "Problem") -> Frame:
    given, rows = {}, slice(part.start, part.stop)
    for name in ("targets", "weights", "offsets"):
        numbers = getattr(problem, name)
        if not isinstance(numbers, RowNumbers):  # one for all rows, or taken from the caller
            given[name] = numbers[:1] if numbers.strides[0] == 0 else numbers[rows]
    targets = None if part.targets is None or "targets" in given else part.targets
    nothing: Any = dict.fromkeys(("rows", "targets", "offsets", "weights"))
    view = None if problem.n_outputs > 1 else problem.view_of_rows._replace(batch_size=1, **nothing)
    return Frame(shell, problem.rows.total, view, problem.rows.columns, problem.rows.inside, targets, given)


def _shell(problem: "Problem") -> "Problem":
    """Return a problem without its rows."""
    nothing: Any = None
    return replace(problem, rows=None, targets=nothing, weights=nothing, offsets=nothing)


def ask(function: Callable[..., Any], problem: "Problem", *arguments: Any, in_turn: bool = False) -> Any:
    """Return a future of function(part, *arguments) and (), of a problem whose rows lie in one part.

    `fetched` has its result, computed again where it was lost. Of calls that are made in turn, a few at a time, an engine
    with `submit_in_turn` may choose the worker.
    """

    def of_part(part: "Problem", start: int, chosen: Indices | None, *given: Any) -> Any:
        return function(part, *given)

    part = problem.rows.parts[0]
    frame = _frame(problem, part, _shell(problem))
    job = _Job(part.name, part.digest, frame, None, 1, arguments, (), part.start)
    engine = problem.rows.engine
    submit = getattr(engine, "submit_in_turn", engine.submit) if in_turn else engine.submit
    return submit(_run, part.handle, job, of_part)


def sum_over_parts(
    function: Callable[..., Any],
    problem: "Problem",
    components: Indices | None = None,
    *,
    by_component: Sequence[Any] = (),
    reads: Sequence[Any] = (),
    updates: Sequence[Any] = (),
    writes: Sequence[Any] = (),
    add: Callable[[Any, Any], Any] = added,
) -> Any:
    """Return the sum of function(part, start, chosen, *numbers) over the parts with rows of the components.

    The part is a problem, `start` the place of its first row in the whole, the chosen ones are its rows (None: all). The
    numbers are those of the part's from arrays with one for each component, which is then a row; for each row that is read;
    that is read and written; and that is written alone.
    """
    rows: PartedRows = problem.rows
    outs = (*updates, *writes)
    shell, size = _shell(problem), problem.batch_size or 1
    calls: list[Call] = []
    asked: list[int] = []  # of which parts
    is_shared = problem.dim >= MANY_COLUMNS and len(rows.parts) > 1
    sent = rows.engine.share(function) if is_shared and hasattr(rows.engine, "share") else function
    is_all = components is None or components.size == problem.n_components
    for k, part in enumerate(rows.parts):
        here = slice(part.start, part.stop)
        chosen = None if components is None or is_all else _components_in(part, components, size)
        if chosen is not None and chosen.size == 0 and (part.start > 0 or components.size > 0):  # type: ignore[union-attr]
            continue
        between = here
        if components is not None and by_component:
            between = slice(*np.searchsorted(components, (part.start, part.stop)))
        futures: list[Any] = []
        sends = partial(of_part, k=k, futures=futures if rows.is_elsewhere else None)
        arguments = *(sends(each, rows=between) for each in by_component), *(sends(each, rows=here) for each in reads)
        new = (
            ((part.stop - part.start, *out.shape[1:]), out.dtype) if chosen is None else sends(out, rows=here)
            for out in writes
        )
        old = (*(sends(out, rows=here) for out in updates), *new)
        job = _Job(part.name, part.digest, _frame(problem, part, shell), chosen, size, arguments, old, part.start)
        calls.append(Call(_run, part.handle, (job, sent, *futures)))
        asked.append(k)

    n_bytes = 8 * problem.dim ** (1 if outs else 2) * len(calls)
    is_brought = (bool(outs) and not rows.is_elsewhere) or n_bytes <= MOST_BROUGHT

    def take(k: int, future: Any) -> Any:
        """Put what was written in its place, or leave it there; return a future of the result without it."""
        part, submit = rows.parts[asked[k]], rows.engine.submit
        stays = [stays_there(out, part.stop - part.start) for out in outs]
        for place, out in enumerate(outs):
            if stays[place]:
                out.put(asked[k], Written(future, place))
        if all(stays):
            return submit(_result, future)
        result, written = fetched(rows.engine, future if is_brought else submit(_written, future))
        for out, numbers, is_there in zip(outs, written, stays, strict=True):
            if isinstance(out, Beside) and not is_there:
                out.put(asked[k], numbers)
            elif not is_there:
                out[part.start : part.stop] = numbers
        return done(result) if is_brought else submit(_result, future)

    whole = is_brought and not outs  # nothing but the result is in what a call returns
    arrivals: list[float] = []
    started = time.perf_counter()
    total = sum_of_parts(
        rows.engine,
        calls,
        add,
        None if whole else take,
        lambda: arrivals.append(time.perf_counter() - started),
        None if not is_brought else _result if whole else _itself,
    )
    if len(calls) == len(rows.arrivals):
        rows.rounds.add(arrivals)
    return total


def _joined(left: Any, right: Any) -> Any:
    return np.concatenate([left, right])
