"""The training of one cell in a process that trains many, on this machine or on a node of a cluster."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import InputError, TrainingError
from ...files import retry_while_busy
from ...io import Source
from ...registry import load_plugins
from ..config import Reading, RunConfig
from ..data import open_source
from ..experiment import How, run_experiment
from ..folder import read_result
from ..trackers import create_trackers

OPENED: dict[str, Source] = {}  # the source of the last cell of this process, for the next


@dataclass(frozen=True)
class Cell:
    config: RunConfig
    varied: dict[str, Any] = field(default_factory=dict)  # the options by which a study tells its cells apart


@dataclass(frozen=True)
class FinishedCell:
    """A cell that has ended: its result, or the reason of its failure in one line."""

    folder: Path
    result: dict[str, Any] | None = None
    failure: str | None = None
    details: str = ""  # of a failure: the traceback


def train(cell: Cell, folder: Path, device: str, trackers: Sequence[str]) -> None:
    bags = cell.config.bags
    name = bags.model_dump_json(include=Reading.model_fields.keys() | {"source"})
    if name not in OPENED:
        OPENED.clear()  # free the memory of one source before the next is read
        OPENED[name] = open_source(bags)
    run_experiment(cell.config, folder, How(device, callbacks=create_trackers(trackers)), OPENED[name], cell.varied)


def train_cell(
    cell: Cell, folder: Path, device: str, trackers: Sequence[str] = (), keep_trying: bool = False
) -> FinishedCell:
    """In a process that trains many cells. A failure has details if it was unexpected.

    With `keep_trying`, a folder in which another process works is waited for: on a cluster, the node of an earlier
    attempt may be unreachable, but its process still alive for a while.
    """
    attempt = partial(train, cell, folder, device, trackers)
    try:
        load_plugins()
        retry_while_busy(attempt) if keep_trying else attempt()
        return FinishedCell(folder, read_result(folder))
    except (InputError, TrainingError) as error:
        return FinishedCell(folder, failure=str(error))
    except (Exception, SystemExit) as error:
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
        return FinishedCell(folder, failure=failure, details=traceback.format_exc())
