"""Bag accuracy has one meaning, by the counts of predicted instances, wherever it is shown."""

import csv
import json

import numpy as np
import pytest
import torch

from majority import Bags, Settings, build_model, evaluate, fit, load_source, train
from majority.training.progress import format_losses


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose method predicts other bags correctly than its instances do."""
    folder = tmp_path_factory.mktemp("accuracy") / "run"
    settings = {"training.epochs": 6}
    options = {"bags": 60, "bag_size": 8, "method": "feature-max", "recipe": "quick", "settings": settings}
    train("digits", **options, device="cpu", verbose=False, out=folder)
    return folder


@pytest.fixture
def result(run):
    found = json.loads((run / "result.json").read_text())
    for part in ("test", "val"):
        assert abs(found[part]["bag_accuracy"] - found[part]["method_bag_accuracy"]) > 0.02, "or tests show nothing"
    return found


def test_epochs_record_the_bags_that_are_right_by_count(run, result):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = records[result["best_epoch"]]
    assert kept["val_bag_accuracy"] == pytest.approx(result["val"]["bag_accuracy"], abs=1e-6)
    assert f"bags right {kept['val_bag_accuracy']:.0%}" in format_losses(kept)


def test_predicted_bags_have_the_accuracy_of_the_result(run, result, succeeds, tmp_path):
    out = tmp_path / "bags.csv"
    succeeds("predict", run, "--bags", "--out", out, "--device", "cpu")
    with out.open(newline="") as file:
        majorities = [row["majority"] for row in csv.DictReader(file)]
    test = load_source("digits").make_parts(bags=60, bag_size=8).test
    right = np.mean([test.classes[label] == name for label, name in zip(test.labels, majorities, strict=True)])
    assert right == pytest.approx(result["test"]["bag_accuracy"])


def test_training_counts_instances_whatever_the_method_predicts():
    """Two of three instances are predicted as the label, while their mean confidence predicts the other class."""
    bag = np.log([[0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]).astype(np.float32)
    bags = Bags.from_lists([bag, bag[:, ::-1]] * 2, ["b", "a"] * 2, "ab")
    model = build_model(bags, "log-mean", torch.nn.Identity())
    with torch.no_grad():
        model.head.classifier.weight.copy_(torch.eye(2))
        model.head.classifier.bias.zero_()
        model.normalise.mean.zero_()
        model.normalise.std.fill_(1)
    settings = Settings(epochs=1, learning_rate=1e-12, warmup_epochs=0, batch_bags=2)
    (record,) = fit(model, bags, bags, settings, device="cpu").history
    assert (record["train_bag_accuracy"], record["val_bag_accuracy"]) == (1, 1)
    figures = evaluate(model, bags, "cpu").summary()
    assert (figures["bag_accuracy"], figures["method_bag_accuracy"]) == (1, 0)
