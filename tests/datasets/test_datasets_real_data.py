"""Published data, where they are at hand: the counts are those of the registry."""

import time

import numpy as np
import pytest

from finitesum.datasets import find, list_datasets, load, load_dataset, verify

SMALL = [
    "a9a",
    "w8a.t",
    "mushrooms",
    "phishing",
    "heart_scale",
    "colon-cancer",
    "pendigits",
    "cpusmall_scale",
    "abalone_scale",
]


@pytest.mark.parametrize("name", SMALL)
def test_counts(real_file, name):
    folder = real_file(f"{name}.svm.xz").parent
    entry = next(entry for entry in list_datasets() if entry.name == name)
    assert verify(name, data_dir=folder, counts=True).known_from == "registry"
    data = load_dataset(name, data_dir=folder)
    assert data.nnz == entry.nnz
    assert data.inferred_task == entry.task
    assert data.rows.indices.dtype == np.int32
    data.rows.check_format(full_check=True)


def test_checksums_of_all(real_file):
    folder = real_file("a9a.svm.xz").parent
    present = [entry.name for entry in list_datasets() if find(entry.name, data_dir=folder)]
    checked = [verify(name, data_dir=folder) for name in present]
    assert len(checked) >= 30
    assert {item.known_from for item in checked} == {"registry"}


def test_labels(real_file):
    assert load(real_file("mushrooms.svm.xz")).label_map().classes == (1, 2)
    assert load(real_file("phishing.svm.xz")).label_map().classes == (0, 1)
    a9a = load(real_file("a9a.svm.xz"))
    assert a9a.label_map().classes == (-1, 1)
    assert int((a9a.targets() == 1).sum()) == 7841


def test_a_hit_is_fast(real_file):
    path = real_file("a9a.svm.xz")
    cold = load(path)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        hit = load(path, memmap=True)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05
    np.testing.assert_array_equal(hit.rows.data, cold.rows.data)
    np.testing.assert_array_equal(hit.labels, cold.labels)


def test_images(real_file):
    data = load_dataset("mnist.t", data_dir=real_file("mnist.npz").parent)
    assert data.rows.shape == (10_000, 784)
    assert data.rows.max() == 1.0
    assert np.bincount(data.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
