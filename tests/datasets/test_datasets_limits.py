"""What a file may cost: lines, what it unpacks to, memory and disk; who may read its copy; what killed processes leave."""

import gzip
import json
import logging
import lzma
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from finitesum.datasets import DataError, cache, fetch, fetching, load
from finitesum.datasets.formats import csv as csv_reader, streams

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and figures of Linux")


# -- lines and expansion


@pytest.mark.parametrize("name", ["t.svm", "t.csv", "t.svm.gz", "no-suffix"])
@pytest.mark.parametrize("line", [1, 3])
def test_lines_are_bounded(tmp_path, monkeypatch, name, line):
    monkeypatch.setenv("FINITESUM_MAX_LINE_BYTES", "100")
    row = "1,2,3\n" if "csv" in name else "1 1:2\n"
    long = row[:-1] + " " * 200 + "\n"
    text = (row * (line - 1) + long + row * 3).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    message = rf"line {line}: the line has more than 100 bytes\. .* Set FINITESUM_MAX_LINE_BYTES"
    with pytest.raises(DataError, match=message):
        load(tmp_path / name)
    monkeypatch.setenv("FINITESUM_MAX_LINE_BYTES", "300")
    assert load(tmp_path / name).n_rows == line + 3


@pytest.mark.parametrize("size", [3, 7, 1000])
def test_lines_are_bounded_wherever_blocks_end(tmp_path, monkeypatch, size):
    monkeypatch.setattr(streams, "BLOCK_BYTES", size)
    monkeypatch.setenv("FINITESUM_MAX_LINE_BYTES", "10")
    file = tmp_path / "t.svm"
    file.write_text("1 1:2345\n" * 5 + "1 1:234567\n1 1:1")
    assert load(file, cache=False).n_rows == 7
    file.write_text("1 1:2345\n" * 5 + "1 1:2345678\n1 1:1")
    with pytest.raises(DataError, match="line 6: the line has more than 10 bytes"):
        load(file, cache=False)


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_limits_that_are_none(tmp_path, monkeypatch, value):
    monkeypatch.setenv("FINITESUM_MAX_LINE_BYTES", value)
    (tmp_path / "t.svm").write_text("1 1:1\n")
    with pytest.raises(DataError, match="FINITESUM_MAX_LINE_BYTES must be a whole number > 0"):
        load(tmp_path / "t.svm")


@pytest.fixture
def no_free_bytes(monkeypatch):
    monkeypatch.setattr(streams, "ALWAYS_BYTES", 1000)


def test_what_a_file_unpacks_to_is_bounded(tmp_path, monkeypatch, no_free_bytes, parsed):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 10_000)
    file = tmp_path / "t.svm.xz"
    file.write_bytes(lzma.compress(b"1 1:1\n" * 10**6))
    with pytest.raises(DataError, match=r"unpacks to more than 1000 times its \d+ bytes\. Set FINITESUM_MAX_EXPANSION"):
        load(file)
    assert list(parsed.iterdir()) == []
    monkeypatch.setenv("FINITESUM_MAX_EXPANSION", "100000")
    assert load(file).n_rows == 10**6


def test_so_is_what_archives_and_tables_unpack_to(tmp_path, monkeypatch, no_free_bytes):
    monkeypatch.setenv("FINITESUM_MAX_EXPANSION", "20")
    np.savez_compressed(tmp_path / "t.npz", X=np.ones((10_000, 10)))
    with pytest.raises(DataError, match="unpacks to more than 20 times"):
        load(tmp_path / "t.npz")
    pa = pytest.importorskip("pyarrow", reason="Parquet is read by pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": np.ones(10**5), "label": np.ones(10**5)}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="unpacks to more than 20 times"):
        load(tmp_path / "t.parquet")


