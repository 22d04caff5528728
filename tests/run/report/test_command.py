"""The command on a report page that repeats the run."""

import pytest

from majority.recipes import RECIPES, TaskInfo
from majority.run.config import RunConfig
from majority.run.record import Environment, PlanRecord, RunRecord, Task
from majority.run.report.command import train_command

GPU = TaskInfo("cifar10", labelled_bags=400)


def record_of(source="digits", recipe="quick", task=GPU, refit=False, settings=None, **options):
    """Of a run whose settings were `settings`; those of `options` are asked for."""
    config = RunConfig.from_options(source, **{"method": "count", "recipe": recipe} | options)
    plan = RECIPES[recipe].plan_for(task).with_seed(config.seed).with_settings(config.plan_settings | (settings or {}))
    return RunRecord(
        run=config,
        method=config.method,
        refit=refit,
        fingerprint=[],
        plan=PlanRecord.model_validate(plan.as_dict()),
        task=Task.model_validate(task._asdict(), strict=False),
        planned_epochs=1,
        source_path=None,
        encoder=None,
        images=None,
        embedding=None,
        environment=Environment(majority="1", torch="2", device="cpu"),
    )


def test_options_are_repeated_and_settings_use_their_short_names():
    settings = {"training.weight_decay": 0.1, "training.compile": True, "training.patience": None}
    words = train_command(record_of(epochs=2, backbone="cnn", settings=settings, ties="error", with_replacement=True))
    assert words.startswith("majority train digits --method count --recipe quick")
    for option in ("--backbone cnn", "--epochs 2", "--compile", "--set training.weight_decay=0.1", "--ties error"):
        assert words.count(option) == 1
    assert words.count("--set") == 1


def test_a_plan_of_the_recipe_is_repeated_by_options_alone():
    words = train_command(record_of("cifar10", "census", seed=3))
    assert words.startswith("majority train cifar10 --method count --recipe census --seed 3")
    assert "--epochs 80 --backbone resnet18-small" in words, "which the recipe chooses by the device"
    assert "--set" not in words


def test_a_run_whose_recipe_has_changed_since_is_repeated_with_the_settings_of_the_run():
    settings = {"census.pretrain.epochs": 123, "census.head.epochs": 7, "training.learning_rate": 0.5}
    words = train_command(record_of("cifar10", "census", settings=settings))
    for option in ("--set census.pretrain.epochs=123", "--set census.head.epochs=7", "--learning-rate 0.5"):
        assert option in words
    assert words.count("--set") == 2


@pytest.mark.parametrize(
    ("recipe", "more", "refit", "option"),
    [
        ("census", {}, True, "--refit"),
        ("census", {}, False, "--no-refit"),
        ("census", {"folds": 5}, False, None),
        ("census", {"source": "digits"}, False, None),
        ("quick", {}, True, "--refit"),
        ("quick", {}, False, None),
    ],
)
def test_a_second_training_is_repeated_or_left_out(recipe, more, refit, option):
    words = train_command(record_of(**{"source": "a.csv"} | more, recipe=recipe, refit=refit)).split()
    assert [word for word in words if "refit" in word] == ([option] if option else [])
