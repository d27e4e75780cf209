"""A first pass over the parts of the data: what they must agree in, and the fields of the problem that they make."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.core.engine import Call, Engine, PartError, Threads
from finitesum.core.sums import each_part
from finitesum.losses import Loss
from finitesum.losses.classes import SquaredTargets
from finitesum.problems.input import is_of_labels
from finitesum.problems.labels import require_classes
from finitesum.problems.partitioned import PartedRows, Placed, RowNumbers
from finitesum.problems.parts import Part, PartData, as_part, expanded, require_some_rows
from finitesum.problems.rows import CSRRows

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem


class Survey(NamedTuple):
    """What a first pass over a part finds."""

    n_rows: int
    n_columns: int
    is_sparse: bool
    dtype: str  # of the entries
    n_stored: int  # entries
    stored_squares: float  # sum of the squares of the rows' numbers of entries
    most_stored: int  # entries of a row, at most
    labels: Any
    label_weights: Any  # the sum of the weights of each label's rows
    n_targets: int  # 0 where targets are a vector
    weight: float  # sum of s_i
    largest_weight: float
    has_weights: bool
    has_offsets: bool
    n_offsets: int  # of a row; 0 where they are a vector, or there are none
    names: Any  # of the columns, or None
    square: float  # sum of the squares of the entries
    digest: str


def _square(entries: Any) -> float:
    """Return the sum of the squares of some numbers."""
    return (
        float(entries @ entries) if entries.dtype == np.float64 else float(np.einsum("i,i->", *(entries,) * 2, dtype=float))
    )


def survey(data: PartData) -> Survey | None:
    """Return what a pass over a part finds; None of a part without rows."""
    rows = data.rows
    if rows.n_rows == 0:
        return None
    stored = np.diff(rows.starts).astype(np.float64) if isinstance(rows, CSRRows) else np.full(1, float(rows.n_columns))
    weights = np.ones(rows.n_rows) if data.weights is None else data.weights
    totals = None if data.labels is None else np.bincount(data.targets, data.weights, len(data.labels)).astype(np.float64)
    times = 1.0 if isinstance(rows, CSRRows) else float(rows.n_rows)
    return Survey(
        n_rows=rows.n_rows,
        n_columns=rows.n_columns,
        is_sparse=isinstance(rows, CSRRows),
        dtype=str(rows.values.dtype),
        n_stored=int(rows.values.size),
        stored_squares=times * float(stored @ stored),
        most_stored=int(stored.max()),
        labels=data.labels,
        label_weights=totals,
        n_targets=data.targets.shape[1] if np.ndim(data.targets) == 2 else 0,
        weight=float(np.sum(weights)),
        largest_weight=float(np.max(weights)),
        has_weights=data.weights is not None,
        has_offsets=data.offsets is not None and bool(np.any(data.offsets)),
        n_offsets=0 if data.offsets is None or data.offsets.ndim == 1 else data.offsets.shape[1],
        names=data.names,
        square=_square(rows.values.ravel()),
        digest=data.digest,
    )


def loss_with(loss: Loss, n_targets: int) -> Loss:
    """Return the loss in the form that several targets ask for."""
    return SquaredTargets(loss.scale) if n_targets and not isinstance(loss, SquaredTargets) else loss  # type: ignore[attr-defined]


def agreeing(parts: list[Part], found: list[Survey]) -> None:
    """Raise unless the parts have the same columns, layout and targets; the error names the first that differs."""
    first = found[0]
    for part, other in zip(parts, found, strict=True):
        facts = (
            ("columns", first.n_columns, other.n_columns),
            ("targets a row", first.n_targets or 1, other.n_targets or 1),
            ("layout", *("sparse" if one.is_sparse else "dense" for one in (first, other))),
            ("dtype", first.dtype, other.dtype),
        )
        for what, expected, seen in facts:
            if expected != seen:
                raise PartError(
                    f"{part.name}: all parts must have the same {what}, got {seen}, and {expected} in {parts[0].name}."
                )
        if first.names is not None and other.names is not None and not np.array_equal(first.names, other.names):
            j = int(np.flatnonzero(first.names != other.names)[0])
            raise PartError(
                f"{part.name}: all parts must have the same columns in the same order, got {str(other.names[j])!r} as "
                f"column {j}, which is {str(first.names[j])!r} in {parts[0].name}. Select the columns by name."
            )


def _require_offsets(parts: list[Part], found: list[Survey], n_outputs: int) -> None:
    """Raise unless each row has an offset for each output."""
    for part, one in zip(parts, found, strict=True):
        if one.has_offsets or one.n_offsets:
            expected = (one.n_rows,) if n_outputs == 1 else (one.n_rows, n_outputs)
            seen = (one.n_rows,) if one.n_offsets == 0 else (one.n_rows, one.n_offsets)
            if expected != seen:
                raise PartError(f"{part.name}: offset must have shape {expected} to match the rows of X, got {seen}.")


def merged_labels(found: list[Survey], loss: Loss, check: Callable[[Any, Any, Loss], None]) -> Any:
    """Return the labels of all parts, increasing; `check` raises where a loss does not suit them."""
    try:
        classes, places = np.unique(np.concatenate([one.labels for one in found]), return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one kind: {error}. Convert them to strings first.") from error
    totals = np.bincount(places, weights=np.concatenate([one.label_weights for one in found]), minlength=classes.size)
    check(classes, totals, loss)
    return classes


def targets_by_label(labels: Any, classes: Any, loss: Loss) -> Any:
    """Return what takes the place of each of a part's labels: -1 or +1, or the code of its class."""
    codes = np.searchsorted(classes, labels)
    return codes.astype(np.int64) if loss.target_kind() == "class" else np.where(codes == 1, 1.0, -1.0)


