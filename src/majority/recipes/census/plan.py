"""The settings of census, and its plan for the instances and the device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...data.bags import Bags
from ...errors import InputError
from ...nn.backbones import COARSEST
from ...training.settings import Settings
from ..label_preserving import known_sources, label_preserving
from ..plan import Plan, TaskInfo
from ..single import resnet_for
from .background_share import SHARES
from .discriminants import is_applicable
from .patches import COMPONENTS
from .views import MIXED_EPOCHS, additions_for, views_of, with_views

HEAD_EPOCHS = 100
HEAD_ON_VECTORS = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5, learning_rate=2e-2)
PIXELS_ON_CPU = 210_000_000  # that a network reads in all epochs of a stage: about three minutes on two cores
IMAGES_PER_STEP = 128  # on a CPU
TINY_BAGS = 6_000  # that a network of tiny images learns in all epochs of a stage, between 50 and 200 bags
TEACHERS = 3
SEARCH_EPOCHS = 60  # of pretraining, for each choice of views


@dataclass(frozen=True)
class CensusSettings:
    pretrain: Settings | None = None  # contrastive pretraining on the bags' own instances; None: no such stage
    head: Settings | None = None  # training of the head alone; None: no such stage
    search_epochs: int = 0  # of pretraining for each choice of views; 0: the views are not chosen by the bags
    patches: bool = False  # heads on features of patches, for images without pretraining
    validation_instances: bool = False  # pretrain and student also learn from the instances of validation bags
    temperature: float = 0.2  # of the contrastive loss
    momentum: float = 0.99  # of the running mean of weights that teachers and student keep
    teachers: int | None = TEACHERS  # of each start; None: 1 after features of patches, else TEACHERS
    teacher_epochs: int = 40  # see `epochs_of_teachers`
    sharpness: float = 2.0  # the power to which the teachers' mean probabilities are raised
    class_offsets: bool = True  # with several losses: the soft labels of the student are corrected by the bag labels
    mixup: float = 0.5  # largest share of another instance that is mixed in where soft labels are learned
    mixed_views: float = 0.0  # the same for the first views of pretraining

    def __post_init__(self) -> None:
        allowed = {
            "teachers": (self.teachers is None or 1 <= self.teachers <= 1_000, "1 or more, up to 1,000"),
            "teacher_epochs": (1 <= self.teacher_epochs <= 10**6, "1 or more, up to 1,000,000"),
            "search_epochs": (0 <= self.search_epochs <= 10**6, "0 or more, up to 1,000,000"),
            "momentum": (0 <= self.momentum < 1, "0 or more and below 1"),
            "mixup": (0 <= self.mixup <= 1, "between 0 and 1"),
            "mixed_views": (0 <= self.mixed_views <= 1, "between 0 and 1"),
            "temperature": (0 < self.temperature < math.inf, "a number above 0"),
            "sharpness": (0 < self.sharpness < math.inf, "a number above 0"),
        }
        for name, (valid, rule) in allowed.items():
            if not valid:
                raise InputError(f"census.{name} is {getattr(self, name)}: it must be {rule}")


def plan(task: TaskInfo) -> Plan:
    if task.vectors:
        return Plan("census", "mlp", own=CensusSettings(head=HEAD_ON_VECTORS), assumed_wrong=None)
    if task.tiny:
        views = (*_allowed(task, "flip", "rotate90"), *(_allowed(task, "affine") or ("crop",)), "noise")
        training = Settings(epochs=_epochs_of_tiny(task.bags), learning_rate=4e-3, warmup_epochs=3, augment=views)
        own = CensusSettings(
            teacher_epochs=max(_epochs_of_tiny(task.labelled_bags or task.bags), CensusSettings.teacher_epochs)
        )
        return Plan("census", "tiny", training=training, own=own, assumed_wrong=None)
    return _plan_on_gpu(task) if task.on_gpu else _plan_on_cpu(task)


def _epochs_of_tiny(bags: int) -> int:
    """With fewer bags there are more epochs, so that between 50 and 200 bags the number of steps is about the same.

    >>> [_epochs_of_tiny(bags) for bags in (10, 36, 50, 100, 200, 400)]
    [120, 120, 120, 60, 30, 30]
    """
    return min(max(round(TINY_BAGS / max(bags, 1)), 30), 120)


def _plan_on_cpu(task: TaskInfo) -> Plan:
    """With more or larger images there are fewer epochs, so that the time is about the same. In few epochs, crops and
    several teachers cost more accuracy than they gain."""
    epochs = min(max(round(PIXELS_ON_CPU / (task.instances * _pixels_read(task.shape))), 4), 80)
    training = Settings(
        epochs=epochs,
        batch_bags=min(max(round(IMAGES_PER_STEP * task.bags / task.instances), 1), 64),
        weight_decay=5e-2,
        warmup_epochs=epochs / 8,
        augment=_allowed(task, "flip", "rotate90"),
    )
    own = CensusSettings(head=HEAD_ON_VECTORS, patches=True, teachers=None, teacher_epochs=round(epochs * 5 / 6))
    backbone = "cnn" if min(task.shape[:2]) < 2 * COARSEST else "cnn-reduced"
    return Plan("census", backbone, training=training, own=own, assumed_wrong=None)


def _pixels_read(shape: tuple[int, ...]) -> int:
    """Of an image, by the small network: it reduces images of 64 pixels per side or more.

    >>> [_pixels_read((height, width, 3)) for height, width in ((28, 28), (40, 63), (224, 260))]
    [784, 2520, 1184]
    """
    height, width = shape[:2]
    factor = max(min(height, width) // COARSEST, 1)
    return (height // factor) * (width // factor)


def _plan_on_gpu(task: TaskInfo) -> Plan:
    height, width = map(_three_quarters, task.shape[:2])
    pretrain = Settings(
        epochs=200,
        batch_bags=512,
        drop_last=True,
        optimizer="muon",
        learning_rate=6e-3,
        weight_decay=1e-3,
        warmup_epochs=10,
        augment=(("resized-crop", {"side": height if height == width else (height, width)}),),
        precision="bf16",
        compile=True,
    )
    head = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5)
    training = Settings(
        epochs=80,
        batch_bags=16,
        optimizer="muon",
        learning_rate=3e-3,
        weight_decay=5e-2,
        augment=("crop", "cutout"),
        precision="bf16",
    )
    own = CensusSettings(pretrain, head, validation_instances=True, teacher_epochs=20)
    plan = Plan("census", resnet_for(task), training=training, own=own, assumed_wrong=None)
    if task.source in known_sources():
        return with_views(plan, views_of(task.source))
    return replace(plan, own=replace(plan.own, search_epochs=SEARCH_EPOCHS))


def _allowed(task: TaskInfo, *augmentations: str) -> tuple[str, ...]:
    """Those of the augmentations that keep the classes of the task's images."""
    return tuple(name for name in augmentations if name in label_preserving(task.source))


