"""Recipes are fixed plans: what they hold is what the docs say, and `default` says what it chose."""

import re
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from majority import InputError, Recipe, Settings, build_model, register, train
from majority.files import read_json
from majority.io import Parts, load
from majority.recipes import RECIPES, Plan, ResultDescription, Run, TaskInfo, Trained, choose_plan, describe_result
from majority.run.config import RunConfig
from majority.run.experiment import finished_result
from majority.run.folder import read_config
from majority.run.plan import check_config
from majority.run.run_report import report_run


def test_paper_is_the_published_protocol():
    plan, reason = choose_plan("paper", TaskInfo("cifar10"))
    training = plan.training
    assert (plan.backbone, plan.pixels) == ("resnet18", "published")
    assert (training.optimizer, training.learning_rate, training.schedule) == ("adam", 3e-4, "constant")
    assert (training.epochs, training.batch_bags, training.augment, training.patience) == (1500, 64, (), None)
    assert reason == "recipe paper"


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
        ("pathmnist", (28, 28, 3), False, "census"),
    ],
)
def test_default_chooses_by_data_and_hardware_and_says_so(source, shape, on_gpu, chosen):
    plan, reason = choose_plan("default", TaskInfo(source, shape, on_gpu))
    assert plan.recipe == chosen
    assert reason.startswith(f"recipe {chosen} (chosen for ")
    assert ("--like SOURCE" in reason) == ((source, shape, on_gpu) == ("mine", (32, 32, 3), True))


def test_augmentation_follows_the_source():
    assert choose_plan("augmented", TaskInfo("cifar10"))[0].training.augment == ("flip", "crop")
    assert choose_plan("augmented", TaskInfo("svhn"))[0].training.augment == ("crop",)
    assert "rotate90" in choose_plan("augmented", TaskInfo("pathmnist"))[0].training.augment


@pytest.mark.parametrize("recipe", ["augmented", "census"])
def test_large_images_are_halved_before_they_are_read(recipe):
    def backbone(side):
        return RECIPES[recipe].plan(TaskInfo("mine", (side, side, 3))).backbone

    assert [backbone(side) for side in (28, 64, 65, 224)] == ["resnet18-small"] * 2 + ["resnet18"] * 2


def test_what_is_not_set_yet_takes_any_value_that_the_plan_allows():
    plan = RECIPES["quick"].plan(TaskInfo("digits"))
    changed = plan.with_settings(
        {"training.compile": True, "training.patience": 3, "training.weight_decay": 0}
    ).training
    assert (changed.compile, changed.patience, changed.weight_decay) == (True, 3, 0)


def test_settings_change_what_they_name_and_nothing_else():
    plan = RECIPES["quick"].plan(TaskInfo("digits"))
    assert plan.with_settings({}) == plan
    changed = plan.with_settings({"backbone": "cnn", "training.epochs": 3})
    assert (changed.backbone, changed.training.epochs, changed.training.batch_bags) == ("cnn", 3, 16)
    assert changed.with_settings({"backbone": "auto", "training.epochs": 40}) == plan


def test_a_seed_applies_to_every_stage():
    planned = RECIPES["census"].plan(TaskInfo("cifar10"))
    changed = planned.with_seed(7)
    assert [stage.seed for stage in (changed.training, changed.own.pretrain, changed.own.head)] == [7] * 3
    assert changed.with_seed(0) == planned


def test_a_plan_augments_images_if_any_stage_does():
    census = RECIPES["census"].plan(TaskInfo("cifar10"))
    assert census.with_settings({"training.augment": []}).augments_images
    assert not census.with_settings({"training.augment": [], "census.pretrain": None}).augments_images


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


def test_a_setting_of_another_recipe_is_refused():
    with pytest.raises(InputError, match=r"recipe quick has no setting 'mpem.ratios': .* need --recipe mpem"):
        RECIPES["quick"].plan(TaskInfo("digits")).with_settings({"mpem.ratios": (0.5,)})


def run_small(folder, method="count", **options):
    return train("digits", bags=20, bag_size=8, method=method, **options, verbose=False, out=folder).result


