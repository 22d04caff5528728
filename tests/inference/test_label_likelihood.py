"""The likelihood of labels some of which are wrong, against plain formulas."""

import numpy as np
import pytest
from scipy.special import softmax

from majority.data.labels import BagLabels
from majority.inference.label_likelihood import SHARPNESS, judge_labels, label_log_probs, mean_log_likelihoods


def reference(shares, labels, counts, wrong):
    """One bag and one class at a time: the probability of each winner, and of each label."""
    base = np.log((counts + 1) / (counts + 1).sum())
    n_classes, best = shares.shape[1], None
    for sharpness in SHARPNESS:
        winners = softmax(base + sharpness * (shares - shares.mean(axis=0)), axis=1)
        likelihoods = []
        for bag, label in enumerate(labels):
            others = sum(winners[bag, winner] for winner in range(n_classes) if winner != label)
            likelihoods.append((1 - wrong) * winners[bag, label] + others * wrong / (n_classes - 1))
        if best is None or np.log(likelihoods).mean() > np.log(best[1]).mean():
            best = winners, np.array(likelihoods)
    return best


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.4])
def test_likelihood_and_judgement_equal_sums_over_all_winners(wrong):
    rng = np.random.default_rng(0)
    shares, labels, counts = rng.dirichlet(np.ones(4), 25), rng.integers(4, size=25), np.array([9, 4, 6, 6])
    winners, likelihoods = reference(shares, labels, counts, wrong)
    log_probs, found = label_log_probs(shares, BagLabels(labels), counts, wrong)
    assert np.exp(log_probs) == pytest.approx(winners)
    assert np.exp(found) == pytest.approx(likelihoods)
    judged = judge_labels(shares, BagLabels(labels), counts, wrong)
    right = (1 - wrong) * winners[np.arange(25), labels] / likelihoods
    assert judged.wrong == pytest.approx(1 - right, abs=1e-9)
    assert judged.winner.tolist() == winners.argmax(axis=1).tolist()


@pytest.mark.parametrize("several", [False, True])
def test_counts_with_many_zeros(several):
    """Bags of two instances and more classes than a bag can have; some labels allow two classes."""
    rng = np.random.default_rng(1)
    shares, winners, counts = rng.multinomial(2, np.ones(9) / 9, 30) / 2, rng.integers(9, size=30), np.arange(9)
    allowed = np.eye(9, dtype=bool)[winners]
    if several:
        allowed[:10, 3] = allowed[:10, 4] = True
        winners[:10] = -1
    labels = BagLabels(winners, None, allowed if several else None)
    found = label_log_probs(shares, labels, counts)
    sums = []
    for sharpness in SHARPNESS:
        scores = (counts + 1) * np.exp(sharpness * (shares - shares.mean(axis=0)))
        sums.append(np.log((scores * allowed).sum(axis=1) / scores.sum(axis=1)))
    assert found[1] == pytest.approx(max(sums, key=np.mean))
    assert found[1] == pytest.approx(labels.log_probs(found[0]))
    tried = [0.0, 0.1, 0.3]
    expected = [label_log_probs(shares, labels, counts, wrong)[1].mean() for wrong in tried]
    assert mean_log_likelihoods(shares, labels, counts, tried) == pytest.approx(expected)


def test_a_label_of_several_classes_is_wrong_only_if_none_of_them_has_won():
    shares = np.repeat([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], 5, axis=0)
    winners = np.repeat([0, 1, 2], 5)
    allowed = np.eye(3, dtype=bool)[winners]
    winners[[0, 1]] = -1
    allowed[0], allowed[1] = [True, True, False], [False, True, True]
    judged = judge_labels(shares, BagLabels(winners, None, allowed), np.array([3, 5, 5]), 0.2)
    assert np.flatnonzero(judged.contradicted).tolist() == [1]