@linux
def test_mapped_rows_are_no_memory_of_the_process(tmp_path):
    file = tmp_path / "t.csv"
    np.savetxt(file, np.ones((200_000, 20)), fmt="%d", delimiter=",")
    code = f"""
import re, pathlib
from finitesum.datasets import load
def private(): return int(re.search(r"RssAnon:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
load({str(file)!r}, memmap=True)
before = private()
data = load({str(file)!r}, memmap=True)
data.rows.sum()
print(data.is_memmapped, data.rows.nbytes // 1024, private() - before)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out[0] == "True"
    assert int(out[2]) < int(out[1]) / 4


# -- the disk


@linux
@pytest.mark.parametrize("memmap", [False, True])
def test_a_full_disk_costs_the_copy_and_not_the_data(tmp_path, home_folder, memmap):
    file = tmp_path / "t.csv"
    np.savetxt(file, np.ones((20_000, 5)), fmt="%d", delimiter=",")
    code = f"""
import logging, resource, signal
logging.basicConfig()
from finitesum.datasets import load
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
print(load({str(file)!r}, memmap={memmap}).n_rows)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "20000"
    assert f"No parsed copy can be written to {home_folder}" in done.stderr
    assert str(file) in done.stderr
    assert "rows.0.npy: " in done.stderr
    assert list((home_folder / "parsed").iterdir()) == []


def test_a_file_that_changes_while_it_is_read_is_not_kept(tmp_path, parsed, monkeypatch, caplog):
    file = tmp_path / "t.svm"
    file.write_text("1 1:1\n")
    real = cache._write_meta

    def late(*arguments):
        real(*arguments)
        file.write_text("1 1:1\n2 1:3\n")

    monkeypatch.setattr(cache, "_write_meta", late)
    with caplog.at_level(logging.WARNING, "finitesum"):
        assert load(file).n_rows == 2
    assert "changed while it was read" in caplog.text
    assert list(parsed.iterdir()) == []


# -- what a copy is known by, and who may read it


def test_a_file_of_the_same_size_and_times_is_another_one(tmp_path, monkeypatch):
    file = tmp_path / "t.svm"
    file.write_text("1 1:5\n-1 1:7\n")
    known = file.stat()
    assert load(file).rows.toarray().ravel().tolist() == [5, 7]
    file.write_text("1 1:9\n-1 1:3\n")
    real = Path.stat

    def same(path, **options):  # as a system answers whose clock is coarse
        return known if path == file else real(path, **options)

    monkeypatch.setattr(Path, "stat", same)
    assert load(file).rows.toarray().ravel().tolist() == [9, 3]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are those of Unix")
@pytest.mark.parametrize(
    ("mode", "parent", "is_private"), [(0o600, 0o755, True), (0o644, 0o755, False), (0o644, 0o700, True)]
)
def test_copies_of_private_files_are_private(tmp_path, parsed, mode, parent, is_private):
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are private
    if not all(place.stat().st_mode & stat.S_IXOTH for place in folder.parents):
        pytest.skip("the folder of temporary files is private")
    file = folder / "t.svm"
    file.write_text("1 1:1\n")
    file.chmod(mode)
    folder.chmod(parent)
    load(file)
    copy = next(parsed.iterdir())
    assert (copy.stat().st_mode & 0o077 == 0) == is_private
    assert all((member.stat().st_mode & 0o077 == 0) == is_private for member in copy.iterdir())
    shutil.rmtree(folder)


def test_what_killed_downloads_leave_is_removed(tmp_path, home_folder, monkeypatch):
    folder = home_folder / "data"
    folder.mkdir()
    code = "from finitesum.core.files import writer_mark; print(writer_mark())"
    mark = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    (folder / f".download{mark}-abc").mkdir()
    (folder / f".{fetching.RECORD}{mark}.tmp").touch()
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "iris.scale").write_text("1 1:1\n")
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch("a9a", mirrors=[(tmp_path / "mirror").as_uri()])
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


# -- what was read


