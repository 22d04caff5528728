"""What the benchmarks share: trainings whose results are lines of a file, and processes that are measured."""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from majority.files import append_line, read_lines
from majority.run.config import RunConfig
from majority.run.study import Cell, FinishedCell, run_cells
from majority.run.study.live import show_cells
from majority.run.study.results import read_results

SCENARIOS = ("small", "various", "large")


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
    """The result of a run, with its learning curve."""
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


def mean_and_sd(values: Iterable[float]) -> tuple[float, float | None]:
    values = list(values)
    return fmean(values), stdev(values) if len(values) > 1 else None


def write_csv(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


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


# ---------------------------------------------------------------------- raw files of earlier commits

BAG_FIGURES = {"bag_accuracy": "method_bag_accuracy", "bag_accuracy_by_count": "bag_accuracy"}
RENAMED = {"whole_steps": "drop_last"}  # settings of training


def with_current_names(line: dict) -> dict:
    """A line of a study with the names of today. Before, `bag_accuracy` was that of the method's own prediction.

    >>> with_current_names({"test": {"bag_accuracy": 0.9, "bag_accuracy_by_count": 0.8}, "plan": {"ratios": [0.5]}})
    {'test': {'method_bag_accuracy': 0.9, 'bag_accuracy': 0.8}, 'plan': {'training': {}, 'mpem': {'ratios': [0.5]}}}
    """
    line = dict(line)
    for part in ("test", "val"):
        figures = line.get(part)
        if isinstance(figures, dict) and "bag_accuracy_by_count" in figures:
            line[part] = {BAG_FIGURES.get(name, name): value for name, value in figures.items()}
    if isinstance(line.get("plan"), dict):
        plan = dict(line["plan"])
        ratios, census = plan.pop("ratios", None), plan.pop("census", None)
        plan["training"] = {RENAMED.get(name, name): value for name, value in plan.get("training", {}).items()}
        line["plan"] = plan | ({"mpem": {"ratios": ratios}} if ratios else {}) | ({"census": census} if census else {})
    return line


def read_raw(file: Path) -> list[dict]:
    """The lines of a file, with the names that figures and settings have today."""
    return [with_current_names(line) for line in read_lines(file)]