def _three_quarters(length: int) -> int:
    """About three quarters, as a multiple of 8 (of 4 below 24 pixels), because networks halve it several times.

    >>> [_three_quarters(length) for length in (13, 16, 24, 28, 32, 224)]
    [8, 12, 16, 24, 24, 168]
    """
    unit = 8 if length >= 24 else 4
    return unit * round(3 / 4 * length / unit)


def planned_epochs(plan: Plan, train: Bags, losses: int) -> int:
    """In all stages; `losses` is their number if no method is named, else 0."""
    own: CensusSettings = plan.own
    distills = int(has_head_on_discriminants(own, train))  # the network learns the soft labels of heads
    epochs = own.pretrain.epochs if own.pretrain is not None else 0
    if searches_views(own) and own.head is not None:
        choices = 1 + len(additions_for(plan, train.store.shape[-1]))
        epochs = MIXED_EPOCHS * epochs + choices * (own.search_epochs + own.head.epochs)  # at most
    if own.head is not None and (own.pretrain is not None or distills):
        epochs += max(losses, 1) * own.head.epochs
    starts = 1 + int(distills and not starts_from_patches(own, train))
    of_start = teachers_of_start(own, train, bool(distills))
    teachers = of_start * starts if losses else of_start + starts - 1
    teacher_epochs = epochs_of_teachers(plan, train)
    if train.background is not None:  # unless its share is given
        on_heads = own.head is not None and (own.pretrain is not None or distills)
        trial_epochs = own.head.epochs if own.head and on_heads else teacher_epochs
        epochs += len(SHARES) * max(losses, 1) * trial_epochs
    return epochs + teachers * teacher_epochs + (1 + distills) * plan.training.epochs


def settings_without_effect(plan: Plan, train: Bags, losses: int) -> dict[str, str]:
    """The settings that change nothing in this plan, each with the reason."""
    own: CensusSettings = plan.own
    reasons: dict[str, str] = {}
    if own.pretrain is None:
        of_pretrain = ("search_epochs", "temperature", "mixed_views")
        reasons |= dict.fromkeys(of_pretrain, "this plan has no stage census.pretrain")
    elif own.head is None:
        reasons["search_epochs"] = "this plan has no stage census.head"
    if width_of(train) is not None or own.pretrain is not None or own.head is None:
        reasons["patches"] = "patches are used for images, with a stage census.head and without census.pretrain"
    if not losses:
        reasons["class_offsets"] = "one method is named (--method, method=), and several losses are needed"
    return {f"census.{name}": reason for name, reason in reasons.items()}


def epochs_of_teachers(plan: Plan, train: Bags) -> int:
    """Teachers take no more steps than the student, which also learns from bags without a label."""
    labelled = max(int(train.bag_labels.known.sum()), 1)
    return min(plan.own.teacher_epochs, round(plan.training.epochs * len(train) / labelled))


def has_head_on_discriminants(own: CensusSettings, train: Bags) -> bool:
    width = COMPONENTS if starts_from_patches(own, train) else width_of(train)
    return own.pretrain is None and own.head is not None and is_applicable(train, width)


def starts_from_patches(own: CensusSettings, train: Bags) -> bool:
    """Whether the heads on discriminants, if there are any, are trained on features of patches."""
    return own.patches and width_of(train) is None


def teachers_of_start(own: CensusSettings, train: Bags, has_heads: bool) -> int:
    """How many teachers each start has; `has_heads`: there are heads on discriminants."""
    if own.teachers is not None:
        return own.teachers
    return 1 if has_heads and starts_from_patches(own, train) else TEACHERS


def width_of(bags: Bags) -> int | None:
    """Of vectors; None for images."""
    return bags.store.shape[1] if bags.store.ndim == 2 else None


def searches_views(own: CensusSettings) -> bool:
    return own.search_epochs > 0 and own.pretrain is not None and own.head is not None
