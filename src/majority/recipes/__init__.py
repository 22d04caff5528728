"""Recipes: documented plans by name, of one training or of several stages."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from ..data.bags import Bags
from ..descriptions import DEFAULT_RECIPE as DEFAULT
from ..descriptions import RECIPES as ABOUT
from ..errors import InputError
from ..log import Log, no_log
from ..losses import BagLoss, CountLoss
from ..nn.heads import Head
from ..nn.methods import AUTO, DEFAULT_METHOD, METHODS, Method, sees_instance_labels
from ..nn.model import Model, build_model
from ..registry import Registry, load_plugins, register
from ..training.callbacks import Callback
from . import census, mpem, single
from .census.description import describe as describe_census
from .description import DamagedResultError, ResultDescription, describe_nothing
from .label_preserving import known_sources
from .losses import LOSSES
from .plan import Plan, TaskInfo
from .stages import Chosen, Run, Trained, temporary_files, train_once
from .wrong_labels import describe_wrong_labels, train_without_wrong_labels

__all__ = [
    "DEFAULT",
    "RECIPES",
    "Chosen",
    "Plan",
    "Recipe",
    "ResultDescription",
    "Run",
    "TaskInfo",
    "Trained",
    "choose_plan",
    "describe_result",
    "find_recipe",
    "model_builder",
    "temporary_files",
    "train_by_plan",
]


def _epochs_of_one_training(plan: Plan, train: Bags, losses: int) -> int:
    return plan.training.epochs


def _none_without_effect(plan: Plan, train: Bags, losses: int) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Recipe:
    """How to train: `plan` says with which settings, `train` does it."""

    name: str
    plan: Callable[[TaskInfo], Plan]
    about: str = ""
    train: Callable[[Run], Trained] = train_once
    kind: type[BagLoss] | type[Head] | None = None  # of the methods that it works with; None: all
    planned_epochs: Callable[[Plan, Bags, int], int] = _epochs_of_one_training  # in all stages; see `epochs`
    settings_without_effect: Callable[[Plan, Bags, int], dict[str, str]] = _none_without_effect  # see `without_effect`
    losses: tuple[str, ...] = ()  # the methods that it weighs if none is named
    can_refit: bool = False  # whether `train` follows `run.chosen`, by an earlier training, on all bags
    refits_by_default: bool = False  # whether bags of your own are trained on once more, all of them
    uses_instance_labels: bool = False  # whether `train` learns the `training_labels` that bags may have
    describe: Callable[[Mapping[str, Any]], ResultDescription] = describe_nothing  # of result.json, for the report

    def plan_for(self, task: TaskInfo) -> Plan:
        """The plan, checked to be this recipe's: it is the name by which a run finds how to train."""
        plan = self.plan(task)
        if plan.recipe != self.name:
            raise InputError(f"recipe {self.name} gives a plan of {plan.recipe!r}: give Plan({self.name!r}, ...)")
        return plan

    def epochs(self, plan: Plan, train: Bags, method: str) -> int:
        """The number of epochs in all stages. `planned_epochs` and `settings_without_effect` also get the number of
        methods that are weighed: 0 if one is named."""
        return self.planned_epochs(plan, train, self._number_of_losses(method))

    def without_effect(self, plan: Plan, train: Bags, method: str) -> dict[str, str]:
        """The settings that have no effect in this plan for these bags, each with the reason."""
        return self.settings_without_effect(plan, train, self._number_of_losses(method))

    def _number_of_losses(self, method: str) -> int:
        return len(self.losses) if method == AUTO else 0

    def resolve_method(self, name: str) -> str:
        """What `auto` stands for: itself if this recipe weighs several losses, else the default method, or the first
        one that the recipe works with."""
        if name != AUTO or self.losses:
            return name
        return DEFAULT_METHOD if DEFAULT_METHOD in self._supported_methods() else self._supported_methods()[0]

    def _supported_methods(self) -> list[str]:
        """The methods that this recipe works with."""
        return [method.name for method in METHODS.values() if self._supports(method)]

    def _supports(self, method: Method) -> bool:
        return self.kind is None or issubclass(method.kind, self.kind)

    def check_instance_labels(self, method: str) -> None:
        """Refuse what cannot learn the labels of some instances."""
        if sees_instance_labels(method):
            raise InputError(
                f"instance labels: method {method} is a reference method and sees all of them: leave them out"
            )
        if not self.uses_instance_labels:
            able = ", ".join(other.name for other in RECIPES.values() if other.uses_instance_labels)
            raise InputError(
                f"instance labels: recipe {self.name} cannot learn a part of them: use one of {able}, or leave them out"
            )

    def check_method(self, name: str) -> None:
        name = self.resolve_method(name)
        if name == AUTO:
            return
        if not self._supports(METHODS.find(name)):
            able = " or ".join(self._supported_methods())
            raise InputError(f"recipe {self.name} does not work with method {name}: use method {able}")


