"""The progress of a study: a live table on a terminal, one line per finished cell elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from ...files import read_json
from ...log import Log
from ...recipes.stages import STAGES
from ...training.progress import SECONDS_APART
from ...training.run_files import METRICS
from ..record import CONFIG
from .cells import FinishedCell, State
from .workers import Watch

if TYPE_CHECKING:
    from rich.table import Table

CONTINUES = "Ctrl-C stops; repeat the same command to continue"
FRAME_LINES = 10  # lines of a terminal that are not rows: borders, head, footer, the command


@contextmanager
def show_cells(log: Log) -> Iterator[Watch]:
    """Yield the function that shows the progress of cells; see `workers.run_cells`."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield _count_finished_first(log, _log_lines(log))
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(state: State, cell: FinishedCell | None) -> None:
            if cell is None:  # after a cell has ended, the next poll follows at once
                live.update(progress_table(state, console.height - FRAME_LINES), refresh=True)

        yield _count_finished_first(log, show)


def _count_finished_first(log: Log, show: Watch) -> Watch:
    """The same function, but its first call also logs how many cells need no training."""
    first = True

    def watch(state: State, cell: FinishedCell | None) -> None:
        nonlocal first
        if first and state.finished:
            log(f"{len(state.finished)} of {len(state.cells)} cells were already finished")
        first = False
        show(state, cell)

    return watch


def _log_lines(log: Log) -> Watch:
    """One line per cell that ends and, while none does, one about the running cells now and then."""
    last: float | None = None  # when something was logged

    def show(state: State, cell: FinishedCell | None) -> None:
        nonlocal last
        now = time.monotonic()
        if cell:
            log(finished_line(state, cell))
        elif last is not None and now - last >= SECONDS_APART:
            cells = (f"{os.path.relpath(folder, state.out)}: {_format_epochs(folder)}" for folder in state.running)
            log(f"running: {', '.join(cells)}; {_footer(state)}")
        elif last is not None:
            return
        last = now

    return show


def finished_line(state: State, cell: FinishedCell) -> str:
    place = f"[{len(state.finished)}/{len(state.cells)}] {cell.folder}: "
    if cell.result is None:
        return f"{place}failed: {cell.failure}"
    accuracy = cell.result["test"].get("instance_accuracy")
    shown = "" if accuracy is None else f"instance accuracy {accuracy:.3f}, "
    return f"{place}{shown}{cell.result['epochs']} epochs, {cell.result['seconds']:.1f} s"


def progress_table(state: State, max_rows: int) -> Table:
    """One row per group of cells that differ only in their fold; if there are too many, only the running ones."""
    from rich.table import Table

    rows: dict[str, list[Path]] = {}
    for folder in state.cells:
        rows.setdefault(os.path.relpath(folder.parent, state.out), []).append(folder)
    title = None
    if len(rows) > max_rows:
        title = f"running now, of {len(rows)} rows"
        rows = {name: folders for name, folders in rows.items() if state.running.keys() & set(folders)}
    grid = Table(title=title, caption=f"{_footer(state)}; {CONTINUES}", title_justify="left", caption_justify="left")
    for column in ("cells", "done", "running", "failed", "waiting", "instance accuracy"):
        grid.add_column(column)
    for name, folders in rows.items():
        ended = [state.finished[folder] for folder in folders if folder in state.finished]
        running = [folder for folder in folders if folder in state.running]
        failed = sum(cell.result is None for cell in ended)
        grid.add_row(
            name,
            f"{len(ended) - failed} of {len(folders)}",
            ", ".join(f"{folder.name}: {_format_epochs(folder)}" for folder in running),
            str(failed or ""),
            str(len(folders) - len(ended) - len(running) or ""),
            _mean_accuracy(ended),
        )
    return grid


def seconds_left(state: State, now: float) -> float | None:
    """An estimate from the duration of finished cells and the progress of running ones; None if nothing is known."""
    elapsed = {folder: now - started for folder, started in state.running.items()}
    progress = {folder: _progress(folder) for folder in state.running}
    expected = {folder: elapsed[folder] / part for folder, part in progress.items() if part}
    known = [*state.seconds, *expected.values()]
    if not known:
        return None
    typical = mean(known)
    of_running = [max(expected.get(folder, typical) - elapsed[folder], 0) for folder in state.running]
    waiting = len(state.cells) - len(state.finished) - len(state.running)
    return max((waiting * typical + sum(of_running)) / state.workers, *of_running, 0)


def _footer(state: State) -> str:
    now = time.monotonic()
    left = seconds_left(state, now)
    failed = sum(cell.result is None for cell in state.finished.values())
    pieces = [
        f"{len(state.finished) - failed} of {len(state.cells)} cells done",
        f"{failed} failed" if failed else "",
        f"{_format_duration(now - state.started)} elapsed",
        f"about {_format_duration(left)} left" if left is not None else "",
    ]
    return ", ".join(filter(None, pieces))


def _mean_accuracy(ended: list[FinishedCell]) -> str:
    accuracies = [cell.result["test"].get("instance_accuracy") for cell in ended if cell.result]
    known = [accuracy for accuracy in accuracies if accuracy is not None]
    return f"{mean(known):.3f}" if known else ""


def _epochs(folder: Path) -> tuple[int, int] | None:
    """Epochs trained and planned, from the files of a run; None before it has started."""
    if not (folder / CONFIG).exists():
        return None
    planned = int(read_json(folder / CONFIG)["planned_epochs"])
    files = [*folder.glob(f"{STAGES}/*/{METRICS}")] or [*folder.glob(METRICS)]
    return sum(metrics.read_bytes().count(b"\n") for metrics in files), planned


def _format_epochs(folder: Path) -> str:
    epochs = _epochs(folder)
    return f"epoch {epochs[0]} of {epochs[1]}" if epochs else "starting"


def _progress(folder: Path) -> float:
    epochs = _epochs(folder)
    return epochs[0] / epochs[1] if epochs else 0.0


def _format_duration(seconds: float) -> str:
    """
    >>> _format_duration(3725.4)
    '1:02:05'
    """
    return str(timedelta(seconds=int(seconds)))
