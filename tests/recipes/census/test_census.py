"""census: its stages, their files, that they continue after a stop, and that no instance label reaches them."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from majority import Settings, build_model, load_source
from majority.data.labels import BagLabels
from majority.errors import InputError
from majority.io import CustomBags
from majority.io.benchmarks.known_images import known_of
from majority.recipes import RECIPES, TaskInfo
from majority.recipes.census.images_on_gpu import GpuImageSettings
from majority.recipes.census.settings import CensusSettings
from majority.recipes.census.trainings import instance_probabilities
from majority.recipes.stages import Run
from majority.run.config import RunConfig
from majority.run.experiment import run_experiment

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
def folder_of_whole(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def train(train_census):
    return lambda parts=None, own=WITH_PRETRAIN, *given, **more: train_census(
        parts or digits(), own, *given, **{"training": QUICK} | more
    )


@pytest.fixture(scope="module")
def whole(train, folder_of_whole):
    """What an undisturbed run leaves."""
    return train(folder=folder_of_whole)


# ---------------------------------------------------------------------- as a user sees it


def test_the_command_trains_tiny_images(majority, tmp_path):
    words = ["train", "digits", "--recipe", "census", "--bags", "20", "--bag-size", "8", "--epochs", "2"]
    words += ["--set", "census.momentum=0.9", "--out", tmp_path / "run"]
    code, out, _ = majority(*words)
    assert code == 0
    assert "stage student: kept epoch 2 of 2, training loss" in out
    assert re.search(r"stage teacher-1: kept epoch [12] of 2, validation loss", out)
    assert "weights of the bag losses, by 5 validation bags: adjusted-mean 0." in out
    assert "The last epoch was kept." in (tmp_path / "run/report.html").read_text()
    result = json.loads((tmp_path / "run/result.json").read_text())
    teachers = ["teacher-1", "teacher-2", "teacher-3"]
    assert list(result["stages"]) == [*teachers, "student"], "tiny images are not pretrained"
    assert (result["method"], list(result["losses"]["teachers"])) == ("auto", teachers)
    assert sum(result["losses"]["weights"].values()) == pytest.approx(1)
    assert "class offsets of the soft labels: " in out
    weights = "weights by how well instance predictions explain the labels of 5 validation bags"
    assert all(weights in (tmp_path / "run" / name).read_text() for name in ("report.html", "model-card.md"))
    title, *card = (tmp_path / "run/model-card.md").read_text().splitlines()
    assert ("auto" in title, any("losses" in line and "`auto`" in line for line in card)) == (False, True)
    assert result["plan"]["census"]["momentum"] == 0.9
    assert not list((tmp_path / "run").rglob("checkpoint.safetensors"))
    code, out, _ = majority(*words)
    assert code == 0
    assert "is finished" in out
    assert "--set census.momentum=0.9" in (tmp_path / "run/report.html").read_text()


def test_pretraining_without_a_head_has_no_such_stage(train):
    assert list(train(own=replace(WITH_PRETRAIN, head=None)).trainings) == [
        "pretrain",
        "teacher-1",
        "teacher-2",
        "student",
    ]


def test_the_command_trains_vectors(majority, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["bag,bag_label,f0,f1"]
    for bag in range(20):
        lines += [f"{bag},{'ab'[bag % 2]},{rng.normal(bag % 2):.3f},{rng.normal():.3f}" for _ in range(5)]
    (tmp_path / "bags.csv").write_text("\n".join(lines) + "\n")
    words = ["train", tmp_path / "bags.csv", "--recipe", "census", "--epochs", "2", "--out", tmp_path / "run"]
    code, out, _ = majority(*words, "--method", "adjusted-mean", "--no-refit")
    assert code == 0
    assert "losses" not in json.loads((tmp_path / "run/result.json").read_text())
    assert "teacher-1 has the lower validation loss: the other teachers start like it" in out
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["plan"]["backbone"] == "mlp"
    assert list(result["stages"])[:4] == ["head", "distilled", "teacher-1", "distilled-teacher-1"]


@pytest.mark.parametrize(
    ("pair", "facts"),
    [
        ("census.speed=3", ["census.speed", "census has", "temperature"]),
        ("census.teacher=3", ["census.teacher", "did you mean teachers?"]),
        ("teacher_epochs=3", ["did you mean census.teacher_epochs?"]),
        ("recipe=paper", ["no setting recipe"]),
        ("census.pretrain.epochs=many", ["census.pretrain.epochs is many", "a whole number from 1 to 1,000,000"]),
        ("census.teachers=0", ["census.teachers is 0", "from 1 to 1,000 or null"]),
        ("census.sharpness=Infinity", ["census.sharpness is inf", "a number above 0"]),
        ("census.momentum=1", ["census.momentum is 1", "from 0 and below 1"]),
        ("census.patches=null", ["census.patches"]),
        ("training.compile=1", ["training.compile is 1", "true or false or null"]),
        ("training.augment=crop", ["training.augment is crop", "a list"]),
        ("training={}", ["training is a group of settings", "training.SETTING=VALUE"]),
        ("training=null", ["training is null"]),
        ("census=5", ["recipe census has no setting census"]),
        ("backbone=null", ["backbone is null", "a name"]),
        ("training.epochs", ["--set training.epochs: write NAME=VALUE"]),
        ('training.augment=[["crop",{"pad":-1}]]', ["augmentation crop cannot take {'pad': -1}"]),
    ],
)
def test_wrong_settings_are_refused(majority, tmp_path, pair, facts):
    code, _, error = majority("train", "digits", "--recipe", "census", "--set", pair, "--out", tmp_path / "run")
    assert code == 2
    assert all(fact in error for fact in facts), error
    assert not (tmp_path / "run").exists(), "so that the right setting can be given for the same folder"


def test_a_setting_that_these_instances_do_not_have_is_refused_before_training(majority, tmp_path):
    """Digits are tiny images, which are not pretrained; images on a GPU are."""
    words = ["train", "digits", "--recipe", "census", "--set", "census.pretrain.epochs=3", "--out", tmp_path / "run"]
    code, _, error = majority(*words)
    assert code == 2
    assert "no setting census.pretrain.epochs" in error
    assert not (tmp_path / "run").exists()


def test_plans_depend_on_the_task():
    def plan(source, *task):
        return RECIPES["census"].plan_for(TaskInfo(source, *task, **known_of(source)))

    assert plan("mine", (64,), True).backbone == "mlp"
    assert plan("digits", (8, 8, 1), True).backbone == "tiny"
    tiny = [plan("digits", (8, 8, 1), True, bags, 32 * bags, labelled) for bags, labelled in ((36, 36), (400, 40))]
    assert [(one.training.epochs, one.own.teacher_epochs) for one in tiny] == [(120, 120), (30, 120)]
    assert plan("cifar10", (32, 32, 3), False).backbone == "cnn"
    assert plan("", (96, 96, 3), False).backbone == "cnn-reduced"
    sizes = ((10, 40), (400, 25_600), (10_000, 20_000), (40, 10**6))
    steps = [plan("", (32, 32, 3), False, *size).training for size in sizes]
    assert [(step.epochs, step.batch_bags) for step in steps] == [(80, 32), (8, 2), (10, 64), (4, 1)]
    small, usual = (plan("", (32, 32, 3), False, *size).own for size in sizes[:2])
    assert (small.teacher_epochs, usual.teacher_epochs, usual.teachers) == (67, 7, None)
    sides = [plan("", (side, side, 3), False, 100, 3_200).training.epochs for side in (28, 32, 48, 224)]
    assert sides == [80, 64, 28, 64]  # images of 224 pixels are reduced to 32
    views = {source: plan(source, (28, 28, 3), False).training.augment for source in ("pathmnist", "svhn", "")}
    assert views == {"pathmnist": ("flip", "rotate90"), "svhn": (), "": ()}
    on_gpu = plan("cifar10", (32, 32, 3), True)
    assert on_gpu.backbone == "resnet18-small"

    def names(views):
        return {view if isinstance(view, str) else view[0] for view in views}

    assert names(on_gpu.own.pretrain.augment) == {"flip", "resized-crop", "colour", "hue", "grey"}
    assert "flip" not in names(plan("svhn", (28, 28, 3), True).own.pretrain.augment)
    assert "rotate90" in names(plan("pathmnist", (28, 28, 3), True).own.pretrain.augment)
    assert names(plan("my photos", (64, 64, 3), True).own.pretrain.augment) == {"resized-crop"}
    assert ("resized-crop", {"side": 24}) in on_gpu.own.pretrain.augment
    starts = [plan(source, (32, 32, 3), True).own for source in ("cifar10", "svhn", "pathmnist", "my photos")]
    mixed = [(census.mixed_views, census.pretrain.epochs) for census in starts]
    assert mixed == [(0.5, 400), (0.0, 200), (0.0, 200), (0.0, 200)]
    assert ("resized-crop", {"side": (24, 96)}) in plan("cifar10", (32, 128, 3), True).own.pretrain.augment


@pytest.mark.parametrize(("like", "source"), [(None, ""), ("svhn", "svhn")])
def test_custom_bags_have_a_known_kind_of_images_only_if_like_names_it(tmp_path, monkeypatch, like, source):
    """Whatever the name of their file is."""
    seen = []

    def note(recipe, task):
        seen.append(task.source)
        raise KeyboardInterrupt

    monkeypatch.setattr("majority.run.plan.choose_plan", note)
    bags = digits().train
    opened = CustomBags("cifar10-scans", bags)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(RunConfig.from_options("cifar10-scans.csv", like=like), tmp_path / "run", source=opened)
    assert seen == [source]


def test_a_run_started_on_a_gpu_is_repeated_elsewhere_by_its_own_plan(majority, tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 255, (600, 14, 14, 3), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", train_images=images, train_labels=np.arange(600, dtype=np.uint8)[:, None] % 3)
    words = ["train", tmp_path / "own.npz", "--recipe", "census", "--bags", "12", "--bag-size", "8", "--epochs", "1"]
    words += ["--backbone", "mlp", "--set", "census.pretrain.epochs=1", "--set", "census.head.epochs=1"]
    words += ["--set", "census.teachers=1", "--set", "census.search_epochs=1", "--out", tmp_path / "run"]

    def on(device):
        return monkeypatch.setattr("majority.run.plan.choose_device", lambda name: torch.device(device))

    on("cuda")
    code, out, _ = majority(*words)
    on("cpu")
    assert code == 0
    assert "note: backbone mlp takes images of one size only" in out
    assert re.search(r"stage pretrain: kept epoch ([12]) of \1", out)
    chosen = json.loads((tmp_path / "run/result.json").read_text())["views"]["chosen"]
    assert (" + ".join(chosen) or "crops") in (tmp_path / "run/report.html").read_text()
    code, out, _ = majority(*words)
    assert code == 0
    assert "is finished" in out
    (tmp_path / "run/result.json").write_text("{")
    code, _, error = majority(*words)
    assert code == 2
    assert "result.json is damaged" in error
    (tmp_path / "run/result.json").unlink()  # as the message says
    weights = load_file(tmp_path / "run/best.safetensors")
    code, out, _ = majority(*words)
    assert code == 0
    assert "note: this run was started on a GPU" in out
    again = load_file(tmp_path / "run/best.safetensors")
    assert all(torch.equal(value, again[name]) for name, value in weights.items())


# ---------------------------------------------------------------------- its stages


def test_every_stage_is_trained_and_reported(whole, folder_of_whole):
    assert list(whole.trainings) == ["pretrain", "head", "teacher-1", "teacher-2", "student"]
    assert whole.summary()["stages"]["head"]["epochs"] == 3
    assert whole.fitted is whole.trainings["student"]
    assert not [*folder_of_whole.glob("stages/*/checkpoint.safetensors")], "a finished stage needs no room for one"
    assert whole.trainings["teacher-1"].best_loss != whole.trainings["teacher-2"].best_loss, "other random draws"


@pytest.mark.parametrize(("most", "epochs"), [(1, 1), (5, 2)])
def test_teachers_have_as_many_epochs_as_the_student_or_fewer(train, most, epochs):
    stages = train(own=CensusSettings(teacher_epochs=most, teachers=1)).trainings
    assert {name: fitted.epochs for name, fitted in stages.items()} == {"teacher-1": epochs, "student": 2}


@pytest.mark.parametrize(("labelled", "epochs"), [(8, 3), (4, 6), (2, 10)])
def test_teachers_take_as_many_steps_as_the_student_or_fewer(labelled, epochs):
    task = TaskInfo(shape=(8, 8, 1), bags=8, labelled_bags=labelled)
    plan = RECIPES["census"].plan_for(task).with_settings({"training.epochs": 3, "census.teacher_epochs": 10})
    assert RECIPES["census"].stages(task, plan)[0].epochs == epochs


def test_epochs_are_chosen_by_the_validation_bags(train, whole):
    parts = digits()
    labels = BagLabels.of((parts.val.labels + 1) % 10, 10)
    other = train(parts._replace(val=parts.val._with(bag_labels=labels)))
    one, two = whole.trainings["head"], other.trainings["head"]
    assert one.history[0]["train_loss"] == two.history[0]["train_loss"]
    assert one.best_loss != two.best_loss
    assert whole.trainings["teacher-1"].best_loss != other.trainings["teacher-1"].best_loss


@pytest.mark.parametrize(
    ("name", "value", "stages", "shown"),
    [
        ("momentum", 0.5, ("teacher-1", "student"), "val_loss"),
        ("mixup", 0.0, ("student",), "train_loss"),
        ("sharpness", 8.0, ("student",), "train_loss"),
        ("temperature", 1.0, ("pretrain",), "train_loss"),
        ("mixed_views", 0.5, ("pretrain",), "train_loss"),
    ],
)
def test_every_setting_reaches_its_stage(train, whole, name, value, stages, shown):
    changed = train(own=replace(WITH_PRETRAIN, **{name: value}))
    for stage in stages:
        one, two = ([line[shown] for line in trained.trainings[stage].history] for trained in (whole, changed))
        assert one != two, stage


@pytest.mark.parametrize("method", ["supervised", "additive", "vote"])  # others: test_census_of_vectors.py
def test_other_methods_use_the_same_stages(train, method):
    trained = train(None, replace(WITH_PRETRAIN, teachers=1), method)
    assert trained.fitted.epochs == 2
    assert "teacher-1" in trained.trainings


@pytest.mark.parametrize("own", [WITH_PRETRAIN, SCRATCH])
def test_bags_may_have_a_background(train, monkeypatch, own):
    """Its share is estimated with heads on the pretrained network, or with whole networks if there is none."""
    monkeypatch.setattr("majority.recipes.census.parts.SHARES", (0.1, 0.3))
    parts = load_source("digits").make_parts(scenario="large", bags=24, bag_size=8, background="3")
    trained = train(parts, own, "adjusted-mean")
    assert trained.model.spec.background.share == trained.about["background"]["share"]
    assert {"share-0.1", "share-0.3"} <= trained.trainings.keys()


def test_the_student_has_the_running_statistics_of_the_last_teacher(train, tmp_path):
    trained = train(None, SCRATCH, "adjusted-mean", tmp_path)
    teacher = load_file(tmp_path / "stages/teacher-2/weights.safetensors")
    assert trained.model.head.loss.winner_share.item() == teacher["head.loss.winner_share"].item() != 0.1


def test_no_instance_label_reaches_any_stage(train, whole, same, scrambled):
    other = train(scrambled(digits()))
    assert same(whole.model, other.model)
    assert [one.best_loss for one in whole.trainings.values()] == [one.best_loss for one in other.trainings.values()]


def test_stopped_before_each_stage_it_ends_the_same(tmp_path, train, whole, check_going_on):
    check_going_on(lambda **more: train(folder=tmp_path, **more), whole)


@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_a_stage_read_back_is_trained_on(tmp_path, train):
    train(folder=tmp_path)
    shutil.rmtree(tmp_path / "stages" / "student")
    shutil.rmtree(tmp_path / "stages" / "head")
    again = train(folder=tmp_path, device="cuda").model
    pretrained = load_file(tmp_path / "stages/pretrain/weights.safetensors")
    network = {name: value.cpu() for name, value in again.state_dict().items() if name.startswith("backbone.")}
    assert not any(torch.equal(value, network[name]) for name, value in pretrained.items() if name in network)


def test_damaged_weights_of_a_stage_are_reported_with_the_cure(tmp_path, train, whole, folder_of_whole, same):
    shutil.copytree(folder_of_whole, tmp_path, dirs_exist_ok=True)
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
