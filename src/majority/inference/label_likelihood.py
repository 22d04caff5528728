"""How well the classes that a classifier predicts in bags explain the labels of these bags, some of them wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..data.bags import Bags
from ..data.labels import BagLabels

SHARPNESS = np.geomspace(0.1, 100, 61)  # values that are tried


def label_log_probs(
    shares: np.ndarray, labels: BagLabels, label_counts: np.ndarray, wrong: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(b, C) predicted shares, labels, (C,) training bags with each label -> (b, C) log-probability that each class has
    won, and (b,) log-likelihood of each label if the share `wrong` of them is wrong.

    P(winner = y) is proportional to f_y exp(s (share_y - mean share of y over the bags)), with f the share of training
    bags with label y, each count plus one. The sharpness s is the same for all bags and has the value with the highest
    likelihood, so that classifiers with soft and with nearly one-hot probabilities can be compared. As f gives the base
    rates and shares are compared with their means, a classifier gains nothing by predicting frequent labels more often:
    it must predict more instances of a class where this class is the label. A wrong label is each of the other classes
    equally often.

    >>> labels, counts = BagLabels(np.array([0, 1, 0, 1])), np.array([2, 2])
    >>> good, none = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]), np.full((4, 2), 0.5)
    >>> label_log_probs(good, labels, counts)[1].round(2) + 0.0
    array([0., 0., 0., 0.])
    >>> label_log_probs(good, labels, counts, wrong=0.2)[1].round(2)
    array([-0.22, -0.22, -0.22, -0.22])
    >>> label_log_probs(none, labels, counts)[1].round(2)
    array([-0.69, -0.69, -0.69, -0.69])
    """
    found = (
        (log_probs, _with_wrong(of_labels, wrong, shares.shape[1]) if wrong else of_labels)
        for log_probs, of_labels in _by_sharpness(shares, labels, label_counts)
    )
    return max(found, key=lambda one: float(one[1].mean()))


def mean_log_likelihoods(
    shares: np.ndarray, labels: BagLabels, label_counts: np.ndarray, wrong: np.ndarray
) -> np.ndarray:  # (w,) shares of wrong labels -> (w,)
    """The mean log-likelihood of the labels by `label_log_probs` for each of several shares of wrong labels.

    >>> labels, counts = BagLabels(np.array([0, 1, 0, 1])), np.array([2, 2])
    >>> good = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    >>> mean_log_likelihoods(good, labels, counts, np.array([0.1, 0.2])).round(2)
    array([-0.11, -0.22])
    """
    best = np.full(len(wrong), -np.inf)
    for _, of_labels in _by_sharpness(shares, labels, label_counts):
        best = np.maximum(best, _with_wrong(of_labels, wrong[:, None], shares.shape[1]).mean(axis=1))
    return best


def _by_sharpness(
    shares: np.ndarray, labels: BagLabels, label_counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(b, C) log-probabilities of winners and (b,) of labels, none of which is wrong, by each sharpness."""
    base = np.log((label_counts + 1) / (label_counts + 1).sum())
    lead = shares - shares.mean(axis=0)
    for sharpness in SHARPNESS:
        scores = sharpness * lead + base
        scores = scores - scores.max(axis=1, keepdims=True)
        scores = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        yield scores, labels.log_probs(scores)


def _with_wrong(of_labels: np.ndarray, wrong: float | np.ndarray, n_classes: int) -> np.ndarray:
    """The log-likelihoods of labels if a share of them, above 0, is wrong."""
    by_chance = wrong / max(n_classes - 1, 1)
    mixed: np.ndarray = np.log((1 - wrong - by_chance) * np.exp(of_labels) + by_chance)
    return mixed


class Judged(NamedTuple):
    """What predicted shares say about labels."""

    wrong: np.ndarray  # (b,) probability that the label is wrong
    winner: np.ndarray  # (b,) the class that has probably won
    winner_probability: np.ndarray  # (b,)
    contradicted: np.ndarray  # (b,) whether the label is probably wrong


def judge_labels(shares: np.ndarray, labels: BagLabels, label_counts: np.ndarray, wrong: float) -> Judged:
    """The probability that each label is wrong, by Bayes' rule, if the share `wrong` of all labels is.

    A label that names several classes is wrong if none of them has won.

    >>> shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1]])
    >>> judged = judge_labels(shares, BagLabels(np.array([0, 0, 1, 1, 1])), np.array([2, 3]), wrong=0.2)
    >>> judged.contradicted.tolist(), judged.winner.tolist()
    ([False, False, False, False, True], [0, 0, 1, 1, 0])
    """
    log_probs, likelihoods = label_log_probs(shares, labels, label_counts, wrong)
    doubt = 1 - (1 - wrong) * np.exp(labels.log_probs(log_probs) - likelihoods)
    winner = log_probs.argmax(axis=1)
    contradicted = (doubt >= 0.5) & ~labels.allows(winner)
    return Judged(doubt, winner, np.exp(log_probs.max(axis=1)), contradicted)


def voting_shares(shares: np.ndarray, bags: Bags) -> tuple[np.ndarray, BagLabels]:
    """The shares and the labels without the background, which no bag has as its label."""
    if bags.background is None:
        return shares, bags.bag_labels
    return np.delete(shares, bags.background, axis=1), bags.bag_labels.without_class(bags.background)
