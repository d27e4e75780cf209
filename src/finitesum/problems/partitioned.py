"""Problems whose rows lie in parts: what stands in the place of rows and of numbers by row, and sums over the parts.

`PartedRows` know where the parts are and what a first pass found. A sum over them calls a function once for each part, with
the part as a problem of its own whose weights are those in the whole, and adds the results in a fixed order
(`finitesum.core.engine`). What belongs to a part's rows beside its data (curvatures, slopes) is sliced for it, and what a
function writes there is a new value, which stays with the part where that is elsewhere (`finitesum.problems.beside`): a
part that is lost is computed again from the same arguments.
"""

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.engine import Call, Engine, done
from finitesum.core.jit import Interpreted
from finitesum.core.sums import added, collected, completed, fetched, sum_in_tree, sum_of_parts
from finitesum.problems.arrivals import Rounds
from finitesum.problems.beside import Beside, ByRow, Written, of_part, stays_there
from finitesum.problems.part_jobs import Frame, Job, result_of, run_job, written_by

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem
    from finitesum.problems.survey import Survey


#: Bytes of the parts' matrices of all columns up to which results are added up here: each sum elsewhere is a message.
MOST_BROUGHT = 1 << 23


def _joined(left: Any, right: Any) -> Any:
    return np.concatenate([left, right])


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


def stops_of_parts(problem: Any) -> tuple[int, ...]:
    """Return where the parts of the rows end: those of rows in parts, or written one behind the other to one file."""
    if is_parted(problem):
        return tuple(part.stop for part in problem.rows.parts)
    return tuple(getattr(problem, "derived", {}).get("stops_of_parts", ()))


def parts_of_components(problem: "Problem") -> tuple[Indices, Indices]:
    """Return the numbers of the parts that each component begins in, and ends in."""
    stops, size = stops_of_parts(problem), problem.batch_size or 1
    first = np.arange(problem.n_components) * size
    last = np.minimum(first + size, problem.n_rows) - 1
    return np.searchsorted(stops, first, side="right"), np.searchsorted(stops, last, side="right")


# -- sums over parts


def _components_in(part: Placed, components: Indices, size: int) -> Indices | None:
    """Return which of some components (increasing) of this size have rows in a part; None: all that do."""
    first, last = part.start // size, (part.stop - 1) // size
    here = components[np.searchsorted(components, first) : np.searchsorted(components, last, side="right")]
    return None if here.size == last - first + 1 else here


def _own(problem: "Problem", part: Placed) -> tuple[Any, dict[str, Any]]:
    """Return targets by a part's labels, and numbers by row in the place of its own."""
    given, rows = {}, slice(part.start, part.stop)
    for name in ("targets", "weights", "offsets"):
        numbers = getattr(problem, name)
        if not isinstance(numbers, RowNumbers):  # one for all rows, or taken from the caller
            given[name] = numbers[:1] if numbers.strides[0] == 0 else numbers[rows]
    return None if part.targets is None or "targets" in given else part.targets, given


def _frame(problem: "Problem") -> Frame:
    nothing: Any = dict.fromkeys(("rows", "targets", "offsets", "weights"))
    view = None if problem.n_outputs > 1 else problem.view_of_rows._replace(batch_size=1, **nothing)
    return Frame(replace(problem, **nothing), problem.rows.total, view, problem.rows.columns)


