"""Recipes: documented plans by name, of one training or of several stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..data.bags import Bags
from ..descriptions import DEFAULT_RECIPE as DEFAULT
from ..descriptions import RECIPES as ABOUT
from ..errors import InputError
from ..methods import AUTO, DEFAULT_METHOD, METHODS, Head
from ..methods.count import Count
from ..plugins import Registry, register
from . import census, mpem, single
from .label_preserving import known_source
from .losses import LOSSES
from .plan import Plan, TaskInfo
from .stages import Run, Trained, temporary_files, train_once

__all__ = ["DEFAULT", "RECIPES", "Plan", "Recipe", "Run", "TaskInfo", "Trained", "choose", "temporary_files"]


def _epochs_of_one_training(plan: Plan, train: Bags) -> int:
    return plan.training.epochs


@dataclass(frozen=True)
class Recipe:
    """How to train: `plan` says with which settings, `train` does it."""

    name: str
    about: str
    plan: Callable[[TaskInfo], Plan]
    train: Callable[[Run], Trained] = train_once
    head: type[Head] = Head  # the methods it works with have a head of this class
    planned_epochs: Callable[..., int] = _epochs_of_one_training  # in all stages together
    losses: tuple[str, ...] = ()  # the methods that it weighs if none is named; `planned_epochs` takes their number

    def plan_for(self, task: TaskInfo) -> Plan:
        """The plan, checked to be this recipe's: it is the name by which a run finds how to train."""
        plan = self.plan(task)
        if plan.recipe != self.name:
            raise InputError(f"recipe {self.name} gives a plan of {plan.recipe!r}: give Plan({self.name!r}, ...)")
        return plan

    def epochs(self, plan: Plan, train: Bags, method: str) -> int:
        """The number of epochs in all stages."""
        if method == AUTO:
            return self.planned_epochs(plan, train, len(self.losses))
        return self.planned_epochs(plan, train)

    def method(self, name: str) -> str:
        """What `auto` stands for: itself if this recipe weighs several losses, else the default method."""
        return DEFAULT_METHOD if name == AUTO and not self.losses else name

    def check_method(self, name: str) -> None:
        name = self.method(name)
        if name == AUTO:
            return
        if not issubclass(METHODS.find(name).head, self.head):
            able = [method.name for method in METHODS.values() if issubclass(method.head, self.head)]
            raise InputError(f"recipe {self.name} does not work with method {name}: use --method {' or '.join(able)}")


RECIPES: Registry[Recipe] = Registry("recipe", Recipe, reserved=(DEFAULT, "recipe", "backbone", "pixels", "training"))
for recipe in (
    Recipe("quick", ABOUT["quick"], single.quick),
    Recipe("paper", ABOUT["paper"], single.paper),
    Recipe("augmented", ABOUT["augmented"], single.augmented),
    Recipe("mpem", ABOUT["mpem"], mpem.plan, mpem.train, Count, mpem.planned_epochs),
    Recipe("census", ABOUT["census"], census.plan, census.train, planned_epochs=census.planned_epochs, losses=LOSSES),
):
    register(recipe)


def choose(name: str, task: TaskInfo) -> tuple[Plan, str]:
    """The plan of a recipe and, for `default`, why it was chosen."""
    reason = ""
    if name == DEFAULT:
        name, reason = _default_recipe(task)
    return find_recipe(name).plan_for(task), f"recipe {name}{reason}"


def find_recipe(name: str) -> Recipe:
    return RECIPES.find(name, f", {DEFAULT}")


def _default_recipe(task: TaskInfo) -> tuple[str, str]:
    """The recipe that measures best, and the reason that is printed."""
    if task.vectors:
        return "census", " (chosen for vectors)"
    if task.tiny:
        return "census", " (chosen for images of {}x{})".format(*task.shape[:2])
    if not task.on_gpu:
        return "quick", " (chosen for images on a CPU)"
    if known_source(task.source) is None:
        return (
            "census",
            " (chosen for images on a GPU; the bags choose how images are augmented, which --like SOURCE skips)",
        )
    return "census", " (chosen for images on a GPU)"
