"""RunRecord: the content of config.json."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, PlainSerializer, ValidationError

from ..data.column_encoder import ColumnEncoder
from ..errors import InputError
from ..files import flatten, read_json
from ..io.embedding import Embedding
from ..io.image_summary import ImageFileSummary
from .config import OPTIONS, Count, Name, RunConfig
from .config_errors import damaged
from .result_file import Task as ReadTask

SCHEMA: Literal[6] = 6
CONFIG = "config.json"
SHOWN = 3  # differences between two runs, in a message
MAY_DIFFER = (  # when a run continues: what depends on the machine or is in the plan
    "source_path",
    "environment.",
    "images",
    "embedding",
    "task.",
    "planned_epochs",
    "run.settings.",
    "run.short.",
    "run.recipe",
    "run.method",
    "run.refit",
)


class Recorded(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Further(BaseModel):
    """What has more fields than those that are read here."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class PlannedTraining(Further):
    seed: int
    epochs: Count


class PlanRecord(Further):
    recipe: Name
    training: PlannedTraining


class Environment(Further):
    majority: str
    torch: str
    device: str


class Task(ReadTask):
    """The fields of `TaskInfo`, which is not imported here: to predict, no recipe is needed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


AS_DICT = PlainSerializer(lambda value: None if value is None else value._asdict())  # of a NamedTuple


class RunRecord(Recorded):
    schema_version: Literal[6] = SCHEMA
    run: RunConfig
    method: Name  # what `auto` stands for
    refit: bool  # whether the run trains once more, on all bags
    fingerprint: list[str | None]  # hashes of the bags of each part
    plan: PlanRecord
    task: Task
    planned_epochs: Annotated[int, Ge(1)]
    source_path: str | None
    encoder: ColumnEncoder | None  # how the columns of a table became features
    images: Annotated[ImageFileSummary | None, AS_DICT]
    embedding: Annotated[Embedding | None, AS_DICT]
    environment: Environment

    def as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.model_dump_json())
        return content


def read_record(folder: Path) -> RunRecord:
    """The config.json of a run of this version."""
    path, cure = folder / CONFIG, f"replace it with a complete copy, or move {folder} away and train again"
    content = read_json(path, cure)
    if content.get("schema_version") != SCHEMA:
        found = f"{folder} has schema {reprlib.repr(content.get('schema_version'))}, this version reads schema {SCHEMA}"
        raise InputError(f"{found}: train again, in another folder")
    try:
        return RunRecord.model_validate_json(json.dumps(content))
    except ValidationError as error:
        damaged(path, error, {name: option.field for name, option in OPTIONS.items()}, cure)


def check_same_run(folder: Path, before: RunRecord, requested: RunRecord) -> None:
    """A difference between the run in the folder and the requested one is an error that names it.

    A run may continue on another machine: everything that depends on the machine or on --set is in its plan.
    """
    old, new = (flatten(record.as_json()) for record in (before, requested))
    same_file = before.source_path == requested.source_path is not None  # however the path was written
    may_differ = MAY_DIFFER + (("run.bags.source",) if same_file else ())
    names = sorted(name for name in old.keys() | new.keys() if not name.startswith(may_differ))
    changed = [name for name in names if old.get(name) != new.get(name)]
    if changed == ["fingerprint"]:
        raise InputError(
            f"the data have changed since {folder} was started: put the old files back or choose another --out"
        )
    if changed:
        shown = _shown_differences(changed, old, new)
        raise InputError(f"{folder} holds another run ({shown}): choose another --out, or repeat its settings")


def _shown_differences(changed: Iterable[str], old: dict[str, Any], new: dict[str, Any]) -> str:
    names = [name for name in changed if name != "fingerprint"]
    names.sort(key=lambda name: name.startswith("plan.") and name != "plan.recipe")  # what the user chose first
    shown = "; ".join(f"{_option(name)} is {old.get(name)}, not {new.get(name)}" for name in names[:SHOWN])
    return shown + (f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _option(name: str) -> str:
    """The name of the option, without the part that it is in."""
    return name.removeprefix("run.").removeprefix("bags.").removeprefix("labels.")
