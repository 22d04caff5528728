"""The progress of a study: a line per finished cell and, on a terminal, a bar with the running cells."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...files import read_json
from ...log import Log
from ...recipes.running import STAGES
from ...training.checkpoint import METRICS
from ...training.progress import SECONDS_APART
from ..record import CONFIG
from .workers import FinishedCell, State, Watch

CONTINUES = "Ctrl-C stops; repeat the same command to continue"


@contextmanager
def show_cells(log: Log) -> Iterator[Watch]:
    """Yield the function that shows the progress of cells; see `workers.run_cells`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True, markup=False, emoji=False)
    text, hidden = TextColumn("{task.description}", markup=False), not console.is_terminal
    columns = BarColumn(12), TimeElapsedColumn(), TimeRemainingColumn(), text
    bars = Progress(*columns, console=console, transient=True, disable=hidden, speed_estimate_period=10**6)
    bar, begun, said = bars.add_task("", total=None), False, time.monotonic()

    def watch(state: State, cell: FinishedCell | None) -> None:
        nonlocal begun, said
        if not begun and state.finished:
            log(f"{len(state.finished)} of {len(state.cells)} cells were already finished")
        begun = True
        if cell is not None:
            log(finished_line(state, cell))
            return
        epochs = {os.path.relpath(folder, state.out): _epochs(folder) for folder in [*state.running]}
        shown = [f"{name} " + (f"epoch {done} of {of}" if done else "starting") for name, (done, of) in epochs.items()]
        failed = sum(cell.result is None for cell in state.finished.values())
        about = f"{len(state.finished) - failed} of {len(state.cells)} cells done" + f", {failed} failed" * bool(failed)
        done = len(state.finished) + sum(done / of for done, of in epochs.values())
        words = "\n".join([about, *shown, CONTINUES])
        bars.update(bar, completed=done, total=len(state.cells), description=words)
        if bars.disable and shown and time.monotonic() - said >= SECONDS_APART:
            said = time.monotonic()
            log(f"running: {', '.join(shown)}")

    with bars:
        yield watch


def finished_line(state: State, cell: FinishedCell) -> str:
    place = f"[{len(state.finished)}/{len(state.cells)}] {cell.folder}: "
    if cell.result is None:
        return f"{place}failed: {cell.failure}"
    accuracy = cell.result["test"].get("instance_accuracy")
    shown = "" if accuracy is None else f"instance accuracy {accuracy:.3f}, "
    return f"{place}{shown}{cell.result['epochs']} epochs, {cell.result['seconds']:.1f} s"


def _epochs(folder: Path) -> tuple[int, int]:
    """Epochs trained and planned, from the files of a run; 0 of 1 before it has started."""
    if not (folder / CONFIG).exists():
        return 0, 1
    planned = int(read_json(folder / CONFIG)["planned_epochs"])
    files = [*folder.glob(f"{STAGES}/*/{METRICS}")] or [*folder.glob(METRICS)]
    return sum(metrics.read_bytes().count(b"\n") for metrics in files), planned
