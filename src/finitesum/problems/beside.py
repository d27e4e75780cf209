"""Numbers by row that stay where a part is: what workers wrote lies with them, and is brought here where it is used.

What a function writes beside a part lies with its result where that was computed. The caller has an array of futures in
its place, which go with later calls for the same part: so it is not sent, and what is lost is computed again from the part
and the arguments. Numbers that are all equal are sent as one.
"""

import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from finitesum.core.engine import Engine, done
from finitesum.core.sums import fetched

#: Rows of parts from which what is computed for each of them, and soon not needed any more, is kept in files.
MOST_IN_MEMORY = 1 << 22

#: The fraction of the components up to which the rows of some are copied apart from the others.
FEW = 0.1

#: Bytes of a part up to which numbers by row are brought to the caller at once.
LEAST_BYTES = 1 << 16


class ByRow(NDArrayOperatorsMixin):
    """An array with an entry for each row that lies elsewhere, and is brought together when it is used."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def numbers(self) -> Any:
        """All of them, as an array here."""

    @property
    def size(self) -> int:
        """How many they are."""
        return int(np.prod(self.shape))

    @property
    def ndim(self) -> int:
        """Of how many dimensions."""
        return len(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        numbers = self.numbers if dtype is None else self.numbers.astype(dtype, copy=False)
        return numbers.copy() if copy else numbers

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given = [one.numbers if isinstance(one, ByRow) else one for one in inputs]
        (out,) = options.get("out", (None,))[:1]
        if not isinstance(out, ByRow):
            return getattr(ufunc, method)(*given, **options)
        out[...] = getattr(ufunc, method)(*given, **{name: value for name, value in options.items() if name != "out"})
        return out

    def __getitem__(self, key: Any) -> Any:
        return self.numbers[key]

    def __setitem__(self, key: Any, values: Any) -> None:
        raise TypeError("these numbers are the parts' own, and not to be written to.")

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in dir(np.ndarray):
            raise AttributeError(name)
        return getattr(self.numbers, name)


class Equal(NamedTuple):
    """Numbers that are all equal."""

    number: Any  # those of one row
    n_rows: int


class Place(NamedTuple):
    """Where an array stands that is not sent: among the results that go with a call, and what these wrote."""

    result: int
    array: int


class Written(NamedTuple):
    """Where numbers of a part lie: the future of a result, and which of the arrays that go with it."""

    future: Any
    array: int


class Beside(ByRow):
    """Numbers by row, one or several each, that lie beside the parts: for each part what was written there, or is here.

    They are replaced part by part (`put`), and no array is written to: a copy takes no memory.
    """

    def __init__(self, engine: Engine, starts: Sequence[int], zero: Any, held: Sequence[Any]) -> None:
        self.engine, self.starts, self.zero, self.dtype = engine, tuple(starts), zero, zero.dtype
        self.shape = (self.starts[-1], *zero.shape[1:])
        self.held = list(held)  # of each part: an array, Equal or Written
        self._here: Any = None

    @property
    def numbers(self) -> Any:
        """All of them, brought here once; not to be written to."""
        if self._here is None:
            self._here = np.concatenate(self._each(np.asarray))
            self._here.flags.writeable = False
        return self._here

    def _each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return a function's results for the numbers of each part, computed where these lie."""
        asked = [
            self.engine.submit(_of_written, one.future, one.array, function)
            if isinstance(one, Written)
            else done(function(_whole(one)))
            for one in self.held
        ]
        return [fetched(self.engine, future) for future in asked]

    def put(self, k: int, numbers: Any) -> None:
        """Replace the numbers of a part."""
        self.held[k], self._here = numbers, None

    def __setitem__(self, key: Any, values: Any) -> None:
        numbers, ends = self.numbers.copy(), self.starts[1:]
        numbers[key] = values
        self.held = [numbers[start:end] for start, end in zip(self.starts, ends, strict=False)]
        self._here = numbers

    def copy(self) -> "Beside":
        """Return the same numbers, parts of which may be replaced."""
        return Beside(self.engine, self.starts, self.zero, self.held)

    def max(self, **options: Any) -> Any:
        """Return the largest one; each part's is found where it lies."""
        return np.max(self._each(np.max), **options)

    def __reduce__(self) -> Any:
        return np.array, (self.numbers,)


