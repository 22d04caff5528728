"""The share of a background class, estimated from the bags: the choice, its report, and that no instance label takes
part in it."""

import json

import numpy as np
import pytest

import majority
from majority import Bags, Settings
from majority.io import Parts
from majority.recipes.census.parts import HeadSettings

HEAD = Settings(epochs=15, batch_bags=16, learning_rate=0.05)
OWN = HeadSettings(head=HEAD, teachers=1, teacher_epochs=2)
TRAINING = Settings(epochs=2, batch_bags=16)


def make_parts(share=0.4, bags=45, background="z", seed=0):
    """Three classes that vote and a background that holds this share of the instances."""
    rng = np.random.default_rng(seed)
    names = sorted(["a", "b", "c", background])
    voters = [number for number, name in enumerate(names) if name != background]
    means = 4 * np.eye(4, 8)
    means[names.index(background)] += 0.7 * means[voters[0]]  # it looks like one of the classes

    def part(bags):
        labels = [voters[i % 3] for i in range(bags)]
        which = [
            np.where(
                rng.random(20) < share,
                names.index(background),
                np.where(rng.random(20) < 0.35, label, rng.choice(voters, size=20)),
            )
            for label in labels
        ]
        lists = [(means[numbers] + rng.normal(size=(20, 8))).astype(np.float32) for numbers in which]
        made = Bags.from_lists(lists, [names[label] for label in labels], names, instance_labels=[
            [names[number] for number in numbers] for numbers in which
        ])  # fmt: skip
        return made.with_background(background)

    return Parts(part(bags), part(bags), part(bags))


@pytest.fixture(scope="module")
def train(train_census):
    return lambda parts, own=OWN, **more: train_census(
        parts, own, "soft-count", backbone="mlp", training=TRAINING, **more
    )


@pytest.fixture(scope="module", autouse=True)
def few_shares():
    """Three shares are enough to see a choice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("majority.recipes.census.background_share.SHARES", (0.06, 0.25, 0.6))
        yield


@pytest.fixture(scope="module")
def whole(train):
    return train(make_parts())


# ---------------------------------------------------------------- in the recipe


def test_a_frequent_background_is_found_without_its_share(whole):
    assert whole.about["background"]["share"] == 0.25
    assert whole.model.spec.background.share == whole.about["background"]["share"]
    assert len([name for name in whole.trainings if name.startswith("share-")]) == 3


def test_a_given_share_is_used_as_it_is(train):
    trained = train(make_parts(), share=0.3)
    assert "background" not in trained.about
    assert not any(name.startswith("share-") for name in trained.trainings)
    assert trained.model.spec.background.share == 0.3


def test_a_share_that_cannot_be_found_is_reported(tmp_path):
    parts = make_parts(share=0.05, bags=9)
    settings = {"training.epochs": 1, "census.head.epochs": 2, "census.teachers": 1}
    run = majority.train(
        tuple(parts), method="soft-count", recipe="census", settings=settings, out=tmp_path, device="cpu", verbose=False
    )
    found = json.loads((tmp_path / "result.json").read_text())["background"]
    assert "do not determine the background share" in found["warning"]
    page = run.report.read_text()
    assert "do not determine the background share" in page
    assert f"{found['share']:g}, estimated" in page
    assert "do not determine the background share" in (tmp_path / "model-card.md").read_text()
    assert run.classifier.model.spec.background.share == found["share"]
