"""Recipes: documented lists of stages by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ..data.bags import Bags
from ..descriptions import DEFAULT_RECIPE as DEFAULT
from ..descriptions import RECIPES as ABOUT
from ..errors import InputError
from ..nn.methods import AUTO, DEFAULT_METHOD, METHODS, sees_instance_labels
from ..nn.model import Model, build_model
from ..registry import Registry, register
from . import census, forest, mpem, quick, single
from .losses import LOSSES
from .plan import Plan, TaskInfo
from .running import Trained, run_again, run_stages, temporary_files
from .stages import Run, Stage
from .wrong_labels import corrected, train_without_wrong_labels

__all__ = [
    "DEFAULT",
    "RECIPES",
    "Plan",
    "Recipe",
    "Run",
    "Stage",
    "TaskInfo",
    "Trained",
    "find_recipe",
    "model_builder",
    "temporary_files",
    "train_by_plan",
]

KINDS = (TaskInfo(), TaskInfo(shape=(64,)), TaskInfo(on_gpu=False), TaskInfo(shape=(8, 8, 1)))  # of instances


@dataclass(frozen=True)
class Recipe:
    """How to train: `stages` lists what is trained with the settings that `plan` gives.

    >>> from majority.recipes import RECIPES, TaskInfo
    >>> RECIPES["quick"].plan_for(TaskInfo()).training.epochs
    40
    """

    name: str
    stages: Callable[[TaskInfo, Plan], list[Stage]] = single.one_training
    about: str = ""
    plan: Callable[[TaskInfo], Plan] = single.plan  # the settings that are changed by name
    methods: tuple[str, ...] = ()  # that it works with, the default first; (): all
    losses: Callable[[TaskInfo], tuple[str, ...]] = lambda task: ()  # the methods that it weighs if none is named
    refits_by_default: bool = False  # whether bags of your own are trained on once more, all of them
    uses_instance_labels: bool = True  # whether its stages learn the `training_labels` that bags may have

    def plan_for(self, task: TaskInfo) -> Plan:
        return replace(self.plan(task), recipe=self.name)

    def check_settings(self, settings: dict[str, Any], seed: int = 0) -> Plan:
        """Refuse settings that no kind of instances has, before the bags are known."""
        errors = []
        for task in KINDS:
            try:
                return self.plan_for(task).with_seed(seed).with_settings(settings)
            except InputError as error:
                errors.append(error)
        raise errors[0]

    def task_for(self, task: TaskInfo, method: str, build: Callable[..., Model]) -> TaskInfo:
        """The task with what this method adds; `build` is a `model_builder`."""
        spec, losses = build().spec, self.losses(task) if method == AUTO else ()
        finds_share = spec.background is not None and spec.background.share is None
        return task._replace(finds_share=finds_share, own_module=spec.backbone is None, losses=losses)

    def resolve_method(self, name: str, task: TaskInfo) -> str:
        """What `auto` stands for: itself if this recipe weighs what several learn, else its default method."""
        return name if self.losses(task) else self.first_method(name)

    def first_method(self, name: str) -> str:
        """Of the first network."""
        return name if name != AUTO else (*self.methods, DEFAULT_METHOD)[0]

    def check_method(self, name: str) -> None:
        if name != AUTO and METHODS.find(name).name not in (self.methods or METHODS):
            able = " or ".join(self.methods)
            raise InputError(f"recipe {self.name} does not work with method {name}: use method {able}")

    def check_instance_labels(self, method: str) -> None:
        """Refuse what cannot learn the labels of some instances."""
        if sees_instance_labels(method) or not self.uses_instance_labels:
            what = f"recipe {self.name} with method {method} cannot learn a part of them"
            raise InputError(f"instance labels: {what}: use another recipe or method, or leave them out")


RECIPES: Registry[Recipe] = Registry("recipe", Recipe, reserved=(DEFAULT, "recipe", "backbone", "pixels", "training"))
for recipe in (
    Recipe("quick", quick.stages, losses=quick.losses),
    Recipe("paper", plan=single.paper),
    Recipe("augmented", plan=single.augmented),
    Recipe("mpem", mpem.stages, plan=mpem.plan, methods=mpem.METHODS, uses_instance_labels=False),
    Recipe("forest", forest.stages, plan=forest.plan, methods=(forest.METHOD,), uses_instance_labels=False),
    Recipe("census", census.stages, plan=census.plan, losses=lambda task: LOSSES, refits_by_default=True),
):
    register(replace(recipe, about=ABOUT[recipe.name]))


def find_recipe(name: str) -> Recipe:
    """The recipe of this name, the package's or your own. The default is `census`.

    >>> find_recipe("paper").plan_for(TaskInfo("cifar10")).training.epochs
    1500
    """
    return RECIPES.find("census" if name == DEFAULT else name, f", {DEFAULT}")


def model_builder(
    plan: Plan, method: str, train: Bags, backbone: nn.Module | None = None, **options: Any
) -> Callable[..., Model]:
    """A function that makes networks of the plan by seed, each with a copy of the `backbone` if one is given.

    The statistics of the instances are computed only once.
    """
    first = RECIPES[plan.recipe].first_method(method)

    def build(seed: int = 0, method: str | None = None) -> Model:
        network = plan.backbone if backbone is None else copy.deepcopy(backbone)
        model = build_model(train, method or first, network, seed=seed, **options)
        options["normalise"] = model.normalise
        return model

    return build


def train_by_plan(run: Run, method: str, chosen: Trained | None = None) -> Trained:
    """Train as the plan of the run says; its `build` is a `model_builder`. With a folder, an interrupted training
    continues there.

    With what an earlier training has `chosen`, nothing is validated: the training bags may then be all bags. Stages get
    no instance labels, unless the method is a reference method.
    """
    recipe = RECIPES[run.plan.recipe]
    sees_all = sees_instance_labels(recipe.first_method(method))
    if not sees_all:
        train = run.train.without_instance_labels()
        run = replace(run, train=train, val=train if run.val is run.train else run.val.without_instance_labels())
    run = replace(run, task=recipe.task_for(run.task.with_bags(run.train), method, run.build))
    if chosen is not None:
        return run_again(chosen, corrected(run, chosen.about.get("wrong_labels", {})))

    def stages_for(run: Run) -> list[Stage]:
        return recipe.stages(run.task, run.plan)

    if run.plan.assumed_wrong == 0 or sees_all:
        return run_stages(stages_for(run), run)
    return train_without_wrong_labels(run, stages_for)
