"""What is done to a valid file: bytes, tokens, members of archives, values and shapes of arrays, JSON."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

#: What readers of text may take in several ways.
TOKENS = [
    *(b"nan inf -inf 1_0 -1 0 1e999 1e-400 99999999999999999999 4294967296 2147483648 0x10 1d5 + 1.5f 1,2 ?".split()),
    *(b'" "" , ; : 1:1 # qid:3 label true'.split()),
    *(b" ", b"\t", b"\r", b"\n", b"\r\n", b"\x00", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbc\x91"),
    b"a" * 3000,
]
NUMBERS = [0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**62, -(2**63), 10**8]
ODD = [None, True, -1, 10**30, 1.5, "", "text", [], {}, [1, "a"], {"a": []}, float("nan"), float("inf"), "é" * 200, [[]]]
UNPACK: dict[bytes, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": (gzip.decompress, gzip.compress),
    b"BZh": (bz2.decompress, bz2.compress),
    b"\xfd7zXZ": (lzma.decompress, lzma.compress),
}


def span(r: random.Random, content: bytes) -> tuple[int, int]:
    start = r.randrange(len(content) + 1)
    return start, min(len(content), start + r.choice((1, 2, 8, 64, len(content) // 3 + 1)))


def of_bytes(r: random.Random, content: bytes) -> bytes:
    """Change bytes, whatever they mean."""
    out = bytearray(content)
    start, stop = span(r, content)
    what = r.randrange(8)
    if what == 0:
        for _ in range(r.randint(1, 8)):
            if out:
                out[r.randrange(len(out))] ^= 1 << r.randrange(8)
    elif what == 1:
        out[start:stop] = r.randbytes(stop - start)
    elif what == 2:
        del out[start:stop]
    elif what == 3:
        out[start:start] = out[slice(*span(r, content))]
    elif what == 4:
        del out[start:]
    elif what == 5:
        out += r.randbytes(r.randint(1, 40))
    elif what == 6:
        width = r.choice((1, 2, 4, 8))
        out[start : start + width] = (r.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, r.choice(("little", "big")))
    else:
        out[start:stop] = bytes(stop - start)
    return bytes(out)


def of_text(r: random.Random, content: bytes) -> bytes:
    """Put a token somewhere, or lines elsewhere."""
    what = r.randrange(4)
    if what == 0:
        lines = content.split(b"\n")
        i, j = r.randrange(len(lines)), r.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
        if r.random() < 0.3:
            del lines[i]
        return b"\n".join(lines)
    if what == 1:
        start, stop = span(r, content)
        return content[:start] + r.choice(TOKENS) + content[stop if r.random() < 0.3 else start :]
    parts = [k for k, byte in enumerate(content) if byte in b" ,:\n;\t"] or [0]
    start = r.choice(parts)
    stop = next((k for k in parts if k > start), len(content))
    return content[: start + 1] + r.choice(TOKENS) + content[stop:]


def of_array(r: random.Random, array: Any) -> Any:
    """Change a value, the shape or the type of an array, or make one that is like it."""
    what = r.randrange(6)
    if what == 0 and array.size and array.dtype.kind in "iuf":
        out = array.copy()
        values = NUMBERS if array.dtype.kind in "iu" else [*NUMBERS, np.nan, np.inf, 1e308]
        with np.errstate(all="ignore"):
            out.flat[r.randrange(array.size)] = np.array(r.choice(values)).astype(array.dtype)
        return out
    if what == 1 and array.ndim:
        return array[: r.randrange(len(array) + 1)]
    if what == 2 and array.ndim and array.size:
        return np.concatenate([array, array[: r.randint(1, len(array))]])
    if what == 3:
        return r.choice((array[None], array.reshape(-1), array.T, np.zeros(()), np.zeros((0, 3)), np.zeros((2, 0))))
    if what == 4:
        kind = r.choice(("f4", "f8", "i2", "i4", "i8", "u1", "u8", "?", "c16", "U3", "S2", ">f8", "M8[s]", "f2", "V3"))
        try:
            with np.errstate(all="ignore"):
                return array.astype(kind)
        except (TypeError, ValueError):
            return np.zeros(array.shape, kind)
    return np.random.default_rng(r.randrange(99)).permutation(array.reshape(-1)).reshape(array.shape)


def of_json(r: random.Random, value: Any) -> Any:
    """Change something within a value that JSON holds."""
    if isinstance(value, dict) and value and r.random() < 0.9:
        key = r.choice(list(value))
        if r.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: of_json(r, value[key])}
    if isinstance(value, list) and value and r.random() < 0.5:
        k = r.randrange(len(value))
        return [*value[:k], of_json(r, value[k]), *value[k + (r.random() < 0.7) :]]
    return r.choice(ODD)


def saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def of_archive(r: random.Random, content: bytes) -> bytes:
    """Change what is inside of an archive, and leave the archive whole."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = r.choice(list(members))
    what = r.randrange(8)
    if what == 0:
        del members[name]
    elif what == 1:
        members[r.choice(list(members))] = members[name]
    elif what == 2:
        members[r.choice(("x", "extra.npy", "y.npy", "../up.npy", name + "2"))] = members.pop(name)
    elif what == 3:
        members[name] = of_bytes(r, members[name])
    elif name == "header.npy":
        text = str(np.load(io.BytesIO(members[name])))
        members[name] = (
            saved(np.array(json.dumps(of_json(r, json.loads(text)))))
            if r.random() < 0.9
            else saved(np.array("[" * r.choice((1, 100_000)) + text))
        )
    else:
        members[name] = saved(of_array(r, np.load(io.BytesIO(members[name]))))
    out = io.BytesIO()
    method = r.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(out, "w", method) as archive:
        for member, inside in members.items():
            archive.writestr(member, inside)
    return out.getvalue()


def mutated(r: random.Random, content: bytes, *, is_text: bool, is_archive: bool) -> bytes:
    """Return a file that was changed once to four times."""
    for magic, (unpack, pack) in UNPACK.items():
        if content.startswith(magic) and r.random() < 0.7:
            return pack(mutated(r, unpack(content), is_text=is_text, is_archive=is_archive))
    if is_archive and r.random() < 0.85:
        return of_archive(r, content)
    for _ in range(r.choice((1, 1, 2, 4))):
        content = of_text(r, content) if is_text and r.random() < 0.7 else of_bytes(r, content)
    return content
