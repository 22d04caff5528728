"""How well the classes that a classifier predicts in bags explain the labels of these bags, some of them wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import log_softmax

from ..data.bags import Bags
from ..data.labels import BagLabels, join_labels
from ..losses.functional import label_error_rates

SHARPNESS = np.geomspace(0.1, 100, 61)  # values that are tried
RELATIVE, ABSOLUTE = "relative", "absolute"  # kinds of explanations


@dataclass(frozen=True)
class LabelEvidence:
    """What was predicted in bags, and their labels, which it explains.

    A wrong label is each of the other classes equally often. Of the explanations of the given kinds, with many values
    of the sharpness s, which is the same for all bags, the one with the highest likelihood counts:

    relative  P(winner = y) is proportional to f_y exp(s (share_y - mean share of y over the bags)), with f the share of
              training bags with label y, each count plus one. As f gives the base rates and shares are compared with
              their means, a classifier gains nothing by predicting frequent labels more often: it must predict more
              instances of a class where this class is the label.
    absolute  P(winner = y) is proportional to exp(s share_y): the largest share wins, as labels are made. It is better
              where classes have unequal shares and the classifier finds them.

    >>> labels, counts = BagLabels.of([0, 1, 0, 1], 2), np.array([2, 2])
    >>> good = LabelEvidence(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]), labels, counts)
    >>> none = LabelEvidence(np.full((4, 2), 0.5), labels, counts)
    >>> [round(evidence.mean_log_likelihoods([0.0])[0], 2) + 0.0 for evidence in (good, none)]
    [0.0, -0.69]
    """

    shares: np.ndarray  # (b, C) of the classes that vote
    labels: BagLabels
    label_counts: np.ndarray  # (C,) training bags with each label

    def mean_log_likelihoods(
        self, wrong_shares: Iterable[float], kinds: Iterable[str] = (RELATIVE, ABSOLUTE)
    ) -> list[float]:
        """The mean log-likelihood of the labels, by the best explanation, for each of these shares of wrong labels."""
        found = self._log_likelihoods(self._explanations(kinds))
        return [float(self._if_some_are_wrong(found, wrong).mean(axis=1).max()) for wrong in wrong_shares]

    def explain(self, wrong: float, kinds: Iterable[str] = (RELATIVE, ABSOLUTE)) -> tuple[np.ndarray, np.ndarray]:
        """(b, C) log-probability that each class has won, and (b,) log-likelihood of each label, if this share of the
        labels is wrong."""
        explanations = self._explanations(kinds)
        found = self._if_some_are_wrong(self._log_likelihoods(explanations), wrong)
        best = int(found.mean(axis=1).argmax())
        sharpness, log_weights = explanations[best]
        return log_softmax(sharpness * self.shares + log_weights, axis=1), found[best]

    def judge(self, wrong: float) -> Judged:
        """The probability that each label is wrong, by Bayes' rule, if this share of all labels is. A label that names
        several classes is wrong if none of them has won.

        >>> shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1]])
        >>> judged = LabelEvidence(shares, BagLabels.of([0, 0, 1, 1, 1], 2), np.array([2, 3])).judge(wrong=0.2)
        >>> judged.contradicted.tolist(), judged.winner.tolist()
        ([False, False, False, False, True], [0, 0, 1, 1, 0])
        """
        log_probs, likelihoods = self.explain(wrong)
        rates, _ = wrong_rates(self.labels, wrong, self.shares.shape[1])
        doubt = 1 - (1 - rates) * np.exp(self.labels.log_probs(log_probs) - likelihoods)
        winner = log_probs.argmax(axis=1)
        return Judged(doubt, np.exp(log_probs), winner, (doubt >= 0.5) & ~self.labels.allows(winner))

    def _explanations(self, kinds: Iterable[str]) -> list[tuple[float, np.ndarray]]:
        """Each as s and (C,) w: P(winner = y) is proportional to exp(s share_y + w_y)."""
        smoothed, mean = self.label_counts + 1, self.shares.mean(axis=0)
        base = np.log(smoothed / smoothed.sum())
        return [
            (sharpness, base - sharpness * mean if kind == RELATIVE else np.zeros_like(base))
            for kind, sharpness in product(kinds, SHARPNESS)
        ]

    def _log_likelihoods(self, explanations: list[tuple[float, np.ndarray]]) -> np.ndarray:
        """(explanations, b) log-likelihood of each label if none is wrong.

        The weights of an explanation are the same in all bags. So sums over the classes are sums of weights, and only
        shares above 0 are added to them: with thousands of classes, few are.
        """
        bags, classes = np.nonzero(self.shares)
        values, allowed = self.shares[bags, classes], self.labels.allowed
        named = allowed[bags, classes]
        found = np.empty((len(explanations), len(self.shares)))
        for i, (sharpness, log_weights) in enumerate(explanations):
            weights = np.exp(log_weights)  # (C,)
            more = weights[classes] * np.expm1(sharpness * values)
            of_all = weights.sum() + np.bincount(bags, more, len(self.shares))
            of_labels = allowed @ weights
            found[i] = np.log((of_labels + np.bincount(bags[named], more[named], len(self.shares))) / of_all)
        return found

    def _if_some_are_wrong(self, log_likelihoods: np.ndarray, wrong: float) -> np.ndarray:  # (explanations, b)
        if wrong == 0:
            return log_likelihoods
        rates, by_chance = wrong_rates(self.labels, wrong, self.shares.shape[1])
        likelihoods: np.ndarray = np.log((1 - rates - by_chance) * np.exp(log_likelihoods) + by_chance)
        return likelihoods


@dataclass(frozen=True)
class Judged:
    """What predicted shares say about labels."""

    wrong: np.ndarray  # (b,) probability that the label is wrong
    probabilities: np.ndarray  # (b, C) that each class has won
    winner: np.ndarray  # (b,) the class that has probably won
    contradicted: np.ndarray  # (b,) whether the label is probably wrong


def wrong_rates(labels: BagLabels, wrong: float, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(b,) the probability that each label is wrong, and (b,) the likelihood of a wrong label, relative to a right one:
    see `label_error_rates`.

    >>> labels = BagLabels(np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], bool))
    >>> [rates.round(2).tolist() for rates in wrong_rates(labels, 0.1, 3)]
    [[0.1, 0.05, 0.0], [0.05, 0.1, 0.15]]
    """
    rates, by_chance = label_error_rates(labels.allowed.sum(axis=1), wrong, n_classes)
    return rates, by_chance


def voting_shares(shares: np.ndarray, bags: Bags) -> tuple[np.ndarray, BagLabels]:
    """The shares and the labels without the background, which no bag has as its label."""
    if bags.background is None:
        return shares, bags.bag_labels
    return np.delete(shares, bags.background, axis=1), bags.bag_labels.without_classes([bags.background])


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
    joined = join_labels(labels)
    shares = of_classes / np.where(total > 0, total, 1)  # all 0 if no instance votes
    return LabelEvidence(shares, joined, joined.counts)
