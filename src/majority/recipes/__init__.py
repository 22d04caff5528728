"""Recipes: fixed, documented plans by name. A run is repeated from the plan that its folder holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from ..bags import Bags
from ..errors import InputError
from ..training import Settings


@dataclass(frozen=True)
class Plan:
    recipe: str
    backbone: str = "auto"
    pixels: str = "data"
    training: Settings = field(default_factory=Settings)

    def as_dict(self) -> dict:
        return asdict(self)

    def changed(self, backbone: str | None = None, **training) -> Plan:
        """This plan with what the caller set (None: as planned)."""
        training = {name: value for name, value in training.items() if value is not None}
        return replace(self, backbone=backbone or self.backbone, training=replace(self.training, **training))


@dataclass(frozen=True)
class Recipe:
    about: str
    plan: Plan


RECIPES = {
    "quick": Recipe(
        "small data on a CPU: cnn or mlp, AdamW, cosine, 60 epochs, no augmentation",
        Plan("quick", training=Settings()),
    ),
}
DEFAULT = "default"


def choose(name: str, train: Bags) -> tuple[Plan, str]:
    """A recipe's plan and, for `default`, why it was chosen."""
    if name == DEFAULT:
        return RECIPES["quick"].plan, "recipe default: quick (the only one yet)"
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}: take one of {', '.join([DEFAULT, *RECIPES])}")
    return RECIPES[name].plan, f"recipe {name}"