@pytest.mark.parametrize(
    ("name", "text", "n_rows", "n_skipped"),
    [
        ("t.svm", "# c\n1 1:1\n\n2 1:1 # d\n", 2, 2),
        ("t.svm", "1 1:1\n2 1:1", 2, 0),
        ("t.csv", "a,b,y\n1,2,1\n\n# c\n3,4,0\n", 2, 2),
        ("t.csv", 'a,b,y\n1,"2",1\n\n# c\n3,4,0\n\n', 2, 3),
        ("t.csv", "1,2,1\n3,4,0", 2, 0),
    ],
)
@pytest.mark.parametrize("use_cache", [False, True])
def test_skipped_lines_are_counted(tmp_path, name, text, n_rows, n_skipped, use_cache):
    (tmp_path / name).write_text(text)
    for _ in range(1 + use_cache):
        data = load(tmp_path / name, cache=use_cache)
        assert (data.n_rows, data.n_skipped) == (n_rows, n_skipped)
    assert data.summary()["n_skipped"] == n_skipped
    assert (f"{n_skipped} lines skipped" in repr(data)) == (n_skipped > 0)
    assert data.take([0]).n_skipped == 0


@pytest.mark.parametrize("before", ["", '"3"\t4\t0\n'])
def test_a_row_of_empty_cells_is_no_empty_line(tmp_path, before):
    file = tmp_path / "t.tsv"
    file.write_text(f"a\tb\ty\n1\t2\t1\n{before}\t\t\n \n")
    with pytest.raises(DataError, match=r"column 'a' \(column 1\): the value is missing"):
        load(file, cache=False)
    file.write_text("a\tb\ty\n1\t2\t1\n \n")
    assert load(file, cache=False).n_skipped == 1


def test_the_reader_of_pyarrow_gives_the_same_numbers(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="it is the reader of large CSV files where it is installed")
    rows = np.random.default_rng(0).standard_normal((300, 4)) * 10.0 ** np.arange(-300, 100, 100)
    file = tmp_path / "t.csv"
    lines = [",".join([*map(repr, row), "yes" if row[0] > 0 else "no"]) for row in rows.tolist()]
    file.write_text("a,b,c,d,y\n" + "\n".join(lines) + "\n")
    calls, real = [], csv_reader._by_arrow
    monkeypatch.setattr(csv_reader, "_by_arrow", lambda *a: calls.append(1) or real(*a))
    for least in (1, 10**9):
        monkeypatch.setattr(csv_reader, "ARROW_BYTES", least)
        np.testing.assert_array_equal(load(file, cache=False).rows, rows)
    assert calls == [1]
    monkeypatch.setattr(csv_reader, "ARROW_BYTES", 1)
    file.write_text("1,2,1\n+3,0x10,0\n")
    with pytest.raises(DataError, match=r"line 2, column 2: '0x10' is not a number"):
        load(file, cache=False)
    file.write_text("1,2,1\n+3, 4,0\n")
    assert load(file, cache=False).rows.tolist() == [[1, 2], [3, 4]]


# -- damage of a mapped copy


@pytest.mark.parametrize("member", ["data.npy", "indices.npy", "indptr.npy", "labels.npy", "meta.json"])
@pytest.mark.parametrize("memmap", [False, True])
def test_a_damaged_byte_is_seen(tmp_path, parsed, member, memmap, caplog):
    file = tmp_path / "t.svm"
    file.write_text("1 1:1.5 3:2\n-1 2:0.5\n")
    expected = load(file).rows.toarray()
    path = next(parsed.iterdir()) / member
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "finitesum"):
        np.testing.assert_array_equal(load(file, memmap=memmap).rows.toarray(), expected)
    assert "made again" in caplog.text


def test_a_copy_that_was_made_up_with_its_checksum(tmp_path, parsed, caplog):
    file = tmp_path / "t.svm"
    file.write_text("1 1:1.5 3:2\n-1 2:0.5\n")
    expected = load(file).rows.toarray()
    copy = next(parsed.iterdir())
    indices = np.array([0, 2**30, 1], dtype=np.int32)
    np.save(copy / "indices.npy", indices)
    meta = json.loads((copy / "meta.json").read_text())
    meta["arrays"]["indices"][2] = cache._checksum(indices)
    meta.pop("checksum")
    meta["checksum"] = cache._digest(json.dumps(meta, sort_keys=True))
    (copy / "meta.json").write_text(json.dumps(meta))
    with caplog.at_level(logging.WARNING, "finitesum"):
        np.testing.assert_array_equal(load(file, memmap=True).rows.toarray(), expected)
    assert "column indices from 0 to 2" in caplog.text
