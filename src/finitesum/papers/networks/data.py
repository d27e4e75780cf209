"""Images for the networks: MNIST, CIFAR-10 and CIFAR-100 from files of this machine, and scikit-learn's digits.

Files are looked for in a folder that is given, in those of ``FINITESUM_DATA``, and in ``FINITESUM_HOME/data``: the archives
of the registry, or what the publishers distribute, MNIST's idx files and CIFAR's binary version (nothing pickled). Pixels
are divided by 255, with no mean subtracted and no augmentation, as in the paper.
"""

import math
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets import DataError, find, load, path
from finitesum.datasets.formats.archive import Part
from finitesum.datasets.formats.streams import chunks, open_stream, require_expansion
from finitesum.datasets.home import Folder, search_folders

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Pixels = np.ndarray[Any, np.dtype[np.float32]]
Labels = np.ndarray[Any, np.dtype[np.int64]]

#: The digits of scikit-learn are divided once and for all.
_DIGITS_TRAIN = 1437

_MNIST_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))

#: Pixels of an image of CIFAR: three planes of 32 x 32, red, green and blue.
_PIXELS = 3 * 32 * 32

#: Names in CIFAR's archives and in the folders that they unpack to.
CIFAR10_PARTS = {
    "train": tuple(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
    "test": ("cifar-10-batches-bin/test_batch.bin",),
}
CIFAR100_PARTS = {"train": ("cifar-100-binary/train.bin",), "test": ("cifar-100-binary/test.bin",)}


@dataclass(frozen=True)
class Images:
    """A training set and a test set of images, shape (n, channels, height, width), in [0, 1] unless less their mean."""

    name: str
    n_classes: int  # labels are 0, ..., n_classes - 1
    train_images: Pixels
    train_labels: Labels
    test_images: Pixels
    test_labels: Labels

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    def first(self, n_train: int | None, n_test: int | None) -> "Images":
        """Return the first images of each set, None for all; a DataError where there are fewer."""
        sizes = {"n_train": (n_train, len(self.train_labels)), "n_test": (n_test, len(self.test_labels))}
        for argument, (wanted, there) in sizes.items():
            if wanted is not None and not 1 <= wanted <= there:
                raise DataError(f"{argument} must be in 1..{there} for {self.name}, got {wanted}.")
        train = self.train_images[:n_train], self.train_labels[:n_train]
        return Images(self.name, self.n_classes, *train, self.test_images[:n_test], self.test_labels[:n_test])

    def without_mean(self) -> "Images":
        """Return the images less the mean of the training images, pixel by pixel: what the residual network is given."""
        mean = self.train_images.mean(axis=0, dtype=np.float64).astype(np.float32)
        return replace(self, train_images=self.train_images - mean, test_images=self.test_images - mean)


def load_images(name: str, data_dir: Folder = None) -> Images:
    """Return a training and a test set of images, by a name of `IMAGES`; the "digits", 8 x 8 pixels, are always there.

    A DataError says that the name is unknown, or the files are damaged or not on this machine, and where to get them.

    Examples
    --------
    >>> images = load_images("digits")
    >>> images.shape, images.n_classes, len(images.train_labels), len(images.test_labels)
    ((1, 8, 8), 10, 1437, 360)
    """
    if name not in IMAGES:
        raise DataError(f"name must be one of {', '.join(IMAGES)}, got {name!r}.")
    images = IMAGES[name](data_dir)
    for labels in (images.train_labels, images.test_labels):
        if labels.min() < 0 or labels.max() >= images.n_classes:
            raise DataError(f"{name}: labels must be 0..{images.n_classes - 1}, got {labels.min()}..{labels.max()}.")
    return images


def _digits(_data_dir: Folder) -> Images:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    pixels = np.asarray(bunch.images / 16.0, dtype=np.float32)[order, None]
    labels = np.asarray(bunch.target, dtype=np.int64)[order]
    n = _DIGITS_TRAIN
    return Images("digits", 10, pixels[:n], labels[:n], pixels[n:], labels[n:])


def _mnist(data_dir: Folder) -> Images:
    files = None if find("mnist", data_dir=data_dir) is not None else _files_of_mnist(data_dir)
    if files is None:
        return _from_archive("mnist", (28, 28, 1), 10, data_dir)
    arrays = [read_idx(file) for file in files]
    for images, labels in (arrays[:2], arrays[2:]):
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise DataError(
                f"{files[0].parent}: the idx files have shapes {images.shape} and {labels.shape}. Get them again."
            )
    return _from_bytes("mnist", 10, arrays[0][:, None], arrays[1], arrays[2][:, None], arrays[3])


def _files_of_mnist(data_dir: Folder) -> list[Path] | None:
    """Return the publisher's four files, plain or packed, in the first folder that has them all."""
    for folder in search_folders(data_dir):
        choices = [(folder / name, folder / f"{name}.gz") for name in _MNIST_FILES]
        files = [next((file for file in choice if file.is_file()), None) for choice in choices]
        there = [file for file in files if file is not None]
        if len(there) == len(files):
            return there
    return None


def _cifar(
    name: str, n_classes: int, archive: str, parts: Mapping[str, tuple[str, ...]], n_label_bytes: int, data_dir: Folder
) -> Images:
    folders = search_folders(data_dir)
    places = [pair for f in folders for pair in ((f / parts["test"][0], f), (f / archive, f / archive))]
    source = next((source for place, source in places if place.is_file()), None)
    if source is None:
        where = " or ".join(map(str, folders)) or "the folder of --data"
        raise DataError(
            f"{name} is not on this machine. Get https://www.cs.toronto.edu/~kriz/{archive} and put it, packed or "
            f"unpacked, into {where}; or use {name}_subset."
        )
    train, test = (read_cifar(source, parts[part], n_label_bytes) for part in ("train", "test"))
    return _from_bytes(name, n_classes, *train, *test)


def _from_bytes(name: str, n_classes: int, *parts: Bytes) -> Images:
    """Return bytes as images: those for training, their labels, those for testing, their labels."""
    train, test = (images.astype(np.float32) / np.float32(255.0) for images in parts[::2])
    train_labels, test_labels = (labels.astype(np.int64) for labels in parts[1::2])
    return Images(name, n_classes, train, train_labels, test, test_labels)


def _from_archive(name: str, shape: tuple[int, int, int], n_classes: int, data_dir: Folder) -> Images:
    """Return the images of an ``.npz`` archive of the registry, which has channels last."""
    file = path(name, data_dir=data_dir)

    def images_of(part: Part) -> tuple[Pixels, Labels]:
        data = load(file, part=part, task="classification")
        if data.labels is None or data.n_features != np.prod(shape):
            raise DataError(f"{file}: images of {np.prod(shape)} pixels with labels are needed, got {data!r}.")
        pixels = np.asarray(data.rows, dtype=np.float32).reshape(-1, *shape)
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), np.asarray(data.labels).astype(np.int64)

    return Images(name, n_classes, *images_of("train"), *images_of("test"))


