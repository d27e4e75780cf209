"""Images for the networks: MNIST, CIFAR-10 and CIFAR-100 from files of this machine, and scikit-learn's digits.

Files are looked for in a folder that is given, in those of ``FINITESUM_DATA``, and in ``FINITESUM_HOME/data``. Pixels are
divided by 255, with no mean subtracted and no augmentation, as in the paper.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets import DataError, find, load, path
from finitesum.datasets.formats.archive import Part
from finitesum.datasets.home import search_folders
from finitesum.papers.networks.originals import CIFAR10_PARTS, CIFAR100_PARTS, Bytes, read_cifar, read_idx

Pixels = np.ndarray[Any, np.dtype[np.float32]]
Labels = np.ndarray[Any, np.dtype[np.int64]]
Folder = str | os.PathLike[str] | None

#: The digits of scikit-learn are divided once and for all.
_DIGITS_TRAIN = 1437

_MNIST_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


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

    def first(self, n_train: int | None, n_test: int | None) -> Images:
        """Return the first images of each set; None for all.

        Raises
        ------
        DataError
            There are fewer.
        """
        sizes = {"n_train": (n_train, len(self.train_labels)), "n_test": (n_test, len(self.test_labels))}
        for argument, (wanted, there) in sizes.items():
            if wanted is not None and not 1 <= wanted <= there:
                raise DataError(f"{argument} must be in 1..{there} for {self.name}, got {wanted}.")
        return replace(
            self,
            train_images=self.train_images[:n_train],
            train_labels=self.train_labels[:n_train],
            test_images=self.test_images[:n_test],
            test_labels=self.test_labels[:n_test],
        )

    def without_mean(self) -> Images:
        """Return the images less the mean of the training images, pixel by pixel: what the residual network is given."""
        mean = self.train_images.mean(axis=0, dtype=np.float64).astype(np.float32)
        return replace(self, train_images=self.train_images - mean, test_images=self.test_images - mean)


def load_images(name: str, data_dir: Folder = None) -> Images:
    """Return a training and a test set of images.

    Parameters
    ----------
    name
        "mnist", "cifar10", "cifar100"; "cifar10_subset" or "cifar100_subset", samples of them; or "digits", 8 x 8 pixels,
        which are always there.
    data_dir
        A folder that is searched first.

    Raises
    ------
    DataError
        The name is unknown; or the files are not on this machine, and the message says where to get them; or damaged.

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


def _digits(data_dir: Folder) -> Images:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    pixels = np.asarray(bunch.images / 16.0, dtype=np.float32)[order, None]
    labels = np.asarray(bunch.target, dtype=np.int64)[order]
    n = _DIGITS_TRAIN
    return Images("digits", 10, pixels[:n], labels[:n], pixels[n:], labels[n:])


def _mnist(data_dir: Folder) -> Images:
    if find("mnist", data_dir=data_dir) is None and (folder := _folder_of_mnist(data_dir)) is not None:
        parts = [read_idx(_plain_or_packed(folder, name) or folder / name) for name in _MNIST_FILES]
        for images, labels in ((parts[0], parts[1]), (parts[2], parts[3])):
            if images.ndim != 3 or labels.shape != images.shape[:1]:
                raise DataError(
                    f"{folder}: the idx files have shapes {images.shape} and {labels.shape}. Get them again."
                )
        return _from_bytes("mnist", 10, parts[0][:, None], parts[1], parts[2][:, None], parts[3])
    return _from_archive("mnist", (28, 28, 1), 10, data_dir)


def _plain_or_packed(folder: Path, name: str) -> Path | None:
    return next((folder / file for file in (name, f"{name}.gz") if (folder / file).is_file()), None)


def _folder_of_mnist(data_dir: Folder) -> Path | None:
    """Return the first folder with all four of the publisher's files."""
    folders = search_folders(data_dir)
    return next((f for f in folders if all(_plain_or_packed(f, name) for name in _MNIST_FILES)), None)


def _cifar(
    name: str, n_classes: int, archive: str, parts: Mapping[str, tuple[str, ...]], n_label_bytes: int, data_dir: Folder
) -> Images:
    folders = search_folders(data_dir)
    places = {
        place: source for f in folders for place, source in ((f / parts["test"][0], f), (f / archive, f / archive))
    }
    source = next((source for place, source in places.items() if place.is_file()), None)
    if source is None:
        where = " or ".join(map(str, folders)) or "the folder of --data"
        raise DataError(
            f"{name} is not on this machine. Get https://www.cs.toronto.edu/~kriz/{archive} and put it, packed or "
            f"unpacked, into {where}; or use {name}_subset."
        )
    train, test = (read_cifar(source, parts[part], n_label_bytes) for part in ("train", "test"))
    return _from_bytes(name, n_classes, *train, *test)


def _from_bytes(
    name: str, n_classes: int, train_images: Bytes, train_labels: Bytes, test_images: Bytes, test_labels: Bytes
) -> Images:
    return Images(
        name,
        n_classes,
        train_images.astype(np.float32) / np.float32(255.0),
        train_labels.astype(np.int64),
        test_images.astype(np.float32) / np.float32(255.0),
        test_labels.astype(np.int64),
    )


def _from_archive(name: str, shape: tuple[int, int, int], n_classes: int, data_dir: Folder) -> Images:
    """Return the images of an ``.npz`` archive of the registry, which has channels last."""
    file = path(name, data_dir=data_dir)
    train, test = (_part(file, part, shape) for part in ("train", "test"))
    return Images(name, n_classes, *train, *test)


def _part(file: Path, part: Part, shape: tuple[int, int, int]) -> tuple[Pixels, Labels]:
    data = load(file, part=part, task="classification")
    if data.labels is None or data.n_features != np.prod(shape):
        raise DataError(f"{file}: images of {np.prod(shape)} pixels with labels are needed, got {data!r}.")
    pixels = np.asarray(data.rows, dtype=np.float32).reshape(-1, *shape)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), np.asarray(data.labels).astype(np.int64)


#: The loaders by name.
IMAGES: dict[str, Callable[[Folder], Images]] = {
    "digits": _digits,
    "mnist": _mnist,
    "cifar10": partial(_cifar, "cifar10", 10, "cifar-10-binary.tar.gz", CIFAR10_PARTS, 1),
    "cifar100": partial(_cifar, "cifar100", 100, "cifar-100-binary.tar.gz", CIFAR100_PARTS, 2),
    "cifar10_subset": partial(_from_archive, "cifar10_subset", (32, 32, 3), 10),
    "cifar100_subset": partial(_from_archive, "cifar100_subset", (32, 32, 3), 100),
}
