"""Checkpoints: everything that a run needs to go on, to the last bit.

A file holds the method's state, the driver's few numbers, the trace, and fingerprints of problem and method. It is a zip
of plain arrays (npz, never pickle), written under another name and renamed, so that a reader sees the old file or the
new one and nothing between.

To the last bit means: on the same kind of processor, with the same versions of finitesum, NumPy, SciPy and Numba and the
same number of BLAS threads. Elsewhere sums are taken in another order: a run goes on there, too, and differs by rounding.
"""

import errno
import hashlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.files import remove_leftovers, writer_mark
from finitesum.core.kernel_folder import take_as_found

FORMAT = "finitesum-checkpoint-3"

#: Bytes that a file unpacks to by those that it has: ours are not compressed.
MAX_EXPANSION = 1000


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: damaged, or of another problem or method."""


class Checkpoint(NamedTuple):
    """What a checkpoint file holds."""

    header: dict[str, Any]
    arrays: dict[str, Any]


def digest(values: Vector) -> str:
    """Return a digest of an array's numbers, by which a start is known again."""
    return hashlib.blake2b((values + 0.0).tobytes(), digest_size=16).hexdigest()  # -0.0 and 0.0 are one number


def flatten(state: Any, prefix: str = "state") -> dict[str, Any]:
    """Return the fields of a nested NamedTuple as arrays by dotted names."""
    arrays: dict[str, Any] = {}
    for name, value in zip(state._fields, state, strict=True):
        key = f"{prefix}.{name}"
        if isinstance(value, tuple):
            arrays.update(flatten(value, key))
        else:
            arrays[key] = np.asarray(value)
    return arrays


def unflatten(state_type: type[Any], arrays: dict[str, Any], prefix: str = "state") -> Any:
    """Return the NamedTuple that `flatten` took apart, or raise a CheckpointError that names the field that is missing."""
    values = []
    for name, kind in get_type_hints(state_type).items():
        key = f"{prefix}.{name}"
        if isinstance(kind, type) and issubclass(kind, tuple):
            values.append(unflatten(kind, arrays, key))
            continue
        if key not in arrays:
            raise CheckpointError(f"the checkpoint lacks {key}. It was written by another version; start again.")
        values.append(_number(kind, arrays[key], key) if kind in (int, float, bool) else arrays[key])
    return state_type(*values)


def _number(kind: type[Any], array: Any, key: str) -> Any:
    is_number = array.ndim == 0 and array.dtype.kind in "biuf"
    if not is_number or not (kind is float or (np.isfinite(array) and kind(array) == array)):
        raise CheckpointError(f"the checkpoint has no {kind.__name__} as {key}. It is damaged: delete it and start again.")
    return kind(array)


def require_shapes(state: Any, template: Any, prefix: str = "state") -> None:
    """Raise a CheckpointError where an array in a state has another type or shape than there is in the template.

    Kernels read and write as far as the problem says, whatever an array holds.
    """
    for name, value, model in zip(state._fields, state, template, strict=True):
        key = f"{prefix}.{name}"
        if isinstance(model, tuple):
            require_shapes(value, model, key)
        elif type(model) is int and value < min(model, 0):
            raise CheckpointError(f"the checkpoint has {key} = {value}. It is damaged: delete it and start again.")
        elif isinstance(model, np.ndarray) and (value.shape, value.dtype) != (model.shape, model.dtype):
            raise CheckpointError(
                f"the checkpoint has {key} of shape {value.shape} and type {value.dtype}, this method on this problem "
                f"{model.shape} and {model.dtype}. It is damaged or of another version: delete it and start again."
            )


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: within `zipfile` it would come out as another error."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: waiting.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[0])


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}{writer_mark()}.tmp")  # tempfile's would be the owner's alone


def write_atomically(path: Path, write: Any) -> None:
    """Call write(file) on a new file beside `path`, and rename it to `path` once it lies on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    with _interrupts_wait():
        try:
            with temporary.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.filename is None:  # a full disk does not say where
                error.filename = os.fspath(path)
            raise


def prepare(path: Path, *, resume: bool) -> bool:
    """Return whether a run goes on from the file at `path`; raise where it cannot be written, or a run would be lost.

    Missing folders are made, and what killed runs were writing is removed.
    """
    trial = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        trial.open("xb").close()
        trial.unlink()
        remove_leftovers(path.parent, f".{path.name}-")
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be written ({error.strerror}). Give a checkpoint file in a folder that may be written to."
        ) from error
    if path.exists() and not resume:
        raise CheckpointError(
            f"{path} holds an earlier run, which would be lost. Give resume=True to go on with it, or remove or rename "
            "the file to start again."
        )
    return path.exists()


def write_npz(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write arrays, and a header as a line of JSON among them, atomically."""
    line = np.array(json.dumps(header, ensure_ascii=False))
    write_atomically(Path(path), lambda file: np.savez(file, allow_pickle=False, header=line, **arrays))


def read_npz(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a file; damaged bytes raise a dozen kinds of errors, out of four libraries."""
    with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:  # NumPy leaves it open on errors
        if sum(member.file_size for member in file.zip.infolist()) > MAX_EXPANSION * Path(path).stat().st_size:
            raise ValueError("it unpacks to too much")
        arrays = {name: np.asarray(file[name]) for name in file.files}  # other bytes as they are
    return json.loads(str(arrays.pop("header"))), arrays


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically."""
    write_npz(path, {"format": FORMAT, **checkpoint.header}, checkpoint.arrays)


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint; raise a CheckpointError where the file is damaged or no checkpoint of ours."""
    try:
        header, arrays = read_npz(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    except Exception as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint ({error!s:.300}). Delete it and start again.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no checkpoint of this version ({FORMAT}). Delete it and start again.")
    return Checkpoint(header, arrays)


def begun_with(path: str | os.PathLike[str]) -> str:
    """Return the name of the method that a run was begun with, and its solver; "" where no checkpoint says so.

    What its process found of kernels on disk holds in this process, too, where it has not asked yet.
    """
    from finitesum.methods.base import label_of  # which loads SciPy

    with suppress(CheckpointError, OSError):
        header = load(path).header
        take_as_found(header.get("kernels"))
        method = header.get("method")
        return label_of(method) if isinstance(method, dict) else ""
    return ""


def require_match(path: str | os.PathLike[str], header: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise a CheckpointError that names the first difference between a checkpoint's run and this one."""
    for name, value in expected.items():
        if header.get(name) != value:
            raise CheckpointError(
                f"{path} belongs to another {name}: it has {header.get(name)}, this run has {value}. "
                "Use the same data and settings, or another checkpoint file."
            )
