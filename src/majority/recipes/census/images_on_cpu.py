"""census of images on a CPU: heads on features of patches, which are found without labels; a network that first learns
their soft labels; one teacher that starts from that; the student learns from the heads, too.

Of tiny images, and of all bags for which there is no better start, teachers and student start from random weights.
"""

from __future__ import annotations

from dataclasses import replace

from ...nn.backbones import COARSEST
from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Stage
from .background_share import share_search
from .parts import (
    CensusSettings,
    HeadSettings,
    chained,
    distilled,
    fresh,
    heads_on_discriminants,
    numbered,
    of_each_loss,
    student,
    teachers,
    train_teacher,
)
from .patches import stage_of_patches

PIXELS = 210_000_000  # that a network reads in all epochs of a stage: about three minutes on two cores
IMAGES_PER_STEP = 128
TINY_BAGS = 6_000  # that a network of tiny images learns in all epochs of a stage, between 50 and 200 bags


def plan(task: TaskInfo) -> Plan:
    """With more or larger images there are fewer epochs, so that the time is about the same. In few epochs, crops and
    several teachers cost more accuracy than they gain."""
    epochs = min(max(round(PIXELS / (task.instances * _pixels_read(task.shape))), 4), 80)
    training = Settings(
        epochs=epochs,
        batch_bags=min(max(round(IMAGES_PER_STEP * task.bags / task.instances), 1), 64),
        weight_decay=5e-2,
        warmup_epochs=epochs / 8,
        augment=task.allowed("flip", "rotate90"),
    )
    own = HeadSettings(teachers=1 if task.every_class_wins else 3, teacher_epochs=round(epochs * 5 / 6))
    backbone = "cnn" if min(task.shape[:2]) < 2 * COARSEST else "cnn-reduced"
    return Plan(backbone=backbone, training=training, own=own, assumed_wrong=None)


def _pixels_read(shape: tuple[int, ...]) -> int:
    """Of an image, by the small network: it reduces images of 64 pixels per side or more.

    >>> [_pixels_read((height, width, 3)) for height, width in ((28, 28), (40, 63), (224, 260))]
    [784, 2520, 1184]
    """
    height, width = shape[:2]
    factor = max(min(height, width) // COARSEST, 1)
    return (height // factor) * (width // factor)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if not task.every_class_wins:
        return tiny_stages(task, plan)
    heads, sources = heads_on_discriminants(task, plan), numbered(plan, "distilled")
    first = [stage_of_patches(), *share_search(task, heads), *heads, *distilled(task, plan, heads)]
    names = [head.name for head in heads]
    return chained([*first, *teachers(task, plan, sources), *student(task, plan, sources, names)])


# ---------------------------------------------------------------------- tiny images


def tiny_plan(task: TaskInfo) -> Plan:
    views = (*task.allowed("flip", "rotate90"), *(task.allowed("affine") or ("crop",)), "noise")
    training = Settings(epochs=_tiny_epochs(task.bags), learning_rate=4e-3, warmup_epochs=3, augment=views)
    of_teachers = _tiny_epochs(task.labelled_bags or task.bags)
    own = CensusSettings(teacher_epochs=max(of_teachers, CensusSettings.teacher_epochs))
    return Plan(backbone="tiny", training=training, own=own, assumed_wrong=None)


def _tiny_epochs(bags: int) -> int:
    """With fewer bags there are more epochs, so that between 50 and 200 bags the number of steps is about the same.

    >>> [_tiny_epochs(bags) for bags in (10, 36, 50, 100, 200, 400)]
    [120, 120, 120, 60, 30, 30]
    """
    return min(max(round(TINY_BAGS / max(bags, 1)), 30), 120)


def tiny_stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    sources = numbered(plan, None)
    taught = teachers(task, plan, sources)
    trials = of_each_loss(task, "trial", replace(plan.training, epochs=taught[0].epochs), fresh, train_teacher)
    return chained([*share_search(task, trials), *taught, *student(task, plan, sources)])
