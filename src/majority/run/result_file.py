"""What is read back of result.json, of lines of results, and of metrics.jsonl: the fields that reports use.

Versions and recipes add fields of their own, which are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from annotated_types import Ge, Le, Len
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ..errors import InputError
from ..files import CURE, read_json, read_lines
from .config_errors import damaged

Number = Annotated[int, Ge(0), Le(10**12)]
Many = Annotated[int, Ge(1), Le(10**12)]
Share = Annotated[float, Ge(0), Le(1)]
Figure = Annotated[float, Ge(-1e12), Le(1e12)]


class Fields(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


class Epoch(Fields):
    """A line of metrics.jsonl; a stage that validates nothing has no val_ fields."""

    epoch: Number
    train_loss: float
    train_bag_accuracy: Share
    val_loss: float = 0
    val_bag_accuracy: Share = 0


class Figures(Fields):
    """Of the bags of one part; a figure that is not defined is null or absent."""

    bags: Many = 1
    instances: Number = 0
    instance_accuracy: Share | None = None
    weighted_accuracy: Share | None = None
    voter_accuracy: Share | None = None
    macro_f1: Share | None = None
    mean_iou: Share | None = None
    calibration_error: Share | None = None
    overestimation: Figure | None = None
    overestimation_quantiles: Annotated[list[Figure], Len(5, 5)] | None = None
    bag_accuracy: Share | None = None  # by the counts of the predicted classes of instances
    method_bag_accuracy: Share | None = None  # by the method's own prediction of bags
    runner_up_accuracy: Share | None = None
    labelled_bags: Number = 0
    most_frequent_label: Share = 0
    warnings: list[str] = []
    consistency_rate: Share | None = None
    background_share: Share | None = None
    background_precision: Share | None = None
    background_recall: Share | None = None
    known_instances: Number = 0
    known_bags: Number = 0
    intervals: dict[str, Annotated[list[Figure], Len(2, 2)]] = {}  # 95 %, over resampled bags


class StageResult(Fields):
    best_epoch: Number
    epochs: Number


class Curve(Fields):
    """Bag accuracy is by count; in lines of older versions, by the method's own prediction."""

    epoch: list[Number]
    train_loss: list[float]
    val_loss: list[float]
    train_bag_accuracy: list[Share] = []
    val_bag_accuracy: list[Share] = []
    train_method_bag_accuracy: list[Share] = []
    val_method_bag_accuracy: list[Share] = []


class TrainingPlan(Fields):
    epochs: Number = 0
    seed: int = 0


class Plan(Fields):
    recipe: str
    training: TrainingPlan


class Task(Fields):
    """The fields of `TaskInfo`."""

    source: str
    shape: Annotated[list[Many], Len(1, 3)]
    on_gpu: bool
    bags: Many = 1
    instances: Many = 1
    labelled_bags: Many | None = None
    label_preserving: list[str] | None = None
    mixed_views: bool = False
    every_class_wins: bool = True
    plain_labels: bool = True
    finds_share: bool = False
    losses: list[str] = []


class Data(Fields):
    folds: Annotated[int, Ge(3), Le(10**9)] | None = None


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
    data: Data | None = None
    plan: Plan | None = None
    task: Task | None = None
    curve: Curve | None = None
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


def checked(kind: type[Fields], content: dict[str, Any], place: str | Path, cure: str = CURE) -> dict[str, Any]:
    """The content, as it is, if its fields are right."""
    try:
        kind.model_validate(content)
    except ValidationError as error:
        damaged(place, error, {}, cure)
    return content


def read_run_result(path: Path, cure: str) -> dict[str, Any]:
    return checked(RunResult, read_json(path, cure), path, cure)


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl."""
    return [checked(Epoch, line, f"{path}, line {number}") for number, line in enumerate(read_lines(path), start=1)]
