"""The progress of a training on standard error: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from .callbacks import Callback

SECONDS_APART = 60  # between the lines of a log, at least


class Progress(Callback):
    """Of one training, or of all `epochs` of several; `before` is how many the finished ones of them had."""

    def __init__(self, epochs: int | None = None) -> None:
        self.epochs, self.before, self.trained = epochs, 0, 0
        self.started = self.printed_at = time.monotonic()
        self.bar: Any = None

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        self.title, self.total = title or "", self.epochs or total
        if self.trained == 0:
            self.started = time.monotonic()
        self._show(self.before + done, "")

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        self.trained += 1
        self._show(self.before + record["epoch"] + 1, format_losses(record))

    def _show(self, done: int, losses: str) -> None:
        now = time.monotonic()
        if sys.stderr.isatty():
            self.bar = self.bar or _bar(self.total)  # not before a training has told its epochs
            shown = {"description": self.title, "completed": done, "total": self.total, "losses": losses}
            self.bar.update(self.bar.task_ids[0], **shown)
        elif losses and now - self.printed_at >= SECONDS_APART:
            self.printed_at = now
            left = timedelta(seconds=round((now - self.started) / self.trained * (self.total - done)))
            progress = f"{done} of {self.total} epochs · about {left} left"
            print(f"{self.title}: {progress} · {losses}", file=sys.stderr, flush=True)


def _bar(total: int) -> Any:
    """A bar with the losses of the last epoch. It disappears when it is stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    cut = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # in a narrow terminal; the other columns never are
    columns = (
        TextColumn("{task.description}", markup=False, table_column=cut),
        BarColumn(10),
        TextColumn("epoch {task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}", table_column=cut.copy()),
    )
    # What callbacks print is moved above the bar, unless it goes to a file.
    to_terminal = sys.stdout.isatty()
    bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True, redirect_stdout=to_terminal)
    bar.add_task("", total=total, losses="")
    bar.start()
    return bar


@contextmanager
def show_stages(title: str | None, epochs: int | None) -> Iterator[Progress | None]:
    """Yield the callback that shows so many epochs of several trainings; without a title there is none."""
    if title is None:
        yield None
        return
    progress = Progress(epochs)
    try:
        yield progress
    finally:
        if progress.bar is not None:
            progress.bar.stop()


@contextmanager
def show_progress(title: str | None, callbacks: Sequence[Callback]) -> Iterator[list[Callback]]:
    """Yield the callbacks and, first, the one that shows the epochs of a training, unless one of them does."""
    shown = any(isinstance(callback, Progress) for callback in callbacks)
    with show_stages(None if shown else title, None) as progress:
        yield [*([progress] if progress else []), *callbacks]


def format_losses(record: dict[str, Any]) -> str:
    losses = f"loss {record['train_loss']:.3f}"
    if "val_loss" in record:
        losses += f" · validation {record['val_loss']:.3f} · bags right {record['val_bag_accuracy']:.0%}"
    return losses