def ask(function: Callable[..., Any], problem: "Problem", *arguments: Any, in_turn: bool = False) -> Any:
    """Return a future of function(part, *arguments) and (), of a problem whose rows lie in one part.

    `fetched` has its result, computed again where it was lost. Of calls that are made in turn, a few at a time, an engine
    with `submit_in_turn` may choose the worker.
    """

    def of_part(part: "Problem", start: int, chosen: Indices | None, *given: Any) -> Any:
        return function(part, *given)

    part, engine = problem.rows.parts[0], problem.rows.engine
    job = Job(part.name, part.digest, problem.rows.inside, *_own(problem, part), None, 1, arguments, (), part.start)
    submit = getattr(engine, "submit_in_turn", engine.submit) if in_turn else engine.submit
    return submit(run_job, part.handle, job, (_frame(problem), of_part))


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
    size, shared = problem.batch_size or 1, (_frame(problem), function)
    calls: list[Call] = []
    asked: list[int] = []  # of which parts
    sent = rows.engine.share(shared, len(rows.parts)) if hasattr(rows.engine, "share") else shared
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
        own = _own(problem, part)
        job = Job(part.name, part.digest, rows.inside, *own, chosen, size, arguments, old, part.start)
        calls.append(Call(run_job, part.handle, (job, sent, *futures)))
        asked.append(k)

    arrivals: list[float] = []
    started = time.perf_counter()

    def arrived(_k: int) -> None:
        arrivals.append(time.perf_counter() - started)

    n_bytes = 8 * problem.dim ** (1 if outs else 2) * len(calls)
    total_of = _brought if rows.is_elsewhere and n_bytes <= MOST_BROUGHT else _in_turn
    total = total_of(rows, _Asked(tuple(calls), tuple(asked), outs), add, arrived)
    if len(calls) == len(rows.arrivals):
        rows.rounds.add(arrivals)
    return total


class _Asked(NamedTuple):
    """Calls for some parts."""

    calls: tuple[Call, ...]
    parts: tuple[int, ...]  # of each call
    outs: tuple[Any, ...]  # what is written for each row


def _put(rows: PartedRows, k: int, outs: Sequence[Any], future: Any, written: Any) -> None:
    """Put what was written for a part in its place: None is to stay where it lies, with a future."""
    part = rows.parts[k]
    for place, (out, numbers) in enumerate(zip(outs, written, strict=True)):
        if numbers is None:
            out.put(k, Written(future, place))
        elif isinstance(out, Beside):
            out.put(k, numbers)
        else:
            out[part.start : part.stop] = numbers


def _all_stay(rows: PartedRows, k: int, outs: Sequence[Any]) -> bool:
    return all(stays_there(out, rows.parts[k].stop - rows.parts[k].start) for out in outs)


def _or_none(rows: PartedRows, k: int, outs: Sequence[Any], written: Sequence[Any]) -> list[Any]:
    """Return what was written for a part, with None in the place of what stays there."""
    n_rows = rows.parts[k].stop - rows.parts[k].start
    return [None if stays_there(out, n_rows) else numbers for out, numbers in zip(outs, written, strict=True)]


def _brought(rows: PartedRows, asked: _Asked, add: Callable[[Any, Any], Any], arrived: Callable[[int], Any]) -> Any:
    """Return the sum of calls' results, which are brought here together."""
    futures, outs = completed(rows.engine, asked.calls, arrived), asked.outs
    leaves = [bool(outs) and _all_stay(rows, k, outs) for k in asked.parts]
    found = collected(rows.engine, futures, [result_of if stays else None for stays in leaves])
    results = []
    for k, future, stays, one in zip(asked.parts, futures, leaves, found, strict=True):
        result, written = (one, [None] * len(outs)) if stays else (one[0], _or_none(rows, k, outs, one[1]))
        _put(rows, k, outs, future, written)
        results.append(result)
    return sum_in_tree(results, add)


def _in_turn(rows: PartedRows, asked: _Asked, add: Callable[[Any, Any], Any], arrived: Callable[[int], Any]) -> Any:
    """Return the sum of calls' results, each of which is taken when it comes; elsewhere they are added up there."""

    def take(place: int, future: Any) -> Any:
        """Put what was written in its place; return a future of the result without it."""
        k, engine, outs = asked.parts[place], rows.engine, asked.outs
        if not rows.is_elsewhere:
            result, written = fetched(engine, future)
            _put(rows, k, outs, future, written)
            return done(result)
        stays = _all_stay(rows, k, outs)
        written = [None] * len(outs) if stays else fetched(engine, engine.submit(written_by, future))[1]
        _put(rows, k, outs, future, _or_none(rows, k, outs, written))
        return engine.submit(result_of, future)

    return sum_of_parts(rows.engine, asked.calls, add, take, arrived)
