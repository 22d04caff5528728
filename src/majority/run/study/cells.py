"""The training of one cell in a process that trains many, on this machine or on a node of a cluster."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ...errors import InputError, TrainingError
from ...files import retry_while_busy
from ...io import Source
from ...registry import load_plugins
from ..config import Reading, RunConfig
from ..data import open_source
from ..experiment import How, run_experiment
from ..trackers import create_trackers


class Cell(NamedTuple):
    config: RunConfig
    varied: Mapping[str, Any] = MappingProxyType({})  # the options by which a study tells its cells apart


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

    cells: dict[Path, Cell]
    out: Path
    finished: dict[Path, FinishedCell] = field(default_factory=dict)
    running: dict[Path, float] = field(default_factory=dict)  # folder -> when it started
    seconds: list[float] = field(default_factory=list)  # duration of each cell that this command trained
    workers: int = 0
    started: float = field(default_factory=time.monotonic)


def cell_order(folder: Path, cell: Cell, device: str, trackers: Sequence[str]) -> dict[str, Any]:
    """A cell as JSON."""
    chosen = {"folder": str(folder), "device": device, "trackers": list(trackers)}
    return chosen | {"config": cell.config.model_dump_json(), "varied": dict(cell.varied)}


class CellTrainer:
    """Trains cells one after another; the source of the last one stays open for the next."""

    def __init__(self) -> None:
        self.opened: object = None
        self.source: Source | None = None

    def train(self, order: dict[str, Any]) -> None:
        config = RunConfig.model_validate_json(order["config"])
        reading = Reading.model_fields.keys() | {"source"}
        if self.opened != (wanted := config.bags.model_dump(include=reading)):
            self.opened, self.source = None, None  # free the memory of one source before the next is read
            self.opened, self.source = wanted, open_source(config.bags)
        how = How(order["device"], callbacks=create_trackers(order["trackers"]))
        run_experiment(config, order["folder"], how, self.source, order["varied"])


def train_on_node(order: dict[str, Any]) -> tuple[str | None, str]:
    """On a node of a cluster: the reason if the cell failed, and the traceback of an unexpected error."""
    load_plugins()
    try:
        # The node of an earlier attempt may be unreachable, but its process still alive for a while.
        retry_while_busy(lambda: _TRAINER.train(order))
        return None, ""
    except (InputError, TrainingError) as error:
        return str(error), ""
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc()


_TRAINER = CellTrainer()
