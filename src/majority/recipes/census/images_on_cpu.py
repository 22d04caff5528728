"""census of images on a CPU: heads on features of patches, which are found without labels; a network that first learns
their soft labels; one teacher that starts from that; the student learns from the heads, too."""

from __future__ import annotations

from ...nn.backbones import COARSEST
from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Stage
from . import tiny
from .background_share import share_search
from .parts import chained, distilled, heads_on_discriminants, numbered, student, teachers
from .patches import stage_of_patches
from .settings import HeadSettings

PIXELS = 210_000_000  # that a network reads in all epochs of a stage: about three minutes on two cores
IMAGES_PER_STEP = 128


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
        return tiny.stages(task, plan)
    heads, sources = heads_on_discriminants(task, plan), numbered(plan, "distilled")
    return chained([
        stage_of_patches(),
        *share_search(task, heads),
        *heads,
        *distilled(task, plan, heads),
        *teachers(task, plan, sources),
        *student(task, plan, sources, [head.name for head in heads]),
    ])  # fmt: skip
