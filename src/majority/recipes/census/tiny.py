"""census of tiny images, and of all bags for which there is no better start: teachers and student start from random
weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Stage
from .parts import find_share_by, names_of, random_weights, student_of, teachers_of
from .settings import CensusSettings, choices, epochs_of_teachers, losses_of, named
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
    teachers = teachers_of(task, plan, random_weights)
    student = student_of(task, plan, dict.fromkeys(names_of(teachers), random_weights))
    return [*find_share_by(task, plan, trials), *teachers, *student]


def trials(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A teacher of each loss, with which the share of a background is found."""
    settings = replace(plan.training, epochs=epochs_of_teachers(task, plan))
    inputs = choices(task, plan)
    return [
        Stage(named("trial", loss), settings, inputs, partial(fresh, method=loss), train_teacher)
        for loss in losses_of(task)
    ]
