"""What the benchmarks share: trainings whose results are lines of a file, and processes that are measured."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd

from majority import Bags
from majority.files import append_line, read_lines
from majority.io.custom.custom_bags import CustomBags
from majority.run.config import RunConfig
from majority.run.study import Cell, FinishedCell, run_cells
from majority.run.study.live import show_cells
from majority.run.study.results import read_results

SCENARIOS = ("small", "various", "large")
NOT_RUN = "–"


def commit() -> str:
    """The commit that a figure is of."""
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    return parser


def add_training_options(parser: argparse.ArgumentParser, work: str) -> None:
    parser.add_argument("--out", type=Path, required=True, help="the .jsonl file of finished cells; lines are appended")
    parser.add_argument("--work", type=Path, default=Path(work), help="run folders, with their checkpoints")
    parser.add_argument("--jobs", type=int, default=None, help="trainings side by side, per GPU or on the CPU")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=None, help="stop by then; the same command continues")


def numbers(words: str) -> list[int]:
    """
    >>> numbers("0,2-4")
    [0, 2, 3, 4]
    """
    ends = [list(map(int, part.split("-"))) for part in words.split(",")]
    return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]


class TimeIsUpError(Exception):
    pass


def result_of(cell: FinishedCell) -> dict:
    """The result of a run."""
    (line,) = read_results(cell.folder)
    return line


def train(
    cells: dict[str, RunConfig], options: argparse.Namespace, line_of: Callable[[FinishedCell], dict] = result_of
) -> None:
    """Train the cells that have no line in OUT; append a line for each as it ends. Failed ones are named at the end.

    Run folders are kept in WORK: killed or stopped, the same command continues from their checkpoints.
    """
    about = {"commit": options.commit or commit()}
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    written = finished(options.out)
    names = {options.work / name: name for name in cells if name not in written}

    def write(cell: FinishedCell | None) -> None:
        if cell and cell.result and names[cell.folder] not in written:
            append_line(options.out, line_of(cell) | {"cell": names[cell.folder]} | about)
            written.add(names[cell.folder])

    with show_cells(lambda line: print(line, flush=True)) as show:

        def watch(state, cell: FinishedCell | None) -> None:
            show(state, cell)
            write(cell)
            if time.monotonic() > end:
                raise TimeIsUpError

        missing = [(folder, Cell(cells[name])) for folder, name in names.items()]
        try:
            ended = run_cells(missing, options.work, options.device, options.jobs, watch)
        except TimeIsUpError:
            print("time is up: unfinished cells continue from their checkpoints", flush=True)
            return
    for cell in ended:
        write(cell)
    failed = [names[cell.folder] for cell in ended if cell.failure]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def finished(out: Path) -> set[str]:
    """The names of the cells in OUT. A last line that a kill cut short is removed: another would be appended to it."""
    if not out.exists():
        return set()
    os.truncate(out, out.read_bytes().rfind(b"\n") + 1)
    return {line["cell"] for line in read_lines(out) if "cell" in line}


def mean(values: Sequence[float], digits: int = 3) -> str:
    return f"{fmean(values):.{digits}f}" if values else NOT_RUN


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation."""
    return mean(values, digits) + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def run_measured(command: Sequence[object], **variables: str) -> dict[str, float]:
    """Run a process: its user and system seconds (also those of its children), and its peak memory.

    Python may write compiled modules, as an installation does, so that only the first process compiles them.
    """
    environment = os.environ | variables | {"PYTHONDONTWRITEBYTECODE": ""}
    words, started = [str(word) for word in command], time.monotonic()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    printed = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}: {printed}")
    wall, cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
    return {"cpu": round(cpu, 3), "wall": round(wall, 2), "peak_mb": round(usage.ru_maxrss * 1024 / 1e6)}


def majority(*words: object) -> list[object]:
    """The command line of a `majority` command with this Python."""
    return [sys.executable, "-m", "majority", *words]


# ---------------------------------------------------------------------- bags of sets whose instances are known

LEAST, RARE, TILE = 4, 10, 250  # instances of a bag, bags that a class wins, pixels


def bags_of(name: str, folder: Path, features: Callable[[np.ndarray], np.ndarray] | None = None) -> CustomBags:
    """FOLDER/NAME.csv (crops, brain) or .npz (abstracts; traps: cards; nuclei: tiles); images by their features.

    The label of a bag is its most common class. Bags without one, and those of classes that win few, are left out.
    """
    columns: dict[str, Any]
    if (folder / f"{name}.csv").exists():
        frame = pd.read_csv(folder / f"{name}.csv", dtype={"bag": str, "group": str, "label": str})
        columns = {of: frame[of].to_numpy() for of in ("bag", "group", "label")}
        others = {"bag", "bag_label", "group", "label", "x", "y"}
        instances = frame[[column for column in frame if column not in others]].to_numpy(np.float32)
    else:
        with np.load(folder / f"{name}.npz", allow_pickle=True) as file:
            columns = dict(file)
        instances = features(columns["images"]) if features else columns["features"].astype(np.float32)
        if "position" in columns:  # of a sentence in its abstract
            instances = np.column_stack([instances, columns["position"]])
    labels, bags = columns["label"].astype(str), columns.get("bag")
    if bags is None:
        places = zip(columns["image"], columns["xy"] // TILE, strict=True)
        bags = np.array([f"{image} {x} {y}" for image, (x, y) in places])
    groups = columns.get("group", columns.get("image", bags))
    counts = pd.crosstab(bags, labels)
    ordered = np.sort(counts, axis=1)
    winners = counts.idxmax(axis=1)[(counts.sum(axis=1) >= LEAST) & (ordered[:, -1] > ordered[:, -2])]
    winners = winners[winners.map(winners.value_counts()) >= RARE]
    rows = np.isin(bags, winners.index)
    of_rows = {"instance_labels": labels[rows], "groups": groups[rows]}
    made = Bags.from_table(instances[rows], bags[rows], winners[bags[rows]].to_numpy(), **of_rows)
    return CustomBags(name, made)


def tables_of(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Instances and the names of their classes of each table in FOLDER/tables.npz."""
    with np.load(folder / "tables.npz", allow_pickle=True) as file:
        names = sorted(key.removesuffix("_x") for key in file if key.endswith("_x"))
        return {name: (file[f"{name}_x"].astype(np.float32), file[f"{name}_y"].astype(str)) for name in names}


# ---------------------------------------------------------------------- raw files of earlier commits

RENAMED = {  # figures; before, `bag_accuracy` was that of the method's own prediction
    "bag_accuracy": "method_bag_accuracy",
    "bag_accuracy_by_count": "bag_accuracy",
}


def read_raw(file: Path) -> list[dict]:
    """The lines of a file, with the names that figures and settings have today."""
    lines = read_lines(file)
    for line in lines:
        for part in ("test", "val"):
            if "bag_accuracy_by_count" in (line.get(part) or {}):
                line[part] = {RENAMED.get(name, name): value for name, value in line[part].items()}
        training = (line.get("plan") or {}).get("training", {})
        if "whole_steps" in training:
            training["drop_last"] = training.pop("whole_steps")
    return lines
