"""What is written in a run folder, as types: config.json and result.json.

A result has what the recipe adds, and lines of results may be of other versions: fields that are not known are kept.
"""

from __future__ import annotations

import json
import reprlib
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from annotated_types import Ge, Le, Len
from pydantic import BaseModel, ConfigDict, PlainSerializer, ValidationError, model_validator

from ..data.column_encoder import ColumnEncoder
from ..errors import InputError
from ..files import CURE, flatten, read_json
from ..io.embedding import Embedding
from ..io.image_summary import ImageFileSummary
from .config import OPTIONS, Name, RunConfig
from .options import Part, damaged

SCHEMA: Literal[8] = 8
CONFIG, RESULT = "config.json", "result.json"
SHOWN = 3  # differences between two runs, in a message
OF_MACHINE = ("source_path", "environment", "images", "embedding")  # fields that may differ between machines
MAY_DIFFER = (*OF_MACHINE, "task.", "planned_epochs", "run.refit")  # when a run continues; the rest is in the plan

Number = Annotated[int, Ge(0), Le(10**12)]
Many = Annotated[int, Ge(1), Le(10**12)]
Share = Annotated[float, Ge(0), Le(1)]
Figure = Annotated[float, Ge(-1e12), Le(1e12)]
T = TypeVar("T", bound=BaseModel)


class Fields(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


# ---------------------------------------------------------------------- config.json


class PlanRecord(Fields):
    recipe: Name


class Environment(Fields):
    majority: str
    torch: str
    device: str


AS_DICT = PlainSerializer(lambda value: None if value is None else value._asdict())  # of a NamedTuple


class RunRecord(Part):
    schema_version: Literal[8] = SCHEMA
    run: RunConfig  # with what `default` and `auto` stand for
    refit: bool  # whether the run trains once more, on all bags
    fingerprint: list[str | None]  # hashes of the bags of each part
    plan: PlanRecord
    task: dict[str, Any]  # the fields of `TaskInfo`, which is not imported here: to predict, no recipe is needed
    planned_epochs: Many
    source_path: str | None
    encoder: ColumnEncoder | None  # how the columns of a table became features
    images: Annotated[ImageFileSummary | None, AS_DICT]
    embedding: Annotated[Embedding | None, AS_DICT]
    environment: Environment

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def read_record(folder: Path) -> RunRecord:
    """The config.json of a run of this version."""
    path, cure = folder / CONFIG, f"replace it with a complete copy, or move {folder} away and train again"
    content = read_json(path, cure)
    if content.get("schema_version") != SCHEMA:
        found = f"{folder} has schema {reprlib.repr(content.get('schema_version'))}, this version reads schema {SCHEMA}"
        raise InputError(f"{found}: train again, in another folder")
    return from_file(RunRecord, content, path, cure)


def check_same_run(folder: Path, before: RunRecord, requested: RunRecord) -> None:
    """A difference between the run in the folder and the requested one is an error that names it.

    A run may continue on another machine: everything that depends on the machine is in its plan.
    """
    old, new = (flatten(record.as_json()) for record in (before, requested))
    same_file = before.source_path == requested.source_path is not None  # however the path was written
    may_differ = MAY_DIFFER + (("run.bags.source",) if same_file else ())
    names = sorted(old.keys() | new.keys(), key=lambda name: (name.startswith(("plan.", "fingerprint")), name))
    changed = [name for name in names if not name.startswith(may_differ) and old.get(name) != new.get(name)]
    if changed == ["fingerprint"]:
        what = f"the data have changed since {folder} was started"
        raise InputError(f"{what}: put the old files back or choose another --out")
    if changed:
        changed = [name for name in changed if name != "fingerprint"]
        shown = "; ".join(f"{name} is {old.get(name)}, not {new.get(name)}" for name in changed[:SHOWN])
        shown = shown.replace("run.bags.", "").replace("run.", "")
        raise InputError(f"{folder} holds another run ({shown}): choose another --out, or repeat its settings")


# ---------------------------------------------------------------------- result.json


class Figures(Fields):
    """Of the bags of one part; a figure that is not defined is null or absent."""

    __pydantic_extra__: dict[str, Figure | None]
    bags: Many = 1
    instances: Number = 0
    overestimation_quantiles: Annotated[list[Figure], Len(5, 5)] | None = None
    warnings: list[str] = []
    intervals: dict[str, Annotated[list[Figure], Len(2, 2)]] = {}  # 95 %, over resampled bags


class StageResult(Fields):
    best_epoch: Number
    epochs: Number


class TrainingPlan(Fields):
    epochs: Number = 0
    seed: int = 0


class ResultPlan(PlanRecord):
    training: TrainingPlan


class WrongLabels(Fields):
    """Labels that the counts of a first training contradict."""

    share: Share
    log_likelihoods: dict[str, float]
    bags: Number
    corrections: dict[str, str]


class PartRow(Fields):
    """The bags of one part."""

    name: str
    bags: Many
    instances: Many
    smallest: Many
    largest: Many
    majority: Share | None
    labels: str = ""  # how many say less or more than the winner


class Baseline(Fields):
    """A simple classifier of the same bags, to compare with."""

    name: str
    bag_accuracy: Share


class ResultLine(Fields):
    """A line of results, also of older versions."""

    source: str
    method: str
    recipe: str
    test: Figures | None  # without fields if there are no test bags
    val: Figures | None = None
    scenario: str | None = None
    fold: Number = 0
    seed: Number = 0
    best_epoch: Number = 0
    epochs: Number = 0
    seconds: Figure = 0
    stages: dict[str, StageResult] | None = None
    method_options: dict[str, Any] | None = None
    varied: dict[str, Any] = {}
    sees_instance_labels: bool = False
    background_share: Share | None = None
    data: dict[str, Any] | None = None
    plan: ResultPlan | None = None
    task: dict[str, Any] | None = None
    baseline: Baseline | None = None
    wrong_labels: WrongLabels | None = None
    refit_bags: Number = 0
    refit_seconds: Figure = 0
    used_instance_labels: Number = 0
    lines: dict[str, str] = {}  # what the stages of the recipe have chosen, for people: title -> text
    warnings: list[str] = []
    parts: list[PartRow] = []


class RunResult(ResultLine):
    """result.json."""

    test: Figures
    fold: Number
    best_epoch: Number
    epochs: Number
    seconds: Figure

    @model_validator(mode="after")
    def _says_how_many(self) -> Self:
        for name, part in (("test", self.test), ("val", self.val)):
            if part is not None and part.model_fields_set and not {"bags", "instances"} <= part.model_fields_set:
                raise InputError(f"{name}.bags or {name}.instances is missing")
        return self


def read_result(folder: Path) -> dict[str, Any]:
    """The result.json of a finished run."""
    path = folder / RESULT
    cure = f"replace it with a complete copy, or remove it and repeat the `majority train` command of {folder}"
    content = read_json(path, cure)
    from_file(RunResult, content, path, cure)
    return content


def from_file(kind: type[T], content: dict[str, Any], place: str | Path, cure: str = CURE) -> T:
    """What a file of this program holds, if nobody has changed it."""
    try:
        return kind.model_validate_json(json.dumps(content))
    except ValidationError as error:
        damaged(place, error, {name: option.field for name, option in OPTIONS.items()}, cure)
