"""Parsed copies: made once, found again, made again when they are damaged or out of date; without one the file is read."""

import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

from finitesum.datasets import DataError, cache, clear_cache, load, loading
from finitesum.datasets.formats import collector

TEXT = "+1 1:0.5 3:2\n-1 2:1\n+1\n"
ROWS = [[0.5, 0, 2], [0, 1, 0], [0, 0, 0]]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text(TEXT)
    return path


@pytest.fixture
def readings(monkeypatch):
    """Return the list of all readings of svmlight text, which grows."""
    done = []
    real = loading.read_svmlight

    def counted(path, *args, **kwargs):
        done.append(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(loading, "read_svmlight", counted)
    return done


def entries(parsed):
    return [folder for folder in parsed.iterdir() if not folder.name.startswith(".")]


def check(data):
    np.testing.assert_array_equal(data.rows.toarray(), ROWS)
    assert data.labels.tolist() == [1, -1, 1]
    assert data.rows.indices.dtype == np.int32


def test_text_is_parsed_once(file, parsed, readings):
    for memmap in (False, True, False):
        data = load(file, memmap=memmap)
        check(data)
        assert data.is_memmapped == memmap
    assert len(readings) == 1
    assert len(entries(parsed)) == 1
    assert len(list(parsed.iterdir())) == 1


def test_no_copy_where_none_is_wanted(file, parsed, readings):
    check(load(file, cache=False))
    check(load(file, cache=False))
    assert len(readings) == 2
    assert not parsed.exists()


def test_the_number_of_features_needs_no_other_copy(file, readings):
    load(file)
    assert load(file, n_features=10).n_features == 10
    assert len(readings) == 1


def test_options_have_copies_of_their_own(tmp_path, parsed):
    file = tmp_path / "t.csv"
    file.write_text("a,b,c\n1,2,3\n4,5,6\n")
    for _ in range(2):
        assert load(file).labels.tolist() == [3, 6]
        assert load(file, target="a").labels.tolist() == [1, 4]
        assert load(file, target=False).labels is None
        assert load(file, target=0).feature_names == ("b", "c")
    assert len(entries(parsed)) == 4


def test_a_changed_file_is_parsed_again(file, parsed, readings):
    load(file)
    file.write_text("-1 1:9\n+1 1:8\n")
    assert load(file).rows.toarray().tolist() == [[9], [8]]
    assert len(entries(parsed)) == 1  # the copy of the earlier state is gone
    os.utime(file, ns=(0, 12345))
    load(file)
    assert len(readings) == 3
    time = file.stat().st_mtime_ns
    file.write_text("-1 1:7\n+1 1:8\n")
    os.utime(file, ns=(0, time))
    assert load(file).rows.toarray().tolist() == [[7], [8]]


def test_labels_that_are_text(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("1,2,cat\n3,4,dog\n")
    for memmap in (False, False, True):
        data = load(file, memmap=memmap)
        assert data.labels.tolist() == ["cat", "dog"]
        assert data.rows.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(DataError, match="a regression needs numbers as labels, got 'cat'"):
        load(file, task="regression")


def test_mapped_rows_are_read_only(file):
    data = load(file, memmap=True)
    assert type(data.rows.data) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        data.rows.data[:] = 0


def test_rows_without_any_entry(tmp_path):
    file = tmp_path / "t.svm"
    file.write_text("1\n2\n")
    for memmap in (False, True, True):
        data = load(file, memmap=memmap, n_features=3)
        assert data.rows.shape == (2, 3)
        assert data.nnz == 0


def test_a_hit_imports_no_scikit_learn(file, home_folder):
    load(file)
    code = f"import sys; from finitesum.datasets import load; load({str(file)!r}); print('sklearn' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def _truncate(folder):
    path = folder / "data.npy"
    path.write_bytes(path.read_bytes()[:-8])


def _other_array(folder):
    path = folder / "indices.npy"
    np.save(path, np.zeros(path.stat().st_size // 4 - 32, dtype=np.float32))


def _meta(change):
    def damage(folder):
        meta = json.loads((folder / "meta.json").read_text())
        change(meta)
        (folder / "meta.json").write_text(json.dumps(meta))

    return damage


DAMAGES = {
    "truncated": _truncate,
    "missing array": lambda folder: (folder / "labels.npy").unlink(),
    "another array": _other_array,
    "no meta": lambda folder: (folder / "meta.json").unlink(),
    "empty meta": lambda folder: (folder / "meta.json").write_text(""),
    "meta is no table": lambda folder: (folder / "meta.json").write_text("[1]"),
    "meta without arrays": _meta(lambda meta: meta.pop("arrays")),
    "meta without data": _meta(lambda meta: meta["arrays"].pop("data")),
    "other version": _meta(lambda meta: meta.update(version=0)),
    "entries do not fit": lambda folder: np.save(folder / "indptr.npy", np.array([0, 2, 2, 2], dtype=np.int32)),
    "no rows": _meta(lambda meta: meta.update(arrays={"labels": meta["arrays"]["labels"]})),
    "labels do not fit": _meta(lambda meta: meta["arrays"].update(labels=[[2], "<f8"])),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("memmap", [False, True])
def test_a_damaged_copy_is_made_again(file, parsed, readings, damage, memmap, caplog):
    load(file)
    DAMAGES[damage](entries(parsed)[0])
    with caplog.at_level(logging.WARNING, "finitesum"):
        check(load(file, memmap=memmap))
    assert "made again" in caplog.text
    assert len(readings) == 2
    check(load(file))
    assert len(readings) == 2
    assert len(list(parsed.iterdir())) == 1


def test_an_index_beyond_the_columns(file, parsed, readings, caplog):
    load(file)
    np.save(entries(parsed)[0] / "indices.npy", np.array([0, 2**30, 1], dtype=np.int32))
    with caplog.at_level(logging.WARNING, "finitesum"):
        check(load(file))
    assert "made again" in caplog.text


def test_a_home_that_cannot_be_written(file, tmp_path, monkeypatch, caplog):
    (tmp_path / "plain").write_text("a file, no folder")
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path / "plain"))
    with caplog.at_level(logging.WARNING, "finitesum"):
        check(load(file))
        data = load(file, memmap=True)
    check(data)
    assert not data.is_memmapped
    assert "No parsed copy can be written" in caplog.text


def test_a_full_disk(file, parsed, monkeypatch, caplog):
    def full(path, array):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(collector.np, "save", full)
    with caplog.at_level(logging.WARNING, "finitesum"):
        check(load(file))
    assert "No space left on device" in caplog.text
    assert list(parsed.iterdir()) == []


def test_no_home_at_all(file, monkeypatch, caplog):
    monkeypatch.setattr(cache, "home", lambda: None)
    with caplog.at_level(logging.WARNING, "finitesum"):
        check(load(file))
    assert "Set FINITESUM_HOME" in caplog.text
    assert clear_cache() == 0


def test_a_broken_file_leaves_no_copy(tmp_path, parsed):
    file = tmp_path / "t.svm"
    file.write_text("1 1:1\n2 oops\n")
    for _ in range(2):
        with pytest.raises(DataError, match="line 2"):
            load(file)
    assert list(parsed.iterdir()) == []


def test_another_process_may_be_faster(file, parsed, readings, monkeypatch):
    # Whoever comes second finds the copy of the first in its place, and uses that.
    real = cache._write_meta

    def late(folder, contents):
        real(folder, contents)
        if len(readings) == 1:
            check(load(file))

    monkeypatch.setattr(cache, "_write_meta", late)
    check(load(file))
    assert len(readings) == 2
    assert len(list(parsed.iterdir())) == 1


def test_processes_at_the_same_time(tmp_path, parsed):
    file, go = tmp_path / "t.csv", tmp_path / "go"
    rows = np.random.default_rng(0).integers(0, 99, size=(5000, 4))
    np.savetxt(file, rows, fmt="%d", delimiter=",")
    code = (
        "import time, pathlib, numpy as np\n"
        "from finitesum.datasets import load\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.001)\n"
        f"data = load({str(file)!r}, memmap=True)\n"
        "print(int(data.rows.sum()), int(data.labels.sum()), data.is_memmapped)\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    go.touch()
    for worker in workers:
        out, err = worker.communicate(timeout=60)
        assert out.split() == [str(rows[:, :-1].sum()), str(rows[:, -1].sum()), "True"]
        assert err == ""
    assert len(list(parsed.iterdir())) == 1


def test_what_killed_processes_leave_is_removed(file, parsed):
    for name in (".new-dead", ".old-dead", ".new-alive"):
        (parsed / name).mkdir(parents=True)
    for name in (".new-dead", ".old-dead"):
        os.utime(parsed / name, (0, 0))
    load(file)
    assert sorted(folder.name for folder in parsed.iterdir() if folder.name.startswith(".")) == [".new-alive"]


def test_clear_cache(file, parsed):
    load(file)
    assert clear_cache() > 100
    assert list(parsed.iterdir()) == []
    check(load(file))
