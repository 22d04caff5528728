"""Wrong bag labels: how recipes find them and train without them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from majority import Bags, Settings, build_model, evaluate
from majority.data.joining import join
from majority.data.scenarios import make_labels_wrong
from majority.recipes import (
    RECIPES,
    Plan,
    Recipe,
    Run,
    Stage,
    TaskInfo,
    model_builder,
    stages,
    train_by_plan,
    wrong_labels,
)
from majority.recipes.wrong_labels import find_wrong_labels
from majority.training.callbacks import Fitted

TRAINING = Settings(epochs=20, batch_bags=8, learning_rate=2e-2)


def make_parts(wrong=0.0, seed=0):
    """Bags of three well separated classes; a share of training and validation labels is wrong."""
    rng = np.random.default_rng(seed)

    def make(n):
        labels, true = np.arange(n) % 3, []
        for bag, label in enumerate(labels):
            votes = 12 - bag % 8 // 2 * 2  # 6 to 12 of 12: the likelihood needs clear and less clear majorities
            others = (np.arange(12 - votes) + bag) % 2 + 1
            true.append(rng.permutation(np.append(np.repeat(label, votes), (label + others) % 3)))
        instances = [3 * np.eye(3)[of_bag] + rng.normal(size=(12, 3)) for of_bag in true]
        return Bags.from_lists(instances, labels, ["a", "b", "c"], instance_labels=true)

    train, val, test = make(60), make(24), make(24)
    return make_labels_wrong(train, wrong, rng), make_labels_wrong(val, wrong, rng), test, (train, val)


def run(folder, train, val, *, chosen=None, recipe="quick", assumed=None, log=lambda line: None, method="log-mean"):
    plan = Plan(recipe, "linear", training=TRAINING, assumed_wrong=assumed)
    build = model_builder(plan, method, train, pixels="data")
    run = Run(train, val, plan, build, TaskInfo.of(train), folder, device="cpu", log=log)
    return train_by_plan(run, method, chosen)


def test_labels_that_are_wrong_are_found_and_corrected(tmp_path):
    train, val, test, (true_train, true_val) = make_parts(0.15)
    trained = run(tmp_path, train, val)
    about = trained.about["wrong_labels"]
    given, true = (np.concatenate([a.labels, b.labels]) for a, b in ((train, val), (true_train, true_val)))
    corrected = {int(bag) for bag in about["corrections"]}
    assert about["share"] > 0
    assert corrected == set(np.flatnonzero(given != true).tolist())
    assert all(label in ("", "abc"[true[int(bag)]]) for bag, label in about["corrections"].items())
    assert sum(label != "" for label in about["corrections"].values()) > len(corrected) / 2, "sure of most of them"
    assert trained.first is not None
    assert trained.summary()["seconds"] > trained.first.summary()["seconds"]
    accuracies = [
        evaluate(one, test, "cpu").summary()["instance_accuracy"] for one in (trained.first.model, trained.model)
    ]
    assert accuracies[1] >= accuracies[0]


def test_right_labels_change_nothing(tmp_path):
    train, val, *_ = make_parts(0.0)
    looked, plain = run(tmp_path / "looked", train, val), run(tmp_path / "plain", train, val, assumed=0.0)
    assert looked.about["wrong_labels"]["corrections"] == {}
    assert looked.first is None
    assert "wrong_labels" not in plain.about
    for name, weights in plain.model.state_dict().items():
        assert weights.equal(looked.model.state_dict()[name])
    assert not (tmp_path / "looked" / "robust").exists()


def test_an_interrupted_second_training_continues_with_the_same_labels_and_result(tmp_path, monkeypatch):
    train, val, *_ = make_parts(0.15)
    whole = run(tmp_path / "whole", train, val)

    def stop(line):
        if "without the wrong labels" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", train, val, log=stop)
    monkeypatch.setattr(wrong_labels, "find_wrong_labels", None)  # not again: another device may find other labels
    again = run(tmp_path / "cut", train, val)
    assert again.about == whole.about
    for name, weights in whole.model.state_dict().items():
        assert weights.equal(again.model.state_dict()[name])


def test_the_last_training_bag_of_a_class_keeps_its_label():
    train, val, *_ = make_parts()
    rare = train.with_other_labels({bag: "b" for bag in range(2, 60, 3) if bag not in (2, 5)})  # two bags of c are left
    model = build_model(rare, "log-mean", "linear")
    with torch.no_grad():  # predicts a or b, never c
        model.head.classifier.weight.copy_(10 * torch.eye(3))
        model.head.classifier.bias.copy_(torch.tensor([0.0, 0.0, -1e3]))
    corrections = find_wrong_labels(model, rare, val, 0.4, "cpu")["corrections"]
    assert len({"2", "5"} & {*corrections}) == 1


def test_stages_without_labels_are_trained_and_counted_once():
    parts = make_parts(0.15)
    pretrained = Stage("pretrain", TRAINING, once=True)
    recipe = Recipe("two", lambda task, plan: [pretrained, Stage("student", TRAINING, ("pretrain",))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "two", recipe)
        trained = run(None, *parts[:2], recipe="two")
    assert trained.first is not None
    assert trained.trainings["pretrain"] is trained.first.trainings["pretrain"]
    assert trained.trainings["student"] is not trained.first.trainings["student"]
    once = [trained.trainings["pretrain"], trained.trainings["student"], trained.first.trainings["student"]]
    assert trained.summary()["seconds"] == pytest.approx(sum(one.seconds for one in once), abs=2e-3)


def test_a_training_on_all_bags_uses_the_labels_that_were_chosen(tmp_path, monkeypatch):
    train, val, test, _ = make_parts(0.15)
    first = run(tmp_path / "first", train, val)
    corrections = {int(bag): label for bag, label in first.about["wrong_labels"]["corrections"].items()}
    assert min(corrections) < len(train) <= max(corrections)
    whole, learned = join([train, val, test]), []
    monkeypatch.setattr(stages, "fit", lambda model, bags, *args, **options: learned.append(bags) or Fitted(0, 1.0))
    run(tmp_path / "refit", whole, whole, chosen=first)
    given = whole.bag_labels.texts("abc")
    expected = [corrections.get(bag, label) for bag, label in enumerate(given)]
    assert learned[-1].bag_labels.texts("abc") == expected != given
    run(tmp_path / "other", whole, whole, chosen=replace(first, about={}))
    assert learned[-1].bag_labels.texts("abc") == given
