"""The command on a report page that repeats the run."""

import json

import pytest

from majority.errors import InputError
from majority.recipes import RECIPES, TaskInfo
from majority.run.report.command import train_command


def config_of(source="digits", **more):
    return {"method": "count", "method_options": {}, "data": {"source": source}, "plan": {"recipe": "quick"}} | more


def config_of_plan(plan, task):
    plan = json.loads(json.dumps(plan.as_dict()))
    return config_of(data={"source": "cifar10", "scenario": "small"}, plan=plan, task=task._asdict())


def test_data_and_method_options_are_repeated():
    data = {"source": "a.csv", "features": ["x", "y"], "with_replacement": True, "fold": 0, "ties": None}
    config = config_of(data=data, method="vote", method_options={"of": "counts"})
    expected = "majority train a.csv --method vote --recipe quick --features x,y --with-replacement --fold 0"
    assert train_command(config) == f"{expected} --option of=counts"
    data["features"] = ["x, cm", "y"]
    assert """ --features '"x, cm",y' """ in train_command(config)


def test_settings_with_a_shorthand_use_it():
    settings = {"training.epochs": 2, "backbone": "cnn", "training.weight_decay": 0.1, "training.compile": True}
    words = train_command(config_of(settings=settings))
    assert words.startswith("majority train digits --method count --recipe quick")
    for option in ("--backbone cnn", "--epochs 2", "--compile", "--set training.weight_decay=0.1"):
        assert words.count(option) == 1
    assert words.count("--set") == 1


def test_a_setting_that_is_switched_off_is_repeated():
    settings = {"training.compile": False, "training.patience": None}
    words = train_command(config_of(settings=settings))
    assert "--set training.compile=false" in words
    assert "--set training.patience=null" in words


def test_a_plan_of_the_recipe_is_repeated_by_options_alone():
    task = TaskInfo("cifar10")
    config = config_of_plan(RECIPES["census"].plan_for(task).with_seed(3), task)
    words = train_command(config)
    assert words.startswith("majority train cifar10 --method count --recipe census --seed 3")
    assert "--backbone resnet18-small --epochs 80" in words, "which the recipe chooses by the device"
    assert "--set" not in words


@pytest.mark.parametrize(
    ("recipe", "more", "refit", "option"),
    [
        ("census", {}, True, "--refit"),
        ("census", {}, False, "--no-refit"),
        ("census", {"folds": 5}, False, None),
        ("census", {"scenario": "small"}, False, None),
        ("quick", {}, True, "--refit"),
        ("quick", {}, False, None),
    ],
)
def test_a_second_training_is_repeated_or_left_out(recipe, more, refit, option):
    words = train_command(config_of(data={"source": "a.csv", **more}, plan={"recipe": recipe}, refit=refit)).split()
    assert [word for word in words if "refit" in word] == ([option] if option else [])


def test_an_unknown_fact_about_the_task_is_one_message():
    task = TaskInfo("cifar10")
    config = config_of_plan(RECIPES["census"].plan_for(task), task)
    config["task"] |= {"colour": "red"}
    with pytest.raises(InputError, match=r"config\.json.*task\.colour"):
        train_command(config)


def test_a_run_whose_recipe_has_changed_since_is_repeated_with_the_settings_of_the_run():
    task = TaskInfo("cifar10")
    settings = {"census.pretrain.epochs": 123, "census.head": None, "training.learning_rate": 0.5}
    config = config_of_plan(RECIPES["census"].plan_for(task).with_settings(settings), task)
    words = train_command(config)
    for option in ("--set census.pretrain.epochs=123", "--set census.head=null", "--learning-rate 0.5"):
        assert option in words
    assert words.count("--set") == 2
