"""Callbacks that send a training to an experiment tracker: TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown_name
from ..files import flatten
from ..training.callbacks import Callback
from ..training.state import Fitted

MAX_PARAMETER = 500  # letters of a value: MLflow refuses longer ones on some servers
MAX_PARAMETERS = 100  # in one call
FOLDER_TAG = "majority.folder"
MAX_MESSAGE = 200  # letters of a message of MLflow, which may be a page
STORE_CURE = (
    "set MLFLOW_TRACKING_URI to a server, or install mlflow, which has a local database; or, for a folder, set "
    "MLFLOW_ALLOW_FILE_STORE=true and MLFLOW_TRACKING_URI=file:///FOLDER"
)


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


class MLflowLog(Callback):
    """Writes settings, every epoch, the figures and the report page to MLflow, as one MLflow run per run folder.

    Without a `tracking_uri`, MLflow's own setting is used (the variable MLFLOW_TRACKING_URI). A run that was
    interrupted continues its MLflow run.
    """

    def __init__(self, tracking_uri: str | None = None, experiment: str = "majority") -> None:
        _require("mlflow", "mlflow")
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        self.experiment = experiment
        try:
            self.client: Any = MlflowClient(tracking_uri=tracking_uri)
            self.experiment_id = self._find_experiment()
        except MlflowException as error:
            raise InputError(
                f"MLflow cannot use its store ({str(error).strip()[:MAX_MESSAGE]}): {STORE_CURE}"
            ) from None
        self.stage, self.folder = "", Path()
        self.run_id: str | None = None
        self.in_run = False

    def on_run_start(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder, self.in_run = folder.resolve(), True
        self.run_id = self._find_run() or self._create_run(folder.name, {FOLDER_TAG: self._place()})
        from mlflow.entities import Param

        logged = self.client.get_run(self.run_id).data.params  # a run that continues: MLflow refuses another value
        given = {name: value for name, value in flatten(config).items() if value is not None and name not in logged}
        settings = [Param(name, str(value)[:MAX_PARAMETER]) for name, value in given.items()]
        for start in range(0, len(settings), MAX_PARAMETERS):
            self.client.log_batch(self.run_id, params=settings[start : start + MAX_PARAMETERS])

    def on_stage_start(self, stage: str) -> None:
        self.stage = f"{stage}/"

    def on_fit_start(self, title: str | None, done: int, total: int) -> None:
        if not self.in_run:  # a call of `fit`
            self.run_id = self._create_run(title or "training", {})

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        for name, value in _numbers(record):
            self.client.log_metric(self.run_id, f"{self.stage}{name}", value, step=record["epoch"])

    def on_fit_end(self, fitted: Fitted) -> None:
        if not self.in_run:
            self.client.set_terminated(self.run_id)

    def on_stage_end(self, stage: str, fitted: Fitted) -> None:
        self.stage = ""

    def on_run_end(self, result: dict[str, Any]) -> None:
        for part in ("test", "val"):
            for name, value in _numbers(result.get(part) or {}):
                self.client.log_metric(self.run_id, f"{part}/{name}", value)
        self.client.log_artifact(self.run_id, str(self.folder / "report.html"))
        self.client.set_terminated(self.run_id)
        self.in_run = False

    def _find_experiment(self) -> str:
        found = self.client.get_experiment_by_name(self.experiment)
        return str(found.experiment_id if found else self.client.create_experiment(self.experiment))

    def _create_run(self, name: str, tags: dict[str, str]) -> str:
        return str(self.client.create_run(self.experiment_id, run_name=name, tags=tags).info.run_id)

    def _place(self) -> str:
        return str(self.folder).replace("'", "")  # it cannot stand in a filter

    def _find_run(self) -> str | None:
        """The MLflow run of this folder, if it was interrupted."""
        wanted = f"tags.`{FOLDER_TAG}` = '{self._place()}' and attributes.status = 'RUNNING'"
        found = self.client.search_runs([self.experiment_id], filter_string=wanted)
        return str(found[0].info.run_id) if found else None


TRACKERS: dict[str, type[TensorBoardLog] | type[MLflowLog]] = {"tensorboard": TensorBoardLog, "mlflow": MLflowLog}


def create_trackers(names: Sequence[str]) -> list[Callback]:
    """The callbacks of these trackers, each once."""
    for name in names:
        if name not in TRACKERS:
            raise unknown_name("tracker", name, TRACKERS, option="--log")
    return [TRACKERS[name]() for name in dict.fromkeys(names)]


def _numbers(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The entries of a record that are numbers, without the number of the epoch."""
    for name, value in record.items():
        if isinstance(value, Real) and not isinstance(value, bool) and name != "epoch":
            yield name, float(value)


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise InputError(f"--log {extra} needs the package {module}: pip install 'majority[{extra}]'")
