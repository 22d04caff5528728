"""The training of one cell in a process that trains many, on this machine or on a node of a cluster."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError, TrainingError
from ...fields import lists_as_tuples
from ...files import retry_while_busy
from ...io import Source
from ...registry import load_plugins
from ..data import Data
from ..experiment import Experiment
from ..trackers import create_trackers


@dataclass(frozen=True)
class FinishedCell:
    """A cell that has ended: its result, or the reason of its failure in one line."""

    folder: Path
    result: dict[str, Any] | None = None
    failure: str | None = None
    details: str = ""  # of a failure: the traceback


@dataclass
class State:
    """The progress of a list of cells."""

    cells: dict[Path, Experiment]
    out: Path
    finished: dict[Path, FinishedCell] = field(default_factory=dict)
    running: dict[Path, float] = field(default_factory=dict)  # folder -> when it started
    seconds: list[float] = field(default_factory=list)  # duration of each cell that this command trained
    workers: int = 0
    started: float = field(default_factory=time.monotonic)


def cell_order(folder: Path, experiment: Experiment, device: str, trackers: Sequence[str]) -> dict[str, Any]:
    """A cell as JSON."""
    chosen = {"folder": str(folder), "device": device, "trackers": list(trackers)}
    return chosen | {"experiment": asdict(experiment)}


def read_order(order: dict[str, Any]) -> Experiment:
    fields = dict(order["experiment"])
    return Experiment(Data(**_from_json(fields.pop("data"))), **_from_json(fields))


class CellTrainer:
    """Trains cells one after another; the source of the last one stays open for the next."""

    def __init__(self) -> None:
        self.opened: object = None
        self.source: Source | None = None

    def train(self, experiment: Experiment, order: dict[str, Any]) -> None:
        data = experiment.data
        if self.opened != (wanted := (data.source, data.image_size, data.features)):
            self.opened, self.source = None, None  # free the memory of one source before the next is read
            self.opened, self.source = wanted, data.open()
        callbacks = create_trackers(order["trackers"])
        experiment.run(order["folder"], order["device"], source=self.source, callbacks=callbacks)


def train_on_node(order: dict[str, Any]) -> tuple[str | None, str]:
    """On a node of a cluster: the reason if the cell failed, and the traceback of an unexpected error."""
    load_plugins()
    try:
        experiment = read_order(order)
        # The node of an earlier attempt may be unreachable, but its process still alive for a while.
        retry_while_busy(lambda: _TRAINER.train(experiment, order))
        return None, ""
    except (InputError, TrainingError) as error:
        return str(error), ""
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc()


_TRAINER = CellTrainer()


def _from_json(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: lists_as_tuples(value) for name, value in fields.items()}
