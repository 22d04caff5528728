"""census of tiny images, and of all bags for which there is no better start: teachers and student start from random
weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Stage
from .parts import StageList, losses_of, named, random_weights
from .settings import CensusSettings, epochs_of_teachers
from .trainings import fresh, train_teacher

TINY_BAGS = 6_000  # that a network of tiny images learns in all epochs of a stage, between 50 and 200 bags


def plan(task: TaskInfo) -> Plan:
    views = (*task.allowed("flip", "rotate90"), *(task.allowed("affine") or ("crop",)), "noise")
    training = Settings(epochs=_epochs(task.bags), learning_rate=4e-3, warmup_epochs=3, augment=views)
    labelled = task.labelled_bags or task.bags
    own = CensusSettings(teacher_epochs=max(_epochs(labelled), CensusSettings.teacher_epochs))
    return Plan(backbone="tiny", training=training, own=own, assumed_wrong=None)


def _epochs(bags: int) -> int:
    """With fewer bags there are more epochs, so that between 50 and 200 bags the number of steps is about the same.

    >>> [_epochs(bags) for bags in (10, 36, 50, 100, 200, 400)]
    [120, 120, 120, 60, 30, 30]
    """
    return min(max(round(TINY_BAGS / max(bags, 1)), 30), 120)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    listed = StageList(task, plan)
    listed.find_share(trials)
    return listed.student(listed.teachers(random_weights))


def trials(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A teacher of each loss, with which the share of a background is found."""
    settings = replace(plan.training, epochs=epochs_of_teachers(task, plan))
    return [
        Stage(named("trial", loss), settings, start=partial(fresh, method=loss), train=train_teacher)
        for loss in losses_of(task)
    ]
