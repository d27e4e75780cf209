"""Public data by name: found on disk, or downloaded from servers of this machine."""

import functools
import hashlib
import http.server
import lzma
import os
import threading
from pathlib import Path

import numpy as np
import pooch
import pytest

from finitesum.datasets import DataError, fetch, fetching, find, info, list_datasets, load_dataset, path, registry, verify
from finitesum.datasets.registry import DataFile, Info

TEXT = b"1 1:1\n2 2:1\n1 1:3 2:4\n"
PACKED = lzma.compress(TEXT)
CHECKSUM = hashlib.sha256(PACKED).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.requests.append(self.path)


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.requests, running.folder = [], folder
        running.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def tiny(monkeypatch, server):
    """Put a data set into the registry: a packed copy with a checksum, and the publisher's file without one."""
    entry = Info(
        name="tiny.scale",
        title="Three rows",
        task="classification",
        n_rows=3,
        n_features=5,
        n_classes=2,
        nnz=4,
        files=(DataFile("tiny.scale.svm.xz", CHECKSUM), DataFile("tiny", None, (f"{server.url}/tiny",))),
        aliases=("small",),
    )
    monkeypatch.setitem(registry._registry(), entry.name, entry)
    return entry


@pytest.fixture
def data_folder(home_folder):
    return home_folder / "data"


def test_every_entry_is_sound():
    entries = list_datasets()
    names = [entry.name for entry in entries]
    for name in (
        "a9a",
        "w8a",
        "mushrooms",
        "ijcnn1",
        "covtype.binary.scale",
        "phishing",
        "rcv1",
        "real-sim",
        "SUSY",
        "alpha",
        "news20",
        "mnist",
    ):
        assert name in names
    for entry in entries:
        assert entry.n_rows > 0
        assert entry.n_features > 0
        assert (entry.n_classes is None) == (entry.task == "regression")
        assert entry.files
        for file in entry.files:
            assert file.sha256 is None or len(file.sha256) == 64
            assert all(url.startswith("https://") for url in file.urls)
    every = [*names, *(alias for entry in entries for alias in entry.aliases)]
    assert len(set(every)) == len(every)


def test_names():
    assert info("covtype").name == "covtype.binary.scale"
    assert info("susy").name == "SUSY"
    with pytest.raises(DataError, match=r"name='a9b' is no data set of the registry. Did you mean 'a9a'"):
        info("a9b")
    with pytest.raises(DataError, match=r"See list_datasets\(\)"):
        info("qqqqqqqqqqqq")


@pytest.mark.parametrize("name", ["tiny.scale.svm.xz", "tiny.scale.svm", "tiny.scale.bz2", "tiny.scale", "tiny"])
def test_found_in_a_folder(tiny, tmp_path, monkeypatch, data_folder, name):
    assert find("tiny.scale") is None
    for where in ("argument", "environment", "home"):
        folder = {"argument": tmp_path / "given", "environment": tmp_path / "shared", "home": data_folder}[where]
        folder.mkdir()
        (folder / name).write_bytes(TEXT)
    monkeypatch.setenv("FINITESUM_DATA", os.pathsep.join([str(tmp_path / "none"), str(tmp_path / "shared")]))
    assert find("small", data_dir=tmp_path / "given") == tmp_path / "given" / name
    assert find("small") == path("tiny.scale") == fetch("small") == tmp_path / "shared" / name
    monkeypatch.delenv("FINITESUM_DATA")
    assert find("small") == data_folder / name


def test_files_of_ones_own(tmp_path):
    (tmp_path / "mine.csv.gz").write_bytes(b"")
    assert find("mine", data_dir=tmp_path) == tmp_path / "mine.csv.gz"
    assert find("../mine", data_dir=tmp_path / "x") is None
    assert find("", data_dir=tmp_path) is None
    with pytest.raises(DataError, match="no data set of the registry"):
        path("yours", data_dir=tmp_path)


def test_download_from_the_publisher(tiny, server, data_folder):
    (server.folder / "tiny").write_bytes(TEXT)
    assert fetch("small") == data_folder / "tiny"
    assert (data_folder / "tiny").read_bytes() == TEXT
    assert fetch("small") == data_folder / "tiny"
    assert server.requests == ["/tiny"]
    data = load_dataset("small")
    assert (data.name, data.n_features, data.task) == ("tiny.scale", 5, "classification")
    checked = verify("small", counts=True)
    assert (checked.known_from, checked.counts_checked) == ("first download", True)
    assert sorted(file.name for file in data_folder.iterdir()) == ["checksums.json", "tiny"]


