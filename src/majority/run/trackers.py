"""Callbacks that send a training to an experiment tracker: TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..training.callbacks import Callback, Fitted


class TensorBoardLog(Callback):
    """Writes every epoch for TensorBoard: `tensorboard --logdir RUN`. Each stage of a recipe is a run of its own there.

    Without a `folder`, files are written to RUN/tensorboard. `fit` has no run folder: name one.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        _require("tensorboard", "tensorboard")
        self.given = None if folder is None else Path(folder)
        self.folder = self.given
        self.stage, self.done = "", 0
        self.writer: Any = None

    def on_run_start(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = self.given or folder / "tensorboard"

    def on_stage_start(self, stage: str) -> None:
        self.stage = stage

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        if self.folder is None:
            raise InputError("TensorBoardLog has no folder: name one, as in TensorBoardLog('logs')")
        self.done, self.writer = done, None

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        if self.writer is None:  # not before the first epoch is finished: until then a run may start again
            self.writer = self._open(self.stage, self.done)
        for name, value in _numbers(record):
            self.writer.add_scalar(name, value, record["epoch"])

    def on_fit_end(self, fitted: Fitted) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def on_stage_end(self, stage: str, fitted: Fitted) -> None:
        self.stage = ""

    def on_run_end(self, result: dict[str, Any]) -> None:
        writer = self._open("", None)
        for part in ("test", "val"):
            for name, value in _numbers(result.get(part) or {}):
                writer.add_scalar(f"{part}/{name}", value, 0)
        writer.close()

    def _open(self, stage: str, done: int | None) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        assert self.folder is not None
        return SummaryWriter(str(self.folder / stage), purge_step=done or None)  # epochs that are trained again


TRACKERS = {"tensorboard": TensorBoardLog}


def create_trackers(names: Sequence[str]) -> list[Callback]:
    """The callbacks of these trackers, each once."""
    return [TRACKERS[name]() for name in dict.fromkeys(names)]


def _numbers(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The entries of a record that are numbers, without the number of the epoch."""
    for name, value in record.items():
        if isinstance(value, Real) and not isinstance(value, bool) and name != "epoch":
            yield name, float(value)


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise InputError(f"--log {extra} needs the package {module}: pip install 'majority[{extra}]'")
