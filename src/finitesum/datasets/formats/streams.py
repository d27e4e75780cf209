"""Files as streams of bytes: decompressed by their first bytes, whatever they are called, and cut into whole lines.

A line may have at most 32 MiB, and a file may unpack to at most 256 MiB or a thousand times its size: a damaged or hostile
file would else take all memory, or all of the disk that parsed copies lie on. The environment variables
``FINITESUM_MAX_LINE_BYTES`` and ``FINITESUM_MAX_EXPANSION`` set other limits.
"""

import contextlib
import importlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from finitesum.datasets.errors import DataError, preview

#: What reading may raise: of the system, or of a decompressor that meets damage.
_READING_ERRORS: tuple[type[BaseException], ...] = (OSError, EOFError, zlib.error)
with contextlib.suppress(ImportError):  # a Python that was built without it
    from lzma import LZMAError

    _READING_ERRORS += (LZMAError,)

#: What a block of lines takes in memory, about; parsing takes a few times that.
BLOCK_BYTES = 1 << 25

#: Bytes of a line, and the bytes that a file unpacks to by those that it has, at most, unless the environment has others.
LIMITS = {"FINITESUM_MAX_LINE_BYTES": 1 << 25, "FINITESUM_MAX_EXPANSION": 1000}

#: Bytes that any file may unpack to.
ALWAYS_BYTES = 1 << 28

#: The suffixes that name a compression, which is found by the first bytes of a file.
COMPRESSION_SUFFIXES = (".xz", ".gz", ".bz2")

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "lzma"}
_REFUSED = {b"PK\x03\x04": "a zip archive", b"\x28\xb5\x2f\xfd": "compressed with zstd", b"7z\xbc\xaf": "a 7z archive"}


class Block(NamedTuple):
    """Whole lines of a file."""

    data: bytes
    first_line: int  # the number of the first line in the file, from 1


def require_file(path: Path) -> None:
    """Raise where there is nothing under this path, or a folder."""
    if path.is_dir():
        raise DataError(f"{path} is a folder. Give the path of a file.")
    if not path.exists():
        raise DataError(f"{path} does not exist. Check the path; finitesum.datasets.fetch finds public data by name.")


def _decompressed(path: Path, head: bytes) -> BinaryIO:
    for magic, module in _COMPRESSIONS.items():
        if head.startswith(magic):
            return cast(BinaryIO, importlib.import_module(module).open(path, "rb"))
    for magic, kind in _REFUSED.items():
        if head.startswith(magic):
            raise DataError(f"{path} is {kind}, which is not read as text. Unpack it, or use gz, bz2 or xz.")
    return path.open("rb")


@contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """Open a file that may be compressed (gz, bz2, xz) for reading.

    A DataError says that it cannot be opened or read, is damaged, or is an archive of another kind, also where it is read.
    """
    require_file(path)
    try:
        with path.open("rb") as plain:
            head = plain.read(6)
        with _decompressed(path, head) as stream:
            yield stream
    except ImportError as error:
        raise DataError(f"{path} is compressed, and this Python lacks the module {error.name}. Unpack it.") from None
    except _READING_ERRORS as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read: {reason}. Is the file complete and readable?") from error


def limit(name: str) -> int:
    """Return one of `LIMITS`, as the environment sets it."""
    text = os.environ.get(name, str(LIMITS[name]))
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise DataError(f"{name} must be a whole number > 0, got {preview(text)}. Unset it for {LIMITS[name]}.")
    return int(text)


def require_expansion(path: Path, n_bytes: int) -> None:
    """Raise where a file unpacks to more than the limit allows."""
    if n_bytes > ALWAYS_BYTES and n_bytes > limit("FINITESUM_MAX_EXPANSION") * path.stat().st_size:
        raise DataError(
            f"{path} unpacks to more than {limit('FINITESUM_MAX_EXPANSION')} times its {path.stat().st_size} bytes. "
            "Set FINITESUM_MAX_EXPANSION to a larger number if that is right."
        )


def chunks(stream: BinaryIO, path: Path, size: int | None = None) -> Iterator[bytes]:
    """Yield a stream as parts of `size` bytes, as far as the file may expand."""
    n_bytes = 0
    while chunk := stream.read(BLOCK_BYTES if size is None else size):
        n_bytes += len(chunk)
        require_expansion(path, n_bytes)
        yield chunk


def line_blocks(stream: BinaryIO, path: Path, size: int | None = None) -> Iterator[Block]:
    """Yield a stream as blocks of whole lines, of about `size` bytes each, without a byte order mark."""
    rest: list[bytes] = []
    line = 1
    first = True
    longest = limit("FINITESUM_MAX_LINE_BYTES")
    for chunk in chunks(stream, path, size):
        if first:
            chunk, first = without_mark(chunk, path), False
        end = chunk.find(b"\n")
        lengths = [sum(map(len, rest)) + (len(chunk) if end < 0 else end)]
        if len(chunk) > longest:
            lengths += [len(part) for part in chunk.split(b"\n")[1:]]
        if max(lengths) > longest:
            number = line + next(k for k, length in enumerate(lengths) if length > longest)
            raise DataError(
                f"{path}, line {number}: the line has more than {longest} bytes. Is it the right file? "
                "Set FINITESUM_MAX_LINE_BYTES to a larger number if that is right."
            )
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            rest.append(chunk)
            continue
        data = b"".join([*rest, chunk[:cut]])
        rest = [chunk[cut:]]
        yield Block(data, line)
        line += data.count(b"\n")
    if data := b"".join(rest):
        yield Block(data, line)


def without_mark(head: bytes, path: Path) -> bytes:
    """Return the beginning of a text without its byte order mark, which may not be that of UTF-16 or UTF-32."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise DataError(f"{path}, line 1: the text is UTF-16 or UTF-32. Save it as UTF-8.")
    return head.removeprefix(b"\xef\xbb\xbf")


def text_lines(blocks: Iterable[Block], path: Path) -> Iterator[str]:
    """Yield the lines of blocks, with their ends."""
    for block in blocks:
        yield from io.StringIO(decoded(block, path), newline="\n")


def decoded(block: Block, path: Path) -> str:
    """Return a block as text, or name the first line that is no UTF-8."""
    try:
        return block.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = block.first_line + block.data.count(b"\n", 0, error.start)
        bad = block.data[error.start : error.start + 1]
        raise DataError(
            f"{path}, line {line}: the text is not UTF-8 (byte {preview(bad.hex())}). Save the file as UTF-8."
        ) from None


def to_number(text: str) -> float | None:
    """Return the number that a text stands for, or None: unlike Python, files have no ``1_000`` and no foreign digits.

    Examples
    --------
    >>> to_number(" 1e3"), to_number("-inf"), to_number("1_000"), to_number("one")
    (1000.0, -inf, None, None)
    """
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None
