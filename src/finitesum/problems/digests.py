"""Digests of arrays: by which data are known again."""

from typing import Any

import numpy as np

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
