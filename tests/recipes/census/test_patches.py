"""Patches: features that no label is needed for, and census on them."""

import numpy as np
import pytest
import torch

from majority import Bags, Classifier, evaluate
from majority.nn.model import Normalise
from majority.recipes import RECIPES, Run, TaskInfo, model_builder, train_by_plan
from majority.recipes.census import parts, patches
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
            white = features.whiten.weight.flatten(1) @ patch + features.whiten.bias
            near.append((features.compare.weight.flatten(1) @ (white / white.norm()) - patches.THRESHOLD).clamp(min=0))
    near = torch.stack(near).view(side, side, -1)
    half = side // 2
    quarters = [near[:half, :half], near[:half, half:], near[half:, :half], near[half:, half:]]
    expected = torch.cat([quarter.mean(dim=(0, 1)) for quarter in quarters]).sqrt()
    torch.testing.assert_close(features.similarities(image)[0], expected)
    torch.testing.assert_close(features(image)[0], features.components.weight @ (expected - features.mean))


@pytest.fixture
def train():
    """Census on features of patches, with fast settings, on parts (train, val)."""

    def run(bags, method="auto", folder=None, settings=None, **more):
        task = TaskInfo(shape=bags[0].store.shape[1:], on_gpu=False)
        fast = {"training.epochs": 1, "census.head.epochs": 1, "census.teachers": 1}
        plan = RECIPES["census"].plan_for(task).with_settings(fast | (settings or {}))
        build = model_builder(plan, method, bags[0])
        chosen = more.pop("chosen", None)
        return train_by_plan(Run(*bags, plan, build, task, folder, device="cpu", **more), method, chosen)

    return run


SMALL = (textures(16), textures(8, seed=1))


def test_census_learns_textures_from_bags(tmp_path, train):
    logged = []
    settings = {"training.epochs": 5, "census.head.epochs": 6, "census.teachers": 1}
    test = textures(20, seed=2)
    trained = train((textures(30), textures(15, seed=1)), settings=settings, log=logged.append)
    assert evaluate(trained.model, test, "cpu").summary()["instance_accuracy"] > 0.95
    assert any("stage patches" in line for line in logged)
    learned_by_the_student = trained.about["losses"]["teachers"]
    assert len(learned_by_the_student) == 4, "three heads on features of patches, one network"
    assert sum(one["weight"] for one in learned_by_the_student.values()) == pytest.approx(1)
    place = Classifier(trained.model, "cpu").save(tmp_path / "c.safetensors")
    loaded = Classifier.load(place, "cpu")
    np.testing.assert_array_equal(loaded.predict(test.store), Classifier(trained.model, "cpu").predict(test.store))


@pytest.fixture
def likelihoods(monkeypatch):
    """Set those of the heads and of heads and teacher, by method."""

    def give(of_heads, of_all):
        given = iter([of_heads] * 3 + [of_all] * 4)
        monkeypatch.setattr(parts, "label_log_likelihood", lambda model, *_, device: next(given)[model.spec.method])

    return give


VOTE = {"vote": 0.0, "soft-count": -30.0, "adjusted-mean": -30.0}
ADJUSTED = {"vote": -30.0, "soft-count": -30.0, "adjusted-mean": 0.0}


def test_one_teacher_has_the_loss_whose_head_has_the_largest_weight(train, likelihoods):
    """And so has the student, also where in the end a head of another loss is better."""
    likelihoods(ADJUSTED, VOTE)
    trained = train(SMALL, settings={"census.teachers": 1})
    assert [name for name in trained.trainings if name.startswith("teacher")] == ["teacher-1"]
    assert trained.about["losses"]["weights"]["vote"] > 0.9
    assert trained.about["losses"]["chosen"] == trained.model.spec.method == "adjusted-mean"
    again = train((textures(24), textures(24)), settings={"census.teachers": 1}, chosen=trained)
    assert [*again.trainings] == [*trained.trainings]
    assert again.model.spec.method == "adjusted-mean", "also in a training on all bags"
