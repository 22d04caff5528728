"""Recipes are fixed plans: what they hold is what the docs say, and `default` says what it chose."""

import re
import runpy
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from majority import InputError, Recipe, Settings, register, train
from majority.files import read_json
from majority.io.benchmarks.catalogue import known_of
from majority.recipes import RECIPES, Plan, Stage, TaskInfo, find_recipe
from majority.run.config import RunConfig
from majority.run.experiment import finished_result
from majority.run.folder import read_config
from majority.run.plan import check_config
from majority.run.report.page import report_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_recipe.py"


def run_small(folder, method="count", **options):
    return train("digits", bags=20, bag_size=8, method=method, **options, verbose=False, out=folder).result


def test_augmentation_follows_the_source():
    def augment(source):
        return find_recipe("augmented").plan_for(TaskInfo(source, **known_of(source))).training.augment

    assert augment("cifar10") == ("flip", "crop")
    assert augment("svhn") == augment("my scans") == ("crop",)
    assert "rotate90" in augment("pathmnist")


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("trainig.epochs", "did you mean training.epochs?"),
        ("training.patiense", "did you mean training.patience?"),
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
    with pytest.raises(InputError, match=r"no setting twice\.speed: did you mean twice\.again\.seed"):
        run_small(tmp_path / "other", recipe="twice", settings={"twice.speed": 1})
    del RECIPES["twice"]  # as in a process that does not run its file
    assert "<dt>rounds</dt><dd>2 &lt; 3</dd>" in report_run(run, "cpu").read_text()


@pytest.mark.parametrize("name", ["default", "a/b"])
def test_reserved_and_odd_names_are_refused(name):
    with pytest.raises(InputError, match="recipe"):
        register(Recipe(name))
    assert name not in RECIPES


@pytest.mark.usefixtures("registries")
def test_the_example_of_an_own_recipe_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert re.fullmatch(
        r"of stage (first|second), validation loss .*; instance accuracy 0\.\d+\n", capsys.readouterr().out
    )


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(("method", "sees"), [("count", False), ("supervised", True)])
def test_stages_get_instance_labels_only_for_reference_methods(method, sees, tmp_path):
    seen = []

    def train(run, model):
        seen.extend(bags.instance_labels is not None for bags in (run.train, run.val))
        return run.fit(model)

    register(Recipe("seen", lambda task, plan: [Stage("only", Settings(epochs=1), train=train)]))
    run_small(tmp_path / "run", method=method, recipe="seen")
    assert seen == [sees, sees]
