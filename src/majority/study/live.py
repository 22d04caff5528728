"""How a study goes: on a terminal a table that changes, elsewhere a line for each cell that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import mean

from ..experiments.run_folder import CONFIG
from ..files import read_json
from ..recipes.stages import STAGES
from ..training.progress import SECONDS_APART
from ..training.run_files import METRICS
from .workers import Done, State, Watch

CONTINUES = "Ctrl-C stops, the same command continues"
FRAME_LINES = 10  # of a terminal that are not rows: borders, head, footer, what was typed


@contextmanager
def show_cells(log: Callable[[str], None]) -> Iterator[Watch]:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield _after_what_was_finished(log, _lines(log))
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(state: State, done: Done | None) -> None:
            if done is None:  # a look follows at once
                live.update(table(state, console.height - FRAME_LINES), refresh=True)

        yield _after_what_was_finished(log, show)


def _after_what_was_finished(log: Callable[[str], None], show: Watch) -> Watch:
    """The same watch, but the first look tells first what is not trained again."""
    looked = False

    def watch(state: State, done: Done | None) -> None:
        nonlocal looked
        if not looked and state.done:
            log(f"{len(state.done)} of {len(state.cells)} cells were finished before")
        looked = True
        show(state, done)

    return watch


def _lines(log: Callable[[str], None]) -> Watch:
    """A line for each cell that ends, and while none does one now and then."""
    said = None

    def show(state: State, done: Done | None) -> None:
        nonlocal said
        now = time.monotonic()
        if done:
            log(line(state, done))
        elif said is not None and now - said >= SECONDS_APART:
            cells = (f"{os.path.relpath(folder, state.out)}: {_epochs_shown(folder)}" for folder in state.running)
            log(f"running: {', '.join(cells)}; {_footer(state)}")
        elif said is not None:
            return
        said = now

    return show


def line(state: State, done: Done) -> str:
    place = f"[{len(state.done)}/{len(state.cells)}] {done.folder}: "
    if done.result is None:
        return f"{place}failed: {done.failure}"
    accuracy = done.result["test"].get("instance_accuracy")
    shown = "" if accuracy is None else f"instance accuracy {accuracy:.3f}, "
    return f"{place}{shown}{done.result['epochs']} epochs, {done.result['seconds']:.1f} s"


def table(state: State, most_rows: int):
    """A row for the cells that differ in the last part of their folder alone, the fold; of too many, those that run."""
    from rich.table import Table

    rows: dict[str, list[Path]] = {}
    for folder in state.cells:
        rows.setdefault(os.path.relpath(folder.parent, state.out), []).append(folder)
    title = None
    if len(rows) > most_rows:
        title = f"of {len(rows)} rows, those that run now"
        rows = {name: folders for name, folders in rows.items() if state.running.keys() & set(folders)}
    grid = Table(title=title, caption=f"{_footer(state)}; {CONTINUES}", title_justify="left", caption_justify="left")
    for column in ("cells", "done", "running", "failed", "waiting", "instance accuracy"):
        grid.add_column(column)
    for name, folders in rows.items():
        ended = [state.done[folder] for folder in folders if folder in state.done]
        running = [folder for folder in folders if folder in state.running]
        failed = sum(done.result is None for done in ended)
        grid.add_row(
            name,
            f"{len(ended) - failed} of {len(folders)}",
            ", ".join(f"{folder.name}: {_epochs_shown(folder)}" for folder in running),
            str(failed or ""),
            str(len(folders) - len(ended) - len(running) or ""),
            _accuracy(ended),
        )
    return grid


def seconds_left(state: State, now: float) -> float | None:
    """From how long cells took, and how far the running ones are; None while nothing is known."""
    passed = {folder: now - began for folder, began in state.running.items()}
    parts = {folder: _part_trained(folder) for folder in state.running}
    expected = {folder: passed[folder] / part for folder, part in parts.items() if part}
    known = [*state.seconds, *expected.values()]
    if not known:
        return None
    typical = mean(known)
    under_way = [max(expected.get(folder, typical) - passed[folder], 0) for folder in state.running]
    waiting = len(state.cells) - len(state.done) - len(state.running)
    return max((waiting * typical + sum(under_way)) / state.workers, *under_way, 0)


def _footer(state: State) -> str:
    now = time.monotonic()
    left = seconds_left(state, now)
    failed = sum(done.result is None for done in state.done.values())
    pieces = [
        f"{len(state.done) - failed} of {len(state.cells)} cells done",
        f"{failed} failed" if failed else "",
        f"{_clock(now - state.began)} passed",
        f"about {_clock(left)} left" if left is not None else "",
    ]
    return ", ".join(filter(None, pieces))


def _accuracy(ended: list[Done]) -> str:
    results = [done.result["test"].get("instance_accuracy") for done in ended if done.result]
    known = [accuracy for accuracy in results if accuracy is not None]
    return f"{mean(known):.3f}" if known else ""


def _epochs(folder: Path) -> tuple[int, int] | None:
    """Epochs trained and planned, from the files of a run; None before it has started."""
    try:
        planned = read_json(folder / CONFIG)["planned_epochs"]
    except FileNotFoundError:
        return None
    files = [*folder.glob(f"{STAGES}/*/{METRICS}")] or [*folder.glob(METRICS)]
    return sum(metrics.read_bytes().count(b"\n") for metrics in files), planned


def _epochs_shown(folder: Path) -> str:
    epochs = _epochs(folder)
    return f"epoch {epochs[0]} of {epochs[1]}" if epochs else "begins"


def _part_trained(folder: Path) -> float:
    epochs = _epochs(folder)
    return epochs[0] / epochs[1] if epochs else 0.0


def _clock(seconds: float) -> str:
    """
    >>> _clock(3725.4)
    '1:02:05'
    """
    return str(timedelta(seconds=int(seconds)))