def read_idx(path: Path) -> Bytes:
    """Return the array of bytes in an idx file, plain or compressed (``.gz``).

    Two zero bytes, the type (8: bytes), the number of axes, each axis' length (four bytes, highest first), the entries.
    """
    with open_stream(path) as stream:
        content = b"".join(chunks(stream, path))
    n_axes = content[3] if len(content) > 3 else 0
    header = 4 + 4 * n_axes
    if content[:3] != b"\0\0\x08" or not 1 <= n_axes <= 32 or len(content) < header:
        raise DataError(f"{path} is no idx file of bytes: it begins with {content[:4].hex(' ') or 'nothing'}.")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_axes, offset=4))
    if len(content) != header + math.prod(shape):
        raise DataError(f"{path} promises {math.prod(shape)} entries and holds {len(content) - header}. Get it again.")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_cifar(path: Path, names: tuple[str, ...], n_label_bytes: int) -> tuple[Bytes, Bytes]:
    """Return images, shape (n, 3, 32, 32), and labels of files in CIFAR's binary version.

    `path` is the archive ``.tar.gz`` as published, which is read without being unpacked, or the folder that holds the
    folder it unpacks to. CIFAR-10 has one byte for a label; CIFAR-100 has two, of which the second, fine one is returned.
    """
    length = n_label_bytes + _PIXELS
    blocks = []
    for name, content in _contents(path, names).items():
        if not content or len(content) % length:
            raise DataError(
                f"{path}: {name} has {len(content)} bytes, no multiple of the {length} of an image. Get it again."
            )
        blocks.append(np.frombuffer(content, np.uint8).reshape(-1, length))
    rows = np.concatenate(blocks)
    return rows[:, n_label_bytes:].reshape(-1, 3, 32, 32), rows[:, n_label_bytes - 1]


def _contents(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    try:
        if path.is_dir():
            return {name: (path / name).read_bytes() for name in names}
        with tarfile.open(path) as archive:
            return {name: _member(path, archive, name) for name in names}
    except (OSError, EOFError, KeyError, zlib.error, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read: {error}. Is it complete?") from error


def _member(path: Path, archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is no file")
    require_expansion(path, archive.getmember(name).size)
    return file.read()


#: The loaders by name.
IMAGES: dict[str, Callable[[Folder], Images]] = {
    "digits": _digits,
    "mnist": _mnist,
    "cifar10": partial(_cifar, "cifar10", 10, "cifar-10-binary.tar.gz", CIFAR10_PARTS, 1),
    "cifar100": partial(_cifar, "cifar100", 100, "cifar-100-binary.tar.gz", CIFAR100_PARTS, 2),
    "cifar10_subset": partial(_from_archive, "cifar10_subset", (32, 32, 3), 10),
    "cifar100_subset": partial(_from_archive, "cifar100_subset", (32, 32, 3), 100),
}
