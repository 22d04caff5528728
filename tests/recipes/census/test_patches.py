"""Patches: features that no label is needed for, and census on them."""

import shutil

import numpy as np
import pytest
import torch

import majority
from majority import Bags, Classifier, evaluate
from majority.data.labels import BagLabels
from majority.nn.model import Normalise
from majority.recipes import RECIPES, TaskInfo, census, model_builder, train_by_plan
from majority.recipes.census import patches
from majority.recipes.census.patches import PatchFeatures, find_patches


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(patches, "CENTROIDS", 12)
    monkeypatch.setattr(patches, "COMPONENTS", 20)


def textures(bags=40, size=6, side=14, seed=0):
    """Stripes along x (class a) or along y (class b), anywhere, in noise; two thirds of a bag have its label."""
    rng = np.random.default_rng(seed)
    labels = np.arange(bags) % 2
    classes = np.concatenate([np.where(np.arange(size) % 3 < 2, label, 1 - label) for label in labels])
    stripes = np.sin(np.arange(side)[None] * 1.5 + rng.uniform(0, 6, len(classes))[:, None])  # (n, side)
    images = np.where(classes[:, None, None] == 0, stripes[:, None, :], stripes[:, :, None]).repeat(1, axis=0)
    images = (
        np.broadcast_to(images, (len(classes), side, side)) * 60 + 128 + rng.normal(0, 20, (len(classes), side, side))
    )
    store = np.clip(images, 0, 255).astype(np.uint8)[..., None]
    offsets = np.arange(bags + 1) * size
    return Bags(store, np.arange(len(store)), offsets, labels, ("a", "b"), instance_labels=classes)


def found(bags, seed=0):
    features = PatchFeatures(1)
    find_patches(features, Normalise(torch.tensor([0.5]), torch.tensor([0.25])), bags, seed)
    return features


def test_features_are_those_of_explicit_patches():
    bags = textures(bags=4)
    features = found(bags)
    image = torch.from_numpy(bags.store[:1]).permute(0, 3, 1, 2).float() / 255 * 4 - 2
    side, near = 14 - patches.PATCH + 1, []
    for row in range(side):
        for column in range(side):
            patch = image[0, :, row : row + patches.PATCH, column : column + patches.PATCH].flatten()
            white = features.whitening.flatten(1) @ patch + features.shift
            near.append((features.centroids @ (white / white.norm()) - patches.THRESHOLD).clamp(min=0))
    near = torch.stack(near).view(side, side, -1)
    half = side // 2
    quarters = [near[:half, :half], near[:half, half:], near[half:, :half], near[half:, half:]]
    expected = torch.cat([quarter.mean(dim=(0, 1)) for quarter in quarters]).sqrt()
    torch.testing.assert_close(features.similarities(image)[0], expected)
    torch.testing.assert_close(features(image)[0], features.components @ (expected - features.mean))


def test_whitened_patches_are_white_and_components_are_principal():
    bags = textures()
    features = found(bags)
    images = torch.from_numpy(bags.store).permute(0, 3, 1, 2).float() / 255 * 4 - 2
    white = torch.nn.functional.conv2d(images, features.whitening, features.shift).transpose(0, 1).flatten(1)
    covariance = torch.cov(white)
    assert covariance.diagonal().max() < 1.2
    assert (covariance - covariance.diagonal().diag()).abs().max() < 0.2
    values = features(images)
    assert values.mean(dim=0).abs().max() < 1e-3
    spread = torch.cov(values.T)
    assert (spread.diagonal().diff() < 1e-4).all(), "in the order of their variance"
    assert (spread - spread.diagonal().diag()).abs().max() < 1e-3 * spread.max(), "uncorrelated"


def test_components_are_those_of_some_of_many_images(monkeypatch):
    bags, seen = textures(), []
    monkeypatch.setattr(patches, "IMAGES_OF_COMPONENTS", 30)
    similarities = PatchFeatures.similarities
    monkeypatch.setattr(PatchFeatures, "similarities", lambda *args: seen.append(similarities(*args)) or seen[-1])
    features = found(bags)
    assert len(torch.cat(seen)) == 30 < len(bags.store)
    torch.testing.assert_close(features.mean, torch.cat(seen).mean(dim=0))