def test_first_download_counts(tiny, server, data_folder):
    (server.folder / "tiny").write_bytes(TEXT)
    file = fetch("small")
    file.write_bytes(TEXT + b"1 1:7\n")
    with pytest.raises(DataError, match=r"the SHA-256 is .* \(from the first download\).*remove it and fetch it again"):
        verify("small")
    file.unlink()
    (server.folder / "tiny").write_bytes(TEXT + b"1 1:7\n")
    with pytest.raises(DataError, match="of the first download"):
        fetch("small")
    assert not file.exists()
    (data_folder / "checksums.json").write_text("damaged")
    assert fetch("small") == file


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_mirrors_come_first(tiny, server, data_folder, scheme):
    (server.folder / "tiny.scale.svm.xz").write_bytes(PACKED)
    mirror = server.url if scheme == "http" else server.folder.as_uri()
    assert fetch("small", mirrors=[f"{server.url}/nowhere", f"{mirror}/"]) == data_folder / "tiny.scale.svm.xz"
    assert verify("small").known_from == "registry"
    np.testing.assert_array_equal(load_dataset("small").rows.toarray()[:, :2], [[1, 0], [0, 1], [3, 4]])


def test_a_mirror_with_another_file(tiny, server, data_folder):
    (server.folder / "tiny.scale.svm.xz").write_bytes(PACKED + b"x")
    (server.folder / "tiny").write_bytes(TEXT)
    assert fetch("small", mirrors=[server.url]).name == "tiny"
    (data_folder / "tiny").unlink()
    (server.folder / "tiny").unlink()
    with pytest.raises(DataError, match="the SHA-256 is") as caught:
        fetch("small", mirrors=[server.url])
    assert f"Get it from {server.url}/tiny and put it, as tiny, into {data_folder}" in str(caught.value)
    assert sorted(file.name for file in data_folder.iterdir()) == ["checksums.json"]


@pytest.mark.parametrize("page", [b"", b"<!DOCTYPE html><p>Moved</p>"])
def test_a_web_page_is_no_data(tiny, server, page):
    (server.folder / "tiny").write_bytes(page)
    with pytest.raises(DataError, match="an empty file or a web page"):
        fetch("small")


def test_without_a_network(tiny, server, monkeypatch, tmp_path):
    monkeypatch.setenv("FINITESUM_DATA", str(tmp_path / "shared"))
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match="tiny could not be downloaded") as caught:
        fetch("small")
    assert f"Get it from {server.url}/tiny and put it, as tiny, into {tmp_path / 'shared'} or " in str(caught.value)
    with pytest.raises(DataError, match=r"small is not on this machine\. Get it from"):
        path("small")


def test_data_without_an_address():
    with pytest.raises(
        DataError, match=r"alpha is not on this machine\. No public address is known: put alpha.svm.xz into"
    ):
        fetch("alpha")


def test_a_home_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "plain").write_text("a file, no folder")
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path / "plain"))
    with pytest.raises(DataError, match=r"tiny cannot be stored in .* Set FINITESUM_HOME"):
        fetch("small")
    monkeypatch.setattr(fetching, "home", lambda: None)
    with pytest.raises(DataError, match="small cannot be stored: no home folder is known"):
        fetch("small")


def test_verify_finds_other_files(tiny, tmp_path):
    (tmp_path / "tiny.scale.svm.xz").write_bytes(PACKED)
    assert verify("small", data_dir=tmp_path, counts=True).sha256 == CHECKSUM
    (tmp_path / "tiny.scale.svm.xz").write_bytes(PACKED + b"x")
    with pytest.raises(DataError, match=r"the SHA-256 is .* \(from the registry\)"):
        verify("small", data_dir=tmp_path)
    (tmp_path / "tiny.scale.svm.xz").unlink()
    (tmp_path / "tiny.scale.svm").write_bytes(TEXT + TEXT)
    assert verify("small", data_dir=tmp_path).known_from == "nowhere"
    with pytest.raises(DataError, match=r"n_rows is 6, but tiny.scale has 3"):
        verify("small", data_dir=tmp_path, counts=True)


def test_the_test_part_shares_an_archive(tmp_path):
    images = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28)
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=[1, 2, 3], x_test=images[:2], y_test=[8, 9])
    assert load_dataset("mnist", data_dir=tmp_path).labels.tolist() == [1, 2, 3]
    test = load_dataset("mnist.t", data_dir=tmp_path)
    assert test.labels.tolist() == [8, 9]
    assert test.name == "mnist.t"


def test_progress_goes_to_stderr(tiny, server, capsys):
    (server.folder / "tiny").write_bytes(TEXT)
    fetch("small", progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "tiny" in err


def test_other_schemes_go_to_ftp(tiny, monkeypatch, data_folder):
    def transfer(self, url, file, pooch):
        assert url == "ftp://127.0.0.1/tiny.scale.svm.xz"
        Path(file).write_bytes(PACKED)

    monkeypatch.setattr(pooch.FTPDownloader, "__call__", transfer)
    assert fetch("small", mirrors=["ftp://127.0.0.1"]) == data_folder / "tiny.scale.svm.xz"
