"""The changes that the fuzzer makes: of bytes, JSON values, cells and headers."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

HOSTILE = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    10**6,
    10**30,
    -(10**30),
    0.5,
    1e308,
    -1e308,
    1e-320,
    float("nan"),
    float("inf"),
]
HOSTILE += ["", "x", "1", "nan", "\ud800", "\x00", "../../x", "=1+1", "x" * 5_000, [], {}, [[]], [None], {"x": None}]
HOSTILE += [[0], [-1], [1, 2, 3], ["a", "b"], {"0": 1}, [10**18], "train", "count", "cifar10", "timm:x"]


def change(content: bytes, name: str, rng: random.Random) -> bytes:
    """The content of a file with one to three changes."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        structured = STRUCTURED.get(Path(name).suffix)
        if structured is not None and rng.random() < 0.7:
            try:
                content = structured(content, rng)
            except Exception:  # an earlier change has broken its structure
                content = change_bytes(content, rng)
        else:
            content = change_bytes(content, rng)
    return content


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    place, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    low, high = min(place, other), max(place, other)
    kind = rng.randrange(9)
    if kind == 0:
        return bytes(data[:place])
    if kind == 1:
        return b""
    if kind == 2:
        return bytes(data[:low] + data[high:])
    if kind == 3:
        return bytes(data[:place] + data[low:high] + data[place:])
    if kind == 4:
        return bytes(data[:place]) + rng.randbytes(rng.choice([1, 8, 500])) + bytes(data[place:])
    if kind == 5:
        return rng.randbytes(rng.choice([1, 10, 2_000]))
    if kind == 6:
        return bytes(data[:low]) + b"\0" * (high - low) + bytes(data[high:])
    for _ in range(rng.choice([1, 1, 4, 30])):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(data)


def change_json(content: bytes, rng: random.Random) -> bytes:
    value = json.loads(content)
    return json.dumps(change_value(value, rng), indent=rng.choice([None, 2])).encode()


def change_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    i = rng.randrange(max(1, len(lines) - 1))
    lines[i] = json.dumps(change_value(json.loads(lines[i]), rng)).encode()
    return b"\n".join(lines)


def change_value(value: Any, rng: random.Random) -> Any:
    """The same JSON value with one part of it replaced, removed, added or nested."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.15:
            return {name: item for name, item in value.items() if name != key}
        if kind < 0.2:
            return value | {rng.choice(["", "x", "schema", key + "x"]): rng.choice(HOSTILE)}
        return value | {key: change_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        i = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:i] + value[i + 1 :]
        return [*value[:i], change_value(value[i], rng), *value[i + 1 :]]
    if rng.random() < 0.03:
        for _ in range(rng.choice([40, 400])):
            value = [value]
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice([value + 1, value - 1, -value, value * 10**9, value * 1.5])
    return rng.choice(HOSTILE)


def change_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Change the header: a shape, a dtype, an offset, a name, or the JSON in its metadata."""
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    notes = header.get("__metadata__") or {}
    if notes and rng.random() < 0.5:
        key = rng.choice(list(notes))
        notes[key] = (
            json.dumps(change_value(json.loads(notes[key]), rng)) if rng.random() < 0.9 else rng.choice(["", "[", "x"])
        )
    elif rng.random() < 0.5:
        tensor = header[rng.choice([name for name in header if name != "__metadata__"])]
        if rng.random() < 0.5:
            tensor["dtype"] = rng.choice(["F16", "I32", "F64", "U8", "BOOL", "BF16", "x"])
        else:
            tensor["shape"] = rng.choice([tensor["shape"][::-1], [*tensor["shape"], 1], [10**12], [-1], [0], []])
    elif rng.random() < 0.5 and data:
        place = rng.randrange(0, max(1, len(data) - 4), 4)
        data = data[:place] + struct.pack("<f", rng.choice([float("nan"), float("inf"), 1e38, 0.0])) + data[place + 4 :]
    else:
        header = change_value(header, rng)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if rng.random() < 0.95 else 2**62) + text + data


def change_table(content: bytes, rng: random.Random) -> bytes:
    lines = content.decode().split("\n")
    i = rng.randrange(len(lines))
    cells = lines[i].split(",")
    shown = [
        "",
        " ",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e38",
        "9" * 400,
        '"',
        '"x',
        "'",
        ";",
        "\t",
        "\x00",
        "\ufeff",
        "\u202e",
        "é",
    ]
    shown += [
        "=1+1",
        "1,5",
        "0x1F",
        "True",
        "2020-01-01",
        "x" * 70_000,
        "a\nb",
        "a/b",
        "..",
        "/dev/zero",
        "bag",
        "bag-1",
    ]
    cells[rng.randrange(len(cells))] = rng.choice(shown)
    lines[i] = rng.choice([",", ",", ",", ";", "\t"]).join(cells)
    if rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    if rng.random() < 0.1:
        lines.pop(rng.randrange(len(lines)))
    return rng.choice(["\n", "\n", "\r\n", "\r"]).join(lines).encode()


def change_npy(content: bytes, rng: random.Random) -> bytes:
    """Change the header of the array: its shape, dtype or order."""
    (length,) = struct.unpack("<H", content[8:10])
    fields = eval(content[10 : 10 + length].decode(), {"__builtins__": {}})  # written by numpy a moment ago
    shapes = [(10**12, 3), (2**62,), (-1, 3), (0, 3), (3,), (6, 3, 1), (10**9, 10**9), (2**31, 3), ()]
    fields[rng.choice(["shape", "shape", "descr", "fortran_order", "x"])] = rng.choice(
        [*shapes, "<f8", "|O", "<U5", ">f4", "<M8[s]", "<c8", "|V1000000", True, None, [("a", "<f4")]]
    )
    text = repr(fields).encode() + b"\n"
    return content[:8] + struct.pack("<H", len(text)) + text + content[10 + length :]


def change_npz(content: bytes, rng: random.Random) -> bytes:
    """Change one array of the archive, or its name."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after:
        names = before.namelist()
        chosen = rng.choice(names)
        for name in names:
            data, new = before.read(name), name
            if name == chosen:
                data = change_npy(data, rng) if rng.random() < 0.6 else change_bytes(data, rng)
                new = rng.choice(["x.npy", "../x.npy", ""]) if rng.random() < 0.1 else name
            after.writestr(new, data)
    return out.getvalue()


def change_mat(content: bytes, rng: random.Random) -> bytes:
    """Change a word or some bytes within an element, which may be compressed; the sizes of elements stay right."""
    place, elements = 128, []
    while place + 8 <= len(content):
        kind, size = struct.unpack_from("<II", content, place)
        data = content[place + 8 : place + 8 + size]
        elements.append((kind, zlib.decompress(data) if kind == 15 else data))
        place += 8 + size
    chosen = rng.randrange(len(elements))
    out = content[:128]
    for i, (kind, data) in enumerate(elements):
        if i == chosen and rng.random() < 0.7:
            word = 4 * rng.randrange(min(16, len(data) // 4))  # type, size, class, shape and name are here
            value = rng.choice([0, 1, 2, 5, 14, 15, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(2**32)])
            data = data[:word] + struct.pack("<I", value) + data[word + 4 :]
        elif i == chosen:
            data = change_bytes(data, rng)
        packed = zlib.compress(data) if kind == 15 else data
        out += struct.pack("<II", kind, len(packed)) + packed
    return out


STRUCTURED = {
    ".json": change_json,
    ".jsonl": change_lines,
    ".safetensors": change_safetensors,
    ".csv": change_table,
    ".npy": change_npy,
    ".npz": change_npz,
    ".mat": change_mat,
}
