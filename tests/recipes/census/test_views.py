"""Views that the bags choose: the search, the plan with views, and census on images of an unknown kind."""

from dataclasses import replace

import numpy as np
import pytest

from majority import Settings, build_model, load_source
from majority.errors import InputError
from majority.parsing import parse_record
from majority.recipes import RECIPES, Plan, Run, TaskInfo, census
from majority.recipes.census import CensusSettings
from majority.recipes.census.views import ADDITIONS, additions_for, search_views, views_of, with_views
from majority.recipes.label_preserving import known_sources, label_preserving
from majority.records import ChosenViews

SETTINGS = CensusSettings(
    Settings(epochs=1, batch_bags=32, drop_last=True, augment=("affine",)),
    Settings(epochs=2, batch_bags=8),
    search_epochs=1,
    teachers=1,
)


def digits():
    return load_source("digits").make_parts(scenario="large", bags=12, bag_size=8)


def run_of(folder, parts, settings=SETTINGS):
    plan = Plan("census", "tiny", training=Settings(epochs=1, batch_bags=8, augment=("crop", "cutout")), own=settings)

    def fresh(number=0):
        return build_model(parts.train, "log-mean", "tiny", seed=number)

    return Run(folder, parts.train, parts.val, plan, fresh, "test", "cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return census.train(run_of(tmp_path_factory.mktemp("whole"), digits()))


# ---------------------------------------------------------------------- the search


@pytest.mark.parametrize("seed", range(5))
def test_an_addition_is_kept_exactly_if_it_lowers_the_loss(seed):
    rng, losses = np.random.default_rng(seed), {}

    def loss_of(additions):
        losses[additions] = rng.random()
        return losses[additions]

    chosen, tried = search_views(ADDITIONS, loss_of, lambda line: None)
    best, expected = losses[()], ()
    for addition in ADDITIONS:
        candidate = (*[name for name in expected if (addition, name) != ("turn", "flip")], addition)
        if losses[candidate] < best + 0.005 * (addition == "mix"):
            best, expected = losses[candidate], candidate
    assert chosen == expected
    assert {tuple(one["views"]): one["val_loss"] for one in tried} == losses


def test_only_what_is_new_is_tried():
    plan = RECIPES["census"].plan(TaskInfo("", (32, 32, 3)))
    assert additions_for(plan, 3) == ADDITIONS
    assert set(ADDITIONS) - set(additions_for(plan, 1)) == {"grey"}
    flipped = plan.with_settings({"census.pretrain.augment": ["flip"], "census.mixed_views": 0.2})
    assert set(ADDITIONS) - set(additions_for(flipped, 3)) == {"flip", "mix"}
    assert with_views(flipped, ("turn",)).own.pretrain.augment == ("rotate90", "flip")
    assert with_views(flipped, ("turn",)).own.mixed_views == 0.2


# ---------------------------------------------------------------------- the plan


@pytest.mark.parametrize("source", known_sources())
def test_a_known_source_has_only_views_that_preserve_its_labels(source):
    plan = RECIPES["census"].plan(TaskInfo(source, (32, 32, 3)))
    names = {step if isinstance(step, str) else step[0] for step in plan.own.pretrain.augment + plan.training.augment}
    assert names <= set(label_preserving(source))
    assert ("rotate90" in names, "flip" in names) == tuple(
        name in label_preserving(source) for name in ("rotate90", "flip")
    )
    assert plan.own.search_epochs == 0, "nothing to search"


def test_views_are_added_to_pretraining_teachers_and_student():
    plan = RECIPES["census"].plan(TaskInfo("", (32, 32, 3)))
    assert plan.own.search_epochs > 0
    more = with_views(plan, ("colour", "turn", "mix"))

    def names(augment):
        return [step if isinstance(step, str) else step[0] for step in augment]

    assert names(more.own.pretrain.augment) == ["flip", "rotate90", "resized-crop", "colour", "hue"]
    assert names(more.training.augment) == ["flip", "rotate90", "crop", "colour", "hue", "cutout"]
    assert more.own.mixed_views > plan.own.mixed_views == 0
    assert more.own.pretrain.epochs > plan.own.pretrain.epochs
    assert with_views(plan, ()) == plan


def test_the_additions_of_a_known_source_give_its_plan():
    known = RECIPES["census"].plan(TaskInfo("cifar10", (32, 32, 3)))
    unknown = RECIPES["census"].plan(TaskInfo("", (32, 32, 3)))
    found = with_views(unknown, views_of("cifar10"))
    assert replace(found, own=replace(found.own, search_epochs=0)) == known


# ---------------------------------------------------------------------- as stages of census


def test_the_bags_choose_and_the_result_says_so(whole):
    views = whole.summary()["views"]
    losses = {tuple(one["views"]): one["val_loss"] for one in views["tried"]}
    assert losses[tuple(views["chosen"])] <= losses[()] + 0.005
    assert views["validation_bags"] == len(digits().val)
    searched = [name for name in whole.stages if name.startswith("views-") and name.endswith("-head")]
    assert len(searched) == len(losses) == len(ADDITIONS)  # crops alone, and all but grey
    assert [name for name in whole.stages if "views" not in name] == ["pretrain", "head", "teacher-1", "student"]


def test_the_later_stages_have_the_chosen_views(tmp_path, monkeypatch):
    wanted = {(): 3.0, ("colour",): 2.0, ("colour", "turn"): 1.0}
    seen, fit = {}, Run.fit

    def note(run, model, folder, title, bags=None, settings=None, **more):
        seen[folder.name] = (settings or run.plan.training).augment
        return fit(run, model, folder, title, bags, settings, **more)

    monkeypatch.setattr(Run, "fit", note)
    monkeypatch.setattr(
        census.recipe,
        "search_views",
        lambda additions, loss_of, log: search_views(additions, lambda a: wanted.get(a, 9.0), log),
    )
    census.train(run_of(tmp_path, digits()))

    def names(augment):
        return [step if isinstance(step, str) else step[0] for step in augment]

    assert names(seen["pretrain"]) == ["flip", "rotate90", "affine", "colour", "hue"]
    assert names(seen["teacher-1"]) == names(seen["student"])
    assert names(seen["student"]) == ["flip", "rotate90", "crop", "colour", "hue", "cutout"]


def test_a_training_with_other_labels_keeps_the_views_of_the_first(tmp_path, monkeypatch):
    """Its pretrained network is that of the first."""
    monkeypatch.setattr(census.recipe, "search_views", None)
    views = {"chosen": ["turn"], "tried": [], "validation_bags": 3}
    trained = census.train(replace(run_of(tmp_path, digits()), before={"views": views}))
    assert trained.about["views"] == views
    assert [*trained.stages] == ["pretrain", "head", "teacher-1", "student"]


def test_no_instance_label_reaches_the_choice(tmp_path, whole, same):
    parts, rng = digits(), np.random.default_rng(3)
    scrambled = {
        name: getattr(parts, name)._with(instance_labels=rng.permutation(getattr(parts, name).instance_labels))
        for name in ("train", "val")
    }
    other = census.train(run_of(tmp_path, parts._replace(**scrambled)))
    assert other.summary()["views"] == whole.summary()["views"]
    assert same(whole.model, other.model)


def test_a_search_that_was_stopped_goes_on_with_the_same_result(tmp_path, whole, same, monkeypatch):
    run, trained, stop_at = run_of(tmp_path, digits()), [], 5
    stage = Run.stage

    def stopping(self, name, module, train):
        if len(trained) == stop_at:
            raise KeyboardInterrupt
        trained.append(name)
        return stage(self, name, module, train)

    monkeypatch.setattr(Run, "stage", stopping)
    with pytest.raises(KeyboardInterrupt):
        census.train(run)
    monkeypatch.setattr(Run, "stage", stage)
    again = census.train(run)
    assert same(whole.model, again.model)
    assert again.summary()["views"] == whole.summary()["views"]


def test_without_search_epochs_the_views_stay_as_planned(tmp_path):
    trained = census.train(run_of(tmp_path, digits(), replace(SETTINGS, search_epochs=0)))
    assert "views" not in trained.summary()
    assert next(iter(trained.stages)) == "pretrain"


def test_the_choice_is_in_the_records_of_a_run():
    views = {"chosen": ["colour"], "tried": [{"views": [], "val_loss": "low"}], "validation_bags": 3}
    with pytest.raises(InputError, match=r"val_loss"):
        parse_record(ChosenViews, views, "result.json", field="views")


def test_planned_epochs_bound_those_of_the_stages(whole):
    parts = digits()
    planned = census.planned_epochs(run_of(None, parts).plan, parts.train, losses=0)
    assert sum(fitted.epochs for fitted in whole.stages.values()) <= planned
