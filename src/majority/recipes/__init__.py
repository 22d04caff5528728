"""Recipes by name: fixed, documented plans, trained once or in stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..augment import lawful
from ..bags import Bags
from ..errors import InputError
from ..methods import METHODS, Head, find_method
from ..methods.count import Count
from ..model import TINY_IMAGE
from ..training import Settings
from . import mpem
from .plans import Plan
from .stages import Run, Trained, once, scaffold

__all__ = ["DEFAULT", "RECIPES", "Plan", "Recipe", "Run", "Trained", "choose", "scaffold"]

DEFAULT = "default"


@dataclass(frozen=True)
class Recipe:
    name: str
    about: str
    plan: Callable[[str], Plan]  # of the source's name: what may be done to its images depends on it
    train: Callable[[Run], Trained] = once
    head: type[Head] = Head  # of the methods that it builds on

    def check_method(self, name: str) -> None:
        if not issubclass(find_method(name).head, self.head):
            able = [method.name for method in METHODS.values() if issubclass(method.head, self.head)]
            raise InputError(f"recipe {self.name} does not build on {name}: take --method {' or '.join(able)}")


def _quick(source: str) -> Plan:
    return Plan("quick")


def _paper(source: str) -> Plan:
    training = Settings(
        epochs=1500, batch_bags=64, optimizer="adam", learning_rate=3e-4, schedule="constant", precision="bf16"
    )
    return Plan("paper", "resnet18", "published", training)


def _mpem(source: str) -> Plan:
    return replace(_paper(source), recipe="mpem", ratios=tuple(tenths / 10 for tenths in range(1, 11)))


def _augmented(source: str) -> Plan:
    allowed = lawful(source)
    training = Settings(
        epochs=100,
        batch_bags=32,
        learning_rate=5e-4,
        weight_decay=5e-2,
        warmup_epochs=5,
        augment=tuple(name for name in ("flip", "rotate90", "crop") if name in allowed),
        precision="bf16",
    )
    return Plan("augmented", "resnet18-small", "data", training)


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
    )
}


def choose(name: str, train: Bags, source: str, on_gpu: bool) -> tuple[Plan, str]:
    """A recipe's plan and, for `default`, why it was chosen."""
    reason = ""
    if name == DEFAULT:
        name, reason = _default(train, on_gpu)
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}: take one of {', '.join([DEFAULT, *RECIPES])}")
    return RECIPES[name].plan(source), f"recipe {name}{reason}"


def _default(train: Bags, on_gpu: bool) -> tuple[str, str]:
    shape = train.store.shape[1:]
    if len(shape) == 1:
        return "quick", " (chosen for vectors)"
    if min(shape[:2]) <= TINY_IMAGE:
        return "quick", f" (chosen for images of {shape[0]}x{shape[1]})"
    return ("augmented", " (chosen for images on a GPU)") if on_gpu else ("quick", " (chosen for images on a CPU)")
