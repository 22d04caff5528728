"""Views that the bags choose: the search, the plan with views, and census on images of an unknown kind."""

from dataclasses import replace

import pytest

from majority import Settings, load_source
from majority.io.benchmarks.catalogue import known_of
from majority.recipes import RECIPES, TaskInfo
from majority.recipes.census.images_on_gpu import GpuImageSettings, with_views
from majority.recipes.stages import Run

OWN = GpuImageSettings(
    pretrain=Settings(epochs=1, batch_bags=32, drop_last=True, augment=("affine",)),
    head=Settings(epochs=2, batch_bags=8),
    search_epochs=1,
    teachers=1,
    validation_instances=False,
)


def digits():
    return load_source("digits").make_parts(scenario="large", bags=12, bag_size=8)


def known(source):
    return TaskInfo(source, **known_of(source))


def names(augment):
    return [step if isinstance(step, str) else step[0] for step in augment]


@pytest.fixture(scope="module")
def train(train_census):
    training = Settings(epochs=1, batch_bags=8, augment=("crop", "cutout"))
    return lambda parts=None, own=OWN, **more: train_census(parts or digits(), own, training=training, **more)


# ---------------------------------------------------------------------- the search


def test_an_addition_that_the_plan_has_is_not_repeated():
    plan = RECIPES["census"].plan_for(TaskInfo("", (32, 32, 3)))
    flipped = plan.with_settings({"census.pretrain.augment": ["flip"]})
    assert with_views(flipped, ("turn",)).own.pretrain.augment == ("rotate90", "flip")
    mixed = with_views(plan, ("mix",)).own
    assert (mixed.mixed_views, mixed.pretrain.epochs) == (0.5, 2 * plan.own.pretrain.epochs)


# ---------------------------------------------------------------------- as stages of census


def test_the_later_stages_have_the_chosen_views(train, monkeypatch):
    wanted, seen, fit = {"views-crops-head": 3.0, "views-colour-head": 2.0, "views-turn-head": 1.0}, {}, Run.fit

    def note(run, model, bags=None, settings=None, *given, **more):
        seen[run.stage.name] = settings or run.stage.settings
        return replace(fit(run, model, bags, settings, *given, **more), best_loss=wanted.get(run.stage.name, 9.0))

    monkeypatch.setattr(Run, "fit", note)
    views = train().about["views"]
    assert views["chosen"] == ["colour", "turn"]
    assert [one["val_loss"] for one in views["tried"]] == [3.0, 2.0, 9.0, 1.0, 9.0]
    assert views["validation_bags"] == len(digits().val)
    augmented = {name: names(settings.augment) for name, settings in seen.items()}
    assert augmented["views-flip"] == ["flip", "affine", "colour", "hue"]
    assert augmented["pretrain"] == augmented["views-turn"] == ["flip", "rotate90", "affine", "colour", "hue"]
    assert seen["pretrain"].epochs == 1
    assert augmented["teacher-1"] == augmented["student"] == ["flip", "rotate90", "crop", "colour", "hue", "cutout"]
