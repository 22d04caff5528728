"""The members of census on vectors, and how the labels of the bags weigh them."""

import itertools

import numpy as np
import pytest
import torch

from majority import Bags, build_model
from majority.data.segments import Segments
from majority.recipes.census.members import (
    GROUPS,
    PAIRS,
    Forest,
    Table,
    correct_scores,
    find_correction,
    fit_linear,
    linear_member,
    predict_linear,
    predict_pairs,
)
from majority.recipes.census.pooling import (
    LabelledRows,
    add_labels,
    evidence,
    evidence_as_it_is,
    join,
    label_scores,
    log_likelihoods,
    weights_by,
)

BAGS, SIZE, CLASSES = 80, 16, 3


@pytest.fixture(scope="module")
def blobs():
    """Instances around one point per class, in bags in which about half of them have the class of the label."""
    rng = np.random.default_rng(0)
    labels = np.arange(BAGS) % CLASSES
    true = np.array([[*[label] * 8, *rng.integers(0, CLASSES, SIZE - 8)] for label in labels]).ravel()
    centres = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
    instances = torch.from_numpy((centres[true] + rng.normal(size=(len(true), 2))).astype(np.float32))
    known = LabelledRows(torch.arange(len(true)), Segments([SIZE] * BAGS), torch.from_numpy(labels))
    return instances, known, torch.from_numpy(true)


def test_a_label_is_as_likely_as_it_is_by_all_votes_that_instances_may_cast():
    probabilities = torch.tensor([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1], [0.8, 0.2]])
    wins = sum(
        float(probabilities[torch.arange(5), torch.tensor(votes)].prod())
        for votes in itertools.product((0, 1), repeat=5)
        if sum(votes) <= 2
    )
    found = label_scores(probabilities, Segments([5]), torch.tensor([0])).exp().item()
    assert found == pytest.approx(wins, abs=0.05)


def test_the_label_of_a_bag_moves_its_instances_as_bayes_rule_does():
    probabilities = torch.tensor([[0.6, 0.4], [0.5, 0.5], [0.3, 0.7], [0.4, 0.6], [0.5, 0.5]])
    joint = torch.zeros(5, 2)
    for votes in itertools.product((0, 1), repeat=5):
        if sum(votes) <= 2:
            which = torch.tensor(votes)
            joint[torch.arange(5), which] += probabilities[torch.arange(5), which].prod()
    exact = joint[:, 0] / joint.sum(dim=1)
    known = LabelledRows(torch.arange(5), Segments([5]), torch.tensor([0]))
    found = add_labels(probabilities, known)[:, 0]
    assert torch.allclose(found, exact, atol=0.06)
    assert (found > probabilities[:, 0]).all()


@pytest.mark.parametrize("loss", ["vote", "soft-count"])
def test_a_linear_model_of_bag_labels_classifies_instances(blobs, loss):
    instances, known, true = blobs
    for weights in fit_linear(instances, known, CLASSES, loss):
        assert (predict_linear(weights, instances).argmax(dim=1) == true).float().mean() > 0.9


def table_of(instances, labels, size=SIZE):
    offsets, index = np.arange(0, len(labels) * size + 1, size), np.arange(len(labels) * size)
    bags = Bags(np.asarray(instances, np.float32), index, offsets, labels, ["a", "b", "c"])
    return Table(bags, [], build_model(bags, "count", "linear").normalise, seed=0)


def test_columns_that_vary_much_are_trusted_first_if_the_labels_ask_for_it():
    rng = np.random.default_rng(0)
    labels = np.arange(BAGS) % CLASSES
    true = np.array([[*[label] * 8, *rng.integers(0, CLASSES, SIZE - 8)] for label in labels]).ravel()
    informative = 30 * (np.eye(CLASSES)[true] + 0.3 * rng.normal(size=(len(true), CLASSES)))
    table = table_of(np.column_stack([informative, rng.normal(size=(len(true), 300))]), labels)
    standardised = fit_linear(table.instances, table.everything, CLASSES, "vote", [0.1])[0]
    right = [
        (predicted.argmax(dim=1).numpy() == true).mean()
        for predicted in (predict_linear(standardised, table.instances), predict_pairs(table, linear_member(table, 0)))
    ]
    assert right[1] > right[0] + 0.02


