"""Bag losses weighted by the validation bags: the likelihood, the weights, and census without a named method."""

import numpy as np
import pytest
import torch

from majority import Bags, build_model
from majority.recipes.census import parts as census_parts
from majority.recipes.census.parts import CensusSettings
from majority.recipes.features import instance_probabilities
from majority.recipes.losses import label_counts, label_log_likelihood, predicted_shares
from majority.recipes.stages import Run


def test_predicted_shares_are_weighted_means_over_each_bag(vectors):
    bags = vectors(bags=9).val
    bags = bags._with(weights=np.random.default_rng(0).random(len(bags.index)) + 0.1)
    model = build_model(bags, "vote", "mlp")
    p = instance_probabilities(model, bags, "cpu").numpy()
    rows = [slice(*ends) for ends in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)]
    for hard, votes in ((False, p), (True, np.eye(3)[p.argmax(axis=1)])):
        expected = [np.average(votes[of_bag], axis=0, weights=bags.weights[of_bag]) for of_bag in rows]
        assert predicted_shares(model, bags, "cpu", hard) == pytest.approx(np.array(expected), abs=1e-6)


def test_validation_bags_without_a_label_say_nothing(vectors):
    parts = vectors()
    model = build_model(parts.train, "log-mean", "mlp", seed=1)
    known = np.arange(len(parts.val)) % 2 == 0
    some = parts.val._with(bag_labels=parts.val.bag_labels.masked(known))
    found = [label_log_likelihood(model, parts.train, val, "cpu") for val in (some, parts.val.subset(known))]
    assert found[0] == found[1]


def test_the_labels_that_are_counted_name_one_class_and_no_background():
    lists = [np.zeros((2, 1), np.float32)] * 5
    bags = Bags.from_lists(lists, ["b", "b", "c", "b|c", "c"], ["a", "b", "c"]).with_background("a")
    assert label_counts(bags).tolist() == [2, 2]


def test_the_likelihood_of_labels_is_the_same_whatever_the_number_of_the_background():
    lists, found = np.random.default_rng(0).normal(size=(8, 6, 2)).astype(np.float32), []
    weights = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))  # of b, c and the background
    for background in ("a", "d"):
        bags = Bags.from_lists(lists, ["b", "c"] * 4, sorted(["b", "c", background])).with_background(background)
        model = build_model(bags, "vote", "linear")
        order = [bags.classes.index(name) for name in ("b", "c", background)]
        model.head.classifier.weight.data[order] = weights
        model.head.classifier.bias.data.zero_()
        found.append(label_log_likelihood(model, bags, bags, "cpu"))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


# ---------------------------------------------------------------------- census without a named method


def test_the_student_learns_the_weighted_mean_with_offsets(monkeypatch, train_census, vectors):
    learned, fit, given = {}, Run.fit, iter(np.eye(3))

    def note(run, *arguments, **options):
        learned[run.stage.name] = options.get("soft_labels")
        return fit(run, *arguments, **options)

    def probabilities(model, bags, device):
        return torch.tensor(np.tile(next(given), (len(bags.index), 1)), dtype=torch.float32)

    offsets = np.array([0.5, -0.5, 0.0])
    monkeypatch.setattr(Run, "fit", note)
    monkeypatch.setattr(census_parts, "instance_probabilities", probabilities)
    monkeypatch.setattr(census_parts, "find_offsets", lambda *_: torch.from_numpy(offsets))
    trained = train_census(vectors(), CensusSettings(teachers=3), "auto", backbone="mlp")
    weights = [teacher["weight"] for teacher in trained.about["losses"]["teachers"].values()]
    assert [*trained.about["losses"]["class_offsets"].values()] == offsets.tolist()
    squared = np.square(weights * np.exp(offsets))
    assert learned["student"][0] == pytest.approx(squared / squared.sum(), rel=1e-4)
