"""Arrays in mapped files: they count as no memory of the process, and are read as they are used."""

import mmap
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from finitesum.core.arrays import Data

#: Bytes that the system is asked for at a time: of more it reads no more than its own limit, a few megabytes, at its start.
AHEAD = 1 << 20

#: Bytes up to which an array stays in memory.
LEAST_BYTES = 1 << 16


class _Alias:
    """The memory of an array, offered as writable: kernels then need one signature, and they never write to data."""

    def __init__(self, array: Data) -> None:
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
        self.keeps_alive = array


def as_writable(array: Data) -> Data:
    """Return an array, or a read-only one as if it could be written to."""
    return array if array.flags.writeable and type(array) is np.ndarray else np.asarray(_Alias(array))


def mapped_array_of(array: Any) -> Any:
    """Return the mapped array whose memory an array lies in, None where it lies in memory."""
    found = None
    while array is not None:
        if isinstance(array, np.memmap):
            found = array  # the last one is whole
        array = array.keeps_alive if isinstance(array, _Alias) else getattr(array, "base", None)
    return found


def mapping_of(array: Any) -> Any:
    """Return the mapped file that an array lies in, None where it lies in memory."""
    mapped = mapped_array_of(array)
    return None if mapped is None else mapped._mmap


def on_disk(value: Any, folder: Path) -> Any:
    """Return a tuple of arrays and such tuples with large arrays of numbers written to files of a folder, and mapped."""
    if isinstance(value, tuple):
        return type(value)._make(on_disk(member, folder) for member in value)  # type: ignore[attr-defined]
    is_large = isinstance(value, np.ndarray) and value.nbytes > LEAST_BYTES and value.dtype.kind in "biuf"
    if not is_large or mapping_of(value) is not None:
        return value
    file = folder / f"{uuid4().hex}.npy"
    np.save(file, value)
    return as_writable(np.load(file, mmap_mode="r"))


def read_ahead(value: Any) -> None:
    """Ask the system to read the mapped arrays of a tuple into its cache; it returns before they are there."""
    for member in value if isinstance(value, tuple) else ():
        read_ahead(member)
    mapped = mapped_array_of(value) if isinstance(value, np.ndarray) else None
    if mapped is None or mapped.filename is None or not hasattr(os, "posix_fadvise"):
        return
    start = value.ctypes.data - np.frombuffer(mapped._mmap, dtype=np.uint8).ctypes.data
    start += mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY  # where the mapping begins in the file
    try:
        file = os.open(mapped.filename, os.O_RDONLY)
    except OSError:  # it is gone, but for the mapping
        return
    try:
        for first in range(start, start + value.nbytes, AHEAD):  # unlike madvise, this lets other threads run
            os.posix_fadvise(file, first, min(AHEAD, start + value.nbytes - first), os.POSIX_FADV_WILLNEED)
    finally:
        os.close(file)
