"""Callbacks that send a training to an experiment tracker: TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..training.callbacks import Callback, Fitted


class TensorBoardLog(Callback):
    """Writes every epoch for TensorBoard: `tensorboard --logdir RUN`. Each stage of a recipe is a run of its own there.

    Without a `folder`, files are written to RUN/tensorboard. `fit` has no run folder: name one.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        if find_spec("tensorboard") is None:
            raise InputError("--log tensorboard needs the package: pip install 'majority[tensorboard]'")
        self.given = self.folder = None if folder is None else Path(folder)
        self.stage, self.done = "", 0
        self.writer: Any = None

    def on_run_start(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = self.given or folder / "tensorboard"

    def on_stage_start(self, stage: str) -> None:
        self.stage = stage

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        if self.folder is None:
            raise InputError("TensorBoardLog has no folder: name one, as in TensorBoardLog('logs')")
        self.done = done

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        if self.writer is None:  # not before the first epoch is finished: until then a run may start again
            self.writer = self._open(self.done or None)  # epochs that are trained again replace those before
        self._add(record, "", record["epoch"])

    def on_fit_end(self, fitted: Fitted) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    def on_stage_end(self, stage: str, fitted: Fitted) -> None:
        self.stage = ""

    def on_run_end(self, result: dict[str, Any]) -> None:
        self.writer = self._open(None)
        for part in ("test", "val"):
            self._add(result.get(part) or {}, f"{part}/", 0)
        self.writer.close()
        self.writer = None

    def _open(self, purge_step: int | None) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        assert self.folder is not None
        return SummaryWriter(str(self.folder / self.stage), purge_step=purge_step)

    def _add(self, record: dict[str, Any], prefix: str, epoch: int) -> None:
        for name, value in record.items():
            if type(value) in (int, float) and name != "epoch":
                self.writer.add_scalar(f"{prefix}{name}", value, epoch)


def create_trackers(names: Sequence[str]) -> list[Callback]:
    """The callbacks of these trackers; there is one."""
    return [TensorBoardLog()] if names else []
