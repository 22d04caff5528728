"""Every list of stages: what is trained, that it goes on after a stop and once more on all bags, and that no instance
label reaches it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from majority import Settings, load_source
from majority.io import Parts
from majority.recipes import Plan, model_builder, train_by_plan
from majority.recipes.census import background_share, patches
from majority.recipes.census.images_on_gpu import GpuImageSettings
from majority.recipes.census.parts import CensusSettings, HeadSettings
from majority.recipes.losses import LOSSES
from majority.recipes.mpem import MpemSettings

ONE, TWO = Settings(epochs=1, batch_bags=8), Settings(epochs=2, batch_bags=8)
HEAD = Settings(epochs=2, batch_bags=16, learning_rate=0.02)
PRETRAIN = Settings(epochs=1, batch_bags=32, drop_last=True, augment=("affine",))
HEADS = [f"head-{loss}" for loss in LOSSES]
TEACHERS = ["teacher-1", "teacher-2"]


def digits(**more):
    return load_source("digits").make_parts(scenario="large", classes=4, bags=24, bag_size=8, **more)


def vectors(**more):
    return Parts(*(part._with(store=part.store.reshape(-1, 64) / np.float32(255)) for part in digits(**more)))


def larger():
    """Images of 16 pixels per side."""
    return Parts(*(part._with(store=part.store.repeat(2, axis=1).repeat(2, axis=2)) for part in digits()))


@dataclass
class Case:
    make: object  # the parts
    plan: Plan
    stages: list[str]
    method: str = "log-mean"
    again: list[str] = field(default_factory=list)  # the stages of a training on all bags, if these are others

    def train(self, given=None, folder=None, **more):
        given = given or self.make()
        build = model_builder(self.plan, self.method, given.train)
        return train_by_plan(self.plan, self.method, given.train, given.val, build, folder, device="cpu", **more)


def census(own, backbone="tiny", training=TWO):
    return Plan("census", backbone, training=training, own=own)


ON_GPU = GpuImageSettings(pretrain=PRETRAIN, head=HEAD, teachers=2)
ON_CPU = HeadSettings(head=HEAD, teachers=1)
OF_VECTORS = HeadSettings(head=HEAD, teachers=2, teacher_epochs=1)
SHARES = [f"share-{share}-head" for share in (0.06, 0.25)]
VIEWS = [f"views-{name}{end}" for name in ("crops", "colour", "flip", "turn", "mix") for end in ("", "-head")]
CASES = {
    "quick": Case(digits, Plan("quick", training=TWO), ["training"]),
    "mpem": Case(
        digits, Plan("mpem", "mlp", training=TWO, own=MpemSettings((0.3, 1.0))), ["first", "r0.3", "r1.0"], "count"
    ),
    "from random weights": Case(digits, census(CensusSettings(teachers=2)), [*TEACHERS, "student"], "vote"),
    "one teacher, all losses": Case(digits, census(CensusSettings(teachers=1)), ["teacher-1", "student"], "auto"),
    "pretrained": Case(digits, census(ON_GPU), ["pretrain", "head", *TEACHERS, "student"]),
    "pretrained, all losses": Case(digits, census(ON_GPU), ["pretrain", *HEADS, *TEACHERS, "student"], "auto"),
    "views": Case(
        larger,
        census(replace(ON_GPU, search_epochs=1, teachers=1), training=ONE),
        [*VIEWS, "pretrain", "head", "teacher-1", "student"],
        again=["pretrain", "head", "teacher-1", "student"],
    ),
    "patches": Case(larger, census(ON_CPU, "cnn"), ["head", "distilled", "teacher-1", "student"], "proportion"),
    "patches, all losses": Case(larger, census(ON_CPU, "cnn"), [*HEADS, "distilled", "teacher-1", "student"], "auto"),
    "vectors, all losses": Case(vectors, census(OF_VECTORS, "mlp"), ["student"], "auto"),
    "vectors, background": Case(
        lambda: vectors(background="3"),
        census(replace(OF_VECTORS, teachers=1), "mlp"),
        [*SHARES, "head", "distilled", "teacher-1", "distilled-teacher-1", "student"],
        "soft-count",
    ),
    "pretrained, background": Case(
        lambda: digits(background="3"), census(ON_GPU), ["pretrain", *SHARES, "head", *TEACHERS, "student"], "vote"
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module", autouse=True)
def fast():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background_share, "SHARES", (0.06, 0.25))
        patch.setattr(patches, "CENTROIDS", 12)
        patch.setattr(patches, "COMPONENTS", 20)
        yield


@pytest.fixture(scope="module")
def whole():
    """What an undisturbed training in memory leaves, by case."""
    trained = {}

    def of(name):
        if name not in trained:
            trained[name] = CASES[name].train()
        return trained[name]

    return of


@every_case
def test_these_stages_are_trained(name, whole):
    trained = whole(name)
    assert [*trained.trainings] == CASES[name].stages
    assert trained.fitted in trained.trainings.values()
    assert trained.summary()["seconds"] == pytest.approx(
        sum(one.seconds for one in trained.trainings.values()), abs=0.1
    )
    if name != "views":  # which may make pretraining longer
        assert sum(stage.epochs for stage in trained.stages) == sum(one.epochs for one in trained.trainings.values())
    if "background" in name:
        assert trained.model.spec.background.share == trained.about["background"]["share"]
    if "members" in trained.about:
        assert {*trained.about["members"]["weights"]} == {"linear", "forest", "network"}
    elif CASES[name].method == "auto":
        weights = trained.about["losses"]
        assert sum(one["weight"] for one in weights["teachers"].values()) == pytest.approx(1)
        assert trained.model.spec.method == weights["chosen"]
        assert ("class_offsets" in weights) == CASES[name].plan.own.class_offsets


@every_case
def test_no_instance_label_reaches_any_stage(name, whole, same, scrambled):
    if CASES[name].method == "proportion":
        pytest.skip("a reference method")
    other = CASES[name].train(scrambled(CASES[name].make()))
    assert same(whole(name).model, other.model)
    assert whole(name).about == other.about


@every_case
def test_stopped_before_each_stage_it_ends_the_same(name, whole, check_going_on, tmp_path):
    if len(CASES[name].stages) > 1:
        check_going_on(lambda **more: CASES[name].train(folder=tmp_path, **more), whole(name))


@every_case
def test_on_all_bags_what_was_chosen_is_trained_again(name, whole):
    first, chosen = whole(name), {"losses", "members", "lines", "warnings"}
    again = CASES[name].train(chosen=first)
    kept = {"mpem": ["first", f"r{first.about['mpem']['r']}"]} if name == "mpem" else {}
    if name == "vectors, background":
        start = {"teacher": "teacher-1", "distilled-teacher": "distilled-teacher-1"}[first.about["start"]]
        kept[name] = ["head", "distilled", start, "student"]
    expected = kept.get(name) or CASES[name].again or [stage for stage in CASES[name].stages if stage not in SHARES]
    assert [*again.trainings] == expected
    assert {key: value for key, value in again.about.items() if key not in chosen} == {
        key: value for key, value in first.about.items() if key not in chosen
    }
    assert again.model.spec == first.model.spec
