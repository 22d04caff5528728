"""The settings that all variants of census have, and what their plans share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from ...fields import check_fields
from ...training.settings import Epochs, Settings
from ..plan import Plan, TaskInfo

Share = Annotated[float, Ge(0), Le(1)]
Number = Annotated[int, Ge(1), Le(1_000)]

HEAD_EPOCHS = 100
HEAD_ON_VECTORS = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5, learning_rate=2e-2)


@dataclass(frozen=True)
class CensusSettings:
    teachers: Number | None = 3  # of each start
    teacher_epochs: Epochs = 40  # see `epochs_of_teachers`
    sharpness: Annotated[float, Gt(0)] = 2.0  # the power to which the teachers' mean probabilities are raised
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.99  # of the running mean of weights that teachers and student keep
    mixup: Share = 0.5  # largest share of another instance that is mixed in where soft labels are learned
    class_offsets: bool = True  # with several losses: the soft labels of the student are corrected by the bag labels
    validation_instances: bool = False  # the instances of validation bags are learned from too, without their labels

    def __post_init__(self) -> None:
        check_fields(self)


def epochs_of_teachers(task: TaskInfo, plan: Plan) -> int:
    """Teachers take no more steps than the student, which also learns from bags without a label.

    >>> epochs_of_teachers(TaskInfo(bags=8, labelled_bags=4), Plan(training=Settings(epochs=3), own=CensusSettings()))
    6
    """
    labelled = task.bags if task.labelled_bags is None else task.labelled_bags
    return min(plan.own.teacher_epochs, round(plan.training.epochs * task.bags / max(labelled, 1)))


def searches_views(plan: Plan) -> bool:
    """Whether the bags choose the views."""
    own = plan.own
    return getattr(own, "search_epochs", 0) > 0 and own.pretrain is not None and own.head is not None
