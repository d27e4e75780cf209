"""Digests of arrays: by which data are known again."""

import functools
import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

#: Words of 8 bytes that are summed up before they enter the digest of a part.
_WORDS = 1 << 15

#: Larger arrays are fingerprinted by blocks spread over them: reading a memory-mapped terabyte twice would be absurd.
_WHOLE_DIGEST_BYTES = 1 << 28
_DIGEST_BLOCKS = 256


def digest_array(digest: Any, array: Any) -> None:
    """Add an array to a digest: the whole of it, or blocks of a very large one."""
    digest.update(f"{array.dtype}{array.shape}".encode())
    flat: Any = np.ascontiguousarray(array).reshape(-1)
    if array.nbytes <= _WHOLE_DIGEST_BYTES:
        digest.update(memoryview(flat).cast("B"))
        return
    block = _WHOLE_DIGEST_BYTES // _DIGEST_BLOCKS // array.itemsize
    for start in np.linspace(0, flat.size - block, _DIGEST_BLOCKS).astype(np.int64):
        digest.update(memoryview(flat[start : start + block]).cast("B"))


def digest_of(arrays: Iterable[Any], parts: tuple[Any, ...]) -> str:
    """Return the digest of arrays and of what other things are written as."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest_array(digest, array)
    digest.update(repr(parts).encode())
    return digest.hexdigest()


@functools.cache
def _multipliers() -> Any:
    """Return odd numbers, fixed: a word that changes by anything changes the sum of its products with them, modulo 2^64."""
    return np.random.default_rng(0).integers(0, 2**63, _WORDS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def digest_sums(digest: Any, array: Any) -> None:
    """Add an array to a digest as weighted sums of its words, which takes little more time than reading it.

    Any one change is noticed, and others but for one in 2^64 that happen; changes made on purpose need not be.
    """
    digest.update(f"{array.dtype}{array.shape}".encode())
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    n = flat.size - flat.size % (8 * _WORDS)
    words = flat[:n].view(np.uint64).reshape(-1, _WORDS)
    digest.update(np.einsum("ij,j->i", words, _multipliers()).tobytes())
    digest.update(flat[n:].tobytes())
