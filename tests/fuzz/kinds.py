"""Kinds of files that are read: valid small ones to mutate, how each is read, and another reader to compare with."""

from __future__ import annotations

import ast
import bz2
import csv
import gzip
import io
import json
import lzma
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from click.testing import CliRunner

from finitesum import Problem, minimize
from finitesum.cli import main
from finitesum.cli.errors import InputError
from finitesum.datasets import DataError, LabelMap, cache, clear_cache, load
from finitesum.datasets.formats.tables import read_table
from finitesum.datasets.tables import TablePreparation
from finitesum.estimators.model import LinearModel, ModelError, load_model, with_inference
from finitesum.papers.networks.data import CIFAR10_PARTS, read_cifar, read_idx
from finitesum.problems.input import as_rows
from finitesum.problems.rows import to_matrix
from finitesum.running.checkpoint import CheckpointError

RNG = np.random.default_rng(7)
ROWS = np.where(RNG.random((12, 5)) < 0.7, RNG.integers(-99, 99, (12, 5)) / 4.0, 0.0)
ROWS[0], ROWS[:, 0] = 1.25, np.arange(1.0, 13.0)
SIGNS = np.where(np.arange(12) % 3 == 0, -1, 1)
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}

#: Members of archives that are read, by the arrays in them.
Members = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    name: str
    make: Callable[[Path], Path]  # writes a valid file into a folder, and returns the path of what is mutated
    read: Callable[[Path], Any]  # numbers as bytes, or one of the package's errors
    errors: tuple[type[Exception], ...] = (DataError,)
    other: Callable[[Path, Any], Any] | None = None  # reads the same by other means; raises ValueError for what is none
    is_fixed: bool = False  # whether what is read without an error is what was written
    is_text: bool = False
    is_archive: bool = False  # a zip of arrays, which is mutated inside, too
    in_commands: bool = True  # whether `finitesum fit` reads it


def numbers_of(data: Any) -> Any:
    """Return all that was read; rows must be such as kernels take."""
    if data.n_features == 0:  # rows of labels alone
        return np.zeros(data.rows.shape), data.labels, data.feature_names
    rows = to_matrix(as_rows(data.rows))
    matrix = rows if isinstance(rows, np.ndarray) else rows.toarray() if rows.shape[1] < 10_000 else rows.sum(axis=1)
    float(np.asarray(data.rows[:2] @ np.ones(data.n_features)).sum()) if data.n_features < 10**7 else None
    return np.asarray(matrix, dtype=np.float64), data.labels, data.feature_names


def loaded(**options: Any) -> Callable[[Path], Any]:
    return lambda path: numbers_of(load(path, cache=False, **options))


# -- text


def svmlight_text() -> bytes:
    lines = ["# a comment"]
    for label, row in zip(SIGNS, ROWS, strict=True):
        entries = " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist()) if v)
        lines.append(f"{label:+d} {entries}" + ("  # end" if label < 0 else ""))
    return ("\n".join([*lines, ""]) + "\n").encode()


NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def number(text: bytes) -> float:
    if not NUMBER.fullmatch(text) or not np.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def plain(path: Path) -> bytes:
    content = path.read_bytes()
    for magic, unpack in ((b"\x1f\x8b", gzip.decompress), (b"BZh", bz2.decompress), (b"\xfd7zXZ", lzma.decompress)):
        if content.startswith(magic):
            content = unpack(content)
    return content.removeprefix(b"\xef\xbb\xbf")


def other_svmlight(path: Path, found: Any) -> Any:
    rows, labels = [], []
    width = found[0].shape[1] if found[0].ndim == 2 else 10_000  # of more columns the sums are compared
    for line in plain(path).split(b"\n"):
        tokens = line.split(b"#")[0].split()
        if not tokens:
            continue
        labels.append(number(tokens[0]))
        tokens = tokens[2:] if len(tokens) > 1 and tokens[1].startswith(b"qid:") else tokens[1:]
        pairs = [token.split(b":") for token in tokens]
        columns = [int(re.fullmatch(rb"\+?(\d+)", index)[1]) for index, _ in pairs]  # type: ignore[index]
        if sorted(set(columns)) != columns or columns[:1] == [0]:
            raise ValueError(columns)
        row = dict(zip(columns, (number(value) for _, value in pairs), strict=True))
        rows.append([row.get(j + 1, 0.0) for j in range(width)] if width < 10_000 else [sum(row.values())])
        if row and max(row) > 10_000 > width:
            raise ValueError("a column is lost")
    table = np.array(rows)
    return table if width < 10_000 else table[:, 0], np.array(labels), None