@dataclass(frozen=True)
class TwiceSettings:
    again: Settings = field(default_factory=lambda: Settings(epochs=2))
    share: float = 0.5


@pytest.mark.usefixtures("registries")
def test_a_recipe_of_a_user_has_settings_of_its_own(tmp_path):
    """Registered by the same call as ours: its settings can be set by name, its stages resume, its epochs are known."""

    def train(run):
        model = run.fresh_model()
        stages = {"first": run.stage("first", model, partial(run.fit, model))}
        stages["again"] = run.stage("again", model, partial(run.fit, model, settings=run.plan.own.again))
        return Trained(model, stages["again"], stages, {"share": run.plan.own.share})

    def plan(task):
        return Plan("twice", training=Settings(epochs=1), own=TwiceSettings())

    def planned_epochs(plan, bags, losses):
        return plan.training.epochs + plan.own.again.epochs

    register(Recipe("twice", plan, "trains twice", train, planned_epochs=planned_epochs))
    settings = {"twice.again.epochs": 3, "twice.share": 0.25}
    result = run_small(tmp_path / "run", "count", recipe="twice", seed=5, settings=settings)
    config = read_json(tmp_path / "run" / "config.json")
    assert config["plan"]["twice"]["again"]["epochs"] == 3
    assert config["plan"]["twice"]["again"]["seed"] == 5
    assert config["planned_epochs"] == 4
    assert (result["epochs"], result["share"], list(result["stages"])) == (3, 0.25, ["first", "again"])
    with pytest.raises(InputError, match=r"'twice.speed': twice has again, share"):
        run_small(tmp_path / "other", recipe="twice", settings={"twice.speed": 1})


def train_and_count(run):
    model = run.fresh_model()
    return Trained(model, run.fit(model, run.folder, run.title), about={"rounds": 3})


def describe_rounds(result):
    lines = {"rounds": f"{result['rounds']} of 5", "method": "another one"}
    return ResultDescription(lines, ("the rounds < 5 were cut short",))


def plan_of_counted(task):
    return Plan("counted", training=Settings(epochs=1))


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(("method", "sees"), [("count", False), ("supervised", True)])
def test_recipes_get_instance_labels_only_for_reference_methods(method, sees, tmp_path):
    seen = []

    def train(run):
        seen.extend(bags.instance_labels is not None for bags in (run.train, run.val))
        return train_and_count(run)

    register(Recipe("counted", plan_of_counted, "", train))
    run_small(tmp_path / "run", method, recipe="counted")
    assert seen == [sees, sees]


@pytest.mark.usefixtures("registries")
def test_a_recipe_of_a_user_describes_its_result_in_the_report(tmp_path):
    register(Recipe("counted", plan_of_counted, "", train_and_count, describe=describe_rounds))
    run, lines = tmp_path / "run", "<dt>rounds</dt><dd>3 of 5</dd>"
    run_small(run, "count", recipe="counted")
    page = (run / "report.html").read_text()
    assert lines in page
    assert "Caution: the rounds &lt; 5 were cut short." in page
    card = (run / "model-card.md").read_text()
    assert "the rounds < 5 were cut short" in card
    assert "- rounds: 3 of 5\n" in card
    assert "<dt>method</dt><dd>count</dd>" in page  # which a recipe cannot replace
    del RECIPES["counted"]  # as in a process that does not run its file
    assert lines not in report_run(run, "cpu").read_text()


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda: {}["rounds"], "KeyError: 'rounds'"),
        (lambda: int("many\nrounds."), r"ValueError: invalid literal for int\(\) with base 10: 'many.*"),
        (lambda: {"rounds": "3"}, "`describe` returns an object of type dict, not a ResultDescription"),
        (lambda: ResultDescription({"rounds": 3}), r"InputError: .*lines\.rounds is 3, text is needed.*"),
        (lambda: ResultDescription(warnings="careful"), "InputError: .*warnings is 'careful', a list is needed.*"),
    ],
)
def test_a_description_that_fails_is_a_warning(returned, message):
    register(Recipe("counted", plan_of_counted, describe=lambda result: returned()))
    labels = {"share": 0, "bags": 250, "corrections": {}}
    described = describe_result({"recipe": "counted", "wrong_labels": labels})
    assert described.lines == {"wrong labels": "none are assumed among 250"}
    (warning,) = described.warnings
    assert re.fullmatch(f"recipe counted could not describe its result: {message}", warning)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("describe", [lambda result: result["turns"], lambda result: result["rounds"]])
