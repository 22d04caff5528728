"""census of images on a CPU: heads on features of patches, which are found without labels; a network that first learns
their soft labels; one teacher that starts from that; the student learns from the heads, too."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...nn.backbones import COARSEST
from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Stage
from . import tiny
from .parts import StageList, distilled_network, heads_on_discriminants
from .patches import stage_of_patches
from .settings import HEAD_ON_VECTORS, CensusSettings, Number

PIXELS = 210_000_000  # that a network reads in all epochs of a stage: about three minutes on two cores
IMAGES_PER_STEP = 128


@dataclass(frozen=True)
class CpuImageSettings(CensusSettings):
    head: Settings | None = HEAD_ON_VECTORS  # None: everything starts from random weights
    patches: bool = True  # heads on features of patches; False: everything starts from random weights
    teachers: Number | None = None  # None: 1 after features of patches, else 3


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
    own = CpuImageSettings(teacher_epochs=round(epochs * 5 / 6))
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
    if plan.own.head is None or not plan.own.patches or not task.every_class_wins:
        return tiny.stages(task, plan)
    listed = StageList(task, replace(plan, own=replace(plan.own, teachers=plan.own.teachers or 1)))
    listed.add(stage_of_patches())
    listed.find_share(heads_on_discriminants)
    heads = listed.add(*heads_on_discriminants(task, plan))
    listed.distil(heads)
    return listed.student(listed.teachers(distilled_network), heads)
