"""Every list of stages: what is trained, that it goes on after a stop and once more on all bags, and that no instance
label reaches it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from majority import Settings, load_source
from majority.io import Parts
from majority.recipes import Plan, Run, TaskInfo, model_builder, train_by_plan
from majority.recipes.census import background_share, members, patches, pooling
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
        chosen, task = more.pop("chosen", None), TaskInfo.of(given.train)
        run = Run(given.train, given.val, self.plan, build, task, folder, device="cpu", **more)
        return train_by_plan(run, self.method, chosen)


def census(own, backbone="tiny", training=TWO):
    return Plan("census", backbone, training=training, own=own)


ON_GPU = GpuImageSettings(pretrain=PRETRAIN, head=HEAD, teachers=2)
ON_CPU = HeadSettings(head=HEAD, teachers=1)
OF_VECTORS = HeadSettings(head=HEAD, teachers=2, teacher_epochs=1)
SHARES = [f"share-{share}-head" for share in (0.06, 0.25)]
VIEWS = [f"views-{name}{end}" for name in ("crops", "colour", "flip", "turn", "mix") for end in ("", "-head")]
CASES = {
    "quick": Case(vectors, Plan("quick", training=TWO), ["linear", "forest", "network"], "auto"),
    "mpem": Case(
        digits, Plan("mpem", "mlp", training=TWO, own=MpemSettings((0.3, 1.0))), ["first", "r0.3", "r1.0"], "count"
    ),
    "from random weights": Case(digits, census(CensusSettings(teachers=2)), [*TEACHERS, "student"], "vote"),
    "pretrained, all losses": Case(digits, census(ON_GPU), ["pretrain", *HEADS, *TEACHERS, "student"], "auto"),
    "views": Case(
        larger,
        census(replace(ON_GPU, search_epochs=1, teachers=1), training=ONE),
        [*VIEWS, "pretrain", "head", "teacher-1", "student"],
        again=["pretrain", "head", "teacher-1", "student"],
    ),
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
        patch.setattr(members, "ITERATIONS", 4)
        patch.setattr(pooling, "ITERATIONS", 4)
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
def test_these_stages_are_trained_and_on_all_bags_again_with_what_was_chosen(name, whole):
    trained, case, chosen = whole(name), CASES[name], {"losses", "members", "kinds", "lines", "warnings"}
    assert [*trained.trainings] == case.stages
    assert trained.fitted in trained.trainings.values()
    if name != "views":  # which may make pretraining longer
        assert sum(stage.epochs for stage in trained.stages) == sum(one.epochs for one in trained.trainings.values())
    if "background" in name:
        assert trained.model.spec.background.share == trained.about["background"]["share"]
    if "members" in trained.about:
        assert {*trained.about["members"]["weights"]} == {"linear", "forest", "network"}
    elif "losses" in trained.about:
        weights = trained.about["losses"]
        assert sum(one["weight"] for one in weights["teachers"].values()) == pytest.approx(1)
        assert trained.model.spec.method == weights["chosen"]
    again = case.train(chosen=trained)
    kept = {"mpem": ["first", f"r{trained.about['mpem']['r']}"]} if name == "mpem" else {}
    if name == "quick":
        kept[name] = [max(trained.about["kinds"], key=trained.about["kinds"].get)]
    if name == "vectors, background":
        kept[name] = ["head", "distilled", f"{trained.about['start']}-1", "student"]
    assert [*again.trainings] == (kept.get(name) or case.again or [one for one in case.stages if one not in SHARES])
    assert {key: again.about[key] for key in again.about.keys() - chosen} == {
        key: trained.about[key] for key in trained.about.keys() - chosen
    }
    specs = [one.model.spec for one in (again, trained)]
    if specs[0].backbone.startswith("trees:"):  # whose names have their numbers of nodes
        specs = [replace(spec, backbone="trees") for spec in specs]
    assert specs[0] == specs[1]


@every_case
def test_no_instance_label_reaches_any_stage(name, whole, same, scrambled):
    other = CASES[name].train(scrambled(CASES[name].make()))
    assert same(whole(name).model, other.model)
    assert whole(name).about == other.about


@every_case
def test_stopped_before_each_stage_it_ends_the_same(name, whole, check_going_on, tmp_path):
    check_going_on(lambda **more: CASES[name].train(folder=tmp_path, **more), whole(name))
