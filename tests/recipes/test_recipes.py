"""Recipes are fixed plans: what they hold is what the docs say, and `default` says what it chose."""

import pytest

from majority import InputError
from majority.recipes import RECIPES, TaskInfo, choose


def test_paper_is_the_published_protocol():
    plan, said = choose("paper", TaskInfo("cifar10"))
    training = plan.training
    assert (plan.backbone, plan.pixels) == ("resnet18", "published")
    assert (training.optimizer, training.learning_rate, training.schedule) == ("adam", 3e-4, "constant")
    assert (training.epochs, training.batch_bags, training.augment, training.patience) == (1500, 64, (), None)
    assert said == "recipe paper"


@pytest.mark.parametrize(
    ("source", "shape", "on_gpu", "chosen"),
    [
        ("mine", (64,), True, "census"),
        ("mine", (64,), False, "census"),
        ("mine", (8, 8, 1), True, "census"),
        ("mine", (8, 8, 1), False, "census"),
        ("mine", (90, 8, 1), False, "census"),
        ("pathmnist", (28, 28, 3), True, "census"),
        ("mine", (32, 32, 3), True, "census"),
        ("pathmnist", (28, 28, 3), False, "quick"),
    ],
)
def test_default_chooses_by_data_and_hardware_and_says_so(source, shape, on_gpu, chosen):
    plan, said = choose("default", TaskInfo(source, shape, on_gpu))
    assert plan.recipe == chosen
    assert said.startswith(f"recipe {chosen} (chosen for ")
    assert ("--like SOURCE" in said) == ((source, shape, on_gpu) == ("mine", (32, 32, 3), True))


def test_augmentation_follows_the_source():
    assert choose("augmented", TaskInfo("cifar10"))[0].training.augment == ("flip", "crop")
    assert choose("augmented", TaskInfo("svhn28"))[0].training.augment == ("crop",)
    assert "rotate90" in choose("augmented", TaskInfo("pathmnist"))[0].training.augment


@pytest.mark.parametrize("recipe", ["augmented", "census"])
def test_large_images_are_halved_before_they_are_read(recipe):
    backbone = lambda side: RECIPES[recipe].plan(TaskInfo("mine", (side, side, 3))).backbone
    assert [backbone(side) for side in (28, 64, 65, 224)] == ["resnet18-small"] * 2 + ["resnet18"] * 2


def test_what_is_not_set_yet_takes_any_value_that_the_plan_allows():
    plan = RECIPES["quick"].plan(TaskInfo("digits"))
    changed = plan.with_settings(
        {"training.compile": True, "training.patience": 3, "training.weight_decay": 0}
    ).training
    assert (changed.compile, changed.patience, changed.weight_decay) == (True, 3, 0)


def test_a_plan_is_changed_by_what_was_set_alone():
    plan = RECIPES["quick"].plan(TaskInfo("digits"))
    assert plan.changed() == plan
    changed = plan.changed("cnn", epochs=3, patience=None)
    assert (changed.backbone, changed.training.epochs, changed.training.batch_bags) == ("cnn", 3, 16)


def test_a_seed_and_compilation_are_those_of_every_stage():
    planned = RECIPES["census"].plan(TaskInfo("cifar10"))
    changed = planned.changed(seed=7, compile=False, epochs=3)
    stages = (changed.training, changed.census.start, changed.census.head)
    assert [(stage.seed, stage.compile) for stage in stages] == [(7, False)] * 3
    epochs = (3, planned.census.start.epochs, planned.census.head.epochs)
    assert tuple(stage.epochs for stage in stages) == epochs, "only the training's are given"


def test_a_plan_changes_images_where_any_stage_does():
    census = RECIPES["census"].plan(TaskInfo("cifar10"))
    assert census.with_settings({"training.augment": []}).changes_images
    assert not census.with_settings({"training.augment": [], "census.start": None}).changes_images


def test_an_unknown_recipe_is_named():
    with pytest.raises(InputError, match="there is no recipe 'soup': take one of default, quick"):
        choose("soup", TaskInfo("mine"))
