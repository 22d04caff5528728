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
        TextColumn("loss {task.fields[loss]} · validation {task.fields[val_loss]} · bags right {task.fields[right]}"),
        TimeRemainingColumn(),
    )
    hidden = title is None or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as progress:
        task = progress.add_task(title or "", total=total, completed=done, loss="-", val_loss="-", right="-")

        def show(record: dict) -> None:
            progress.update(
                task,
                completed=record["epoch"] + 1,
                loss=f"{record['train_loss']:.3f}",
                val_loss=f"{record['val_loss']:.3f}",
                right=f"{record['val_bag_accuracy']:.0%}",
            )

        yield show