def _whole(numbers: Any) -> Any:
    return np.repeat(*numbers, axis=0) if isinstance(numbers, Equal) else numbers


def _of_written(found: tuple[Any, Any], k: int, function: Callable[[Any], Any]) -> Any:
    return function(found[1][k])


def zeros_by_row(problem: Any, dtype: Any = np.float64) -> Any:
    """Return a 0 for each row, which lies beside the parts where these are elsewhere."""
    return empty_by_row(problem, dtype) if _is_elsewhere(problem) else np.zeros(problem.n_rows, dtype=dtype)


def empty_by_row(problem: Any, dtype: Any = np.float64, n_outputs: int = 0) -> Any:
    """Return memory for a number, or one for each output, of each row; of parts elsewhere, zeros beside these.

    Of many rows in parts it is a file that goes with it.
    """
    if _is_elsewhere(problem):
        parts, zero = problem.rows.parts, np.zeros((1, n_outputs) if n_outputs else 1, dtype=dtype)
        starts = [*(part.start for part in parts), parts[-1].stop]
        return Beside(problem.rows.engine, starts, zero, [Equal(zero, part.stop - part.start) for part in parts])
    if n_outputs:
        return np.empty((n_outputs, problem.n_rows), dtype=dtype).T  # which takes less time by output
    if not hasattr(getattr(problem, "rows", None), "parts") or problem.n_rows < MOST_IN_MEMORY:
        return np.empty(problem.n_rows, dtype=dtype)
    with tempfile.TemporaryFile() as file:
        file.truncate(problem.n_rows * np.dtype(dtype).itemsize)
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=(problem.n_rows,)))


def some_by_row(problem: Any, numbers: Any, components: Any) -> Any:
    """Return a copy of numbers that are 0 but for the rows of some components, which increase; few take little time."""
    if isinstance(numbers, ByRow) or components.size > FEW * problem.n_components:
        return numbers.copy()
    size = problem.batch_size or 1
    copied = np.zeros(numbers.shape, dtype=numbers.dtype)  # unlike zeros_like, it touches no memory
    if size == 1:
        copied[components] = numbers[components]
        return copied
    ends = np.append(np.flatnonzero(np.diff(components) != 1) + 1, components.size)
    for first, end in zip(np.append(0, ends[:-1]), ends, strict=True):
        rows = slice(components[first] * size, (components[end - 1] + 1) * size) if end > first else slice(0)
        copied[rows] = numbers[rows]
    return copied


def _is_elsewhere(problem: Any) -> bool:
    return getattr(getattr(problem, "rows", None), "is_elsewhere", False)


def stays_there(numbers: Any, n_rows: int) -> bool:
    """Return whether what is written for some rows of a part stays where that is."""
    return isinstance(numbers, Beside) and n_rows * numbers.zero.nbytes > LEAST_BYTES


def of_part(numbers: Any, k: int, rows: slice, futures: list[Any] | None) -> Any:
    """Return a part's numbers as they go with a call: the future of those that lie there is appended to the list.

    Without a list memory is shared.
    """
    held = numbers.held[k] if isinstance(numbers, Beside) else numbers[rows]
    if isinstance(held, Written) and futures is not None:
        futures.append(held.future)
        return Place(len(futures) - 1, held.array)
    is_large = futures is not None and isinstance(held, np.ndarray) and held.ndim == 1 and held.nbytes > LEAST_BYTES
    return Equal(held[:1].copy(), held.size) if is_large and bool((held == held[0]).all()) else held


def in_place(arrays: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
    """Return arrays with those of the results in the places of what was not sent."""
    return tuple(results[one.result][1][one.array] if isinstance(one, Place) else _whole(one) for one in arrays)
