"""census: what the command shows, what plans hold, and what reaches each stage."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from majority import Settings, build_model, load_source
from majority.data.labels import BagLabels
from majority.errors import InputError
from majority.io.benchmarks.catalogue import known_of
from majority.recipes import RECIPES, TaskInfo
from majority.recipes.census.images_on_gpu import GpuImageSettings
from majority.recipes.census.parts import CensusSettings
from majority.recipes.features import instance_probabilities
from majority.recipes.stages import Run

VIEWS = ("affine", "noise")
QUICK = Settings(epochs=2, batch_bags=8, augment=VIEWS)
WITH_PRETRAIN = GpuImageSettings(
    pretrain=Settings(epochs=2, batch_bags=32, drop_last=True, augment=VIEWS),
    head=Settings(epochs=3, batch_bags=8),
    teachers=2,
    teacher_epochs=40,
    validation_instances=False,
)
SCRATCH = CensusSettings(teachers=2)


def digits(scenario="large"):
    return load_source("digits").make_parts(scenario=scenario, bags=24, bag_size=8)


@pytest.fixture(scope="module")
def train(train_census):
    return lambda parts=None, own=WITH_PRETRAIN, *given, **more: train_census(
        parts or digits(), own, *given, **{"training": QUICK} | more
    )


@pytest.fixture(scope="module")
def whole(train):
    """What an undisturbed run leaves."""
    return train()


# ---------------------------------------------------------------------- as a user sees it


def test_the_command_trains_tiny_images(majority, tmp_path):
    words = ["train", "digits", "--recipe", "census", "--bags", "20", "--bag-size", "8", "--epochs", "2"]
    words += ["--set", "census.momentum=0.9", "--out", tmp_path / "run"]
    code, out, _ = majority(*words)
    assert code == 0
    assert "stage student: kept epoch 2 of 2, training loss" in out
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert list(result["stages"]) == ["teacher-1", "teacher-2", "teacher-3", "student"]
    assert result["plan"]["census"]["momentum"] == 0.9
    for name in ("report.html", "model-card.md"):
        text = (tmp_path / "run" / name).read_text()
        assert all(title in text for title in ("bag losses", "class offsets", "5 validation bags")), name
    assert not list((tmp_path / "run").rglob("checkpoint.safetensors"))
    code, out, _ = majority(*words)
    assert code == 0
    assert "is finished" in out


@pytest.mark.parametrize(
    ("pair", "facts"),
    [
        ("census.teacher=3", ["census.teacher", "did you mean census.teachers?"]),
        ("census.momentum=1", ["census.momentum is 1", "from 0 and below 1"]),
        ('training.augment=[["crop",{"pad":-1}]]', ["augmentation crop cannot take {'pad': -1}"]),
    ],
)
def test_wrong_settings_are_refused(majority, tmp_path, pair, facts):
    code, _, error = majority("train", "digits", "--recipe", "census", "--set", pair, "--out", tmp_path / "run")
    assert code == 2
    assert all(fact in error for fact in facts), error
    assert not (tmp_path / "run").exists(), "so that the right setting can be given for the same folder"


def plan_for(source, *task):
    return RECIPES["census"].plan_for(TaskInfo(source, *task, **known_of(source)))


def names(views):
    return {view if isinstance(view, str) else view[0] for view in views}


def test_a_plan_for_a_cpu_takes_about_the_same_time_for_any_images():
    sizes = ((10, 40), (400, 25_600), (10_000, 20_000), (40, 10**6))
    steps = [plan_for("", (32, 32, 3), False, *size).training for size in sizes]
    assert [(step.epochs, step.batch_bags) for step in steps] == [(80, 32), (8, 2), (10, 64), (4, 1)]
    sides = [plan_for("", (side, side, 3), False, 100, 3_200).training.epochs for side in (28, 32, 48, 224)]
    assert sides == [80, 64, 28, 64]  # images of 224 pixels are reduced to 32


@pytest.mark.parametrize(
    ("source", "on_gpu", "views", "mixed"),
    [
        ("cifar10", True, {"flip", "resized-crop", "colour", "hue", "grey"}, (0.5, 400)),
        ("my photos", True, {"resized-crop"}, (0.0, 200)),
        ("pathmnist", False, {"flip", "rotate90"}, None),
    ],
)
def test_views_keep_the_classes_of_the_source(source, on_gpu, views, mixed):
    plan = plan_for(source, (32, 32, 3), on_gpu)
    augment = plan.own.pretrain.augment if on_gpu else plan.training.augment
    assert names(augment) == views
    if on_gpu:
        assert ("resized-crop", {"side": 24}) in augment
        assert (plan.own.mixed_views, plan.own.pretrain.epochs) == mixed


def test_a_run_started_on_a_gpu_is_repeated_elsewhere_by_its_own_plan(majority, tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 255, (600, 14, 14, 3), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", train_images=images, train_labels=np.arange(600, dtype=np.uint8)[:, None] % 3)
    words = ["train", tmp_path / "own.npz", "--recipe", "census", "--bags", "12", "--bag-size", "8", "--epochs", "1"]
    words += ["--backbone", "cnn", "--set", "census.pretrain.epochs=1", "--set", "census.head.epochs=1"]
    words += ["--set", "census.teachers=1", "--set", "census.search_epochs=1", "--out", tmp_path / "run"]

    def on(device):
        return monkeypatch.setattr("majority.run.plan.choose_device", lambda name: torch.device(device))

    on("cuda")
    code, out, _ = majority(*words)
    on("cpu")
    assert code == 0
    chosen = json.loads((tmp_path / "run/result.json").read_text())["views"]["chosen"]
    assert (" + ".join(chosen) or "crops") in (tmp_path / "run/report.html").read_text()
    (tmp_path / "run/result.json").unlink()
    weights = load_file(tmp_path / "run/best.safetensors")
    code, out, _ = majority(*words)
    assert code == 0
    assert "note: this run was started on a GPU" in out
    again = load_file(tmp_path / "run/best.safetensors")
    assert all(torch.equal(value, again[name]) for name, value in weights.items())


# ---------------------------------------------------------------------- its stages


@pytest.mark.parametrize(
    ("name", "value", "stages", "shown"),
    [
        ("momentum", 0.5, ("teacher-1",), "val_loss"),
        ("mixup", 0.0, ("student",), "train_loss"),
        ("sharpness", 8.0, ("student",), "train_loss"),
        ("mixed_views", 0.5, ("pretrain",), "train_loss"),
    ],
)
def test_every_setting_reaches_its_stage(train, whole, name, value, stages, shown):
    changed = train(own=replace(WITH_PRETRAIN, **{name: value}))
    for stage in stages:
        one, two = ([line[shown] for line in trained.trainings[stage].history] for trained in (whole, changed))
        assert one != two, stage


def test_epochs_are_chosen_by_the_validation_bags(train, whole):
    parts = digits()
    labels = BagLabels.of((parts.val.labels + 1) % 10, 10)
    other = train(parts._replace(val=parts.val._with(bag_labels=labels)))
    one, two = whole.trainings["head"], other.trainings["head"]
    assert one.history[0]["train_loss"] == two.history[0]["train_loss"]
    assert one.best_loss != two.best_loss
    assert whole.trainings["teacher-1"].best_loss != other.trainings["teacher-1"].best_loss


def test_a_network_for_images_of_one_size_is_pretrained_with_views_of_that_size(train):
    pretrain = Settings(epochs=1, batch_bags=32, augment=(("resized-crop", {"side": 5}),))
    trained = train(own=replace(WITH_PRETRAIN, pretrain=pretrain, teachers=1), backbone="mlp")
    assert next(iter(trained.trainings)) == "pretrain"


def test_damaged_weights_of_a_stage_are_reported_with_the_cure(tmp_path, train, whole, same):
    train(folder=tmp_path)
    damaged = tmp_path / "stages/teacher-1/weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(InputError, match=r"teacher-1.weights.safetensors is .*damaged .*: remove it and run again"):
        train(folder=tmp_path)
    damaged.unlink()
    assert same(whole.model, train(folder=tmp_path).model)


def test_the_student_learns_the_squared_mean_of_the_teachers_probabilities(tmp_path, monkeypatch, train):
    parts, learned, fit = digits(), [], Run.fit

    def note(run, *given, **more):
        learned.append(more.get("soft_labels"))
        return fit(run, *given, **more)

    monkeypatch.setattr(Run, "fit", note)
    train(parts, folder=tmp_path)
    read = []
    for number in (1, 2):
        teacher = build_model(parts.train, "log-mean", "tiny")
        teacher.load_state_dict(load_file(tmp_path / f"stages/teacher-{number}/weights.safetensors"))
        read.append(instance_probabilities(teacher, parts.train, "cpu").numpy().astype(np.float64))
    squared = ((read[0] + read[1]) / 2) ** 2
    np.testing.assert_allclose(learned[-1], squared / squared.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-7)