def csv_text(header: bool, words: bool, quotes: bool, delimiter: str = ",") -> bytes:
    lines = [["first", "second", "third", "fourth", "fifth", "label"]] if header else []
    for row, label in zip(ROWS.tolist(), SIGNS.tolist(), strict=True):
        lines.append([*map(repr, row), {1: "yes", -1: "no"}[label] if words else str(label)])
    text = "\n".join(delimiter.join(f'"{cell}"' if quotes and len(cell) < 5 else cell for cell in line) for line in lines)
    return (text + "\n\n# the end\n").encode()


def other_csv(path: Path, found: Any) -> Any:
    text, (_, labels, names) = plain(path).decode("utf-8"), found
    lines = list(io.StringIO(text, newline="\n"))
    first = next(line for line in lines if line.strip() and not line.startswith("#"))
    if any(line.count('"') % 2 for line in lines):  # what is a comment then depends on where quotes begin
        return found
    delimiter = max(",;\t|", key=re.sub('"[^"]*("|$)', "", first).count)
    kept = [line for line in lines if not line.startswith("#")]
    rows = [r for r in csv.reader(kept, delimiter=delimiter, strict=True) if len(r) > 1 or any(c.strip() for c in r)]
    rows = rows[names is not None :]
    skipped = 1 if names is not None and len(rows[0]) == len(names) + 2 else 0  # an index without a name
    table = np.array([[number(c.strip().encode()) for c in row[skipped:-1]] for row in rows])
    is_text = labels.dtype.kind == "U"
    last = [row[-1].strip() for row in rows]
    return table, np.array(last) if is_text else np.array([number(c.encode()) for c in last]), names


