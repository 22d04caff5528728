"""The settings that all variants of census have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from ...fields import check_fields
from ...training.settings import Epochs, Settings

Share = Annotated[float, Ge(0), Le(1)]

HEAD_EPOCHS = 100


@dataclass(frozen=True)
class CensusSettings:
    teachers: Annotated[int, Ge(1), Le(1_000)] = 3  # of each start
    teacher_epochs: Epochs = 40  # at most: see `teachers`
    sharpness: Annotated[float, Gt(0)] = 2.0  # the power to which the teachers' mean probabilities are raised
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.99  # of the running mean of weights that teachers and student keep
    mixup: Share = 0.5  # largest share of another instance that is mixed in where soft labels are learned
    class_offsets: bool = True  # with several losses: the soft labels of the student are corrected by the bag labels
    validation_instances: bool = False  # the instances of validation bags are learned from too, without their labels

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class HeadSettings(CensusSettings):
    head: Settings = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5, learning_rate=2e-2)  # noqa: RUF009