def test_no_label_is_used():
    bags = textures()
    other = bags._with(bag_labels=BagLabels.of(1 - bags.labels, 2), instance_labels=None)
    assert (other.labels != bags.labels).all()
    for name, value in found(bags).state_dict().items():
        assert torch.equal(value, found(other).state_dict()[name]), name


def test_census_learns_textures_from_bags(tmp_path):
    train, val, test = textures(30), textures(15, seed=1), textures(20, seed=2)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 5, "census.head.epochs": 6})
    build = model_builder(plan, "auto", train)
    hidden = [bags.without_instance_labels() for bags in (train, val)]
    logged = []
    trained = train_by_plan(plan, "auto", *hidden, build, tmp_path / "run", device="cpu", log=logged.append)
    assert evaluate(trained.model, test, "cpu").summary()["instance_accuracy"] > 0.95
    assert any("stage patches" in line for line in logged)
    assert RECIPES["census"].epochs(plan, train, "auto") == sum(stage.epochs for stage in trained.stages.values())
    learned_by_the_student = trained.about["losses"]["teachers"]
    assert len(learned_by_the_student) == 4, "three heads on features of patches, one network"
    assert sum(one["weight"] for one in learned_by_the_student.values()) == pytest.approx(1)
    place = Classifier(trained.model, "cpu").save(tmp_path / "c.safetensors")
    loaded = Classifier.load(place, "cpu")
    np.testing.assert_array_equal(loaded.predict(test.store), Classifier(trained.model, "cpu").predict(test.store))


def train_one_teacher(folder, monkeypatch, likelihoods):
    """Census on features of patches; `likelihoods` has those of the heads and of heads and teacher, by method."""
    train, val = textures(16), textures(8, seed=1)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 1, "census.head.epochs": 1})
    losses = RECIPES["census"].losses
    given = iter([likelihoods[0]] * len(losses) + [likelihoods[1]] * (len(losses) + 1))
    monkeypatch.setattr(census.recipe, "label_log_likelihood", lambda model, *_: next(given)[model.spec.method])
    build = model_builder(plan, "auto", train)
    return train_by_plan(plan, "auto", train, val, build, folder, device="cpu")


def test_one_teacher_has_the_loss_whose_head_has_the_largest_weight(tmp_path, monkeypatch):
    of_heads = {"vote": 0.0, "soft-count": -30.0, "adjusted-mean": -30.0}
    trained = train_one_teacher(tmp_path / "run", monkeypatch, (of_heads, of_heads))
    assert [name for name in trained.stages if name.startswith("teacher")] == ["teacher-1-vote"]
    assert trained.about["losses"]["chosen"] == trained.model.spec.method == "vote"


def test_the_student_has_a_loss_of_a_teacher_also_where_a_head_of_another_loss_is_better(tmp_path, monkeypatch):
    of_heads = {"vote": -30.0, "soft-count": -30.0, "adjusted-mean": 0.0}
    of_all = {"vote": 0.0, "soft-count": -30.0, "adjusted-mean": -30.0}
    trained = train_one_teacher(tmp_path / "run", monkeypatch, (of_heads, of_all))
    assert trained.about["losses"]["weights"]["vote"] > 0.9
    assert trained.about["losses"]["chosen"] == trained.model.spec.method == "adjusted-mean"


def test_the_share_of_a_background_is_estimated_with_heads_on_patches(tmp_path):
    train, val = (textures(n, seed=n).with_background("none") for n in (16, 8))
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 1, "census.head.epochs": 1, "census.teachers": 1})
    build = model_builder(plan, "log-mean", train)
    trained = train_by_plan(plan, "log-mean", train, val, build, tmp_path / "run", device="cpu")
    assert trained.model.spec.background.share == trained.about["background"]["share"]
    assert RECIPES["census"].epochs(plan, train, "log-mean") == sum(one.epochs for one in trained.stages.values())


