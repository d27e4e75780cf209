"""Dask collections as parts: a block of rows of X with the same rows of the targets, weights and offsets."""

from functools import partial
from typing import Any

import numpy as np

from finitesum.dask.engine import Blocks
from finitesum.problems.input import weights_of_rows
from finitesum.problems.labels import labels_and_codes
from finitesum.problems.parts import errors_named, require_some_rows

try:
    import dask
    import dask.array as da
    from dask.delayed import Delayed
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise ImportError("finitesum.dask needs dask with its arrays: pip install 'finitesum[dask]'.") from error


class Score(Delayed):  # type: ignore[misc]
    """A delayed number that scikit-learn takes for a score: it asks those of libraries for their `item`."""

    __slots__ = ()

    @classmethod
    def of(cls, number: Any) -> "Score":
        """Return a delayed number as one."""
        return cls(number.key, number.dask)

    def item(self) -> float:
        """Return the number, which is computed."""
        return float(self.compute())


def is_frame(collection: Any) -> bool:
    """Return whether a collection is a dask dataframe or series."""
    return hasattr(collection, "to_delayed") and hasattr(collection, "divisions")


def is_collection(collection: Any) -> bool:
    """Return whether something is a dask collection."""
    return bool(dask.is_dask_collection(collection))


def n_columns_of(X: Any) -> int:
    """Return the number of columns, or raise a TypeError where X is no dask array or dataframe."""
    if not is_collection(X) or not (is_frame(X) or getattr(X, "ndim", 0) == 2):
        shape = f" of {X.ndim} dimensions" if hasattr(X, "ndim") and is_collection(X) else ""
        raise TypeError(
            f"X must be a dask array or dataframe of rows and columns, got a {type(X).__name__}{shape}: fit the class in "
            "memory to what is none."
        )
    return len(X.columns) if is_frame(X) else int(X.shape[1])


def require_one_target(y: Any) -> None:
    """Raise unless there are targets, of one dimension."""
    if y is None:
        raise ValueError("y must have a label or a target for each row of X, got None.")
    if getattr(y, "ndim", 1) != 1:
        raise ValueError(f"y must have one dimension, got {y.ndim}: fit one target at a time, or the class in memory.")


def as_parts(X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> list[Blocks]:
    """Return the blocks of collections with the same rows as parts.

    Columns of an array in several chunks are brought into one. Vectors that are no collections, and those with other
    chunks, are divided as X is.

    Raises
    ------
    TypeError
        X is no dask array or dataframe.
    ValueError
        y is None, or has several columns.
        The rows of the collections are divided differently, and how many each division has is not known.
    """
    n_columns_of(X)
    require_one_target(y)
    if is_frame(X):
        blocks = list(X.to_delayed())
        sizes = None
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        blocks = list(X.to_delayed().ravel())
        sizes = X.chunks[0]
    vectors = {"y": y, "sample_weight": sample_weight, "offset": offset}
    others = [_divided(name, one, blocks, sizes) for name, one in vectors.items()]
    return [Blocks(*parts) for parts in zip(blocks, *others, strict=True)]


def totals_of(parts: list[Blocks]) -> tuple[Any, Any]:
    """Return the labels of all parts, increasing, and the sum of the weights of each label's rows."""
    names = [f"part {k} ({part.part_name})" for k, part in enumerate(parts)]
    each = zip(names, parts, strict=True)
    found = dask.compute(*[dask.delayed(_totals)(name, part.y, part.weight) for name, part in each])
    found = [one for one in found if one[0].size]  # an empty block's labels may be of another type
    require_some_rows(len(found), len(parts))
    labels, places = np.unique(np.concatenate([one[0] for one in found]), return_inverse=True)
    totals = np.bincount(places, weights=np.concatenate([one[1] for one in found]))
    if not totals.any():
        raise ValueError("sample_weight must have a positive sum, got zeros only. Leave it out for equal weights.")
    return labels, totals


def _totals(name: str, y: Any, weight: Any) -> tuple[Any, Any]:
    with errors_named(name):
        labels, codes = labels_and_codes(np.asarray(y))
        return labels, np.bincount(codes, weights=None if weight is None else weights_of_rows(weight, codes.size, "weight"))


def with_labels(parts: list[Blocks], labels: Any) -> list[Blocks]:
    """Return the parts with one of these labels in the place of others, whose rows have no weight."""
    return [part._replace(y=dask.delayed(_with_labels)(part.y, labels)) for part in parts]


def _with_labels(y: Any, labels: Any) -> Any:
    y = np.asarray(y)
    return np.where(np.isin(y, labels), y, labels[0])


def weighted(parts: list[Blocks], labels: Any, factors: Any) -> list[Blocks]:
    """Return the parts with weights that are multiplied with the factors of their labels."""
    return [part._replace(weight=dask.delayed(_weighted)(part.y, part.weight, labels, factors)) for part in parts]


def _weighted(y: Any, weight: Any, labels: Any, factors: Any) -> Any:
    own = factors[np.searchsorted(labels, np.asarray(y))]
    return own if weight is None else own * np.asarray(weight, dtype=np.float64)


def _divided(name: str, vector: Any, blocks: list[Any], sizes: Any) -> list[Any]:
    """Return the parts of a vector that belong to the blocks of X."""
    if vector is None:
        return [None] * len(blocks)
    if is_frame(vector):
        parts = list(vector.to_delayed())
    elif is_collection(vector):
        n = np.nan if sizes is None else float(np.sum(sizes))
        if vector.shape[0] != n and not np.isnan([n, vector.shape[0]]).any():
            raise ValueError(f"{name} must have {int(n)} entries to match the rows of X, got {vector.shape}.")
        same = vector.chunks[0] == sizes or sizes is None or np.isnan(sizes).any()
        parts = list((vector if same else vector.rechunk({0: sizes})).to_delayed().ravel())
    else:
        if sizes is None or np.isnan(sizes).any():
            raise ValueError(f"{name} must be a collection divided as X is: the lengths of X's blocks are not known.")
        array = np.asarray(vector)
        if array.shape[:1] != (int(np.sum(sizes)),):
            raise ValueError(f"{name} must have {int(np.sum(sizes))} entries to match the rows of X, got {array.shape}.")
        ends = np.cumsum(sizes)
        parts = [dask.delayed(array[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
    if len(parts) != len(blocks):
        raise ValueError(f"{name} must be divided as X is, into {len(blocks)} blocks, got {len(parts)}.")
    return parts


def mapped(X: Any, function: Any, *, width: int, dtype: Any) -> Any:
    """Return a lazy array of function(block) for the blocks of rows of X: (n,) for width 0, (n, width) elsewhere."""
    if is_frame(X):
        meta = np.zeros((0, width) if width else 0, dtype=dtype)
        delayed = [dask.delayed(of_rows)(block, function, width=width, dtype=dtype) for block in X.to_delayed()]
        shape = (np.nan, width) if width else (np.nan,)
        return da.concatenate([da.from_delayed(one, shape=shape, dtype=dtype, meta=meta) for one in delayed])
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    each = partial(of_rows, function=function, width=width, dtype=dtype)
    if width:
        return X.map_blocks(each, chunks=(X.chunks[0], (width,)), dtype=dtype, meta=np.zeros((0, width), dtype=dtype))
    return X.map_blocks(each, drop_axis=1, dtype=dtype, meta=np.zeros(0, dtype=dtype))


def of_rows(block: Any, function: Any, *, width: int, dtype: Any) -> Any:
    """Return function(block), or as empty an array where the block has no rows."""
    return function(block) if block.shape[0] else np.zeros((0, width) if width else 0, dtype=dtype)
