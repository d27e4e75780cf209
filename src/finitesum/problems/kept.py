"""Numbers by row that stay where a part is: what workers wrote, and are given again, is not sent to them again.

What a function writes beside a part comes to the caller as new arrays, and lies with its result where that was computed.
These results are kept for a while, by a digest of each array. Where the caller gives the same numbers to the same part
later, the future of that result goes in their place; which numbers they are is a matter of their content alone. Numbers
that are all equal are sent as one.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from finitesum.problems.digests import digest_sums

#: Bytes up to which an array is sent.
LEAST_BYTES = 1 << 16

#: Arrays that are kept of a part.
MOST_KEPT = 4


class Place(NamedTuple):
    """Where an array stands that is not sent: among the results that go with a call, and what these wrote."""

    result: int
    array: int


class Equal(NamedTuple):
    """Numbers that are all equal."""

    number: Any
    size: int


class Kept:
    """The results that hold what workers wrote, by part and digest."""

    def __init__(self) -> None:
        self._known: dict[str, OrderedDict[bytes, tuple[Any, int]]] = {}

    def note(self, name: str, future: Any, written: Sequence[Any]) -> None:
        """Keep a result of a part, and forget those that were not asked for longest."""
        known = self._known.setdefault(name, OrderedDict())
        for k, array in enumerate(written):
            if array.nbytes > LEAST_BYTES:
                known[_digest(array)] = future, k
        while len(known) > MOST_KEPT:
            known.popitem(last=False)

    def placed(self, name: str, arrays: Sequence[Any], futures: list[Any]) -> tuple[Any, ...]:
        """Return arrays with places for those that are known; their futures are appended."""
        known, out = self._known.get(name), []
        for array in arrays:
            if not (isinstance(array, np.ndarray) and array.nbytes > LEAST_BYTES):
                out.append(array)
            elif known and (found := known.get(key := _digest(array))) is not None:
                known.move_to_end(key)
                out.append(Place(len(futures), found[1]))
                futures.append(found[0])
            else:
                is_one = array.ndim == 1 and bool((array == array[0]).all())
                out.append(Equal(array[:1].copy(), array.size) if is_one else array)
        return tuple(out)


def in_place(arrays: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
    """Return arrays with those of the results in the places of what was not sent."""

    def whole(one: Any) -> Any:
        if isinstance(one, Place):
            return results[one.result][1][one.array]
        return np.repeat(one.number, one.size) if isinstance(one, Equal) else one

    return tuple(map(whole, arrays))


def _digest(array: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    digest_sums(digest, array)
    return digest.digest()
