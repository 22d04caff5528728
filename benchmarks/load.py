"""Large tables and bags: processor time and peak memory of `check`, `train` (one epoch, quick) and `predict`.

    python benchmarks/load.py FOLDER --out results/load/cpu.json                  # all cases; FOLDER for their files
    python benchmarks/load.py FOLDER --only rows --scale 0.01                     # to test the code, not its speed

Each case is measured at a quarter, at half and at all of its size, each command in a new process:

rows      a CSV of 2,000,000 rows of 16 features in 20,000 bags
small     a CSV of 100,000 bags of 1 to 3 rows of 16 features
one bag   a folder of .npy files: one bag of 1,000,000 vectors of 16 features, and 40 bags of 100
classes   a CSV of 40,000 bags of 2 rows of 16 features, of 5,000 classes
columns   a CSV of 100,000 columns, 40 bags of 2 rows

"cpu" is user and system time. "start" is the same command on 40 bags of 2 rows of 16 features; it is subtracted
before the growth exponent (from the quarter to the whole: 1 is linear) and "times the data" (peak memory above the
start, divided by the size of the files) are computed.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from helpers import commit, majority, make_parser, run_measured

from majority.files import read_json, write_json

WIDTH = 16
CASES = ("rows", "small", "one bag", "classes", "columns")
SCALES = (0.25, 0.5, 1.0)
PARTS = np.array(["train"] * 6 + ["val"] * 2 + ["test"] * 2)


def write_table(path: Path, sizes: np.ndarray, classes: int = 3, width: int = WIDTH) -> None:
    """A CSV; bag i has class i modulo `classes`, and its rows are that class's centre plus noise."""
    import pyarrow as pa
    from pyarrow import csv

    rng, bags = np.random.default_rng(0), np.arange(len(sizes))
    rows = np.repeat(bags, sizes)
    shift = np.random.default_rng(1).normal(size=(classes, min(width, WIDTH))).astype(np.float32)
    table = {
        "bag": pa.array(np.char.add("bag-", bags.astype(str)), pa.string()).take(pa.array(rows)),
        "bag_label": pa.array(np.char.add("class-", (bags % classes).astype(str))).take(pa.array(rows)),
        "split": pa.array(PARTS[(bags // classes) % len(PARTS)]).take(pa.array(rows)),
    }
    for i in range(width):
        centre = shift[rows % classes, i] if i < shift.shape[1] else np.float32(0)
        table[f"f{i}"] = (rng.standard_normal(len(rows), np.float32) + centre).round(4)
    csv.write_csv(pa.table(table), path)


def write_one_bag(folder: Path, size: int) -> Path:
    place, rng, lines = folder / "bags", np.random.default_rng(0), ["bag,label,split"]
    place.mkdir()
    for i in range(41):
        instances = rng.standard_normal((100 if i else size, WIDTH), np.float32) + i % 2
        np.save(place / f"bag-{i}.npy", instances)
        lines.append(f"bag-{i},{'ab'[i % 2]},{PARTS[i // 2 % len(PARTS)]}")
    (place / "labels.csv").write_text("\n".join(lines) + "\n")
    return place


def write(folder: Path, case: str, scale: float) -> Path:
    """The file or folder of a case."""
    if case == "one bag":
        return write_one_bag(folder, max(100, int(1_000_000 * scale)))
    sizes, classes, width = np.full(40, 2), 3, WIDTH  # those of the start
    if case == "rows":
        sizes = np.full(max(40, int(20_000 * scale)), 100)
    elif case == "small":
        sizes = np.random.default_rng(0).integers(1, 4, max(40, int(100_000 * scale)))
    elif case == "classes":
        sizes, classes = np.full(max(40, int(40_000 * scale)), 2), max(2, min(5_000, int(20_000 * scale)))
    elif case == "columns":
        width = max(WIDTH, int(100_000 * scale))
    write_table(folder / "bags.csv", sizes, classes, width)
    return folder / "bags.csv"


def measure(case: str, folder: Path, scale: float) -> dict:
    """The three commands on one input, which is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # memory of this process would count as a command's
            source = pool.submit(write, place, case, scale).result()
        files = [source] if source.is_file() else list(source.iterdir())
        quick = ["--recipe", "quick", "--method", "log-mean", "--epochs", 1, "--device", "cpu", "--out", place / "run"]
        commands = {"check": [source], "train": [source, *quick]}
        commands["predict"] = [place / "run", source, "--device", "cpu", "--out", place / "classes.csv"]
        measured = {name: run_measured(majority(name, *words)) for name, words in commands.items()}
        return measured | {"data_mb": round(sum(path.stat().st_size for path in files) / 1e6, 3)}


def summarise(start: dict, sizes: list[dict]) -> dict:
    """Growth exponents from the quarter to the whole, and the peak of the whole in multiples of its data."""
    summary = {}
    for command in ("check", "train", "predict"):
        quarter, whole = (max(sizes[i][command]["cpu"] - start[command]["cpu"], 0.01) for i in (0, -1))
        memory = sizes[-1][command]["peak_mb"] - start[command]["peak_mb"]
        summary[command] = {
            "cpu": sizes[-1][command]["cpu"],
            "growth exponent": round(math.log(whole / quarter, 4), 2),
            "peak_mb": sizes[-1][command]["peak_mb"],
            "times the data": round(memory / sizes[-1]["data_mb"], 1),
        }
    return summary


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, required=True, help="a .json file; cases that are in it already are kept")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result = read_json(options.out) if options.out.exists() else {"cases": {}}
    result |= {"command": "python benchmarks/load.py FOLDER --out results/load/cpu.json", "scale": options.scale}
    result |= {"commit": options.commit or commit(), "hardware": f"{os.cpu_count()} CPU cores"}
    start = measure("start", options.folder, options.scale)
    for name in options.only:
        sizes = [measure(name, options.folder, scale * options.scale) for scale in SCALES]
        result["cases"][name] = {"summary": summarise(start, sizes), "start": start, "sizes": sizes}
        print(name, json.dumps(result["cases"][name]["summary"]), flush=True)
        write_json(options.out, result)


if __name__ == "__main__":
    main()