def test_without_heads_there_is_a_teacher_of_each_loss(tmp_path):
    """For example because a class is never the label of a bag."""
    classes = ("a", "b", "never")
    parts = textures(16), textures(8, seed=1)
    train, val = (bags._with(classes=classes, bag_labels=bags.bag_labels.with_classes(3)) for bags in parts)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False)).with_settings({"training.epochs": 1})
    trained = train_by_plan(
        plan, "auto", train, val, model_builder(plan, "auto", train), tmp_path / "run", device="cpu"
    )
    losses = RECIPES["census"].losses
    assert [*trained.stages] == [*(f"teacher-{n}-{loss}" for n, loss in enumerate(losses, 1)), "student"]
    assert RECIPES["census"].epochs(plan, train, "auto") == 4


def test_the_features_of_patches_can_be_left_out(tmp_path):
    train, val = textures(16), textures(8, seed=1)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 1, "census.patches": False})
    trained = train_by_plan(
        plan, "vote", train, val, model_builder(plan, "vote", train), tmp_path / "run", device="cpu"
    )
    assert [*trained.stages] == ["teacher-1", "teacher-2", "teacher-3", "student"]
    assert RECIPES["census"].epochs(plan, train, "vote") == 4


def test_the_distilled_network_learns_the_soft_labels_of_the_head_on_patches(tmp_path, monkeypatch):
    """With a head that knows the classes, the network knows them before it has seen a bag label."""
    train, val, test = textures(), textures(20, seed=1), textures(20, seed=2)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 12, "census.head.epochs": 10, "census.teachers": 1})
    learned = {}

    def teach_nothing(run, model, number, folder, title):
        learned["accuracy"] = evaluate(model, test, "cpu").summary()["instance_accuracy"]
        raise KeyboardInterrupt

    monkeypatch.setattr(census.recipe, "train_teacher", teach_nothing)
    build = model_builder(plan, "log-mean", train)
    with pytest.raises(KeyboardInterrupt):
        train_by_plan(plan, "log-mean", train, val, build, tmp_path / "run", device="cpu")
    assert learned["accuracy"] > 0.9


def test_a_run_that_was_stopped_ends_the_same(tmp_path):
    train, val = textures(16), textures(8, seed=1)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 2, "census.head.epochs": 2, "census.teachers": 1})
    build = model_builder(plan, "log-mean", train)
    trained = train_by_plan(plan, "log-mean", train, val, build, tmp_path / "run", device="cpu")
    shutil.rmtree(tmp_path / "run/stages/student")
    again = train_by_plan(plan, "log-mean", train, val, build, tmp_path / "run", device="cpu")
    for name, value in again.model.state_dict().items():
        assert torch.equal(value, trained.model.state_dict()[name]), name


def test_a_last_training_on_all_bags_has_the_teacher_that_was_chosen(tmp_path, monkeypatch):
    of_heads = {"vote": 0.0, "soft-count": -30.0, "adjusted-mean": -30.0}
    first = train_one_teacher(tmp_path / "run", monkeypatch, (of_heads, of_heads))
    bags = textures(24)
    plan = RECIPES["census"].plan(TaskInfo("", (14, 14, 1), on_gpu=False))
    plan = plan.with_settings({"training.epochs": 1, "census.head.epochs": 1})
    build = model_builder(plan, "auto", bags)
    last = train_by_plan(plan, "auto", bags, bags, build, tmp_path / "last", device="cpu", chosen=first.chosen)
    assert [*last.stages] == [*first.stages]
    assert last.model.spec.method == "vote"


def test_a_last_training_on_all_bags_starts_from_patches_too(tmp_path):
    settings = {"training.epochs": 2, "census.head.epochs": 2, "census.teachers": 1}
    parts = (textures(16), textures(8, seed=1), textures(8, seed=2))
    run = majority.train(parts, settings=settings, device="cpu", out=tmp_path / "run", refit=True, verbose=False)
    assert "distilled" in run.result["stages"]
    assert run.classifier.predict(parts[2].store).shape == (48,)
