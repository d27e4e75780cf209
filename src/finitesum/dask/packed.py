"""What many calls share, pickled once here, and read once by each worker.

Functions that were made for a call are pickled by their code, which takes a millisecond, and as long again to read.
"""

import functools
from typing import Any, NamedTuple

import cloudpickle


class Packed(NamedTuple):
    """A value."""

    pickled: bytes


def packed(value: Any) -> Packed:
    """Return a value as it is sent."""
    return Packed(cloudpickle.dumps(value))


@functools.lru_cache(maxsize=4)
def _read(pickled: bytes) -> Any:
    return cloudpickle.loads(pickled)


def opened(value: Packed) -> Any:
    """Return the value, the same one to all calls, which do not write to it."""
    return _read(value.pickled)
