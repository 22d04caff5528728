"""The progress of a training on standard error: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .callbacks import Callback
from .state import Fitted

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS_APART = 60  # between the lines of a log, at least


@contextmanager
def show_progress(title: str | None) -> Iterator[Callback]:
    """Yield the callback that shows the epochs of a training; without a title it shows nothing."""
    if title is None:
        yield Callback()
    elif sys.stderr.isatty():
        bar = ProgressBar()
        try:
            yield bar
        finally:
            bar.stop()
    else:
        yield ProgressLines()


class ProgressBar(Callback):
    """A bar with the losses of the last epoch. It disappears when it is stopped."""

    def __init__(self) -> None:
        self.progress: Progress | None = None

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        description, losses = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[losses]}")
        columns = (description, BarColumn(), MofNCompleteColumn(), losses, TimeRemainingColumn())
        # What callbacks print is moved above the bar, unless it goes to a file.
        to_terminal = sys.stdout.isatty()
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=to_terminal)
        self.task = self.progress.add_task(title or "", total=total, completed=done, losses="")
        self.progress.start()

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        if self.progress is not None:
            self.progress.update(self.task, completed=record["epoch"] + 1, losses=_format_losses(record))

    def on_fit_end(self, fitted: Fitted) -> None:
        self.stop()

    def stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


class ProgressLines(Callback):
    """One line about the last epoch, at most every SECONDS_APART seconds."""

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        self.title, self.done, self.total = title, done, total
        self.started = self.printed_at = time.monotonic()

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self.printed_at >= SECONDS_APART:
            self.printed_at, trained = now, record["epoch"] + 1
            left = (now - self.started) / (trained - self.done) * (self.total - trained)
            progress = f"{trained} of {self.total} epochs · about {timedelta(seconds=round(left))} left"
            print(f"{self.title}: {progress} · {_format_losses(record)}", file=sys.stderr, flush=True)


def _format_losses(record: dict[str, Any]) -> str:
    losses = f"loss {record['train_loss']:.3f}"
    if "val_loss" in record:
        losses += f" · validation {record['val_loss']:.3f} · bags right {record['val_bag_accuracy']:.0%}"
    return losses
