"""census of vectors: a head on discriminants, a network that learns its soft labels, and the choice of the start."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from majority import Settings, build_model, evaluate
from majority.recipes import Plan, Run, TaskInfo, census, choose_plan
from majority.recipes.census import CensusSettings

TRAINING = Settings(epochs=2, batch_bags=8)
SETTINGS = CensusSettings(head=Settings(epochs=8, batch_bags=16, learning_rate=0.02), teachers=2)


def run_of(folder, parts, method="adjusted-mean", settings=SETTINGS, training=TRAINING):
    plan = Plan("census", "mlp", training=training, own=settings)

    def fresh(number=0):
        return build_model(parts.train, method, "mlp", seed=number)

    return Run(folder, parts.train, parts.val, plan, fresh, "test", "cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, vectors):
    """What an undisturbed run leaves."""
    return census.train(run_of(tmp_path_factory.mktemp("whole"), vectors()))


def test_the_plan_has_a_head_and_no_pretraining():
    plan, _ = choose_plan("default", TaskInfo("", (64,), on_gpu=False))
    assert plan.recipe == "census"
    assert (plan.own.pretrain, plan.own.head.learning_rate) == (None, 0.02)


def test_a_head_on_discriminants_classifies_instances_with_weak_majorities(tmp_path, vectors):
    parts = vectors(bags=150)
    longer = replace(SETTINGS, head=replace(SETTINGS.head, epochs=20))
    run = run_of(tmp_path, parts, settings=longer)
    linear = census.linear_model(run, run.fresh_model())
    census.head_on_discriminants(run, linear, tmp_path / "head", "test")
    plain = build_model(parts.train, "adjusted-mean", "linear")
    census.train_head(run, plain, tmp_path / "plain", "test")
    accuracy = [evaluate(model, parts.test, "cpu").summary()["instance_accuracy"] for model in (linear, plain)]
    assert accuracy[0] > 0.8
    assert accuracy[0] > accuracy[1] + 0.05


def test_a_head_on_discriminants_has_the_label_frequencies(tmp_path, vectors):
    parts = vectors()
    run = run_of(tmp_path, parts._replace(train=parts.train.subset(np.flatnonzero(np.arange(60) % 6 > 0))))
    linear, whole = census.linear_model(run, run.fresh_model()), build_model(run.train, "adjusted-mean", "mlp")
    assert torch.equal(linear.head.loss.label_shares, whole.head.loss.label_shares)
    assert linear.head.loss.label_shares.unique().numel() > 1


def test_distilled_teachers_are_separate_networks(tmp_path, monkeypatch, vectors):
    real, models = census.recipe.train_teacher, []

    def train_teacher(run, model, number, folder, title):
        models.append(model)
        fitted = real(run, model, number, folder, title)
        return replace(fitted, best_loss=-9.0) if folder.name.startswith("distilled") else fitted

    monkeypatch.setattr(census.recipe, "train_teacher", train_teacher)
    models.append(census.train(run_of(tmp_path, vectors())).model)
    assert len({id(model) for model in models}) == 4, "teacher-1, two distilled teachers, and the student"


@pytest.mark.parametrize(("loss", "kind"), [(9.0, "teacher"), (-9.0, "distilled-teacher")])
def test_other_teachers_start_like_the_first_with_the_lower_validation_loss(tmp_path, monkeypatch, loss, kind, vectors):
    real, calls = census.recipe.train_teacher, []

    def train_teacher(run, model, number, folder, title):
        calls.append(folder.name)
        fitted = real(run, model, number, folder, title)
        return replace(fitted, best_loss=loss) if folder.name.startswith("distilled") else fitted

    monkeypatch.setattr(census.recipe, "train_teacher", train_teacher)
    trained = census.train(run_of(tmp_path, vectors()))
    assert list(trained.stages) == ["head", "distilled", "teacher-1", "distilled-teacher-1", f"{kind}-2", "student"]
    assert calls == ["teacher-1", "distilled-teacher-1", f"{kind}-2"]


def test_distilled_teachers_start_from_the_distilled_network(tmp_path, monkeypatch, vectors):
    started, real = {}, census.recipe.train_teacher

    def train_teacher(run, model, number, folder, title):
        started[folder.name] = {name: value.clone() for name, value in model.state_dict().items()}
        return real(run, model, number, folder, title)

    monkeypatch.setattr(census.recipe, "train_teacher", train_teacher)
    census.train(run_of(tmp_path, vectors()))
    distilled = load_file(tmp_path / "stages/distilled/weights.safetensors")
    backbone = [name for name in distilled if name.startswith("backbone")]
    assert backbone
    assert all(torch.equal(started["distilled-teacher-1"][name], distilled[name]) for name in backbone)
    assert not all(torch.equal(started["teacher-1"][name], distilled[name]) for name in backbone)


@pytest.mark.parametrize("method", ["attention", "proportion"])  # others: test_census.py
def test_other_methods_use_the_same_stages(tmp_path, method, vectors):
    assert "distilled" in census.train(run_of(tmp_path, vectors(), method, replace(SETTINGS, teachers=1))).stages


def test_without_a_head_or_a_bag_of_every_label_teachers_start_from_random_weights(tmp_path, vectors):
    parts = vectors()
    trained = census.train(run_of(tmp_path / "no head", parts, settings=replace(SETTINGS, head=None)))
    assert list(trained.stages) == ["teacher-1", "teacher-2", "student"]
    two_labels = parts._replace(train=parts.train.subset(np.flatnonzero(parts.train.labels < 2)))
    assert list(census.train(run_of(tmp_path / "no bag", two_labels)).stages) == ["teacher-1", "teacher-2", "student"]


def test_no_instance_label_reaches_any_stage(tmp_path, whole, same, vectors):
    parts, rng = vectors(), np.random.default_rng(3)

    def mixed(bags):
        return bags._with(instance_labels=rng.permutation(bags.instance_labels))

    scrambled = parts._replace(train=mixed(parts.train), val=mixed(parts.val))
    other = census.train(run_of(tmp_path, scrambled))
    assert same(whole.model, other.model)
    assert whole.summary()["stages"] == other.summary()["stages"]


def test_stopped_before_each_stage_it_ends_the_same(tmp_path, whole, check_going_on, vectors):
    stages = ["head_on_discriminants", "train_teacher", "distill"]
    check_going_on(run_of(tmp_path, vectors()), whole, stages, "discriminants", "instance_probabilities")
