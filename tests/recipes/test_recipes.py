"""Recipes are fixed plans: what they hold is what the docs say, and `default` says what it chose."""

import re
import runpy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from majority import InputError, Recipe, Settings, register, train
from majority.files import read_json
from majority.io import Parts, load
from majority.io.benchmarks.known_images import known_of
from majority.recipes import RECIPES, Plan, Stage, TaskInfo, choose_plan, model_builder, train_by_plan
from majority.run.config import RunConfig
from majority.run.experiment import finished_result
from majority.run.folder import read_config
from majority.run.plan import check_config
from majority.run.run_report import report_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_recipe.py"


def run_small(folder, method="count", **options):
    return train("digits", bags=20, bag_size=8, method=method, **options, verbose=False, out=folder).result


def test_paper_is_the_published_protocol():
    plan, reason = choose_plan("paper", TaskInfo("cifar10"))
    training = plan.training
    assert (plan.backbone, plan.pixels) == ("resnet18", "published")
    assert (training.optimizer, training.learning_rate, training.schedule) == ("adam", 3e-4, "constant")
    assert (training.epochs, training.batch_bags, training.augment, training.patience) == (1500, 64, (), None)
    assert reason == "recipe paper"


def test_augmentation_follows_the_source():
    def augment(source):
        return choose_plan("augmented", TaskInfo(source, **known_of(source)))[0].training.augment

    assert augment("cifar10") == ("flip", "crop")
    assert augment("svhn") == augment("my scans") == ("crop",)
    assert "rotate90" in augment("pathmnist")


def test_settings_change_what_they_name_and_nothing_else():
    plan = RECIPES["quick"].plan_for(TaskInfo("digits"))
    assert plan.with_settings({}) == plan
    changed = plan.with_settings({"backbone": "cnn", "training.epochs": 3})
    assert (changed.backbone, changed.training.epochs, changed.training.batch_bags) == ("cnn", 3, 16)
    assert changed.with_settings({"backbone": "auto", "training.epochs": 40}) == plan


def test_a_seed_applies_to_every_stage():
    planned = RECIPES["census"].plan_for(TaskInfo("cifar10"))
    changed = planned.with_seed(7)
    assert [stage.seed for stage in (changed.training, changed.own.pretrain, changed.own.head)] == [7] * 3
    assert changed.with_seed(0) == planned


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("assumed_wrng", "did you mean assumed_wrong?"),
        ("epoch", "did you mean training.epochs?"),
        ("trainig.epochs", "did you mean training.epochs?"),
        ("training.patiense", "did you mean patience?"),
        ("nonsense", "assumed_wrong"),  # in the list of all
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_a_near_name_or_all_names(name, fact):
    with pytest.raises(InputError) as error:
        check_config(RunConfig.from_options("mine.csv", recipe="quick", settings={name: 1}))
    assert name in str(error.value)
    assert fact in str(error.value)


@dataclass(frozen=True)
class TwiceSettings:
    again: Settings = field(default_factory=lambda: Settings(epochs=2))
    share: float = 0.5


def twice(task, plan):
    def note(run):
        return {"share": run.plan.own.share, "kept": "again", "lines": {"rounds": "2 < 3"}, "warnings": ["careful"]}

    return [
        Stage("first", plan.training),
        Stage("again", plan.own.again, inputs=("first",)),
        Stage("note", inputs=("again",), choose=note),
    ]


@pytest.mark.usefixtures("registries")
def test_a_recipe_of_a_user_is_a_function_that_lists_stages(tmp_path):
    """Registered by the same call as ours: its settings can be set by name, its stages resume, its epochs are known,
    and what it chooses is in the report."""
    register(Recipe("twice", twice, "twice", lambda task: Plan(training=Settings(epochs=1), own=TwiceSettings())))
    settings = {"twice.again.epochs": 3, "twice.share": 0.25}
    options, run = {"recipe": "twice", "seed": 5, "settings": settings}, tmp_path / "run"
    result = run_small(run, **options)
    config = read_json(run / "config.json")
    assert (config["plan"]["twice"]["again"]["epochs"], config["plan"]["twice"]["again"]["seed"]) == (3, 5)
    assert config["planned_epochs"] == 4
    assert (result["epochs"], result["share"], list(result["stages"])) == (3, 0.25, ["first", "again"])
    assert finished_result(read_config(run).run, run) == run_small(run, **options) == result
    page, card = (run / "report.html").read_text(), (run / "model-card.md").read_text()
    assert "<dt>rounds</dt><dd>2 &lt; 3</dd>" in page
    assert "Caution: careful." in page
    assert "- rounds: 2 < 3\n" in card
    assert "<dt>method</dt><dd>count</dd>" in page
    with pytest.raises(InputError, match=r"twice\.speed: twice has again, share"):
        run_small(tmp_path / "other", recipe="twice", settings={"twice.speed": 1})
    del RECIPES["twice"]  # as in a process that does not run its file
    assert "<dt>rounds</dt><dd>2 &lt; 3</dd>" in report_run(run, "cpu").read_text()


@pytest.mark.parametrize("name", ["default", "training", "a/b", ""])
def test_reserved_and_odd_names_are_refused(name):
    with pytest.raises(InputError, match="recipe"):
        register(Recipe(name))
    assert name not in RECIPES


def test_settings_take_numbers_of_numpy_and_refuse_wrong_types():
    plan = RECIPES["quick"].plan_for(TaskInfo("digits"))
    assert plan.with_settings({"training.epochs": np.int64(3), "training.learning_rate": 1}).training.epochs == 3
    for name, value in {"training.epochs": True, "training.learning_rate": "fast", "training.drop_last": 1}.items():
        with pytest.raises(InputError, match=name.replace(".", r"\.")):
            plan.with_settings({name: value})
    with pytest.raises(InputError, match=r"training\.epochs is 40 and has no settings"):
        plan.with_settings({"training.epochs.x": 1})
    with pytest.raises(InputError, match=r"use --recipe mpem|need --recipe census"):
        plan.with_settings({"census.teachers": 1})


@pytest.mark.parametrize("method", ["count", "auto"])
@pytest.mark.parametrize("source", ["vectors", "no bag of a class", "tiny"])
def test_census_plans_as_many_epochs_as_it_trains(source, method):
    """What a study's progress shows is what is trained, also where the bags cannot have a head."""
    parts = load("digits").make_parts(bags=20, bag_size=8)
    if source != "tiny":
        flat = parts.train.store.reshape(len(parts.train.store), -1).astype(np.float32)
        parts = Parts(*(part._with(store=flat) for part in parts))
    if source == "no bag of a class":
        parts = parts._replace(train=parts.train.subset(parts.train.labels > 0))
    task, recipe = TaskInfo.of(parts.train), RECIPES["census"]
    settings = {"training.epochs": 2, "census.teacher_epochs": 1, "census.teachers": 2, "assumed_wrong": 0}
    settings |= {} if source == "tiny" else {"census.head.epochs": 3}
    plan = recipe.plan_for(task).with_settings(settings)
    build = model_builder(plan, method, parts.train)
    trained = train_by_plan(plan, method, parts.train, parts.val, build, task=task, device="cpu")
    planned = sum(stage.epochs for stage in recipe.stages_for(task, plan, method, build))
    assert planned == sum(fitted.epochs for fitted in trained.trainings.values())


@pytest.mark.usefixtures("registries")
def test_the_example_of_an_own_recipe_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert re.fullmatch(
        r"of stage (first|second), validation loss .*; instance accuracy 0\.\d+\n", capsys.readouterr().out
    )
