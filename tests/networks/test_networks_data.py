import gzip
import io
import tarfile

import numpy as np
import pytest

pytest.importorskip("torch")

from finitesum.datasets import DataError
from finitesum.papers.networks.data import CIFAR10_PARTS, CIFAR100_PARTS, load_images, read_idx


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def mnist_parts():
    generator = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": generator.integers(0, 256, (12, 28, 28)).astype(np.uint8),
        "train-labels-idx1-ubyte": generator.integers(0, 10, 12).astype(np.uint8),
        "t10k-images-idx3-ubyte": generator.integers(0, 256, (5, 28, 28)).astype(np.uint8),
        "t10k-labels-idx1-ubyte": generator.integers(0, 10, 5).astype(np.uint8),
    }


def cifar_block(n, n_label_bytes, seed, top=10):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, top, (n, n_label_bytes)).astype(np.uint8)
    return np.hstack([labels, generator.integers(0, 256, (n, 3072)).astype(np.uint8)])


def pack(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, block in files.items():
            member = tarfile.TarInfo(name)
            member.size = block.size
            archive.addfile(member, io.BytesIO(block.tobytes()))


def test_digits_are_always_there(own_folders):
    images = load_images("digits")
    assert images.shape == (1, 8, 8)
    assert images.train_images.dtype == np.float32
    assert images.train_images.min() == 0.0
    assert images.train_images.max() == 1.0
    assert set(images.test_labels) == set(range(10))


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_as_published(own_folders, packed):
    parts = mnist_parts()
    for name, array in parts.items():
        content = idx(array)
        (own_folders / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    images = load_images("mnist", own_folders)
    np.testing.assert_array_equal(
        images.train_images[:, 0], parts["train-images-idx3-ubyte"].astype(np.float32) / np.float32(255)
    )
    np.testing.assert_array_equal(images.test_labels, parts["t10k-labels-idx1-ubyte"])


def test_mnist_as_an_archive_agrees_with_the_published_files(own_folders, tmp_path):
    parts = list(mnist_parts().values())
    np.savez(
        own_folders / "mnist.npz",
        x_train=parts[0],
        y_train=parts[1] % 10,
        x_test=parts[2],
        y_test=parts[3],
        allow_pickle=False,
    )
    idx_folder = tmp_path / "idx"
    idx_folder.mkdir()
    for name, array in mnist_parts().items():
        (idx_folder / name).write_bytes(idx(array))
    one, other = load_images("mnist", own_folders), load_images("mnist", idx_folder)
    np.testing.assert_allclose(one.train_images, other.train_images, rtol=1e-6)
    np.testing.assert_array_equal(one.train_labels, other.train_labels)


def test_damaged_idx_files_are_named(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"not an idx file")
    with pytest.raises(DataError, match="no idx file"):
        read_idx(file)
    file.write_bytes(b"")
    with pytest.raises(DataError, match="nothing"):
        read_idx(file)
    file.write_bytes(idx(np.zeros((3, 4), np.uint8))[:-1])
    with pytest.raises(DataError, match="promises 12 entries and holds 11"):
        read_idx(file)
    file.write_bytes(gzip.compress(bytes(2000))[:-9])
    with pytest.raises(DataError, match="complete"):
        read_idx(file)


@pytest.mark.parametrize("packed", [False, True])
def test_cifar10_as_published(own_folders, packed):
    names = CIFAR10_PARTS["train"] + CIFAR10_PARTS["test"]
    blocks = {name: cifar_block(3, 1, seed) for seed, name in enumerate(names)}
    if packed:
        pack(own_folders / "cifar-10-binary.tar.gz", blocks)
    else:
        (own_folders / "cifar-10-batches-bin").mkdir()
        for name, block in blocks.items():
            (own_folders / name).write_bytes(block.tobytes())
    images = load_images("cifar10", own_folders)
    assert images.train_images.shape == (15, 3, 32, 32)
    third = blocks[names[1]][0]
    assert images.train_labels[3] == third[0]
    # the red plane comes first, row by row
    assert images.train_images[3, 0, 1, 2] == np.float32(third[1 + 34]) / np.float32(255)
    assert images.train_images[3, 2, 0, 0] == np.float32(third[1 + 2048]) / np.float32(255)


def test_cifar100_has_fine_labels(own_folders):
    blocks = {CIFAR100_PARTS[part][0]: cifar_block(4, 2, 7, top=100) for part in ("train", "test")}
    pack(own_folders / "cifar-100-binary.tar.gz", blocks)
    images = load_images("cifar100", own_folders)
    np.testing.assert_array_equal(images.train_labels, blocks[CIFAR100_PARTS["train"][0]][:, 1])
    assert images.n_classes == 100


def test_a_subset_has_channels_last_in_its_archive(own_folders):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3)).astype(np.uint8)
    labels = np.arange(6, dtype=np.uint8)
    np.savez(own_folders / "cifar10_subset.npz", x_train=pixels, y_train=labels, x_test=pixels[:2], y_test=labels[:2])
    images = load_images("cifar10_subset", own_folders)
    assert images.train_images.shape == (6, 3, 32, 32)
    assert images.train_images[4, 2, 5, 7] == pytest.approx(pixels[4, 5, 7, 2] / 255)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_absent_cifar_is_named_with_where_to_get_it(own_folders, name):
    with pytest.raises(DataError, match=rf"https://www.cs.toronto.edu/.*{own_folders}.*{name}_subset"):
        load_images(name, own_folders)


@pytest.mark.parametrize("name", ["mnist", "cifar10_subset"])
def test_absent_archives_are_named_with_where_to_put_them(own_folders, name):
    with pytest.raises(DataError, match=rf"not on this machine.*{own_folders}"):
        load_images(name, own_folders)


def test_unknown_names_and_wrong_numbers(images):
    with pytest.raises(DataError, match="digits"):
        load_images("imagenet")
    with pytest.raises(DataError, match=r"n_train must be in 1\.\.80 for made, got 81"):
        images.first(81, None)
    with pytest.raises(DataError, match="n_test"):
        images.first(None, 0)


def test_damaged_cifar_is_named(own_folders):
    (own_folders / "cifar-10-binary.tar.gz").write_bytes(b"nothing of that kind")
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz cannot be read"):
        load_images("cifar10", own_folders)
    names = CIFAR10_PARTS["train"] + CIFAR10_PARTS["test"]
    pack(own_folders / "cifar-10-binary.tar.gz", {name: np.zeros(3072, np.uint8) for name in names})
    with pytest.raises(DataError, match="no multiple of the 3073"):
        load_images("cifar10", own_folders)


def test_labels_out_of_range_are_refused(own_folders):
    names = CIFAR10_PARTS["train"] + CIFAR10_PARTS["test"]
    pack(own_folders / "cifar-10-binary.tar.gz", {name: np.full((1, 3073), 11, np.uint8) for name in names})
    with pytest.raises(DataError, match=r"labels must be 0\.\.9, got 11"):
        load_images("cifar10", own_folders)


def test_the_mean_of_the_training_images_is_subtracted(images):
    centred = images.without_mean()
    np.testing.assert_allclose(centred.train_images.mean(axis=0), 0.0, atol=1e-6)
    mean = images.train_images.mean(axis=0)
    np.testing.assert_allclose(centred.test_images, images.test_images - mean, atol=1e-6)
