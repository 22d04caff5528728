"""Arrays of numbers in .mat files of MATLAB 5 to 7. SciPy's reader is not used: one changed byte can crash the process.

A file is a header of 128 bytes and a list of elements. An element is a tag (its type and its number of bytes) and its
content. A variable is an element of type MATRIX, or one that is compressed by zlib. It consists of elements itself: its
class, its shape, its name and its values.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ...errors import InputError
from ...files import check_expansion

HEADER, TAG, MAX_DIMENSIONS = 128, 8, 32
HEAD = 4096  # bytes at the start of a variable, in which its class, shape and name are
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES_WITH_SHAPE, CLASSES_OF_NUMBERS = range(1, 16), range(6, 16)  # the others: cells, text, sparse matrices, ...
COMPLEX = 0x0800


class _DamagedError(ValueError):
    """The message says what is wrong in the file."""


class _Variable(NamedTuple):
    name: str
    flags: int
    shape: tuple[int, ...]
    values: int  # where the element of its values begins


def read_arrays(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """The arrays with these names that the file has, in the type in which their values are stored.

    MATLAB stores numbers in a smaller type than that of the variable, if that loses nothing.
    """
    found: dict[str, np.ndarray] = {}
    try:
        with path.open("rb") as file:
            order = _byte_order(path, file.read(HEADER))
            end = path.stat().st_size
            while len(found) < len(names) and file.tell() < end:
                kind, size = _unpack(order + "II", file.read(TAG), 0)
                start = file.tell()
                if size > end - start:
                    raise _DamagedError(f"an element of {size:,} bytes has only {end - start:,}")
                if kind not in (MATRIX, COMPRESSED):
                    raise _DamagedError(f"an element of type {kind} in the place of a variable")
                variable = _describe(_content(path, file, order, kind, size, HEAD), order)
                if variable is not None and variable.name in names and variable.name not in found:
                    file.seek(start)
                    content = _content(path, file, order, kind, size)
                    found[variable.name] = _values(path, content, order, variable)
                file.seek(start + size)
    except (_DamagedError, zlib.error, OSError) as error:
        raise InputError(
            f"{path} cannot be read as a .mat file ({error}): "
            "it is damaged, or has another format; download it or save it again"
        ) from None
    return found


def _byte_order(path: Path, header: bytes) -> str:
    """The byte order of the file, as numpy and struct write it."""
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if order is None:
        raise _DamagedError("its header is not that of MATLAB 5 or later")
    version = _unpack(order + "H", header, 124)[0]
    if version == 0x0200:
        raise InputError(f"{path} is a .mat file of version 7.3, which is HDF5: save it again in MATLAB with '-v7'")
    if version != 0x0100:
        raise _DamagedError(f"its version is {version:#06x}")
    return order


def _content(path: Path, file: BinaryIO, order: str, kind: int, size: int, limit: int | None = None) -> bytes:
    """The content of a variable, without its tag: the first bytes up to the limit, or all, checked to the end."""
    if kind == MATRIX:
        return file.read(size if limit is None else min(size, limit))
    stream = zlib.decompressobj()
    data = file.read(size if limit is None else min(size, 2 * limit))
    inner, length = _unpack(order + "II", stream.decompress(data, TAG), 0)
    if inner != MATRIX:
        raise _DamagedError(f"a compressed element of type {inner} in the place of a variable")
    if limit is not None:
        return stream.decompress(stream.unconsumed_tail, min(length, limit) or 1)
    check_expansion(path, length)
    content = stream.decompress(stream.unconsumed_tail, length or 1)
    if len(content) != length or stream.decompress(stream.unconsumed_tail, 1) or not stream.eof:
        raise _DamagedError(f"a compressed variable does not have its {length:,} bytes")
    return content


def _describe(content: bytes, order: str) -> _Variable | None:
    """What the head of a variable says; None for kinds of variables that have no shape, such as functions."""
    flags = _unpack(order + "I", content, TAG)[0]
    if flags & 0xFF not in CLASSES_WITH_SHAPE:
        return None
    _, start, size, after = _element(content, order, 2 * TAG)
    if size % 4 or not 2 <= size // 4 <= MAX_DIMENSIONS:
        raise _DamagedError(f"a shape of {size} bytes")
    shape = _unpack(f"{order}{size // 4}i", content, start)
    _, start, size, after = _element(content, order, after)
    return _Variable(content[start : start + size].decode("latin-1"), flags, shape, after)


def _values(path: Path, content: bytes, order: str, variable: _Variable) -> np.ndarray:
    name, flags, shape, place = variable
    if flags & 0xFF not in CLASSES_OF_NUMBERS or flags & COMPLEX:
        raise InputError(f"{path}: {name} is not an array of real numbers: save it as one")
    if min(shape) < 1:
        raise InputError(f"{path}: {name} has the shape {shape}: save at least one value")
    kind, start, size, _ = _element(content, order, place)
    if kind not in STORED:
        raise _DamagedError(f"the values of {name} have the type {kind}")
    stored = np.dtype(order + STORED[kind])
    if size != math.prod(shape) * stored.itemsize or start + size > len(content):
        raise _DamagedError(f"{name} has {size:,} bytes of values for the shape {shape}")
    values = np.frombuffer(content, stored, math.prod(shape), start)
    return values.astype(stored.newbyteorder("="), copy=False).reshape(shape, order="F")


def _element(content: bytes, order: str, place: int) -> tuple[int, int, int, int]:
    """Of the element at this place: its type, where its content begins, its size, and where the next one begins."""
    kind, size = _unpack(order + "II", content, place)
    if kind >> 16:  # a small element: four bytes of type and size, and at most four bytes of content
        if kind >> 16 > 4:
            raise _DamagedError(f"a small element of {kind >> 16} bytes")
        return kind & 0xFFFF, place + 4, kind >> 16, place + TAG
    start = place + TAG
    return kind, start, size, start + -(-size // 8) * 8  # content is filled up to a multiple of 8 bytes


def _unpack(form: str, content: bytes, place: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, content, place)
    except struct.error:
        raise _DamagedError("it ends within an element") from None
