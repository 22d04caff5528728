"""Records of run and study folders and of result files, as `parsing` checks them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from .parsing import Between

Count = Annotated[int, Between(0, 10**12)]
AtLeastOne = Annotated[int, Between(1, 10**12)]
Share = Annotated[float, Between(0, 1)]
Figure = Annotated[float, Between(-1e12, 1e12)]


class Epoch(TypedDict):
    """A line of metrics.jsonl."""

    epoch: Count
    train_loss: float
    train_bag_accuracy: Share
    val_loss: NotRequired[float]  # a stage that validates nothing has no such fields
    val_bag_accuracy: NotRequired[Share]


class Outcome(TypedDict):
    """outcome.json of a stage."""

    best_epoch: Count
    best_loss: float
    loss_name: Literal["val_loss", "train_loss"]
    seconds: Figure
    capture_seconds: Figure


class Progress(Outcome):
    """The note of a checkpoint."""

    epochs: AtLeastOne


class TrainingPlan(TypedDict):
    """Settings that are read from a plan; others are only shown."""

    epochs: NotRequired[Count]
    seed: NotRequired[Count]


class PlanRecord(TypedDict):
    recipe: str
    training: TrainingPlan


class Planned(TypedDict):
    """The part of a config.json that the progress of a study needs."""

    planned_epochs: AtLeastOne


class TaskRecord(TypedDict):
    """What plan and stages depend on: the fields of `TaskInfo`."""

    source: str
    shape: Annotated[list[AtLeastOne], Between(1, 3)]
    on_gpu: bool
    bags: NotRequired[AtLeastOne]
    instances: NotRequired[AtLeastOne]
    labelled_bags: NotRequired[AtLeastOne | None]
    label_preserving: NotRequired[list[str] | None]
    mixed_views: NotRequired[bool]
    every_class_wins: NotRequired[bool]
    finds_share: NotRequired[bool]
    losses: NotRequired[list[str]]


Nothing = Annotated[dict[str, Any], Between(0, 0)]


class Figures(TypedDict, total=False):
    """Of the bags of one part; a figure that is not defined is null or absent."""

    instance_accuracy: Share | None
    weighted_accuracy: Share | None
    voter_accuracy: Share | None
    macro_f1: Share | None
    mean_iou: Share | None
    calibration_error: Share | None
    overestimation: Figure | None
    overestimation_quantiles: Annotated[list[Figure], Between(5, 5)] | None
    bag_accuracy: Share | None  # by the counts of the predicted classes of instances
    method_bag_accuracy: Share | None  # by the method's own prediction of bags
    runner_up_accuracy: Share | None
    labelled_bags: Count
    most_frequent_label: Share
    warnings: list[str]
    consistency_rate: Share | None
    background_share: Share | None
    background_precision: Share | None
    background_recall: Share | None
    known_instances: Count
    known_bags: Count
    intervals: dict[str, Annotated[list[Figure], Between(2, 2)]]  # 95 %, over resampled bags


class LineFigures(Figures, total=False):
    """Of a line of results, also of older versions."""

    bags: AtLeastOne
    instances: Count


class RunFigures(Figures):
    """Of result.json: they say how many bags they are about."""

    bags: AtLeastOne
    instances: Count


class StageResult(TypedDict):
    best_epoch: Count
    epochs: Count


class Curve(TypedDict):
    """Bag accuracy is by count; in lines of older versions, by the method's own prediction."""

    epoch: list[Count]
    train_loss: list[float]
    val_loss: list[float]
    train_bag_accuracy: NotRequired[list[Share]]
    val_bag_accuracy: NotRequired[list[Share]]
    train_method_bag_accuracy: NotRequired[list[Share]]
    val_method_bag_accuracy: NotRequired[list[Share]]


class DataRecord(TypedDict):
    """What is read from the data of a result; other choices are only shown."""

    folds: NotRequired[Annotated[int, Between(3, 10**9)] | None]


class WrongLabels(TypedDict):
    """Labels that the counts of a first training contradict."""

    share: Share
    log_likelihoods: dict[str, float]
    bags: Count
    corrections: dict[str, str]


class ResultBase(TypedDict):
    source: str
    method: str
    recipe: str
    scenario: NotRequired[str | None]
    seed: NotRequired[Count]
    stages: NotRequired[dict[str, StageResult] | None]
    method_options: NotRequired[dict[str, Any] | None]
    varied: NotRequired[dict[str, Any]]
    sees_instance_labels: NotRequired[bool]
    background_share: NotRequired[Share | None]
    data: NotRequired[DataRecord | None]
    plan: NotRequired[PlanRecord | None]
    task: NotRequired[TaskRecord]
    curve: NotRequired[Curve | None]
    wrong_labels: NotRequired[WrongLabels]
    refit_bags: NotRequired[Count]
    refit_seconds: NotRequired[Figure]
    used_instance_labels: NotRequired[Count]
    lines: NotRequired[dict[str, str]]  # what the stages of the recipe have chosen, for people: title -> text
    warnings: NotRequired[list[str]]


class ResultLine(ResultBase):
    """A line of results, also of older versions."""

    test: LineFigures | None
    val: NotRequired[LineFigures | None]
    fold: NotRequired[Count]
    best_epoch: NotRequired[Count]
    epochs: NotRequired[Count]
    seconds: NotRequired[Figure]


class PartRow(TypedDict):
    """The bags of one part."""

    name: str
    bags: AtLeastOne
    instances: AtLeastOne
    smallest: AtLeastOne
    largest: AtLeastOne
    majority: Share | None
    labels: NotRequired[str]  # how many say less or more than the winner


class RunResult(ResultBase):
    """result.json."""

    test: Nothing | RunFigures  # nothing if there are no test bags
    val: NotRequired[RunFigures | None]
    parts: NotRequired[list[PartRow]]
    fold: Count
    best_epoch: Count
    epochs: Count
    seconds: Figure