def written(name: str, content: Callable[[], bytes]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        pack = PACK.get(path.suffix, bytes)
        path.write_bytes(pack(content()))
        return path

    return make


# -- NumPy's files


def archive(name: str, **arrays: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        save = np.savez_compressed if "packed" in name else np.savez
        save(folder / name, **arrays)
        return folder / name

    return make


def sparse_parts(form: str) -> Members:
    out = io.BytesIO()
    sp.save_npz(out, sp.coo_array(ROWS).asformat(form), compressed=False)
    out.seek(0)
    with np.load(out) as parts:
        return {**parts, "y": SIGNS}


def other_npy(path: Path, found: Any) -> Any:
    content = path.read_bytes()
    size = int.from_bytes(content[8:10], "little")
    header = ast.literal_eval(content[10 : 10 + size].decode("latin-1"))
    order = "F" if header["fortran_order"] else "C"
    shape, dtype = header["shape"], np.dtype(header["descr"])
    values = np.frombuffer(content, dtype, count=int(np.prod(shape)), offset=10 + size).reshape(shape, order=order)
    return values.astype(np.float64), found[1], found[2]


def npy(dtype: str, order: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        np.save(folder / "rows.npy", np.asarray(ROWS * 4, dtype=dtype, order=order))  # type: ignore[call-overload]
        return folder / "rows.npy"

    return make


# -- tables


def parquet(lists: bool) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import pyarrow as pa
        from pyarrow import parquet as pq

        if lists:
            columns: dict[str, Any] = {
                "indices": [np.flatnonzero(row).tolist() for row in ROWS],
                "values": [row[row != 0].tolist() for row in ROWS],
                "label": SIGNS.tolist(),
            }
        else:
            columns = {f"x{j}": ROWS[:, j] for j in range(5)} | {"label": ["yes" if s > 0 else "no" for s in SIGNS]}
        pq.write_table(pa.table(columns), folder / "t.parquet")
        return folder / "t.parquet"

    return make


# -- images


def idx(folder: Path) -> Path:
    path = folder / "images-idx3-ubyte.gz"
    content = b"\0\0\x08\x03" + np.array([3, 4, 5], ">u4").tobytes() + bytes(range(60))
    path.write_bytes(gzip.compress(content) if RNG.random() < 0.5 else content)
    return path


def other_idx(path: Path, found: Any) -> Any:
    content = plain(path)
    return (np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(found[0].shape),)


def cifar(folder: Path) -> Path:
    path = folder / "cifar.tar.gz"
    with tarfile.open(path, "w:gz") as out:
        for k, name in enumerate(CIFAR10_PARTS["test"]):
            member = tarfile.TarInfo(name)
            content = bytes([k] * 3073) * 2
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


# -- our own files


def model(folder: Path) -> Path:
    names = tuple(f"x{j}" for j in range(5))
    LinearModel(ROWS[1], 0.5, classes=("no", "yes"), feature_names=names).save(folder / "model.npz")
    return folder / "model.npz"


def predicted(path: Path) -> Any:
    found = load_model(path)
    rows = np.ones((2, found.n_features))
    return found.coef, np.array(found.intercept), found.predict(rows).astype(str)


# -- tables of text and numbers

TABLE = {
    "age": [31.5, None, 45.0, 52.0, 28.25, 60.0] * 2,
    "town": ["B", "A", None, "B", "A", "C"] * 2,
    "kind": ["cat", "dog", "eel"] * 4,
}


def table_text(delimiter: str, decimal: str) -> bytes:
    rows = zip(*TABLE.values(), strict=True)
    lines = [tuple(TABLE), *(tuple("" if v is None else str(v).replace(".", decimal) for v in row) for row in rows)]
    return "\n".join(map(delimiter.join, lines)).encode()


def table_parquet(folder: Path) -> Path:
    from pyarrow import parquet as pq, table

    pq.write_table(table(TABLE), folder / "t.parquet")
    return folder / "t.parquet"


def prepared(path: Path) -> Any:
    table = read_table(path)
    data = TablePreparation.fit(table, missing="indicator").transform(table).data
    return np.asarray(data.to_dense().rows), data.labels, data.feature_names


def model_of_table(folder: Path) -> Path:
    preparation = TablePreparation.fit(TABLE, missing="indicator", standardise=True)
    data = preparation.transform(TABLE).data
    problem = Problem.linear(data.rows, data.targets(), loss="multinomial", alpha=0.1, fit_intercept=True)
    x = minimize(problem).x.reshape(3, -1)
    about: Any = {"classes": ("cat", "dog", "eel"), "feature_names": data.feature_names, "fit_intercept": True}
    model = LinearModel(x[:, :-1], x[:, -1], loss="multinomial", preparation=preparation, **about)
    with_inference(model, problem).save(folder / "model.npz")
    return folder / "model.npz"


def predicted_table(path: Path) -> Any:
    found = load_model(path)
    repr(found.inference)
    if found.preparation is None:
        return predicted(path)
    names = [column.name for column in found.preparation.columns]
    rows = found.preparation.transform({**TABLE, **{name: TABLE["age"] for name in names if name not in TABLE}}).data.rows
    return found.coef, np.array(found.intercept), found.predict(rows).astype(str)


def checkpoint(method: str, problem: Problem) -> Kind:
    run = {"method": method, "tol": 1e-9, "random_state": 3}

    def make(folder: Path) -> Path:
        minimize(problem, checkpoint=folder / "run.npz", max_iter=3, **run)
        return folder / "run.npz"

    def read(path: Path) -> Any:
        before = path.read_bytes()
        found = minimize(problem, checkpoint=path, resume=True, max_iter=5, **run)
        path.write_bytes(before)
        return (np.array(found.optimality),)

    return Kind(f"checkpoint of {method}", make, read, (CheckpointError,), is_archive=True, in_commands=False)


TEXT_IN_COPY = "t.svm"


def parsed_copy(member: str, memmap: bool) -> Kind:
    """A file of a parsed copy: whatever happens to it, the file itself is read."""

    def make(folder: Path) -> Path:
        (folder / TEXT_IN_COPY).write_bytes(svmlight_text())
        load(folder / TEXT_IN_COPY)
        root = cache.parsed_folder()
        assert root is not None
        shutil.copy(next(root.iterdir()) / member, folder / member)
        return folder / member

    def read(path: Path) -> Any:
        root = cache.parsed_folder()
        assert root is not None
        clear_cache()
        source = path.parent / TEXT_IN_COPY
        load(source)
        if path.exists():
            shutil.copy(path, next(root.iterdir()) / member)
        return numbers_of(load(source, memmap=memmap))

    return Kind(f"parsed copy: {member}, {memmap}", make, read, is_fixed=True, in_commands=False)


def invoked(*arguments: Any) -> Any:
    """Return what a command answers; InputError is for its own errors."""
    result = CliRunner().invoke(main, list(map(str, arguments)), prog_name="finitesum")
    if not isinstance(result.exception, SystemExit | None) or result.exit_code not in (0, 2):
        raise AssertionError(f"{arguments}: exit {result.exit_code}, {result.output}") from result.exception
    if result.exit_code == 2:
        raise InputError(result.stderr.strip())
    return (np.array(0),)


def fit_folder(member: str) -> Kind:
    """A file of the folder of a fit, whose command goes on; or its model, with which another predicts."""

    def make(folder: Path) -> Path:
        (folder / "t.svm").write_bytes(svmlight_text())
        n = 2 if member in ("settings.json", "checkpoint.npz") else 500
        invoked("fit", folder / "t.svm", "--out", folder / "run", "--force", "--max-iter", n, "--solver", "newton")
        return folder / "run" / member

    def read(path: Path) -> Any:
        folder = path.parent
        kept = {file: file.read_bytes() for file in folder.iterdir()}
        try:
            if member == "model.npz":
                return invoked("predict", path, folder.parent / "t.svm")
            return invoked("fit", "--resume", folder, *(() if member == "result.json" else ("--max-iter", "4")))
        finally:
            for file in folder.iterdir():
                file.unlink()
            for file, content in kept.items():
                file.write_bytes(content)

    is_text, errors = member.endswith("json"), (InputError,)
    return Kind(f"fit: {member}", make, read, errors, is_text=is_text, is_archive=not is_text, in_commands=False)


def label_map(folder: Path) -> Path:
    path = folder / "labels.json"
    path.write_text(LabelMap(("no", "yes")).to_json())
    return path


def read_label_map(path: Path) -> Any:
    return (np.array(LabelMap.from_json(path.read_bytes().decode("latin-1")).classes).astype(str),)


def kinds() -> list[Kind]:
    """Return all kinds; those that need pyarrow only where it is installed."""
    text = {"errors": (DataError,), "is_text": True}
    found = [
        Kind(f"svmlight{packed}", written(f"t.svm{packed}", svmlight_text), loaded(), other=other_svmlight, **text)
        for packed in ("", "", "", ".gz", ".bz2", ".xz")
    ]
    forms = [(True, True, False), (True, False, True), (False, True, True), (False, False, False)]
    for form in forms:
        content = lambda form=form: csv_text(*form)  # noqa: E731
        found.append(Kind(f"csv {form}", written("t.csv", content), loaded(target=-1), other=other_csv, **text))
    content = lambda: csv_text(True, True, False, "\t")  # noqa: E731
    found.append(Kind("tsv.gz", written("t.tsv.gz", content), loaded(target=-1), other=other_csv, **text))
    found.append(Kind("text of no name", written("data", svmlight_text), loaded(), **text))
    for name, arrays in {
        "dense.npz": {"X": ROWS, "y": SIGNS},
        "packed.npz": {"X": ROWS.astype(np.float32), "y": np.where(SIGNS > 0, "yes", "no")},
        "images.npz": {"x_train": np.arange(48, dtype=np.uint8).reshape(3, 4, 4), "y_train": np.arange(3)},
        **{f"{form}.npz": sparse_parts(form) for form in ("csr", "csc", "coo", "bsr", "dia")},
    }.items():
        found.append(Kind(name, archive(name, **arrays), loaded(), is_archive=True))
    for dtype, order in (("f8", "C"), ("f4", "F"), ("i2", "C")):
        found.append(Kind(f"npy {dtype} {order}", npy(dtype, order), loaded(), other=other_npy))
    found.append(Kind("npy mapped", npy("f8", "C"), lambda p: (np.array(load(p, memmap=True).rows),), in_commands=False))
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        pass
    else:
        found += [Kind(f"parquet {lists}", parquet(lists), loaded()) for lists in (False, True)]
        found.append(Kind("table.parquet", table_parquet, prepared))
    found.append(Kind("idx", idx, lambda p: (read_idx(p),), other=other_idx, in_commands=False))
    read = lambda p: read_cifar(p, CIFAR10_PARTS["test"], 1)  # noqa: E731
    found.append(Kind("cifar", cifar, read, in_commands=False))
    for form in (",.", ";,"):
        content = lambda form=form: table_text(*form)  # noqa: E731
        found.append(Kind(f"table {form}", written("t.csv", content), prepared, is_text=True))
    of_table = (ModelError, DataError)
    found += [Kind("model of a table", model_of_table, predicted_table, of_table, is_archive=True, in_commands=False)] * 2
    found += [Kind("model", model, predicted, (ModelError,), is_archive=True, in_commands=False)] * 3
    sparse, dense = Problem.linear(sp.csr_array(ROWS), SIGNS, alpha=0.1), Problem.linear(ROWS, SIGNS, alpha=0.1)
    for method in ("saga", "a-ciag", "nim", "svrg", "lazy-newton", "working-set-newton"):
        found.append(checkpoint(method, dense))
    found.append(checkpoint("newton-cg", sparse))
    found.append(checkpoint("adahb", Problem.linear(ROWS, SIGNS, loss="hinge", alpha=0.1)))
    for member in ("data.npy", "indices.npy", "indptr.npy", "labels.npy", "meta.json"):
        found += [parsed_copy(member, memmap) for memmap in (False, True)]
    found += [fit_folder(member) for member in ("settings.json", "result.json", "checkpoint.npz", "model.npz")]
    found.append(Kind("label map", label_map, read_label_map, is_text=True, in_commands=False))
    return found


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def header_of(members: dict[str, bytes]) -> dict[str, Any]:
    return json.loads(str(np.load(io.BytesIO(members["header.npy"]))))  # type: ignore[no-any-return]
