"""The progress of a study: a line per finished cell and, on a terminal, a bar per running cell and one of all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...files import read_json
from ...log import Log
from ...recipes.running import STAGES
from ...training.progress import SECONDS_APART
from ...training.run_files import METRICS
from ..record import CONFIG
from .cells import FinishedCell
from .workers import State, Watch

CONTINUES = "Ctrl-C stops; repeat the same command to continue"


@contextmanager
def show_cells(log: Log) -> Iterator[Watch]:
    """Yield the function that shows the progress of cells; see `workers.run_cells`."""
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False)
    shown = _Bars(console) if console.is_terminal else _Lines(log)
    begun = False

    def watch(state: State, cell: FinishedCell | None) -> None:
        nonlocal begun
        if not begun and state.finished:
            log(f"{len(state.finished)} of {len(state.cells)} cells were already finished")
        begun = True
        if cell is None:
            shown.show(state)
        else:
            log(finished_line(state, cell))

    try:
        yield watch
    finally:
        shown.stop()


class _Lines:
    """A line about the running cells now and then."""

    def __init__(self, log: Log) -> None:
        self.log, self.last = log, time.monotonic()

    def show(self, state: State) -> None:
        if state.running and time.monotonic() - self.last >= SECONDS_APART:
            self.last = time.monotonic()
            self.log("running: " + ", ".join(f"{_name(state, folder)} {_epoch(folder)}" for folder in state.running))

    def stop(self) -> None:
        pass


class _Bars:
    """The bars disappear when they are stopped."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.table import Column

        name = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
        columns = (name, BarColumn(12), TextColumn("{task.fields[epoch]}"), TimeElapsedColumn(), TimeRemainingColumn())
        look = {"console": console, "transient": True, "expand": True}
        self.bars = Progress(*columns, **look, speed_estimate_period=10**6)  # of all that this command has trained
        self.tasks: dict[Path | None, Any] = {}  # None: all cells

    def show(self, state: State) -> None:
        if not self.tasks:
            self.tasks[None] = self.bars.add_task("", epoch="", total=len(state.cells), completed=len(state.finished))
            self.bars.start()
        for folder in self.tasks.keys() - state.running.keys() - {None}:
            self.bars.remove_task(self.tasks.pop(folder))
        parts = {folder: _epochs(folder) for folder in [*state.running]}
        for folder, (done, planned) in parts.items():
            if folder not in self.tasks:
                self.tasks[folder] = self.bars.add_task(_name(state, folder), total=planned, epoch="")
            self.bars.update(self.tasks[folder], completed=done, total=planned, epoch=_epoch(folder))
        failed = sum(cell.result is None for cell in state.finished.values())
        about = f"{len(state.finished) - failed} of {len(state.cells)} cells done" + f", {failed} failed" * bool(failed)
        done_of_all = len(state.finished) + sum(done / planned for done, planned in parts.values())
        self.bars.update(self.tasks[None], completed=done_of_all, description=f"{about}; {CONTINUES}")

    def stop(self) -> None:
        self.bars.stop()


def finished_line(state: State, cell: FinishedCell) -> str:
    place = f"[{len(state.finished)}/{len(state.cells)}] {cell.folder}: "
    if cell.result is None:
        return f"{place}failed: {cell.failure}"
    accuracy = cell.result["test"].get("instance_accuracy")
    shown = "" if accuracy is None else f"instance accuracy {accuracy:.3f}, "
    return f"{place}{shown}{cell.result['epochs']} epochs, {cell.result['seconds']:.1f} s"


def _name(state: State, folder: Path) -> str:
    return os.path.relpath(folder, state.out)


def _epochs(folder: Path) -> tuple[int, int]:
    """Epochs trained and planned, from the files of a run; 0 of 1 before it has started."""
    if not (folder / CONFIG).exists():
        return 0, 1
    planned = int(read_json(folder / CONFIG)["planned_epochs"])
    files = [*folder.glob(f"{STAGES}/*/{METRICS}")] or [*folder.glob(METRICS)]
    return sum(metrics.read_bytes().count(b"\n") for metrics in files), planned


def _epoch(folder: Path) -> str:
    done, planned = _epochs(folder)
    return f"epoch {done} of {planned}" if done else "starting"
