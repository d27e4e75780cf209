"""Reads images as their publishers distribute them: MNIST's idx files and CIFAR's binary version, nothing pickled."""

from __future__ import annotations

import math
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets import DataError
from finitesum.datasets.formats.streams import open_stream

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

#: Pixels of an image of CIFAR: three planes of 32 x 32, red, green and blue.
_PIXELS = 3 * 32 * 32

#: Names in the archives and in the folders that they unpack to.
CIFAR10_PARTS = {
    "train": tuple(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
    "test": ("cifar-10-batches-bin/test_batch.bin",),
}
CIFAR100_PARTS = {"train": ("cifar-100-binary/train.bin",), "test": ("cifar-100-binary/test.bin",)}


def read_idx(path: Path) -> Bytes:
    """Return the array of bytes in an idx file, plain or compressed (``.gz``).

    Two zero bytes, the type (8: bytes), the number of axes, each axis' length as four bytes with the highest first, then
    the entries.

    Raises
    ------
    DataError
        It is no such file, or not all of it is there.
    """
    try:
        with open_stream(path) as stream:
            content = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}. Is the file complete?") from error
    n_axes = content[3] if len(content) > 3 else 0
    header = 4 + 4 * n_axes
    if content[:3] != b"\0\0\x08" or n_axes == 0 or len(content) < header:
        raise DataError(f"{path} is no idx file of bytes: it begins with {content[:4].hex(' ') or 'nothing'}.")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_axes, offset=4))
    if len(content) != header + math.prod(shape):
        raise DataError(f"{path} promises {math.prod(shape)} entries and holds {len(content) - header}. Get it again.")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_cifar(path: Path, names: tuple[str, ...], n_label_bytes: int) -> tuple[Bytes, Bytes]:
    """Return images, shape (n, 3, 32, 32), and labels of files in CIFAR's binary version.

    Parameters
    ----------
    path
        The archive ``.tar.gz`` as published, which is read without being unpacked, or the folder that holds the folder
        it unpacks to.
    names
        The files in it, one after the other.
    n_label_bytes
        1 (CIFAR-10), or 2 (CIFAR-100: the coarse label, then the fine one, which is returned).

    Raises
    ------
    DataError
        A file is absent or damaged.
    """
    blocks = [_block(content, f"{path}: {name}", n_label_bytes) for name, content in _contents(path, names)]
    images = np.concatenate([block[:, n_label_bytes:] for block in blocks]).reshape(-1, 3, 32, 32)
    return images, np.concatenate([block[:, n_label_bytes - 1] for block in blocks])


def _block(content: bytes, where: str, n_label_bytes: int) -> Bytes:
    length = n_label_bytes + _PIXELS
    if not content or len(content) % length:
        raise DataError(f"{where} has {len(content)} bytes, no multiple of the {length} of an image. Get it again.")
    return np.frombuffer(content, np.uint8).reshape(-1, length)


def _contents(path: Path, names: tuple[str, ...]) -> list[tuple[str, bytes]]:
    try:
        if path.is_dir():
            return [(name, (path / name).read_bytes()) for name in names]
        with tarfile.open(path) as archive:
            return [(name, _member(archive, name)) for name in names]
    except (OSError, EOFError, KeyError, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read: {error}. Is it complete?") from error


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is no file")
    with file:
        return file.read()
