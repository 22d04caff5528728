"""The recipes that train one network once: paper, augmented, and quick unless it weighs several."""

from __future__ import annotations

from ..training.settings import Settings
from .plan import Plan, TaskInfo
from .stages import Stage

SMALL_STEM = 64  # largest image side, in pixels, for which the small stem is used


def one_training(task: TaskInfo, plan: Plan) -> list[Stage]:
    return [Stage("training", plan.training)]


def plan(task: TaskInfo) -> Plan:
    return Plan()


def paper(task: TaskInfo) -> Plan:
    training = Settings(
        epochs=1500, batch_bags=64, optimizer="adam", learning_rate=3e-4, schedule="constant", precision="bf16"
    )
    return Plan(backbone="resnet18", pixels="published", training=training)


def augmented(task: TaskInfo) -> Plan:
    training = Settings(
        epochs=100,
        batch_bags=32,
        learning_rate=5e-4,
        weight_decay=5e-2,
        warmup_epochs=5,
        augment=task.allowed("flip", "rotate90", "crop"),
        precision="bf16",
    )
    return Plan(backbone=resnet_for(task), training=training)


def resnet_for(task: TaskInfo) -> str:
    """The small stem keeps the full resolution: on larger images it costs time and memory and gains little."""
    return "resnet18-small" if min(task.shape[:2]) <= SMALL_STEM else "resnet18"
