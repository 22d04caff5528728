"""How training goes: a bar for who watches a terminal, a line now and then for who reads a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_APART = 60  # lines of a log, at least


@contextmanager
def show_epochs(title: str | None, done: int, total: int) -> Iterator[Callable[[dict], None]]:
    """Yield a function that takes each epoch's record; without a title nothing is shown."""
    if title is None:
        yield lambda record: None
    elif sys.stderr.isatty():
        with _bar(title, done, total) as show:
            yield show
    else:
        yield _lines(title, total)


@contextmanager
def _bar(title: str, done: int, total: int) -> Iterator[Callable[[dict], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    what, figures = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[figures]}")
    columns = (what, BarColumn(), MofNCompleteColumn(), figures, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total, completed=done, figures="")
        yield lambda record: progress.update(task, completed=record["epoch"] + 1, figures=_figures(record))


def _lines(title: str, total: int) -> Callable[[dict], None]:
    said = time.monotonic()

    def show(record: dict) -> None:
        nonlocal said
        if time.monotonic() - said >= SECONDS_APART:
            said = time.monotonic()
            print(f"{title}: {record['epoch'] + 1} of {total} epochs · {_figures(record)}", file=sys.stderr, flush=True)

    return show


def _figures(record: dict) -> str:
    figures = f"loss {record['train_loss']:.3f}"
    if "val_loss" in record:
        figures += f" · validation {record['val_loss']:.3f} · bags right {record['val_bag_accuracy']:.0%}"
    return figures
