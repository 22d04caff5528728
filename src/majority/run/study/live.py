"""The progress of a study: a line per finished cell and, on a terminal, a bar per running cell and one of all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...files import read_json
from ...log import Log
from ...recipes.running import STAGES
from ...training.checkpoint import METRICS
from ...training.progress import SECONDS_APART
from ..record import CONFIG
from .cells import FinishedCell
from .workers import State, Watch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

CONTINUES = "Ctrl-C stops; repeat the same command to continue"


@contextmanager
def show_cells(log: Log) -> Iterator[Watch]:
    """Yield the function that shows the progress of cells; see `workers.run_cells`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True, markup=False, emoji=False)
    name = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
    columns = (name, BarColumn(12), TextColumn("{task.fields[epoch]}"), TimeElapsedColumn(), TimeRemainingColumn())
    look = {"console": console, "transient": True, "expand": True, "disable": not console.is_terminal}
    bars = Progress(*columns, **look, speed_estimate_period=10**6)  # type: ignore[arg-type]
    tasks: dict[Path | None, TaskID] = {}
    begun, said = False, time.monotonic()

    def watch(state: State, cell: FinishedCell | None) -> None:
        nonlocal begun, said
        if not begun and state.finished:
            log(f"{len(state.finished)} of {len(state.cells)} cells were already finished")
        begun = True
        if cell is not None:
            log(finished_line(state, cell))
            return
        epochs = {folder: _epochs(folder) for folder in [*state.running]}
        _update(bars, tasks, state, epochs)
        if bars.disable and epochs and time.monotonic() - said >= SECONDS_APART:
            said = time.monotonic()
            log("running: " + ", ".join(f"{_name(state, folder)} {_text(*epochs[folder])}" for folder in epochs))

    with bars:
        yield watch


def _update(
    bars: Progress, tasks: dict[Path | None, TaskID], state: State, epochs: Mapping[Path, tuple[int, int]]
) -> None:
    """A bar for all cells (None), and one for each that is running."""
    if None not in tasks:
        tasks[None] = bars.add_task("", epoch="", total=len(state.cells), completed=len(state.finished))
    for folder in tasks.keys() - epochs.keys() - {None}:
        bars.remove_task(tasks.pop(folder))
    for folder, (done, planned) in epochs.items():
        if folder not in tasks:
            tasks[folder] = bars.add_task(_name(state, folder), epoch="")
        bars.update(tasks[folder], completed=done, total=planned, epoch=_text(done, planned))
    failed = sum(cell.result is None for cell in state.finished.values())
    about = f"{len(state.finished) - failed} of {len(state.cells)} cells done" + f", {failed} failed" * bool(failed)
    done_of_all = len(state.finished) + sum(done / planned for done, planned in epochs.values())
    bars.update(tasks[None], completed=done_of_all, description=f"{about}; {CONTINUES}")


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


def _text(done: int, planned: int) -> str:
    return f"epoch {done} of {planned}" if done else "starting"
