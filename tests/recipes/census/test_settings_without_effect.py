"""Settings of census that have no effect in a plan are reported, and have none."""

import numpy as np
import pytest

import majority
from majority import load_source
from majority.recipes import RECIPES, TaskInfo

FAST = {"training.epochs": 1, "census.head.epochs": 1, "census.teachers": 1}
WITHOUT_EFFECT = {
    "census.search_epochs": 5,
    "census.temperature": 0.5,
    "census.mixed_views": 0.5,
    "census.patches": True,
    "census.class_offsets": False,  # with one method
}


def names_without_effect(task, method="auto", **changes):
    """Their names, without the name of the recipe."""
    recipe, train = RECIPES["census"], load_source("digits").make_parts(bags=12, bag_size=8).train
    plan = recipe.plan(task).with_settings({f"census.{name}": value for name, value in changes.items()})
    return {name.removeprefix("census.") for name in recipe.without_effect(plan, train, method)}


def test_they_are_reported_and_change_nothing(vectors, capsys):
    parts = vectors(width=5, bags=24)

    def probabilities(**changes):
        settings = FAST | changes
        run = majority.train(parts, method="vote", recipe="census", settings=settings, device="cpu")
        return run.classifier.predict_proba(parts.test.instances())

    as_planned = probabilities()
    assert "no effect" not in capsys.readouterr().out
    np.testing.assert_array_equal(probabilities(**WITHOUT_EFFECT), as_planned)
    lines = [line for line in capsys.readouterr().out.splitlines() if "no effect" in line]
    for name, reason in (("search_epochs", "census.pretrain"), ("patches", "images"), ("class_offsets", "--method")):
        assert [reason in line for line in lines if f" census.{name} " in line] == [True]
    assert len(lines) == len(WITHOUT_EFFECT)
    assert not np.array_equal(probabilities(**{"census.sharpness": 8.0}), as_planned)
    assert "no effect" not in capsys.readouterr().out


OF_PRETRAIN = {"search_epochs", "temperature", "mixed_views"}


@pytest.mark.parametrize(
    ("task", "changes", "expected"),
    [
        (TaskInfo("cifar10", (32, 32, 3), on_gpu=True), {}, {"patches"}),
        (TaskInfo("cifar10", (32, 32, 3), on_gpu=True), {"head": None}, {"patches", "search_epochs"}),
        (TaskInfo("cifar10", (32, 32, 3), on_gpu=True), {"pretrain": None}, OF_PRETRAIN),
        (TaskInfo("cifar10", (32, 32, 3), on_gpu=False), {}, OF_PRETRAIN),
        (TaskInfo("digits", (8, 8, 1)), {}, OF_PRETRAIN | {"patches"}),
    ],
)
def test_they_depend_on_the_stages_of_the_plan(task, changes, expected):
    assert names_without_effect(task, **changes) == expected
    assert names_without_effect(task, "vote", **changes) == expected | {"class_offsets"}