def test_a_run_finishes_although_its_result_cannot_be_described(tmp_path, describe):
    register(Recipe("counted", plan_of_counted, "", train_and_count, describe=describe))
    run = tmp_path / "run"
    result = run_small(run, recipe="counted")
    assert run_small(run, recipe="counted") == result
    assert finished_result(read_config(run).run, run) == result
    for name in ("report.html", "model-card.md"):
        assert "recipe counted could not describe its result: " in (run / name).read_text()


@pytest.mark.usefixtures("registries")
def test_a_recipe_whose_plan_has_another_name_is_refused(tmp_path):
    """Its own trainer would never run."""
    register(Recipe("mine", RECIPES["quick"].plan))
    with pytest.raises(InputError, match=r"recipe mine gives a plan of 'quick': give Plan\('mine'"):
        run_small(tmp_path / "run", recipe="mine")


@pytest.mark.parametrize("name", ["default", "training", "a/b", ""])
def test_reserved_and_odd_names_are_refused(name):
    with pytest.raises(InputError, match="recipe"):
        register(Recipe(name, RECIPES["quick"].plan))
    assert name not in RECIPES


def test_settings_take_numbers_of_numpy_and_refuse_wrong_types():
    plan = RECIPES["quick"].plan(TaskInfo("digits"))
    assert plan.with_settings({"training.epochs": np.int64(3), "training.learning_rate": 1}).training.epochs == 3
    for name, value in {"training.epochs": True, "training.learning_rate": "fast", "training.drop_last": 1}.items():
        with pytest.raises(InputError, match=name.replace(".", r"\.")):
            plan.with_settings({name: value})
    with pytest.raises(InputError, match=r"training\.epochs is 40 and has no settings"):
        plan.with_settings({"training.epochs.x": 1})
    with pytest.raises(InputError, match=r"use --recipe mpem|need --recipe census"):
        plan.with_settings({"census.teachers": 1})


@pytest.mark.parametrize("source", ["vectors", "no bag of a class", "tiny"])
def test_census_plans_as_many_epochs_as_it_trains(tmp_path, source):
    """What a study's progress shows is what is trained, also where the bags cannot have a head."""
    parts = load("digits").make_parts(bags=20, bag_size=8)
    if source != "tiny":
        flat = parts.train.store.reshape(len(parts.train.store), -1).astype(np.float32)
        parts = Parts(*(part._with(store=flat) for part in parts))
    if source == "no bag of a class":
        parts = parts._replace(train=parts.train.subset(parts.train.labels > 0))
    task = TaskInfo("digits", parts.train.store.shape[1:])
    settings = {"training.epochs": 2, "census.teacher_epochs": 1, "census.teachers": 2}
    settings |= {} if source == "tiny" else {"census.head.epochs": 3}
    plan = RECIPES["census"].plan(task).with_settings(settings)
    run = Run(tmp_path, parts.train, parts.val, plan, lambda n=0: build_model(parts.train, "count", plan.backbone), "")
    trained = RECIPES["census"].train(run)
    planned = RECIPES["census"].epochs(plan, parts.train, "count")
    assert planned == sum(fitted.epochs for fitted in trained.stages.values())

    def fresh(number=0, method=None):
        return build_model(parts.train, method, plan.backbone)

    run = Run(tmp_path / "auto", parts.train, parts.val, plan, fresh, "", losses=RECIPES["census"].losses)
    planned = RECIPES["census"].epochs(plan, parts.train, "auto")
    assert planned == sum(fitted.epochs for fitted in RECIPES["census"].train(run).stages.values())


def test_an_unknown_recipe_is_named():
    with pytest.raises(InputError, match="there is no recipe 'soup'"):
        choose_plan("soup", TaskInfo("mine"))
