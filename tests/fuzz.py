"""A mutation fuzzer over every file that the program reads: 0 tracebacks, 0 hangs, bounded memory, nothing written.

    python tests/fuzz.py --minutes 60           # by hand; --seed N for other inputs, --only NAME for some targets

Each input is a valid file with one or a few changes: of its bytes, of a JSON value, of a cell, of a header. The command
or the call that reads it must end with a result or with one message. After a message, the folder must be as before.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HANG_SECONDS = 120  # of one input: most take less than 0.1, the others train an epoch
MEMORY_BYTES = 2**30  # by which the peak memory may grow over that of the valid files
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


class Target(NamedTuple):
    name: str
    folder: str  # below the folder of seeds; copied for every input
    file: str  # the file that is changed, below it
    call: Callable[[Path], object]  # with the copy of the folder


# ---------------------------------------------------------------------- the seeds


def command(*words: object) -> int:
    """Run the command in this process."""
    from majority.cli.app import main

    before, sys.argv = sys.argv, ["majority", *map(str, words)]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            main()
    except SystemExit as stopped:
        code = stopped.code or 0
    finally:
        sys.argv = before
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code}")
    return int(code)


def write_seeds(folder: Path) -> list[Target]:
    """Write valid files of every kind, small enough to be read in milliseconds; return what reads them."""
    import pandas as pd
    from PIL import Image

    from majority import Bags, Classifier
    from majority.experiments.data import Data
    from majority.experiments.experiment import Experiment
    from majority.study.grid import Study

    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"] * 8, 5)
    frame = pd.DataFrame({"bag": np.repeat([f"bag-{i}" for i in range(24)], 5), "bag_label": labels})
    for i in range(3):
        frame[f"f{i}"] = rng.normal(size=120).round(3) + (labels == "abc"[i])
    frame["instance_label"] = np.where(rng.random(120) < 0.8, labels, "a")
    frame["x"], frame["y"] = rng.integers(0, 9, 120), rng.integers(0, 9, 120)
    tables = folder / "tables"
    tables.mkdir()
    frame.to_csv(tables / "bags.csv", index=False)
    frame.to_parquet(tables / "bags.parquet", index=False)
    source = str(tables / "bags.csv")

    def experiment(recipe: str, **more: Any) -> Experiment:
        settings = {"training.epochs": 3} | ({"census.teacher_epochs": 1} if recipe == "census" else {})
        return Experiment(
            Data(source, features=("f0", "f1", "f2")), "log-mean", recipe=recipe, settings=settings, **more
        )

    experiment("quick").run(folder / "run/run", "cpu")
    _interrupt(experiment("quick"), folder / "half/run", epochs=2)
    _interrupt(experiment("census"), folder / "staged/run", stages=3)
    train = ["--features", "f0,f1,f2", "--method", "log-mean", "--epochs", 3, "--device", "cpu", "--out"]

    def train_again(recipe: str) -> Callable[[Path], int]:
        more = ["--set", "census.teacher_epochs=1"] if recipe == "census" else []
        return lambda work: command("train", source, "--recipe", recipe, *more, *train, work / "run")

    (folder / "bags").mkdir()
    Bags.from_table(
        frame[["f0", "f1", "f2"]].to_numpy("float32"),
        frame["bag"],
        frame["bag_label"],
        instance_labels=frame["instance_label"],
    ).save(folder / "bags/bags")
    targets = [
        *(
            Target(f"{name} of a {kind} run: {word}", kind, f"run/{name}", call)
            for kind, name, word, call in (
                ("run", "config.json", "evaluate", lambda work: command("evaluate", work / "run", "--device", "cpu")),
                ("run", "config.json", "predict", _predict(source)),
                ("run", "config.json", "report", lambda work: command("report", work / "run")),
                ("run", "config.json", "train", train_again("quick")),
                ("run", "result.json", "report", lambda work: command("report", work / "run")),
                ("run", "result.json", "train", train_again("quick")),
                ("run", "metrics.jsonl", "report", lambda work: command("report", work / "run")),
                ("run", "best.safetensors", "predict", _predict(source)),
                ("run", "best.safetensors", "load", lambda work: Classifier.load(work / "run/best.safetensors", "cpu")),
                ("half", "config.json", "train", train_again("quick")),
                ("half", "metrics.jsonl", "train", train_again("quick")),
                ("half", "checkpoint.safetensors", "train", train_again("quick")),
            )
        ),
        *(
            Target(f"{name} of a stage: train", "staged", f"run/stages/{stage}/{name}", train_again("census"))
            for stage in sorted(path.parent.name for path in (folder / "staged").glob("run/stages/*/outcome.json"))[:1]
            for name in ("outcome.json", "metrics.jsonl", "weights.safetensors")
        ),
        *(
            Target(f"{name} of saved bags", "bags", f"bags/{name}", lambda work: Bags.load(work / "bags"))
            for name in sorted(path.name for path in (folder / "bags/bags").iterdir())
        ),
        *(
            Target(f"{name}: check", "tables", name, lambda work, name=name: command("check", work / name))
            for name in ("bags.csv", "bags.parquet")
        ),
        Target("bags.csv: predict", "tables", "bags.csv", _predict_other(folder / "run/run")),
    ]
    targets += _study_targets(folder, rng, Experiment, Data, Study)
    targets += _feature_targets(folder, rng)
    targets += _image_targets(folder, rng, Image)
    return targets


def _predict(source: str) -> Callable[[Path], int]:
    return lambda work: command("predict", work / "run", source, "--device", "cpu", "--out", work / "predicted.csv")


def _predict_other(run: Path) -> Callable[[Path], int]:
    return lambda work: command("predict", run, work / "bags.csv", "--device", "cpu", "--out", work / "predicted.csv")


def _interrupt(experiment: Any, folder: Path, epochs: int = 0, stages: int = 0) -> None:
    """Leave the run folder of a training that was interrupted."""
    from majority import Callback

    left = {"epochs": epochs or 10**9, "stages": stages or 10**9}

    class Interrupt(Callback):
        def on_epoch_end(self, record: dict[str, Any]) -> None:
            self.count("epochs")

        def on_stage_end(self, name: str, fitted: object) -> None:
            self.count("stages")

        def count(self, what: str) -> None:
            left[what] -= 1
            if left[what] == 0:
                raise KeyboardInterrupt

    try:
        experiment.run(folder, "cpu", callbacks=[Interrupt()])
    except KeyboardInterrupt:
        return
    raise AssertionError(f"{folder} ended before it could be interrupted")


def _study_targets(folder: Path, rng: Any, experiment: Any, data: Any, study: Any) -> list[Target]:
    images = rng.integers(0, 256, (150, 4, 4), np.uint8)
    arrays = {
        f"{part}_{what}": images if what == "images" else np.arange(150) % 3
        for part in ("train", "test")
        for what in ("images", "labels")
    }
    (folder / "sets").mkdir()
    source = folder / "sets/set.npz"
    np.savez(source, **arrays)
    from scipy.io import savemat

    digits = {"X": rng.integers(0, 256, (4, 4, 3, 60)).astype(np.uint8), "y": (np.arange(60) % 3 + 1)[:, None]}
    savemat(folder / "sets/set.mat", digits)
    common = experiment(
        data(str(source), bags=8, bag_size=4), "log-mean", recipe="quick", settings={"training.epochs": 2}
    )
    grid = study((str(source),), ("large",), ("log-mean", "vote"), (0, 1), common)
    out = folder / "study/study"
    for place, cell in grid.cells(out):
        if (cell.method, cell.data.fold) != ("vote", 1):  # one cell is missing
            cell.run(place, "cpu")
    (out / "study.json").write_text(json.dumps(grid.request(), indent=2))
    command("report", out)
    (folder / "lines").mkdir()
    from majority.study.results import save_results

    shutil.copy(save_results(out), folder / "lines/results.jsonl")
    cell = "set/large/log-mean/fold0"
    words = ["study", source, "--scenarios", "large", "--methods", "log-mean", "--folds", "0,1", "--recipe", "quick"]
    words += ["--bags", 8, "--bag-size", 4, "--epochs", 2, "--device", "cpu", "--out"]
    return [
        Target("study.json: report", "study", "study/study.json", lambda work: command("report", work / "study")),
        *(
            Target(
                f"{name} of a cell: report",
                "study",
                f"study/{cell}/{name}",
                lambda work: command("report", work / "study"),
            )
            for name in ("result.json", "metrics.jsonl")
        ),
        *(
            Target(
                f"{name} of a cell: study",
                "study",
                f"study/{cell}/{name}",
                lambda work: command(*words, work / "study"),
            )
            for name in ("config.json", "result.json")
        ),
        Target(
            "results.jsonl: report", "lines", "results.jsonl", lambda work: command("report", work / "results.jsonl")
        ),
        *(
            Target(f"{name}: check", "sets", name, lambda work, name=name: command("check", work / name))
            for name in ("set.npz", "set.mat")
        ),
    ]


def _feature_targets(folder: Path, rng: Any) -> list[Target]:
    import h5py
    import torch

    place = folder / "features/features"
    place.mkdir(parents=True)
    names = ["one.npy", "two.npz", "three.h5", "four.pt"]
    for name in names:
        features = rng.normal(size=(6, 3)).astype(np.float32)
        coordinates = rng.integers(0, 9, (6, 2))
        if name.endswith("npy"):
            np.save(place / name, features)
        elif name.endswith("npz"):
            np.savez_compressed(place / name, features=features)
        elif name.endswith("pt"):
            torch.save({"features": torch.from_numpy(features)}, place / name)
        else:
            with h5py.File(place / name, "w") as file:
                file.create_dataset("features", data=features, compression="gzip")
        del coordinates
    (place / "labels.csv").write_text("bag,label\none,a\ntwo,b\nthree,a\nfour,b\n")
    return [
        Target(f"{name}: check", "features", f"features/{name}", lambda work: command("check", work / "features"))
        for name in (*names, "labels.csv")
    ]


def _image_targets(folder: Path, rng: Any, image: Any) -> list[Target]:
    place = folder / "images"
    place.mkdir()
    names = ["a.png", "b.jpg", "c.tif", "d.bmp"]
    for name in names:
        image.fromarray(rng.integers(0, 256, (9, 8, 3), np.uint8)).save(place / name)
    rows = [
        f"{bag},{label},{name}" for bag, label in (("p", "a"), ("q", "b"), ("r", "a"), ("s", "b")) for name in names
    ]
    (place / "manifest.csv").write_text("bag,bag_label,path\n" + "\n".join(rows) + "\n")
    return [
        Target(f"{name}: check", "images", name, lambda work: command("check", work / "manifest.csv"))
        for name in (*names, "manifest.csv")
    ]


# ---------------------------------------------------------------------- the changes


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
    import zipfile

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


STRUCTURED = {
    ".json": change_json,
    ".jsonl": change_lines,
    ".safetensors": change_safetensors,
    ".csv": change_table,
    ".npy": change_npy,
    ".npz": change_npz,
}


# ---------------------------------------------------------------------- the loop


@dataclass
class Counts:
    """What happened to the inputs."""

    inputs: Counter[str] = field(default_factory=Counter)  # by target
    endings: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)  # place -> what happened first there
    at_place: Counter[str] = field(default_factory=Counter)
    peak_growth: int = 0

    def fail(self, place: str, details: str) -> None:
        self.at_place[place] += 1
        self.failures.setdefault(place, details)


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(folder))] = (
            status.st_mtime_ns if path.is_file() else 0,
            status.st_size if path.is_file() else 0,
        )
    return found


class Hang(BaseException):
    pass


def _raise_hang(*_: object) -> None:
    raise Hang


def fuzz(targets: list[Target], seeds: Path, seed: int, budget: Callable[[int], bool]) -> Counts:
    """Try inputs, one target after the other, while budget(number of inputs so far) holds."""
    from majority.errors import InputError, TrainingError

    rng, counts = random.Random(seed), Counts()
    work = Path(tempfile.mkdtemp(dir=seeds.parent, prefix="work-"))
    present: dict[str, dict[str, tuple[int, int]]] = {}
    base = _peak_memory()
    signal.signal(signal.SIGALRM, _raise_hang)
    number = 0
    try:
        while budget(number):
            target = targets[number % len(targets)]
            number += 1
            copy = work / target.folder
            if present.get(target.folder) is None or _snapshot(copy) != present[target.folder]:
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(seeds / target.folder, copy)
            original = (seeds / target.folder / target.file).read_bytes()
            changed = change(original, target.file, rng)
            (copy / target.file).write_bytes(changed)
            before = _snapshot(copy)
            counts.inputs[target.name] += 1
            ending = "a result"
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ending = "a message" if target.call(copy) == 2 else "a result"
            except (InputError, TrainingError):
                ending = "a message"
            except Hang:
                ending = "a hang"
                counts.fail(f"hang: {target.name}", _keep(work, target, changed, number, "no end"))
            except BaseException as error:
                ending = "a traceback"
                counts.fail(_place(error), _keep(work, target, changed, number, traceback.format_exc()))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            counts.endings[ending] += 1
            if ending == "a message" and _snapshot(copy) != before:
                difference = sorted(set(_snapshot(copy).items()) ^ set(before.items()))
                counts.endings["files changed after a message"] += 1
                details = _keep(work, target, changed, number, str(difference))
                counts.fail(f"changed: {target.name}: {difference[0][0]}", details)
            counts.peak_growth = max(counts.peak_growth, _peak_memory() - base)
            if counts.peak_growth > MEMORY_BYTES:
                details = _keep(work, target, changed, number, f"{counts.peak_growth / 2**20:.0f} MiB")
                counts.fail(f"memory: {target.name}", details)
                base = _peak_memory()
            (copy / target.file).write_bytes(original)
            if ending == "a message":
                present[target.folder] = _snapshot(copy)
            else:
                present.pop(target.folder, None)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return counts


def _keep(work: Path, target: Target, content: bytes, number: int, details: str) -> str:
    """Keep the input beside the seeds, to look at it."""
    kept = work.parent / f"failed-{number}-{Path(target.file).name}"
    kept.write_bytes(content)
    return f"{target.name}; input {number}, kept as {kept}\n{details}"


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/majority/" in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {where}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="targets whose name has this text")
    parser.add_argument("--out", type=Path, help="a .json file for the counts")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    seeds = folder / "seeds"
    seeds.mkdir()
    targets = [target for target in write_seeds(seeds) if options.only in target.name]
    end = time.monotonic() + 60 * options.minutes
    started = time.process_time()
    counts = fuzz(targets, seeds, options.seed, lambda number: time.monotonic() < end)
    for place, details in sorted(counts.failures.items(), key=lambda item: -counts.at_place[item[0]]):
        print(f"--- {counts.at_place[place]} x {place}\n{details}\n")
    summary = {
        "command": f"python tests/fuzz.py --minutes {options.minutes:g} --seed {options.seed}",
        "inputs": sum(counts.inputs.values()),
        "targets": len(counts.inputs),
        "endings": dict(counts.endings),
        "places of failures": len(counts.failures),
        "peak memory above that of valid files, MiB": round(counts.peak_growth / 2**20),
        "CPU seconds": round(time.process_time() - started),
        "inputs by target": dict(counts.inputs),
    }
    print(json.dumps(summary, indent=2))
    if options.out:
        options.out.write_text(json.dumps(summary, indent=2) + "\n")
    if not counts.failures:
        shutil.rmtree(folder)
    sys.exit(bool(counts.failures))


if __name__ == "__main__":
    main()
