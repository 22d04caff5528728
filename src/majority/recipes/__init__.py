"""Recipes by name: fixed, documented plans, trained once or in stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import InputError, unknown_name
from ..methods import METHODS, Head
from ..methods.count import Count
from ..training.settings import Settings
from . import census, mpem
from .label_preserving import known_source, label_preserving
from .plan import CensusSettings, Plan, TaskInfo
from .stages import Run, Trained, temporary_files, train_once

__all__ = ["DEFAULT", "RECIPES", "Plan", "Recipe", "Run", "TaskInfo", "Trained", "choose", "temporary_files"]

DEFAULT = "default"
SMALL_STEM = 64  # pixels a side up to which the small stem is taken
STARTS = {  # of census: up to which part views are mixed, for how many epochs; docs/census.md has the figures
    "cifar10": (0.5, 400),  # things, not textures
    None: (0.5, 200),  # unknown: crops alone, as they are, teach little
}


@dataclass(frozen=True)
class Recipe:
    name: str
    about: str
    plan: Callable[[TaskInfo], Plan]
    train: Callable[[Run], Trained] = train_once
    head: type[Head] = Head  # of the methods that it builds on

    def check_method(self, name: str) -> None:
        if not issubclass(METHODS.find(name).head, self.head):
            able = [method.name for method in METHODS.values() if issubclass(method.head, self.head)]
            raise InputError(f"recipe {self.name} does not build on {name}: take --method {' or '.join(able)}")


def _quick(task: TaskInfo) -> Plan:
    return Plan("quick")


def _paper(task: TaskInfo) -> Plan:
    training = Settings(
        epochs=1500, batch_bags=64, optimizer="adam", learning_rate=3e-4, schedule="constant", precision="bf16"
    )
    return Plan("paper", "resnet18", "published", training)


def _mpem(task: TaskInfo) -> Plan:
    return replace(_paper(task), recipe="mpem", ratios=tuple(tenths / 10 for tenths in range(1, 11)))


def _augmented(task: TaskInfo) -> Plan:
    allowed = label_preserving(task.source)
    training = Settings(
        epochs=100,
        batch_bags=32,
        learning_rate=5e-4,
        weight_decay=5e-2,
        warmup_epochs=5,
        augment=tuple(name for name in ("flip", "rotate90", "crop") if name in allowed),
        precision="bf16",
    )
    return Plan("augmented", _resnet(task), "data", training)


def _census(task: TaskInfo) -> Plan:
    if task.vectors:
        head = Settings(epochs=100, batch_bags=64, warmup_epochs=5, learning_rate=2e-2)
        return Plan("census", "mlp", census=CensusSettings(head=head))
    permitted = lambda *views: tuple(
        v for v in views if (v if isinstance(v, str) else v[0]) in label_preserving(task.source)
    )
    turned = permitted("flip", "rotate90")
    if task.tiny or not task.on_gpu:
        views = (*turned, *(permitted("affine") or ("crop",)), "noise")
        training = Settings(epochs=30, learning_rate=4e-3, warmup_epochs=3, augment=views)
        return Plan("census", "tiny" if task.tiny else "cnn", training=training, census=CensusSettings())
    colours = permitted(("colour", {"share": 0.8}), ("hue", {"share": 0.8}), "grey")
    height, width = map(_three_quarters, task.shape[:2])
    mixed_views, epochs = STARTS.get(known_source(task.source), (0.0, 200))
    start = Settings(
        epochs=epochs,
        batch_bags=512,
        whole_steps=True,
        optimizer="muon",
        learning_rate=6e-3,
        weight_decay=1e-3,
        warmup_epochs=10,
        augment=(*turned, ("resized-crop", {"side": height if height == width else (height, width)}), *colours),
        precision="bf16",
        compile=True,
    )
    head = Settings(epochs=100, batch_bags=64, warmup_epochs=5)
    training = Settings(
        epochs=80,
        batch_bags=16,
        optimizer="muon",
        learning_rate=3e-3,
        weight_decay=5e-2,
        augment=(*turned, "crop", *colours, "cutout"),
        precision="bf16",
    )
    settings = CensusSettings(start, head, reader_epochs=20, mixed_views=mixed_views)
    return Plan("census", _resnet(task), training=training, census=settings)


def _three_quarters(length: int) -> int:
    """About that, a multiple of 8, of less than 24 pixels of 4: networks halve it.

    >>> [_three_quarters(length) for length in (13, 16, 24, 28, 32, 224)]
    [8, 12, 16, 24, 24, 168]
    """
    unit = 8 if length >= 24 else 4
    return unit * round(3 / 4 * length / unit)


def _resnet(task: TaskInfo) -> str:
    """The small stem reads every pixel: on larger images that costs time and memory and shows little more."""
    return "resnet18-small" if min(task.shape[:2]) <= SMALL_STEM else "resnet18"


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("quick", "for a CPU: mlp (vectors, tiny images) or cnn, AdamW with a cosine, 40 epochs", _quick),
        Recipe("paper", "the published protocol: ResNet-18, Adam 3e-4, 64 bags a step, 1,500 epochs", _paper),
        Recipe("augmented", "small-stem ResNet-18, lawful flips and crops, AdamW and a cosine, 100 epochs", _augmented),
        Recipe(
            "mpem",
            "paper's plan on a counting network, then again without each bag's unlikely instances, at ten ratios",
            _mpem,
            mpem.train,
            Count,
        ),
        Recipe(
            "census",
            "a self-supervised start on the bags' own images; several readings of the bags, put together, learned anew",
            _census,
            census.train,
        ),
    )
}


def choose(name: str, task: TaskInfo) -> tuple[Plan, str]:
    """A recipe's plan and, for `default`, why it was chosen."""
    reason = ""
    if name == DEFAULT:
        name, reason = _default(task)
    if name not in RECIPES:
        raise unknown_name("recipe", name, [DEFAULT, *RECIPES])
    return RECIPES[name].plan(task), f"recipe {name}{reason}"


def _default(task: TaskInfo) -> tuple[str, str]:
    """What measures best: docs/training.md has the figures."""
    if task.vectors:
        return "census", " (chosen for vectors)"
    if task.tiny:
        return "census", " (chosen for images of {}x{})".format(*task.shape[:2])
    if not task.on_gpu:
        return "quick", " (chosen for images on a CPU)"
    if known_source(task.source) is None:
        return "census", " (chosen for images on a GPU, here of an unknown kind: --like SOURCE may help)"
    return "census", " (chosen for images on a GPU)"