def test_no_model_predicts_bags_that_it_has_seen_nor_tells_their_labels_to_a_network():
    """A model of a pair of groups predicts its number: which pairs predict a bag is the mean of these numbers."""
    table = table_of(np.random.default_rng(0).normal(size=(12 * 2, 3)), np.arange(12) % 3, size=2)

    def numbered(number):
        return lambda rows: torch.full((len(rows), 3), float(number))

    models = [numbered(number) for number in range(len(PAIRS))]
    groups = np.repeat(table.groups, table.sizes)
    for unseen in (None, *GROUPS):
        found = table.cross_fit(models, unseen=unseen)[:, 0].tolist()
        for group, mean in zip(groups, found, strict=True):
            allowed = [number for number, pair in enumerate(PAIRS) if group not in pair and unseen not in pair]
            assert mean == pytest.approx(np.mean(allowed))


def test_trees_that_have_seen_an_instance_in_another_bag_do_not_predict_it():
    """Every instance is in two bags and labels are random: who knows them from the other bag only seems to know."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(400, 4)), rng.integers(0, CLASSES, 200)
    table = table_of(rows[np.concatenate([rng.permutation(400) for _ in range(2)])], labels, size=4)
    forest = Forest(table, table.labelled(np.arange(200) < 100), seed=0)
    first = forest(torch.arange(400)).argmax(dim=1).numpy()
    assert (first == np.repeat(labels[:100], 4)).mean() < 0.5


def test_weights_of_a_linear_model_stay_finite_on_separable_bags():
    known = LabelledRows(torch.arange(80), Segments([1] * 80), torch.tensor([0, 1] * 40))
    instances = torch.eye(2).repeat(40, 1) * 1e4
    assert all(weights.isfinite().all() for weights in fit_linear(instances, known, 2, "vote", [0.0]))


def test_scores_of_labels_become_those_of_classes_as_the_mixture_of_a_bag_says():
    shares, signal = torch.tensor([0.6, 0.3, 0.1]), 0.4
    classes = torch.full((3,), 1 / 3)
    true = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    background = (classes - signal * shares) / (1 - signal)  # of the instances that do not follow the label
    from_background = (true * background / classes).sum(dim=1, keepdim=True)
    scores = shares * ((1 - signal) * from_background + signal * true / classes)
    assert torch.allclose(correct_scores(scores, shares, 1.0, signal), true, atol=1e-5)


def test_a_forest_of_bag_labels_is_corrected_where_winners_are_skewed(blobs):
    instances, known, true = blobs
    kept = (known.labels == 0) | (torch.arange(BAGS) < 24)
    rows = known.segments.spread(kept).nonzero().squeeze(1)
    skewed = LabelledRows(rows, Segments([SIZE] * int(kept.sum())), known.labels[kept])
    shares = torch.bincount(skewed.labels) / len(skewed.labels)
    table = table_of(instances[rows], skewed.labels.numpy())
    forest = Forest(table, table.everything, seed=0)
    scores = forest(torch.arange(len(rows)))
    corrected = find_correction(scores, table.everything, shares).correct(scores)
    right = [(part.argmax(dim=1) == true[rows]).float().mean() for part in (scores, corrected)]
    assert right[1] > right[0]


def test_members_that_the_labels_speak_against_are_left_out(blobs):
    _, known, true = blobs
    good = 0.7 * torch.eye(CLASSES)[true] + 0.1
    noise = torch.rand(len(true), CLASSES, generator=torch.Generator().manual_seed(0))
    weights = weights_by([evidence_as_it_is(member, known, 0.0) for member in (good, noise)], 0.25)
    assert weights == [1, 0]
    assert (join(weights, [good, noise]).argmax(dim=1) == true).all()


def test_rare_labels_count_in_the_choice_of_members():
    """Of 100 bags, 90 have the label 0: a member that knows only this class does not win over one that knows both."""
    labels = torch.tensor([0] * 90 + [1] * 10)
    known = LabelledRows(torch.arange(500), Segments([5] * 100), labels)
    true = known.segments.spread(labels)
    both = torch.where(torch.eye(2)[true] > 0, 0.62, 0.38)
    first = torch.tensor([0.9, 0.1]).repeat(500, 1)
    assert evidence(both, known, 0.0) > evidence(first, known, 0.0)
    assert log_likelihoods(both, known, 0.1).sum() < log_likelihoods(first, known, 0.1).sum()
