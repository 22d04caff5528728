"""census of tiny images, and of all bags for which there is no better start: teachers and student start from random
weights."""

from __future__ import annotations

from dataclasses import replace

from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Stage
from .background_share import share_search
from .parts import chained, numbered, of_each_loss, student, teachers
from .settings import CensusSettings
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
    sources = numbered(plan, None)
    taught = teachers(task, plan, sources)
    trials = of_each_loss(task, "trial", replace(plan.training, epochs=taught[0].epochs), fresh, train_teacher)
    return chained([*share_search(task, trials), *taught, *student(task, plan, sources)])