RECIPES: Registry[Recipe] = Registry("recipe", Recipe, reserved=(DEFAULT, "recipe", "backbone", "pixels", "training"))
for recipe in (
    Recipe("quick", single.quick, ABOUT["quick"], can_refit=True, uses_instance_labels=True),
    Recipe("paper", single.paper, ABOUT["paper"], can_refit=True, uses_instance_labels=True),
    Recipe("augmented", single.augmented, ABOUT["augmented"], can_refit=True, uses_instance_labels=True),
    Recipe("mpem", mpem.plan, ABOUT["mpem"], mpem.train, CountLoss, mpem.planned_epochs, describe=mpem.describe),
    Recipe(
        "census",
        census.plan,
        ABOUT["census"],
        census.train,
        planned_epochs=census.planned_epochs,
        settings_without_effect=census.settings_without_effect,
        losses=LOSSES,
        can_refit=True,
        refits_by_default=True,
        uses_instance_labels=True,
        describe=describe_census,
    ),
):
    register(recipe)


def choose_plan(name: str, task: TaskInfo) -> tuple[Plan, str]:
    """The plan of a recipe and, for `default`, why it was chosen."""
    reason = ""
    if name == DEFAULT:
        name, reason = _default_recipe(task)
    return find_recipe(name).plan_for(task), f"recipe {name}{reason}"


def find_recipe(name: str) -> Recipe:
    """The recipe of this name, the package's or your own.

    >>> find_recipe("paper").plan_for(TaskInfo("cifar10")).training.epochs
    1500
    """
    return RECIPES.find(name, f", {DEFAULT}")


def model_builder(
    plan: Plan, method: str, train: Bags, backbone: nn.Module | None = None, **options: Any
) -> Callable[..., Model]:
    """A function that makes networks of the plan by seed, each with a copy of the `backbone` if one is given.

    The statistics of the instances are computed only once.
    """
    recipe = RECIPES[plan.recipe]
    named = recipe.resolve_method(method)
    first = recipe.losses[0] if named == AUTO else named

    def build(seed: int = 0, method: str | None = None) -> Model:
        network = plan.backbone if backbone is None else copy.deepcopy(backbone)
        model = build_model(train, method or first, network, seed=seed, **options)
        options["normalise"] = model.normalise
        return model

    return build


def train_by_plan(
    plan: Plan,
    method: str,
    train: Bags,
    val: Bags,
    build: Callable[..., Model],
    folder: Path,
    *,
    title: str | None = None,
    device: str = "auto",
    eager: bool = False,
    log: Log = no_log,
    callbacks: Sequence[Callback] = (),
    chosen: Chosen | None = None,
) -> Trained:
    """Train in the folder as the plan says, or continue there; `build` is a `model_builder`.

    With what an earlier training has `chosen`, nothing is validated: `train` may then be all bags. Recipes get no
    instance labels, unless the method is a reference method.
    """
    recipe = RECIPES[plan.recipe]
    named = recipe.resolve_method(method)
    if not sees_instance_labels(named):
        same, train = val is train, train.without_instance_labels()
        val = train if same else val.without_instance_labels()

    def fresh_model(number: int = 0, method: str | None = None) -> Model:
        return build(run.seed_of(number), method)

    losses = recipe.losses if named == AUTO else ()
    run = Run(folder, train, val, plan, fresh_model, title, device, eager, log, callbacks, losses, chosen)
    return train_without_wrong_labels(run, recipe.train)


def describe_result(result: Mapping[str, Any]) -> ResultDescription:
    """What the recipe of a run says about its result.json; wrong labels, which any recipe may find, are the last line.

    A recipe that is not registered here, such as one of a plugin file that is not named now, says nothing. If its
    `describe` fails, a warning says so: the training is done, and the run can finish.

    >>> describe_result({"recipe": "quick", "wrong_labels": {"share": 0, "bags": 250, "corrections": {}}}).lines
    {'wrong labels': 'none are assumed among 250'}
    """
    load_plugins()
    recipe = RECIPES.get(result["recipe"])
    described = ResultDescription() if recipe is None else _describe(recipe, result)
    return replace(described, lines=described.lines | describe_wrong_labels(result))


def _describe(recipe: Recipe, result: Mapping[str, Any]) -> ResultDescription:
    try:
        described = recipe.describe(result)
        if isinstance(described, ResultDescription):
            return described
        problem = f"`describe` returns an object of type {type(described).__name__}, not a ResultDescription"
    except DamagedResultError:
        raise
    except Exception as error:
        problem = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".:")
    return ResultDescription(warnings=(f"recipe {recipe.name} could not describe its result: {problem}",))


def _default_recipe(task: TaskInfo) -> tuple[str, str]:
    """The recipe that measures best, and the reason that is printed."""
    if task.vectors:
        return "census", " (chosen for vectors)"
    if task.tiny:
        return "census", " (chosen for images of {}x{})".format(*task.shape[:2])
    if not task.on_gpu:
        return "census", " (chosen for images on a CPU: it begins with features of their patches)"
    if task.source not in known_sources():
        return (
            "census",
            " (chosen for images on a GPU; the bags choose how images are augmented, which --like SOURCE skips)",
        )
    return "census", " (chosen for images on a GPU)"
