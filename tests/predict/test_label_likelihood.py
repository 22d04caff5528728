"""The likelihood of labels some of which are wrong, against plain formulas."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import softmax

from majority.data.labels import BagLabels
from majority.predict.label_likelihood import (
    ABSOLUTE,
    RELATIVE,
    SHARPNESS,
    judge_labels,
    label_log_probs,
    mean_log_likelihoods,
    wrong_rates,
)


def reference(shares, labels, counts, wrong, kinds):
    """One bag and one class at a time: the probability of each winner, and of each label."""
    base = np.log((counts + 1) / (counts + 1).sum())
    n_classes, best = shares.shape[1], None
    for kind, sharpness in product(kinds, SHARPNESS):
        scores = base + sharpness * (shares - shares.mean(axis=0)) if kind == RELATIVE else sharpness * shares
        winners = softmax(scores, axis=1)
        likelihoods = []
        for bag, label in enumerate(labels):
            others = sum(winners[bag, winner] for winner in range(n_classes) if winner != label)
            likelihoods.append((1 - wrong) * winners[bag, label] + others * wrong / (n_classes - 1))
        if best is None or np.log(likelihoods).mean() > np.log(best[1]).mean():
            best = winners, np.array(likelihoods)
    return best


@pytest.mark.parametrize("kinds", [(RELATIVE,), (ABSOLUTE,), (RELATIVE, ABSOLUTE)])
@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.4])
def test_likelihood_equals_sums_over_all_winners(wrong, kinds):
    shares, labels, counts = random_bags()
    winners, likelihoods = reference(shares, labels, counts, wrong, kinds)
    log_probs, found = label_log_probs(shares, BagLabels.of(labels, shares.shape[1]), counts, wrong, kinds)
    assert np.exp(log_probs) == pytest.approx(winners)
    assert np.exp(found) == pytest.approx(likelihoods)


def random_bags(largest=False):
    """Shares of 25 bags, labels that are random or the largest share, and how often each is one."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([4, 2, 1, 1], 25)
    labels = shares.argmax(axis=1) if largest else rng.integers(4, size=25)
    return shares, labels, np.bincount(labels, minlength=4)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.4])
def test_judgement_takes_the_better_kind_of_explanation(wrong, largest):
    shares, labels, counts = random_bags(largest)
    both = (RELATIVE, ABSOLUTE)
    winners, likelihoods = reference(shares, labels, counts, wrong, both)
    of_kinds = [np.log(reference(shares, labels, counts, wrong, [kind])[1]).mean() for kind in both]
    assert (of_kinds[1] > of_kinds[0]) == largest
    assert mean_log_likelihoods(shares, BagLabels.of(labels, shares.shape[1]), counts, [wrong]) == pytest.approx(
        [max(of_kinds)]
    )
    judged = judge_labels(shares, BagLabels.of(labels, shares.shape[1]), counts, wrong)
    right = (1 - wrong) * winners[np.arange(25), labels] / likelihoods
    assert judged.wrong == pytest.approx(1 - right, abs=1e-9)
    assert judged.winner.tolist() == winners.argmax(axis=1).tolist()


def test_wrong_labels_are_found_where_one_class_is_common():
    """The most common class has two thirds of all instances: its share is often below its mean where it has won."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet([4, 1, 1], 300)
    true = shares.argmax(axis=1)
    wrong = rng.random(300) < 0.2
    labels = np.where(wrong, (true + rng.integers(1, 3, 300)) % 3, true)
    counts = np.bincount(labels, minlength=3)
    tried = mean_log_likelihoods(shares, BagLabels.of(labels, shares.shape[1]), counts, [0.0, 0.2])
    assert 300 * (tried[1] - tried[0]) > 10
    judged = judge_labels(shares, BagLabels.of(labels, shares.shape[1]), counts, 0.2)
    assert (judged.contradicted == wrong).mean() > 0.95


@pytest.mark.parametrize("several", [False, True])
def test_counts_with_many_zeros(several):
    """Bags of two instances and more classes than a bag can have; some labels allow two classes."""
    rng = np.random.default_rng(1)
    shares, winners, counts = rng.multinomial(2, np.ones(9) / 9, 30) / 2, rng.integers(9, size=30), np.arange(9)
    allowed = np.eye(9, dtype=bool)[winners]
    if several:
        allowed[:10, 3] = allowed[:10, 4] = True
        winners[:10] = -1
    labels = BagLabels(allowed) if several else BagLabels.of(winners, allowed.shape[1])
    found = label_log_probs(shares, labels, counts)
    sums = []
    for sharpness in SHARPNESS:
        scores = (counts + 1) * np.exp(sharpness * (shares - shares.mean(axis=0)))
        sums.append(np.log((scores * allowed).sum(axis=1) / scores.sum(axis=1)))
    assert found[1] == pytest.approx(max(sums, key=np.mean))
    assert found[1] == pytest.approx(labels.log_probs(found[0]))
    tried = [0.0, 0.1, 0.3]
    both = (RELATIVE, ABSOLUTE)
    expected = [label_log_probs(shares, labels, counts, wrong, both)[1].mean() for wrong in tried]
    assert mean_log_likelihoods(shares, labels, counts, tried) == pytest.approx(expected)


def test_a_label_of_several_classes_is_wrong_only_if_none_of_them_has_won():
    shares = np.repeat([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], 5, axis=0)
    winners = np.repeat([0, 1, 2], 5)
    allowed = np.eye(3, dtype=bool)[winners]
    winners[[0, 1]] = -1
    allowed[0], allowed[1] = [True, True, False], [False, True, True]
    judged = judge_labels(shares, BagLabels(allowed), np.array([3, 5, 5]), 0.2)
    assert np.flatnonzero(judged.contradicted).tolist() == [1]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_some_labels_are_drawn_at_random(size):
    """All labels of this size, given each winner: so often that a tenth of the labels of one class is wrong."""
    drawn, winners = 0.1 * 4 / 3, np.array([0.1, 0.2, 0.3, 0.4])
    sets = [*combinations(range(4), size)]
    expected, wrong = [], []
    for named in sets:
        likelihood = 0.0
        for winner, probability in enumerate(winners):
            right = [other for other in sets if winner in other]
            likelihood += probability * ((1 - drawn) * (winner in named) / len(right) + drawn / len(sets))
        expected.append(likelihood * len(right))
        wrong.append(drawn * np.mean([0 not in other for other in sets]))
    allowed = np.array([[number in named for number in range(4)] for named in sets])
    rates, by_chance = wrong_rates(BagLabels(allowed), 0.1, 4)
    assert rates == pytest.approx(np.array(wrong))
    assert (1 - rates - by_chance) * (allowed @ winners) + by_chance == pytest.approx(expected)
