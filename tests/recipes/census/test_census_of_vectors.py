"""census of vectors: a head on discriminants, a network that learns its soft labels, and the choice of the start."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from majority import Settings, build_model, evaluate
from majority.recipes import Plan
from majority.recipes.census.parts import CensusSettings, HeadSettings, linear_model, train_head, train_on_discriminants
from majority.recipes.stages import Run, Stage

OWN = HeadSettings(head=Settings(epochs=8, batch_bags=16, learning_rate=0.02), teachers=2)


@pytest.fixture(scope="module")
def train(train_census, vectors):
    return lambda parts=None, own=OWN, method="adjusted-mean", **more: train_census(
        parts or vectors(), own, method, backbone="mlp", **more
    )


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
    """What an undisturbed run leaves."""
    return train(folder=tmp_path_factory.mktemp("whole"))


def run_of(parts, own):
    def build(seed=0, method=None):
        return build_model(parts.train, "adjusted-mean", "mlp", seed=seed)

    return Run(parts.train, parts.val, Plan("census", own=own), build, device="cpu", stage=Stage("head", own.head))


def test_a_head_on_discriminants_classifies_instances_with_weak_majorities(vectors):
    parts = vectors(bags=150)
    run = run_of(parts, replace(OWN, head=replace(OWN.head, epochs=20)))
    linear, plain = linear_model(run), build_model(parts.train, "adjusted-mean", "linear")
    train_on_discriminants(run, linear)
    train_head(run, plain)
    accuracy = [evaluate(model, parts.test, "cpu").summary()["instance_accuracy"] for model in (linear, plain)]
    assert accuracy[0] > 0.8
    assert accuracy[0] > accuracy[1] + 0.05


@pytest.mark.parametrize(("loss", "kind"), [(9.0, "teacher"), (-9.0, "distilled-teacher")])
def test_other_teachers_start_like_the_first_with_the_lower_validation_loss(train, monkeypatch, loss, kind, tmp_path):
    fit, started = Run.fit, {}

    def noted(run, model, *given, **more):
        started[run.stage.name] = model, {name: value.clone() for name, value in model.state_dict().items()}
        fitted = fit(run, model, *given, **more)
        return replace(fitted, best_loss=loss) if run.stage.name == "distilled-teacher-1" else fitted

    monkeypatch.setattr(Run, "fit", noted)
    trained = train(folder=tmp_path)
    names = ["head", "distilled", "teacher-1", "distilled-teacher-1", "teacher-2", "student"]
    assert list(trained.trainings) == names
    assert trained.about["start"] == kind
    assert len({id(model) for model, _ in started.values()}) == len(names), "separate networks"
    distilled = load_file(tmp_path / "stages/distilled/weights.safetensors")
    backbone = [name for name in distilled if name.startswith("backbone")]
    for name, from_distilled in {
        "distilled-teacher-1": True,
        "teacher-1": False,
        "teacher-2": kind == "distilled-teacher",
        "student": kind == "distilled-teacher",
    }.items():
        assert all(torch.equal(started[name][1][key], distilled[key]) for key in backbone) == from_distilled, name


def test_without_a_bag_of_every_label_teachers_start_from_random_weights(train, vectors):
    parts, from_scratch = vectors(), ["teacher-1", "teacher-2", "student"]
    two_labels = parts._replace(train=parts.train.subset(np.flatnonzero(parts.train.labels < 2)))
    assert list(train(two_labels).trainings) == from_scratch
    assert list(train(parts, CensusSettings(teachers=2)).trainings) == from_scratch
