"""Every figure against scikit-learn or a plain loop, on made-up counts and through a real model."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from cases import each
from predicted import predicted
from sklearn.metrics import accuracy_score, f1_score, jaccard_score

from majority import Bags, InputError, build_model, evaluate
from majority.data import device
from majority.data.segments import Segments
from majority.predict.metrics import coverage_note

CLASSES = tuple("abcd")


# ---------------------------------------------------------------- references


def reference_calibration_error(confidence, right, n_bins=15):
    """Instance by instance: bins ((i - 1) / 15, i / 15], the gap of each weighted by its instances."""
    bins = [[] for _ in range(n_bins)]
    for c, r in zip(confidence, right, strict=True):
        bins[next(i for i in range(n_bins) if c <= (i + 1) / n_bins or i == n_bins - 1)].append((c, r))
    gaps = [len(b) / len(right) * abs(np.mean([c for c, _ in b]) - np.mean([r for _, r in b])) for b in bins if b]
    return sum(gaps)


def reference_consistency(labels, predicted, hard_counts):
    agree = []
    for label, guess, counts in zip(labels, predicted, hard_counts, strict=True):
        if label == guess:
            winners = [c for c, count in enumerate(counts) if count == max(counts)]
            agree.append(winners[0] == guess)
    return sum(agree) / len(agree) if agree else None


# ---------------------------------------------------------------- each figure


def test_summary_has_instance_figures_only_where_instance_labels_are_known():
    figures = predicted([0, 1, 1], [[3, 1], [2, 2], [0, 4]], [0, 1, 0]).summary()
    assert "too few bags" in figures.pop("warnings")[0]
    assert figures == {
        "method_bag_accuracy": pytest.approx(2 / 3),
        "bag_accuracy": pytest.approx(2 / 3),
        "most_frequent_label": pytest.approx(2 / 3),
        "consistency_rate": 0.5,
        "bags": 3,
        "instances": 12,
    }


# ---------------------------------------------------------------- through a model


def make_bags(seed=0, sizes=(1, 4, 9, 2, 6, 6, 3, 30), classes=CLASSES):
    rng = np.random.default_rng(seed)
    lists = [rng.normal(size=(size, 3)).astype(np.float32) for size in sizes]
    truth = [rng.integers(len(classes), size=size) for size in sizes]
    labels = rng.integers(len(classes), size=len(sizes))
    return Bags.from_lists(lists, labels, classes, instance_labels=truth)


def sharp_model(bags, method):
    """Random weights whose predictions differ from instance to instance."""
    model = build_model(bags, method, "mlp")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


@pytest.mark.parametrize("method", ["count", "additive"])
def test_evaluation_is_the_same_as_one_bag_at_a_time(method, monkeypatch):
    monkeypatch.setattr(device, "BATCH_INSTANCES", 5)
    bags = make_bags()
    model = sharp_model(bags, method).eval()
    by_method, counts, guesses, confidences = [], [], [], []
    for i in range(len(bags)):
        with torch.no_grad():
            output = model(torch.tensor(bags.bag(i)), Segments([bags.sizes[i]]))
        by_method.append(int(output.bag_log_probs[0].argmax()))
        rows = output.instance_log_probs.exp().double().numpy()
        counts.append([sum(row.argmax() == c for row in rows) for c in range(4)])
        guesses += [int(row.argmax()) for row in rows]
        confidences += [row.max() for row in rows]
    assert len(set(guesses)) > 1

    found = evaluate(model.train(), bags, "cpu")
    assert found.labels.winners.tolist() == bags.labels.tolist()
    assert found.predicted.tolist() == by_method
    assert found.counts.tolist() == counts
    assert found.true_counts.tolist() == bags.class_counts().tolist()
    truth = bags.instance_labels
    assert found.confusion.tolist() == [
        [sum((truth == t) & (np.array(guesses) == p)) for p in range(4)] for t in range(4)
    ]

    figures = {name: figure for name, figure in found.summary().items() if name != "warnings"}
    over = [counts[i][y] - bags.class_counts()[i][y] for i, y in enumerate(bags.labels)]
    right = [guess == y for guess, y in zip(guesses, truth, strict=True)]
    expected = {
        "instance_accuracy": accuracy_score(truth, guesses),
        "macro_f1": f1_score(truth, guesses, average="macro"),
        "mean_iou": jaccard_score(truth, guesses, average="macro"),
        "calibration_error": reference_calibration_error(confidences, right),
        "overestimation": np.mean(over),
        "overestimation_quantiles": [min(over), *np.percentile(over, [25, 50, 75]), max(over)],
        "method_bag_accuracy": np.mean(np.array(by_method) == bags.labels),
        "bag_accuracy": np.mean([row.index(max(row)) == y for row, y in zip(counts, bags.labels, strict=True)]),
        "most_frequent_label": Counter(bags.labels.tolist()).most_common(1)[0][1] / 8,
        "consistency_rate": reference_consistency(bags.labels, by_method, counts),
        "bags": 8,
        "instances": 61,
    }
    assert figures.keys() == expected.keys()
    for name, value in expected.items():
        assert figures[name] == (value if value is None else pytest.approx(value, abs=1e-6)), name
    json.dumps(figures)


@each(classes=[tuple("abc"), tuple("abdc")])
def test_bags_of_other_classes_are_refused(classes):
    model = sharp_model(make_bags(), "log-mean")
    with pytest.raises(
        InputError, match=r"^the bags have classes .* and the model has .*: make the bags with the model's classes"
    ):
        evaluate(model, make_bags(classes=classes), "cpu")


def test_the_coverage_is_the_sum_over_parts():
    partly = {"instances": 90, "bags": 10, "known_instances": 20, "known_bags": 3, "instance_accuracy": 0.5}
    full = {"instances": 30, "bags": 4, "instance_accuracy": 0.5, "overestimation": 0.1}
    note = coverage_note(partly, full)
    assert "50 of 120 instances" in note
    assert coverage_note(full) is None
