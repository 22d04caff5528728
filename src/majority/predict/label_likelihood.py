"""How well the classes that a classifier predicts in bags explain the labels of these bags, some of them wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ..data.bags import Bags
from ..data.labels import BagLabels, join_labels
from ..losses.functional import label_error_rates

SHARPNESS = np.geomspace(0.1, 100, 61)  # values that are tried
RELATIVE, ABSOLUTE = "relative", "absolute"  # kinds of explanations


class Explanation(NamedTuple):
    """How shares explain winners: P(winner = y) is proportional to exp(sharpness * share_y + log_weight_y)."""

    sharpness: float  # the same for all bags, so that soft and nearly one-hot probabilities can be compared
    log_weights: np.ndarray  # (C,)


def label_log_probs(
    shares: np.ndarray,
    labels: BagLabels,
    label_counts: np.ndarray,
    wrong: float = 0.0,
    kinds: Iterable[str] = (RELATIVE,),
) -> tuple[np.ndarray, np.ndarray]:
    """(b, C) predicted shares, labels, (C,) training bags with each label -> (b, C) log-probability that each class has
    won, and (b,) log-likelihood of each label if the share `wrong` of them is wrong. A wrong label is each of the other
    classes equally often.

    Of the explanations of these kinds, with many values of the sharpness s, the one with the highest likelihood counts:

    relative  P(winner = y) is proportional to f_y exp(s (share_y - mean share of y over the bags)), with f the share of
              training bags with label y, each count plus one. As f gives the base rates and shares are compared with
              their means, a classifier gains nothing by predicting frequent labels more often: it must predict more
              instances of a class where this class is the label.
    absolute  P(winner = y) is proportional to exp(s share_y): the largest share wins, as labels are made. It is better
              where classes have unequal shares and the classifier finds them.

    >>> labels, counts = BagLabels.of([0, 1, 0, 1], 2), np.array([2, 2])
    >>> good, none = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]), np.full((4, 2), 0.5)
    >>> label_log_probs(good, labels, counts)[1].round(2) + 0.0
    array([0., 0., 0., 0.])
    >>> label_log_probs(good, labels, counts, wrong=0.2)[1].round(2)
    array([-0.22, -0.22, -0.22, -0.22])
    >>> label_log_probs(none, labels, counts)[1].round(2)
    array([-0.69, -0.69, -0.69, -0.69])
    """
    explanations = _explanations(shares, label_counts, kinds)
    rates, by_chance = wrong_rates(labels, wrong, shares.shape[1])
    found = _with_wrong_labels(_log_likelihoods(shares, labels, explanations), rates, by_chance)
    best = int(found.mean(axis=1).argmax())
    scores = explanations[best].sharpness * shares + explanations[best].log_weights
    scores -= scores.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores, found[best]


def mean_log_likelihoods(
    shares: np.ndarray, labels: BagLabels, label_counts: np.ndarray, wrong_shares: Iterable[float]
) -> list[float]:
    """The mean log-likelihood of the labels for each of these shares of wrong labels, by the best explanation of either
    kind: see `label_log_probs`."""
    found = _log_likelihoods(shares, labels, _explanations(shares, label_counts, (RELATIVE, ABSOLUTE)))
    of_shares = (_with_wrong_labels(found, *wrong_rates(labels, wrong, shares.shape[1])) for wrong in wrong_shares)
    return [float(of_share.mean(axis=1).max()) for of_share in of_shares]


def _explanations(shares: np.ndarray, label_counts: np.ndarray, kinds: Iterable[str]) -> list[Explanation]:
    base, mean = np.log((label_counts + 1) / (label_counts + 1).sum()), shares.mean(axis=0)
    found = []
    for kind, sharpness in product(kinds, SHARPNESS):
        found.append(Explanation(sharpness, base - sharpness * mean if kind == RELATIVE else np.zeros_like(base)))
    return found


def _log_likelihoods(shares: np.ndarray, labels: BagLabels, explanations: Sequence[Explanation]) -> np.ndarray:
    """(explanations, b) log-likelihood of each label if none is wrong.

    The weights of an explanation are the same in all bags. So sums over the classes are sums of weights, and only
    shares above 0 are added to them: with thousands of classes, few are.
    """
    bags, classes = np.nonzero(shares)
    values = shares[bags, classes]
    named = labels.allowed[bags, classes]
    found = np.empty((len(explanations), len(shares)))
    for i, (sharpness, log_weights) in enumerate(explanations):
        weights = np.exp(log_weights)  # (C,)
        more = weights[classes] * np.expm1(sharpness * values)
        of_all = weights.sum() + np.bincount(bags, more, len(shares))
        of_labels = labels.allowed @ weights
        found[i] = np.log((of_labels + np.bincount(bags[named], more[named], len(shares))) / of_all)
    return found


def wrong_rates(labels: BagLabels, wrong: float, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(b,) the probability that each label is wrong, and (b,) the likelihood of a wrong label, relative to a right one:
    see `label_error_rates`.

    >>> labels = BagLabels(np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], bool))
    >>> [rates.round(2).tolist() for rates in wrong_rates(labels, 0.1, 3)]
    [[0.1, 0.05, 0.0], [0.05, 0.1, 0.15]]
    """
    rates, by_chance = label_error_rates(labels.allowed.sum(axis=1), wrong, n_classes)
    return rates, by_chance


