"""Fitted, how a training went, and Callback, the base class for code that follows a training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

Seconds = Annotated[float, Ge(0), Le(1e9)]


@dataclass
class Fitted:
    """How a training went. The model itself was left with the weights of the best epoch."""

    best_epoch: Annotated[int, Ge(-1)] = -1  # counted from 0
    best_loss: float = math.inf
    loss_name: Literal["val_loss", "train_loss"] = "val_loss"  # of best_loss; train_loss: the last epoch was kept
    seconds: Seconds = 0.0  # of all epochs, without the one-time capture on a GPU
    capture_seconds: Seconds = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)  # one record per epoch

    @property
    def epochs(self) -> int:
        return len(self.history)

    @property
    def outcome(self) -> dict[str, Any]:
        """All fields but the history, which has its own file. `fields.from_json` reads them back."""
        return {name: value for name, value in vars(self).items() if name != "history"}


class Callback:
    """Subclass it, override the methods that you need, and pass an instance to ``fit(..., callbacks=[...])`` or
    ``train(..., callbacks=[...])``.

    An exception in a callback ends the training. With a `folder`, repeat the call to continue, as after any
    interruption: the files of an epoch are written before `on_epoch_end` is called.

    >>> from majority import Callback
    >>> class PrintLoss(Callback):
    ...     def on_epoch_end(self, record):
    ...         print(f"epoch {record['epoch'] + 1}: {record['train_loss']:.3f}")
    >>> PrintLoss().on_epoch_end({"epoch": 0, "train_loss": 0.5})
    epoch 1: 0.500
    """

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        """Called before the first epoch. `done` of `total` epochs were trained before, in an interrupted call."""

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        """Called after every epoch with a copy of its record: the line of metrics.jsonl."""

    def on_fit_end(self, fitted: Fitted) -> None:
        """Called after the last epoch. The model has the weights of the best epoch."""

    def on_stage_start(self, stage: str) -> None:
        """Called before a stage of a recipe is trained. `fit` itself has no stages. If a run trains once more, with
        corrected labels or on all bags, these stages are called `robust/NAME` or `refit/NAME`, without `/NAME` if the
        recipe has none."""

    def on_stage_end(self, stage: str, fitted: Fitted) -> None:
        """Called when a stage of a recipe is finished."""

    def on_run_start(self, folder: Path, config: dict[str, Any]) -> None:
        """Called when `train` starts or continues a run in its folder. `config` is the content of config.json."""

    def on_run_end(self, result: dict[str, Any]) -> None:
        """Called when a run is evaluated and its report is written. `result` is the content of result.json."""