class Parted(NamedTuple):
    """What the fields of a problem are in parts."""

    rows: PartedRows
    targets: Any
    offsets: Any
    weights: Any
    loss: Loss
    classes: Any
    n_outputs: int


def read_parts(given: Any, loss: Loss, *, intercept: bool, engine: Engine | None) -> Parted:
    """Return the parts, placed and checked by a first pass over each of them; those without rows are left out."""
    engine = Threads() if engine is None else engine
    if not isinstance(engine, Engine):
        raise TypeError(
            "engine must have the functions place, submit, as_completed, recover and close, as "
            f"finitesum.core.engine.Threads() has, got {engine!r}."
        )
    parts = [as_part(k, one, loss, intercept=intercept) for k, one in enumerate(expanded(given))]
    if not parts:
        raise ValueError("parts must hold at least one part, got none.")
    handles = [engine.place(part) for part in parts]
    arrivals: dict[int, float] = {}
    started = time.perf_counter()

    def arrived(k: int) -> None:
        arrivals[k] = time.perf_counter() - started

    surveys = each_part(engine, [Call(survey, handle, ()) for handle in handles], arrived)
    kept = [k for k, one in enumerate(surveys) if one is not None]
    require_some_rows(len(kept), len(parts))
    parts, handles = [parts[k] for k in kept], [handles[k] for k in kept]
    found: list[Survey] = [surveys[k] for k in kept]
    agreeing(parts, found)
    classes, n_outputs = None, found[0].n_targets or 1
    if is_of_labels(loss):
        classes = merged_labels(found, loss, require_classes)
        n_outputs = len(classes) if loss.target_kind() == "class" else 1
    _require_offsets(parts, found, n_outputs)
    total, stops = sum(one.weight for one in found), np.cumsum([one.n_rows for one in found]).tolist()
    if not 0.0 < total < np.inf:
        raise ValueError(f"the weights of all parts must have a positive and finite sum, got {total:g}.")
    placed = [
        Placed(
            part.name,
            handle,
            one.digest,
            stop - one.n_rows,
            stop,
            None if one.labels is None else targets_by_label(one.labels, classes, loss),
        )
        for part, handle, one, stop in zip(parts, handles, found, stops, strict=True)
    ]
    came = tuple(sorted(arrivals[k] for k in kept))
    rows, n = PartedRows(engine, placed, found, int(intercept), total, came), stops[-1]
    shape = (n,) if n_outputs == 1 else (n, n_outputs)
    has_weights, has_offsets = any(one.has_weights for one in found), any(one.has_offsets for one in found)
    return Parted(
        rows,
        RowNumbers("targets", shape if found[0].n_targets else (n,)),
        RowNumbers("offsets", shape) if has_offsets else np.broadcast_to(0.0, shape),
        RowNumbers("weights", (n,)) if has_weights else np.broadcast_to(1.0 / n, (n,)),
        loss_with(loss, found[0].n_targets),
        classes,
        n_outputs,
    )


def partitioned_term(
    alpha: float = 0.0,
    l1_ratio: float = 0.0,
    constraint: Any = None,
    penalty: Any = None,
    penalty_weights: Any = None,
    groups: Any = None,
) -> tuple[Any, ...]:
    """Return the arguments of a term in their order."""
    return alpha, l1_ratio, constraint, penalty, penalty_weights, groups


def bind(problem: "Problem") -> "Problem":
    """Return the problem, whose numbers by row are brought together by a copy that has none: no one refers to itself."""
    given = {name: getattr(problem, name) for name in ("targets", "offsets", "weights")}
    beside = {name: numbers for name, numbers in given.items() if isinstance(numbers, RowNumbers)}
    bare: Any = {name: RowNumbers(name, numbers.shape) for name, numbers in beside.items()}
    for numbers in beside.values():
        numbers.problem = replace(problem, **bare)
    return problem