def _with_wrong_labels(log_likelihoods: np.ndarray, rates: np.ndarray, by_chance: np.ndarray) -> np.ndarray:
    """(explanations, b) log-likelihoods of right labels, (b,), (b,) -> (explanations, b): see `wrong_rates`."""
    if not rates.any():
        return log_likelihoods
    likelihoods: np.ndarray = np.log((1 - rates - by_chance) * np.exp(log_likelihoods) + by_chance)
    return likelihoods


class Judged(NamedTuple):
    """What predicted shares say about labels."""

    wrong: np.ndarray  # (b,) probability that the label is wrong
    probabilities: np.ndarray  # (b, C) that each class has won
    contradicted: np.ndarray  # (b,) whether the label is probably wrong

    @property
    def winner(self) -> np.ndarray:  # (b,) the class that has probably won
        found: np.ndarray = self.probabilities.argmax(axis=1)
        return found


def judge_labels(shares: np.ndarray, labels: BagLabels, label_counts: np.ndarray, wrong: float) -> Judged:
    """The probability that each label is wrong, by Bayes' rule, if the share `wrong` of all labels is. The best
    explanation of either kind counts: see `label_log_probs`.

    A label that names several classes is wrong if none of them has won.

    >>> shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1]])
    >>> judged = judge_labels(shares, BagLabels.of([0, 0, 1, 1, 1], 2), np.array([2, 3]), wrong=0.2)
    >>> judged.contradicted.tolist(), judged.winner.tolist()
    ([False, False, False, False, True], [0, 0, 1, 1, 0])
    """
    log_probs, likelihoods = label_log_probs(shares, labels, label_counts, wrong, (RELATIVE, ABSOLUTE))
    rates, _ = wrong_rates(labels, wrong, shares.shape[1])
    doubt = 1 - (1 - rates) * np.exp(labels.log_probs(log_probs) - likelihoods)
    contradicted = (doubt >= 0.5) & ~labels.allows(log_probs.argmax(axis=1))
    return Judged(doubt, np.exp(log_probs), contradicted)


def voting_shares(shares: np.ndarray, bags: Bags) -> tuple[np.ndarray, BagLabels]:
    """The shares and the labels without the background, which no bag has as its label."""
    if bags.background is None:
        return shares, bags.bag_labels
    return np.delete(shares, bags.background, axis=1), bags.bag_labels.without_class(bags.background)


class LabelEvidence(NamedTuple):
    """What was predicted in bags, and their labels, which are judged by it."""

    shares: np.ndarray  # (b, C) of the classes that vote
    labels: BagLabels
    label_counts: np.ndarray  # (C,)

    def mean_log_likelihoods(self, wrong_shares: Iterable[float]) -> list[float]:
        return mean_log_likelihoods(*self, wrong_shares)

    def judge(self, wrong: float) -> Judged:
        return judge_labels(*self, wrong)


def label_evidence(parts: Iterable[tuple[np.ndarray, Bags]]) -> LabelEvidence:
    """Of all parts together: (b, C) votes for each class in bags that all have a label.

    >>> bags = Bags.from_lists([np.ones((4, 1))] * 2, labels=["oak", "pine"])
    >>> label_evidence([(np.array([[3, 1], [1, 3]]), bags)]).shares
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    votes, labels = zip(*(voting_shares(of_part, bags) for of_part, bags in parts), strict=True)
    of_classes = np.concatenate(votes)
    total = of_classes.sum(axis=1, keepdims=True)
    shares = of_classes / np.where(total > 0, total, 1)  # all 0 if no instance votes
    joined = join_labels(labels)
    return LabelEvidence(shares, joined, joined.counts)
