"""A line that shows how training goes; silent when nobody watches a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def epochs_shown(title: str | None, done: int, total: int) -> Iterator[Callable[[dict], None]]:
    """Yield a function that takes each epoch's record; without a title nothing is shown."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    hidden = title is None or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as progress:
        task = progress.add_task(title or "", total=total, completed=done, figures="")

        def show(record: dict) -> None:
            figures = f"loss {record['train_loss']:.3f}"
            if "val_loss" in record:
                figures += f" · validation {record['val_loss']:.3f} · bags right {record['val_bag_accuracy']:.0%}"
            progress.update(task, completed=record["epoch"] + 1, figures=figures)

        yield show
