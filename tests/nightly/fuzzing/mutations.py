"""The changes that the fuzzer makes: of bytes, JSON values, cells and headers."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

NUMBERS = [0, -1, 1, 2, 10**6, 10**30, -(10**30), 0.5, 1e308, -1e308, 1e-320, float("nan"), float("inf")]
TEXTS = ["", "x", "1", "nan", "\ud800", "\x00", "../../x", "=1+1", "x" * 5_000, "train", "count", "cifar10", "timm:x"]
LISTS = [[], [[]], [None], [0], [-1], [1, 2, 3], ["a", "b"], [10**18], {}, {"x": None}, {"0": 1}]
HOSTILE = [None, True, False, *NUMBERS, *TEXTS, *LISTS]
SHAPES = [[10**12, 3], [2**62], [-1, 3], [0, 3], [3], [6, 3, 1], [10**9, 10**9], [2**31, 3], []]
DTYPES = ["F16", "I32", "F64", "U8", "BOOL", "BF16", "x"]
NPY_TYPES = ["<f8", "|O", "<U5", ">f4", "<M8[s]", "<c8", "|V1000000", True, None, [("a", "<f4")]]
CELLS = [
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
]
CELLS += [
    "é",
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


def change(content: bytes, name: str, rng: random.Random) -> bytes:
    """The content of a file with one to three changes."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        before = content
        if rng.random() < 0.7:
            with suppress(Exception):  # an earlier change may have broken its structure
                content = STRUCTURED[Path(name).suffix](content, rng)
        if content == before:
            content = change_bytes(content, rng)
    return content


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Cut, left out, repeated, inserted, replaced by zeros or by anything else."""
    low, high = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    before, part, after = content[:low], content[low:high], content[high:]
    noise = rng.randbytes(rng.choice([1, 8, 500]))
    made = [b"", before, before + after, before + part + part + after, before + noise + part + after, noise]
    made += [before + b"\0" * len(part) + after]
    few = bytearray(content)
    for _ in range(rng.choice([1, 1, 4, 30]) if few else 0):
        few[rng.randrange(len(few))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return rng.choice([*made, bytes(few), bytes(few)])


def change_json(content: bytes, rng: random.Random) -> bytes:
    return json.dumps(change_value(json.loads(content), rng), indent=rng.choice([None, 2])).encode()


def change_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    i = rng.randrange(max(1, len(lines) - 1))
    lines[i] = json.dumps(change_value(json.loads(lines[i]), rng)).encode()
    return b"\n".join(lines)


def change_value(value: Any, rng: random.Random) -> Any:
    """The same JSON value with one part of it replaced, removed, added or nested."""
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        items = value if isinstance(value, dict) else dict(enumerate(value))
        key, kind = rng.choice([*items]), rng.random()
        if kind < 0.15:
            items = {name: item for name, item in items.items() if name != key}
        elif kind < 0.2:
            items = items | {rng.choice(["", "x", "schema", f"{key}x"]): rng.choice(HOSTILE)}
        else:
            items = items | {key: change_value(items[key], rng)}
        return items if isinstance(value, dict) else [*items.values()]
    if rng.random() < 0.03:
        for _ in range(rng.choice([40, 400])):
            value = [value]
        return value
    if isinstance(value, int | float) and rng.random() < 0.4:
        return rng.choice([value + 1, value - 1, -value, value * 10**9, value * 1.5])
    return rng.choice(HOSTILE)


def change_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Change the header (a shape, a dtype, an offset, a name, the JSON in its metadata) or a number."""
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    notes, kind = header.get("__metadata__"), rng.randrange(4)
    if kind == 0 and notes:
        key = rng.choice([*notes])
        notes[key] = json.dumps(change_value(json.loads(notes[key]), rng)) if rng.random() < 0.9 else "["
    elif kind == 1:
        tensor = header[rng.choice([name for name in header if name != "__metadata__"])]
        name, values = rng.choice([("dtype", DTYPES), ("shape", SHAPES)])
        tensor[name] = rng.choice(values)
    elif kind == 2 and data:
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
    cells[rng.randrange(len(cells))] = rng.choice(CELLS)
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
    name, values = rng.choice([("shape", [*map(tuple, SHAPES)]), ("descr", NPY_TYPES), ("fortran_order", HOSTILE)])
    text = repr(fields | {name: rng.choice(values)}).encode() + b"\n"
    return content[:8] + struct.pack("<H", len(text)) + text + content[10 + length :]


def change_npz(content: bytes, rng: random.Random) -> bytes:
    """Change one array of the archive, or its name."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after:
        chosen = rng.choice(before.namelist())
        for name in before.namelist():
            data = before.read(name)
            if name == chosen:
                data = rng.choice([change_npy, change_bytes])(data, rng)
            renamed = name == chosen and rng.random() < 0.1
            after.writestr(rng.choice(["x.npy", "../x.npy", ""]) if renamed else name, data)
    return out.getvalue()


STRUCTURED = {
    ".json": change_json,
    ".jsonl": change_lines,
    ".safetensors": change_safetensors,
    ".csv": change_table,
    ".npy": change_npy,
    ".npz": change_npz,
}
